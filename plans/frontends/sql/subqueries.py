"""Subqueries that must not multiply rows: sources that are joined as semi-joins, anti joins or marks.

Part of `plans.frontends.sql`. A subquery is read once: as a `Frame` if it can be flattened, or else as a derived
relation, which equalities of columns connect with the outer query. The functions here derive its uses from that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import NULL, TRUE, Expr, call, col, lit, substitute
from plans.frontends.sql.scope import Frame, Names, Scope
from plans.frontends.sql.shape import flat, unwrapped
from plans.lowering.joins.matches import outer_rows
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Relation, Source, replaced, split, unused
from plans.queries.dependent import Dependent, dependent, outer_columns, values_of_nothing


@dataclass(frozen=True)
class Subquery:
    """A subquery that was read: a frame, whose `crossing` conditions read the outer query, or a relation."""

    node: exp.Expression
    frame: Frame | None
    relation: Dependent | None = None
    local: tuple[Expr, ...] = ()
    crossing: tuple[Expr, ...] = ()

    @property
    def outputs(self) -> tuple[Expr, ...]:
        """Returns the values of a frame's SELECT list."""
        assert self.frame is not None
        return tuple(expr for _, expr in self.frame.outputs)

    @property
    def correlated(self) -> bool:
        """Returns whether the subquery reads the outer query."""
        if self.frame is None:
            return self.relation is not None and bool(self.relation.ties)
        read = {_alias(name) for expr in self.outputs for name in expr.columns}
        return bool(self.crossing) or self.nested or not read <= self.frame.aliases

    @property
    def nested(self) -> bool:
        """Returns whether a subquery inside of a frame reads the outer query."""
        if self.frame is None:
            return False
        read = {_alias(name) for source in self.frame.sources for expr in source.on for name in expr.columns}
        return not read <= self.frame.aliases


def subquery(body: exp.Expression, scope: Scope, exists: bool = False) -> Subquery:
    """Returns a subquery of the scope. With `exists`, its outputs are irrelevant."""
    body = unwrapped(body)
    if not flat(body):
        return Subquery(body, None, _as_relation(body, scope))
    frame = scope.reading.flatten(_of_one(body) if exists else body, scope, correlated=True, unique=False)
    if any(source.input is not None and outer_columns(source.input) for source in frame.sources):
        query = frame.query(scope.text.text, frame.outputs, frame.distinct)
        return Subquery(body, None, decorrelated(query, body, scope))
    local, crossing = split_conditions(frame.conditions, frame.aliases)
    return Subquery(body, frame, None, local, crossing)


def _as_relation(body: exp.Expression, scope: Scope) -> Dependent:
    """Returns a subquery as a derived relation, with columns for the values of the outer query that it reads."""
    try:
        relation = scope.reading.read(body, scope, unique=False)
    except PlanError:
        relation = scope.reading.read(body, scope, correlated=True, unique=False)
    return decorrelated(relation, body, scope)


def decorrelated(relation: Relation, node: exp.Expression, scope: Scope) -> Dependent:
    """Returns a relation that may read the outer query as one without parameters."""
    frame = scope.frame

    def rows(parameters: tuple[Expr, ...]) -> Query:
        read = {_alias(name) for one in parameters for name in one.columns}
        if not read <= frame.aliases:
            raise PlanError("only equalities may connect this subquery with the outer query", hint="use a join instead")
        exact = any(source.join != "inner" for source in frame.sources if source.alias in read)
        return outer_rows(scope.text.text, frame.sources, frame.conditions, parameters, exact)

    found: Dependent = scope.text.guarded(node, partial(dependent, relation, rows))
    return found


