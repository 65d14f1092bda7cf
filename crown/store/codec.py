"""Encodes Arrow values as the int64 codes that kernels read, and decodes them.

The code of an int64, int32, bool, date, timestamp, interval, or decimal of up to 18 digits is the value itself. The
code of a float64 is its bits, with one zero and one NaN, so that NaN equals NaN and -0.0 equals 0.0, as in SQL engines.
Strings, binary values, wider decimals and values with parts (``plans.expressions.columns.packed``) are stored in the
dictionary in the arena; a short value is its own code. NULL is the code -2^63 for every type. An integer or timestamp
of exactly that value cannot be distinguished from NULL and is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from crown.kernels.batches import extent
from crown.kernels.strings import NULL
from crown.store.arrow_buffers import Texts, bits, halves, texts, texts_of_pairs, texts_of_words, valid, words
from crown.store.display import shown
from plans.expressions.columns.arrays import float_words
from plans.expressions.columns.intervals import MixedError, counts, of_counts
from plans.expressions.columns.packed import ReservedError, packed, unpacked
from plans.nested import is_nested
from plans.schema import Column
from plans.types import arrow_type, in_a_word

_MOST_BYTES = 2**31  # bytes of an array with 32-bit offsets

Intern = Callable[[Texts, bool], np.ndarray]  # (texts without NULL, whether to add unknown ones) -> codes
Extern = Callable[[np.ndarray, str], pa.Array]  # (codes, type) -> array with NULLs


class UnencodableError(ValueError):
    """A value has no code. ``row`` is its position, ``reason`` the explanation."""

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(reason)


@cache
def uses_dictionary(kind: str) -> bool:
    """Returns True iff values of this type are stored in the dictionary."""
    return not in_a_word(kind)


def encode(array: pa.Array | np.ndarray, kind: str, intern: Intern, add: bool = True) -> np.ndarray:
    """Returns the codes (int64[n]) of an array of ``arrow_type(kind)``, or of its words if they are integers without
    NULL. O(n). Raises UnencodableError."""
    if isinstance(array, np.ndarray):
        return _whole(array, kind)
    if not array.null_count:
        return _encoder(kind)(array, intern, add)
    there = valid(array)
    codes = np.full(len(array), NULL, np.int64)
    if kind.startswith("decimal"):
        pairs = np.compress(there, halves(array), axis=0)
        rest = pa.Array.from_buffers(array.type, len(pairs), [None, pa.py_buffer(pairs)], 0)
    else:
        rest = array.drop_null()
    try:
        codes[there] = _encoder(kind)(rest, intern, add)
    except UnencodableError as error:
        raise UnencodableError(int(np.flatnonzero(there)[error.row]), error.reason) from None
    return codes


@cache
def _encoder(kind: str) -> Callable[[pa.Array, Intern, bool], np.ndarray]:
    """Returns the function that encodes arrays of a type without NULLs."""
    if is_nested(kind):
        return lambda array, intern, add: intern(_packed(array, kind), add)
    if uses_dictionary(kind):
        return lambda array, intern, add: intern(_as_texts(array), add)
    if kind.startswith("decimal"):
        return lambda array, intern, add: halves(array)[:, 0].copy()
    if kind == "float64":
        return lambda array, intern, add: float_words(words(array, np.float64))
    if kind == "bool":
        return lambda array, intern, add: words(array.cast(pa.int8()), np.int8).astype(np.int64)
    if kind in ("date", "int32"):
        return lambda array, intern, add: words(array, np.int32).astype(np.int64)
    if kind == "months":
        return lambda array, intern, add: _months(array)
    return lambda array, intern, add: _whole(words(array), kind)


def _whole(codes: np.ndarray, kind: str) -> np.ndarray:
    """Returns the words of integers as codes. Rejects the code of NULL."""
    if codes.dtype != np.int64:
        return codes.astype(np.int64)
    if len(codes) and extent(codes)[0] == NULL:
        reason = f"the {kind} value {NULL} is reserved for NULL; store it in a decimal or string column"
        raise UnencodableError(int(codes.argmin()), reason)
    return codes


def _months(array: pa.Array) -> np.ndarray:
    """Returns the months of intervals as codes. Rejects intervals that also have days."""
    try:
        return counts(array).astype(np.int64)
    except MixedError as error:
        raise UnencodableError(error.row, str(error)) from None


def _packed(array: pa.Array, kind: str) -> Texts:
    """Returns the bytes of values with parts."""
    try:
        found, ends = packed(array, kind)
    except ReservedError as error:
        raise UnencodableError(error.row, str(error)) from None
    return texts_of_words(found, ends)


def _as_texts(array: pa.Array) -> Texts:
    """Returns the bytes of an array's values: of a text its bytes, of a decimal its 16 bytes."""
    if pa.types.is_decimal(array.type):
        return texts_of_pairs(halves(array))
    if array.type in (pa.string(), pa.binary()):
        return texts(array)
    return texts(array.cast(pa.large_binary()), np.int64)


