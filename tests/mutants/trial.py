"""One fault, in a process of its own: the function is replaced where it stands, and the tests run until one fails.

The product is imported once, without tests, and each trial is a fork of that process. The tests are imported after the
function was replaced, so that what they make at import is made by it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.faults import Fault
from tests.mutants.rooms import ROOT

DIED, SURVIVED, TOO_LONG, BROKEN = "died", "survived", "took too long", "could not be tried"
_WITHOUT = ("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_BYTES = 6 << 30  # a fault that takes more memory is noticed


def import_product() -> None:
    """Imports what tests would import, so that each trial has it already."""
    import duckdb  # noqa: F401
    import hypothesis  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401

    for package in ("plans", "crown", "ivm_triangle"):
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if "commands" not in module.name and "catalyst" not in module.name and "__main__" not in module.name:
                importlib.import_module(module.name)


class Chosen:
    """A plugin of pytest: these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: i for i, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves the others out."""
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])


def trial(file: str, fault: Fault | None, tests: list[str], seconds: float, log: Path) -> str:
    """Runs tests with a fault, or without, and returns what became of it; ``log`` says how a test failed.

    ``seconds`` are of its processor time, as other work may go on beside it; it waits for something if it takes ten
    times as long by the clock.
    """
    child = os.fork()
    if child == 0:
        _run(file, fault, tests, log)
    end = time.monotonic() + 10 * seconds
    while time.monotonic() < end and _took(child) < seconds and _resident(child) < _BYTES:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return BROKEN if code == 99 else SURVIVED if code == 0 else DIED
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TOO_LONG


def _took(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text().split()
    return int(pages[1]) * resource.getpagesize() if len(pages) > 1 else 0


def _run(file: str, fault: Fault | None, tests: list[str], log: Path) -> None:
    code = 99
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if fault is None or _replaced(file, fault):
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            options = ["-x", "-q", "--tb=short", *_WITHOUT]
            code = int(pytest.main([*options, *files], plugins=[Chosen(tests)]))
            code = 99 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code
    finally:
        if code == 99:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _replaced(file: str, fault: Fault) -> bool:
    """Puts the code with the fault into every function that was made of the code without; True iff there is one."""
    path = str(ROOT / file)
    made = compile(fault.applied(Path(path).read_text()), path, "exec", dont_inherit=True)
    (code,) = [one for one in _functions(made) if one.co_qualname == fault.function and _line(one) == fault.first]
    found = False
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == path:
            if one.__code__.co_qualname == fault.function and _line(one.__code__) == fault.first:
                one.__code__ = code
                found = True
        elif isinstance(one, functools._lru_cache_wrapper):
            with contextlib.suppress(Exception):
                one.cache_clear()  # it may hold what the right code made
    return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yields the code of functions of a module, and of methods."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _functions(one)


def _line(code: CodeType) -> int:
    return code.co_firstlineno
