"""Profiles of the random tests: the same short examples every time by default, a long random campaign on demand.

pytest                                              a few seconds per property, reproducible
pytest -m slow --hypothesis-profile=campaign        hundreds of examples, other ones each time (``tests.campaign``)
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from crown.engine.kernels import layout
from plans.expressions.functions import user
from tests import campaign
from tests.spark import class_data

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("short", max_examples=16, derandomize=True, deadline=None, suppress_health_check=_PATIENT)
settings.load_profile("short")
_LONG = {"spark", "bench"}
_CACHED = layout.CACHED
_SET_BY_OTHERS = ("PYTEST_", "PYSPARK_", "SPARK_")
_READ_BY_TESTS = ("CROWN_", "NUMBA_", "AWS_", "AZURE_", "GOOGLE_", "PYICEBERG_")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis looks the profile up
def pytest_configure(config: pytest.Config) -> None:
    """Compiled sources are kept, even where the environment says otherwise (many containers do).

    The workers, and some hundred processes that tests start, would compile everything again.
    The campaign has the size that the environment says, and other examples each time, on a build server as well.

    Shells start what runs in the background with Ctrl-C ignored, which tests of Ctrl-C must not inherit.
    Parallel workers find its first seed in their environment. Kernels count and hash modulo 2^64 on purpose; as plain
    Python, NumPy warns of that.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--hypothesis-profile") == "campaign" and not campaign.is_running():
        os.environ[campaign.SEED] = str(random.SystemRandom().randrange(10_000, 100_000_000))
    try:
        size, _ = campaign.examples(), campaign.first_seed()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    settings.register_profile(
        "campaign",
        max_examples=size,
        derandomize=False,
        deadline=None,
        suppress_health_check=_PATIENT,
        print_blob=True,
    )
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before parallel workers start, one process sees to the kernels and the classes of Java that they all need.

    Where nothing is compiled yet, each of them would compile the same kernels at the same time, on the same cores. All
    tests call most kernels; of some files, only those that they call are compiled.
    """
    option = session.config.option
    some = session.config.args_source is pytest.Config.ArgsSource.ARGS
    if getattr(option, "numprocesses", None) and not hasattr(session.config, "workerinput") and not option.collectonly:
        from tests.compiling.prebuilt import ensure_library

        archived = threading.Thread(target=class_data.ensure_archive)
        archived.start()
        if some or not ensure_library():
            from crown.engine.kernels.warm import ensure_view_compiled
            from ivm_triangle.kernels.warm import ensure_triangle_compiled

            ensure_view_compiled(weighed=True, padded=True)
            for streaming in (False, True):
                ensure_triangle_compiled(streaming)
        archived.join()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Files are given to workers such that few of them start Spark and servers."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.schedule import ByKind

    return ByKind(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand collected tests are not looked through by the garbage collector: not now, not later, not at the end.

    That took a third of the processor time of the test process, and 3 s of each worker at its end. Trees of syntax, of
    which tests make many, are garbage soon: to look for it less often saves another twentieth.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(10_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A campaign says how large it was, and how its seeds are tried again."""
    if campaign.is_running():
        again = f"{campaign.SEED}={campaign.first_seed()}"
        terminalreporter.write_line(
            f"campaign of {campaign.examples()} examples per property; the same seeds again: set {again}"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``slow`` out unless the command line chooses by marker.

    Files that start Spark or other processes come first: they are the longest, and the last file of a parallel run has
    a core for itself alone. A campaign includes the files whose streams are longer in it, or whose examples are more.
    """
    home = len(Path(__file__).parent.parts)
    long = {path: not _LONG.isdisjoint(path.parts[home:]) for path in {item.path for item in items}}
    items.sort(key=lambda item: not long[item.path])
    for item in items if campaign.is_running() else ():
        if any(hasattr(getattr(item, "module", None), name) for name in ("turns", "draws")):
            item.add_marker("slow")
    if config.option.markexpr:
        return
    slow, kept = [], []
    for item in items:
        (slow if item.get_closest_marker("slow") else kept).append(item)
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """In every other test, engines look ahead at any size, as they do for states that no cache holds."""
    layout.CACHED = _CACHED if zlib.crc32(item.nodeid.encode()) & 1 else 0


@pytest.fixture(scope="session", autouse=True)
def quick_jvms() -> Iterator[None]:
    """Options of every JVM that a test starts for Spark, in this process or in one of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", class_data.options())
        yield


@pytest.fixture(scope="module", autouse=True)
def own_functions() -> Iterator[None]:
    """Forgets the functions that a file of tests registers: a kept analysis depends on all that there are."""
    before = dict(user.NAMED)
    yield
    user.NAMED.clear()
    user.NAMED.update(before)


@pytest.fixture(scope="module", autouse=True)
def same_surroundings() -> Iterator[None]:
    """Fails in a file of tests that changes the environment or the working directory for other files. Some packages set
    variables of their own when they are imported first."""
    before, folder = dict(os.environ), os.getcwd()
    yield
    after = dict(os.environ)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    left = {name for name in changed if name in before or name.startswith(_READ_BY_TESTS)}
    left = {name for name in left if not name.startswith(_SET_BY_OTHERS)}
    assert not left, f"this file changes for others: {', '.join(sorted(left))}"
    assert os.getcwd() == folder, f"this file leaves the working directory {folder}"


@pytest.fixture
def impatient() -> Iterator[None]:
    """Ends a test that would not come to its end."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError("this goes on and on")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(300)  # by the clock, of a machine that may be busy
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
