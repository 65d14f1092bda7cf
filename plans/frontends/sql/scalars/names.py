"""What names mean in SQL: columns, tables, text in double quotes; scalar expressions over them.

Part of `plans.frontends.sql`, whose reader is built up in layers: names, FROM, subqueries, SELECT.
"""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from plans.errors import PlanError, Position, pointed
from plans.expressions.build import Expr
from plans.frontends.sql.refuse import Refuser
from plans.frontends.sql.scalars.scalar import scalar
from plans.frontends.sql.scope import Relation, Scope
from plans.frontends.sql.text.parse import Words, double_quoted, misspelled
from plans.frontends.sql.text.place import extent, place_of
from plans.queries.algebra import Relation as Algebra
from plans.queries.algebra import Source
from plans.schema import Column, Schema, Table

_T = TypeVar("_T")
Ctes = Mapping[str, tuple[exp.Expression, tuple[str, ...], "Ctes"]]


_SHOWN = 12  # columns in a hint


@dataclass
class Frame:
    """The join core under construction: one list of sources and one of conditions for a SELECT and all that is
    flattened into it.
    """

    sources: list[Source] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    keys: list[tuple[int, tuple[Expr, ...]]] = field(default_factory=list)

    @property
    def aliases(self) -> set[str]:
        """Returns the aliases of the sources."""
        return {source.alias for source in self.sources}


