"""One timed pass of an engine over a stream, and the samples taken during the pass.

Only the time inside ``apply`` counts: the stream is cut into Arrow batches before, and memory is sampled between
batches.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.cases.streams import Batch, Stream
from bench.subjects import resident
from bench.subjects.subject import Progress, Subject

SAMPLES = 100  # points of a series
MARKS = 10  # full enumerations over a stream, mode *full*
ENUMERATING = ("full", "count")
WORK = ("touched", "r_updates", "s_updates", "p_updates", "live_flips", "steps", "blocks", "emitted")


@dataclass
class Fullest:
    """The moment of the largest state: its bytes, and the live tuples of the stream's tables then."""

    state: int | None = None
    live: int | None = None

    def see(self, state: int, live: int) -> None:
        """Records a moment."""
        if self.state is None or state > self.state:
            self.state, self.live = state, live


@dataclass
class Pass:
    """The measurements of one pass; sizes in bytes, ``seconds`` inside ``apply``."""

    status: str = "ok"
    seconds: float = 0.0
    cpu: float = 0.0
    updates: int = 0
    deltas: int = 0
    enumerations: list[tuple[int, float]] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    rss_before: int = 0
    rss_peak: int = 0
    fullest: Fullest = field(default_factory=Fullest)
    stats: dict[str, Any] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)


def one_pass(
    spec: dict[str, Any], subject: Subject, stream: Stream, position: int, batches: list[Batch], progress: Progress
) -> Pass:
    """Makes one pass over ``batches``, which begin at update ``position`` of the stream. Closes the subject."""
    rows, bound = spec["batch_rows"], spec.get("bound_s", 60.0)
    every = max(len(batches) // SAMPLES, 1)
    marks = set(_marks(spec["mode"], len(batches)))
    live = np.cumsum(stream.weight)
    out = Pass(series={"position": [], "latency_ms": [], "rss": [], "state": [], "live": []})
    times: list[float] = []
    loaded_stats = subject.stats()
    gc.collect()
    resident.reset_peak()
    out.rss_before, cpu = resident.rss(), time.process_time()
    for i, batch in enumerate(batches):
        started = time.perf_counter()
        out.deltas += subject.apply(batch)
        times.append(time.perf_counter() - started)
        out.seconds += times[-1]
        if i in marks:
            started = time.perf_counter()
            size = subject.enumerate()
            out.enumerations.append((size, time.perf_counter() - started))
        done = min(position + (i + 1) * rows, len(stream))
        if i % every == 0 or i == len(batches) - 1:
            _sample(out, subject, done, int(live[done - 1]), float(np.mean(times[-every:])))
            progress(done, len(stream))
        if out.seconds > bound and done < len(stream):
            out.status = "timeout"
            break
    out.cpu = time.process_time() - cpu
    out.rss_peak = resident.peak_rss()
    out.stats = subject.stats()
    out.work = {name: out.stats[name] - loaded_stats[name] for name in WORK if name in out.stats}
    out.updates = min(len(times) * rows, len(stream) - position)
    p50, p95, p99 = (1000 * float(v) for v in np.percentile(times, (50, 95, 99)))
    out.latency_ms = {"p50": p50, "p95": p95, "p99": p99, "max": 1000 * max(times), "first": 1000 * times[0]}
    subject.close()
    return out


def _marks(mode: str, batches: int) -> Iterator[int]:
    """Yields the batches after which the whole result is read."""
    if mode == "full":
        mark = max(batches // MARKS, 1)
        yield from range(mark - 1, batches, mark)
    elif mode == "count":
        yield batches - 1


def _sample(out: Pass, subject: Subject, done: int, live: int, latency: float) -> None:
    """Adds a point to the series."""
    state = subject.state_bytes()
    out.series["position"].append(done)
    out.series["latency_ms"].append(round(1000 * latency, 4))
    out.series["rss"].append(resident.rss())
    out.series["live"].append(live)
    if state is not None:
        out.series["state"].append(state)
        out.fullest.see(state, live)
