"""Rewrites functions as others, which have a native form: those of timestamps as divisions of their microseconds, and
GREATEST and LEAST as comparisons."""

from __future__ import annotations

from functools import partial, reduce

from plans.expressions.columns.dates import DAY, SECOND
from plans.expressions.expr import Expr
from plans.expressions.functions.clock.times import FIXED_UNITS

MOMENTS = ("timestamp", "timestamp_ntz")
_CLOCK = {"hour": (3_600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60)}
_COUNTS = {"unix_seconds": SECOND, "unix_millis": 1_000}


def rewritten(node: Expr, args: list[Expr]) -> Expr:
    """Returns a node with these arguments. A function of a timestamp becomes `floor_divide` or `floor_modulo`, which
    round down, or `tumble_start`; `greatest` and `least` become `case`.
    """
    if node.op in ("greatest", "least") and node.type != "float64":
        return reduce(partial(_extreme, node), args)
    moment = next((arg for arg in args if arg.type in MOMENTS), None)
    if moment is not None:
        if node.op == "cast" and node.type == "date":
            return _date(moment)
        if node.op in ("year", "month", "day"):
            return Expr(node.op, node.type, (_date(moment),))
        if node.op in _CLOCK:
            size, count = _CLOCK[node.op]
            return Expr("floor_modulo", node.type, (_quotient(moment, size, "int64"), _whole(count)))
        if node.op in _COUNTS:
            return _quotient(moment, _COUNTS[node.op], node.type)
        if node.op == "date_trunc" and args[0].op == "literal" and args[0].value is not None:
            length = FIXED_UNITS.get(args[0].value.lower())
            if length is not None:
                return Expr("tumble_start", node.type, (moment, _whole(length)))
    return Expr(node.op, node.type, tuple(args), node.value)


def _extreme(node: Expr, one: Expr, other: Expr) -> Expr:
    """Returns the greatest or least of two values, of which one may be NULL."""
    there = Expr("isnull", "bool", (one,))
    further = Expr("lt" if node.op == "greatest" else "gt", "bool", (one, other))
    return Expr("case", node.type, (there, other, further, other, one))


def _date(moment: Expr) -> Expr:
    return _quotient(moment, DAY, "date")


def _quotient(value: Expr, divisor: int, type_: str) -> Expr:
    return Expr("floor_divide", type_, (value, _whole(divisor)))


def _whole(value: int) -> Expr:
    return Expr("literal", "int64", value=value)
