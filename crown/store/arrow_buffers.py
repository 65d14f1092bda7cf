"""Arrow arrays as NumPy arrays over their memory, and back, for types of a fixed width without NULLs.

``pa.array``, ``pa.scalar`` and ``Array.to_numpy`` load pandas where it is installed, which takes 50 MiB and 0.2 s of
the first batch. What every batch needs goes by the buffers instead, which costs less, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


def empty(n: int) -> np.ndarray:
    """Returns int64[n] in memory of Arrow's pool, with any values: an array of Arrow over it copies nothing, and memory
    that was given back is taken again, where the system would find new pages for it. O(1)."""
    return np.frombuffer(pa.allocate_buffer(8 * n), np.int64)


def words(array: pa.Array, dtype: Any = np.int64) -> np.ndarray:
    """Returns the values of an array without NULLs, in its memory: do not write there. ``dtype``: as wide. O(1)."""
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def halves(array: pa.Array) -> np.ndarray:
    """Returns low and high words of decimals of 128 bits, int64[n, 2], in their memory; NULLs have any. O(1)."""
    start, n = array.offset, len(array)
    if not n:
        return np.empty((0, 2), np.int64)
    return np.frombuffer(array.buffers()[1], np.int64)[2 * start : 2 * (start + n)].reshape(n, 2)


class Texts(NamedTuple):
    """Values of any number of bytes, as Arrow keeps them.

    ``data`` uint8; ``ends`` int32[n + 1] or int64[n + 1]: where in it each begins, and the one before it ends; ``rows``
    int64[k]: which of them are meant, if not all.
    """

    ends: np.ndarray
    data: np.ndarray
    rows: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Returns how many are meant."""
        return len(self.ends) - 1 if self.rows is None else len(self.rows)


def texts(array: pa.Array, width: Any = np.int32) -> Texts:
    """Returns the texts of an array, in its memory; NULLs have any. ``width``: of its offsets. O(1)."""
    if not len(array):
        return Texts(np.zeros(1, width), np.zeros(1, np.uint8))
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return Texts(ends, np.frombuffer(data or b"\0", np.uint8))


def encoded(values: Sequence[str]) -> Texts:
    """Returns texts that are written out in a program. O(bytes)."""
    data = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)]).astype(np.int32)
    ends.setflags(write=False)  # as offsets from Arrow are, for which kernels are compiled
    return Texts(ends, np.frombuffer(b"".join(data) or b"\0", np.uint8))


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the chunks of a column as one array. O(n) for several."""
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def strings(values: Sequence[str]) -> pa.Array:
    """Returns texts that are written out in a program as an array. O(bytes)."""
    ends, data, _ = encoded(values)
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def texts_of_pairs(pairs: np.ndarray, rows: np.ndarray | None = None) -> Texts:
    """Returns decimals of 128 bits (int64[n, 2], one after the other) as texts of 16 bytes; ``rows``: see ``Texts``.
    O(n)."""
    return texts_of_words(pairs.reshape(-1), np.arange(0, 2 * (len(pairs) + 1), 2))._replace(rows=rows)


def texts_of_words(words: np.ndarray, ends: np.ndarray) -> Texts:
    """Returns runs of words (int64[n]), of which each ends where the next one begins (``ends`` int64[runs + 1]), as
    texts. O(runs)."""
    data = words.view(np.uint8)
    data.setflags(write=False)  # as values from Arrow are, for which kernels are compiled
    return Texts(8 * ends, data)


def flags(array: pa.Array) -> np.ndarray:
    """Returns bool[n] for an array of booleans without NULLs. O(n)."""
    return _unpacked(array.buffers()[1], array.offset, len(array))


def valid(array: pa.Array) -> np.ndarray:
    """Returns bool[n]: where an array that has NULLs, but no array of nothing but the type NULL, has a value. O(n)."""
    return _unpacked(array.buffers()[0], array.offset, len(array))


def _unpacked(buffer: pa.Buffer, start: int, n: int) -> np.ndarray:
    """Returns ``n`` bits of a buffer from bit ``start`` on."""
    if not n:
        return np.empty(0, bool)
    packed = np.frombuffer(buffer, np.uint8)[start // 8 : (start + n + 7) // 8]
    found: np.ndarray = np.unpackbits(packed, bitorder="little")[start % 8 : start % 8 + n].view(bool)
    return found


def bits(flags: np.ndarray) -> pa.Buffer:
    """Returns bool[n] as Arrow keeps it, a bit each: a buffer of validity, say. O(n)."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def integers(values: np.ndarray, target: pa.DataType) -> pa.Array:
    """Returns an Arrow array over the buffer of an int32 or int64 array, of a type as wide. O(1)."""
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(values)], 0)


def booleans(flags: np.ndarray) -> pa.Array:
    """Returns bool[n] as an array. O(n)."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, bits(flags)], 0)
