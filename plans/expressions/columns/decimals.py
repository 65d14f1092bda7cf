"""Exact decimal arithmetic on whole Arrow columns, with Spark's rounding: half up, once, NULL where the result does not
fit.

A decimal is processed as its unscaled integer in 256 bits (`_WIDE`). Arrow checks the precisions of its types before it
computes, not the values afterwards, so intermediate columns may have any precision (`_labelled`, no copy): values stay
far below 2^255 by the planner's limits on digits (`QUOTIENT_DIGITS`).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.coercion import MAX_DIGITS, QUOTIENT_DIGITS
from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.literals import digits

_WIDE = pa.decimal256(76, 0)
_OPERAND, _FACTOR = pa.decimal256(1, 0), pa.decimal256(74, 0)  # Arrow allows a product of these two
_DIVIDEND, _DIVISOR = pa.decimal256(QUOTIENT_DIGITS, 2), pa.decimal256(1, 0)  # Arrow adds two digits to divide these
_WHOLE = {pa.int32(): 10, pa.int64(): 19}
_WORD_DIGITS = 18  # of numbers that fit into 64 bits
_TO_DOUBLE = 22  # 10^22 is the largest power of ten that is a double


def result(op: str, left: Any, right: Any, type_: pa.DataType) -> Any:
    """Returns `left op right` in the decimal type `type_`; op is add, sub, mul, div or mod. O(n).

    Operands are decimal or integer arrays or scalars. The result is NULL where it does not fit, or where the divisor is
    zero.
    """
    left, right = _decimal(left), _decimal(right)
    quick = _in_words(op, left, right, type_)
    if quick is None:
        quick = _quick(op, left, right, type_)
    if quick is not None:
        return quick
    return on_arrays(lambda a, b: _exact(op, a, b, type_), left, right)


def widened(left: Any, right: Any) -> tuple[Any, Any]:
    """Returns two decimals, arrays or scalars, as 256-bit decimals with one scale. The conversion is exact for all
    types."""
    wide = pa.decimal256(76, max(left.type.scale, right.type.scale))
    return pc.cast(left, wide), pc.cast(right, wide)


def converted(value: Any, type_: pa.DataType) -> Any:
    """Returns a decimal or integer array or scalar in another decimal type: rounded, and NULL where it does not fit.
    O(n)."""
    whole, scale = _WHOLE.get(value.type), 0
    if whole is None:
        whole, scale = value.type.precision - value.type.scale, value.type.scale
    if type_.scale >= scale and type_.precision - type_.scale >= whole:
        return pc.cast(value, type_)
    return on_arrays(lambda a: _fitted(_rescaled(_unscaled(a), a.type.scale, type_.scale), type_), _decimal(value))


def rounded(value: Any, places: int, type_: pa.DataType, mode: str) -> Any:
    """Returns a decimal array or scalar rounded to `places` decimal places, in the decimal type `type_`. O(n).

    `mode` is half_up (ties away from zero), half_even, floor, ceil or down (towards zero). The result is NULL where it
    does not fit.
    """
    return on_arrays(lambda array: _rounded_to(array, places, type_, mode), value)


def _rounded_to(value: pa.Array, places: int, type_: pa.DataType, mode: str) -> pa.Array:
    scale = value.type.scale
    drop = scale - places
    if drop <= 0:
        return converted(value, type_)
    if drop > MAX_DIGITS:
        return pc.if_else(pc.is_valid(value), pa.scalar(decimal.Decimal(0), type_), pa.scalar(None, type_))
    given, power = _unscaled(value), _power(drop)
    size, negative = pc.abs(given), pc.less(given, _number(0))
    quotient, rest = _divided(size, power, _labelled(size, pa.decimal256(76, drop)))
    twice = _wide(pc.add, rest, rest)
    if mode == "half_up":
        up = pc.greater_equal(twice, power)
    elif mode == "half_even":
        half = _labelled(_times(quotient, _number(5)), pa.decimal256(76, 1))  # ends in .5 where the quotient is odd
        whole = pc.cast(half, options=pc.CastOptions(target_type=_WIDE, allow_decimal_truncate=True))
        odd = pc.not_equal(_wide(pc.add, whole, whole), quotient)
        up = pc.or_(pc.greater(twice, power), pc.and_(pc.equal(twice, power), odd))
    else:
        wrong = pc.invert(negative) if mode == "ceil" else negative
        up = pc.and_(pc.greater(rest, _number(0)), wrong) if mode != "down" else pa.repeat(False, len(rest))
    found = _wide(pc.add, quotient, pc.if_else(up, _number(1), _number(0)))
    signed = pc.if_else(negative, pc.negate(found), found)
    return _fitted(_times(signed, _power(type_.scale - places)), type_)


def doubles(value: Any) -> Any:
    """Returns the doubles nearest to decimals. O(n)."""
    return on_arrays(_doubles, value)


def _doubles(value: pa.Array) -> pa.Array:
    if value.type.precision <= MAX_DIGITS // 2 and value.type.scale <= _TO_DOUBLE:
        whole = words(value, np.int64, 2)[::2]
        if not len(whole) or max(int(whole.max()), -int(whole.min())) <= 2**53:
            quotient = whole / 10.0**value.type.scale  # both are doubles exactly, so the result is rounded once
            return array_of(quotient, pa.float64(), value)
    return pc.cast(pc.cast(value, pa.string()), pa.float64())  # Arrow's cast rounds more than once


def of_unscaled(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns integers as the unscaled digits of decimals."""
    return _labelled(pc.cast(value, pa.decimal128(MAX_DIGITS, 0)), type_)