def no_texts(*given: object) -> Any:
    """Stands for a dictionary where values of a type have no texts."""
    raise AssertionError("values of this type are no texts")


def decode(codes: np.ndarray, kind: str, extern: Extern, nullable: bool = True) -> pa.Array:
    """Returns the Arrow array of ``arrow_type(kind)`` for codes (int64[n], contiguous). ``nullable``: some may be NULL.

    O(n). The array may share the buffer of the codes.
    """
    target, values = _decoder(kind)
    if values is None:
        return extern(codes, kind)
    n, validity, count = len(codes), None, 0
    if nullable and n and extent(codes)[0] == NULL:
        nulls = codes == NULL
        validity, count = bits(~nulls), int(np.count_nonzero(nulls))
    return pa.Array.from_buffers(target, n, [validity, values(codes)], count)


@cache
def _decoder(kind: str) -> tuple[pa.DataType, Callable[[np.ndarray], pa.Buffer] | None]:
    """Returns the Arrow type, and the function that makes the buffer of its values from codes, or None if the values
    are in the dictionary."""
    target = arrow_type(kind)
    if uses_dictionary(kind):
        return target, None
    if kind.startswith("decimal"):
        return target, lambda codes: pa.py_buffer(_pairs(codes))
    if kind == "bool":
        return target, lambda codes: bits(codes != 0)
    if kind in ("date", "int32"):
        return target, lambda codes: pa.py_buffer(codes.astype(np.int32))
    if kind == "months":
        return target, lambda codes: of_counts(codes.astype(np.int32)).buffers()[1]
    return target, pa.py_buffer


def _pairs(codes: np.ndarray) -> np.ndarray:
    """Returns integers as 128-bit decimals: low and high words, int64[n, 2]."""
    both = np.empty((len(codes), 2), np.int64)
    both[:, 0] = codes
    both[:, 1] = codes >> 63
    return both


def named_values(row: np.ndarray, columns: Sequence[Column], extern: Extern) -> dict[str, Any]:
    """Returns the values of a tuple (int64[columns], codes) by column name, for messages; not for hot paths."""
    return {
        column.name: shown(decode(row[i : i + 1].copy(), column.type, extern)[0]) for i, column in enumerate(columns)
    }


def of_bytes(valid: np.ndarray, offsets: np.ndarray, data: np.ndarray, kind: str) -> pa.Array:
    """Returns the array of a dictionary type from its bytes: ``data`` uint8, ``offsets`` int64[n+1], ``valid``
    bool[n]."""
    if is_nested(kind):
        return unpacked(data.view(np.int64), offsets[:-1] // 8, kind, valid)
    n, target = len(valid), arrow_type(kind)
    nulls = n - int(valid.sum())
    validity = bits(valid) if nulls else None
    if pa.types.is_decimal(target):
        rows = np.zeros((n, 16), np.uint8)
        rows[valid] = data.reshape(-1, 16)
        return pa.Array.from_buffers(target, n, [validity, pa.py_buffer(rows)], nulls)
    if len(data) >= _MOST_BYTES:
        large = pa.large_string() if pa.types.is_string(target) else pa.large_binary()
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(large, n, buffers, nulls).cast(target)
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(target, n, buffers, nulls)
