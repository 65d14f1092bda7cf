"""Functions of the bits of integers, in two's complement of their type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.functions.function import function
from plans.expressions.literals import RESERVED

_SIGNS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_MASK = 2**64 - 1


def _known(value: Any) -> Any:
    """Returns integers, with NULL for the integer that is not a value of BIGINT here."""
    if value.type != pa.int64():
        return value
    return pc.if_else(pc.equal(value, pa.scalar(RESERVED, value.type)), pa.scalar(None, value.type), value)


def _kind(type_: pa.DataType) -> type[np.generic]:
    return np.int32 if type_ == pa.int32() else np.int64


def _wider(types: Sequence[str], values: Sequence[Any]) -> str:
    return "int64" if "int64" in types else "int32"


def _first(types: Sequence[str], values: Sequence[Any]) -> str:
    return types[0]


def _of_both(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda type_, left, right: _known(compute(pc.cast(left, type_), pc.cast(right, type_)))


def _shifted(left: bool, signed: bool, type_: pa.DataType, value: Any, count: Any) -> Any:
    """Returns the bits shifted by a count modulo the width of the type."""

    def shift(array: pa.Array, counts: pa.Array) -> pa.Array:
        width = type_.bit_width
        given = words(array, _kind(type_))
        given = given if signed else given.view(f"u{width // 8}")
        by = (words(counts, np.int32) & (width - 1)).astype(given.dtype)
        found = (given << by if left else given >> by).view(_kind(type_))
        valid = pc.if_else(pc.is_valid(array), counts, pa.scalar(None, counts.type))
        return _known(array_of(found, type_, valid))

    return on_arrays(shift, value, count)


def _count(type_: pa.DataType, value: Any) -> Any:
    def count(array: pa.Array) -> pa.Array:
        given = words(pc.cast(array, pa.int64()), np.int64).view(np.uint64)
        return array_of(np.bitwise_count(given).astype(np.int32), type_, array)

    return on_arrays(count, value)


def _bit(type_: pa.DataType, value: Any, position: Any) -> Any:
    """Returns one bit, counted from the lowest; NULL where the type has no such bit."""
    width = value.type.bit_width

    def bit(array: pa.Array, positions: pa.Array) -> pa.Array:
        at = words(positions, np.int32)
        inside = (at >= 0) & (at < width)
        found = (words(array, _kind(array.type)).astype(np.int64) >> np.where(inside, at, 0)) & 1
        valid = pc.if_else(pc.and_(pc.is_valid(array), pa.array(inside)), positions, pa.scalar(None, positions.type))
        return array_of(found.astype(np.int32), type_, valid)

    return on_arrays(bit, value, position)


TABLE = (
    *(
        function(
            name, "integer integer", _wider, _of_both(compute), hidden=True, sql=lambda a, s=sign: f"{a[0]} {s} {a[1]}"
        )
        for (name, sign), compute in zip(
            _SIGNS.items(), (pc.bit_wise_and, pc.bit_wise_or, pc.bit_wise_xor), strict=True
        )
    ),
    function(
        "bit_not",
        "integer",
        _first,
        lambda type_, value: _known(pc.bit_wise_not(value)),
        hidden=True,
        sql=lambda a: f"~ {a[0]}",
    ),
    function("shiftleft", "integer int32", _first, partial(_shifted, True, True), note="Also `<<`."),
    function("shiftright", "integer int32", _first, partial(_shifted, False, True), note="Also `>>`."),
    function("shiftrightunsigned", "integer int32", _first, partial(_shifted, False, False), note="Also `>>>`."),
    function("bit_count", "integer", "int32", _count, note="Counts the bits of the value in 64 bits."),
    function("getbit", "integer int32", "int32", _bit, also=("bit_get",), null="a position outside of the type"),
)
