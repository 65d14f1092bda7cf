"""Turns conditions on ranks, such as `n <= 3`, and aggregates of DISTINCT values into first rows.

>>> from plans import parse
>>> text = "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) WHERE n <= 3"
>>> made = ranked(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> type(made).__name__, made.keys, made.limit, made.hidden
('Top', ('o',), 3, 1)

A change then moves at most that many numbers. Bounded RANK and DENSE_RANK number the distinct values of the ORDER BY
columns instead of the rows.

Running aggregates of DISTINCT values become aggregates of the first (or last) row of each value.

>>> from plans import parse
>>> text = "SELECT a, COUNT(DISTINCT b) OVER (ORDER BY a) AS n FROM r"
>>> made = first_values(parse(text, {"r": {"a": "int64", "b": "int64"}})).sources[0].input
>>> made.functions[0].distinct, [one.function for one in made.input.sources[0].input.functions]
(False, ['lag'])

A frame without a lower bound contains a value if and only if it contains the first row with this value. LAG over the
rows with the same value tells whether a row is the first. So a change of a row makes at most one other row the first of
its value, and the aggregate of DISTINCT values is a running aggregate. A frame without an upper bound contains the last
row of each of its values, which LEAD finds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.expressions.build import MIRROR, Expr, call, cast, col, conjoin, lit
from plans.programs.frames import EVERY_ROW, GATHERED, RANKS, Frame, WindowFunction
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Over, Query, Relation, Source, Top, rebuilt, split, unused
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
        op, left, right = part.op, *((arg.args[0] if arg.op == "cast" else arg) for arg in part.args)
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


def _plain(query: Query) -> Relation:
    """Returns the first rows themselves if the query selects nothing else."""
    if len(query.sources) != 1 or query.conditions or query.distinct:
        return query
    source = query.sources[0]
    own = tuple((column.name, source.qualified(column.name)) for column in source.table.columns)
    if query.outputs != own or source.join != "inner" or not isinstance(source.input, Top):
        return query
    return replace(source.input, warnings=query.warnings)


Kind = tuple[str, str | None, bool]
"""A column of values, the filter of their rows, and whether the last row of each value is used instead of the first."""


def first_values(relation: Relation) -> Relation:
    """Returns an equivalent relation without aggregates of DISTINCT values over frames that are open on one side."""
    return rebuilt(relation, _marked)


def _marked(relation: Relation) -> Relation:
    if not isinstance(relation, Over):
        return relation
    over = relation
    marks: dict[Kind, str] = {}
    for kind in dict.fromkeys(_kind(one) for one in relation.functions):
        if kind is not None:
            over, marks[kind] = _mark(over, kind)
    kinds = [_kind(one) for one in over.functions]
    functions = (
        one if kind is None else replace(one, distinct=False, where=marks[kind])
        for one, kind in zip(over.functions, kinds, strict=True)
    )  # fmt: skip
    return replace(over, functions=tuple(functions))


def _kind(one: WindowFunction) -> Kind | None:
    """Returns the kind of rows to which a function can be restricted, or None if it cannot be restricted."""
    if not one.distinct or one.function in GATHERED or one.frame is None or one.frame.exclude:
        return None
    if not one.frame.half_bounded:
        return None
    return one.arguments[0], one.where, one.frame.end is None


def _mark(over: Over, kind: Kind) -> tuple[Over, str]:
    """Adds a column that marks the first (or last) row of each value; returns the new relation and the name of the
    column.

    Among copies of a row, only the first one is the first of its value. Ties in the order are broken by the columns
    from left to right, so the column that says whether a row follows another one is placed before the mark.
    """
    value, where, last = kind
    columns, given, names = over.input.columns, *_named(over)
    taken = [*names, *names.values(), *(one.name for one in over.functions)]
    near, other, mark = (unused(preferred, taken) for preferred in ("near", "other", "first"))
    types = {column.name: column.type for column in columns}
    keys = dict.fromkeys(names[name] for name in (*over.keys, value, *([where] if where is not None else [])))
    order = tuple(replace(by, column=names[by.column]) for by in over.order)
    neighbour = WindowFunction(near, types[value], "lead" if last else "lag", (names[value],), count=1)
    rows = Over(given, tuple(keys), order, (neighbour,))
    source = Source("rows", Table("rows", tuple(Column(c.name, c.type) for c in rows.columns)), input=rows)
    there = [call("not", call("isnull", source.qualified(names[value])))]
    there += [source.qualified(names[where])] if where is not None else []
    alone = call("isnull", source.qualified(near))
    added = (
        [(mark, conjoin([*there, alone]))] if last else [(other, call("not", alone)), (mark, conjoin([*there, alone]))]
    )
    shown = ((column.name, source.qualified(names[column.name])) for column in columns)
    inner = Query(over.text, (source,), (), (*shown, *added), False)
    return replace(over, input=inner, hidden=over.hidden + len(added)), mark


def _named(over: Over) -> tuple[Relation, dict[str, str]]:
    """Returns the input of window functions, and for each of its columns the name that it has there. A column that the
    result does not have is named as in the query, because messages show the name."""
    rows = over.input
    names = {column.name: column.name for column in rows.columns}
    if isinstance(rows, Query):
        for name, expr in rows.outputs[len(over.shown) :]:
            names[name] = unused(split(str(expr))[1] if expr.op == "col" else str(expr), [*names, *names.values()])
        rows = replace(rows, outputs=tuple((names[name], expr) for name, expr in rows.outputs))
    return rows, names
