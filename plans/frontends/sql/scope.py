"""The scope of a SELECT: the names in FROM, and the join core into which it is flattened.

Part of `plans.frontends.sql`. A query is read by functions that receive a `Scope`. All SELECTs of a text share a
`Reading`; a `Frame` is a join core under construction; `Names` keeps aliases distinct across frames whose columns can
meet.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlglot import exp

from plans.errors import Position, pointed
from plans.expressions.build import Expr, col
from plans.frontends.fields import field_of, struct
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.parse import misspelled
from plans.nested import is_nested, parts
from plans.queries.algebra import Query, Source, replaced, split
from plans.queries.algebra import Relation as Algebra
from plans.schema import Column, Schema, Table
from plans.types import why_untyped

Cte = tuple[exp.Expression, tuple[str, ...], "Ctes"]
"""A CTE: its query, its column names, and the CTEs visible to it."""
Ctes = Mapping[str, Cte | Table]
"""The CTEs that are visible to a query, by name in lower case. A step of a recursive CTE reads the table of its rows,
whose last column is a stamp if they are distinct (`plans.frontends.recursive`)."""
Outputs = tuple[tuple[str, Expr], ...]

_SHOWN = 12  # columns in a hint


@dataclass(frozen=True)
class Reading:
    """The state that all SELECTs of a text share."""

    text: Text
    schema: Schema
    read: Callable[..., Algebra]  # `select.read`: queries contain queries
    flatten: Callable[..., Frame]  # `select.flatten`
    notes: dict[str, None] = field(default_factory=dict)
    warnings: dict[int, str] = field(default_factory=dict)  # by position
    ctes: dict[tuple[int, bool], tuple[exp.Expression, Frame | Algebra]] = field(default_factory=dict)
    """The translated CTEs, by identity, and whether their columns must have different names."""


@dataclass
class Names:
    """The used aliases and numbers of existential groups, in frames whose columns can meet."""

    taken: set[str] = field(default_factory=set)
    groups: int = 0

    def alias(self, preferred: str) -> str:
        """Returns an unused name for a source."""
        unique, number = preferred.replace(".", "_"), 1
        while unique.lower() in self.taken:
            number += 1
            unique = f"{preferred.replace('.', '_')}_{number}"
        self.taken.add(unique.lower())
        return unique

    def group(self) -> int:
        """Returns the number of a new existential group."""
        self.groups += 1
        return self.groups


@dataclass
class Frame:
    """A join core under construction: the sources and conditions of a SELECT and of all subqueries flattened into
    it."""

    names: Names
    sources: list[Source] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    keys: list[tuple[int, tuple[Expr, ...]]] = field(default_factory=list)
    outputs: Outputs = ()
    distinct: bool = False

    @property
    def aliases(self) -> set[str]:
        """Returns the aliases of the sources."""
        return {source.alias for source in self.sources}

    def derived(self, relation: Algebra, preferred: str) -> Source:
        """Returns a source over a derived relation."""
        alias = self.names.alias(preferred)
        return Source(alias, Table(alias, tuple(Column(c.name, c.type) for c in relation.columns)), input=relation)

    def merge(self, inner: Frame, group: int = 0) -> None:
        """Adds the sources and conditions of another frame. With a group, only the existence of its rows matters."""
        keyed = {number for number, _ in inner.keys} if group else set()
        for source in inner.sources:
            joins = group and (source.group == 0 or source.group in keyed)
            self.sources.append(replace(source, group=group) if joins else source)
        self.conditions += inner.conditions
        self.keys += [] if group else inner.keys

    def among(self, names: Names) -> Frame:
        """Returns the frame with aliases and groups that are unused in `names`."""
        aliases = {source.alias: names.alias(source.alias) for source in self.sources}
        groups = {0: 0, **{number: names.group() for number in range(1, self.names.groups + 1)}}

        def part(node: Expr, args: list[Expr]) -> Expr:
            if node.op == "col":
                alias, column = split(node.value)
                return col(f"{aliases[alias]}.{column}", node.type)
            return node if tuple(args) == node.args else Expr(node.op, node.type, tuple(args), node.value)

        def renamed(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
            return tuple(expr.fold(part) for expr in exprs)

        sources = [
            replace(one, alias=aliases[one.alias], group=groups[one.group], on=renamed(one.on)) for one in self.sources
        ]
        outputs = zip([name for name, _ in self.outputs], renamed(expr for _, expr in self.outputs), strict=True)
        keys = [(groups[number], renamed(exprs)) for number, exprs in self.keys]
        return Frame(names, sources, list(renamed(self.conditions)), keys, tuple(outputs), self.distinct)

    def query(self, text: str, outputs: Outputs, distinct: bool = False) -> Query:
        """Returns the frame as a query."""
        return Query(text, tuple(self.sources), tuple(self.conditions), outputs, distinct, tuple(self.keys))

    def never_null(self, expr: Expr, schema: Schema) -> bool:
        """Returns True if a value is certainly not NULL in the rows: a constant, or a NOT NULL column of a base table
        that no outer join pads."""
        if expr.op == "literal":
            return expr.value is not None
        if expr.op != "col":
            return False
        alias, _, name = expr.value.partition(".")
        return any(
            source.alias == alias
            and source.input is None
            and source.join == "inner"
            and source.table.name.lower() not in schema.derived
            and source.table.required(name)
            for source in self.sources
        )


@dataclass
class Relation:
    """A name in FROM and its columns: name in lower case to (spelling, expression over qualified columns)."""

    alias: str
    columns: dict[str, tuple[str, Expr]]
    hidden: set[str] = field(default_factory=set)  # columns that another one shows, or only an item of SELECT
    shown: dict[str, Expr] = field(default_factory=dict)  # USING columns that it shows for both sides
    number: str = ""  # a column, in lower case, that is a ROW_NUMBER(), whose value is not maintained

    @staticmethod
    def of(alias: str, columns: Iterable[tuple[str, Expr]]) -> Relation:
        """Returns a relation with these columns."""
        return Relation(alias, {name.lower(): (name, expr) for name, expr in columns})

    def visible(self) -> Iterator[tuple[str, str, Expr]]:
        """Yields the columns that an unqualified name finds, USING columns once: key, spelling, expression."""
        for key, (spelling, expr) in self.columns.items():
            if key not in self.hidden:
                yield key, spelling, self.shown.get(key, expr)

    def rename(self, names: Mapping[Expr, Expr]) -> None:
        """Replaces the expressions of the columns."""
        self.columns = {key: (spelling, replaced(expr, names)) for key, (spelling, expr) in self.columns.items()}
        self.shown = {key: replaced(expr, names) for key, expr in self.shown.items()}


@dataclass
class Scope:
    """The names that are visible to a SELECT, or to one side of a join.

    `frame` is the join core under construction; `outer` is the scope around a correlated subquery; `depth` is the
    number of enclosing queries. `beside` is the scope of the join of which this is one side.
    """

    reading: Reading
    ctes: Ctes
    frame: Frame
    outer: Scope | None = None
    depth: int = 0
    relations: list[Relation] = field(default_factory=list)
    order: list[tuple[str, str]] = field(default_factory=list)  # of the columns: table and column in lower case
    beside: Scope | None = None

    @property
    def text(self) -> Text:
        """Returns the text of the query."""
        return self.reading.text

    def side(self, frame: Frame | None = None) -> Scope:
        """Returns the empty scope of one side of a join, with a frame of its own or this one."""
        return replace(self, frame=frame or self.frame, relations=[], order=[], beside=self)

    def new_side(self) -> Scope:
        """Returns the empty scope of one side of a join, with a new frame."""
        return self.side(Frame(self.frame.names))

    # relations --------------------------------------------------------------------------------------------------------

    def before(self) -> list[Relation]:
        """Returns all relations before this place in FROM."""
        return [*self.relations, *(self.beside.before() if self.beside is not None else [])]

    def add(self, relation: Relation, node: exp.Expression) -> None:
        """Adds a relation. Raises PlanError if its name exists."""
        self.check_alias(relation, node)
        self.relations.append(relation)
        self.order += [(relation.alias.lower(), key) for key in relation.columns]

    def check_alias(self, relation: Relation, node: exp.Expression) -> None:
        """Raises PlanError if a relation with this name exists."""
        if any(other.alias.lower() == relation.alias.lower() for other in self.relations):
            raise self.text.error(f"two tables are called {relation.alias}", node, "give one of them an alias")

    def join(self, other: Scope, merged: list[tuple[str, str]]) -> None:
        """Adds the other side of a join. Its merged columns, those of USING, come first afterwards, as in Spark."""
        self.relations += other.relations
        self.order = [*merged, *(one for one in self.order if one not in merged), *other.order]

    def remove(self, other: Scope) -> None:
        """Removes the relations of a join that shows no columns."""
        self.relations = [one for one in self.relations if all(one is not gone for gone in other.relations)]
        self.order = [one for one in self.order if one not in other.order]

    def visible(self) -> list[tuple[Relation, str, Expr]]:
        """Returns the columns of *: relation, spelling, expression."""
        shown = {
            (relation.alias.lower(), key): (relation, spelling, expr)
            for relation in self.relations
            for key, spelling, expr in relation.visible()
        }
        return [shown[one] for one in self.order if one in shown]

    def relation(self, alias: str) -> Relation | None:
        """Returns the relation with this name in the nearest scope that has one."""
        wanted = alias.lower()
        found = next((r for r in self.relations if r.alias.lower() == wanted), None)
        return found or (self.outer.relation(alias) if self.outer else None)

    def known(self, name: str) -> str:
        """Returns a hint that lists the relations that exist."""
        if name.lower() in ("window", "session_window"):
            return f"GROUP BY {name}(at, '10 minutes') has {name}.start and {name}.end"
        return "the query has: " + ", ".join(relation.alias for relation in self.relations)

    # columns ----------------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> list[Expr]:
        """Returns the columns with this name in the nearest scope that has any."""
        found = [expr for _, expr in self.columns_named(name)]
        return found or (self.outer.lookup(name) if self.outer else [])

    def columns_named(self, name: str) -> list[tuple[Relation, Expr]]:
        """Returns the columns with this name in this scope, each with the relation that shows it."""
        wanted = name.lower()
        return [(one, expr) for one in self.relations for key, _, expr in one.visible() if key == wanted]

    def names(self) -> Iterator[str]:
        """Yields every column, with and without its table."""
        for relation in self.relations:
            for spelling, _ in relation.columns.values():
                yield from (spelling, f"{relation.alias}.{spelling}")

    def column(self, node: exp.Column) -> Expr:
        """Returns the expression of a column. The name of a table is a struct of its columns. Raises PlanError if the
        column is unknown or ambiguous."""
        *table, name = fields = [part.name for part in node.parts]
        relation = self.relation(table[0]) if table else None
        own = relation.columns.get(table[0].lower()) if relation is not None else None  # UNNEST(items) AS items
        inside = parts(own[1].type) if own is not None and is_nested(own[1].type) else None
        if own is not None and inside is not None and fields[1] in inside.names:
            return self._field(own[1], fields[1:], node)
        if table and (relation is None or fields[1].lower() not in relation.columns):
            structs = self.lookup(table[0])
            if len(structs) == 1 and (relation is None or is_nested(structs[0].type)):
                return self._field(structs[0], fields[1:], node)
        elif len(table) > 1 and relation is not None:
            return self._field(relation.columns[fields[1].lower()][1], fields[2:], node)
        self.check_qualifier(node)
        if node.table:
            if relation is None:
                raise self.text.error(f"unknown table or alias {node.table}", node, self.known(node.table))
            if name.lower() not in relation.columns:
                names = ", ".join(spelling for spelling, _ in relation.columns.values())
                raise self.text.error(f"{relation.alias} has no column {name}", node, f"it has: {names}")
            return self.typed(relation.columns[name.lower()][1], node)
        found = self.lookup(name)
        if len(found) > 1:
            tables = [r.alias for r in self.relations if name.lower() in r.columns]
            hint = "write " + " or ".join(f"{t}.{name}" for t in tables)
            raise self.text.error(f"column {name} is ambiguous", node, hint)
        row = self.relation(name)
        if not found and row is not None:
            shown = row.columns.values()
            return struct([expr for _, expr in shown], [spelled for spelled, _ in shown])
        if not found:
            close = difflib.get_close_matches(name, list(self.names()), 1) or misspelled(name)
            hint = f"did you mean {close[0]}?" if close else _columns(self.relations)
            raise self.text.error(f"unknown column {name}", node, hint)
        return self.typed(found[0], node)

    def _field(self, column: Expr, path: list[str], node: exp.Column) -> Expr:
        """Returns a field of a struct, or the value of a map at a key that is a name."""
        found = self.typed(column, node)
        for name in path:
            found = self.text.guarded(node, partial(field_of, found, name))
        return found

    def typed(self, column: Expr, node: exp.Column) -> Expr:
        """Returns a column. Raises PlanError if it has no type."""
        why = why_untyped(column.type)
        if why is not None:
            raise self.text.error(f"column {node.name} has no type", node, why)
        return column

    def check_qualifier(self, node: exp.Column) -> None:
        """Raises PlanError for a column that is qualified by more than its table."""
        if node.args.get("db") is not None:
            raise self.text.error("a column has at most one qualifier here", node, "write table.column")
        self.text.check_arguments(node, {"this", "table"}, "a column")

    def referent(self, name: str) -> str:
        """Returns what the name could refer to here: a column or a table; empty if neither exists."""
        if self.lookup(name):
            return f"the column {name}"
        return f"the table {name}" if self.relation(name) is not None else ""

    def warn(self, literal: exp.Expression) -> None:
        """Warns if text in double quotes, which is a constant, is also a name that the query could refer to."""
        referent = self.referent(str(literal.this))
        if referent:
            start, end = literal.meta["start"], literal.meta["end"] + 1
            hint = f"write `{literal.this}` for the name, '{literal.this}' for the text; "
            hint += "in the dialect 'ansi', double quotes write names"
            written = self.text.text[start:end]
            self.note((start, end), f"{written} is the text '{literal.this}' here, not {referent}", hint)

    def note(self, span: tuple[int, int] | None, message: str, hint: str) -> None:
        """Adds a warning about a position of the text."""
        text, (start, end) = self.text.text, span or (0, 0)
        position = None if span is None else Position.of(text, start, end)
        self.reading.warnings[start] = pointed(message, text, position, hint=hint)


def one_source(frame: Frame, relations: list[Relation], scope: Scope) -> Source:
    """Returns the single source of a frame, and removes it from the frame. If the frame has several sources, or
    conditions, they become a derived relation, and `relations` refer to its columns."""
    first = frame.sources[0]
    plain = all(expr.op == "col" for relation in relations for _, expr in relation.columns.values())
    if plain and len(frame.sources) == 1 and not frame.conditions and first.group == 0 and first.join == "inner":
        frame.sources.clear()
        return first
    outputs: list[tuple[str, Expr]] = []
    for relation in relations:
        for spelled, expr in relation.columns.values():
            if expr not in [known for _, known in outputs]:
                name = f"{relation.alias}_{spelled}"
                outputs.append((f"{name}_{len(outputs)}" if name in dict(outputs) else name, expr))
    made = frame.derived(frame.query(scope.text.text, tuple(outputs)), "_".join(one.alias for one in relations))
    for relation in relations:
        relation.rename({expr: made.qualified(name) for name, expr in outputs})
    frame.sources.clear()
    frame.conditions.clear()
    frame.keys.clear()
    return made


def kept(frame: Frame, name: str, body: exp.Expression, scope: Scope) -> Frame | Algebra:
    """Returns the join core of a CTE, or a derived relation if it has many relations and is read several times.

    Otherwise each reader would have all of its relations: ten CTEs, each of which reads the previous one twice, have a
    thousand.
    """
    plain = len({name.lower() for name, _ in frame.outputs}) == len(frame.outputs)
    if len(frame.sources) < _MANY or not plain or any(expr.type == "null" for _, expr in frame.outputs):
        return frame
    reads = sum(table.name.lower() == name.lower() for table in nodes(body.root(), exp.Table))
    if reads < 2:
        return frame
    note = f"{name} joins {len(frame.sources)} relations and is read {reads} times, so it is a separate stage"
    return replace(frame.query(scope.text.text, frame.outputs, frame.distinct), notes=(note,))


_MANY = 8


def _columns(relations: Iterable[Relation]) -> str:
    """Returns a hint that lists the columns, or the first of many."""
    names = list(dict.fromkeys(spelling for relation in relations for spelling, _ in relation.columns.values()))
    return f"there are: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}" if names else ""


def output_name(item: Any, index: int) -> str:
    """Returns the name of an item of a SELECT list: its alias, its column, or else its number."""
    named = item.unnest()
    return str(named.alias_or_name) if named.key in ("alias", "column") else f"c{index}"


def value_of(item: exp.Expression) -> exp.Expression:
    """Returns the expression of an item, without its alias."""
    found: exp.Expression = item.this if isinstance(item, exp.Alias) else item
    return found
