"""Recovers a view from its newest complete snapshot and the batches logged since.

The log is read up to the first fault, and a missing end is judged by the mark (``crown.durable.journal``):

- A batch that was never acknowledged may be dropped. So may acknowledged batches that were not yet synced according to
  ``sync=`` when the machine crashed. Both are reported (``RecoveryWarning``).
- Anything else is damage: DamagedStateError reports what is left, and ``repair=True`` continues with it. Files that do
  not belong to it are renamed (``*.damaged``), never deleted.

A snapshot that cannot be read is no loss as long as the snapshot before it and the log since are complete.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from crown.durable.identity import Identity
from crown.durable.segment import Reader
from crown.errors import CrownError, DamagedStateError, RecoveryWarning, SnapshotError
from crown.programs.snapshot import demand_whole, saved_with
from plans.errors import levels_to_caller

_NAME = re.compile(r"(0|[1-9][0-9]{0,17})\.(snapshot|log)")
_COPY = "Restore it from a copy"
_TOGETHER = 1 << 17
"""The number of rows at which several batches are applied together. Each batch costs its stages some time, even if it
is empty.
"""
EXACT = "exact"
"""The header field of a batch whose deletes have found all rows, so that the order of such batches does not matter."""
NOTE = "note"
"""The header field for the note of a batch's owner, such as the position in a source."""


