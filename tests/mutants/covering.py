"""A plugin of pytest that writes down which functions of the product each test calls, and how long it takes.

``CROWN_COVERING``: the file that is written. A file of tests is given eight seconds of processor time, a
test three; what takes longer is not asked about faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutants.rooms import ROOT

PER_FILE, PER_TEST = 8.0, 3.0
_PACKAGES = tuple(f"{ROOT / name}/" for name in ("crown", "plans"))


class Covering:
    """What was called and how long it took, by test."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        self.tests: dict[str, tuple[float, list[int]]] = {}
        self.functions: dict[str, int] = {}
        self.spent: dict[str, float] = {}

    def trace(self, frame: FrameType, event: str, arg: object) -> None:
        """Notes a call; lines are not looked at."""
        self.seen.add(frame.f_code)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests that start Spark are left out; eight seconds are to see something of everything that a file has."""
        items[:] = [item for item in items if not item.get_closest_marker("spark")]
        items.sort(key=lambda item: (str(item.path), hashlib.sha256(item.nodeid.encode()).digest()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Runs a test while calls are noted."""
        file = str(item.path)
        self.seen = set()
        self.passed = False
        start = time.process_time()
        before = signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, PER_TEST)
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            done = yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
        took = time.process_time() - start
        self.spent[file] = self.spent.get(file, 0.0) + took
        if self.passed:
            called = {_name(code) for code in self.seen if code.co_filename.startswith(_PACKAGES)}
            numbers = sorted(self.functions.setdefault(name, len(self.functions)) for name in called)
            self.tests[item.nodeid] = round(took, 3), numbers
        return done

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leaves the rest of a file out that had its time."""
        if self.spent.get(str(item.path), 0.0) > PER_FILE:
            pytest.skip("the file had its time")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Only tests that pass can notice a fault."""
        if report.when == "call":
            self.passed = report.passed

    def pytest_unconfigure(self) -> None:
        """Writes it all down."""
        found = {"functions": list(self.functions), "tests": self.tests}
        with open(os.environ["CROWN_COVERING"], "w") as file:
            json.dump(found, file)


def _name(code: CodeType) -> str:
    outermost = code.co_qualname.partition(".<locals>")[0]
    return f"{os.path.relpath(code.co_filename, ROOT)}:{outermost}"


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError("this takes too long to be asked about every fault")


def pytest_configure(config: pytest.Config) -> None:
    """Takes part in this run."""
    config.pluginmanager.register(Covering(), "covering")
