"""Scalar expressions with what a scope says of them: columns, and EXISTS, IN and subqueries of one row as values.

Part of `plans.frontends.sql`. A value that a subquery has is a column of a source that joins the frame of the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from plans.clock import CLOCK, NOW
from plans.expressions.build import FALSE, NULL, TRUE, Expr, call, cast, col, lit, substitute
from plans.frontends.sql import subqueries
from plans.frontends.sql.scalars.scalar import scalar as expression
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.shape import grouped, unwrapped
from plans.frontends.sql.text.parse import double_quoted
from plans.lowering.matches import Keys, crossing_keys
from plans.queries.algebra import FOUND, Group, Query, Source, replaced, unused
from plans.queries.single import joined_as_value

Meaning = Callable[[exp.Expression], Expr | None]
"""What a part of an expression means beside what it is in its scope: None for all that has no further meaning."""


def scalar(node: exp.Expression, scope: Scope, meaning: Meaning | None = None) -> Expr:
    """Returns a scalar expression, with what its subqueries need added to the frame of the scope."""
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
        if isinstance(part, exp.Exists) or (isinstance(part, exp.In) and part.args.get("query") is not None):
            return _contained_value(part, scope)
        return _one_value(part, scope) if isinstance(part, exp.Subquery) else None

    return expression(node, resolve, scope.text.text)


def clock(node: exp.Expression, scope: Scope) -> Expr | None:
    """Returns what NOW(), CURRENT_DATE and their kin are, with the clock added to the frame; None for other nodes."""
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
}


def compared(node: exp.In, scope: Scope) -> list[Expr]:
    """Returns the values on the left of IN."""
    left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]
    return [scalar(part, scope) for part in left]


def _mark(source: Source, scope: Scope) -> Expr:
    """Returns the column of a mark, which joins the frame."""
    scope.frame.sources.append(source)
    return col(f"{source.alias}.{FOUND}", "bool")


def _contained_value(node: exp.Exists | exp.In, scope: Scope) -> Expr:
    """Returns the value of EXISTS, or of `mine IN (...)`: TRUE, FALSE, or NULL where only a NULL could be equal."""
    if isinstance(node, exp.Exists):
        return _mark(subqueries.attached("mark", subqueries.subquery(node.this, scope, True), None, node, scope), scope)
    mine = compared(node, scope)
    if len(mine) != 1:
        raise scope.text.error("IN with several columns is supported only as a condition of its own", node)
    sub = subqueries.subquery(node.args["query"], scope)
    if sub.correlated:
        equal = subqueries.equalities(mine, sub.outputs, node, scope)
        found = _mark(subqueries.exposed("mark", sub, equal, scope), scope)
        doubt = subqueries.exposed("mark", sub, (subqueries.unknown(mine[0], sub.outputs[0]),), scope)
        return call("case", found, TRUE, _mark(doubt, scope), NULL, FALSE)
    found = _mark(subqueries.attached("mark", sub, mine, node, scope), scope)
    if subqueries.certain(sub, mine[0], 0, scope):
        return found
    empty, clean = subqueries.flags(sub, scope)
    doubtful = call("or", call("isnull", mine[0]), call("not", clean))
    return call("case", found, TRUE, empty, FALSE, doubtful, NULL, FALSE)


def _one_value(node: exp.Subquery, scope: Scope) -> Expr:
    """Returns the value of a subquery of one row; NULL where it has none.

    Aggregates without GROUP BY may be tied to the query around it by equalities. Any other subquery is watched, unless
    it is certain that it has no second row.
    """
    body = unwrapped(node)
    plain = isinstance(body, exp.Select) and not any(body.args.get(name) for name in ("group", "having", "distinct"))
    if not plain or not isinstance(body, exp.Select) or len(body.expressions) != 1 or not grouped(body):
        return _one_row(node, body, scope)
    made = scope.reading.read(body, scope, around=True, unique=False)
    if not isinstance(made, Group) or not isinstance(made.input, Query):
        raise scope.text.error("a subquery beside the aggregate of this one is not supported", body, "use a join")
    group, ties = _tied(made, made.input, body, scope)
    name, value = made.outputs[0]
    if not ties:
        source = scope.frame.derived(group, "value")
        scope.frame.sources.append(source)
        return source.qualified(name)
    empty = {a.name: lit(0) if a.function == "count" else cast(NULL, a.type) for a in group.aggregates}
    nothing = substitute(value, lambda found: empty[found])
    keys = tuple((key, col(key, inner.type)) for key, (_, _, inner) in zip(group.keys, ties, strict=True))
    group = replace(group, outputs=((name, value), *keys, ("there", TRUE)))
    source = scope.frame.derived(group, "value")
    on = tuple(call(op, outer, source.qualified(k)) for k, (op, outer, _) in zip(group.keys, ties, strict=True))
    scope.frame.sources.append(replace(source, join="left", on=on))
    return call("case", call("isnull", source.qualified("there")), nothing, source.qualified(name))


def _one_row(node: exp.Subquery, body: exp.Expression, scope: Scope) -> Expr:
    """Returns the value of a subquery, which may read the query around it, and has at most one row for each of its
    rows."""
    sub, text = subqueries.subquery(body, scope), scope.text
    if len(sub.outputs if sub.relation is None else sub.relation.columns) != 1:
        raise text.error("a subquery that is a value has one column", node)
    if sub.relation is not None:
        source = replace(scope.frame.derived(sub.relation, "value"), join=joined_as_value(sub.relation))
        scope.frame.sources.append(source)
        return source.qualified(sub.relation.columns[0].name)
    assert sub.frame is not None, "a subquery is a frame or a relation"
    ((name, value),) = sub.frame.outputs
    aliases = sub.frame.aliases
    read = [*sub.crossing, *([value] if any(_outside(c, aliases) for c in value.postorder()) else [])]
    if sub.frame.distinct and (value in read or crossing_keys(sub.crossing, aliases) is None):
        raise text.error("DISTINCT in a subquery that is tied so to the query around it is not supported", node)
    names = {} if value in read else {value: name}
    for one in read:
        for side in subqueries.sides(one, aliases):
            wish = side.value.partition(".")[2] if side.op == "col" else f"k{len(names)}"  # refusals show it
            names.setdefault(side, unused(wish, names.values()))
    there = {} if value not in read else {TRUE: unused("there", names.values())}
    outputs = tuple((name, expr) for expr, name in {**names, **there}.items())
    relation = Query(text.text, tuple(sub.frame.sources), sub.own, outputs, sub.frame.distinct, tuple(sub.frame.keys))
    around = {c: cast(NULL, c.type) for one in sub.crossing for c in one.postorder() if _outside(c, aliases)}
    known = tuple(replaced(one, around) for one in sub.crossing)  # what is around has one value for one row there
    join = joined_as_value(replace(relation, conditions=(*sub.own, *known)))
    source = scope.frame.derived(relation, "value")
    theirs = {expr: source.qualified(name) for expr, name in names.items()}
    on = tuple(replaced(one, theirs) for one in sub.crossing)
    scope.frame.sources.append(replace(source, join=join, on=on))
    if value not in read:
        return theirs[value]
    missing = call("isnull", source.qualified(there[TRUE]))
    return call("case", missing, cast(NULL, value.type), replaced(value, theirs))


def _outside(expr: Expr, aliases: set[str]) -> bool:
    return expr.op == "col" and expr.value.split(".")[0] not in aliases


def _tied(group: Group, rows: Query, body: exp.Expression, scope: Scope) -> tuple[Group, Keys]:
    """Returns a group of one row as one with a row for each value of what ties it to the query around it."""
    aliases = {source.alias for source in rows.sources}
    own, crossing = subqueries.parted(rows.conditions, aliases)
    ties = crossing_keys(crossing, aliases)
    if ties is None or len({tie for _, _, tie in ties}) < len(ties):
        raise scope.text.error(
            "this subquery is not tied to the query around it by equalities alone", body, "use a join"
        )
    if not {name.split(".")[0] for _, expr in rows.outputs for name in expr.columns} <= aliases:
        raise scope.text.error("this aggregate reads columns of the query around it", body, "use a join")
    if not ties:
        return group, ties
    shown = {expr: name for name, expr in rows.outputs}
    added: list[tuple[str, Expr]] = []
    for _, _, tie in ties:
        if tie not in shown:
            shown[tie] = unused("tie", [*shown.values(), *(call.name for call in group.aggregates), "_weight"])
            added.append((shown[tie], tie))
    rows = replace(rows, conditions=own, outputs=(*added, *rows.outputs))
    return replace(group, input=rows, keys=tuple(shown[tie] for _, _, tie in ties), whole=False), ties