def scalar_aggregates(aggregates: Dependent, frame: Frame) -> tuple[Source, tuple[Expr, ...]]:
    """Returns correlated aggregates without GROUP BY: a source, and their values, which exist even if the source has no
    row. They are NULL if HAVING is not TRUE."""
    group = aggregates.relation
    assert isinstance(group, Group), "aggregates are a group"
    if group.having is not None:
        kept = tuple((name, call("case", group.having, value, NULL)) for name, value in group.outputs)
        last = len(kept) - len(aggregates.ties)
        group = replace(group, outputs=(*kept[:last], *group.outputs[last:]), having=None)
    shown = group.outputs[: len(group.outputs) - len(aggregates.ties)]
    empty = values_of_nothing(group) | {name: one for one, name in aggregates.ties}
    exists = unused("there", [name for name, _ in group.outputs])
    source = frame.derived(replace(group, outputs=(*group.outputs, (exists, TRUE))), "value")
    missing = call("isnull", source.qualified(exists))
    nothing = (substitute(value, lambda name: empty[name]) for _, value in shown)
    pairs = zip(nothing, shown, strict=True)
    values = tuple(call("case", missing, none, source.qualified(name)) for none, (name, _) in pairs)
    return replace(source, join="left", on=aggregates.on(source)), values


