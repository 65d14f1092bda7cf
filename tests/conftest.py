"""Profiles of the random tests: the same short examples every time by default, a long random campaign on demand.

pytest                                              a few seconds per property, reproducible
pytest -m slow --hypothesis-profile=campaign        thousands of examples, other ones each time
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("short", max_examples=40, derandomize=True, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile(
    "campaign", max_examples=2_000, deadline=None, suppress_health_check=_PATIENT, print_blob=True
)
settings.load_profile("short")
_LONG = {"spark", "bench"}


def pytest_configure(config: pytest.Config) -> None:
    """Kernels count and hash modulo 2^64 on purpose; as plain Python, NumPy warns of that."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before parallel workers start, one process sees to the kernels that they all need.

    Where nothing is compiled yet, each of them would compile the same kernels at the same time, on the same cores.
    """
    option = session.config.option
    if getattr(option, "numprocesses", None) and not hasattr(session.config, "workerinput") and not option.collectonly:
        from crown.engine.kernels.warm import ensure_compiled
        from ivm_triangle.kernels import warm

        ensure_compiled(weighed=True, padded=True)
        for streaming in (False, True):
            warm.ensure_compiled(streaming)


def pytest_collection_finish() -> None:
    """Ten thousand collected tests are not looked through again by every run of the garbage collector.

    That took a third of the processor time of the test process.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At its end the process clears away all there is, as ever."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``slow`` out unless the command line chooses by marker.

    Files that start Spark or other processes come first: they are the longest, and the last file of a parallel run has
    a core for itself alone.
    """
    items.sort(key=lambda item: _LONG.isdisjoint(item.path.relative_to(Path(__file__).parent).parts))
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
