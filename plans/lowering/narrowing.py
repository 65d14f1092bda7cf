"""Rows below window functions and EXPLODE without the columns that nothing reads, and without functions that nothing
reads.

A stage of window functions keeps every row, so each column costs a word per row. One of EXPLODE writes each column once
per element. A column that is left out breaks no
ties any more: they are broken by the columns that the query reads.
"""

from __future__ import annotations

from dataclasses import replace

from plans.program import Function
from plans.queries.algebra import Over, Query, Relation, SetOperation, Source, Unnest, split
from plans.schema import Column, Table


def narrowed(query: Query) -> Query:
    """Returns the query whose sources with window functions or EXPLODE have only what it reads of them."""
    if not any(isinstance(source.input, (Over, Unnest)) for source in query.sources):
        return query
    exprs = [
        *(expr for _, expr in query.outputs), *query.conditions, *(one for _, keys in query.keys for one in keys),
        *(one for source in query.sources for one in source.on),
    ]  # fmt: skip
    read = {split(name) for expr in exprs for name in expr.columns}
    return replace(query, sources=tuple(_source(source, read) for source in query.sources))


def _source(source: Source, read: set[tuple[str, str]]) -> Source:
    over = source.input
    wanted = {name for alias, name in read if alias == source.alias}
    if isinstance(over, Unnest):
        *rest, _ = over.input.columns
        exploded = replace(over, input=_with(over.input, [*(column.name in wanted for column in rest), True]))
        return replace(source, input=exploded, table=Table(source.table.name, tuple(map(_column, exploded.columns))))
    if not isinstance(over, Over):
        return source
    functions = tuple(one for one in over.functions if one.name in wanted)
    if not functions:
        return replace(
            source, input=over.input, table=Table(source.table.name, tuple(map(_column, over.input.columns)))
        )
    wanted |= {*over.keys, *(one.column for one in over.order), *(name for one in functions for name in one.read)}
    rows = _with(over.input, [column.name in wanted for column in over.input.columns])
    shown = {column.name for column in over.shown}
    hidden = sum(column.name not in shown for column in rows.columns)
    made = replace(over, input=rows, functions=functions, hidden=hidden)
    return replace(source, input=made, table=Table(source.table.name, tuple(map(_column, made.columns))))


def _column(column: Column) -> Column:
    return Column(column.name, column.type)


def _with(rows: Relation, kept: list[bool]) -> Relation:
    """Returns rows of tables without some of their columns; other rows stay as they are."""
    parts = rows.inputs if isinstance(rows, SetOperation) else (rows,)
    if (isinstance(rows, SetOperation) and not is_sum(rows.function)) or not any(kept):
        return rows
    made = []
    for part in parts:
        if not isinstance(part, Query) or len(part.sources) > 1 or part.distinct:
            return rows
        made.append(replace(part, outputs=tuple(one for one, here in zip(part.outputs, kept, strict=True) if here)))
    return replace(rows, inputs=tuple(made)) if isinstance(rows, SetOperation) else made[0]


def is_sum(function: Function) -> bool:
    """Returns whether a function of multiplicities only adds those of its leaves."""
    if isinstance(function, int):
        return True
    return function[0] == "union_all" and all(is_sum(part) for part in function[1:] if not isinstance(part, str))
