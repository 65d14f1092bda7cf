"""Exports the numbers of views and databases: in Prometheus' text format, and as instruments of OpenTelemetry."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crown.errors import CrownError, needs
from crown.store.words_file import temporary

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
    with temporary(path) as fresh:
        fresh.write_text("".join(f"{line}\n" for line in lines))
        os.replace(fresh, path)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_LASTING = 1.0
"""Seconds for which read values are reused, so that all instruments of one export have values of the same moment."""
_TOTAL = "_total"


def instrumented(
    provider: Any, metrics: Iterable[Metric], read: Callable[[], Mapping[Metric, Iterable[Sample]]]
) -> None:
    """Adds an observable instrument for each metric to the meter ``crown`` of a provider; None: the global one.
    ``read`` returns the values. Raises CrownError for an object that is not a meter provider, and MissingPackageError.
    """
    with needs("metrics of OpenTelemetry"):
        from opentelemetry.metrics import MeterProvider, Observation, get_meter_provider
    given = get_meter_provider() if provider is None else provider
    if not isinstance(given, MeterProvider):
        raise CrownError(
            f"provider={provider!r:.100}: give a MeterProvider of OpenTelemetry, or None for the global one"
        )
    meter, latest = given.get_meter("crown"), _Latest(read)

    def observed(metric: Metric, _: Any) -> Iterator[Observation]:
        for labels, number in latest.numbers().get(metric, ()):
            yield Observation(number, labels)

    for metric in metrics:
        made = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        made(metric.name.removesuffix(_TOTAL), [partial(observed, metric)], description=metric.meaning)


class _Latest:
    """The numbers that were read last."""

    def __init__(self, read: Callable[[], Mapping[Metric, Iterable[Sample]]]) -> None:
        self._read = read
        self._at = -_LASTING
        self._numbers: Mapping[Metric, Iterable[Sample]] = {}

    def numbers(self) -> Mapping[Metric, Iterable[Sample]]:
        if time.monotonic() - self._at >= _LASTING:
            self._numbers, self._at = self._read(), time.monotonic()
        return self._numbers
