"""Speed of the triangle count on one core, compared with the same algorithm in plain Python and other strategies.

The timed part, in processor seconds, is the calls that apply every update, without building the arrays of updates,
compiling and a warm-up pass. The graph stream is that of the other sections, without the end, in which the last window
drains. *One copy* stores the edges once (d(E E E) is 3 m E E, and more for loops), *three copies* applies every edge to
R, S and T. Plain Python does first-order maintenance with dictionaries, in both forms. A *toggle* inserts and deletes
the one tuple for which an adversarial instance is hard.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.cases.streams import Stream
from bench.cases.triangles import hub_wall
from bench.cases.workloads import load
from bench.spent import spent
from bench.subjects.subject import Progress
from bench.subjects.triangle.plain import PlainCount
from ivm_triangle import Triangle

WARM_ROWS = 20_000
Counter = Triangle | PlainCount


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Returns the result of a cell; ``arguments``: ``copies`` of the edges, or ``k`` of the hub wall and a strategy."""
    result: dict[str, Any] = {"status": "ok", "check": {"status": "not asked for"}}
    if spec["mode"] == "toggle":
        return result | _toggles(spec, progress)
    if spec.get("check"):
        result["check"] = _check(spec)
        if result["check"]["status"] == "failed":
            return result | {"status": "wrong", "reason": result["check"]["reason"]}
    return result | _graph(spec, progress)


def rows_of(stream: Stream, copies: int) -> np.ndarray:
    """Returns int64[n, 4], rows (relation, x, y, m) of a stream of edges, each ``copies`` times in a row."""
    (edges,) = stream.tables.values()
    ends = np.stack([column.to_numpy() for column in edges.columns], axis=1)[stream.row]
    rows = np.empty((copies * len(stream), 4), np.int64)
    for k in range(copies):
        rows[k::copies] = np.column_stack([np.full(len(stream), k), ends, stream.weight])
    return rows


def maker(engine: str, copies: int, **options: Any) -> Callable[[], Counter]:
    """Returns a function that makes an empty count: this project's, or the one in plain Python."""
    if engine == "triangle-python":
        return lambda: PlainCount(copies)
    if copies == 1:
        options["edges"] = "E"
    return lambda: Triangle(**options)


def apply(counter: Counter, rows: np.ndarray, batch: int | None) -> float:
    """Applies all rows, one by one or in batches of ``batch`` rows. Returns the processor seconds it took."""
    if isinstance(counter, PlainCount):
        listed = rows.tolist()
        started = time.process_time()
        counter.replay(listed)
    elif batch is None:
        started = time.process_time()
        counter.replay_codes(rows)
    else:
        started = time.process_time()
        for start in range(0, len(rows), batch):
            counter.apply_codes(rows[start : start + batch])
    return time.process_time() - started


def _batch(spec: dict[str, Any]) -> int | None:
    return spec["batch_rows"] * spec["arguments"]["copies"] if spec["mode"] == "batches" else None


@spent("check")
def _check(spec: dict[str, Any]) -> dict[str, Any]:
    """Compares the count at the checkpoints of a short stream with DuckDB's."""
    stream = load(spec["workload"], spec.get("data"), spec["check"]["options"]).stream
    copies = spec["arguments"]["copies"]
    rows, counter, at = rows_of(stream, copies), maker(spec["engine"], copies)(), 0
    for position, count, _ in spec["check"]["expected"]:
        apply(counter, rows[copies * at : copies * position], _batch(spec))
        at = position
        if counter.count() != count:
            reason = f"after {position:,} updates: {counter.count():,} triangles; DuckDB has {count:,}"
            return {"status": "failed", "reason": reason}
    expected = spec["check"]["expected"]
    return {"status": "passed", "positions": [row[0] for row in expected], "rows": max(row[1] for row in expected)}


def _graph(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    stream = load(spec["workload"], spec.get("data"), spec["options"]).stream
    stream = stream.head(int(np.flatnonzero(stream.weight > 0)[-1]) + 1)
    copies = spec["arguments"]["copies"]
    make, rows = maker(spec["engine"], copies), rows_of(stream, copies)
    apply(make(), rows[: copies * WARM_ROWS], _batch(spec))
    times: list[float] = []
    counter = make()
    for repeat in range(spec["repeats"]):
        counter = make()
        times.append(apply(counter, rows, _batch(spec)))
        progress(repeat + 1, spec["repeats"])
    out = _rates(times, len(stream)) | {"data": stream.title, "results": counter.count()}
    if isinstance(counter, Triangle):
        stats = counter.stats()
        out |= {"state_peak_bytes": stats["bytes"], "live_tuples": stats["size"]}
        out["amplification"] = stats["operations"] / len(stream)
    return out


def _toggles(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Returns the measurements of toggles of R(0, 0) on the hub wall, by strategy."""
    options = {name: value for name, value in spec["arguments"].items() if name != "k"}
    loaded, updates = hub_wall(spec["arguments"]["k"])
    triangle = Triangle(**options)
    triangle.apply_codes(loaded)
    triangle.replay_codes(updates)
    many = np.tile(updates, (30 if options.get("strategy") == "classical" else 10_000, 1))
    times: list[float] = []
    for repeat in range(spec["repeats"]):
        times.append(apply(triangle, many, None))
        progress(repeat + 1, spec["repeats"])
    stats = triangle.stats()
    out = _rates(times, len(many))
    wall = f"hub wall, N = {len(loaded):,}"
    return out | {"data": wall, "state_peak_bytes": stats["bytes"], "live_tuples": stats["size"]}


def _rates(times: list[float], updates: int) -> dict[str, Any]:
    return {
        "of": updates,
        "updates": updates,
        "repeats": len(times),
        "seconds": [round(s, 5) for s in times],
        "updates_per_s": updates / min(times),
        "updates_per_s_median": updates / statistics.median(times),
        "updates_per_s_all": [round(updates / s, 1) for s in times],
    }
