"""The schema of tables in the planner: names, typed columns, keys.

Types are those of ``plans.types``. Names are looked up as in SQL, without regard to case, and keep their declared
spelling. All dataclasses here are immutable and have a JSON form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from plans.errors import PlanError
from plans.time import durations
from plans.types import decimal_parts, normal_type, shown, type_of_arrow, type_of_python, untyped, why_untyped

_ORDERED = ("int32", "int64", "date", "timestamp", "timestamp_ntz")
_TIMES = {"timestamp": durations.MICROSECOND, "timestamp_ntz": durations.MICROSECOND, "date": durations.DAY}
_DECLARATIONS = ("key", "distinct", "enforced", "upserts", "sequence", "tombstones")
WEIGHT = "_weight"
"""The column of changes and deltas that says how many copies of a row are inserted or deleted."""
CHANGE_TYPE, ROW_KIND = "_change_type", "_row_kind"
UNTIL = "_until"
"""The column of deltas in ranges that has the last row of a range."""
BESIDE_CHANGES = frozenset({"_commit_version", "_commit_timestamp", "_change_ordinal", "_commit_snapshot_id"})
"""Columns that accompany change codes and do not belong to the relation."""
CHANGE_COLUMNS = frozenset({WEIGHT, CHANGE_TYPE, ROW_KIND, *BESIDE_CHANGES})
"""Columns of changes that do not belong to the relation, unless its schema declares them."""

STAGE, STAGE_OF_CELL = "#", "stage "
DERIVED = (STAGE, STAGE_OF_CELL)
"""Prefixes of the names of stages used as relations, in a program and in a cell of it. Their keys may be NULL."""


def source_of(relation: str) -> str | int:
    """Returns the source of a relation in a program's join: the name of a base table, or the number of a stage."""
    return int(relation.removeprefix(STAGE)) if relation.startswith(STAGE) else relation


@dataclass(frozen=True)
class Column:
    """A column of a table. `required`: it is NOT NULL, and a row with NULL in it is a bad row.

    `rounded`: numbers with more decimal places than the column's type are rounded half up, as CAST does. Otherwise they
    are bad rows.
    """

    json_row: ClassVar[bool] = True
    json_may_lack: ClassVar[tuple[str, ...]] = ("required", "rounded")
    name: str
    type: str
    required: bool = False
    rounded: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"{shown(self.name)} is not the name of a column", hint="a name is a text")
        for flag in ("required", "rounded"):
            if not isinstance(getattr(self, flag), bool):
                raise PlanError(f"column {self.name}: {flag} is True or False, not {shown(getattr(self, flag))}")
        type_ = normal_type(self.type)  # a PlanError if there is no such type
        if self.rounded and decimal_parts(type_) is None:
            raise PlanError(
                f"column {self.name} is {self.type}, and only decimals are rounded",
                hint="leave 'rounded' out, or declare a decimal: 'decimal(10,2) rounded'",
            )

    def __str__(self) -> str:
        marks = " not null" * self.required + " rounded" * self.rounded
        return f"{self.name} {self.type}{marks}"


