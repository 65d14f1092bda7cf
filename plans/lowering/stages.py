"""The stages of a program under construction, and small functions that build them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from plans import serial
from plans.expressions.build import FALSE, NULL, Expr, cast, col, conjoin, lit, substitute
from plans.plan import Output
from plans.programs.stages import Feed, LinearStage, PointwiseStage, Stage, identity, outputs_of
from plans.queries.algebra import Query, Relation, Source, split
from plans.queries.conjunction import verdict
from plans.schema import STAGE, Column, Table, source_of
from plans.stack import with_room


class Stages:
    """The stages so far, in topological order. Equal stages are created once.

    `made`: the stages that exist already. `views`: the stages of named results, by name in lower case. `together`: each
    group has one feed, whatever its cost.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        made: Iterable[Stage] = (),
        views: Mapping[str, int] | None = None,
        together: bool = False,
    ) -> None:
        self.made: list[Stage] = list(made)
        self.rates = rates
        self.views = dict(views or {})
        self.together = together
        self.known: dict[int, int] = {}  # number of the stage by identity of its relation (see `one`)
        self._first: dict[Any, Relation] = {}  # by its parts, the first of equal relations
        self._firsts: dict[int, tuple[Relation, Relation]] = {}  # by identity: a relation and its first equal one
        self._numbers = {_name(stage): number for number, stage in enumerate(self.made)}

    def add(self, stage: Stage) -> int:
        """Adds a stage unless an equal one exists, and returns its number."""
        number = self._numbers.setdefault(_name(stage), len(self.made))
        if number == len(self.made):
            self.made.append(stage)
        return number

    def forget(self, count: int) -> None:
        """Removes all stages but the first ``count``."""
        for stage in self.made[count:]:
            del self._numbers[_name(stage)]
        del self.made[count:]
        self.known = {relation: number for relation, number in self.known.items() if number < count}

    def one(self, relation: Relation) -> Relation:
        """Returns the first relation that is equal to this one. Amortized O(1) if its inputs were seen before, whereas
        `==` compares the whole subtree."""
        if id(relation) not in self._firsts:
            first = self._first.setdefault(with_room(self._made_of, relation), relation)
            self._firsts[id(relation)] = relation, first
        return self._firsts[id(relation)][1]

    def _made_of(self, part: Any) -> Any:
        """Returns a part of a relation in which each relation is replaced by the identity of the first equal one."""
        if type(part) is tuple:
            return tuple(map(self._key, part))
        return (type(part), *(self._key(getattr(part, one.name)) for one in fields(part)))

    def _key(self, part: Any) -> Any:
        if isinstance(part, Relation):
            return id(self.one(part))
        return self._made_of(part) if isinstance(part, Source) or type(part) is tuple else part

    def columns(self, number: int) -> tuple[Column, ...]:
        """Returns the columns of a stage's output."""
        return tuple(Column(out.name, out.type) for out in outputs_of(self.made[number]))

    def linear(self, *terms: Feed) -> int:
        """Returns the number of a stage that sums feeds."""
        return self.add(LinearStage(terms))

    def missing(self, left: Feed, right: Feed) -> int:
        """Returns the number of the stage with the distinct rows of `left` that `right` does not have."""
        return self.add(PointwiseStage((left, right), ("except", 0, 1)))

    def distinct(self, rows: Feed) -> int:
        """Returns the number of the stage with the distinct rows of a feed."""
        return self.add(PointwiseStage((rows,), ("distinct", 0)))

    def source(self, alias: str, number: int, key: tuple[str, ...] = (), distinct: bool = False) -> Source:
        """Returns a stage's output as a source of a join core."""
        return Source(alias, Table(f"{STAGE}{number}", self.columns(number), key, distinct))


def columns_read(query: Query) -> set[str]:
    """Returns the qualified columns that a query reads."""
    exprs = [*query.conditions, *(expr for _, expr in query.outputs), *(e for _, es in query.keys for e in es)]
    exprs += [expr for source in query.sources for expr in source.on]
    return {name for expr in exprs for name in expr.columns}


def visible_columns(source: Source, read: set[str]) -> tuple[Column, ...]:
    """Returns the columns of a source that are read, and those of its key. Relations derived from the source have no
    others."""
    key = {name.lower() for name in source.table.key}
    columns = source.table.columns
    if source.table.distinct:
        return columns
    return tuple(c for c in columns if f"{source.alias}.{c.name}" in read or c.name.lower() in key)


def _name(stage: Stage) -> str:
    return serial.canonical(identity(stage))


def origin(table: Table) -> str | int:
    """Returns the source of a feed over a table, which may stand for a stage."""
    return source_of(table.name)


def local(expr: Expr) -> Expr:
    """Rewrites an expression over the qualified columns of one source as an expression over its plain columns."""
    types = _types(expr)
    return substitute(expr, lambda name: col(split(name)[1], types[name]))


def _types(expr: Expr) -> dict[str, str]:
    return {node.value: node.type for node in expr.postorder() if node.op == "col"}


def renamed(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """Returns the expression with the columns in `names` replaced. Other columns stay."""
    types = _types(expr)
    return substitute(expr, lambda name: names[name] if name in names else col(name, types[name]))


def condition(parts: Iterable[Expr]) -> Expr | None:
    """Returns the conjunction of conditions over one source's own columns; None if there is none."""
    given = list(parts)
    known = [verdict(part) for part in given]
    if False in known:
        return FALSE
    open_ = [part for part, holds in zip(given, known, strict=True) if not holds]
    return conjoin(open_) if open_ else None


def nulls(columns: Iterable[Column]) -> tuple[Output, ...]:
    """Returns feed columns that are NULL."""
    return tuple(Output(c.name, c.type, cast(NULL, c.type)) for c in columns)


def constant(name: str, value: bool | int) -> Output:
    """Returns a feed column with one value."""
    made = lit(value)
    return Output(name, made.type, made)
