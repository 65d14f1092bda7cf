"""Removes unused parts of groups, window functions and EXPLODE: aggregates, functions, and columns of their inputs.

>>> from plans import parse
>>> text = "SELECT b FROM (SELECT b, SUM(a) AS s FROM r GROUP BY b)"
>>> narrowed(parse(text, {"r": {"a": "int64", "b": "int64"}})).sources[0].input.aggregates
()

A stage of window functions keeps every row, so each column costs a word per row. A stage of EXPLODE writes each column
once per element. An unused sum would reject a batch in which it overflows its type. A relation that several queries
read stays one relation, with all columns that any of them reads. A removed column no longer breaks ties: the columns
that the query reads break them.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from plans.lowering.stages import Stages, columns_read
from plans.programs.stages import Function
from plans.queries.algebra import Group, Over, Query, Relation, SetOperation, Unnest, inputs, rebuilt, split, walk
from plans.schema import Column, Table


def narrowed(relation: Relation) -> Relation:
    """Returns an equivalent relation whose parts have only the columns that are read."""
    while True:
        less = _narrowed(relation)
        if less is relation:
            return less
        relation = less


def _narrowed(relation: Relation) -> Relation:
    """Returns a relation whose parts have only the columns that the current parts above them read."""
    shared = Stages({}).one
    read: dict[int, set[str]] = {}
    for part in walk(relation):
        for below, names in _read_by(part):
            read.setdefault(id(shared(below)), set()).update(names)

    def less(part: Relation) -> Relation:
        if part is relation or not isinstance(part, (Group, Over, Unnest)):
            return part
        return _with_only(part, read[id(shared(part))])

    return rebuilt(relation, _fitted, less)


def _read_by(part: Relation) -> Iterator[tuple[Relation, Set[str]]]:
    """Yields the inputs of a relation, each with the columns that are read of it."""
    if not isinstance(part, Query):
        yield from ((below, {column.name for column in below.columns}) for below in inputs(part))
        return
    names = {split(name) for name in columns_read(part)}
    for source in part.sources:
        if source.input is not None:
            yield source.input, {name for alias, name in names if alias == source.alias}


def _fitted(relation: Relation) -> Relation:
    """Returns a join core whose sources declare the columns of their inputs."""
    if not isinstance(relation, Query):
        return relation
    sources = []
    for source in relation.sources:
        made = () if source.input is None else tuple(map(_column, source.input.columns))
        if source.input is not None and [c.name for c in made] != [c.name for c in source.table.columns]:
            source = replace(source, table=Table(source.table.name, made))
        sources.append(source)
    same = all(one is other for one, other in zip(sources, relation.sources, strict=True))
    return relation if same else replace(relation, sources=tuple(sources))


def _with_only(part: Group | Over | Unnest, required: Set[str]) -> Relation:
    """Returns a relation with at least the wanted columns."""
    if isinstance(part, Unnest):
        *rest, _ = part.input.columns
        rows = _with_columns(part.input, [*(column.name in required for column in rest), True])
        return part if rows is part.input else replace(part, input=rows)
    if isinstance(part, Group):
        return _aggregated(part, required)
    functions = tuple(one for one in part.functions if one.name in required)
    if not functions:
        return part.input
    kept = {
        *required,
        *part.keys,
        *(one.column for one in part.order),
        *(name for one in functions for name in one.read),
    }
    rows = _with_columns(part.input, [column.name in kept for column in part.input.columns])
    if rows is part.input and functions == part.functions:
        return part
    shown = {column.name for column in part.shown}
    hidden = sum(column.name not in shown for column in rows.columns)
    return replace(part, input=rows, functions=functions, hidden=hidden)


def _aggregated(group: Group, required: Set[str]) -> Group:
    """Returns a group without the aggregates that are read only by unwanted outputs. Keys stay, because they make rows
    distinct."""
    outputs = tuple((name, expr) for name, expr in group.outputs if name in required or expr.columns <= set(group.keys))
    read = {name for _, expr in outputs for name in expr.columns} | (group.having.columns if group.having else set())
    aggregates = tuple(one for one in group.aggregates if one.name in read)
    if aggregates == group.aggregates or not outputs:
        return group
    kept = {*group.keys, *(name for one in aggregates for name in one.read)}
    rows = _with_columns(group.input, [column.name in kept for column in group.input.columns])
    return replace(group, input=rows, aggregates=aggregates, outputs=outputs)


def _column(column: Column) -> Column:
    return Column(column.name, column.type)


def _with_columns(rows: Relation, kept: list[bool]) -> Relation:
    """Returns the rows without some of their columns if they are selected from single tables; other rows stay
    unchanged."""
    parts = rows.inputs if isinstance(rows, SetOperation) else (rows,)
    if (isinstance(rows, SetOperation) and not is_sum(rows.function)) or not any(kept):
        return rows
    made = []
    for part in parts:
        if not isinstance(part, Query) or len(part.sources) > 1 or part.distinct:
            return rows
        made.append(replace(part, outputs=tuple(one for one, here in zip(part.outputs, kept, strict=True) if here)))
    if all(kept):
        return rows
    return replace(rows, inputs=tuple(made)) if isinstance(rows, SetOperation) else made[0]


def is_sum(function: Function) -> bool:
    """Returns whether a function of multiplicities only adds the multiplicities of its leaves."""
    if isinstance(function, int):
        return True
    return function[0] == "union_all" and all(is_sum(part) for part in function[1:] if not isinstance(part, str))
