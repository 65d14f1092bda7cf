"""``Database``: maintains tables and named views, which read the tables or other views."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.analysis import card
from crown.changing import Changeable
from crown.errors import CrownError
from crown.expressions.program import needs_no_arrow
from crown.guards.arguments import Size
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import PreparedBatch
from crown.ingest.clock import with_time
from crown.ingest.tables.frames import schemas
from crown.options import Resources
from crown.programs import snapshot
from crown.programs.base_rows import base_rows_of
from crown.programs.database_engine import DatabaseEngine
from crown.programs.delta_options import ALL_DELTAS, NO_DELTAS
from crown.programs.result import ResultReader
from crown.reading import Readable
from crown.results.subscribers import Audience, Pick, Subscribed
from crown.views import extra_of
from plans.errors import PlanError
from plans.program import Program
from plans.programs import named
from plans.queries.algebra import Relation
from plans.schema import Schema, Table
from plans.show.programs import text
from plans.time.windows import CLOCK


class Database(
    Changeable[dict[str, pa.Table]], NotCopyable, instead="save(path) and crown.load_database(path) make a second one"
):
    """Tables and named views. Created by ``crown.database`` and ``crown.load_database``. Not thread-safe.

    A view can read tables and views that were registered before it. A batch changes all views or none. A stage that
    several views have in common is stored and applied once.

    >>> import crown
    >>> db = crown.database({"orders": {"shop": "string", "amount": "int64"}})
    >>> _ = db.view("turnover", "SELECT shop, SUM(amount) AS total FROM orders GROUP BY shop")
    >>> _ = db.view("large", "SELECT shop FROM turnover WHERE total > 9")
    >>> deltas = db.apply({"orders": [{"shop": "a", "amount": 7}, {"shop": "b", "amount": 12}]})
    >>> deltas["large"].to_pylist()
    [{'shop': 'b', '_weight': 1}]
    >>> db["turnover"].get({"shop": "a"})
    {'shop': 'a', 'total': 7}
    """

    _engine: DatabaseEngine

    def __init__(
        self,
        engine: DatabaseEngine,
        memory_budget: int | None = None,
        quarantine_dir: Path | None = None,
        batches: int = 0,
        quiet: bool = True,
    ) -> None:
        super().__init__(engine, quarantine_dir, batches, quiet)
        self._memory_budget = memory_budget

    def _followed(self) -> tuple[Audience, Pick[dict[str, pa.Table]], str | None]:
        return self._audience, lambda deltas: deltas if any(delta.num_rows for delta in deltas.values()) else None, None

    # -- views ---------------------------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Returns the stages of all views, as one program with named results."""
        return self._engine.plan

    @property
    def tables(self) -> tuple[Table, ...]:
        """Returns the base tables, without the clock."""
        return tuple(table for table in self.program.tables if table != CLOCK)

    @property
    def schema(self) -> Schema:
        """Returns the tables and the views, as the schema of queries that may read them."""
        return named.schema_of(self.program)

    @property
    def views(self) -> tuple[str, ...]:
        """Returns the names of the views, in the order of their registration."""
        return tuple(self._engine.results)

    def view(
        self, name: str, query: str | Relation, *, rates: Mapping[str, float] | None = None, dialect: str = "spark"
    ) -> DatabaseView:
        """Registers a view of ``query`` over tables and earlier views, and returns it.

        ``query``: SQL, Datalog, a motif, or a relation of ``plans.queries.algebra`` over ``schema``.

        If the tables have rows, the view is filled from them. ``rates`` and ``dialect`` are those of ``plans.plan``.
        Cost: O(stages), and that of applying the existing rows to the new stages.

        Raises PlanError if the name is taken or the query cannot be maintained, ChangeError if rows do not fit the
        query, and MemoryBudgetError. After an error the database is unchanged.
        """
        self._switch(named.added(self.program, name, query, rates=rates, dialect=dialect))
        return self[name]

    def drop(self, name: str) -> None:
        """Drops a view and frees the stages that no other view needs. O(stages).

        Raises PlanError if there is no such view, or another one reads it.
        """
        self._switch(named.dropped(self.program, name), [name])

    def create_table(self, name: str, columns: Any) -> None:
        """Adds an empty table. ``columns``: the columns of the table, as in a schema.

        Raises PlanError for a name that is taken, and for invalid columns. Cost: all views are filled again from the
        rows of their tables. The counters of ``stats`` are reset.
        """
        if not isinstance(name, str):
            raise PlanError(f"the name of a table is a text, not {name!r:.100}")
        (table,) = Schema.of(schemas({name: columns})).values()
        self._switch(named.with_table(self.program, table))

    def drop_table(self, name: str) -> None:
        """Drops a table and its rows. Cost: as for ``create_table``.

        Raises PlanError if the table does not exist, if a view reads it, or if it is the last one.
        """
        if not isinstance(name, str):
            raise PlanError(f"the name of a table is a text, not {name!r:.100}")
        self._switch(named.without_table(self.program, name))

    def define(
        self,
        views: Mapping[str, str | Relation | Callable[[Schema], Relation]],
        *,
        drop: Iterable[str] = (),
        tables: Any = None,
    ) -> None:
        """Drops the views ``drop``, then registers ``views``, in one step and in the order of both.

        A query can be a function: it is called with the ``schema`` of that moment and returns a relation. ``tables``:
        the schema of all tables after the call. An existing table with the same columns keeps its rows, all other
        tables are empty, and all views are filled again. Cost: that of one ``view`` or ``drop``, and of applying the
        existing rows to the new stages.

        Raises the errors of ``view`` and ``drop``, and PlanError if a remaining view reads a table that is removed.
        After an error the database is unchanged.
        """
        if not isinstance(views, Mapping) or not isinstance(drop, Iterable) or isinstance(drop, str):
            raise CrownError("define takes a dict from names to queries, and drop= a list of names")
        program, dropped = self.program, tuple(drop)
        for name in dropped:
            program = named.dropped(program, name)
        if tables is not None:
            program = named.over(program, Schema.of(schemas(tables)))
        for name, query in views.items():
            program = named.added(program, name, query(named.schema_of(program)) if callable(query) else query)
        if program is not self.program:
            self._switch(program, dropped)

    def _switch(self, program: Program, dropped: Iterable[str] = ()) -> None:
        """Continues with a changed program, and ends the subscriptions to the ``dropped`` views."""
        self._changeable()
        first = self._engine.batches and not self._engine.reads_clock
        self._change(partial(self._engine.changed, program, self._memory_budget))
        if first and self._engine.reads_clock:
            self.tick()  # there are rows, but no time yet
        for name in dropped:
            self._audience.end(name)

    def _change(self, changed: Callable[[], DatabaseEngine]) -> None:
        with self._engine.uninterrupted:
            self._engine = changed()

    def fork(self, *, check: Callable[[], None] | None = None) -> Database:
        """Returns a copy of the tables and views as an independent database in memory, which another thread may use.
        O(state): memory is copied, and no row is applied.

        ``check`` is called repeatedly while the fork applies a batch or fills a view. If it raises an error, that
        operation is undone.
        """
        self._changeable()
        engine = self._engine.copied(self._memory_budget, check)
        return Database(engine, self._memory_budget, None, self._engine.batches)

    def adopt(self, fork: Database) -> None:
        """Replaces the views by those of a fork to which the same batches were applied. So views that were registered
        in the fork are added in one step, without filling them here. O(1). The fork cannot be used afterwards.

        Raises CrownError if ``fork`` is not a database, if its tables differ, if a view is missing, or if another
        number of batches was applied to it.

        >>> import crown
        >>> db = crown.database({"r": {"a": "int64"}})
        >>> _ = db.insert("r", [(1,), (2,)])
        >>> fork = db.fork()
        >>> _ = fork.view("large", "SELECT a FROM r WHERE a > 1")
        >>> for each in (db, fork):
        ...     _ = each.insert("r", [(3,)])
        >>> db.adopt(fork)
        >>> sorted(row["a"] for row in db["large"])
        [2, 3]
        """
        self._changeable()
        if not isinstance(fork, Database):
            raise CrownError(f"adopt takes a database that fork() has returned, not {fork!r:.100}")
        fork._changeable()
        engine = fork._engine
        if fork.tables != self.tables or not set(self.views) <= set(fork.views):
            raise CrownError("this is not a fork of the database: its tables differ, or a view is missing")
        if engine.batches != self._engine.batches:
            raise CrownError(
                f"{engine.batches} batches were applied to the fork, and {self._engine.batches} to the database: apply "
                "the same batches to both"
            )
        self._change(lambda: engine)
        fork.close()

    def __getitem__(self, name: str) -> DatabaseView:
        """Returns a view by its name. Case is ignored. Raises PlanError if there is no such view."""
        return DatabaseView(self, named.result_of(self.program, name).name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in {known.lower() for known in self.views}

    def __len__(self) -> int:
        return len(self.views)

    def table(self, name: str) -> pa.Table:
        """Returns the current rows of a table, with the number of copies of each row as ``_weight``. O(table).

        Raises PlanError if there is no such table, or if it has a window of the last rows, which does not store their
        order of arrival.
        """
        known = [table.name.lower() for table in self.tables]
        if not isinstance(name, str) or name.lower() not in known:
            raise PlanError(
                f"there is no table called {name}", hint=f"there are: {', '.join(t.name for t in self.tables)}"
            )
        rows = base_rows_of(self._engine, name.lower())
        if rows is None:
            raise PlanError(
                f"the table {name} has a window of the last rows and does not store their order of arrival: its rows "
                "cannot be returned",
                hint=f"register a view, SELECT * FROM {name}",
            )
        return rows

    # -- changes -------------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any]) -> dict[str, pa.Table]:
        """Applies one batch of changes of tables to all views, and returns the exact change of each view by name.

        ``changes``: a mapping from table to rows with ``_weight``, as for ``View.apply``. The batch is a transaction:
        after an error every table and view is as it was before the batch. Tables that no view reads are also stored.

        Raises the errors of ``View.apply``. Cost: each stage once, O(changes + deltas of all stages).
        """
        return self._told(self._run(changes, True))

    def update(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch of changes without computing deltas."""
        if self._audience.followers:
            self.apply(changes)
        else:
            self._run(changes, False)

    def _run(self, changes: Mapping[str, Any], deltas: bool) -> dict[str, pa.Table]:
        engine = self._engine
        with engine.uninterrupted:
            prepared = self._prepared(changes, deltas)
            return engine.run(prepared, deltas=deltas, before_commit=partial(self._before_commit, prepared))

    def _prepared(self, changes: Mapping[str, Any], deltas: bool) -> PreparedBatch:
        """Returns a batch, checked and coded."""
        self._changeable()
        if self._engine.reads_clock:
            changes = with_time(changes)
        return self._engine.prepare_for_apply(
            changes, self._quarantine_dir is None, ALL_DELTAS if deltas else NO_DELTAS
        )

    def _before_commit(self, prepared: PreparedBatch) -> None:
        """Reports absent deletes and bad rows of an applied batch, before the batch is committed."""
        self._warn_of_absent(self._engine.absent)
        if self._quarantine_dir is not None:
            self._set_aside(prepared)

    # -- care ----------------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """Returns the views and the stages that maintain them, as text."""
        return text(self.program, self._engine.wires, needs_no_arrow, self._engine.segments)

    def _result(self, name: str) -> ResultReader:
        found = self._engine.results.get(name)
        if found is None:
            raise CrownError(f"the view {name} has been dropped; register it again")
        return found

    def __repr__(self) -> str:
        return f"<crown.Database of {len(self.tables)} tables and the views {', '.join(self.views) or '(none)'}>"


class DatabaseView(Readable, Subscribed[pa.Table]):
    """A view of a database, with its ``name``. Returned by ``Database.view`` and ``db[name]``. Changes are applied to
    the database.

    >>> import crown
    >>> db = crown.database({"r": {"a": "int64"}})
    >>> _ = db.view("large", "SELECT a FROM r WHERE a > 1").subscribe(lambda delta: print(delta.to_pylist()))
    >>> _ = db.insert("r", [(1,), (2,)])
    [{'a': 2, '_weight': 1}]
    """

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self._database = database
        self.query = named.result_of(database.program, name).query

    def _reader(self) -> ResultReader:
        return self._database._result(self.name)

    def _followed(self) -> tuple[Audience, Pick[pa.Table], str | None]:
        self._reader()  # it has not been dropped
        return self._database._audience, partial(_of_view, self.name), self.name

    def __repr__(self) -> str:
        return f"<view {self.name} of {self.query!r}>"

    def _repr_html_(self) -> str:
        return card.of_result(self, self.query, [f"view {self.name}"])


def _of_view(name: str, deltas: dict[str, pa.Table]) -> pa.Table | None:
    return deltas[name] if deltas[name].num_rows else None


def load_database(path: str | os.PathLike[str], *, memory_budget: Size | None = None) -> Database:
    """Returns the database that ``Database.save`` wrote. O(state).

    Raises SnapshotError for a file that is damaged or not a snapshot.
    """
    budget = Resources(memory_budget=memory_budget).budget
    engine, extra = snapshot.load_several(path, budget)
    folder, batches, _ = extra_of(extra, path)
    return Database(engine, budget, folder, batches)
