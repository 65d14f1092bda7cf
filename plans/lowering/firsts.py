"""Rewrites running aggregates of DISTINCT values as aggregates of the first (or last) row of each value.

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

from dataclasses import replace

from plans.expressions.build import call, conjoin
from plans.programs.frames import GATHERED, WindowFunction
from plans.queries.algebra import Over, Query, Relation, Source, rebuilt, split, unused
from plans.schema import Column, Table

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
