"""Gives window functions over the result of others the order of ties of these, if their windows are the same.

>>> from plans import parse
>>> inner = "SELECT a, b, LAG(c) OVER (ORDER BY a) AS p FROM r"
>>> text = f"SELECT b, p, SUM(b) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) AS s FROM ({inner})"
>>> made = with_one_order(parse(text, {"r": {"a": "int64", "b": "int64", "c": "int64"}})).sources[0].input
>>> [name for name, _ in made.input.outputs]
['o', 'b', 'tie', 'p']

Ties are broken by the columns of the rows, from left to right (see `plans.programs.stages.OverStage`). So the columns
of the rows below come first, in the same order, and those that the query between leaves out are added. Then the row
before a row is the same row for the functions of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from plans.programs.frames import Order
from plans.queries.algebra import Over, Query, Relation, Source, rebuilt, unused
from plans.schema import Column

_Made = TypeVar("_Made", bound=Over | Query | Source)


@dataclass(frozen=True)
class _Window:
    """The PARTITION BY and ORDER BY of window functions, as names of columns of a relation."""

    keys: frozenset[str]
    order: tuple[Order, ...]


def with_one_order(relation: Relation) -> Relation:
    """Returns an equivalent relation in which all functions of one window order ties in the same way."""
    return rebuilt(relation, _one_order)


def _one_order(relation: Relation) -> Relation:
    if not isinstance(relation, Over):
        return relation
    found = _exposed(relation.input, _Window(frozenset(relation.keys), relation.order))
    if found is None:
        return relation
    rows, ties = found
    hidden = [column.name for column in relation.input.columns[len(relation.shown) :] if column.name not in ties]
    if isinstance(rows, Query):
        outputs = dict(rows.outputs)
        names = [*ties, *(name for name in outputs if name not in {*ties, *hidden}), *hidden]
        rows = _changed(rows, outputs=tuple((name, outputs[name]) for name in names))
    return _changed(relation, input=rows, hidden=len(hidden))


def _changed(relation: _Made, **fields: Any) -> _Made:
    """Returns a relation with other fields. A relation that does not change stays one object, and one stage."""
    same = all(getattr(relation, name) is value or getattr(relation, name) == value for name, value in fields.items())
    return relation if same else replace(relation, **fields)


def _exposed(relation: Relation, window: _Window) -> tuple[Relation, list[str]] | None:
    """Returns a relation with the columns that break ties in a window below it, and their names in order. Returns None
    if there is no such window."""
    if isinstance(relation, Over):
        if window == _Window(frozenset(relation.keys), relation.order):
            return _changed(relation, hidden=0), [column.name for column in relation.input.columns]
        found = _exposed(relation.input, window)
        return None if found is None else (_changed(relation, input=found[0], hidden=0), found[1])
    if not isinstance(relation, Query):
        return None
    derived = (source for source in relation.sources if source.input is not None and source.join == "inner")
    return next((found for source in derived if (found := _through(relation, source, window)) is not None), None)


def _through(query: Query, source: Source, window: _Window) -> tuple[Relation, list[str]] | None:
    """Returns a query with the columns that break ties in the window of a source, and their names in order."""
    columns = {source.qualified(column.name): column.name for column in source.table.columns}
    below = {name: columns[expr] for name, expr in query.outputs if expr in columns}
    if not {*window.keys, *(one.column for one in window.order)} <= below.keys():
        return None
    assert source.input is not None, "the source is derived"
    order = tuple(replace(one, column=below[one.column]) for one in window.order)
    found = _exposed(source.input, _Window(frozenset(below[key] for key in window.keys), order))
    if found is None:
        return None
    rows, ties = found
    known = {column.name for column in source.table.columns}
    added = (Column(column.name, column.type) for column in rows.columns if column.name not in known)
    made = _changed(source, table=replace(source.table, columns=(*source.table.columns, *added)), input=rows)
    names = {expr: name for name, expr in query.outputs}
    outputs = list(query.outputs)
    for expr in map(made.qualified, ties):
        if expr not in names:
            names[expr] = unused("tie", names.values())
            outputs.append((names[expr], expr))
    if (query.distinct or source.group) and len(outputs) > len(query.outputs):
        return None  # more columns would be other rows
    sources = tuple(made if one is source else one for one in query.sources)
    return _changed(query, sources=sources, outputs=tuple(outputs)), [names[made.qualified(tie)] for tie in ties]
