"""Stores the rows of a recursion with the counts that decide which of them are there."""

from __future__ import annotations

import numpy as np

from crown.stages.kernels import recursions as kernels
from crown.stages.tables.counted_tuples import CountedTuples
from crown.store.zset import Zset


class DerivedRows(CountedTuples):
    """Rows of ``width`` codes with the counts of ``crown.stages.kernels.recursions``."""

    def add_founded(self, derived: Zset, stamps: np.ndarray, before: np.ndarray) -> tuple[Zset, Zset]:
        """Adds the founded ones of some derivations, which are counted already, to the counts of their rows.

        ``stamps``: int64[n], the greatest stamp of the rows that each derivation reads. ``before``: what ``add``
        returned for them. Returns the founded ones, and those of them that were lost and whose rows have no founded
        derivation left, in which a row may be repeated. O(n).
        """
        keys, strides = self._keys(derived)
        chosen, lost = np.empty(len(derived), np.int64), np.empty(len(derived), np.int64)
        weights, stamps = np.ascontiguousarray(derived.weights), np.ascontiguousarray(stamps)
        m, left = kernels.count_founded(
            self._part.arena, self.table, strides, self.width, self.leaves, keys, stamps, weights, before, chosen, lost
        )
        return derived[chosen[:m]], derived[lost[:left]]

    def delete(self, rows: Zset) -> tuple[Zset, np.ndarray]:
        """Deletes those rows that are there. Returns them with their stamps as another column and the weight -1, and
        their founded derivations (int64[n]). A row may be repeated in ``rows``. O(n)."""
        out, (keys, strides) = np.empty((self.width + 2, len(rows)), np.int64), self._keys(rows)
        chosen = np.arange(len(rows), dtype=np.int64)
        n = kernels.delete(self._part.arena, self.table, strides, self.width, self.leaves, keys, chosen, out)
        return Zset.of_columns(out[:-1, :n], np.full(n, -1)), out[-1, :n]

    def insert(self, rows: Zset, wanted: int, stamp: int) -> tuple[Zset, np.ndarray]:
        """Inserts those rows that are not there, and whose count ``wanted`` is not 0, with a stamp.

        Returns them with it as another column and the weight 1, and their derivations (int64[n]), which are all founded
        then. A row may be repeated in ``rows``. O(n).
        """
        out, (keys, strides) = np.empty((self.width + 2, len(rows)), np.int64), self._keys(rows)
        chosen = np.arange(len(rows), dtype=np.int64)
        n = kernels.insert(self._part.arena, self.table, strides, self.width, keys, chosen, wanted, stamp, out)
        return Zset.of_columns(out[:-1, :n], np.ones(n, np.int64)), out[-1, :n]