@dataclass(frozen=True)
class Table:
    """A table. `key` names columns in which no two rows are equal; `distinct` says that all rows are distinct.

    Both are declared by the user. The planner uses them to maintain SQL without DISTINCT as a set. The columns of a
    declared key are NOT NULL. `enforced`: the declaration is checked instead of trusted, and a row that violates it is
    a bad row.

    `upserts`: the changes of the table are updates by its key, without the old row. An inserted row replaces the row
    with its key, and only the key of a deleted row is read. `sequence` names a NOT NULL column that grows with the
    changes of a key: a change older than the last change of its key is ignored. Without it, changes are applied in the
    order of their arrival. `tombstones`: how far behind the greatest sequence the sequence of a deleted key is still
    kept; None: forever. It is `"7 days"`, or a number for an integer column.
    """

    json_may_lack: ClassVar[tuple[str, ...]] = ("upserts", "sequence", "tombstones", "enforced")
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    distinct: bool = False
    upserts: bool = False
    sequence: str | None = None
    tombstones: str | None = None
    enforced: bool = False

    def json_left_out(self) -> tuple[str, ...]:
        """Returns the fields that only tables with upserts, or with an enforced key, have."""
        believed = () if self.enforced else ("enforced",)
        if self.tombstones is not None:
            return believed
        return ("tombstones", *believed) if self.upserts else ("upserts", "sequence", "tombstones", *believed)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"{shown(self.name)} is not the name of a table", hint="a name is a text")
        columns = tuple(self.columns) if isinstance(self.columns, (tuple, list)) else (None,)
        if not all(isinstance(column, Column) for column in columns):
            raise PlanError(
                f"the columns of table {self.name} are not a tuple of Column",
                hint=f"write Table({self.name!r}, (Column('a', 'int64'), ...))",
            )
        key = tuple(self.key) if isinstance(self.key, (tuple, list)) else (None,)
        if not all(isinstance(name, str) for name in key):
            raise PlanError(f"the key of table {self.name} is not a tuple of column names", hint="write key=('id',)")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "key", key)
        seen: set[str] = set()
        for column in self.columns:
            if column.name.lower() in seen:
                raise PlanError(f"table {self.name} has two columns called {column.name}")
            if column.name.lower() == WEIGHT:
                raise PlanError(
                    f"table {self.name} must not have a column called {column.name}: changes carry their weight under "
                    "this name",
                    hint="leave it out of the schema; rename such a column of the data",
                )
            seen.add(column.name.lower())
        for name in self.key:
            if name.lower() not in seen:
                raise PlanError(f"the key of table {self.name} names {name}, which is not one of its columns")
        for flag in ("distinct", "upserts", "enforced"):
            if not isinstance(getattr(self, flag), bool):
                raise PlanError(f"table {self.name}: {flag} is True or False, not {shown(getattr(self, flag))}")
        self._check_enforced()
        self._check_upserts()

    def _check_enforced(self) -> None:
        if self.enforced and not (self.key or self.distinct):
            raise PlanError(
                f"table {self.name} is enforced, but declares neither a key nor distinct rows",
                hint="declare it: key=('id',), enforced=True; or distinct=True, enforced=True",
            )
        if self.enforced and self.upserts:
            raise PlanError(
                f"table {self.name} has upserts and an enforced key, but an upsert replaces the row that has its key",
                hint="leave enforced out, or upserts",
            )

    def _check_upserts(self) -> None:
        if self.upserts and not self.key:
            raise PlanError(
                f"table {self.name} has upserts, but no key, by which an upsert finds the row that it replaces",
                hint="declare it: key=('id',), upserts=True",
            )
        if self.sequence is None:
            if self.tombstones is not None:
                raise PlanError(
                    f"table {self.name} declares tombstones, but no sequence, which they need",
                    hint="declare the sequence, or leave tombstones out",
                )
            return
        column = self.column(self.sequence) if isinstance(self.sequence, str) else None
        if not self.upserts:
            raise PlanError(
                f"table {self.name} has a sequence, which orders upserts, but no upserts",
                hint="declare upserts=True, or leave the sequence out",
            )
        if column is None or column.name.lower() in {name.lower() for name in self.key}:
            raise PlanError(
                f"the sequence of table {self.name} is {shown(self.sequence)}, which is not one of its columns "
                "outside of the key"
            )
        if normal_type(column.type) not in _ORDERED:
            raise PlanError(
                f"the sequence of table {self.name}, {column.name}, has the type {column.type}",
                hint="use a column of type " + ", ".join(_ORDERED),
            )
        if self.tombstones is not None:
            unit = _TIMES.get(normal_type(column.type), 0)
            length = durations.of_units(self.tombstones, unit)
            if length is None:
                wanted = "whole days" if unit == durations.DAY else "a length of time" if unit else "a whole number"
                raise PlanError(
                    f"table {self.name}: tombstones={shown(self.tombstones)}, but its sequence {column.name} is "
                    f"{column.type}",
                    hint=f"give {wanted}, such as {'7 days' if unit else 1000}",
                )
            object.__setattr__(self, "tombstones", durations.shown(length * unit) if unit else str(length))

    @property
    def kept_behind(self) -> int | None:
        """Returns how far behind the greatest sequence tombstones are kept, in units of the sequence; None: forever."""
        column = None if self.tombstones is None or self.sequence is None else self.column(self.sequence)
        return None if column is None else durations.of_units(self.tombstones, _TIMES.get(normal_type(column.type), 0))

    @property
    def typed(self) -> tuple[str, ...]:
        """Returns the columns with a type, which are those that can be read."""
        return tuple(column.name for column in self.columns if why_untyped(column.type) is None)

    def column(self, name: str) -> Column | None:
        """Returns the column with that name, ignoring case, or None if there is none."""
        wanted = name.lower() if isinstance(name, str) else None
        return next((c for c in self.columns if c.name.lower() == wanted), None)

    def required(self, name: str) -> bool:
        """Returns True if a column may not be NULL: it is declared so, or is part of a base table's key, or its
        sequence."""
        column = self.column(name)
        keys = () if self.name.startswith(DERIVED) else self.named_by
        return column is not None and (column.required or column.name.lower() in {key.lower() for key in keys})

    @property
    def named_by(self) -> tuple[str, ...]:
        """Returns the columns that every change of the table has: the key, and with upserts also the sequence."""
        return self.key if self.sequence is None else (*self.key, self.sequence)

    @property
    def by_key(self) -> bool:
        """Returns True if rows are looked up by key before a change is passed on to the query: the table has upserts,
        or its key is enforced."""
        return self.upserts or self.enforced

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """Returns the columns that identify a row, in the order of the table: those of the key, else all columns of a
        distinct table, else ()."""
        key = {name.lower() for name in self.key}
        every = self.distinct and not key
        return tuple(column.name for column in self.columns if every or column.name.lower() in key)

    def plain(self) -> Table:
        """Returns the table without look-ups by key, which have been done before."""
        return replace(self, upserts=False, sequence=None, tombstones=None, enforced=False)


