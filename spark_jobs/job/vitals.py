"""Health of a running job, from the notes of its cells and Spark's checkpoint, without Spark.

Reading the checkpoint is enough to watch the job. The notes are those of the newest batches (``state_log.NOTES``).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crown.analysis.prometheus import (
    ABSENT,
    EXPIRED,
    LATE_CHANGES,
    LATE_ROWS,
    STATE_BYTES,
    STATE_ROWS,
    Metric,
    Sample,
    rendered,
)
from spark_jobs.job.progress import size
from spark_jobs.log.history import SparkHistory
from spark_jobs.log.state_log import cell_folders, read_note
from spark_jobs.storage.folder import Folder

_NOTE = re.compile(r"(0|[1-9][0-9]{0,17})\.json")


@dataclass(frozen=True)
class Vitals:
    """One cell of an operator after its newest batch; times in milliseconds.

    ``median_ms``, ``restored`` and ``redone`` are over the ``seen`` newest batches: the median time of a batch in the
    cell, the number that found no live engine of the batch before, and the number that were executed again. If the
    cell was made by ``--recell`` after its ``batch``, it has executed none: ``seen`` is 0, and ``rows``, ``deltas``,
    ``milliseconds`` and ``median_ms`` are −1. ``late``
    and ``expired``: rows of relations with windows, since the stream began; ``watermarks``: of relations with windows
    by event time. ``outdated``: changes of relations with upserts that were older than the last change of their key.
    ``amplified``: notes about changes that yielded too many deltas. ``resident_bytes``: of the state in memory, −1 if
    the memory has no limit.
    """

    stream: str
    operator: str
    cell: str
    batch: int
    rows: int
    deltas: int
    milliseconds: float
    median_ms: float
    seen: int
    restored: int
    redone: int
    quarantined: int
    state_rows: int
    state_bytes: int
    absent: int
    late: int = 0
    expired: int = 0
    watermarks: Mapping[str, str] = field(default_factory=dict)
    outdated: int = 0
    resident_bytes: int = -1
    amplified: tuple[str, ...] = ()

    def line(self) -> str:
        """Returns a line for people."""
        notes = [f"{size(self.resident_bytes)} in memory"] if self.resident_bytes >= 0 else []
        notes += [f"{self.restored} of {self.seen} restored"] if self.restored else []
        notes += [f"{self.redone} executed again"] if self.redone else []
        notes += [f"{self.quarantined:,} rows quarantined"] if self.quarantined else []
        notes += [f"{self.absent:,} deletes found nothing"] if self.absent else []
        notes += [f"{self.expired:,} rows expired"] if self.expired else []
        notes += [f"{self.late:,} rows late"] if self.late else []
        notes += [f"watermark of {name} {mark}" for name, mark in self.watermarks.items()]
        notes += [f"{self.outdated:,} changes too old"] if self.outdated else []
        notes += [f"amplified in batch {note}" for note in self.amplified[-1:]]
        done = "no batch since its rows were cut anew"
        if self.seen:
            done = (
                f"{self.rows:>10,} rows in  {self.deltas:>12,} deltas out  {self.milliseconds:>7,.0f} ms "
                f"(median {self.median_ms:,.0f})"
            )
        return (
            f"cell {self.cell}: batch {self.batch}  {done}  state {self.state_rows:,} rows {size(self.state_bytes)}"
            + (f"  ({', '.join(notes)})" if notes else "")
        )


def vitals(operator: Folder) -> list[Vitals]:
    """Returns the health of an operator's cells, by number; cells without a note are left out."""
    found = ((cell, _notes(cell)) for cell in cell_folders(operator))
    return [_vitals(operator, cell.name, notes) for cell, notes in found if notes]


def _notes(cell: Folder) -> dict[int, dict[str, Any]]:
    numbers = sorted(int(match[1]) for match in map(_NOTE.fullmatch, cell.files()) if match is not None)
    found = {number: read_note(cell, number) for number in numbers}
    return {number: note for number, note in found.items() if note is not None}


