"""Decorrelates subqueries: the dependent join of Neumann and Kemper.

The values of the outer query that a subquery reads are its *parameters*. The subquery gets a column for each parameter,
and has its rows for every possible combination of their values: groups and first rows are those of one combination. So
the outer query finds the rows by equality. A join core that equates all parameters with its own values uses these as
the columns. Any other join core is joined with the combinations of values in the outer query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, lit
from plans.queries.algebra import (
    Group,
    Over,
    Query,
    Relation,
    SetOperation,
    Source,
    Top,
    rebuilt,
    replaced,
    split,
    unused,
    walk,
)
from plans.queries.single import at_most_one
from plans.schema import Table

Rows = Callable[[tuple[Expr, ...]], Query]
"""Returns the distinct combinations of values that parameters have in the outer query."""


@dataclass(frozen=True)
class Dependent:
    """A relation with columns for its parameters. `ties` are pairs of a parameter and the column that equals it.

    `whole`: the original relation had a row where this relation has none. `single`: it has at most one row for each
    combination.
    """

    relation: Relation
    ties: tuple[tuple[Expr, str], ...] = ()
    whole: bool = False
    single: bool = False

    @property
    def names(self) -> list[str]:
        """Returns the names of the columns of the original relation."""
        columns = self.relation.columns
        return [column.name for column in columns[: len(columns) - len(self.ties)]]

    def on(self, source: Source) -> tuple[Expr, ...]:
        """Returns the conditions that connect a source made of this relation with the outer query."""
        return tuple(call("nseq", one, source.qualified(name)) for one, name in self.ties)


def dependent(relation: Relation, rows: Rows) -> Dependent:
    """Returns a relation without parameters. Raises PlanError if it reads the outer query where that is not
    supported."""
    parameters = tuple(dict.fromkeys(one for part in walk(relation) for one in _parameters(part)))
    if not parameters:
        return Dependent(relation, (), isinstance(relation, Group) and relation.whole, at_most_one(relation))
    taken = {column.name for part in walk(relation) for column in part.columns}
    taken |= {call.name for part in walk(relation) if isinstance(part, Group) for call in part.aggregates}
    names: list[str] = []
    for one in parameters:
        names.append(unused(split(one.value)[1] if one.op == "col" else "tie", [*taken, *names]))
    ties = tuple(zip(parameters, names, strict=True))
    whole = isinstance(relation, Group) and relation.whole and _kept_when_empty(relation)
    single = at_most_one(rebuilt(relation, _of_one_combination))
    return Dependent(_with_parameters(relation, ties, rows, len(relation.columns)), ties, whole, single)


def values_of_nothing(group: Group) -> dict[str, Expr]:
    """Returns the values of the aggregates of a group without rows."""
    return {a.name: lit(0, a.type) if a.function in _COUNTS else cast(NULL, a.type) for a in group.aggregates}


_COUNTS = ("count", "regr_count")


def _kept_when_empty(group: Group) -> bool:
    """Returns whether HAVING may be TRUE without rows. True may also mean that this is unknown."""
    if group.having is None:
        return True
    values = values_of_nothing(group)
    empty = {col(a.name, a.type): values[a.name] for a in group.aggregates}
    return not any(_never_true(replaced(one, empty)) for one in group.having.conjuncts())


def _never_true(condition: Expr) -> bool:
    """Returns whether a condition certainly is not TRUE: it is a constant, or compares a value with NULL."""
    if condition.op in _COMPARISONS and any(not one.columns and _constant(one) is None for one in condition.args):
        return True
    return not condition.columns and _constant(condition) is not True


def _constant(expr: Expr) -> Any:
    return expr.evaluate({}, 1)[0].as_py()


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _of_one_combination(part: Relation) -> Relation:
    """Returns a join core with constants in place of its parameters."""
    if not isinstance(part, Query):
        return part
    constants = {one: cast(NULL, one.type) for one in _parameters(part)}
    return replace(part, conditions=tuple(replaced(one, constants) for one in part.conditions))


def _parameters(part: Relation) -> Iterator[Expr]:
    """Yields the parameters of a part: the largest expressions that read only columns of the outer query."""
    if isinstance(part, Query):
        aliases = {source.alias for source in part.sources}
        for one in part.conditions:
            for conjunct in one.conjuncts():
                side = _side(conjunct, aliases)
                yield from _free(conjunct, aliases) if side is None else (side[0],)
        for expr in (*(e for _, e in part.outputs), *(e for source in part.sources for e in source.on)):
            yield from _free(expr, aliases)
    elif isinstance(part, Group):
        known = {*part.keys, *(call.name for call in part.aggregates)}
        for expr in (*(e for _, e in part.outputs), *([part.having] if part.having is not None else [])):
            yield from _largest(expr, lambda name: name not in known)


def _free(expr: Expr, aliases: set[str]) -> Iterator[Expr]:
    return _largest(expr, lambda name: split(name)[0] not in aliases)


def _largest(expr: Expr, outside: Callable[[str], bool]) -> Iterator[Expr]:
    """Yields the largest subexpressions that have columns, all of them outside."""
    todo = [expr]
    while todo:
        part = todo.pop()
        if part.columns and all(map(outside, part.columns)):
            yield part
        else:
            todo += part.args


def _side(condition: Expr, aliases: set[str]) -> tuple[Expr, Expr] | None:
    """Returns the outer and the inner side of an equality between a value of the outer query and one of these sources,
    or None."""
    if condition.op not in ("eq", "nseq"):
        return None
    for outer, inner in (condition.args, condition.args[::-1]):
        outer_aliases, inner_aliases = ({split(name)[0] for name in side.columns} for side in (outer, inner))
        if outer_aliases and not outer_aliases & aliases and inner_aliases and inner_aliases <= aliases:
            return outer, inner
    return None


def _with_parameters(relation: Relation, ties: tuple[tuple[Expr, str], ...], rows: Rows, position: int) -> Relation:
    """Returns a relation with a column for each parameter, inserted before column number `position`."""
    names = tuple(name for _, name in ties)
    if isinstance(relation, Query):
        return _core_with_parameters(relation, ties, rows, position)
    if isinstance(relation, SetOperation):
        return replace(relation, inputs=tuple(_with_parameters(part, ties, rows, position) for part in relation.inputs))
    if isinstance(relation, Group):
        inner = _with_parameters(relation.input, ties, rows, len(relation.input.columns))
        columns = {one: col(name, one.type) for one, name in ties}
        outputs = [(name, replaced(expr, columns)) for name, expr in relation.outputs]
        outputs[position:position] = [(name, columns[one]) for one, name in ties]
        having = None if relation.having is None else replaced(relation.having, columns)
        keys = (*names, *relation.keys)
        return replace(relation, input=inner, keys=keys, outputs=tuple(outputs), having=having, whole=False)
    if isinstance(relation, (Top, Over)):
        last = len(relation.input.columns) - relation.hidden
        inner = _with_parameters(relation.input, ties, rows, min(position, last))
        return replace(relation, input=inner, keys=(*names, *relation.keys))
    raise PlanError("a condition on the clock in a subquery that reads the outer query is not supported")


def _core_with_parameters(query: Query, ties: tuple[tuple[Expr, str], ...], rows: Rows, position: int) -> Query:
    """Returns a join core with a column for each parameter."""
    query = _with_tied_sources(query, rows)
    aliases = {source.alias for source in query.sources}
    counted = {source.alias for source in query.sources if source.group == 0}
    sides = {one: _side(one, aliases) for given in query.conditions for one in given.conjuncts()}
    bound: dict[Expr, Expr] = {}
    for outer, inner in filter(None, sides.values()):
        if outer.type == inner.type and {split(name)[0] for name in inner.columns} <= counted:
            bound.setdefault(outer, inner)
    sources, conditions = query.sources, []
    if bound.keys() != {one for one, _ in ties}:
        combinations = rows(tuple(one for one, _ in ties))
        alias = unused("outer", aliases)
        source = Source(alias, Table(alias, combinations.columns), input=combinations)
        bound = {
            one: source.qualified(column.name) for (one, _), column in zip(ties, combinations.columns, strict=True)
        }
        sources = (source, *query.sources)
    for one, side in sides.items():
        if side is not None and bound[side[0]] == side[1]:
            conditions += [call("not", call("isnull", side[1]))] if one.op == "eq" else []
        else:
            conditions.append(replaced(one, bound))
    outputs = [(name, replaced(expr, bound)) for name, expr in query.outputs]
    outputs[position:position] = [(name, bound[one]) for one, name in ties]
    sources = tuple(replace(source, on=tuple(replaced(one, bound) for one in source.on)) for source in sources)
    return replace(query, sources=sources, conditions=tuple(conditions), outputs=tuple(outputs))


def outer_columns(relation: Relation) -> set[str]:
    """Returns the columns of the outer query that a relation reads."""
    return {name for part in walk(relation) for one in _parameters(part) for name in one.columns}


def _with_tied_sources(query: Query, rows: Rows) -> Query:
    """Returns a join core whose derived sources have columns for the parameters that they read, which the parameters
    equal."""
    sources, conditions = [], list(query.conditions)
    for source in query.sources:
        inside = list(walk(source.input)) if source.input is not None else []
        parameters = tuple(dict.fromkeys(one for part in inside for one in _parameters(part)))
        if source.input is not None and parameters:
            if any(isinstance(part, Group) and part.whole and _kept_when_empty(part) for part in inside):
                message = "a derived table that reads the outer query needs FROM, and GROUP BY for its aggregates"
                raise PlanError(message, hint="select the aggregates in the subquery itself")
            names: list[str] = []
            for _ in parameters:
                names.append(unused("tie", [*(column.name for part in inside for column in part.columns), *names]))
            ties = tuple(zip(parameters, names, strict=True))
            made = _with_parameters(source.input, ties, rows, len(source.input.columns))
            source = replace(source, table=replace(source.table, columns=made.columns), input=made)
            equal = tuple(call("nseq", one, source.qualified(name)) for one, name in ties)
            if source.join == "inner":
                conditions += equal
            else:
                source = replace(source, on=(*source.on, *equal))
        sources.append(source)
    return replace(query, sources=tuple(sources), conditions=tuple(conditions))
