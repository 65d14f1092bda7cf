"""Bulk loads: generated tables into an empty view through ``View.update``, the usual way to load existing tables.

Arguments of a cell: ``shape``, a key of ``SHAPES``; ``keys`` of the joined columns, ``uniform`` or ``zipf``, a tenth as
many as rows; ``rows`` of all tables together; ``parts``, the number of batches; ``file``, whether the state is in a
mapped file.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import crown
from bench.subjects.resident import peak_rss, rss
from bench.subjects.subject import Progress

SHAPES = {
    "two-way": ("Q(a, b, c) :- R(a, b), S(b, c).", {"R": "ab", "S": "bc"}, "b"),
    "3-hop": ("Q(a, b, c, d) :- G(a, b), G(b, c), G(c, d).", {"G": "ab"}, "ab"),
    "star": ("Q(a, b, c, d) :- R(a, b), S(a, c), T(a, d).", {"R": "ab", "S": "ac", "T": "ad"}, "a"),
    "3-hop-count": ("SELECT COUNT(*) AS n FROM G x, G y, G z WHERE x.b = y.a AND y.b = z.a", {"G": "ab"}, "ab"),
}
"""The loaded queries: text, columns per table, and the joined columns."""


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *load*: rows per second, memory of the process and of the state, page faults."""
    given = spec["arguments"]
    rows, parts = given["rows"], given.get("parts", 1)
    _load(given | {"rows": min(rows, 100_000)}, 1, progress)  # performs the one-time set-up
    results = [_load(given, parts, progress) for _ in range(spec.get("repeats", 1))]
    seconds = [result["seconds"] for result in results]
    best = results[int(np.argmin(seconds))]
    return best | {
        "status": "ok",
        "check": {"status": "not asked for"},
        "of": rows,
        "updates": rows,
        "deltas": 0,
        "repeats": len(results),
        "seconds": [round(s, 4) for s in seconds],
        "cpu_seconds": [round(result["cpu_seconds"], 4) for result in results],
        "updates_per_s": rows / min(seconds),
        "updates_per_s_median": rows / float(np.median(seconds)),
        "updates_per_s_all": [round(rows / s, 1) for s in seconds],
    }


def tables(shape: str, keys: str, rows: int, part: int = 0, parts: int = 1) -> dict[str, pa.Table]:
    """Returns part number ``part`` of generated tables that have ``rows`` rows in total, and a tenth as many keys; with
    ``single`` keys, as many keys as rows.
    """
    _, columns, joined = SHAPES[shape]
    rng, n = np.random.default_rng(part), rows // parts // len(columns)
    made = {}
    for name, of_table in columns.items():
        values = {}
        for column in of_table:
            if column not in joined:
                values[column] = rng.integers(0, 1 << 40, n)
            elif keys in ("uniform", "single"):
                values[column] = rng.integers(0, rows // 10 if keys == "uniform" else rows, n)
            else:
                values[column] = ((rows // 10 + 1) ** rng.random(n)).astype(np.int64) - 1
        made[name] = pa.table(values)
    return made


def _load(given: dict[str, Any], parts: int, progress: Progress) -> dict[str, Any]:
    query, columns, _ = SHAPES[given["shape"]]
    schema = {name: dict.fromkeys(of_table, "int64") for name, of_table in columns.items()}
    with tempfile.TemporaryDirectory(prefix="crown-bench-") as folder:
        view = crown.view(query, schema, path=Path(folder) / "state" if given.get("file") else None)
        before, seconds, cpu = rss(), 0.0, 0.0
        faults = resource.getrusage(resource.RUSAGE_SELF)
        for part in range(parts):
            batch = tables(given["shape"], given["keys"], given["rows"], part, parts)
            started, busy = time.perf_counter(), time.process_time()
            view.update(batch)
            seconds += time.perf_counter() - started
            cpu += time.process_time() - busy
            progress(part + 1, parts)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        stats = view.stats()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "rss_before": before,
        "rss_peak": peak_rss(),
        "state_peak_bytes": stats["live_bytes"],
        "live_tuples": given["rows"],
        "faults": [usage.ru_minflt - faults.ru_minflt, usage.ru_majflt - faults.ru_majflt],
        "stats": stats,
    }