def _decimal(value: Any) -> Any:
    """Returns an integer as a decimal. An integer literal has as many digits as it is written with, as in Spark."""
    if pa.types.is_decimal(value.type):
        return value
    if isinstance(value, pa.Scalar) and value.is_valid:
        return _of_whole(value.as_py())
    return pc.cast(value, pa.decimal128(10 if value.type == pa.int32() else 20, 0))


@lru_cache(maxsize=1024)
def _of_whole(value: int) -> pa.Scalar:
    """Returns an integer as a decimal with the fewest digits. Cached, because it is slower than adding up a column."""
    return pa.scalar(decimal.Decimal(value), pa.decimal128(*digits(value)))


@lru_cache(maxsize=1024)
def _unscaled_literal(value: pa.Scalar) -> int:
    return int(value.as_py().scaleb(value.type.scale))


_Digits = tuple[int, int]
_WORDWISE = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _in_words(op: str, left: Any, right: Any, type_: pa.DataType) -> pa.Array | None:
    """Returns the result by 64-bit arithmetic if it has few digits and is not rounded, and at most one of the operands
    may be NULL; else None. Takes a tenth of the time of Arrow's arithmetic for a thousand rows."""
    first, second = left.type, right.type
    of = ((first.precision, first.scale), (second.precision, second.scale), (type_.precision, type_.scale))
    powers, like = shifts(op, *of), None
    for one in (left, right) if powers is not None else ():
        if not isinstance(one, pa.Array):
            if not one.is_valid:
                return None
        elif like is None or not like.null_count:
            like = one
        elif one.null_count:
            return None
    if powers is None or like is None:
        return None
    found = _WORDWISE[op](_word(left, powers[0]), _word(right, powers[1]))
    if powers[2]:
        found = found * 10 ** powers[2]
    pairs = np.empty((len(found), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = found, found >> 63
    return array_of(pairs, type_, like)


@lru_cache(maxsize=1024)
def shifts(op: str, left: _Digits, right: _Digits, result: _Digits) -> tuple[int, int, int] | None:
    """Returns the powers of ten by which the operands, and then the result, are multiplied, or None if this would round
    or may not fit into a word. Operands and result are given as (precision, scale)."""
    (p, s), (q, t), (digits_, scale_) = left, right, result
    scale, whole = (s + t, p - s + q - t) if op == "mul" else (max(s, t), max(p - s, q - t) + 1)
    if op not in _WORDWISE or scale > scale_ or whole > digits_ - scale_ or whole + scale_ > _WORD_DIGITS:
        return None
    return (0, 0, scale_ - scale) if op == "mul" else (scale - s, scale - t, scale_ - scale)


def _word(value: Any, shift: int) -> Any:
    """Returns decimals of few digits times 10^shift as int64[n], or a scalar as an integer; 0 for NULL."""
    if isinstance(value, pa.Scalar):
        return _unscaled_literal(value) * 10**shift
    found = words(value, np.int64, 2)[::2]
    return found * 10**shift if shift else found


def _quick(op: str, left: Any, right: Any, type_: pa.DataType) -> Any:
    """Returns the result by Arrow's 128-bit arithmetic if that does not round; else None."""
    (p, s), (q, t) = ((one.type.precision, one.type.scale) for one in (left, right))
    if op == "mul" and p + q + 1 <= MAX_DIGITS:
        return converted(pc.multiply(left, right), type_)
    if op in ("add", "sub") and max(p - s, q - t) + max(s, t) + 1 <= MAX_DIGITS:
        return converted((pc.add if op == "add" else pc.subtract)(left, right), type_)
    return None


def _exact(op: str, left: pa.Array, right: pa.Array, type_: pa.DataType) -> pa.Array:
    a, b, s, t = _unscaled(left), _unscaled(right), left.type.scale, right.type.scale
    if op == "mul":
        return _fitted(_rescaled(_times(a, b), s + t, type_.scale), type_)
    if op == "div":
        a = _times(a, _power(type_.scale - s + t))
    else:
        scale = max(s, t)
        a, b = _times(a, _power(scale - s)), _times(b, _power(scale - t))
    if op in ("add", "sub"):
        total = _wide(pc.add if op == "add" else pc.subtract, a, b)
        return _fitted(_rescaled(total, scale, type_.scale), type_)
    nothing = pc.equal(b, _number(0))
    size = pc.if_else(nothing, _number(1), pc.abs(b))
    quotient, rest = _divided(pc.abs(a), size, _labelled(_estimate(pc.abs(a), size), pa.decimal256(76, 2)))
    negative = pc.less(a, _number(0))
    if op == "div":
        negative = pc.xor(negative, pc.less(b, _number(0)))
    found = _rounded(quotient, rest, size) if op == "div" else rest
    signed = pc.if_else(negative, pc.negate(found), found)
    return _fitted(pc.if_else(nothing, pa.scalar(None, _WIDE), signed), type_)


def _rescaled(value: pa.Array, scale: int, target: int) -> pa.Array:
    """Returns unscaled numbers of one scale in another scale, rounded half up."""
    if target >= scale:
        return _times(value, _power(target - scale))
    size, power = pc.abs(value), _power(scale - target)
    quotient, rest = _divided(size, power, _labelled(size, pa.decimal256(76, scale - target)))
    found = _rounded(quotient, rest, power)
    return pc.if_else(pc.less(value, _number(0)), pc.negate(found), found)


def _estimate(dividend: pa.Array, divisor: pa.Array) -> pa.Array:
    """Returns 100 times the quotient, truncated."""
    return pc.divide(_labelled(dividend, _DIVIDEND), _labelled(divisor, _DIVISOR))


def _divided(dividend: pa.Array, divisor: Any, estimate: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Returns quotient and remainder of nonnegative numbers.

    The truncated estimate is the quotient, but Arrow's 256-bit division can be wrong, mostly by one, which the
    remainder shows.
    """
    truncated = pc.cast(estimate, options=pc.CastOptions(target_type=_WIDE, allow_decimal_truncate=True))
    rest = _wide(pc.subtract, dividend, _times(truncated, divisor))
    more, less = pc.greater_equal(rest, divisor), pc.less(rest, _number(0))
    step = pc.if_else(more, _number(1), pc.if_else(less, _number(-1), _number(0)))
    quotient, rest = _wide(pc.add, truncated, step), _wide(pc.subtract, rest, _times(step, divisor))
    wrong = pc.or_(pc.greater_equal(rest, divisor), pc.less(rest, _number(0)))
    return _divided_by_row(dividend, divisor) if pc.any(wrong).as_py() else (quotient, rest)


def _divided_by_row(dividend: pa.Array, divisor: Any) -> tuple[pa.Array, pa.Array]:
    """Returns the result of `_divided` row by row, for cases in which Arrow's division is wrong by more than one."""
    divisors = [divisor] * len(dividend) if isinstance(divisor, pa.Scalar) else divisor
    with decimal.localcontext(prec=_WIDE.precision):
        pairs = [
            (None, None) if None in (one, other) else (one // other, one % other)
            for one, other in zip(dividend.to_pylist(), [other.as_py() for other in divisors], strict=True)
        ]
    quotients, rests = zip(*pairs, strict=True)
    return pa.array(quotients, _WIDE), pa.array(rests, _WIDE)


def _rounded(quotient: pa.Array, remainder: pa.Array, divisor: Any) -> pa.Array:
    """Returns the quotient of nonnegative numbers, rounded half up."""
    up = pc.greater_equal(_wide(pc.add, remainder, remainder), divisor)
    return _wide(pc.add, quotient, pc.if_else(up, _number(1), _number(0)))


def _fitted(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns unscaled numbers as decimals of `type_`; NULL where they have too many digits."""
    fits = pc.less(pc.abs(value), _power(type_.precision))
    narrow = pc.cast(pc.if_else(fits, value, pa.scalar(None, _WIDE)), pa.decimal128(MAX_DIGITS, 0))
    return _labelled(narrow, type_)


def _unscaled(value: pa.Array) -> pa.Array:
    return pc.cast(_labelled(value, pa.decimal128(MAX_DIGITS, 0)), _WIDE)


def _labelled(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns the same words with another precision and scale."""
    return pa.Array.from_buffers(type_, len(value), value.buffers(), value.null_count, value.offset)


def _wide(function: Callable[[Any, Any], pa.Array], left: pa.Array, right: Any) -> pa.Array:
    if isinstance(right, pa.Scalar):
        right = pa.scalar(right.as_py(), _FACTOR)
    else:
        right = _labelled(right, _OPERAND)
    return _labelled(function(_labelled(left, _OPERAND), right), _WIDE)


def _times(value: pa.Array, factor: Any) -> pa.Array:
    if isinstance(factor, pa.Scalar) and factor.as_py() == 1:
        return value
    return _wide(pc.multiply, value, factor)


def _number(value: int) -> pa.Scalar:
    return pa.scalar(decimal.Decimal(value), _WIDE)


def _power(exponent: int) -> pa.Scalar:
    return _number(10**exponent)
