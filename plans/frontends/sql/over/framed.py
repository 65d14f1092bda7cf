"""Parses window specifications: partitions, orders, frames, and named windows. Part of `plans.frontends.sql`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.frontends.frames import Side, constant, count_of, distance, duration, frame_of
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.scalars.interval import interval, is_interval
from plans.programs.frames import Frame, Order

OWN = {
    exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist", exp.Ntile: "ntile", exp.Lag: "lag", exp.Lead: "lead", exp.FirstValue: "first_value",
    exp.LastValue: "last_value", exp.NthValue: "nth_value", exp.First: "first_value", exp.Last: "last_value",
}  # fmt: skip
"""Window functions that are not aggregates, by their nodes."""
Read = Callable[[exp.Expression], Expr]
Spelled = tuple[Sequence[exp.Expression], exp.Order | None, exp.WindowSpec | None]


def spelled(node: exp.Window, defined: Mapping[str, exp.Window], text: Text, depth: int = 0) -> Spelled:
    """Returns partition, order and frame of OVER, including those of the named window to which it refers."""
    partition, order, spec = node.args.get("partition_by") or (), node.args.get("order"), node.args.get("spec")
    name = node.args.get("alias")
    if name is None:
        return partition, order, spec
    known = defined.get(name.name.lower())
    if known is None or depth > len(defined):
        raise text.error(f"there is no window {name.name}", name, "define it: WINDOW w AS (PARTITION BY ...)")
    more, their_order, their_spec = spelled(known, defined, text, depth + 1)
    if partition or (order is not None and their_order is not None):
        raise text.error(f"OVER repeats a clause of the window {name.name}", node, "write each clause once")
    return more, order or their_order, spec or their_spec


def frame_in(
    spec: exp.WindowSpec | None, order: Sequence[Order], types: Mapping[str, str], read: Read, text: Text
) -> Frame | None:
    """Returns the frame of OVER, or None if it has none."""
    if spec is None:
        return None
    unit = str(spec.args.get("kind") or "ROWS").lower()
    exclude = spec.args.get("exclude")
    word = "" if exclude is None else str(exclude).upper().replace("_", " ")
    if word not in _EXCLUDED:
        raise text.error(f"EXCLUDE {word} is not supported", spec)
    start, end = (_bound(spec, side, unit, order, types, read, text) for side in ("start", "end"))
    return text.guarded(spec, lambda: frame_of(start, end, _EXCLUDED[word]))


_EXCLUDED = {"": "", "NO OTHERS": "", "CURRENT ROW": "row", "GROUP": "group", "TIES": "ties"}


def _bound(
    spec: exp.WindowSpec, side: str, unit: str, order: Sequence[Order], types: Mapping[str, str], read: Read, text: Text
) -> Side:
    """Returns a side of a frame."""
    node, word = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
    if node is None or (isinstance(node, str) and node.upper() == "CURRENT ROW"):
        return unit, 0
    if isinstance(node, str):
        if word != ("PRECEDING" if side == "start" else "FOLLOWING"):
            raise text.error(f"a frame cannot {side} with UNBOUNDED {word}", spec)
        return unit, None
    if not word:
        raise text.error("a frame counts its rows PRECEDING or FOLLOWING", node, f"write {node.sql()} PRECEDING")
    sign = -1 if word == "PRECEDING" else 1
    if unit != "range":
        return unit, sign * int(text.guarded(node, lambda: count_of(read(node), unit.upper(), 0)))
    if len(order) != 1:
        raise text.error("RANGE with a distance needs an ORDER BY of one column", spec)
    measure, size = text.guarded(node, lambda: _distance(node, types[order[0].column], read))
    return measure, sign * size


def _distance(node: exp.Expression, type_: str, read: Read) -> tuple[str, int | float]:
    if not is_interval(node):
        return "range", distance(constant(read(node)), type_)
    found = interval(node, read)
    months, micros = (0 if part is None else constant(part) for part in (found.months, found.micros))
    if months is None or micros is None:
        raise PlanError("RANGE takes a distance, not NULL")
    return duration(months, micros, type_)
