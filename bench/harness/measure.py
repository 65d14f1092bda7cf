"""Measures one cell: one workload, one engine, one mode, in this process.

First the check: a short stream over the same data with the same query, whose result must equal DuckDB's in count and
checksum at every checkpoint. Then a warm-up pass over the beginning of the stream, the same for every engine, which is
not timed. Then the timed passes, each with a fresh engine (see ``bench.harness.passes``).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.cases.datasets import DataError
from bench.cases.streams import Stream
from bench.cases.workloads import Loaded, load
from bench.harness.passes import ENUMERATING, Pass, one_pass
from bench.spent import spent
from bench.subjects.peers import foreign
from bench.subjects.subject import Progress, SkipError, Subject

PRELOAD_ROWS = 100_000
WARM_ROWS = 20_000  # updates of the warm-up pass, at least two batches
WARM_S = 2.0  # the warm-up ends after the batch that exceeds this time
Make = Callable[[Loaded], Subject]


def measure(spec: dict[str, Any], make: Make, progress: Progress) -> dict[str, Any]:
    """Returns the result of a cell (see ``bench.harness.results``). Never raises for an engine's error, which the
    status reports.
    """
    result: dict[str, Any] = {"status": "ok", "check": {"status": "not asked for"}}
    try:
        if spec.get("check"):
            result["check"] = _check(spec, make)
            if result["check"]["status"] == "failed":
                return result | {"status": "wrong", "reason": result["check"]["reason"]}
        loaded = load(spec["workload"], spec.get("data"), spec.get("options"))
        result |= {"data": loaded.stream.title, "of": len(loaded.stream)}
        return result | _timed(spec, make, loaded, progress)
    except (DataError, SkipError) as error:
        return result | {"status": "skipped", "reason": str(error)}
    except (Exception, MemoryError) as error:
        text = str(error).splitlines()[0] if str(error) else ""
        return result | {"status": "failed", "reason": f"{type(error).__name__}: {text}"[:300]}


def bytes_per_tuple(result: dict[str, Any]) -> float | None:
    """Returns the bytes of state per live input tuple, at the moment of the largest state; None if unknown.

    A live input tuple is a row of a table of the stream that was inserted and not deleted. It counts once, regardless
    of the number of aliases that read it and of the engine's representation, so the figure means the same for every
    engine.
    """
    state, live = result.get("state_peak_bytes"), result.get("live_tuples")
    return None if state is None or live is None else state / max(live, 1)


@spent("check")
def _check(spec: dict[str, Any], make: Make) -> dict[str, Any]:
    check = spec["check"]
    loaded = load(spec["workload"], spec.get("data"), check["options"])
    subject = make(loaded)
    try:
        try:
            subject.checking()
        except SkipError as error:
            return {"status": "unchecked", "reason": str(error)}
        at = 0
        for position, count, checksum in check["expected"]:
            while at < position:
                stop = min(at + spec["batch_rows"], position)
                subject.apply(loaded.stream.batch(at, stop))
                at = stop
            totals = subject.totals()
            if totals.count != count or totals.checksum not in (None, checksum):
                reason = (
                    f"after {position:,} updates: {totals.count:,} rows, checksum {totals.checksum}; "
                    f"DuckDB has {count:,} rows, checksum {checksum}"
                )
                return {"status": "failed", "reason": reason}
    finally:
        subject.close()
    return {
        "status": "passed",
        "positions": [row[0] for row in check["expected"]],
        "rows": max(row[1] for row in check["expected"]),
    }


@spent("timed")
def _timed(spec: dict[str, Any], make: Make, loaded: Loaded, progress: Progress) -> dict[str, Any]:
    rows, stream = spec["batch_rows"], loaded.stream
    preload = min(spec.get("preload", loaded.first), len(stream))
    batches = list(stream.batches(rows, preload))
    warmed = _warm_up(spec, make(loaded), stream)
    passes: list[Pass] = []
    skipped = min(_uncounted(spec, stream, preload), len(batches) - 1)
    passed = 0.0
    for repeat in range(spec.get("repeats", 1)):
        if repeat and passed * (repeat + 1) / repeat > spec.get("repeat_budget_s", 30.0):
            break
        subject = make(loaded)
        for start in range(0, preload, PRELOAD_ROWS):
            subject.load(stream.batch(start, min(start + PRELOAD_ROWS, preload)))
            progress(start, len(stream))
        for batch in batches[:skipped]:
            subject.apply(batch)
        passes.append(one_pass(spec, subject, stream, preload + skipped * rows, batches[skipped:], progress))
        passed += passes[-1].seconds
        if passes[-1].status != "ok":
            break
    counted = len(stream) - preload - (skipped * rows if spec.get("counted_as_elsewhere") else 0)
    return _summary(passes, counted, spec["mode"]) | {"warm_up_updates": warmed, "of": counted}


def _uncounted(spec: dict[str, Any], stream: Stream, preload: int) -> int:
    """Returns the number of batches of a pass before those that count."""
    if spec.get("counted_as_elsewhere"):
        return -(-foreign.warm_rows(len(stream) - preload) // int(spec["batch_rows"]))
    return int(bool(spec.get("preload")))  # the first one after loading still sets things up, such as live views


@spent("warm_up")
def _warm_up(spec: dict[str, Any], subject: Subject, stream: Stream) -> int:
    """Applies the beginning of the stream with an engine that is discarded. Returns the number of updates."""
    rows, started, done = spec["batch_rows"], time.perf_counter(), 0
    stop = min(max(spec.get("warm_rows", WARM_ROWS), 2 * rows), len(stream))
    while done < stop:
        subject.apply(stream.batch(done, done + rows))
        done = min(done + rows, len(stream))
        if time.perf_counter() - started > WARM_S:
            break
    if spec["mode"] in ENUMERATING:
        subject.enumerate()
    subject.close()
    return done


def _summary(passes: list[Pass], of: int, mode: str) -> dict[str, Any]:
    """Returns the fields of a result: those of the fastest pass, and the spread over all passes."""
    best = min(passes, key=lambda one: one.seconds)
    seconds = [one.seconds for one in passes]
    done = best.updates
    out = {
        "status": best.status,
        "updates": done,
        "repeats": len(passes),
        "seconds": [round(s, 4) for s in seconds],
        "cpu_seconds": [round(one.cpu, 4) for one in passes],
        "updates_per_s": done / best.seconds,
        "updates_per_s_median": done / statistics.median(seconds),
        "updates_per_s_all": [round(one.updates / one.seconds, 1) for one in passes],
        "deltas": best.deltas,
        "deltas_per_s": best.deltas / best.seconds,
        "latency_ms": best.latency_ms,
        "series": best.series,
        "rss_peak": max(one.rss_peak for one in passes),
        "rss_before": passes[0].rss_before,
        "state_peak_bytes": best.fullest.state,
        "live_tuples": best.fullest.live,
        "stats": best.stats,
        "work": best.work,
        "amplification": best.work.get("touched", 0) / max(done, 1) or None,
    }
    if best.status == "timeout":
        out["reason"] = f"stopped after {best.seconds:.0f} s with {done:,} of {of:,} updates done"
    if best.enumerations and mode == "count":
        ((out["results"], out["count_s"]),) = best.enumerations
    elif best.enumerations:
        sizes, times = zip(*best.enumerations, strict=True)
        out["enumerated"] = int(sum(sizes))
        out["enumerated_per_s"] = sum(sizes) / sum(times)
        out["enumeration_s"] = sum(times)
    return out
