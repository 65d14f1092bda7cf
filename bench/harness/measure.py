"""Measuring one cell: one workload, one engine, one mode, in this process.

First the check, which also warms up: a short stream over the same data with the same query, whose result must agree
with DuckDB in count and checksum at every checkpoint. Then the timed runs, each with a fresh engine. What counts is
the time inside ``apply`` alone: cutting the stream into Arrow batches happens before, sampling memory between batches.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.cases.streams import Batch, Stream
from bench.cases.workloads import Loaded, load
from bench.harness import machine
from bench.subjects.subject import SkipError, Subject

SAMPLES = 100  # points of a series
PRELOAD_ROWS = 100_000
WORK = ("touched", "r_updates", "s_updates", "p_updates", "live_flips", "steps", "blocks", "emitted")
MARKS = 10  # full enumerations over a stream, mode *full*
Progress = Callable[[int, int], None]
Make = Callable[[Loaded], Subject]


def measure(spec: dict[str, Any], make: Make, progress: Progress) -> dict[str, Any]:
    """The result of a cell (see ``bench.harness.results``). Never raises for what an engine does; the status says
    it."""
    result: dict[str, Any] = {"status": "ok", "check": {"status": "not asked for"}}
    try:
        if spec.get("check"):
            result["check"] = _check(spec, make)
            if result["check"]["status"] == "failed":
                return result | {"status": "wrong", "reason": result["check"]["reason"]}
        loaded = load(spec["workload"], spec.get("data"), spec.get("options"))
        result |= {"data": loaded.stream.title, "of": len(loaded.stream)}
        return result | _timed(spec, make, loaded, progress)
    except SkipError as error:
        return result | {"status": "skipped", "reason": str(error)}
    except (Exception, MemoryError) as error:
        text = str(error).splitlines()[0] if str(error) else ""
        return result | {"status": "failed", "reason": f"{type(error).__name__}: {text}"[:300]}


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


def _timed(spec: dict[str, Any], make: Make, loaded: Loaded, progress: Progress) -> dict[str, Any]:
    rows, stream = spec["batch_rows"], loaded.stream
    preload = min(spec.get("preload", 0), len(stream))
    batches = list(stream.batches(rows, preload))
    runs: list[dict[str, Any]] = []
    spent = 0.0
    for repeat in range(spec.get("repeats", 1)):
        if repeat and spent * (repeat + 1) / repeat > spec.get("repeat_budget_s", 30.0):
            break
        subject = make(loaded)
        for start in range(0, preload, PRELOAD_ROWS):
            subject.load(stream.batch(start, min(start + PRELOAD_ROWS, preload)))
            progress(start, len(stream))
        # The first batch after loading still sets things up (live views, say): it is not measured.
        skipped = min(1, len(batches) - 1) if preload else 0
        for batch in batches[:skipped]:
            subject.apply(batch)
        run = _run(spec, subject, stream, preload + skipped * rows, batches[skipped:], progress)
        runs.append(run)
        spent += run["seconds"]
        if run["status"] != "ok":
            break
    best = min(runs, key=lambda run: run["seconds"])
    seconds = [run["seconds"] for run in runs]
    middle = statistics.median(seconds)
    done = best["updates"]
    out = {
        "status": best["status"],
        "updates": done,
        "repeats": len(runs),
        "seconds": [round(s, 4) for s in seconds],
        "cpu_seconds": [round(run["cpu"], 4) for run in runs],
        "updates_per_s": done / best["seconds"],
        "updates_per_s_median": done / middle,
        "deltas": best["deltas"],
        "deltas_per_s": best["deltas"] / best["seconds"],
        "latency_ms": best["latency_ms"],
        "series": best["series"],
        "rss_peak": max(run["rss_peak"] for run in runs),
        "rss_before": runs[0]["rss_before"],
        "state_peak_bytes": best["state_peak"],
        "bytes_per_row": best["bytes_per_row"],
        "stats": best["stats"],
        "work": best["work"],
        "amplification": best["work"].get("touched", 0) / max(done, 1) or None,
    }
    if best["status"] == "timeout":
        out["reason"] = f"stopped after {best['seconds']:.0f} s with {done:,} of {len(stream):,} updates done"
    if best["enumerations"]:
        sizes, times = zip(*best["enumerations"], strict=True)
        out["enumerated"] = int(sum(sizes))
        out["enumerated_per_s"] = sum(sizes) / sum(times)
        out["enumeration_s"] = sum(times)
    return out


def _run(
    spec: dict[str, Any], subject: Subject, stream: Stream, preload: int, batches: list[Batch], progress: Progress
) -> dict[str, Any]:
    """One pass over the stream from update ``preload`` on."""
    rows, bound = spec["batch_rows"], spec.get("bound_s", 60.0)
    every = max(len(batches) // SAMPLES, 1)
    mark = max(len(batches) // MARKS, 1)
    live = np.cumsum(stream.weight)
    times: list[float] = []
    series: dict[str, list[float]] = {"position": [], "latency_ms": [], "rss": [], "state": [], "live": []}
    enumerations: list[tuple[int, float]] = []
    deltas, spent, state_peak, per_row = 0, 0.0, 0, None
    loaded_stats = subject.stats()
    gc.collect()
    machine.reset_peak()
    rss_before, cpu = machine.rss(), time.process_time()
    status = "ok"
    for i, batch in enumerate(batches):
        started = time.perf_counter()
        deltas += subject.apply(batch)
        took = time.perf_counter() - started
        times.append(took)
        spent += took
        if spec["mode"] == "full" and (i + 1) % mark == 0:
            started = time.perf_counter()
            size = subject.enumerate()
            enumerations.append((size, time.perf_counter() - started))
        done = min(preload + (i + 1) * rows, len(stream))
        if i % every == 0 or i == len(batches) - 1:
            state = subject.state_bytes()
            series["position"].append(done)
            series["latency_ms"].append(round(1000 * float(np.mean(times[-every:])), 4))
            series["rss"].append(machine.rss())
            series["live"].append(int(live[done - 1]))
            if state is not None:
                series["state"].append(state)
                if state > state_peak:
                    state_peak = state
                    kept = subject.stats().get("input_rows") or live[done - 1]
                    per_row = state / max(int(kept), 1)
            progress(done, len(stream))
        if spent > bound and done < len(stream):
            status = "timeout"
            break
    cpu = time.process_time() - cpu
    peak = machine.peak_rss()
    stats = subject.stats()
    subject.close()
    p50, p95, p99 = (1000 * float(v) for v in np.percentile(times, (50, 95, 99)))
    return {
        "status": status,
        "seconds": spent,
        "cpu": cpu,
        "updates": min(len(times) * rows, len(stream) - preload),
        "deltas": deltas,
        "enumerations": enumerations,
        "latency_ms": {"p50": p50, "p95": p95, "p99": p99, "max": 1000 * max(times), "first": 1000 * times[0]},
        "series": series,
        "rss_before": rss_before,
        "rss_peak": peak,
        "state_peak": state_peak or None,
        "bytes_per_row": per_row,
        "stats": stats,
        "work": {name: stats[name] - loaded_stats[name] for name in WORK if name in stats},
    }
