"""Progress for people: one line per micro-batch, and a summary.

The numbers come from Spark's progress of the stream and from the notes that the cells write beside their state
(``spark_jobs.cell.step``); no extra job is run for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crown.ingest.tables.columns import WEIGHT
from spark_jobs.dispatch.chain import MERGE
from spark_jobs.dispatch.keys import KEYS, WITHIN
from spark_jobs.ingest.text_files import FILES, READ
from spark_jobs.log.state_log import cell_folders, read_note
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class BatchProgress:
    """One micro-batch. ``rows``: changes read; ``deltas``: changes of the result; ``seconds``: from trigger to commit.

    ``state_rows`` and ``state_bytes``: live rows of all cells (copies of a self-join counted) and their bytes.
    ``absent``: deletes that found no row, since the stream began; ``expired`` and ``late``: rows that left their
    windows, and rows that arrived too late for them, since then. ``bad``: rows quarantined. ``without_record``: offsets
    of topics that were skipped because they have no record. ``sample``: a few deltas.
    """

    batch: int
    rows: int
    deltas: int
    seconds: float
    state_rows: int
    state_bytes: int
    absent: int
    bad: int
    restored: bool
    redone: bool
    sample: tuple[tuple[str, ...], ...] = ()
    amplified: tuple[str, ...] = ()
    expired: int = 0
    late: int = 0
    without_record: int = 0

    @property
    def rate(self) -> float:
        """Returns the rows per second, end to end."""
        return self.rows / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """Returns the progress line."""
        text = (
            f"batch {self.batch:>5}  {self.rows:>10,} rows in  {self.deltas:>12,} deltas out  {self.rate:>9,.0f} "
            f"rows/s  state {self.state_rows:>10,} rows {size(self.state_bytes):>9}  {1000 * self.seconds:>6,.0f} ms"
        )
        notes = [f"{self.bad:,} rows quarantined"] if self.bad else []
        notes += [f"{self.without_record:,} offsets without a record"] if self.without_record else []
        notes += ["restored from the log"] if self.restored else []
        notes += ["executed again"] if self.redone else []
        notes += [f"amplified: {note}" for note in self.amplified]
        return text + (f"  ({', '.join(notes)})" if notes else "")

    def to_json(self, columns: Sequence[str], most: int) -> dict[str, Any]:
        """Returns the numbers, and at most ``most`` of the sampled deltas by the names of their ``columns``, as
        text.
        """
        own = {name: value for name, value in asdict(self).items() if name != "sample"}
        own["gone"] = own.pop("without_record")
        rows = [dict(zip((*columns, WEIGHT), row, strict=True)) for row in self.sample[:most]]
        return {**own, "sample": rows}


@dataclass
class Summary:
    """The batches of one run, and their totals."""

    batches: list[BatchProgress] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def totals(self) -> dict[str, Any]:
        """Returns the run in numbers: JSON-able. ``steady_rate`` leaves out the first batch, which compiles and starts
        workers.
        """
        rows = sum(b.rows for b in self.batches)
        later = self.batches[1:]
        seconds = sum(b.seconds for b in later)
        times = sorted(b.seconds for b in later or self.batches)
        last = self.batches[-1] if self.batches else None
        return {
            "batches": len(self.batches),
            "rows": rows,
            "deltas": sum(b.deltas for b in self.batches),
            "seconds": time.monotonic() - self.started,
            "steady_rate": sum(b.rows for b in later) / seconds if seconds else 0.0,
            "latency_p50": times[len(times) // 2] if times else 0.0,
            "latency_max": times[-1] if times else 0.0,
            "state_rows": last.state_rows if last else 0,
            "peak_state_bytes": max((b.state_bytes for b in self.batches), default=0),
            "absent_deletes": last.absent if last else 0,
            "quarantined": sum(b.bad for b in self.batches),
            "expired": last.expired if last else 0,
            "late": last.late if last else 0,
            "gone": sum(b.without_record for b in self.batches),
        }

    def lines(self) -> Iterator[str]:
        """Yields the closing lines."""
        total = self.totals()
        yield (
            f"{total['rows']:,} rows in, {total['deltas']:,} deltas out, {total['batches']} batches, "
            f"{total['seconds']:.1f} s"
        )
        if len(self.batches) > 1:
            yield (
                f"{total['steady_rate']:,.0f} rows/s after the first batch; a batch took {total['latency_p50']:.2f} s "
                f"(median), {total['latency_max']:.2f} s (longest)"
            )
        yield f"state: {total['state_rows']:,} rows at the end, {size(total['peak_state_bytes'])} at most"
        if total["absent_deletes"]:
            yield f"{total['absent_deletes']:,} deletes found nothing to delete"
        if total["expired"] or total["late"]:
            yield f"{total['expired']:,} rows have left their windows, {total['late']:,} came too late"
        if total["quarantined"]:
            yield f"{total['quarantined']:,} bad rows quarantined"
        if total["gone"]:
            yield (
                f"{total['gone']:,} offsets of the topics had no record: removed, compacted, or marks of transactions"
            )


class Watcher:
    """Turns a running stream's progress into ``BatchProgress``. ``operator``: folder name under the state directory;
    ``readers``: the number of relations that are made of the topics, each of which reads every record.
    """

    def __init__(self, query: StreamingQuery, root: Folder | Path, operator: str, readers: int = 0) -> None:
        self._query = query
        self._readers = readers
        self._folder = folder_at(root) / str(query.id) / operator
        self._seen = -1

    def new(self) -> Iterator[BatchProgress]:
        """Yields the micro-batches committed since the last call."""
        for raw in self._query.recentProgress:
            progress = json.loads(raw.json)
            if progress["batchId"] > self._seen and "addBatch" in progress["durationMs"]:
                self._seen = progress["batchId"]
                yield self._batch(progress)

    def _batch(self, progress: dict[str, Any]) -> BatchProgress:
        batch = progress["batchId"]
        merged = _notes(
            self._folder.parent / (self._folder.name + MERGE), batch
        )  # of the second round, if there is one
        first = _notes(self._folder, batch)
        before = [
            note
            for name in sorted(self._folder.parent.folders())
            if name.startswith((self._folder.name + KEYS, self._folder.name + WITHIN))
            for note in _notes(self._folder.parent / name, batch)
        ]
        notes = before + first + merged
        states = [note["state"] for note in notes]
        within = [window for state in states for window in state.get("windows", {}).values()]
        return BatchProgress(
            batch=batch,
            rows=rows_read(progress, rows_of_files(self._folder.parent, batch)),
            deltas=sum(note["deltas"] for note in merged or first),
            seconds=progress["durationMs"]["triggerExecution"] / 1000,
            state_rows=sum(state["input_rows"] for state in states),
            state_bytes=sum(state["live_bytes"] for state in states),
            absent=sum(sum(state["missing_deletes"].values()) for state in states),
            bad=sum(note["bad"] for note in notes),
            restored=any(note["restored"] > 0 for note in notes),
            redone=any(note["redone"] for note in notes),
            sample=tuple(tuple(row) for note in notes for row in note["sample"]),
            amplified=tuple(note["amplified"] for note in notes if note.get("amplified")),
            expired=sum(window["expired"] for window in within),
            late=sum(window.get("late", 0) for window in within),
            without_record=sum(offsets_without_record(source, self._readers) for source in progress["sources"])
            if self._readers
            else 0,
        )


def rows_read(progress: Mapping[str, Any], filed: int) -> int:
    """Returns the number of rows that a batch has read, given Spark's progress, which counts a file that cells read as
    one row.

    ``filed``: how many of them the cells have read from files.
    """
    observed = progress.get("observedMetrics") or {}
    rows = sum(values["rows"] for name, values in observed.items() if name.startswith(READ))
    files = sum(values["rows"] for name, values in observed.items() if name.startswith(FILES))
    return int(progress.get("numInputRows") or 0) + rows + filed - files


def rows_of_files(stream: Folder, batch: int) -> int:
    """Returns the number of rows that the cells of a stream have read from files in a batch. All cells of an operator
    read the same rows. O(cells).
    """
    operators = [_notes(stream / name, batch) for name in stream.folders()]
    return sum(max((note.get("filed", 0) for note in notes), default=0) for notes in operators)


def offsets_without_record(source: Mapping[str, Any], readers: int) -> int:
    """Returns the number of topic offsets that a batch has skipped because they have no record, from Spark's progress
    of a source.

    Returns 0 for other sources, and for the first batch, for which Spark does not report the start.
    """
    start, end = source["startOffset"], source["endOffset"]
    if not (source["description"].startswith("Kafka") and isinstance(start, dict) and isinstance(end, dict)):
        return 0
    passed = 0
    for topic, offsets in end.items():
        before = start.get(topic, {})  # a new partition begins at 0
        passed += sum(max(0, offset - before.get(number, 0)) for number, offset in offsets.items())
    return max(0, passed - source["numInputRows"] // readers)


def _notes(operator: Folder, batch: int) -> list[dict[str, Any]]:
    """Returns the notes of an operator's cells about a batch."""
    found = (read_note(cell, batch) for cell in cell_folders(operator))
    return [note for note in found if note is not None]


def size(count: float) -> str:
    """Returns a number of bytes for people: 26.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
