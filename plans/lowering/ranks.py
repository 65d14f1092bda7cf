"""Turns conditions on ranks, such as `n <= 3`, into the first rows of each group.

>>> from plans import parse
>>> text = "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) WHERE n <= 3"
>>> made = ranked(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> type(made).__name__, made.keys, made.limit, made.hidden
('Top', ('o',), 3, 1)

A change then moves at most that many numbers. Bounded RANK and DENSE_RANK number the distinct values of the ORDER BY
columns instead of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.expressions.build import MIRROR, Expr, call, cast, col, conjoin, lit
from plans.programs.frames import EVERY_ROW, RANKS, Frame, WindowFunction
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Over, Query, Relation, Source, Top, rebuilt, unused
from plans.schema import Column, Table


def ranked(relation: Relation) -> Relation:
    """Returns an equivalent relation in which ranks with a bound are computed only up to the bound."""
    return rebuilt(relation, _bounded)


def _bounded(relation: Relation) -> Relation:
    if not isinstance(relation, Query):
        return relation
    query = relation
    for source in relation.sources:
        over = source.input
        if isinstance(over, Over) and len(over.functions) == 1 and over.functions[0].function in RANKS:
            query = _first_rows(query, source, over)
    return _plain(query) if query is not relation else relation


def _first_rows(query: Query, source: Source, over: Over) -> Query:
    """Returns the query whose source contains only the rows that pass the conditions on their rank, if these are
    bounds."""
    (function,) = over.functions
    number = source.qualified(function.name)
    conditions = query.conditions if source.join == "inner" else source.on
    parts = [part for one in conditions for part in one.conjuncts()]
    bounds = _Bounds()
    rest = tuple(part for part in parts if not bounds.takes(part, number))
    if bounds.last is None and (bounds.first <= 1 or function.function == "rank"):
        return query
    made = source if source.join == "inner" else replace(source, on=rest)
    less = replace(query, conditions=rest) if source.join == "inner" else query
    others = [one for one in query.sources if one is not source]
    read = [*less.conditions, *(expr for _, expr in less.outputs), *(e for _, es in less.keys for e in es)]
    read += [*made.on, *(expr for one in others for expr in one.on)]
    if function.function != "row_number":
        made = replace(made, input=_by_values(over, bounds))
    elif any(number.value in expr.columns for expr in read):
        if bounds.last is None:
            return query  # the numbers of all rows that pass move, too
        made = replace(made, input=_from(replace(over, input=bounds.rows(over, over.input)), bounds.first))
    else:
        columns = tuple(column for column in source.table.columns if column.name != function.name)
        top = replace(bounds.rows(over, over.input), hidden=over.hidden)
        made = replace(made, table=replace(source.table, columns=columns), input=top)
    return replace(less, sources=tuple(made if one is source else one for one in less.sources))


def _source(alias: str, relation: Relation) -> Source:
    columns = tuple(Column(column.name, column.type) for column in relation.columns)
    return Source(alias, Table(alias, columns), input=relation)


def _from(over: Over, first: int) -> Relation:
    """Returns the rows with their numbers from ``first`` on."""
    if first <= 1:
        return over
    rows = _source("rows", over)
    (function,) = over.functions
    shown = tuple((c.name, rows.qualified(c.name)) for c in over.shown)
    return Query(
        over.text, (rows,), (), (*shown, (function.name, _beyond(rows.qualified(function.name), first))), False
    )


def _beyond(number: Expr, first: int) -> Expr:
    """Returns the position of a row whose number counts from position ``first``."""
    return number if first <= 1 else call("add", number, lit(first - 1, number.type))


def _by_values(over: Over, bounds: _Bounds) -> Relation:
    """Returns the rows with bounded RANK() or DENSE_RANK(): each row is joined with the rank of its ORDER BY values.

    The distinct ORDER BY values, each with its number of rows, are ranked: DENSE_RANK is the number of the value, and
    RANK is 1 plus the number of rows before it. Only the values of each group within the bounds are kept. For RANK, as
    many values are kept as the last rank says, because each value has at least one row.
    """
    rows, (function,) = _source("rows", over.input), over.functions
    keys = tuple(dict.fromkeys((*over.keys, *(one.column for one in over.order))))
    same = tuple((key, col(key, rows.qualified(key).type)) for key in keys)
    many = function.function == "rank"
    n, number = unused("n", keys), unused("number", keys)
    inner = Query(over.text, (rows,), (), tuple((key, rows.qualified(key)) for key in keys), not many)
    if bounds.last is not None and many:
        counts = Group(inner, keys, (Aggregate(n, "int64", "count"),), (*same, (n, col(n, "int64"))))
        values = Top(counts, over.keys, over.order, max(0, bounds.last))
    else:
        values = bounds.rows(over, inner)
    before = WindowFunction(number, "int64", "sum", (n,), frame=Frame("rows", None, -1))
    counted = before if many else WindowFunction(number, "int32", "row_number")
    numbered = _source("numbered", Over(values, over.keys, over.order, (counted,)))
    rank = numbered.qualified(number)
    limits = []
    if many:
        rank = cast(call("add", call("coalesce", rank, lit(0, "int64")), lit(1, "int64")), "int32")
        limits += [call("le", rank, lit(bounds.last, "int32"))]
        limits += [call("ge", rank, lit(bounds.first, "int32"))] if bounds.first > 1 else []
    else:
        rank = _beyond(rank, bounds.first)
    own = (*((key, numbered.qualified(key)) for key in keys), (function.name, rank))
    ranks = _source("ranks", Query(over.text, (numbered,), (conjoin(limits),) if limits else (), own, False))
    joins = tuple(call("nseq", rows.qualified(key), ranks.qualified(key)) for key in keys)
    shown = (*((c.name, rows.qualified(c.name)) for c in over.shown), (function.name, ranks.qualified(function.name)))
    return Query(over.text, (rows, ranks), joins, shown, False)


@dataclass
class _Bounds:
    """The range of positions that the conditions admit, counted from 1."""

    first: int = 1
    last: int | None = None

    def rows(self, over: Over, of: Relation) -> Top:
        """Returns the rows ``of`` a relation at these positions in the order of the window functions."""
        count = EVERY_ROW if self.last is None else max(0, self.last - self.first + 1)
        return Top(of, over.keys, over.order, count, self.first - 1)

    def takes(self, part: Expr, number: Expr) -> bool:
        """Returns whether a condition is a bound on the number. If so, narrows the range to it."""
        if part.op not in ("le", "lt", "eq", "ge", "gt"):
            return False
        op, left, right = part.op, *(_bare(arg) for arg in part.args)
        if right == number:
            op, left, right = MIRROR[op], right, left
        if left != number or right.op != "literal" or not isinstance(right.value, int):
            return False
        bound = min(right.value, EVERY_ROW)
        if op in ("ge", "gt", "eq"):
            self.first = max(self.first, bound + (op == "gt"))
        if op in ("le", "lt", "eq"):
            last = bound - (op == "lt")
            self.last = last if self.last is None else min(self.last, last)
        return True


def _bare(expr: Expr) -> Expr:
    return expr.args[0] if expr.op == "cast" else expr


def _plain(query: Query) -> Relation:
    """Returns the first rows themselves if the query selects nothing else."""
    if len(query.sources) != 1 or query.conditions or query.distinct:
        return query
    source = query.sources[0]
    own = tuple((column.name, source.qualified(column.name)) for column in source.table.columns)
    if query.outputs != own or source.join != "inner" or not isinstance(source.input, Top):
        return query
    return replace(source.input, warnings=query.warnings)
