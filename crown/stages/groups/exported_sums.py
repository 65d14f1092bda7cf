"""Converts sums that are sent between cells from limbs to columns of digits, and back.

A cell sends the sums of its groups, `-old, +new`. The receiver sums them with these weights, so the total is exact to
the last bit. The far part of a sum of doubles, which most sums lack, is sent as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from crown.kernels.strings import NULL
from crown.results.columns import Column, Frame
from crown.stages.groups.aggregates import Totals
from crown.stages.groups.far import Far, FarSums
from crown.stages.groups.terms import Layout
from crown.stages.kernels.groups import sums
from crown.store.codec import encode
from crown.store.dictionary import Dictionary
from plans.payloads.carried import ExportedSum
from plans.payloads.sums import DIGIT, digits_of, term_of

_MASK = np.int64((1 << DIGIT) - 1)


def digits(words: np.ndarray) -> np.ndarray:
    """Returns the digits of integers (int64[n, limbs], two's complement), int64[digits, n], the lowest first.

    An integer is the sum of its digits times 2^(60 j). All but the highest are nonnegative.
    """
    n, limbs = words.shape
    if limbs == 1:
        return np.ascontiguousarray(words.T)
    out = np.empty((digits_of(limbs), n), np.int64)
    for j in range(len(out)):
        limb, bit = divmod(DIGIT * j, 64)
        found = words[:, limb] >> bit  # sign-extends
        if bit > 64 - DIGIT:
            low = words[:, limb].view(np.uint64) >> np.uint64(bit)
            above = words[:, limb + 1] if limb + 1 < limbs else words[:, limb] >> 63
            found = low.view(np.int64) | above << (64 - bit)
        out[j] = found if j == len(out) - 1 else found & _MASK
    return out


def limbs_from(found: Sequence[np.ndarray], limbs: int) -> np.ndarray:
    """Returns the integers with these digits (int64[n] each), int64[n, limbs]."""
    if limbs == 1:
        return np.ascontiguousarray(found[0]).reshape(-1, 1)
    out = np.zeros((len(found[0]), limbs), np.int64)
    for j, digit in enumerate(found):
        limb, bit = divmod(DIGIT * j, 64)
        out[:, limb] |= digit << bit
        if bit > 64 - DIGIT and limb + 1 < limbs:
            out[:, limb + 1] |= digit >> (64 - bit)
    return out


def bytes_of(far: FarSums | None, groups: int, dictionary: Dictionary) -> Column:
    """Returns the far parts of groups as a column of bytes, NULL for a group without one."""
    codes = np.full(groups, NULL, np.int64)
    if far is not None:
        having = far.groups()
        numbers = np.ascontiguousarray(far.numbers[far.of[having]])
        array = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(8 * numbers.shape[1]), len(numbers), [None, pa.py_buffer(numbers)]
        )
        codes[having] = encode(array.cast(pa.binary()), "binary", dictionary.intern)
    return Column("binary", dictionary, codes)


def exported_columns(exported: Sequence[ExportedSum], totals: Totals, dictionary: Dictionary) -> dict[str, Column]:
    """Returns the columns with the sums of groups."""
    made: dict[str, Column] = {}
    for one in exported:
        term = term_of(one)
        digit_columns = zip(one.columns, digits(totals.sum(term)), strict=True)
        made |= {name: Column("int64", dictionary, codes) for name, codes in digit_columns}
        if one.far is not None:
            made[one.far] = bytes_of(totals.far.sums.get(term), len(totals.rows), dictionary)
    return made


class ImportedSums:
    """Adds sums that events have in columns to the terms of a ``layout``."""

    def __init__(self, imported: Sequence[ExportedSum], layout: Layout) -> None:
        self._layout = layout
        self._imported = [(one, term_of(one)) for one in imported if term_of(one) in layout.at]

    def add(self, frame: Frame, weights: np.ndarray, where: np.ndarray, deltas: np.ndarray, far: Far) -> None:
        """Adds events, times ``weights``, to the states of their groups (``where`` int64[n]).

        ``deltas``: int64[groups, words]. ``far``: their far parts. O(events * words).
        """
        for one, term in self._imported:
            limbs, at = one.limbs, self._layout.at[term]
            values = limbs_from([frame[name].codes for name in one.columns], limbs)
            scratch = np.empty(limbs, np.int64)
            sums.accumulate(where, weights, values, limbs, scratch, deltas, self._layout.words, at, limbs)
            if one.far is not None:
                rows = (frame[one.far].codes != NULL).nonzero()[0]
                if len(rows):
                    numbers = _numbers(frame[one.far].array, rows, self._layout.far_limbs(term))
                    far.of(term).add(where[rows], weights[rows], numbers)


def _numbers(array: pa.Array, rows: np.ndarray, limbs: int) -> np.ndarray:
    """Returns the far parts at some rows of a column of ``bytes_of``, int64[rows, limbs]."""
    values = array.take(pa.array(rows)).cast(pa.binary(8 * limbs))
    data = np.frombuffer(values.buffers()[1], np.int64)
    return data[values.offset * limbs :][: len(rows) * limbs].reshape(len(rows), limbs)
