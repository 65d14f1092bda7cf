"""Rewrites aggregates over the row numbers of whole partitions as functions of the number of rows.

>>> from plans import parse
>>> text = "SELECT b, MAX(n) AS m FROM (SELECT b, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) GROUP BY b"
>>> made = numbered(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> type(made).__name__, type(made.input.sources[0].input).__name__
('Group', 'Group')

ROW_NUMBER is 1, 2, ..., n in a partition of n rows, in any order. So COUNT, SUM, MIN and MAX of it are n, n (n + 1) /
2, 1 and n, and AVG is SUM divided by COUNT. No row is numbered or stored.
"""

from __future__ import annotations

from dataclasses import replace

from plans.expressions.build import Expr, call, cast, col, lit
from plans.expressions.functions.apply import apply
from plans.lowering.stages import renamed
from plans.payloads.sums import ONCE
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Over, Query, Relation, rebuilt, split, unused
from plans.schema import Column, Table


def numbered(relation: Relation) -> Relation:
    """Returns an equivalent relation that computes aggregates over row numbers of whole partitions without numbering
    rows."""
    return rebuilt(relation, _by_count)


def _by_count(relation: Relation) -> Relation:
    if not isinstance(relation, Group) or not isinstance(relation.input, Query):
        return relation
    query = relation.input
    if len(query.sources) != 1 or query.distinct or query.keys or not isinstance(query.sources[0].input, Over):
        return relation  # with `keys`, rows with equal values count once
    source, over = query.sources[0], query.sources[0].input
    exprs = dict(query.outputs)
    numbers = [source.qualified(one.name) for one in over.functions if one.function == "row_number"]
    row_numbers = {name for name, expr in exprs.items() if expr in numbers}
    of_partitions = [*query.conditions, *(expr for name, expr in exprs.items() if name not in row_numbers)]
    read = {split(name)[1] for expr in of_partitions for name in expr.columns}
    if not row_numbers or not read <= set(over.keys) or row_numbers & set(relation.keys):
        return relation
    if not all(_follows_from_count(one, row_numbers) for one in relation.aggregates):
        return relation
    count_name = unused("rows", over.keys)
    keys = tuple(
        (column.name, col(column.name, column.type)) for column in over.input.columns if column.name in over.keys
    )
    count = Aggregate(count_name, "int64", "count")
    rows = Group(over.input, over.keys, (count,), (*keys, (count_name, col(count_name, "int64"))), whole=not over.keys)
    table = Table(source.alias, tuple(Column(column.name, column.type) for column in rows.columns))
    inner = replace(source, table=table, input=rows)
    n = inner.qualified(count_name)
    outputs = [(name, expr) for name, expr in query.outputs if name not in row_numbers]
    aggregates: list[Aggregate] = []
    values: dict[str, Expr] = {}
    for one in relation.aggregates:
        parts = []
        for function, value, type_ in _parts(one, n):
            taken = [
                *exprs,
                *(name for name, _ in outputs),
                *(known.name for known in (*relation.aggregates, *aggregates)),
            ]
            argument, name = unused(f"{one.name} part", taken), unused(f"{one.name} of parts", taken)
            outputs.append((argument, value))
            aggregates.append(Aggregate(name, type_, function, (argument,)))
            parts.append(col(name, type_))
        values[one.name] = _combined(one, parts)
    return replace(
        relation,
        input=replace(
            query,
            sources=(inner,),
            conditions=(*query.conditions, call("gt", n, lit(0, n.type))),
            outputs=tuple(outputs),
        ),
        aggregates=tuple(aggregates),
        outputs=tuple((name, renamed(expr, values)) for name, expr in relation.outputs),
        having=None if relation.having is None else renamed(relation.having, values),
    )


def _follows_from_count(aggregate: Aggregate, row_numbers: set[str]) -> bool:
    """Returns whether the value of an aggregate follows from the number of rows in each partition."""
    if aggregate.where is not None or aggregate.function not in ("count", "sum", "avg", *ONCE):
        return False
    if aggregate.distinct and aggregate.function != "count":
        return False
    return set(aggregate.arguments) <= row_numbers and (bool(aggregate.arguments) or aggregate.function == "count")


def _parts(aggregate: Aggregate, n: Expr) -> list[tuple[str, Expr, str]]:
    """Returns the parts of an aggregate over partitions of ``n`` rows: for each its function, its value in a partition,
    and its type. The number of distinct row numbers of several partitions is that of the largest partition."""
    if aggregate.function in ONCE:
        extreme = n if aggregate.function == "max" else lit(1, aggregate.type)
        return [(aggregate.function, cast(extreme, aggregate.type), aggregate.type)]
    if aggregate.distinct:
        return [("max", n, "int64")]
    total = apply("shiftright", (call("mul", n, call("add", n, lit(1, n.type))), lit(1)))
    counted, summed = ("sum", n, "int64"), ("sum", total, "int64")
    return {"count": [counted], "sum": [summed], "avg": [summed, counted]}[aggregate.function]


def _combined(aggregate: Aggregate, parts: list[Expr]) -> Expr:
    """Returns an aggregate, computed from its parts."""
    if aggregate.function == "count":
        return call("coalesce", parts[0], lit(0, aggregate.type))
    return call("div", *(cast(part, "float64") for part in parts)) if aggregate.function == "avg" else parts[0]