def why_required(table: Table, name: str) -> str:
    """Returns why a row of a table is bad in which this column, which is required, is NULL."""
    why = "declared NOT NULL, or the order of a window"
    if name.lower() in {key.lower() for key in table.named_by}:
        why = "part of the key" if name.lower() in {key.lower() for key in table.key} else "the sequence"
    return f"column {name!r} is NULL, and {why}"


class Schema(Mapping[str, Table]):
    """Tables by name, looked up without regard to case. The tables named in `derived` are results of other queries."""

    def __init__(self, tables: tuple[Table, ...] = (), derived: Iterable[str] = ()) -> None:
        if not isinstance(tables, (tuple, list)) or not all(isinstance(table, Table) for table in tables):
            raise PlanError("Schema takes a tuple of Table", hint="write Schema.of({'g': {'src': 'int64'}})")
        if not isinstance(derived, Iterable) or isinstance(derived, str):
            raise PlanError(f"derived= is a list of names of tables, not {shown(derived)}")
        derived = tuple(derived)
        if not all(isinstance(name, str) for name in derived):
            raise PlanError("derived= has names of tables that are not texts")
        self.derived = frozenset(name.lower() for name in derived)
        self._tables: dict[str, Table] = {}
        for table in tables:
            if table.name.lower() in self._tables:
                raise PlanError(f"the schema has two tables called {table.name}")
            self._tables[table.name.lower()] = table

    def __getitem__(self, name: str) -> Table:
        return self._tables[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return (table.name for table in self._tables.values())

    def __len__(self) -> int:
        return len(self._tables)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._tables

    @staticmethod
    def of(given: Schema | Mapping[str, Any] | None) -> Schema:
        """Returns the schema of a user's description.

        `{"G": {"src": "int64", "dst": "int64 not null", "price": "decimal(10,2) rounded"}}`, `{"G": pa.schema(...)}`
        (whose fields may be not nullable), `{"G": Table(...)}`, or, with declarations, `{"G": {"columns": {"src":
        "int64", ...}, "key": ["src"], "distinct": True}}`; also `"enforced": True`, `"upserts": True`, `"sequence":
        "ts"` and `"tombstones": "7 days"`.
        """
        if isinstance(given, Schema):
            return given
        if given is None:
            return Schema()
        if not isinstance(given, Mapping):
            raise PlanError(
                f"a schema is a mapping of table names to columns, not {shown(given)}",
                hint="write {'g': {'src': 'int64', 'dst': 'int64'}}",
            )
        return Schema(tuple(_table(name, columns) for name, columns in given.items()))


def _table(name: str, given: Any) -> Table:
    if isinstance(given, Table):
        return replace(given, name=name)
    if isinstance(given, pa.Schema):
        return Table(name, tuple(Column(f.name, _type_of_arrow(f.type), not f.nullable) for f in given))
    if not isinstance(given, Mapping):
        fitting = isinstance(getattr(given, "schema", None), pa.Schema)
        raise PlanError(
            f"table {name}: give a mapping of columns to types, an Arrow schema or a plans.Table, not {shown(given)}",
            hint="pass its .schema" if fitting else "write {'src': 'int64', 'dst': 'int64'}",
        )
    if isinstance(given.get("columns"), Mapping):
        unknown = sorted(set(given) - {"columns", *_DECLARATIONS})
        if unknown:
            raise PlanError(
                f"table {name}: unknown declaration {unknown[0]!r}",
                hint=f"use columns, {', '.join(_DECLARATIONS[:-1])} and {_DECLARATIONS[-1]}",
            )
        plain = _table(name, given["columns"])
        flags = {flag: given.get(flag, False) for flag in ("distinct", "upserts", "enforced")}
        sequence, behind = given.get("sequence"), given.get("tombstones")
        return Table(name, plain.columns, given.get("key", ()), **flags, sequence=sequence, tombstones=behind)
    if isinstance(given.get("columns"), (list, tuple)):
        raise PlanError(f"table {name}: columns has no types", hint="write {'columns': {'a': 'int64'}, 'key': ['a']}")
    return Table(name, tuple(_column(name, column, type_) for column, type_ in given.items()))


_MARKED = re.compile(r"(?P<type>.*\S)\s+(?P<mark>not\s+null|rounded)\s*", re.IGNORECASE | re.DOTALL)


def marked(given: str) -> tuple[str, dict[str, bool]]:
    """Returns the type of a column, and the fields of `Column` set by the marks after the type, NOT NULL and
    ROUNDED."""
    fields: dict[str, bool] = {}
    while (found := _MARKED.fullmatch(given)) is not None:
        fields["rounded" if found["mark"].lower() == "rounded" else "required"] = True
        given = found["type"]
    return given, fields


def _column(table: str, name: str, given: Any) -> Column:
    """Returns a column of a schema, given by its type and optional marks."""
    type_, fields = marked(given) if isinstance(given, str) else (given, {})
    return Column(name, _column_type(table, name, type_), **fields)


def _type_of_arrow(given: pa.DataType) -> str:
    """Returns the type of a column of a frame. A column without a type is accepted as long as no query reads it."""
    try:
        return type_of_arrow(given)
    except PlanError as error:
        return untyped(f"{error.message}; {error.hint}")


def _column_type(table: str, column: str, given: Any) -> str:
    if isinstance(given, pa.DataType):
        return _type_of_arrow(given)
    try:
        return normal_type(given) if isinstance(given, str) else type_of_python(given)
    except PlanError as error:
        raise PlanError(f"column {table}.{column}: {error.message}", hint=error.hint) from None


def tables_hint(schema: Schema, missing: str) -> str:
    """Returns the hint of an error about a table that is missing from a schema."""
    if len(schema):
        return f"the schema has: {', '.join(schema)}"
    return f'give its columns and types: schema={{"{missing}": {{"a": "int64", "b": "string"}}}}'


def upserting(table: Table) -> list[Any]:
    """Returns the properties of a table with upserts that determine results: its name, key, sequence, and how long
    tombstones are kept."""
    kept = [] if table.tombstones is None else [table.tombstones]
    return [table.name.lower(), [name.lower() for name in table.key], table.sequence and table.sequence.lower(), *kept]
