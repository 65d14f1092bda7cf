"""Numbers in Prometheus' text format, and the numbers of ``stats`` that a view or a database exports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Sample = tuple[Mapping[str, str], float]
"""Labels, and their number."""


@dataclass(frozen=True)
class Metric:
    """A metric: its name, ``gauge`` or ``counter``, and its meaning as a phrase."""

    name: str
    kind: str
    meaning: str


STATE_ROWS = Metric("crown_state_rows", "gauge", "Live rows of the state")
STATE_BYTES = Metric("crown_state_bytes", "gauge", "Bytes of the live rows of the state")
ABSENT = Metric("crown_absent_deletes_total", "counter", "Deletes of rows that did not exist")
LATE_ROWS = Metric("crown_late_rows_total", "counter", "Rows that arrived too late")
EXPIRED = Metric("crown_expired_rows_total", "counter", "Rows that left their window")
LATE_CHANGES = Metric("crown_late_changes_total", "counter", "Changes by key that were too old")
BATCHES = Metric("crown_batches_total", "counter", "Batches that were applied")
_QUARANTINED = Metric("crown_quarantined_rows_total", "counter", "Rows that were quarantined")


def rendered(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """Yields the lines of one metric."""
    yield f"# HELP {metric.name} {metric.meaning}."
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, number in samples:
        said = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        yield f"{metric.name}{{{said}}} {number}"


def of_stats(stats: Mapping[str, Any], view: str) -> Iterator[str]:
    """Yields the lines for the result of ``stats()`` of a view or database; ``view``: the value of the first label."""
    windows = stats.get("windows", {})
    by_table = (
        (STATE_ROWS, stats["rows"]),
        (ABSENT, stats["missing_deletes"]),
        (LATE_ROWS, {name: window["late"] for name, window in windows.items() if "late" in window}),
        (EXPIRED, {name: window["expired"] for name, window in windows.items()}),
        (LATE_CHANGES, stats.get("late", {})),
    )
    whole = ((BATCHES, "batches"), (STATE_BYTES, "live_bytes"), (_QUARANTINED, "quarantined"))
    for metric, name in whole:
        yield from rendered(metric, [({"view": view}, stats[name])])
    for metric, numbers in by_table:
        if numbers:
            yield from rendered(metric, [({"view": view, "table": name}, n) for name, n in numbers.items()])


def written(path: Path, lines: Iterable[str]) -> None:
    """Writes lines to a file atomically, as the textfile collector requires."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text("".join(f"{line}\n" for line in lines))
    os.replace(partial, path)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
