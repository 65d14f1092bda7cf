"""Arithmetic on whole columns of integers and doubles, which never fails.

Integers that overflow are NULL, and so is a BIGINT of -2^63, which is the engine's code of NULL. Doubles follow IEEE
754. Division by zero gives NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns import decimals
from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.literals import RESERVED

_CHECKED = {"add": pc.add_checked, "sub": pc.subtract_checked, "mul": pc.multiply_checked}
_UNCHECKED = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply}
_EXACT = pa.decimal256(19, 0)


def binary(op: str, left: Any, right: Any, type_: pa.DataType) -> Any:
    """Returns `left op right` in `type_`; op is add, sub, mul, div or mod."""
    if pa.types.is_decimal(type_):
        return decimals.result(op, left, right, type_)
    left, right = pc.cast(left, type_), pc.cast(right, type_)
    if pa.types.is_floating(type_):
        return _on_doubles(op, left, right)
    if op == "mod":
        return _remainder(left, right)
    if type_ == pa.int32():
        wide = _UNCHECKED[op](pc.cast(left, pa.int64()), pc.cast(right, pa.int64()))
        return narrow(wide)
    try:
        found = _CHECKED[op](left, right)
        if pc.min(found).as_py() != RESERVED if isinstance(found, pa.Array) else found.as_py() != RESERVED:
            return found
    except pa.ArrowInvalid:  # some row overflows: it is found with 256 bits
        pass
    return in_range(_UNCHECKED[op](pc.cast(left, _EXACT), pc.cast(right, _EXACT)))


def negated(value: Any) -> Any:
    """Returns `- value`."""
    return pc.negate(_without_least(value))


def absolute(value: Any) -> Any:
    """Returns the absolute value."""
    return pc.abs(_without_least(value))


def in_range(exact: Any) -> Any:
    """Returns integers that are stored as decimals as BIGINT, NULL where they do not fit."""
    bound = pa.scalar(2**63, pa.decimal256(19, 0))
    fits = pc.and_(pc.less(exact, bound), pc.greater(exact, pc.negate(bound)))
    return pc.cast(pc.if_else(fits, exact, pa.scalar(None, exact.type)), pa.int64())


def narrow(value: Any) -> Any:
    """Returns BIGINT values as INT, NULL where they do not fit."""
    fits = pc.and_(pc.less(value, 2**31), pc.greater_equal(value, -(2**31)))
    return pc.cast(pc.if_else(fits, value, pa.scalar(None, pa.int64())), pa.int32())


def _on_doubles(op: str, left: Any, right: Any) -> Any:
    if op in _UNCHECKED:
        return _UNCHECKED[op](left, right)
    right = pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), right)
    return pc.divide(left, right) if op == "div" else on_arrays(_float_remainder, left, right)


def _float_remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """Returns C's fmod, which is exact and has the sign of the dividend, like Java's %."""
    with np.errstate(invalid="ignore"):
        rest = np.fmod(words(left, np.float64), words(right, np.float64))
    return pc.if_else(pc.is_valid(left), array_of(rest, pa.float64(), right), pa.scalar(None, pa.float64()))


def _remainder(left: Any, right: Any) -> Any:
    """Returns the remainder with the sign of the dividend."""
    right = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    safe = pc.if_else(pc.equal(right, -1), pa.scalar(1, right.type), right)  # x % -1 = 0; min / -1 would overflow
    return pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))


def _without_least(value: Any) -> Any:
    """Returns the values, with NULL for the integer whose negation is not in its type."""
    least = {pa.int32(): -(2**31), pa.int64(): RESERVED}.get(value.type)
    if least is None:
        return value
    return pc.if_else(pc.equal(value, pa.scalar(least, value.type)), pa.scalar(None, value.type), value)
