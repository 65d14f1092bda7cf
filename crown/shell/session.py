"""A session of the shell: executes statements on the database in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.durable.database import DurableDatabase
from crown.durable.opening import is_begun, open_database
from crown.errors import CrownError
from crown.guards.arguments import path_of
from crown.planning import explain
from crown.shell import grammar
from crown.shell.printing import counted
from crown.views import view
from plans import program
from plans.errors import PlanError
from plans.files.rows import RowsFile
from plans.schema import WEIGHT, Schema, Table

_NO_ZONE = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?")


class Session:
    """Executes statements. ``show`` is called with tables and their captions, or with a sentence that reports what was
    done. If the folder has no database, the first CREATE TABLE creates it. A SELECT that is more than all rows of one
    view costs as much as filling a view of the query."""

    def __init__(self, folder: Path, show: Callable[[str, pa.Table | None], None]) -> None:
        self._folder = folder
        self._show = show
        self._ends: dict[str, Callable[[], None]] = {}
        self._opened: DurableDatabase | None = open_database(folder) if is_begun(folder) else None

    @property
    def _db(self) -> DurableDatabase:
        if self._opened is None:
            raise CrownError(f"{self._folder} has no tables yet; write {grammar.FORMS['CREATE TABLE']}")
        return self._opened

    def close(self) -> None:
        """Closes the database."""
        if self._opened is not None:
            self._opened.close()

    def run(self, text: str) -> None:
        """Executes one statement. Raises CrownError if it fails; then nothing has changed."""
        asked = grammar.statement(text)
        self._DO[type(asked)](self, asked)

    def tables(self) -> Iterator[str]:
        """Yields a line for each table and view, with its columns and its number of rows."""
        if self._opened is None:
            return
        db = self._opened
        for table in db.tables:
            rows = sum(db.table(table.name)[WEIGHT].to_pylist())
            yield f"table  {_declared(table)}  {counted(rows)}"
        for name in db.views:
            yield f"view   {_declared(db.schema[name])}  {counted(db[name].count())}"

    def _create_table(self, asked: grammar.CreateTable) -> None:
        declared: dict[str, Any] = {"columns": asked.columns}
        declared |= {"key": list(asked.key), "enforced": True} if asked.key else {}
        if self._opened is None:
            self._opened = open_database(self._folder, {asked.name: declared})
        elif asked.unless_there and asked.name in Schema(self._db.tables):
            return self._show(f"the table {asked.name} already exists", None)
        else:
            self._db.create_table(asked.name, declared)
        return self._show(f"created the table {asked.name}", None)

    def _create_view(self, asked: grammar.CreateView) -> None:
        there = asked.name in self._db
        if there and asked.unless_there:
            return self._show(f"the view {asked.name} already exists", None)
        self._db.define({asked.name: asked.query}, drop=[asked.name] if there and asked.replace else [])
        return self._show(f"created the view {asked.name}: {counted(self._db[asked.name].count())}", None)

    def _drop(self, asked: grammar.Drop) -> None:
        there = asked.name in Schema(self._db.tables) if asked.table else asked.name in self._db
        if asked.if_there and not there:
            return self._show(f"there is no {'table' if asked.table else 'view'} {asked.name}", None)
        if asked.table:
            self._db.drop_table(asked.name)
        else:
            self._db.drop(asked.name)
        return self._show(f"dropped {asked.name}", None)

    def _insert(self, asked: grammar.Insert) -> None:
        table = self._table(asked.table)
        names = asked.columns or tuple(column.name for column in table.columns)
        if asked.query:
            found = self._asked(asked.query)
            if found.num_columns != len(names):
                raise CrownError(f"the query has {found.num_columns} columns, and {len(names)} are to be inserted")
            return self._applied(table, found.rename_columns(list(names)), found.num_rows, "inserted")
        for row in asked.rows:
            if len(row) != len(names):
                raise CrownError(f"a row has {len(row)} values for {len(names)} columns: {', '.join(names)}")
        columns: dict[str, list[grammar.Value]] = {name: [row[i] for row in asked.rows] for i, name in enumerate(names)}
        given = {name.lower() for name in names}
        columns |= {c.name: [None] * len(asked.rows) for c in table.columns if c.name.lower() not in given}
        for name, values in columns.items():
            known = table.column(name)
            if known is not None and known.type == "timestamp":  # a time without a zone is one of UTC, as in queries
                columns[name] = [f"{v}Z" if v is not None and _NO_ZONE.fullmatch(v) else v for v in values]
            elif known is None:
                raise CrownError(
                    f"{table.name} has no column {name}; it has {', '.join(c.name for c in table.columns)}"
                )
        return self._applied(table, columns, len(asked.rows), "inserted")

    def _delete(self, asked: grammar.Delete) -> None:
        table = self._table(asked.table)
        try:
            found = self._asked(asked.query, weighted=True)
        except PlanError as error:  # its place is that in the query, which the user has not written
            raise PlanError(error.message, hint=error.hint) from None
        weights = found[WEIGHT].to_numpy()
        signed = found.set_column(found.num_columns - 1, WEIGHT, pa.array(-weights))
        self._applied(table, signed, int(weights.sum()), "deleted")

    def _copy(self, asked: grammar.Copy) -> None:
        table = self._table(asked.table)
        rows = RowsFile(path_of(asked.path, "COPY")).rows(table)
        self._applied(table, rows, rows.num_rows, "copied")

    def _applied(self, table: Table, rows: Any, number: int, done: str) -> None:
        self._db.update({table.name: rows})
        self._show(f"{done} {counted(number)}", None)

    def _select(self, asked: grammar.Select) -> None:
        if asked.whole in self._db:
            found = self._db[asked.whole].to_table(asked.limit)
        elif asked.whole in Schema(self._db.tables):
            found = self._asked(f"SELECT * FROM `{asked.whole}`").slice(0, asked.limit)
        else:
            found = self._asked(asked.query)
        self._show("", found)

    def _asked(self, query: str, weighted: bool = False) -> pa.Table:
        """Returns the current result of a query over tables and views."""
        db = self._db
        made = program(query, Schema(tuple(db.schema.values())))
        rows = {}
        for table in made.tables:
            base = table.name in Schema(db.tables)
            kept = db.table(table.name) if base else db[table.name].to_table(weighted=True)
            rows[table.name] = kept.replace_schema_metadata(None)
        once = view(made, on_missing="ignore")
        once.update(rows)
        return once.to_table(weighted=weighted)

    def _explain(self, asked: grammar.Explain) -> None:
        query = self._db[asked.query].query if asked.query in self._db else asked.query
        self._show(explain(query, Schema(tuple(self._db.schema.values()))), None)

    def _subscribe(self, asked: grammar.Subscribe) -> None:
        view_ = self._db[asked.view]
        end = self._ends.pop(view_.name, None)
        if end is not None:
            end()
        if asked.on:
            self._ends[view_.name] = view_.subscribe(lambda delta: self._show(view_.name, delta))
        said = "shows the changes of" if asked.on else "shows no more changes of"
        self._show(f"this session {said} {view_.name}", None)

    def _table(self, name: str) -> Table:
        tables = Schema(self._db.tables)
        if name not in tables:
            what = f"{name} is a view; change its tables" if name in self._db else f"there is no table called {name}"
            raise PlanError(what, hint=f"there are: {', '.join(tables)}")
        return tables[name]

    _DO: dict[type[Any], Callable[[Session, Any], None]] = {  # noqa: RUF012
        grammar.CreateTable: _create_table,
        grammar.CreateView: _create_view,
        grammar.Drop: _drop,
        grammar.Insert: _insert,
        grammar.Delete: _delete,
        grammar.Copy: _copy,
        grammar.Select: _select,
        grammar.Explain: _explain,
        grammar.Subscribe: _subscribe,
    }


def _declared(table: Table) -> str:
    return f"{table.name}({', '.join(map(str, table.columns))})"
