"""The common base of views and databases: both apply batches, notify subscribers, and can be closed."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from crown.analysis.prometheus import of_stats
from crown.errors import ChangeError, CrownError, DataWarning
from crown.ingest.signed import all_deleted, all_inserted
from crown.programs.watermark_batch import advance
from crown.results.subscribers import Audience, Deltas, Subscribed
from plans.callers import levels_to_caller
from plans.program import Program
from plans.schema import Table
from plans.time.clock import NAME, reads_clock


class Changeable(Subscribed[Deltas]):
    """Something that is changed by batches, and returns what each of them changed."""

    def __init__(self, quiet: bool) -> None:
        self._audience = Audience()
        self._closed = False
        self._quiet = quiet  # about deletes that find no row: it was said, or is what the user has chosen

    def _warn_of_absent(self, relations: Sequence[str]) -> None:
        """Warns, once, that deletes found no row in these relations."""
        if relations and not self._quiet:
            warnings.warn(
                f"a delete found no row of {', '.join(relations)}: it changes nothing, and is counted in "
                "stats()['missing_deletes']. A delete names all values of a row as they were inserted; "
                'on_missing="raise" refuses others, and on_missing="ignore" leaves this warning out',
                DataWarning,
                stacklevel=levels_to_caller(),
            )
            self._quiet = True

    @abstractmethod
    def _maintained(self) -> Program:
        """Returns what is maintained, with the tables that it reads."""

    @abstractmethod
    def apply(self, changes: Mapping[str, Any]) -> Deltas:
        """Applies a batch of changes, and returns what it changed."""

    def insert(self, relation: str, rows: Any) -> Deltas:
        """Inserts rows into one relation, and returns what that changed.

        ``rows``: as for ``apply``, without weights or change codes. Raises what ``apply`` raises.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r WHERE a > 1", {"r": {"a": "int64"}})
        >>> view.insert("r", [{"a": 1}, {"a": 2}]).to_pylist()
        [{'a': 2, '_weight': 1}]
        """
        return self._apply_all(self._relation(relation), relation, rows, all_inserted)

    def delete(self, relation: str, rows: Any) -> Deltas:
        """Deletes rows from one relation, one copy of each, and returns what that changed.

        ``rows``: whole rows, as for ``apply``, without weights or change codes; of a relation with upserts only their
        key is needed. Raises what ``apply`` raises.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}}, tables={"r": [(1,), (2,)]})
        >>> view.delete("r", [(2,)]).to_pylist()
        [{'a': 2, '_weight': -1}]
        """
        return self._apply_all(self._relation(relation), relation, rows, all_deleted)

    def upsert(self, relation: str, rows: Any) -> Deltas:
        """Replaces the rows that have the keys of these, or inserts them where there are none; returns what that
        changed.

        ``rows``: as for ``insert``. ChangeError if the relation is not declared with upserts; else raises what
        ``apply`` raises.

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
        """Moves the watermark of a relation with a window by event time, and returns what that changed.

        ``to``: a value of its event time; no row before it is expected any more. The watermark never goes back: to an
        earlier time nothing happens. It is a batch without rows: taken back, logged and counted like others. Raises
        ChangeError for a relation without such a window. Cost: that of the deletes of the rows that expire.

        >>> import crown
        >>> window = {"r": crown.ttl("at", 10)}
        >>> recent = crown.view("SELECT DISTINCT a FROM r", {"r": {"a": "int64", "at": "int64"}}, windows=window)
        >>> recent.update({"r": [{"a": 7, "at": 100}]})
        >>> recent.advance("r", 110).to_pylist()
        [{'a': 7, '_weight': -1}]
        """
        return self.apply(advance(self._maintained(), relation, to))

    def tick(self, now: datetime | None = None) -> Deltas:
        """Moves the clock of a query that reads it (``NOW()``, ``CURRENT_DATE``), and returns what that changed.

        ``now``: the time, by default that of the machine. Every batch moves the clock, too: to what it says under
        ``now()``, or else to the machine's time. The clock never goes back: to an earlier time nothing happens. Raises
        ChangeError if nothing reads the clock. Cost: O(log n) and O(1) per row whose time has come or ended.

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
        if not reads_clock(self._maintained().tables):
            raise ChangeError("no query here reads the clock: none has NOW() or CURRENT_DATE")
        return self.apply({} if now is None else {NAME: now})

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters."""

    def metrics(self, name: str = "crown") -> str:
        """Returns the numbers of ``stats`` that a monitor watches, in Prometheus' text format.

        ``name``: the value of the label ``view``. Serve it under ``/metrics``.

        >>> import crown
        >>> view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}}, tables={"r": [(1,), (2,)]})
        >>> print(view.metrics("large").splitlines()[2])
        crown_batches_total{view="large"} 1
        """
        if not isinstance(name, str):
            raise CrownError(f"the name of a view in its metrics is a text, not {name!r:.100}")
        return "".join(f"{line}\n" for line in of_stats(self.stats(), name))

    def close(self) -> None:
        """Ends all subscriptions and ``changes``. Results can still be read; changes are refused."""
        self._closed = True
        self._audience.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _relation(self, name: str) -> Table | None:
        """Returns a relation by its name, in any case; None if there is none: ``apply`` raises the error."""
        if not isinstance(name, str):
            raise ChangeError(f"the name of a relation is a text, not {name!r:.100}")
        return next((table for table in self._maintained().tables if table.name.lower() == name.lower()), None)

    def _apply_all(self, table: Table | None, relation: str, rows: Any, sign: Callable[[Table, Any], Any]) -> Deltas:
        """Applies rows with a sign. Rows of a relation that is not read are left to ``apply``, as they are."""
        return self.apply({relation: rows if table is None else sign(table, rows)})

    def _changeable(self) -> None:
        """Raises CrownError if it is closed or a follower has no room, ConcurrentChangeError while they are called."""
        if self._closed:
            raise CrownError("it is closed and takes no more changes; make, load or open it again")
        self._audience.demand_room()

    def _told(self, deltas: Deltas) -> Deltas:
        """Returns the deltas, when all followers have had them."""
        if self._audience.followers:
            self._audience.tell(deltas)
        return deltas
