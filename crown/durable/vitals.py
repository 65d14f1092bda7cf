"""Health of a folder of ``crown.open`` or ``crown.open_database``, read without locks or writes.

The process that has the folder open reports more about its state in ``stats()``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from crown.analysis.prometheus import BATCHES, Metric, rendered
from crown.durable.files import holder
from crown.durable.identity import NAME, Identity
from crown.durable.journal import noted
from crown.durable.recovery import numbers
from crown.durable.segment import Place
from crown.errors import DamagedStateError

_MB = 1e6
_WINDOW = 10.0  # seconds over which a rate is taken


@dataclass(frozen=True)
class Vitals:
    """A folder at a moment.

    ``batches`` are acknowledged, ``synced`` of them on disk. ``rows``: of the newest batch, by relation; {} if there is
    no batch since the snapshot. ``per_second``: recent batches per second. ``snapshot``: the batch of the newest
    snapshot, -1 if there is none. ``process``: the id of the process that has the folder open; 0 if there is none.
    ``resident_bytes``: memory of that process; -1 if it is not known.
    """

    folder: str
    query: str
    batches: int
    synced: int
    rows: Mapping[str, int]
    per_second: float
    log_bytes: int
    snapshot: int
    snapshot_bytes: int
    process: int
    resident_bytes: int

    def line(self) -> str:
        """Returns a line for people."""
        rows = ", ".join(f"{name} {count:,}" for name, count in self.rows.items()) or "none since the snapshot"
        snapshot = "no snapshot" if self.snapshot < 0 else f"snapshot {self.snapshot:,} ({_size(self.snapshot_bytes)})"
        resident = f" ({_size(self.resident_bytes)})" if self.resident_bytes >= 0 else ""
        opened = f"open in process {self.process}{resident}" if self.process else "open in no process"
        return (
            f"batch {self.batches:,} ({self.synced:,} on the disk, {self.per_second:,.1f} per second)  rows: {rows}  "
            f"log {_size(self.log_bytes)} since {snapshot}  {opened}"
        )


def is_kept(folder: Path) -> bool:
    """Returns True for a folder of ``crown.open`` or ``crown.open_database``."""
    return (folder / "lock").is_file() and (folder / NAME).is_file()


class Watch:
    """Reads the health of a folder repeatedly. A call costs O(batches since the last one), the first O(log)."""

    def __init__(self, folder: Path) -> None:
        identity = Identity.read(folder)
        if identity is None:
            raise DamagedStateError(f"{folder} has no {NAME}: give a folder of crown.open or crown.open_database")
        self._folder = folder
        self._query = " ".join(identity.query.split())
        self._view = identity.view
        self._place: Place | None = None
        self._seen: list[tuple[float, int]] = []

    def look(self) -> Vitals:
        """Returns the health of the folder. Raises DamagedStateError if its numbers cannot be read."""
        for _ in range(3):
            with contextlib.suppress(FileNotFoundError):  # a snapshot was written meanwhile, and old files were deleted
                return self._look()
        return self._look()

    def _look(self) -> Vitals:
        mark = noted(self._folder)
        if mark is None:
            raise DamagedStateError(
                f"{self._folder} does not show its progress; run crown check {self._folder} for the reason"
            )
        batches, synced = mark
        snapshot = max(numbers(self._folder, "snapshot"), default=-1)
        logs = [self._folder / f"{base}.log" for base in numbers(self._folder, "log") if base >= max(snapshot, 0)]
        process = holder(self._folder)
        return Vitals(
            str(self._folder),
            self._query,
            batches,
            synced,
            self._rows(batches),
            self._rate(batches),
            sum(log.stat().st_size for log in logs),
            snapshot,
            0 if snapshot < 0 else (self._folder / f"{snapshot}.snapshot").stat().st_size,
            process,
            _resident(process),
        )

    def _rows(self, batches: int) -> dict[str, int]:
        base = max((base for base in numbers(self._folder, "log") if base < batches), default=None)
        if base is None:
            return {}
        if self._place is None or self._place.base != base or self._place.number > batches:
            self._place = Place(self._folder / f"{base}.log", base)
        header = self._place.header(batches)
        return {} if header is None else {str(one["name"]): int(one["rows"]) for one in header["relations"]}

    def _rate(self, batches: int) -> float:
        now = time.monotonic()
        self._seen = [(at, count) for at, count in self._seen if at >= now - _WINDOW][-100:]
        at, count = self._seen[0] if self._seen else (now, batches)
        self._seen.append((now, batches))
        return (batches - count) / (now - at) if now > at else 0.0


def _size(count: int) -> str:
    return f"{count / _MB:,.1f} MB"


def _resident(process: int) -> int:
    """Returns the resident memory of a process in bytes; -1 if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return -1


_METRICS = (
    (BATCHES, "batches"),
    (Metric("crown_synced_batches_total", "counter", "Batches that are on the disk"), "synced"),
    (Metric("crown_log_bytes", "gauge", "Bytes of the log since the snapshot"), "log_bytes"),
    (Metric("crown_snapshot_bytes", "gauge", "Bytes of the newest snapshot"), "snapshot_bytes"),
    (Metric("crown_process_resident_bytes", "gauge", "Memory of the process that has it open"), "resident_bytes"),
)
_ROWS = Metric("crown_batch_rows", "gauge", "Changes of the newest batch")


def prometheus(found: Iterable[Vitals]) -> Iterator[str]:
    """Yields the lines of Prometheus' text format. A number below 0 means that there is none, and has no line."""
    found = list(found)
    for metric, name in _METRICS:
        there = [({"folder": one.folder}, getattr(one, name)) for one in found if getattr(one, name) >= 0]
        yield from rendered(metric, there)
    yield from rendered(
        _ROWS, [({"folder": one.folder, "table": name}, n) for one in found for name, n in one.rows.items()]
    )
