"""Macros for operators and constants."""

from __future__ import annotations

import math
from functools import partial

from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.functions.function import macro


def positive_remainder(value: Expr, divisor: Expr) -> Expr:
    """Returns the remainder of a division with the sign of the divisor."""
    rest = call("mod", value, divisor)
    below = call("lt", rest, cast(lit(0), rest.type))
    return call("case", below, call("mod", call("add", rest, divisor), divisor), rest)


def _bucket(value: Expr) -> Expr:
    value = cast(value, "int64")
    above = call("add", call("intdiv", call("sub", value, lit(1)), lit(_BITMAP)), lit(1))
    return call("case", call("gt", value, lit(0)), above, call("intdiv", value, lit(_BITMAP)))


def _bit(value: Expr) -> Expr:
    value = cast(value, "int64")
    above = call("mod", call("sub", value, lit(1)), lit(_BITMAP))
    return cast(call("case", call("gt", value, lit(0)), above, call("mod", call("neg", value), lit(_BITMAP))), "int64")


_BITMAP = 32_768
"""The number of bits of a bitmap."""


TABLE = (
    *(
        macro(name, "number number", partial(call, op), note="Like the operator.")
        for name, op in (
            ("mod", "mod"),
            ("try_add", "add"),
            ("try_subtract", "sub"),
            ("try_multiply", "mul"),
            ("try_divide", "div"),
            ("try_mod", "mod"),
        )
    ),
    macro("negative", "number", lambda value: call("neg", value), note="Like unary `-`."),
    macro("pmod", "number number", positive_remainder,
          note="The remainder of a division, with the sign of the divisor."),
    macro("nanvl", "number number", lambda value, other: call("case", call("isnan", value), other, value),
          note="The second number if the first is NaN."),
    macro("zeroifnull", "number", lambda value: call("coalesce", value, lit(0))),
    macro("nullifzero", "number", lambda value: call("case", call("eq", value, lit(0)), NULL, value)),
    macro("positive", "number", lambda value: value),
    macro("bitmap_bucket_number", "int64", _bucket),
    macro("bitmap_bit_position", "int64", _bit),
    macro("pi", "", lambda: lit(math.pi)),
    macro("e", "", lambda: lit(math.e)),
)  # fmt: skip
