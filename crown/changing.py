"""``Changeable``: the common base of views and databases. It applies batches, notifies subscribers, and closes."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crown.analysis.prometheus import of_stats
from crown.errors import ChangeError, CrownError, DataWarning
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import all_deleted, all_inserted
from crown.ingest.quarantine import write as write_quarantine
from crown.ingest.watermarks import advance
from crown.programs.cells.engine import Engine
from crown.programs.database_engine import DatabaseEngine
from crown.results.subscribers import Audience, Deltas, Subscribed
from plans.errors import levels_to_caller
from plans.schema import Table
from plans.time.windows import NAME, reads_clock


class Changeable(Subscribed[Deltas]):
    """A view or database. A batch changes it, and returns the deltas."""

    _engine: Engine | DatabaseEngine

    def __init__(
        self, engine: Engine | DatabaseEngine, quarantine_dir: Path | None = None, batches: int = 0, quiet: bool = True
    ) -> None:
        self._engine = engine
        self._audience = Audience()
        self._closed = False
        self._quarantine_dir = quarantine_dir
        self._quarantined = 0
        self._quiet = quiet  # about deletes of absent rows: the warning was issued, or the user has chosen on_missing
        engine.batches = batches

    def _warn_of_absent(self, relations: Sequence[str]) -> None:
        """Warns once that rows to delete were absent from these relations."""
        if relations and not self._quiet:
            tables = [self._relation(name) for name in relations]
            by_key = all(table is not None and table.upserts for table in tables)
            needed = "the key of a row that is there" if by_key else "all values of the inserted row"
            warnings.warn(
                f"a delete found no row of {', '.join(relations)}: it changes no row, and is counted in "
                f"stats()['missing_deletes']. A delete must have {needed}; "
                'on_missing="raise" rejects such deletes, and on_missing="ignore" turns this warning off',
                DataWarning,
                stacklevel=levels_to_caller(),
            )
            self._quiet = True

    def _set_aside(self, prepared: PreparedBatch) -> None:
        """Quarantines the bad rows of a batch."""
        assert self._quarantine_dir is not None, "bad rows are an error without a quarantine"
        if bad := prepared.bad:
            self._quarantined += write_quarantine(self._quarantine_dir, self._engine.batches, bad)

    @abstractmethod
    def apply(self, changes: Mapping[str, Any]) -> Deltas:
        """Applies a batch of changes and returns the deltas."""

    def insert(self, relation: str, rows: Any) -> Deltas:
        """Inserts rows into one relation and returns the deltas.

        ``rows``: as for ``apply``, without weights or change codes. Raises the errors of ``apply``.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r WHERE a > 1", {"r": {"a": "int64"}})
        >>> view.insert("r", [{"a": 1}, {"a": 2}]).to_pylist()
        [{'a': 2, '_weight': 1}]
        """
        return self._apply_all(self._relation(relation), relation, rows, all_inserted)

    def delete(self, relation: str, rows: Any) -> Deltas:
        """Deletes one copy of each of the rows from one relation and returns the deltas.

        ``rows``: complete rows, as for ``apply``, without weights or change codes. For a relation with upserts the keys
        are enough. Raises the errors of ``apply``.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}}, tables={"r": [(1,), (2,)]})
        >>> view.delete("r", [(2,)]).to_pylist()
        [{'a': 2, '_weight': -1}]
        """
        return self._apply_all(self._relation(relation), relation, rows, all_deleted)

    def upsert(self, relation: str, rows: Any) -> Deltas:
        """Inserts rows, replaces existing rows with the same keys, and returns the deltas.

        ``rows``: as for ``insert``. Raises ChangeError if the relation is not declared with upserts, and the errors of
        ``apply``.

        >>> import crown
        >>> prices = {"columns": {"id": "int64", "price": "int64"}, "key": ["id"], "upserts": True}
        >>> view = crown.view("SELECT id, price FROM prices", {"prices": prices}, tables={"prices": [(1, 20)]})
        >>> view.upsert("prices", [(1, 25)]).to_pylist()
        [{'id': 1, 'price': 20, '_weight': -1}, {'id': 1, 'price': 25, '_weight': 1}]
        """
        table = self._relation(relation)
        if table is not None and not table.upserts:
            raise ChangeError(
                f"relation {relation!r} has no upserts, so no row replaces another one; declare its key and upserts in "
                "the schema, or delete the old row and insert the new one in one batch"
            )
        return self._apply_all(table, relation, rows, all_inserted)

    def advance(self, relation: str, to: Any) -> Deltas:
        """Advances the watermark of a relation with a window by event time and returns the deltas.

        ``to``: the new watermark, a value of the event time. Rows before it are late. An earlier value than the current
        watermark has no effect. The call is a batch without rows, which is undone, logged and counted like other
        batches. Raises ChangeError for a relation without such a window. Cost: that of deleting the expired rows.

        >>> import crown
        >>> window = {"r": crown.ttl("at", 10)}
        >>> recent = crown.view("SELECT DISTINCT a FROM r", {"r": {"a": "int64", "at": "int64"}}, windows=window)
        >>> recent.update({"r": [{"a": 7, "at": 100}]})
        >>> recent.advance("r", 110).to_pylist()
        [{'a': 7, '_weight': -1}]
        """
        return self.apply(advance(self._engine.plan, relation, to))

    def tick(self, now: datetime | None = None) -> Deltas:
        """Advances the clock of a query that reads it (``NOW()``, ``CURRENT_DATE``) and returns the deltas.

        ``now``: the new time, by default that of the machine. Every batch also advances the clock, to its value of
        ``now()`` or to the time of the machine. An earlier time than the current one has no effect. Raises ChangeError
        if no query reads the clock. Cost: O(log n), and O(1) per row that enters or leaves the result.

        >>> import crown
        >>> from datetime import datetime, UTC
        >>> schema = {"r": {"a": "int64", "at": "timestamp"}}
        >>> recent = crown.view("SELECT a FROM r WHERE at > NOW() - INTERVAL 1 HOUR", schema)
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> recent.apply({"r": [{"a": 7, "at": noon}], "now()": noon}).to_pylist()
        [{'a': 7, '_weight': 1}]
        >>> recent.tick(datetime(2026, 1, 1, 13, tzinfo=UTC)).to_pylist()
        [{'a': 7, '_weight': -1}]
        """
        if not reads_clock(self._engine.plan.tables):
            raise ChangeError("no query here reads the clock: none has NOW() or CURRENT_DATE")
        return self.apply({} if now is None else {NAME: now})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program and the state to one file, which is replaced atomically. O(state)."""
        self._engine.save(path, self._kept())

    def _kept(self) -> dict[str, Any]:
        """Returns the data that is saved with the state. ``views.extra_of`` reads it."""
        quarantine = None if self._quarantine_dir is None else str(self._quarantine_dir)
        return {"batches": self._engine.batches, "quarantine": quarantine}

    def compact(self) -> int:
        """Frees dictionary entries of values that no row has any more. Returns their number. It runs automatically when
        necessary."""
        return self._engine.compact()

    def check_invariants(self) -> None:
        """Recomputes and compares every internal view. Slow, for tests. Raises AssertionError."""
        self._engine.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters of tables and stages, batches applied, and rows quarantined by this object."""
        return {**self._engine.stats(), "batches": self._engine.batches, "quarantined": self._quarantined}

    def metrics(self, name: str = "crown") -> str:
        """Returns the metrics of ``stats`` in Prometheus' text format, to be served under ``/metrics``.

        ``name``: the value of the label ``view``.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}}, tables={"r": [(1,), (2,)]})
        >>> print(view.metrics("large").splitlines()[2])
        crown_batches_total{view="large"} 1
        """
        if not isinstance(name, str):
            raise CrownError(f"the name of a view in its metrics is a text, not {name!r:.100}")
        return "".join(f"{line}\n" for line in of_stats(self.stats(), name))

    def close(self) -> None:
        """Ends all subscriptions and ``changes``. Results can still be read, but changes are rejected."""
        self._closed = True
        self._audience.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _relation(self, name: str) -> Table | None:
        """Returns a relation by its name, ignoring case. Returns None if it does not exist; ``apply`` raises the
        error."""
        if not isinstance(name, str):
            raise ChangeError(f"the name of a relation is a text, not {name!r:.100}")
        return next((table for table in self._engine.plan.tables if table.name.lower() == name.lower()), None)

    def _apply_all(self, table: Table | None, relation: str, rows: Any, sign: Callable[[Table, Any], Any]) -> Deltas:
        """Applies rows with a sign. Rows of an unknown relation are passed to ``apply`` unchanged."""
        return self.apply({relation: rows if table is None else sign(table, rows)})

    def _changeable(self) -> None:
        """Raises CrownError if the view is closed or the queue of a follower is full, and ConcurrentChangeError while
        followers are called."""
        if self._closed:
            raise CrownError("the view or database is closed and rejects changes; create, load or open it again")
        self._audience.demand_room()

    def _told(self, deltas: Deltas) -> Deltas:
        """Passes the deltas to all followers, then returns them."""
        if self._audience.followers:
            self._audience.tell(deltas)
        return deltas
