"""Words of literals and of NULL in native expressions."""

from __future__ import annotations

from fractions import Fraction

from crown.store.codec import NULL, encode, no_texts, uses_dictionary
from plans.expressions.expr import Expr
from plans.types import decimal_parts

WIDE_NULL = (0, NULL)


class NotNative(Exception):
    """Tells which part of an expression has no native form."""


def is_wide(type_: str) -> bool:
    """Returns True for decimals of two words."""
    return decimal_parts(type_) is not None and uses_dictionary(type_)


def is_text(expr: Expr) -> bool:
    """Returns True for a text that is not NULL."""
    return expr.op == "literal" and expr.type == "string" and expr.value is not None


def pair(value: int) -> tuple[int, int]:
    """Returns the two words of a whole number of at most 128 bits."""
    low = value & ((1 << 64) - 1)
    return low - ((low >> 63) << 64), value >> 64


def literal_words(expr: Expr) -> tuple[int, int]:
    """Returns the words of a literal."""
    if expr.value is None:
        if expr.type == "null":
            raise NotNative("an untyped NULL")
        return WIDE_NULL if is_wide(expr.type) else (NULL, 0)
    parts = decimal_parts(expr.type)
    if parts is not None:
        return pair(int(Fraction(expr.value) * 10 ** parts[1]))
    if uses_dictionary(expr.type):
        raise NotNative("a text")
    return int(encode(expr.evaluate({}, 1), expr.type, no_texts)[0]), 0
