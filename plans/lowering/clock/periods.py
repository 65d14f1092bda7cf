"""Computes the period in which a condition on the clock holds.

A non-decreasing function of the clock is solved for the clock: `CURRENT_DATE >= due` holds from the midnight of `due`
on.
"""

from __future__ import annotations

from plans.expressions.build import MIRROR, Expr, call, cast, lit

_DAY = 86_400_000_000
_UNITS = {"day": _DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1}
Period = tuple[Expr | None, Expr | None]
"""The first moment at which a condition holds (None: it always held), and the first at which it no longer holds (None:
it holds forever)."""


def period(condition: Expr, time: Expr) -> Period | None:
    """Returns the period of a condition that reads the clock, or None if it is not a comparison that can be solved for
    it."""
    op, args = condition.op, condition.args
    if op not in MIRROR or op in ("ne", "nseq"):
        return None
    left, right = args
    if any(name == time.value for name in right.columns):
        if any(name == time.value for name in left.columns):
            return None
        left, right, op = right, left, MIRROR[op]
    if left.op == "datediff" and time.value in left.args[1].columns and time.value not in left.args[0].columns:
        left, right, op = left.args[1], call("date_sub", left.args[0], right), MIRROR[op]
    if left.type == "duration" and left.op == "sub" and time.value not in left.args[0].columns:
        left, right, op = left.args[1], call("sub", left.args[0], right), MIRROR[op]
    reached, passed = first(left, right, time), first(left, _next(right), time)
    if reached is None or passed is None:
        return None
    return {
        "ge": (reached, None),
        "gt": (passed, None),
        "lt": (None, reached),
        "le": (None, passed),
        "eq": (reached, passed),
    }[op]


def _next(value: Expr) -> Expr:
    """Returns the successor of a value in its type."""
    if value.type == "date":
        return call("date_add", value, lit(1))
    if value.type in ("timestamp", "timestamp_ntz"):
        return call("plus_micros", value, lit(1))
    if value.op == "literal" and value.value is not None:
        return lit(value.value + 1, value.type)
    return call("add", value, lit(1, "duration") if value.type == "duration" else lit(1))


def _negated(length: Expr) -> Expr:
    return lit(-length.value) if length.op == "literal" and length.value is not None else call("neg", length)


def first(side: Expr, value: Expr, time: Expr) -> Expr | None:
    """Returns the first moment at which `side`, a non-decreasing function of the clock, is at least `value`.

    Returns None if the side is not known to be such a function. The amount by which it shifts the clock may depend on
    the row.
    """
    if side == time:
        return value if value.type == "timestamp" else cast(value, "timestamp")
    at = -1 if side.op in ("date_trunc", "timestampdiff") else 0
    inner = side.args[at] if side.args else None
    if inner is None or [other for other in side.args if time.value in other.columns] != [inner]:
        return None
    if side.op == "plus_micros":
        return first(inner, call("plus_micros", value, _negated(side.args[1])), time)
    if side.op in ("add", "sub") and side.args[1].type == "duration" and side.type != "duration":
        return first(inner, call("sub" if side.op == "add" else "add", value, side.args[1]), time)
    if side.op == "sub" and side.type == "duration":
        return first(inner, call("add", side.args[1], value), time)
    if side.op in ("date_add", "date_sub"):
        back = "date_sub" if side.op == "date_add" else "date_add"
        return first(inner, call(back, value, side.args[1]), time)
    if side.op == "timestampdiff":
        return _by_difference(side, value, time)
    if side.op == "datediff":
        return first(inner, call("date_add", side.args[1], value), time)
    if side.op == "date_trunc":
        unit = _UNITS.get(str(side.args[0].value).lower()) if side.args[0].op == "literal" else None
        if unit is None:
            return None
        before = call("plus_micros", value, lit(-1))
        return first(inner, call("plus_micros", call("date_trunc", side.args[0], before), lit(unit)), time)
    if side.op == "cast" and side.type == "date" and inner.type in ("timestamp", "timestamp_ntz"):
        return first(inner, cast(value, inner.type), time)
    if side.op == "cast" and inner.type == "date" and side.type in ("timestamp", "timestamp_ntz"):
        day = cast(call("plus_micros", value, lit(-1)), "date")
        return first(inner, call("date_add", day, lit(1)), time)
    if side.op == "cast" and {side.type, inner.type} == {"timestamp", "timestamp_ntz"}:
        return first(inner, cast(value, inner.type), time)
    return None


def _by_difference(side: Expr, value: Expr, time: Expr) -> Expr | None:
    """Returns when the number of whole units from a value to the clock, truncated towards zero, reaches `value`."""
    unit, since, inner = side.args
    length = _UNITS.get(str(unit.value).lower()) if unit.op == "literal" else None
    if length is None or (length > 1 and (value.op != "literal" or value.value is None)):
        return None
    if length > 1:
        value = lit(value.value * length if value.value > 0 else (value.value - 1) * length + 1, "int64")
    return first(inner, call("plus_micros", since, value), time)
