"""Spark's type coercion: the types to which operands are cast, and the result types.

Types are the planner's names. A NULL without a type (`null`) takes the type of the other operand. The rules for
decimals are those of `DecimalPrecision` with `spark.sql.decimalOperations.allowPrecisionLoss` on (the default): a
result that needs more than 38 digits loses decimal places, but keeps at least 6 of them if it has as many.
"""

from __future__ import annotations

from plans.errors import PlanError
from plans.nested import ARRAY, STRUCT, is_nested, matched, parts
from plans.types import MOMENTS, decimal_parts

MAX_DIGITS = 38
QUOTIENT_DIGITS = 74  # of a dividend: 256 bits hold 76, and dividing takes two more
_KEPT_SCALE = 6
INTEGERS = ("int32", "int64")
_HELD = {"int32": (10, 0), "int64": (19, 0)}
_MADE = {"int32": (10, 0), "int64": (20, 0)}  # Spark gives a BIGINT one digit more than it needs


def check_ordered(type_: str, what: str) -> None:
    """Raises PlanError if the values of a type have no order, which `what` requires."""
    if is_nested(type_):
        found = parts(type_)
        name = found.names[0] if found is not None and found.kind == STRUCT else ""
        part = f"x.{name}" if name else "x[0]" if found is not None and found.kind == ARRAY else "x['key']"
        hint = f"use a part of them, such as {part}, or their text, TO_JSON(x)"
        raise PlanError(f"{what} needs an order, and values of type {type_} have no order", hint=hint)


def numeric(type_: str) -> bool:
    """Returns True iff the type is numeric. An untyped NULL counts as numeric."""
    return type_ in ("int32", "int64", "float64", "null") or decimal_parts(type_) is not None


def as_decimal(type_: str) -> tuple[int, int]:
    """Returns precision and scale of the decimal to which Spark converts an integer or decimal type."""
    return decimal_parts(type_) or _MADE[type_]


def named(precision: int, scale: int) -> str:
    """Returns the decimal type of that precision and scale."""
    return f"decimal({precision},{scale})"


def comparable(left: str, right: str) -> str | None:
    """Returns the type in which two values are compared, or None if they are not comparable.

    Raises PlanError if no decimal holds both, because Spark would round one of them.
    """
    return _common(left, right, _HELD)


def common(left: str, right: str) -> str | None:
    """Returns the common type of two values, as in CASE, COALESCE and UNION, or None if there is none.

    If no decimal holds both, the type loses decimal places, as in Spark.
    """
    return _common(left, right, _MADE, rounds=True)


def _common(left: str, right: str, integers: dict[str, tuple[int, int]], rounds: bool = False) -> str | None:
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    if {left, right} <= set(MOMENTS):
        return "timestamp" if "timestamp" in (left, right) else "timestamp_ntz"
    if is_nested(left) and is_nested(right):
        return matched(left, right, lambda one, two: _common(one, two, integers, rounds))
    if not (numeric(left) and numeric(right)):
        return None
    if "float64" in (left, right):
        return "float64"
    if left in INTEGERS and right in INTEGERS:
        return "int64"
    (p, s), (q, t) = (decimal_parts(type_) or integers[type_] for type_ in (left, right))
    scale = max(s, t)
    precision = max(p - s, q - t) + scale
    if precision > MAX_DIGITS and rounds:
        return named(MAX_DIGITS, scale - (precision - MAX_DIGITS))
    if precision > MAX_DIGITS:
        raise PlanError(
            f"{left} and {right} together need {precision} digits, more than {MAX_DIGITS}",
            hint="cast one of them to a decimal with fewer digits",
        )
    return named(precision, scale)


def decimal_result(op: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Returns the precision and scale of `left op right` in Spark; op is add, sub, mul, div or mod."""
    (p, s), (q, t) = left, right
    if op == "mul":
        return _bounded(p + q + 1, s + t)
    if op == "div":
        scale = max(_KEPT_SCALE, s + q + 1)
        return _bounded(p - s + t + scale, scale)
    scale = max(s, t)
    if op == "mod":
        return min(p - s, q - t) + scale, scale
    return _bounded(max(p - s, q - t) + scale + 1, scale)


def mean_type(type_: str) -> str:
    """Returns the type of the mean of decimals of a type: four more decimal places."""
    precision, scale = as_decimal(type_)
    return named(min(precision + 4, MAX_DIGITS), min(scale + 4, MAX_DIGITS))


def _bounded(precision: int, scale: int) -> tuple[int, int]:
    if precision <= MAX_DIGITS:
        return precision, scale
    whole = precision - scale
    return MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, _KEPT_SCALE))
