"""Converts between Arrow arrays and NumPy arrays over the same memory, for fixed-width types without NULLs.

``pa.array``, ``pa.scalar`` and ``Array.to_numpy`` load pandas if it is installed, which costs the first batch 50 MiB
and 0.2 s. Every batch reads the buffers instead, which is also cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


def empty(n: int) -> np.ndarray:
    """Returns an uninitialized int64[n] in memory of Arrow's pool. An Arrow array over it copies nothing, and the pool
    reuses freed memory, where the system would find new pages. O(1)."""
    return np.frombuffer(pa.allocate_buffer(8 * n), np.int64)


def words(array: pa.Array, dtype: Any = np.int64) -> np.ndarray:
    """Returns the values of an array without NULLs, in its memory, which must not be written to. ``dtype``: of the same
    width. O(1)."""
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def halves(array: pa.Array) -> np.ndarray:
    """Returns the low and high words of 128-bit decimals, int64[n, 2], in their memory; those of NULLs are undefined.
    O(1)."""
    start, n = array.offset, len(array)
    if not n:
        return np.empty((0, 2), np.int64)
    return np.frombuffer(array.buffers()[1], np.int64)[2 * start : 2 * (start + n)].reshape(n, 2)


class Texts(NamedTuple):
    """Byte values of any length, in Arrow's layout.

    ``data``: uint8. ``ends``: int32[n + 1] or int64[n + 1], the offsets in ``data`` at which the values begin and end.
    ``rows``: int64[k], the selected values, or None for all.
    """

    ends: np.ndarray
    data: np.ndarray
    rows: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Returns the number of selected values."""
        return len(self.ends) - 1 if self.rows is None else len(self.rows)


def texts(array: pa.Array, width: Any = np.int32) -> Texts:
    """Returns the texts of an array, in its memory; those of NULLs are undefined. ``width``: the dtype of its offsets.
    O(1)."""
    if not len(array):
        return Texts(np.zeros(1, width), np.zeros(1, np.uint8))
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return Texts(ends, np.frombuffer(data or b"\0", np.uint8))


def encoded(values: Sequence[str]) -> Texts:
    """Returns constant strings as texts. O(bytes)."""
    data = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)]).astype(np.int32)
    ends.setflags(write=False)  # like offsets from Arrow, for which kernels are compiled
    return Texts(ends, np.frombuffer(b"".join(data) or b"\0", np.uint8))


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the chunks of a column as one array. O(n) for several."""
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def strings(values: Sequence[str]) -> pa.Array:
    """Returns constant strings as an Arrow array. O(bytes)."""
    ends, data, _ = encoded(values)
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def texts_of_pairs(pairs: np.ndarray, rows: np.ndarray | None = None) -> Texts:
    """Returns 128-bit decimals (int64[n, 2], contiguous) as texts of 16 bytes. ``rows``: see ``Texts``. O(n)."""
    return texts_of_words(pairs.reshape(-1), np.arange(0, 2 * (len(pairs) + 1), 2))._replace(rows=rows)


def texts_of_words(words: np.ndarray, ends: np.ndarray) -> Texts:
    """Returns runs of words (int64[n]) as texts. ``ends`` int64[runs + 1]: where runs begin and end. O(runs)."""
    data = words.view(np.uint8)
    data.setflags(write=False)  # like values from Arrow, for which kernels are compiled
    return Texts(8 * ends, data)


def flags(array: pa.Array) -> np.ndarray:
    """Returns an array of booleans without NULLs as bool[n]. O(n)."""
    return _unpacked(array.buffers()[1], array.offset, len(array))


def valid(array: pa.Array) -> np.ndarray:
    """Returns bool[n], True where the array has a value. The array has NULLs and is not of Arrow's type null. O(n)."""
    return _unpacked(array.buffers()[0], array.offset, len(array))


def _unpacked(buffer: pa.Buffer, start: int, n: int) -> np.ndarray:
    """Returns ``n`` bits of a buffer, beginning at bit ``start``."""
    if not n:
        return np.empty(0, bool)
    packed = np.frombuffer(buffer, np.uint8)[start // 8 : (start + n + 7) // 8]
    found: np.ndarray = np.unpackbits(packed, bitorder="little")[start % 8 : start % 8 + n].view(bool)
    return found


def bits(flags: np.ndarray) -> pa.Buffer:
    """Returns bool[n] as an Arrow bitmap, such as a validity buffer. O(n)."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def integers(values: np.ndarray, target: pa.DataType) -> pa.Array:
    """Returns an Arrow array of type ``target`` over the buffer of an int32 or int64 array of the same width. O(1)."""
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(values)], 0)


def booleans(flags: np.ndarray) -> pa.Array:
    """Returns bool[n] as an Arrow array. O(n)."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, bits(flags)], 0)
