"""Spark's ``xxhash64`` over Arrow columns in NumPy, which computes the cell of a row without Spark.

``dispatch.shuffle`` hashes in the JVM. Code that moves rows between stopped cells must place them where later changes
of them will go, so the hashes here equal Spark's to the bit: the seed is 42, the hash of a column is the seed of the
next column, and a NULL leaves the seed unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.intervals import carried

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_LOW32 = np.uint64(0xFFFFFFFF)
_ONE_WORD = 18  # digits of a decimal that Spark keeps in a long


def xxhash64(columns: Sequence[pa.Array], rows: int, first: int | None = None) -> np.ndarray:
    """Returns Spark's hash of each row, int64[rows]. O(bytes).

    ``first``: an int that is hashed before the columns, as ``F.lit`` in front of them would be.
    """
    hashes = np.full(rows, SEED, np.uint64)
    if first is not None:
        hashes = _of_int(np.full(rows, first, np.int64), hashes)
    for column in columns:
        hashes = _hashed(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, hashes)
    return hashes.view(np.int64)


def bucket(hashes: np.ndarray, share: int) -> np.ndarray:
    """Returns ``pmod(hash, share)``, int64[n]."""
    return np.mod(hashes, np.int64(share))


def _hashed(column: pa.Array, seeds: np.ndarray) -> np.ndarray:
    if not column.null_count:
        return _of_valid(column, seeds)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    out = seeds.copy()
    out[valid] = _of_valid(column.drop_null(), seeds[valid])
    return out


def _of_valid(column: pa.Array, seeds: np.ndarray) -> np.ndarray:
    if pa.types.is_interval(column.type):
        column = carried(column, "months")
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return _of_int(column.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64), seeds)
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _of_long(column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64), seeds)
    if pa.types.is_float64(kind):
        values = column.to_numpy(zero_copy_only=False) + 0.0  # maps -0.0 to 0.0
        values[np.isnan(values)] = np.nan
        return _of_long(values.view(np.int64), seeds)
    if pa.types.is_decimal(kind):
        if kind.precision <= _ONE_WORD:
            return _of_long(_unscaled(column), seeds)
        column = pa.array([_big_endian(value.as_py(), kind.scale) for value in column], pa.large_binary())
    return _of_bytes(column.cast(pa.large_binary()), seeds)


def _unscaled(column: pa.Array) -> np.ndarray:
    """Returns the low words of decimals without NULLs."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    return np.ascontiguousarray(words[::2])


def _big_endian(value: object, scale: int) -> bytes:
    """Returns the unscaled value of a decimal as bytes, in the format of Java's ``BigInteger``."""
    whole = int(value.scaleb(scale))  # type: ignore[attr-defined]
    bits = (whole if whole >= 0 else ~whole).bit_length() + 1
    return whole.to_bytes((bits + 7) // 8, "big", signed=True)


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Applies the final mixing step to the hashes."""
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _of_int(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _mixed(_four(seeds + _P5 + np.uint64(4), values.view(np.uint64) & _LOW32))


def _of_long(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _mixed(_eight(seeds + _P5 + np.uint64(8), values.view(np.uint64)))


def _four(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ (words * _P1), 23) * _P2 + _P3


def _eight(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ (_rotated(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _of_bytes(column: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """Returns the hashes of byte strings. Strings of one length are hashed together, in a few steps per length."""
    out = np.empty(len(column), np.uint64)
    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    for length in np.unique(lengths).tolist():
        mine = np.flatnonzero(lengths == length)
        out[mine] = _of_length(data[starts[mine, None] + np.arange(length)], length, seeds[mine])
    return out


def _of_length(text: np.ndarray, length: int, seeds: np.ndarray) -> np.ndarray:
    """Returns the hashes of byte strings of one length, ``text`` uint8[n, length]."""
    whole = length // 8 * 8
    words = np.ascontiguousarray(text[:, :whole]).view("<u8")
    at = 0
    if length >= 32:
        hashes, at = _striped(words, seeds)
    else:
        hashes = seeds + _P5
    hashes = hashes + np.uint64(length)
    for i in range(at, words.shape[1]):
        hashes = _eight(hashes, words[:, i])
    at = whole
    if at + 4 <= length:
        hashes = _four(hashes, np.ascontiguousarray(text[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64))
        at += 4
    for i in range(at, length):
        hashes = _rotated(hashes ^ (text[:, i].astype(np.uint64) * _P5), 11) * _P1
    return _mixed(hashes)


def _striped(words: np.ndarray, seeds: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the hashes after all stripes of four words, and the number of words that they cover."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    stop = words.shape[1] // 4 * 4
    for i in range(0, stop, 4):
        lanes = [_rotated(lane + words[:, i + j] * _P2, 31) * _P1 for j, lane in enumerate(lanes)]
    hashes = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    return hashes, stop