def split_conditions(
    conditions: list[Expr] | tuple[Expr, ...], aliases: set[str]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Returns the conditions over these sources alone, and those that read the outer query."""
    parts = [part for given in conditions for part in given.conjuncts()]
    local = tuple(one for one in parts if {_alias(name) for name in one.columns} <= aliases)
    return local, tuple(one for one in parts if one not in local)


def semi_joined(sub: Subquery, left: list[Expr] | None, node: exp.Expression, scope: Scope) -> None:
    """Adds EXISTS, or, with values `left`, IN, as a semi-join."""
    frame, group = scope.frame, scope.frame.names.group()
    if sub.frame is not None:
        frame.merge(sub.frame, group)
        right = sub.outputs
    else:
        assert sub.relation is not None
        source, right, on = _derived(sub, sub.relation, scope)
        frame.sources.append(replace(source, group=group))
        frame.conditions += on
    frame.conditions += equalities(left, right, node, scope)


def _derived(sub: Subquery, found: Dependent, scope: Scope) -> tuple[Source, tuple[Expr, ...], tuple[Expr, ...]]:
    """Returns the source of a relation, its columns, and the conditions that connect it with the outer query."""
    if found.ties and found.whole:
        message = "EXISTS of aggregates without GROUP BY is always true, because they always return a row"
        hint = "compare with the subquery as a value"
        if isinstance(found.relation, Group) and found.relation.having is not None:
            message = "HAVING without GROUP BY that can be true without rows is not supported in this subquery"
            hint += ": (SELECT COUNT(*) ...) < 2"
        raise scope.text.error(message, sub.node, hint)
    source = scope.frame.derived(found.relation, "subquery")
    columns = columns_of(source)
    return source, columns[: len(columns) - len(found.ties)], found.on(source)


def join_source(join: str, sub: Subquery, left: list[Expr] | None, node: exp.Expression, scope: Scope) -> Source:
    """Returns the source of an anti join or a mark: the rows of the subquery, with the join conditions as `on`.

    `left` are the values that its columns must equal, None for EXISTS.
    """
    if sub.frame is None:
        assert sub.relation is not None
        source, right, ties = _derived(sub, sub.relation, scope)
        return replace(source, join=join, on=(*ties, *equalities(left, right, node, scope)))
    equal = equalities(left, sub.outputs, node, scope)
    first = sub.frame.sources[0]
    if len(sub.frame.sources) == 1 and first.join == "inner" and first.input is None:
        on = (part for one in (*sub.frame.conditions, *equal) for part in one.conjuncts())
        return replace(first, group=0, join=join, on=tuple(on))
    return derived_source(join, sub, equal, scope)


def derived_source(join: str, sub: Subquery, extra: tuple[Expr, ...], scope: Scope) -> Source:
    """Returns the rows of a frame as a relation, with the columns that conditions with the outer query read.

    `extra` are additional conditions of the frame.
    """
    frame = sub.frame
    assert frame is not None
    if sub.nested:
        return _dependent_source(join, sub, frame, extra, scope)
    local, crossing = split_conditions((*frame.conditions, *extra), frame.aliases)
    names: dict[Expr, str] = {}
    for one in crossing:
        for side in sides(one, frame.aliases):
            names.setdefault(side, f"k{len(names)}")
    outputs = tuple((name, expr) for expr, name in names.items()) or (("k0", TRUE),)
    several = len(frame.sources) > 1
    query = Query(scope.text.text, tuple(frame.sources), local, outputs, several, tuple(frame.keys))
    source = scope.frame.derived(query, frame.sources[0].alias)
    columns = {expr: source.qualified(name) for expr, name in names.items()}
    return replace(source, join=join, on=tuple(replaced(one, columns) for one in crossing))


def _dependent_source(join: str, sub: Subquery, frame: Frame, extra: tuple[Expr, ...], scope: Scope) -> Source:
    """Returns the rows of a frame in which a subquery reads the outer query. They are joined with the outer rows."""
    outputs = tuple((f"k{index}", expr) for index, expr in enumerate(sub.outputs)) or (("k0", TRUE),)
    found = decorrelated(frame.query(scope.text.text, outputs, True), sub.node, scope)
    source = scope.frame.derived(found.relation, frame.sources[0].alias)
    columns = {expr: source.qualified(name) for name, expr in outputs}
    return replace(source, join=join, on=(*found.on(source), *(replaced(one, columns) for one in extra)))


def equalities(
    left: list[Expr] | None, right: tuple[Expr, ...], node: exp.Expression, scope: Scope
) -> tuple[Expr, ...]:
    """Returns the equalities of IN."""
    if left is None:
        return ()
    if len(left) != len(right):
        raise scope.text.error(f"IN compares {len(left)} with {len(right)} columns", node)
    pairs = zip(left, right, strict=True)
    return tuple(scope.text.guarded(node, partial(call, "eq", one, two)) for one, two in pairs)


def either_null(left: Expr, right: Expr) -> Expr:
    """Returns the condition that one of the two values that IN compares is NULL."""
    return call("or", call("isnull", left), call("isnull", right))


def never_null(sub: Subquery, value: Expr, position: int, scope: Scope) -> bool:
    """Returns True if neither a value nor a column of a subquery can be NULL, so that their comparison is never
    unknown."""
    schema = scope.reading.schema
    if sub.frame is None or not scope.frame.never_null(value, schema):
        return False
    return position < len(sub.outputs) and sub.frame.never_null(sub.outputs[position], schema)


def flags(sub: Subquery, scope: Scope) -> tuple[Expr, Expr]:
    """Returns two values of one row: whether a subquery is empty, and whether none of its values is NULL."""
    text = scope.text.text
    if sub.frame is not None:
        query = sub.frame.query(text, (("y", sub.outputs[0]),))
    else:
        assert sub.relation is not None
        source = Frame(Names()).derived(sub.relation.relation, "subquery")
        query = Query(text, (source,), (), (("y", columns_of(source)[0]),), False)
    rows, values = col("rows", "int64"), col("values", "int64")
    outputs = (("empty", call("eq", rows, lit(0))), ("clean", call("eq", rows, values)))
    counts = (Aggregate("rows", "int64", "count"), Aggregate("values", "int64", "count", ("y",)))
    one = scope.frame.derived(Group(query, (), counts, outputs, None, True), "flags")
    scope.frame.sources.append(one)
    return one.qualified("empty"), one.qualified("clean")


def columns_of(source: Source) -> tuple[Expr, ...]:
    """Returns the columns of a source."""
    return tuple(source.qualified(column.name) for column in source.table.columns)


def _of_one(body: exp.Expression) -> exp.Expression:
    """Returns a subquery, of which only existence matters, with a constant as its output."""
    if not isinstance(body, exp.Select) or body.args.get("distinct"):
        return body
    made: exp.Expression = body.copy().select(exp.Literal.number(1), append=False)
    return made


def _alias(name: str) -> str:
    return split(name)[0]


def sides(condition: Expr, aliases: set[str]) -> Iterator[Expr]:
    """Yields the expressions over these sources that a condition reads: one side of an equality, or else every
    column."""
    if condition.op in ("eq", "nseq"):
        for side, other in (condition.args, condition.args[::-1]):
            inside = {_alias(name) for name in side.columns}
            if inside and inside <= aliases and not {_alias(name) for name in other.columns} & aliases:
                yield side
                return
    for node in condition.postorder():
        if node.op == "col" and _alias(node.value) in aliases:
            yield node
