"""Orders and windows of Spark's plan: the first rows of a group, and aggregates over whole partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import NULL, call
from plans.frontends.catalyst.blocks import Block, Named, Numbered, Reading, distinct_names
from plans.frontends.catalyst.groups import Translate, over_partition
from plans.frontends.catalyst.tree import Node
from plans.program import Order
from plans.queries.algebra import Top

_HIDDEN = -1
_MIRROR = {
    "LessThanOrEqual": "GreaterThanOrEqual", "LessThan": "GreaterThan", "GreaterThanOrEqual": "LessThanOrEqual",
    "GreaterThan": "LessThan", "EqualTo": "EqualTo",
}  # fmt: skip


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
    query, base = reading.closed(block)
    keys = list(dict.fromkeys(keys))
    made = base
    for item in node.trees("windowExpressions"):
        call_, spec = item.child.children
        name = str(item.fields["name"])
        if call_.kind == "RowNumber":
            number = Numbered(base.sources[0].alias, tuple(keys), order)
            columns = (*made.columns, Named(item.id, name, NULL))
            made = replace(made, columns=columns, numbers=(*made.numbers, (item.id, number)))
        elif call_.kind == "AggregateExpression" and _whole(spec):
            groups, value = over_partition(call_, name, query, keys, base, reading, translate)
            pairs = zip(keys, groups.columns, strict=False)
            ties = [call("nseq", base.sources[0].qualified(key), column.value) for key, column in pairs]
            made = replace(
                made,
                sources=(*made.sources, *groups.sources),
                conditions=(*made.conditions, *ties),
                columns=(*made.columns, Named(item.id, name, value)),
            )
        else:
            kind = call_.child.kind if call_.kind == "AggregateExpression" else call_.kind
            raise PlanError(
                f"the window function {kind} is not supported with this ORDER BY or frame",
                hint="ROW_NUMBER() <= k and aggregates over whole partitions are maintained",
            )
    return made


def _whole(spec: Node) -> bool:
    """Returns True if the frame of a window is the whole partition."""
    frame = next((child for child in spec.children if child.kind == "SpecifiedWindowFrame"), None)
    if frame is None:
        return not spec.fields["orderSpec"]
    return [bound.kind for bound in frame.children] == ["UnboundedPreceding", "UnboundedFollowing"]


def bound(condition: Node, block: Block) -> Block | None:
    """Returns the block of the first rows, if a condition bounds a ROW_NUMBER(); None if it says something else."""
    if condition.kind not in _MIRROR:
        return None
    kind, (left, right) = condition.kind, condition.children
    if left.kind == "Literal":
        kind, left, right = _MIRROR[kind], right, left
    number = dict(block.numbers).get(left.id) if left.kind == "AttributeReference" else None
    if number is None or right.kind != "Literal" or kind in ("GreaterThan", "GreaterThanOrEqual"):
        return None
    given = int(right.fields["value"] or 0)
    offset, limit = 0, given if kind == "LessThanOrEqual" else given - 1
    if kind == "EqualTo":
        offset, limit = max(given, 1) - 1, int(given > 0)
    sources = []
    for source in block.sources:
        if source.alias == number.alias:
            assert source.input is not None, "a numbered source is a relation of its own"
            source = replace(source, input=Top(source.input, number.keys, number.order, max(0, limit), offset))
        sources.append(source)
    return replace(block, sources=tuple(sources))
