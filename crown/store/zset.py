"""Z-sets: tuples with weights, the form of every change between input and output.

One sign convention holds everywhere: a weight > 0 is the number of inserted copies, a weight < 0 that of deleted
copies. A net Z-set has no weight 0.

A tuple is a row of ``rows``, int64[n, width], in any memory layout. Kernels that look up or store tuples read them row
by row (``flat``). Kernels that enumerate write column by column, and so does Arrow (``columns``). Both layouts are
needed, so a Z-set keeps its rows in the memory in which they were made, and transposes them only when the other layout
is read. No other code transposes. Measured: hashing a tuple costs 5 to 50 ns in both layouts; transposing one costs 1
to 7 ns.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from crown.kernels.batches import extent, net_tuples
from crown.kernels.strings import NULL

SECRET = secrets.randbits(62)
"""The seed of the hashes that net a batch. No order depends on it."""
_FEW, _NARROW = 512, 4  # many narrow tuples are transposed column by column, in a quarter of NumPy's time


@dataclass(slots=True, eq=False)
class Zset:
    """Tuples of codes with weights. A Z-set that another part of the program may read is not changed.

    ``rows`` int64[n, width], in any memory layout. ``weights`` int64[n], not 0. ``payload``: None, or int64[words, n],
    what a tuple carries besides its weight, to be multiplied by ``sign``. A Z-set that a kernel filled may be a view of
    a reused buffer: ``copy`` it to keep it. ``nulls``: False if no code is NULL for sure. ``own``: True if its memory
    is never written to again, so that Arrow arrays may share it.
    """

    rows: np.ndarray
    weights: np.ndarray
    payload: np.ndarray | None = None
    sign: int = 1
    nulls: bool = True
    own: bool = False

    @classmethod
    def empty(cls, width: int) -> Zset:
        """Returns a Z-set without tuples."""
        return cls(np.empty((0, width), np.int64), np.empty(0, np.int64))

    @classmethod
    def of_columns(cls, columns: np.ndarray, weights: np.ndarray, payload: np.ndarray | None = None) -> Zset:
        """Returns the tuples with columns ``columns`` (int64[width, n]). O(1)."""
        return cls(columns.T, weights, payload)

    @classmethod
    def gathered(cls, parts: Sequence[Zset], width: int) -> Zset:
        """Returns the tuples of all ``parts``, in order. Either all parts with tuples carry payloads of one sign, or
        none does. If only one part has tuples, it is returned. O(tuples)."""
        parts = [part for part in parts if part.weights.size] or list(parts[:1])
        if len(parts) < 2:
            return parts[0] if parts else cls.empty(width)
        weights = np.concatenate([part.weights for part in parts])
        if parts[0].rows.flags.c_contiguous:
            rows = np.concatenate([part.rows for part in parts])
        else:
            rows = np.concatenate([part.rows.T for part in parts], axis=1).T
        assert len({part.sign for part in parts}) == 1, "payloads of one sign lie together"
        payload = None if parts[0].payload is None else np.concatenate([_payload(part) for part in parts], axis=1)
        return cls(rows, weights, payload, parts[0].sign)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, keep: slice | np.ndarray) -> Zset:
        """Returns the tuples that ``keep`` (bool[n], int64 positions, or a slice) selects."""
        if isinstance(keep, slice):
            payload = None if self.payload is None else self.payload[:, keep]
            return Zset(self.rows[keep], self.weights[keep], payload, self.sign, self.nulls, self.own)
        at = np.flatnonzero(keep) if keep.dtype == bool else keep  # NumPy takes positions five times as fast as masks
        rows = self.rows.take(at, axis=0) if self.rows.flags.c_contiguous else self.rows.T.take(at, axis=1).T
        payload = None if self.payload is None else self.payload.take(at, axis=1)
        return Zset(rows, self.weights.take(at), payload, self.sign, self.nulls, self.own)

    @property
    def width(self) -> int:
        """Returns the number of codes per tuple."""
        return self.rows.shape[1]

    def flat(self) -> np.ndarray:
        """Returns the tuples row by row, int64[n * width]. O(1) if they are stored so, else O(n)."""
        rows = self.rows
        if len(rows) < _FEW or self.width > _NARROW or rows.flags.c_contiguous:
            return np.ascontiguousarray(rows).reshape(-1)
        turned = np.empty(rows.shape, np.int64)
        for word in range(self.width):
            turned[:, word] = rows[:, word]
        return turned.reshape(-1)

    def words(self) -> np.ndarray:
        """Returns all codes, int64[n * width], in memory order. O(1) if they are contiguous, else O(n)."""
        return self.rows.ravel("K")

    def may_have_null(self) -> bool:
        """Returns True if a code is NULL, or if the code of NULL may be a value. O(codes), unless the answer is
        known."""
        return self.nulls and bool(self.rows.size) and int(extent(self.words())[0]) == NULL

    def columns(self) -> np.ndarray:
        """Returns the columns, int64[width, n], each contiguous. O(1) if they are stored so, else O(n)."""
        columns = self.rows.T
        return columns if columns.strides[1:] == (8,) else np.ascontiguousarray(columns)

    def project(self, words: Sequence[int]) -> Zset:
        """Returns the tuples with only the codes at these positions, in this order. Equal tuples are not merged."""
        if tuple(words) == tuple(range(self.width)):
            return self
        return Zset(np.ascontiguousarray(self.rows[:, list(words)]), self.weights, self.payload, self.sign, self.nulls)

    def copy(self) -> Zset:
        """Returns the same tuples in new memory, row by row."""
        rows = np.array(self.rows, order="C")
        return Zset(rows, self.weights.copy(), None if self.payload is None else self.payload.copy(), self.sign)

    def negated(self) -> Zset:
        """Returns the inverse: inserts become deletes, and deletes become inserts."""
        return Zset(
            self.rows, -self.weights, self.payload, self.sign if self.payload is None else -self.sign, self.nulls
        )

    def net(self, words: Sequence[int] | None = None) -> Zset:
        """Returns the net: each tuple once, none with weight 0, deletes before inserts. Expected O(n).

        ``words``: keep only the codes at these positions, in this order.
        """
        tuples = len(self.weights)
        if not tuples or (tuples == 1 and self.payload is None and self.weights[0]):
            return self if words is None else self.project(words)
        return self.netted(words)[0]

    def netted(self, words: Sequence[int] | None = None) -> tuple[Zset, int, np.ndarray]:
        """Returns the net as ``net`` does, its number of deletes, and int64[n]: for the first of equal tuples the sum
        of their weights, for the others 0."""
        assert self.payload is None, "payloads are netted where their meaning is known"
        rows = self.rows
        if not rows.flags.c_contiguous and rows.flags.f_contiguous:
            values, down, across = rows.T.reshape(-1), 1, len(rows)
        else:
            values, down, across = np.ascontiguousarray(rows).reshape(-1), rows.shape[1], 1
        places = _places(rows.shape[1]) if words is None else np.array(words, np.int64)
        width, sums = len(places), self.weights.copy()
        found, weights = np.empty(len(rows) * width, np.int64), np.empty(len(rows), np.int64)
        slots = np.full(max(8, 1 << (2 * len(rows) - 1).bit_length()), -1, np.int32)
        gone, n = net_tuples(values, down, across, places, sums, slots, SECRET, found, weights)
        return Zset(found[: n * width].reshape(n, width), weights[:n], nulls=self.nulls), gone, sums


def is_net(weights: np.ndarray) -> bool:
    """Returns True iff a batch with these weights (int64[n]) needs no netting: it has inserts only, or one delete."""
    n = len(weights)
    if n == 1:
        return bool(weights.item())
    return n == 0 or extent(weights)[0] > 0


@cache
def _places(width: int) -> np.ndarray:
    """Returns all positions of a tuple."""
    return np.arange(width, dtype=np.int64)


def _payload(part: Zset) -> np.ndarray:
    assert part.payload is not None, "all parts carry a payload, or none does"
    return part.payload
