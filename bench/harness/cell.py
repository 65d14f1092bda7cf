"""Measures cells over the same stream, one after the other.

Their process loads the stream and asks DuckDB for the expected results, once. It forks a process per cell, which has
these and the imports. So every cell has its own peak memory, and can be ended if it does not return.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.cases.datasets import DataError
from bench.cases.workloads import load
from bench.harness.forked import Say
from bench.harness.machine import one_core
from bench.harness.measure import bytes_per_tuple, measure
from bench.harness.oracle import checked_options, expectation
from bench.spent import spent, taken
from bench.subjects.catalogue import ENGINES
from bench.subjects.resident import map_pages, pages_of_files

GRACE_S = 90.0  # for imports, and the check
Spec = dict[str, Any]
Pages = list[tuple[int, int]]
Apart = Callable[[Callable[[Say], None], float | None], Iterator[tuple[str, Any]]]
"""``bench.harness.forked.forked``, or ``direct``."""


def together(specs: Sequence[Spec], apart: Apart, say: Say) -> None:
    """Measures cells of the same workload, data and options, each ``apart``, and says their results in this order."""
    one, checked = specs[0], any(spec["checked"] for spec in specs)
    taken()
    if checked or not all(ENGINES[spec["engine"]].job for spec in specs):
        with suppress(Exception):  # every cell meets it again, and reports it
            _ = load(one["workload"], one["data"], one["options"]).program
    found = _expected(one, apart) if checked else {}
    shared, pages = taken(), pages_of_files()
    for spec in specs:
        started = time.monotonic()
        more = found if spec["checked"] else {}
        result = more if "status" in more else _alone(spec | more, apart, pages, say)
        inside = dict(result.get("spent_s", {}))
        inside["process"] = time.monotonic() - started - sum(inside.values())
        inside = {kind: round(inside.get(kind, 0.0) + shared.get(kind, 0.0), 3) for kind in inside | shared}
        say("result", result | {"spent_s": inside})
        shared = {}


def _expected(one: Spec, apart: Apart) -> Spec:
    """Returns the ``check`` of cells, or the result of cells that cannot be checked."""
    if find_spec("duckdb") is None:
        return {"status": "skipped", "reason": "checking needs DuckDB (pip install duckdb)"}
    workload, data, options = one["workload"], one["data"], one["options"]
    try:
        load(workload, data, checked_options(workload, options))
    except DataError as error:
        return {"status": "skipped", "reason": str(error)}
    except Exception:
        pass  # DuckDB's process meets it again, and says it
    with spent("expect"):
        ((kind, value), *_) = apart(lambda say: say("expected", expectation(workload, data, options)), GRACE_S)
    if kind != "expected":
        return {"status": "failed", "reason": f"DuckDB did not say what to expect: {value}"}
    return {"check": value}


def _alone(spec: Spec, apart: Apart, pages: Pages, say: Say) -> Spec:
    """Returns the result of a cell that is measured ``apart``; says its ``progress``."""
    reached, result = "before its first update", None
    for kind, value in apart(partial(_measured, spec, pages), spec["bound_s"] * (spec["repeats"] + 1) + GRACE_S):
        if kind == "progress":
            say(kind, value)
            reached = f"after {value[0]:,} of {value[1]:,} updates"
        elif kind == "result":
            result = dict(value)
        elif result is None:
            result = {"status": kind, "reason": f"{value}, {reached}"}
    assert result is not None
    return result


def _measured(spec: Spec, pages: Pages, say: Say) -> None:
    map_pages(pages)
    paths = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # of the processes that engines start
    last = 0.0

    def progress(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.2:
            last = time.monotonic()
            say("progress", (done, of))

    taken()
    result = run(spec, progress)
    say("result", result | {"spent_s": taken()})


def run(spec: Spec, progress: Callable[[int, int], None]) -> Spec:
    """Measures the cell in this process. With ``one_core`` in the cell, stays on one core."""
    entry = ENGINES[spec["engine"]]
    if entry.job:
        result: Spec = entry.load()(spec, progress)
    else:
        with one_core() if spec.get("one_core") else nullcontext():
            result = measure(
                spec, lambda loaded: entry.subject(loaded, spec["mode"], **spec.get("arguments", {})), progress
            )
    return result | {"bytes_per_tuple": bytes_per_tuple(result)}
