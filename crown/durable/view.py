"""``DurableView``: a view whose every applied batch is written down before it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.durable.held import InFolder
from crown.durable.journal import Journal
from crown.ingest.batch import PreparedBatch
from crown.programs.program import ProgramEngine
from crown.views import View


class DurableView(
    InFolder[pa.Table],
    View,
    instead="a folder has one view; save(path) and crown.load(path) make another one of its state",
):
    """A view in a folder; ``crown.open`` makes or reopens one. In all else it is a ``View``.

    A batch that ``apply`` or ``update`` has returned from survives the death of the process and, unless ``sync=`` says
    otherwise, of the machine. Of a batch that was being applied then, either all or nothing is there. Use it in a
    ``with`` statement, or ``close`` it: the folder is free for others from then on.
    """

    def __init__(
        self,
        engine: ProgramEngine,
        journal: Journal,
        quarantine_dir: Path | None,
        snapshot_bytes: int,
        unread: frozenset[str],
        quiet: bool,
    ) -> None:
        super().__init__(engine, quarantine_dir, journal.batches, unread, quiet)
        self._hold(journal, snapshot_bytes)

    def stats(self) -> dict[str, Any]:
        """Returns ``View.stats``, ``synced`` (batches that are on the disk), and ``log_bytes`` since the snapshot."""
        return {**super().stats(), **self._written()}

    def _prepared(self, changes: Mapping[str, Any]) -> PreparedBatch:
        self._ready(self._engine.lost)
        return super()._prepared(changes)

    def _close(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        super()._close(prepared, deltas)
        self._append(prepared, {})

    def _write(self, path: Path) -> None:
        self._engine.save(path, {**self._kept(), **self._stamped()})
