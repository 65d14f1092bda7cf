"""Scalar expressions in a scope: columns, and EXISTS, IN and subqueries of one row as values.

Part of `plans.frontends.sql`. The value of a subquery is a column of a source that is added to the frame of the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.expressions.build import FALSE, NULL, TRUE, Expr, call, cast, col
from plans.frontends.sql import subqueries
from plans.frontends.sql.elements import value_over
from plans.frontends.sql.scalars.scalar import scalar as expression
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.shape import unwrapped
from plans.frontends.sql.text.parse import double_quoted
from plans.queries.algebra import FOUND, Group, Query, Source, replaced, unused
from plans.queries.single import joined_as_value
from plans.time.windows import CLOCK, NOW

Meaning = Callable[[exp.Expression], Expr | None]
"""Translates a part of an expression that has a special meaning, or returns None."""


def scalar(node: exp.Expression, scope: Scope, meaning: Meaning | None = None) -> Expr:
    """Returns a scalar expression. Adds the sources of its subqueries to the frame of the scope."""
    for literal in double_quoted(node, scope.text.text):
        scope.warn(literal)

    def resolve(part: exp.Expression) -> Expr | None:
        found = meaning(part) if meaning is not None else None
        if found is not None:
            return found
        time = clock(part, scope)
        if time is not None:
            return time
        if isinstance(part, exp.Column):
            return scope.column(part)
        over = value_over(part, scope, further)
        if over is not None:
            return over
        if isinstance(part, exp.Exists) or (isinstance(part, exp.In) and part.args.get("query") is not None):
            return _membership_value(part, scope)
        return _one_value(part, scope) if isinstance(part, exp.Query) else None

    def further(part: exp.Expression, of: Meaning) -> Expr:
        return scalar(part, scope, lambda one: of(one) or (meaning(one) if meaning is not None else None))

    return expression(node, resolve, scope.text.text)


def clock(node: exp.Expression, scope: Scope) -> Expr | None:
    """Returns the value of NOW(), CURRENT_DATE and similar functions, and adds the clock to the frame; None for other
    nodes."""
    type_ = None
    if isinstance(node, exp.Column) and not node.table and not scope.lookup(node.name):
        type_ = _CLOCKS.get(node.name.lower()) if node.name.lower() == "localtimestamp" else None  # written as a name
    elif isinstance(node, exp.Anonymous) and not node.expressions:
        type_ = _CLOCKS.get(str(node.this).lower())
    elif node.args.get("this") is None:
        type_ = _CLOCKS.get(node.key)
    if type_ is None:
        return None
    frame = scope.frame
    source = next((one for one in frame.sources if one.table == CLOCK and one.join == "inner"), None)
    if source is None:
        source = Source(frame.names.alias("clock"), CLOCK)
        frame.sources.append(source)
    now = source.qualified(NOW)
    return now if type_ == now.type else cast(now, type_)


_CLOCKS = {
    "now": "timestamp",
    "currenttimestamp": "timestamp",
    "currentdate": "date",
    "curdate": "date",
    "localtimestamp": "timestamp_ntz",
    "mz_now": "timestamp",
}


def compared(node: exp.In, scope: Scope) -> list[Expr]:
    """Returns the values on the left side of IN."""
    left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]
    return [scalar(part, scope) for part in left]


def _mark(source: Source, scope: Scope) -> Expr:
    """Returns the column of a mark, whose source is added to the frame."""
    scope.frame.sources.append(source)
    return col(f"{source.alias}.{FOUND}", "bool")


def _membership_value(node: exp.Exists | exp.In, scope: Scope) -> Expr:
    """Returns the value of EXISTS, or of `left IN (...)`: TRUE, FALSE, or NULL if no value is equal and a NULL is
    compared."""
    if isinstance(node, exp.Exists):
        return _mark(
            subqueries.join_source("mark", subqueries.subquery(node.this, scope, True), None, node, scope), scope
        )
    left = compared(node, scope)
    if len(left) != 1:
        raise scope.text.error("IN with several columns is supported only as a separate condition of WHERE", node)
    sub = subqueries.subquery(node.args["query"], scope)
    if sub.correlated and sub.frame is None:
        message = "IN as a value over a grouped subquery that reads the outer query is not supported"
        raise scope.text.error(message, node, "write EXISTS")
    if sub.correlated:
        equal = subqueries.equalities(left, sub.outputs, node, scope)
        found = _mark(subqueries.derived_source("mark", sub, equal, scope), scope)
        doubt = subqueries.derived_source("mark", sub, (subqueries.either_null(left[0], sub.outputs[0]),), scope)
        return call("case", found, TRUE, _mark(doubt, scope), NULL, FALSE)
    found = _mark(subqueries.join_source("mark", sub, left, node, scope), scope)
    if subqueries.never_null(sub, left[0], 0, scope):
        return found
    empty, clean = subqueries.flags(sub, scope)
    doubtful = call("or", call("isnull", left[0]), call("not", clean))
    return call("case", found, TRUE, empty, FALSE, doubtful, NULL, FALSE)


def _one_value(node: exp.Expression, scope: Scope) -> Expr:
    """Returns the value of a subquery of one row, or NULL if the subquery is empty.

    It may read the outer query. A batch that gives it a second row is rejected, unless the query proves that there is
    none.
    """
    sub, text = subqueries.subquery(unwrapped(node), scope), scope.text
    found = sub.relation
    if sub.frame is not None and (sub.frame.distinct or sub.nested):
        found = subqueries.decorrelated(sub.frame.query(text.text, sub.frame.outputs, sub.frame.distinct), node, scope)
    if len(sub.outputs if found is None else found.names) != 1:
        raise text.error("a subquery that is a value must have one column", node)
    if found is None:
        return _of_frame(sub, scope)
    if found.ties and found.whole:
        source, (value,) = text.guarded(node, partial(subqueries.scalar_aggregates, found, scope.frame))
        scope.frame.sources.append(source)
        return value
    source = scope.frame.derived(found.relation, "value")
    exact = found.whole and isinstance(found.relation, Group) and found.relation.having is None
    join = "inner" if exact else "left" if found.single else "single"
    scope.frame.sources.append(replace(source, join=join, on=found.on(source)))
    return source.qualified(found.relation.columns[0].name)


def _of_frame(sub: subqueries.Subquery, scope: Scope) -> Expr:
    """Returns the value of a subquery that is a join core."""
    assert sub.frame is not None, "the subquery is not a relation"
    ((name, value),) = sub.frame.outputs
    aliases = sub.frame.aliases
    read = [*sub.crossing, *([value] if any(_outside(c, aliases) for c in value.postorder()) else [])]
    names = {} if value in read else {value: name}
    for one in read:
        for side in subqueries.sides(one, aliases):
            preferred = side.value.partition(".")[2] if side.op == "col" else f"k{len(names)}"  # error messages show it
            names.setdefault(side, unused(preferred, names.values()))
    exists = {} if value not in read else {TRUE: unused("there", names.values())}
    outputs = tuple((name, expr) for expr, name in {**names, **exists}.items())
    keys = tuple(sub.frame.keys)
    relation = Query(scope.text.text, tuple(sub.frame.sources), sub.local, outputs, False, keys)
    nulls = {c: cast(NULL, c.type) for one in sub.crossing for c in one.postorder() if _outside(c, aliases)}
    known = tuple(replaced(one, nulls) for one in sub.crossing)  # each outer value is constant for one outer row
    join = joined_as_value(replace(relation, conditions=(*sub.local, *known)))
    source = scope.frame.derived(relation, "value")
    columns = {expr: source.qualified(name) for expr, name in names.items()}
    on = tuple(replaced(one, columns) for one in sub.crossing)
    scope.frame.sources.append(replace(source, join=join, on=on))
    if value not in read:
        return columns[value]
    missing = call("isnull", source.qualified(exists[TRUE]))
    return call("case", missing, cast(NULL, value.type), replaced(value, columns))


def _outside(expr: Expr, aliases: set[str]) -> bool:
    return expr.op == "col" and expr.value.split(".")[0] not in aliases
