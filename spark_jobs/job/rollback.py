"""``rollback``: takes a stopped stream back to an earlier batch: tables, Spark's checkpoint and state.

    tables, each in one step -> Spark's commits and offsets -> the logs of the cells

A table of deltas loses the deltas of later batches. A table that holds the result receives, in one transaction, the
difference between the results of the earlier batch and of its newest batch, both computed from the state. So tables are
rolled back first: afterwards the state of later batches is not needed.

A note in the checkpoint exists from the first step to the last. While it exists, no stream starts, and the same call
resumes the rollback: a step that is done already has no effect.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from crown.durable.files import sync
from crown.guards.arguments import number_of
from crown.projects.changes import with_weights
from plans.types import arrow_type
from spark_jobs.cell.kept_plan import kept_plan
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.ingest.source_log import read_after
from spark_jobs.job import sinks
from spark_jobs.job.places import OPERATOR, output_of
from spark_jobs.locking import exclusive
from spark_jobs.log import compacted
from spark_jobs.log.history import SparkHistory, stream_of
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_location import HERE, QUARANTINES, ROLLBACK, TABLES, Whereabouts, located
from spark_jobs.log.state_log import CellLog, cell_folders
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.deltas import delta, manifests
from spark_jobs.tables.places import Place, place_at
from spark_jobs.tables.results.net import net_of
from spark_jobs.tables.view import Place as View
from spark_jobs.tables.view import cell_rows, place_of

Step = Callable[[], object]
_LOGGED = re.compile(r"\.?([0-9]+)(\.crc)?")
_SET_ASIDE = re.compile(r"([0-9]+)\.[0-9]+\.jsonl")


@dataclass(frozen=True)
class RolledBack:
    """The result of a rollback: the batch that is the newest now, the newest batch before, and the tables that were
    rolled back.

    ``missing``: files that later batches had read from a folder, and that no longer exist. The others are read again.
    """

    batch: int
    before: int
    tables: tuple[str, ...]
    missing: tuple[str, ...] = ()


def rollback(
    checkpoint: str,
    batch: int,
    into: str | Sequence[str] = (),
    *,
    state: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    operator: str = OPERATOR,
) -> RolledBack:
    """Rolls a stopped stream back to the end of an earlier batch: its tables, Spark's checkpoint and its state.

    ``batch``: a batch that Spark has committed and still keeps (``minBatchesToRetain``, 100 by default); −1 is before
    the first batch, and allows no tables. ``into``: the tables that the stream writes, as texts. A folder or URI is a
    table of Spark's file sink or of ``to_table``; a table elsewhere has the name that ``to_table`` uses. Append the
    result's key, ``?key=a,b``, if it has one. The output of ``crown submit`` and the table of ``write_deltas`` are
    known. ``state``, ``storage_options`` and ``operator`` as for ``maintain``.

    The sources deliver the changes after the batch again; a folder delivers the files that exist then. If an error
    interrupts the rollback, the same call finishes it; until then no stream starts on the checkpoint. O(state + result)
    for a table that holds a result, else O(files).

    Raises ``CheckpointError`` and its subclasses if the stream runs, or one of its tables cannot be rolled back.
    Nothing has changed then.
    """
    named = [into] if isinstance(into, str) else into
    if not isinstance(named, (list, tuple)) or not all(isinstance(text, str) for text in named):
        raise SourceError(f"into={into!r:.100}: give a table, or a list of tables")
    batch = number_of(batch, "batch", -1)
    where = located(checkpoint, state, storage_options)
    stream = stream_of(where.checkpoint)
    if stream is None:
        raise CheckpointError(
            f"{where.checkpoint} has no checkpoint of Spark, which must be rolled back, too: give the checkpoint of "
            "the stream, which contains Spark's"
        )
    try:
        with exclusive(where.checkpoint):
            return _Stream(where, stream, operator, batch, storage_options).back(named)
    except OSError as error:
        raise CheckpointError(
            f"the stream of {checkpoint} cannot go back to batch {batch}: {error.strerror}; fix that, and run this "
            "again"
        ) from None


class _Stream:
    """A stopped stream, and the batch to which it is rolled back."""

    def __init__(
        self, where: Whereabouts, stream: str, operator: str, batch: int, options: Mapping[str, str] | None
    ) -> None:
        self._where = where
        self._name = stream
        self._operator = operator
        self._batch = batch
        self._options = options
        self._spark = SparkHistory(where.checkpoint)
        states = where.root / stream
        self._operators = [states / name for name in sorted(states.folders())]

    def back(self, named: Sequence[str]) -> RolledBack:
        """Rolls back, including these tables and the known tables."""
        begun = self._where.rolling_back()
        if begun is None:
            self._demand_batch()
            newest = self._spark.begun()
        else:
            newest = int(begun["from"])
            if begun["to"] != self._batch:
                raise self._where.unfinished(int(begun["to"]))
        logs = [log for operator in self._operators for log in _logs(operator)]
        for log in logs:
            log.check_rebuildable(self._batch)
        places, asides = [self._place(text) for text in named], self._asides()
        places += [place for place in self._known() if place.table not in {other.table for other in places}]
        steps = [self._table(place, newest) for place in places]
        read = read_after(self._where.checkpoint, self._batch)
        files = {uri for log, entry in read.items() for uri in compacted.files_after(log, entry)}
        note = self._where.checkpoint / HERE
        note.make()
        note.replace(ROLLBACK, json.dumps({"to": self._batch, "from": newest}).encode())
        for step in steps:
            step()
        for source, entry in read.items():
            compacted.cut(source, entry)
            _synced(source)
        for kind in ("commits", "offsets"):
            _delete(self._where.checkpoint / kind, _LOGGED, self._batch)
        for log in logs:
            log.forget(self._batch)
            _synced(log.folder)
        for aside in asides:
            for name in aside.folders():
                _delete(aside / name, _SET_ASIDE, self._batch)
        note.delete([ROLLBACK])
        return RolledBack(self._batch, newest, tuple(place.name for place in places), _missing(files))

    def _place(self, text: str) -> Place:
        return place_at(text, storage_options=self._options)

    def _known(self) -> list[Place]:
        """Returns the tables that the stream is known to write, if they contain batches of the stream."""
        output = output_of(self._where.checkpoint)
        texts = [*([] if output is None else [output]), *self._where.outside(TABLES)]
        places = [self._place(text) for text in dict.fromkeys(texts)]
        return [place for place in places if place.folder is not None and self._deltas(place.folder)[0] >= 0]

    def _asides(self) -> list[Folder]:
        """Returns the folders in which the operators of the stream have quarantined rows."""
        own = [folder_at(text, "quarantine", self._options) for text in self._where.outside(QUARANTINES)]
        return [folder / self._name for folder in (self._where.quarantine, *own)]

    def _demand_batch(self) -> None:
        committed, folder = self._spark.committed(), self._where.checkpoint
        if not -1 <= self._batch <= committed:
            raise CheckpointError(
                f"there is no batch {self._batch} to go back to: the stream of {folder} has committed "
                f"{f'the batches up to {committed}' if committed >= 0 else 'none'}"
            )
        kept = all((folder / kind).has(str(self._batch)) for kind in ("offsets", "commits"))
        if self._batch >= 0 and not kept:
            raise CheckpointError(
                f"Spark's checkpoint {folder} does not go back to batch {self._batch}: it keeps its newest batches "
                "only (spark.sql.streaming.minBatchesToRetain). Give a later batch"
            )

    def _table(self, place: Place, newest: int) -> Step:
        """Returns the step that rolls a table back. Raises CheckpointError or SourceError if that is impossible."""
        if self._batch < 0:
            raise CheckpointError(f"{place.name} cannot go back to before its first batch: delete it, and leave it out")
        at, step = self._result(place) if place.folder is None else self._in_folder(place, place.folder)
        if at == self._batch:
            return lambda: None
        if at < 0:
            raise SourceError(f"{place.name} has no batch of the stream of {self._where.checkpoint}: leave it out")
        if not self._batch < at <= newest:
            raise CheckpointError(
                f"{place.name} is at batch {at} and the stream of {self._where.checkpoint} at {newest}, so it cannot "
                f"go back to {self._batch}: restore the one that belongs to the other"
            )
        return step(at)

    def _in_folder(self, place: Place, folder: Folder) -> tuple[int, Callable[[int], Step]]:
        """Returns the newest batch of the table in a folder, and a function that returns the step to roll it back."""
        at, step = self._deltas(folder)
        return (at, step) if at >= 0 else self._result(place)

    def _deltas(self, folder: Folder) -> tuple[int, Callable[[int], Step]]:
        """Returns the newest batch of the table of deltas in a folder, −1 if it has none of the stream, and a function
        that returns the step to roll it back.
        """
        if sinks.LOG in folder.folders():
            return compacted.newest(folder / sinks.LOG), lambda at: sinks.back(folder, self._batch)
        writer = f"{self._name}/{self._operator}"
        if manifests.MANIFESTS in folder.folders():
            at = manifests.newest_manifest(folder)
            mine = at < 0 or manifests.read_manifest(folder, at)["stream"] == writer
            return at if mine else -1, lambda at: manifests.back(folder, self._batch)
        return delta.newest_batch(folder, writer), lambda at: delta.back(folder, writer, self._batch)

    def _result(self, place: Place) -> tuple[int, Callable[[int], Step]]:
        """Returns the newest batch of a table that holds the result, and a function that returns the step to roll it
        back.
        """
        target = place.target()

        def step(at: int) -> Step:
            view = place_of(self._where, self._operator, None)
            then = pa.concat_tables([with_weights(_rows(view, self._batch), 1), with_weights(_rows(view, at), -1)])
            net = net_of(then, place.keys, self._batch)
            return lambda: target.apply(self._name, self._batch, net, at)

        return target.newest(self._name), step


def _missing(files: Iterable[str]) -> tuple[str, ...]:
    """Returns the local files that do not exist."""
    paths = {path for path in map(compacted.local_path, files) if path is not None}
    return tuple(sorted(path for path in paths if not os.path.exists(path)))


def _logs(operator: Folder) -> list[CellLog]:
    meta = read_meta(operator)
    return [] if meta is None else [CellLog.of(cell, meta) for cell in cell_folders(operator)]


def _rows(view: View, batch: int) -> pa.Table:
    """Returns the result after a batch. O(state + result), a cell at a time."""
    for cell in range(view.meta["cells"]):
        batches, snapshots = CellLog.of(view.operator / str(cell), view.meta).listed()
        if batch not in (*batches, *snapshots):
            raise CheckpointError(
                f"the result after batch {batch} is not known, because cell {cell} does not have that batch: leave "
                "the table out, and fill a new one"
            )
    at = replace(view, batch=batch)
    output = kept_plan(view.operator, view.meta["fingerprint"]).program.output
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in output])
    found = [rows for cell in range(view.meta["cells"]) for rows in cell_rows(at, cell, None)]
    return pa.concat_tables([schema.empty_table(), *(pa.table(rows).cast(schema) for rows in found)])


def _delete(folder: Folder, names: re.Pattern[str], batch: int) -> None:
    """Deletes the files of batches after ``batch``, the newest first."""
    found = [(int(match[1]), match[0]) for match in map(names.fullmatch, folder.files()) if match is not None]
    folder.delete(name for number, name in sorted(found, reverse=True) if number > batch)
    _synced(folder)


def _synced(folder: Folder) -> None:
    """Syncs a folder, so that its deletions are durable before the note is deleted."""
    if isinstance(folder, LocalFolder) and folder.path.exists():
        sync(folder.path)