class Names(Refuser):
    """Resolves columns and reads scalar expressions."""

    def __init__(self, text: str, schema: Schema, words: Words) -> None:
        super().__init__(text, words)
        self.schema = schema
        self.frame = Frame()
        self.taken: set[str] = set()  # aliases, of all frames
        self.notes: list[str] = []
        self.warnings: dict[int, str] = {}  # by place
        self.values: dict[str, Expr] = {}  # what placeholder columns stand for
        self.pending: list[exp.Expression] = []  # of WHERE of the SELECT whose FROM is being read
        self.groups = 0
        self.level = 0  # the group of the SELECT that is being read
        self.depth = 0

    @abstractmethod
    def read(self, node: exp.Expression, ctes: Ctes, outer: Scope | None, unique: bool = True) -> Algebra:
        """Returns the relation that a query is."""

    @abstractmethod
    def with_values(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> exp.Expression:
        """Returns a scalar expression whose subqueries are placeholders."""

    def guarded(self, node: exp.Expression, build: Callable[[], _T]) -> _T:
        """Returns what `build` does; a PlanError without a place gets that of the node."""
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, place_of(self.text, node)) from None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Lets a part of the query be read without a trace: it is read to know something of it, or is refused."""
        before = {name: copy(value) for name, value in vars(self).items()}
        try:
            yield
        finally:
            vars(self).update(before)

    def alias(self, wish: str) -> str:
        """Returns a name for a source that no other has."""
        unique, number = wish.replace(".", "_"), 1
        while unique.lower() in self.taken:
            number += 1
            unique = f"{wish.replace('.', '_')}_{number}"
        self.taken.add(unique.lower())
        return unique

    def derived(self, relation: Algebra, wish: str, group: int = 0) -> Source:
        """Returns a source over a relation that is no base table."""
        alias = self.alias(wish)
        return Source(alias, Table(alias, tuple(Column(c.name, c.type) for c in relation.columns)), group, relation)

    def placeholder(self, value: Expr, node: exp.Expression) -> exp.Column:
        """Returns a column that stands for a value in a syntax tree, at the place of a node."""
        name = f"#{len(self.values)}"
        self.values[name] = value
        made = exp.Column(this=exp.Identifier(this=name, quoted=True))
        place = extent(node)
        if place is not None:
            made.meta["span"] = place
        return made

    def scalar(self, node: exp.Expression, scope: Scope, ctes: Ctes | None = None) -> Expr:
        """Returns a scalar expression, with what its subqueries need added to the frame."""
        for literal in double_quoted(node, self.text):
            self.warn(literal, scope)
        if ctes is not None:
            node = self.with_values(node, ctes, scope)
        return scalar(node, lambda column: self.column(column, scope), self.text)

    def never_null(self, expr: Expr, frame: Frame) -> bool:
        """Returns True if a value is certain not to be NULL in the rows of a frame: a NOT NULL column of a base table
        that no outer join pads, or a constant."""
        if expr.op == "literal":
            return expr.value is not None
        if expr.op != "col":
            return False
        alias, _, name = expr.value.partition(".")
        return any(
            source.alias == alias
            and source.input is None
            and source.join == "inner"
            and source.table.name.lower() not in self.schema.derived
            and source.table.required(name)
            for source in frame.sources
        )

    def warn(self, literal: exp.Expression, scope: Scope) -> None:
        """Says so if text in double quotes, which is a constant, is called as something that the query could mean."""
        what = scope.meaning(str(literal.this))
        if what:
            start, end = literal.meta["start"], literal.meta["end"] + 1
            self.warnings[start] = pointed(
                f"{self.text[start:end]} is the text '{literal.this}' here, not {what}",
                self.text,
                Position.of(self.text, start, end),
                hint=f"write `{literal.this}` for the name, '{literal.this}' for the text; "
                "in the dialect 'ansi', double quotes write names",
            )

    def known(self, scope: Scope) -> str:
        """Returns the tables of a scope, as a hint."""
        return "the query has: " + ", ".join(relation.alias for relation in scope.relations)

    def column(self, node: exp.Column, scope: Scope) -> Expr:
        """Returns what a column means. PlanError if it is unknown or ambiguous."""
        name = node.name
        if name in self.values:
            return self.values[name]
        self.check_qualifier(node)
        if node.table:
            relation = scope.relation(node.table)
            if relation is None:
                raise self.error(f"unknown table or alias {node.table}", node, self.known(scope))
            if name.lower() not in relation.columns:
                self.check_number(name, [relation], node)
                own = ", ".join(spelling for spelling, _ in relation.columns.values())
                raise self.error(f"{relation.alias} has no column {name}", node, f"it has: {own}")
            return relation.columns[name.lower()][1]
        found = scope.lookup(name)
        if len(found) > 1:
            tables = [r.alias for r in scope.relations if name.lower() in r.columns]
            raise self.error(f"column {name} is ambiguous", node, "write " + " or ".join(f"{t}.{name}" for t in tables))
        if not found:
            self.check_number(name, scope.relations, node)
            close = difflib.get_close_matches(name, list(scope.names()), 1) or misspelled(name)
            hint = f"did you mean {close[0]}?" if close else _columns(scope.relations)
            raise self.error(f"unknown column {name}", node, hint)
        return found[0]

    def check_qualifier(self, node: exp.Column) -> None:
        """Refuses a column that is qualified by more than its table."""
        if node.args.get("db") is not None:
            raise self.error("a column has at most one qualifier here", node, "write table.column")

    def check_number(self, name: str, relations: Iterable[Relation], node: exp.Column) -> None:
        """Refuses to read the value of a ROW_NUMBER()."""
        if any(relation.number == name.lower() for relation in relations):
            raise self.error(
                f"{name} is a ROW_NUMBER(): it is compared in WHERE once, its value is not maintained", node
            )

    def add(self, scope: Scope, relation: Relation, node: exp.Expression) -> None:
        """Adds a relation to a scope. PlanError if it has one of that name."""
        self.check_alias(scope, relation, node)
        scope.add(relation)

    def check_alias(self, scope: Scope, relation: Relation, node: exp.Expression) -> None:
        """Raises PlanError if a scope has a relation of that name."""
        if any(other.alias.lower() == relation.alias.lower() for other in scope.relations):
            raise self.error(f"two tables are called {relation.alias}", node, "give one of them an alias")


def _columns(relations: Iterable[Relation]) -> str:
    """Returns the hint that names the columns that there are; the first of many."""
    names = list(dict.fromkeys(spelling for relation in relations for spelling, _ in relation.columns.values()))
    return f"there are: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}" if names else ""
