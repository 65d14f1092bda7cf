"""Aggregates of DISTINCT values up to a row, or from it on, become those of the rows that are the first of their value.

>>> from plans import parse
>>> text = "SELECT a, COUNT(DISTINCT b) OVER (ORDER BY a) AS n FROM r"
>>> made = first_values(parse(text, {"r": {"a": "int64", "b": "int64"}})).sources[0].input
>>> made.functions[0].distinct, [one.function for one in made.input.sources[0].input.functions]
(False, ['lag'])

A frame without a first row has a value if and only if it has the first row with this value. LAG, among the rows of the
same value, tells which one that is. So a change of a row makes one other row the first of its value, or none, and an
aggregate of DISTINCT values is a running one. A frame without a last row has the last row with each of its values.
"""

from __future__ import annotations

from dataclasses import replace

from plans.expressions.build import call, conjoin
from plans.frames import GATHERED, WindowFunction
from plans.queries.algebra import Over, Query, Relation, Source, rebuilt, split, unused
from plans.schema import Column, Table

Kind = tuple[str, str | None, bool]
"""A column of values, the filter of their rows, and whether the last rows are asked for instead of the first ones."""


def first_values(relation: Relation) -> Relation:
    """Returns an equivalent relation without sums of DISTINCT values over frames that have no bound on one side."""
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
    """Returns which rows a function reads alone; None if it reads others."""
    if not one.distinct or one.function in GATHERED or one.frame is None or one.frame.exclude:
        return None
    if (one.frame.start is None) == (one.frame.end is None):
        return None
    return one.arguments[0], one.where, one.frame.end is None


def _mark(over: Over, kind: Kind) -> tuple[Over, str]:
    """Returns window functions over rows with a column that says which ones they are, and its name.

    Of copies of a row, the first one is to be the first of its value. Ties are broken by the columns in turn, so the
    one that says which rows follow others comes before.
    """
    value, where, last = kind
    columns, given, said = over.input.columns, *_named(over)
    taken = [*said, *said.values(), *(one.name for one in over.functions)]
    near, other, mark = (unused(wish, taken) for wish in ("near", "other", "first"))
    types = {column.name: column.type for column in columns}
    keys = dict.fromkeys(said[name] for name in (*over.keys, value, *([where] if where is not None else [])))
    order = tuple(replace(by, column=said[by.column]) for by in over.order)
    beside = WindowFunction(near, types[value], "lead" if last else "lag", (said[value],), count=1)
    rows = Over(given, tuple(keys), order, (beside,))
    source = Source("rows", Table("rows", tuple(Column(c.name, c.type) for c in rows.columns)), input=rows)
    there = [call("not", call("isnull", source.qualified(said[value])))]
    there += [source.qualified(said[where])] if where is not None else []
    alone = call("isnull", source.qualified(near))
    added = (
        [(mark, conjoin([*there, alone]))] if last else [(other, call("not", alone)), (mark, conjoin([*there, alone]))]
    )
    shown = ((column.name, source.qualified(said[column.name])) for column in columns)
    inner = Query(over.text, (source,), (), (*shown, *added), False)
    return replace(over, input=inner, hidden=over.hidden + len(added)), mark


def _named(over: Over) -> tuple[Relation, dict[str, str]]:
    """Returns the rows that functions read, and what each column is called there: those that the result does not have
    are called what they are in the query, for messages."""
    rows = over.input
    said = {column.name: column.name for column in rows.columns}
    if isinstance(rows, Query):
        for name, expr in rows.outputs[len(over.shown) :]:
            said[name] = unused(split(str(expr))[1] if expr.op == "col" else str(expr), [*said, *said.values()])
        rows = replace(rows, outputs=tuple((said[name], expr) for name, expr in rows.outputs))
    return rows, said
