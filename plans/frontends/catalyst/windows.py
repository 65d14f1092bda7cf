"""Orders and windows of Spark's plan: ranks, and aggregates over whole partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import NULL, call
from plans.frontends.catalyst.blocks import Block, Named, Reading, distinct_names
from plans.frontends.catalyst.groups import Translate, over_partition
from plans.frontends.catalyst.tree import Node
from plans.program import Order
from plans.queries.algebra import Query, Ranked, unused

_HIDDEN = -1
_RANKS = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}


def ordered(items: Sequence[Node], block: Block, translate: Translate) -> tuple[Block, tuple[Order, ...]]:
    """Returns a block that has a column for each item of ORDER BY, and the order of these columns.

    A column that is added has a number below 0. The first time that a column stands counts.
    """
    block, names = with_columns([item.child for item in items], block, translate)
    orders: dict[str, Order] = {}
    for item, name in zip(items, names, strict=True):
        falling, last = item.word("direction") == "Descending", item.word("nullOrdering") == "NullsLast"
        orders.setdefault(name, Order(name, falling, last))
    return block, tuple(orders.values())


def with_columns(items: Sequence[Node], block: Block, translate: Translate) -> tuple[Block, list[str]]:
    """Returns a block that has a column for each expression, and the names that these will have when it is closed."""
    columns = list(block.columns)
    places = []
    for item in items:
        value = translate(item, block)
        found = next((i for i, column in enumerate(columns) if column.value == value), None)
        if found is None:
            found = len(columns)
            columns.append(Named(_HIDDEN - found, "o", value))
        places.append(found)
    made = replace(block, columns=tuple(columns))
    names = distinct_names(made)
    return made, [names[place] for place in places]


def window(node: Node, block: Block, reading: Reading, translate: Translate) -> Block:
    """Returns the block of a Window over a block."""
    block, keys = with_columns(node.trees("partitionSpec"), block, translate)
    block, order = ordered(node.trees("orderSpec"), block, translate)
    keys = list(dict.fromkeys(keys))
    items = [(item, *item.child.children) for item in node.trees("windowExpressions")]
    ranks = [item for item, function, _ in items if function.kind in _RANKS]
    rows, names = reading.query(block, distinct_names(block)), distinct_names(block)
    made = _ranked(rows, names, block, ranks, tuple(keys), order, reading)
    for item, function, spec in items:
        name = str(item.fields["name"])
        if item in ranks:
            continue
        if function.kind != "AggregateExpression" or not _whole(spec):
            kind = function.child.kind if function.kind == "AggregateExpression" else function.kind
            raise PlanError(
                f"the window function {kind} is not supported with this ORDER BY or frame",
                hint="ranks, and aggregates over whole partitions, are maintained",
            )
        base = made.sources[0]
        groups, value = over_partition(function, name, rows, keys, made, reading, translate)
        pairs = zip(keys, groups.columns, strict=False)
        ties = [call("nseq", base.qualified(key), column.value) for key, column in pairs]
        made = replace(
            made,
            sources=(*made.sources, *groups.sources),
            conditions=(*made.conditions, *ties),
            columns=(*made.columns, Named(item.id, name, value)),
        )
    return made


def _ranked(
    rows: Query,
    names: tuple[str, ...],
    block: Block,
    ranks: Sequence[Node],
    keys: tuple[str, ...],
    order: tuple[Order, ...],
    reading: Reading,
) -> Block:
    """Returns the block that reads the rows of a block, with a column more for each rank."""
    made = reading.derived(rows, block.columns, names, "rows")
    for item in ranks:
        source = made.sources[0]
        shown = tuple((column.name, source.qualified(column.name)) for column in source.table.columns)
        below = source.input if source.input is rows else Query(reading.text, made.sources, (), shown, False)
        assert below is not None, "the block is derived"
        number = unused(str(item.fields["name"]), [name for name, _ in shown])
        function = _RANKS[item.child.child.kind]
        columns = (*made.columns, Named(item.id, str(item.fields["name"]), NULL))
        made = reading.derived(
            Ranked(below, keys, order, number, function), columns, (*(name for name, _ in shown), number), "rows"
        )
    return made


def _whole(spec: Node) -> bool:
    """Returns True if the frame of a window is the whole partition."""
    frame = next((child for child in spec.children if child.kind == "SpecifiedWindowFrame"), None)
    if frame is None:
        return not spec.fields["orderSpec"]
    return [bound.kind for bound in frame.children] == ["UnboundedPreceding", "UnboundedFollowing"]
