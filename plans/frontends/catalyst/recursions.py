"""Recursive CTEs in a plan of Spark: `UnionLoop`, and `UnionLoopRef` for its rows in its step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.errors import PlanError
from plans.frontends.catalyst.blocks import Block, Named, Reading, distinct_names
from plans.frontends.catalyst.tree import Node
from plans.frontends.recursive import Member, readings, recursion, rows_of
from plans.queries.algebra import Source


def loop(node: Node, reading: Reading, block_of: Callable[[Node, Reading], Block]) -> Block:
    """Returns the rows of a recursion, whose two children are its first rows and its step."""
    if node.fields.get("maxDepth") is not None:
        raise PlanError("MAX RECURSION LEVEL is not supported", hint="leave it out; a condition ends a recursion")
    begin, derive = node.children
    block = block_of(begin, reading)
    names = distinct_names(block)
    first = reading.query(block, names)
    rows = rows_of("recursion", first.columns, distinct=False, taken=reading.tables)
    reading.loops[int(node.fields["id"])] = rows
    step = reading.query(block_of(derive, reading), names)
    mine = readings(step, [rows], "the recursive CTE")
    if isinstance(mine, tuple):
        raise PlanError(mine[0], hint=mine[1])
    if [column.type for column in step.columns] != [column.type for column in first.columns]:
        raise PlanError("both branches of a recursion must have the same types", hint="cast the columns of one of them")
    ids = [int(one["id"]) for one in node.fields["outputAttrIds"]]
    columns = tuple(replace(column, id=id_) for column, id_ in zip(block.columns, ids, strict=True))
    (made,) = recursion([Member(rows, first, [(step, mine)])])
    return reading.derived(made, columns, names, "recursion")


def rows_there(node: Node, reading: Reading) -> Block:
    """Returns the rows of a recursion, in its step."""
    rows = reading.loops[int(node.fields["loopId"])]
    source = Source(reading.alias(rows.name), rows)
    pairs = zip(node.trees("output"), rows.columns, strict=True)
    return Block((source,), tuple(Named(a.id, c.name, source.qualified(c.name)) for a, c in pairs))
