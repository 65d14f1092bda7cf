"""``DurableView``: a view that logs each batch before it takes effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.durable.in_folder import InFolder
from crown.durable.journal import Journal
from crown.durable.kinds import ViewKind
from crown.guards.arguments import number_of
from crown.ingest.batch import PreparedBatch
from crown.programs.cells.engine import Engine
from crown.programs.delta_options import DeltaOptions
from crown.views import View


class DurableView(
    InFolder[pa.Table],
    View,
    instead="a folder has one view; save(path) and crown.load(path) make another one of its state",
):
    """A view in a folder; ``crown.open`` creates or reopens one. Otherwise it is a ``View``.

    A batch survives a crash of the process and, unless ``sync=`` is configured otherwise, of the machine, once
    ``apply`` or ``update`` has returned. A batch that was interrupted by the crash is restored completely or not at
    all. Use the view in a ``with`` statement, or ``close`` it, which releases the folder.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        quarantine_dir: Path | None,
        snapshot_bytes: int,
        unread: frozenset[str],
        quiet: bool,
    ) -> None:
        super().__init__(engine, quarantine_dir, journal.batches, unread, quiet)
        self._hold(journal, snapshot_bytes)

    def as_of(self, batch: int) -> View:
        """Returns this view as it was after a batch, in memory. The folder is not changed.

        ``keep=`` is the number of older snapshots that are kept, with their log. Raises CrownError if the folder no
        longer has that batch. O(state + bytes of the log since the snapshot before).

        >>> import crown, tempfile
        >>> with crown.open("SELECT COUNT(*) AS n FROM r", tempfile.mkdtemp(), {"r": {"a": "int64"}}) as view:
        ...     view.update({"r": {"a": [1]}})
        ...     view.update({"r": {"a": [2, 3]}})
        ...     list(view.as_of(1)), list(view)
        ([{'n': 1}], [{'n': 3}])
        """
        kind = ViewKind(self._journal.identity, self.path, None)
        return View(self._journal.past(kind, number_of(batch, "batch", 0)), None, batch, self._unread)

    def stats(self) -> dict[str, Any]:
        """Returns ``View.stats``, ``synced`` (the number of batches on disk), and ``log_bytes`` since the snapshot."""
        return {**super().stats(), **self._written()}

    def _prepared(self, changes: Mapping[str, Any], options: DeltaOptions) -> PreparedBatch:
        self._ready(self._engine.lost)
        return super()._prepared(changes, options)

    def _before_commit(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        super()._before_commit(prepared, deltas)
        self._append(prepared, {}, self._engine.absent)

    def _write(self, path: Path) -> None:
        self._engine.save(path, {**self._kept(), **self._stamped()})