def _vitals(operator: Folder, cell: str, notes: dict[int, dict[str, Any]]) -> Vitals:
    newest = max(notes)
    note, state = notes[newest], notes[newest]["state"]
    ran = {number: each for number, each in notes.items() if "total_ms" in each}  # not the note of --recell
    windows = state.get("windows", {})
    return Vitals(
        stream=operator.parent.name,
        operator=operator.name,
        cell=cell,
        batch=newest,
        rows=note.get("rows", -1),
        deltas=note.get("deltas", -1),
        milliseconds=note.get("total_ms", -1.0),
        median_ms=statistics.median(each["total_ms"] for each in ran.values()) if ran else -1.0,
        seen=len(ran),
        restored=sum(each["restored"] >= 0 for number, each in ran.items() if number),  # not the first batch
        redone=sum(each["redone"] for each in ran.values()),
        quarantined=sum(each["bad"] for each in ran.values()),
        state_rows=state["input_rows"],
        state_bytes=state["live_bytes"],
        absent=sum(state["missing_deletes"].values()),
        late=sum(window.get("late", 0) for window in windows.values()),
        expired=sum(window["expired"] for window in windows.values()),
        watermarks={n: str(w["watermark"]) for n, w in windows.items() if w.get("watermark") is not None},
        outdated=sum(state.get("late", {}).values()),
        resident_bytes=note.get("resident", -1),
        amplified=tuple(f"{n}: {note['amplified']}" for n, note in notes.items() if note.get("amplified")),
    )


def balance(cells: Sequence[Vitals]) -> str:
    """Returns a line about the balance of the state's rows over the cells; "" if there is one cell, or no row.

    If most rows have one key, they are in one cell, and the job is as fast as that cell.
    """
    rows = sum(cell.state_rows for cell in cells)
    if len(cells) < 2 or not rows:
        return ""
    largest = max(cells, key=lambda cell: cell.state_rows)
    times = largest.state_rows * len(cells) / rows
    return f"balance: cell {largest.cell} has the most rows, {times:.1f} times the average of the {len(cells)} cells"


def checkpoint_line(operator: Folder, checkpoint: Folder | None = None) -> str:
    """Returns a line about Spark's own checkpoint of the stream, if it is in ``checkpoint``, or in the parent folder of
    the state; else "".
    """
    stream = operator.parent
    places = [checkpoint, stream.parent.parent]
    found = (SparkHistory.of(place, stream.name) for place in places if place is not None)
    spark = next((history for history in found if history is not None), None)
    if spark is None:
        return ""
    begun, committed = spark.begun(), spark.committed()
    return f"Spark has committed batch {committed}" + (f" and begun {begun}" if begun > committed else "")


# -- for Prometheus ---------------------------------------------------------------------------------------------------

_METRICS = (
    (Metric("crown_batch", "gauge", "Newest batch that the cell has applied"), "batch"),
    (Metric("crown_batch_rows", "gauge", "Changes that the cell received in that batch"), "rows"),
    (Metric("crown_batch_deltas", "gauge", "Deltas that the cell returned in that batch"), "deltas"),
    (Metric("crown_batch_milliseconds", "gauge", "Duration of that batch in the cell"), "milliseconds"),
    (Metric("crown_recent_batches_restored", "gauge", "Newest batches for which the state was restored"), "restored"),
    (Metric("crown_recent_batches_redone", "gauge", "Newest batches that were executed again"), "redone"),
    (
        Metric("crown_recent_rows_quarantined", "gauge", "Rows of the newest batches that were quarantined"),
        "quarantined",
    ),
    (STATE_ROWS, "state_rows"),
    (STATE_BYTES, "state_bytes"),
    (
        Metric("crown_state_resident_bytes", "gauge", "Bytes of them in memory, if there is a limit"),
        "resident_bytes",
    ),
    (LATE_CHANGES, "outdated"),
    (
        Metric("crown_recent_batches_amplified", "gauge", "Newest batches with a change that caused too many deltas"),
        "amplified",
    ),
    (ABSENT, "absent"),
    (LATE_ROWS, "late"),
    (EXPIRED, "expired"),
)


def prometheus(cells: Iterable[Vitals]) -> Iterator[str]:
    """Yields the lines of Prometheus' text format: a metric per number, labelled by stream, operator and cell.

    A number below 0 means that there is none, and has no line.
    """
    cells = list(cells)
    for metric, number in _METRICS:
        yield from rendered(metric, _samples(cells, number))


def _samples(cells: Iterable[Vitals], number: str) -> Iterator[Sample]:
    for cell in cells:
        value = getattr(cell, number)
        found = len(value) if isinstance(value, tuple) else value
        if found >= 0:
            yield {"stream": cell.stream, "operator": cell.operator, "cell": cell.cell}, found
