"""Translates orders and window functions of Spark's plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import partial

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col
from plans.frontends.catalyst.blocks import Block, Named, Reading, distinct_names
from plans.frontends.catalyst.groups import Rows, Translate, is_picked, over_partition, unqualified
from plans.frontends.catalyst.tree import Node
from plans.frontends.frames import Side, below, count_of, default_frame, distance, duration, frame_of
from plans.programs.frames import NEIGHBOURS, PICKED, RANKS, Frame, Order, WindowFunction
from plans.queries.algebra import Over, replaced, unused

_HIDDEN = -1


def ordered(items: Sequence[Node], block: Block, translate: Translate) -> tuple[Block, tuple[Order, ...]]:
    """Returns a block that has a column for each item of ORDER BY, and the order of these columns.

    An added column has a negative number. For a repeated column, the first item applies.
    """
    block, names = with_columns([item.child for item in items], block, translate)
    orders: dict[str, Order] = {}
    for item, name in zip(items, names, strict=True):
        falling, last = item.word("direction") == "Descending", item.word("nullOrdering") == "NullsLast"
        orders.setdefault(name, Order(name, falling, last))
    return block, tuple(orders.values())


def with_columns(items: Sequence[Node], block: Block, translate: Translate) -> tuple[Block, list[str]]:
    """Returns a block that has a column for each expression, and the names of these columns after the block is
    closed."""
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
    names = distinct_names(block)
    query = reading.query(block, names)
    base = reading.derived(query, block.columns, names, "rows")
    calls = _Calls(Rows({column.name: col(column.name, column.type) for column in query.columns}), unqualified(base))
    grouped = [(item, spec) for item, f, spec in items if f.kind == "AggregateExpression" and not is_picked(f)]
    whole = [item for item, spec in grouped if _is_whole_partition(spec)]
    values = {item.id: calls.value(f, spec, order, translate) for item, f, spec in items if item not in whole}
    made = base
    if calls.functions:
        rows = calls.rows.of(query, base)
        relation = Over(rows, tuple(keys), order, tuple(calls.functions), len(rows.columns) - len(query.columns))
        shown = (*block.columns, *(Named(_HIDDEN, one.name, NULL) for one in calls.functions))
        below = reading.derived(relation, shown, tuple(column.name for column in relation.columns), "rows")
        source = below.sources[0]
        replacements = {col(c.name, c.type): source.qualified(c.name) for c in relation.columns}
        made = replace(below, columns=below.columns[: len(block.columns)])
        functions = (
            Named(item.id, str(item.fields["name"]), replaced(values[item.id], replacements))
            for item, *_ in items
            if item not in whole
        )
        made = replace(made, columns=(*made.columns, *functions))
    for item, function, _ in items:
        if item not in whole:
            continue
        name = str(item.fields["name"])
        source = made.sources[0]
        groups, value = over_partition(function, name, query, keys, base, reading, translate)
        key_matches = [
            call("nseq", source.qualified(key), c.value) for key, c in zip(keys, groups.columns, strict=False)
        ]  # fmt: skip
        made = replace(
            made,
            sources=(*made.sources, *groups.sources),
            conditions=(*made.conditions, *key_matches),
            columns=(*made.columns, Named(item.id, name, value)),
        )
    return made


@dataclass
class _Calls:
    """The window functions of a node over `rows`, whose columns are those of `block`."""

    rows: Rows
    block: Block
    functions: list[WindowFunction] = field(default_factory=list)

    def value(self, node: Node, spec: Node, order: tuple[Order, ...], translate: Translate) -> Expr:
        """Returns a window function as an expression over columns, which are added if they are missing."""
        within = partial(translate, block=self.block)
        inner = node.child if node.kind == "AggregateExpression" else node
        own = _OWN.get(inner.kind)
        frame = _frame(spec, order, self.rows)
        if own is None and node.kind != "AggregateExpression":
            raise PlanError(f"the window function {node.kind} is not supported", hint=_HINT)
        if own is None:
            return self._aggregate(node, frame, order, within)
        made = WindowFunction("", _TYPES.get(own, ""), own)
        if own == "ntile":
            made = replace(made, count=count_of(within(inner.child), "NTILE", 1))
        elif own in NEIGHBOURS:
            made = self._neighbour(made, inner, within)
        elif own in PICKED:
            value = within(inner.child)
            count = count_of(within(inner.children[1]), "NTH_VALUE", 1) if own == "nth_value" else 0
            made = replace(made, type=value.type, arguments=(self.rows.column(value, "x"),), frame=frame, count=count)
        if inner.fields.get("ignoreNulls"):
            given = call("not", call("isnull", within(inner.child)))
            made = below(made, self.rows.column(given, "p"))
        return self._added(made)

    def _neighbour(self, made: WindowFunction, inner: Node, within: Callable[[Node], Expr]) -> WindowFunction:
        value, count = within(inner.child), count_of(within(inner.children[1]), inner.kind, -(2**40))
        made = replace(made, type=value.type, arguments=(self.rows.column(value, "x"),), count=abs(count))
        if count < 0:
            made = replace(made, function="lead" if made.function == "lag" else "lag")
        default = within(inner.children[2])
        if default.type == "null":
            return made
        return replace(made, default=self.rows.column(cast(default, value.type), "d"))

    def _aggregate(self, node: Node, frame: Frame, order: tuple[Order, ...], within: Callable[[Node], Expr]) -> Expr:
        rows = Rows(self.rows.columns)
        value = rows.call(node, within)
        replacements = {}
        for one in rows.calls.values():
            listed = one.function in _LISTS and not one.distinct and not one.order
            made = replace(one, name="", order=order if listed else one.order)
            replacements[col(one.name, one.type)] = self._added(made.over(frame))
        return replaced(value, replacements)

    def _added(self, made: WindowFunction) -> Expr:
        """Returns the column of a function, which is added if it is missing."""
        known = next((one for one in self.functions if replace(one, name="") == made), None)
        if known is None:
            name = unused("#0", [*self.rows.columns, *(one.name for one in self.functions)])
            known = replace(made, name=name)
            self.functions.append(known)
        return col(known.name, known.type)


_OWN = {
    "RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank", "PercentRank": "percent_rank",
    "CumeDist": "cume_dist", "NTile": "ntile", "Lag": "lag", "Lead": "lead", "First": "first_value",
    "Last": "last_value", "AnyValue": "first_value", "NthValue": "nth_value",
}  # fmt: skip
_TYPES = {**dict.fromkeys((*RANKS, "ntile"), "int32"), **dict.fromkeys(("percent_rank", "cume_dist"), "float64")}
_LISTS = ("string_agg", "array_agg")
_HINT = "ranks, LAG and LEAD, values of a frame and the aggregates of GROUP BY are maintained"


def _frame(spec: Node, order: tuple[Order, ...], rows: Rows) -> Frame:
    """Returns the frame of a window."""
    found = next((child for child in spec.children if child.kind == "SpecifiedWindowFrame"), None)
    if found is None:
        return default_frame(bool(order))
    unit = "rows" if found.word("frameType") == "RowFrame" else "range"
    type_ = rows.columns[order[0].column].type if len(order) == 1 else ""
    start, end = (_bound(bound, unit, type_) for bound in found.children)
    return frame_of(start, end, "")


def _bound(node: Node, unit: str, type_: str) -> Side:
    if node.kind in ("UnboundedPreceding", "UnboundedFollowing"):
        return unit, None
    if node.kind == "CurrentRow":
        return unit, 0
    value, kind = _signed(node)
    sign, given = -1 if value < 0 else 1, abs(value)
    if kind.startswith("interval"):
        months = kind in ("interval year", "interval month", "interval year to month")
        measure, size = duration(given if months else 0, 0 if months else given, type_)
        return measure, sign * size
    return unit, sign * (int(given) if unit == "rows" else distance(given, type_))


def _signed(node: Node) -> tuple[Decimal, str]:
    """Returns the value and the type of a constant number."""
    if node.kind == "Cast":
        return _signed(node.child)
    if node.kind == "UnaryMinus":
        value, kind = _signed(node.child)
        return -value, kind
    try:
        return Decimal(str(node.fields["value"])), str(node.fields["dataType"])
    except (KeyError, InvalidOperation):
        raise PlanError("the bound of a frame is not a constant", hint="write a number or an INTERVAL") from None


def _is_whole_partition(spec: Node) -> bool:
    """Returns True if the frame of a window is the whole partition."""
    frame = next((child for child in spec.children if child.kind == "SpecifiedWindowFrame"), None)
    if frame is None:
        return not spec.fields["orderSpec"]
    return [bound.kind for bound in frame.children] == ["UnboundedPreceding", "UnboundedFollowing"]
