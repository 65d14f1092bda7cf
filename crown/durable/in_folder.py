"""``InFolder``: the common base of durable views and databases, which store their batches in a folder."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa

from crown.changing import Changeable
from crown.durable.journal import Journal
from crown.durable.recovery import EXACT, stamp
from crown.errors import RecoveryWarning, SnapshotError
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import WEIGHT, CheckedBatch
from crown.ingest.watermarks import with_watermark
from crown.results.subscribers import Deltas
from crown.store.arrow_buffers import integers
from plans.errors import levels_to_caller


class InFolder(Changeable[Deltas]):
    """A view or database whose batches are stored in a folder.

    An applied batch survives a crash of the process and, unless ``sync=`` is configured otherwise, of the machine. A
    batch that was interrupted by the crash is restored completely or not at all. Use the object in a ``with``
    statement, or ``close`` it, which releases the folder.
    """

    def _hold(self, journal: Journal, snapshot_bytes: int) -> None:
        self._journal = journal
        self._floor = snapshot_bytes
        self._let_go = finalize(self, journal.close)

    @property
    def path(self) -> Path:
        """Returns the folder."""
        return self._journal.folder

    @property
    def batches(self) -> int:
        """Returns the number of batches applied since the folder was created, which is the position from which a source
        continues.
        """
        return self._journal.batches

    def sync(self) -> None:
        """Syncs every batch to disk, regardless of ``sync=``."""
        self._journal.sync()

    def snapshot(self) -> None:
        """Writes a snapshot now, so that reopening reads no log. Snapshots are also written automatically as needed.
        O(state).

        Raises SnapshotError if it cannot be written; nothing is lost then. Raises DamagedStateError if the state was
        mapped (``verify=False``) from a damaged snapshot.
        """
        try:
            self._journal.snapshot(self._write)
        except OSError as error:
            raise SnapshotError(f"cannot write a snapshot to {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Syncs everything to disk, releases the folder, and ends all subscriptions and ``changes``. Results can still
        be read, but changes are rejected."""
        self._let_go()
        super().close()

    @abstractmethod
    def _write(self, path: Path) -> None:
        """Writes a snapshot to a file."""

    def _ready(self, lost: bool) -> None:
        """Raises NotDurableError if nothing can be written any more; writes a snapshot that is due, unless the state is
        ``lost``.
        """
        self._journal.check_writable()
        if self._journal.due(self._floor) and not lost:
            try:
                self.snapshot()
            except SnapshotError as error:  # the log contains everything
                self._journal.postpone()
                warnings.warn(
                    f"{error}; the log grows until that is possible", RecoveryWarning, stacklevel=levels_to_caller()
                )

    def _append(self, prepared: PreparedBatch, more: Mapping[str, Any], absent: Sequence[str]) -> None:
        """Writes a batch to the log; when this returns, the batch is durable. ``absent``: relations in which deletes
        found no row.
        """
        exact = {} if absent else {EXACT: True}
        self._journal.append({name: _table(batch) for name, batch in prepared.checked.items()}, {**more, **exact})

    def _stamped(self) -> dict[str, Any]:
        """Returns the description of a snapshot: its batch and its owner."""
        version = self._journal.batches
        return {"batches": version, "durable": stamp(self._journal.identity.view, version)}

    def _written(self) -> dict[str, Any]:
        """Returns ``synced`` (the number of batches on disk), and ``log_bytes`` since the snapshot."""
        return {"synced": self._journal.synced, "log_bytes": self._journal.logged}


def _table(batch: CheckedBatch) -> pa.Table:
    """Returns the accepted rows as a table that ``prepare`` of an engine reads as the same batch."""
    columns = pa.table({**batch.columns, WEIGHT: integers(np.ascontiguousarray(batch.weights, np.int64), pa.int64())})
    return columns if batch.watermark is None else with_watermark(columns, batch.watermark)