def numbers(folder: Path, kind: str) -> list[int]:
    """Returns the numbers of the files of a kind (``snapshot`` or ``log``) in a folder, ascending."""
    found = (_NAME.fullmatch(name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in found if match is not None and match[2] == kind)


def stamp(view: str, version: int) -> dict[str, Any]:
    """Returns the description of a snapshot: its view, and its batch."""
    return {"view": view, "version": version}


E = TypeVar("E")


class Kind(Protocol[E]):
    """A kind of folder: its engine is created, loaded from a snapshot, and receives the batches of the log."""

    @property
    def verify(self) -> bool:
        """Returns True if snapshots are read and compared with their checksums, False if they are mapped into
        memory.
        """
        ...

    def create(self) -> E:
        """Creates the engine of a folder without a snapshot."""
        ...

    def load(self, path: Path) -> tuple[E, dict[str, Any]]:
        """Returns the engine of a snapshot, and the data that was saved with it. Raises SnapshotError if it is of
        another query.
        """
        ...

    def replay(self, engine: E, batch: int, header: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> E:
        """Applies a batch of the log, or the sum of several up to ``batch``; returns the engine that contains it."""
        ...

    def adds_up(self, engine: E, batch: int, header: Mapping[str, Any]) -> bool:
        """Returns True if a batch may be applied as a part of a sum.

        Tables and results are then the same as when batches are applied one by one; counters of work are not.
        """
        ...


@dataclass
class Recovered(Generic[E]):
    """The recovered state: its engine, after ``batches``; ``base``: the last log file, which ends at ``end``.

    ``end`` None: that file does not exist yet. ``note``: the note of the last batch.
    """

    engine: E
    batches: int
    base: int
    end: int | None
    note: Any


class _Replay(Generic[E]):
    """Applies the batches of a log to an engine. Applies the sum of many small batches at a time, where the result is
    the same.
    """

    def __init__(self, kind: Kind[E], engine: E) -> None:
        self._kind = kind
        self._engine = engine
        self._last: tuple[int, Mapping[str, Any]] | None = None
        self._tables: dict[str, list[pa.Table]] = {}
        self._rows = 0

    def add(self, batch: int, header: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Adds the next batch, and applies batches that cannot wait for more."""
        sums = self._kind.adds_up(self._engine, batch, header)
        alike = all(
            name not in self._tables or self._tables[name][0].schema == of.schema for name, of in tables.items()
        )
        if not (sums and alike):
            self.done()
        for name, rows in tables.items():
            self._tables.setdefault(name, []).append(rows)
            self._rows += rows.num_rows
        self._last = batch, header
        if not sums or self._rows >= _TOGETHER:
            self.done()

    def done(self) -> E:
        """Applies the waiting batches, and returns the engine."""
        if self._last is not None:
            tables = {name: pa.concat_tables(parts) for name, parts in self._tables.items()}
            self._engine = self._kind.replay(self._engine, *self._last, tables)
        self._last, self._tables, self._rows = None, {}, 0
        return self._engine


class Recovery(Generic[E]):
    """Recovers the state of a folder."""

    def __init__(
        self, folder: Path, identity: Identity, mark: tuple[int, int] | None, repair: bool, kind: Kind[E]
    ) -> None:
        self._kind = kind
        self._folder = folder
        self._identity = identity
        self._acknowledged, self._synced = mark or (0, 0)
        self._repair = repair
        self._aside: list[Path] = []
        if mark is None:
            _warn(f"{folder / 'acknowledged'} cannot be read: whether the log is complete is not known")

    def run(self) -> Recovered[E]:
        """Returns the engine as it was after the last batch that can be read. O(state + bytes of the log since)."""
        engine, start, note = self._base()
        logs = [base for base in numbers(self._folder, "log") if base >= start]
        version, base, end = start, start, None
        reason = torn = ""
        replay = _Replay(self._kind, engine)
        for number in logs:
            if number != version:
                reason = f"{self._folder / f'{version}.log'} is missing"
                break
            reader = Reader(self._folder / f"{number}.log", self._identity.view, number)
            base, end = number, None
            try:
                for header, tables in reader.batches():
                    version += 1
                    replay.add(version, header, tables)
                    note = header.get(NOTE)
            except DamagedStateError as error:
                reason = str(error)
                break
            end = reader.end
            if reader.fault is not None:
                reason = f"{reader.path}: {reader.fault.reason}"
                if number == logs[-1] and reader.fault.torn:
                    reason, torn = "", reason
                break
        reason = reason or self._short(version, torn)
        if reason:
            self._damaged(version, reason)
            self._set_aside(base, end, version)
            base = version if end is None else base
        for path in self._aside:
            os.replace(path, path.with_name(path.name + ".damaged"))
        return Recovered(replay.done(), version, base, end, note)

    # -- the start -----------------------------------------------------------------------------------------------------

    def _base(self) -> tuple[E, int, Any]:
        """Returns an engine from the newest complete snapshot, or an empty engine, with the number of its batch and its
        note.
        """
        reasons = []
        for version in reversed(numbers(self._folder, "snapshot")):
            path = self._folder / f"{version}.snapshot"
            try:
                engine, extra = _loaded(self._kind, path, self._identity.view, version)
            except SnapshotError as error:
                reasons.append(str(error))
                self._aside.append(path)
                continue
            if reasons:
                _warn(f"{reasons[0]}; it was rebuilt from {path.name} and the log")
            return engine, version, extra.get(NOTE)
        if not (self._folder / "0.log").exists():
            raise DamagedStateError(
                f"no state can be read in {self._folder}: "
                + (reasons[0] if reasons else "its snapshots and its log are missing"),
                f". {_COPY}, or open a new folder",
            )
        if reasons:
            _warn(f"{reasons[0]}; it was rebuilt from the log")
        return self._kind.create(), 0, None

    # -- the end -------------------------------------------------------------------------------------------------------

    def _short(self, version: int, torn: str) -> str:
        """Returns the fault of a log that ends with batch ``version``, or an empty text.

        ``torn``: the fault of the bytes after that batch, if any.
        """
        lost = self._acknowledged - version
        if lost <= 0:
            if torn:
                _warn(f"{torn}; the batch was not acknowledged, and was dropped")
            return ""
        which = f"{lost} of {self._acknowledged} acknowledged batches are missing at the end of {self._folder}"
        if version >= self._synced:
            _warn(f"{which}: the machine went down before sync= wrote them to disk. Apply them again")
            return ""
        return f"{which} ({torn})" if torn else which

    def _damaged(self, version: int, reason: str) -> None:
        """Raises DamagedStateError, or warns if the view is to continue after batch ``version``."""
        lost = max(self._acknowledged - version, 0)
        if not self._repair:
            raise DamagedStateError(
                reason,
                f". {_COPY}; or continue after batch {version} with repair=True, and apply later batches again",
            )
        count = f"at least {lost} acknowledged batches are" if lost else "later batches, if there were any, are"
        _warn(f"{reason}; the view continues after batch {version}, and {count} lost. Apply them again")

    def _set_aside(self, base: int, end: int | None, version: int) -> None:
        """Sets aside files that are no longer read: log file ``base`` from byte ``end`` on (None: all of it), and later
        files.
        """
        for number in numbers(self._folder, "log"):
            if number > base or (number == base and end is None):
                self._aside.append(self._folder / f"{number}.log")
        self._aside += [self._folder / f"{n}.snapshot" for n in numbers(self._folder, "snapshot") if n > version]
        self._aside = list(dict.fromkeys(self._aside))
        if end is not None:
            path = self._folder / f"{base}.log"
            shutil.copyfile(path, path.with_name(path.name + ".damaged"))


def past(folder: Path, view: str, kind: Kind[E], batch: int) -> E:
    """Returns the engine of a folder as it was after a batch. O(state + bytes of the log since the snapshot before).

    Raises CrownError if the folder no longer has that batch, SnapshotError or DamagedStateError for a file that is
    damaged, or of another view.
    """
    base = _oldest(folder, batch)
    engine = kind.create() if base == 0 else _loaded(kind, folder / f"{base}.snapshot", view, base)[0]
    replay = _Replay(kind, engine)
    for number, header, tables in _logged(folder, view, base):
        if number > batch:
            break
        replay.add(number, header, tables)
    return replay.done()


def history(folder: Path, view: str) -> list[tuple[int, Any]]:
    """Returns the batches to which a folder can go back, the oldest first, each with its note. O(bytes of the log)."""
    base = _oldest(folder, None)
    first = [(base, saved_with(folder / f"{base}.snapshot").get(NOTE))] if base else []
    return first + [(number, header.get(NOTE)) for number, header, _ in _logged(folder, view, base)]


def damaged(folder: Path, view: str) -> list[str]:
    """Returns a sentence for each damaged file of a folder, which may be open. O(bytes).

    The end of the newest log may be a batch that is being written, so it does not count as damage.
    """
    found = []
    for path in [folder / f"{number}.snapshot" for number in numbers(folder, "snapshot")]:
        try:
            demand_whole(path)
        except SnapshotError as error:
            if path.exists():  # otherwise a newer snapshot was written meanwhile
                found.append(str(error))
    logs = numbers(folder, "log")
    for number in logs:
        reader = Reader(folder / f"{number}.log", view, number)
        try:
            for _ in reader.batches():
                pass
        except FileNotFoundError:
            continue
        except DamagedStateError as error:
            found.append(str(error))
        if reader.fault is not None and not (reader.fault.torn and number == logs[-1]):
            found.append(f"{reader.path}: {reader.fault.reason}")
    return found


def _loaded(kind: Kind[E], path: Path, view: str, batch: int) -> tuple[E, dict[str, Any]]:
    """Returns the engine that ``kind`` loads from the snapshot of a batch. Raises SnapshotError if it is of another
    view or batch.
    """
    engine, extra = kind.load(path)
    if extra.get("durable") != stamp(view, batch):
        raise SnapshotError(f"{path} is not the snapshot of batch {batch} of this view: it was copied")
    return engine, extra


def _oldest(folder: Path, batch: int | None) -> int:
    """Returns the batch of the newest snapshot up to ``batch``, or of the oldest snapshot; 0 stands for the first
    log.
    """
    snapshots = numbers(folder, "snapshot")
    if (folder / "0.log").exists():
        snapshots.insert(0, 0)
    before = [number for number in snapshots if batch is None or number <= batch]
    if not before:
        raise CrownError(
            f"the oldest batch that {folder} keeps is {min(snapshots, default=0)}, so batch {batch} cannot be read; "
            "with a larger keep=, more snapshots are kept from then on"
        )
    return before[0] if batch is None else before[-1]


def _logged(folder: Path, view: str, base: int) -> Iterator[tuple[int, dict[str, Any], dict[str, pa.Table]]]:
    """Yields the batches after batch ``base``: number, header and tables. Raises DamagedStateError if one is
    missing.
    """
    number = base
    for start in (start for start in numbers(folder, "log") if start >= base):
        reader = Reader(folder / f"{start}.log", view, start)
        for header, tables in reader.batches() if start == number else ():
            number += 1
            yield number, header, tables
        if reader.fault is not None or start > number:
            missing = f"{folder / f'{number}.log'} is missing"
            raise DamagedStateError(reader.fault.reason if reader.fault else missing, f". {_COPY}")


def _warn(message: str) -> None:
    warnings.warn(message, RecoveryWarning, stacklevel=levels_to_caller())
