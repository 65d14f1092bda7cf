"""Aggregates over the ordered values of groups: ends, percentiles, joined texts, bits. Returns codes, one per group.

A reading is a function of the values and their copies, so recomputing it for an old state gives exactly the value that
was delivered before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from crown.kernels.strings import NULL
from crown.results.columns import Column
from crown.stages.groups import rounded
from crown.stages.groups.multisets import Multisets
from crown.stages.kernels.groups import heaps
from crown.stages.kernels.groups.multisets import TREE
from crown.store.codec import encode
from crown.store.dictionary import Dictionary
from plans.expressions.columns.packed import listed
from plans.nested import array_of
from plans.payloads.sums import ORDERED, Values
from plans.programs.stages import Aggregate
from plans.types import arrow_type

_LONGEST = 2**31 - 1


class Ordered(Protocol):
    """Multisets of ordered values, by their handles: those of groups (``multisets.Multisets``), or those of frames
    (``crown.stages.over.gathered``)."""

    def sizes(self, values: Values, handles: np.ndarray) -> np.ndarray:
        """Returns their numbers of values, with copies."""

    def values_at(self, values: Values, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions, from 0, with copies; NULL if there is none."""

    def in_order(self, values: Values, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the different values (codes) in order, their copies, and the offsets at which the values of each
        multiset begin and the last ones end."""


@dataclass(frozen=True)
class Reading:
    """An aggregate over ordered ``values``. ``falling``: reads them backwards. ``distinct``: reads each value once."""

    function: str
    values: Values
    type: str
    share: float | None = None
    separator: str | None = None
    falling: bool = False
    distinct: bool = False

    @property
    def kept(self) -> int:
        """Returns how the values must be stored: in a tree, or in the heap whose top is read."""
        return {"min": heaps.MINIMA, "max": heaps.MAXIMA}.get(self.function, TREE)

    def codes(self, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
        """Returns the codes, int64[groups]; NULL for a group without values."""
        return _READERS[self.function](self, multisets, handles, dictionary)


def reading(aggregate: Aggregate, values: Values | None, type_: str) -> Reading | None:
    """Returns the reading of an aggregate over values of a type, or None if it does not read ordered values."""
    if aggregate.function not in ORDERED or values is None:
        return None
    falling = not values.order and any(one.falling for one in aggregate.order[:1])
    return Reading(aggregate.function, values, type_, aggregate.share, aggregate.separator, falling, aggregate.distinct)


def _end(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns MIN and MAX."""
    assert isinstance(multisets, Multisets), "window functions find MIN and MAX by themselves"
    return multisets.end(one.values, handles, one.kept)


def _percentile(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the interpolated value at a share of the ordered values. O(log n) per group."""
    n, at = _way(one, multisets, handles)
    below, above = np.floor(at), np.ceil(at)
    low, high = (_doubles(one, multisets, handles, dictionary, position) for position in (below, above))
    with np.errstate(invalid="ignore"):
        between = (above - at) * low + (at - below) * high
    return rounded.float_codes(np.where((below == above) | (low == high), low, between), n == 0)


def _percentile_trunc(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the percentile of integers without its fraction, rounded once before. O(log n) per group."""
    n, at = _way(one, multisets, handles)
    below, above = np.floor(at).astype(np.int64), np.ceil(at).astype(np.int64)
    low, high = (multisets.values_at(one.values, handles, position) for position in (below, above))
    low, high = np.where(n == 0, 0, low), np.where(n == 0, 0, high)
    between = rounded.fused((high - low).astype(np.float64), at - below, low.astype(np.float64))
    found = np.where((below == above) | (low == high), low, between.astype(np.int64))
    return np.where(n == 0, NULL, found)


def _way(one: Reading, multisets: Ordered, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number of values of groups, and the fractional position at the share of the ordered values."""
    assert one.share is not None, "a percentile has a share"
    n = multisets.sizes(one.values, handles)
    return n, one.share * np.maximum(n - 1, 0)


def _at_least(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the first value such that at least the share of the values is not after it. O(log n) per group."""
    assert one.share is not None, "a percentile has a share"
    n = multisets.sizes(one.values, handles)
    at = np.maximum(np.ceil(one.share * n).astype(np.int64) - 1, 0)
    return multisets.values_at(one.values, handles, n - 1 - at if one.falling else at)


def _doubles(
    one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary, positions: np.ndarray
) -> np.ndarray:
    """Returns the values at positions as doubles, each rounded once; NaN if there is none."""
    codes = multisets.values_at(one.values, handles, positions.astype(np.int64))
    array = Column(one.type, dictionary, codes).array
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # the digits are parsed exactly
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64).copy()


def _elements(one: Reading, multisets: Ordered, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the result of ``Multisets.in_order`` in the order of the reading, and with ``distinct`` each value once.
    O(values)."""
    codes, copies, starts = multisets.in_order(one.values, handles)
    if one.falling:  # reverses every group
        ends = np.repeat(starts[:-1] + starts[1:] - 1, np.diff(starts))
        order = ends - np.arange(len(codes))
        codes, copies = codes[order], copies[order]
    return codes, np.ones_like(copies) if one.distinct else copies, starts


def _repeated(copies: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positions of the values of groups, each repeated by its copies, and the offsets of each group."""
    return np.repeat(np.arange(len(copies)), copies), np.concatenate([np.zeros(1, np.int64), np.cumsum(copies)])[starts]


def _joined(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the joined texts of each group. O(output)."""
    codes, copies, starts = _elements(one, multisets, handles)
    texts = Column(one.type, dictionary, codes).array
    assert one.separator is not None, "texts are joined by one"
    sizes = (pc.binary_length(texts).to_numpy(zero_copy_only=False) + len(one.separator.encode())) * copies
    if len(sizes) and (sizes.astype(np.float64).sum() > _LONGEST or copies.max() > _LONGEST):
        raise ChangeError("the texts that are joined in a batch would have more than 2^31 bytes")
    places, starts = _repeated(copies, starts)
    lists = pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), texts.take(pa.array(places)))
    made = pc.if_else(pa.array(np.diff(starts) > 0), pc.binary_join(lists, one.separator), None)
    return encode(made.cast(pa.string()), "string", dictionary.intern)


def _listed(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the values of each group as an array, an empty one for a group without values. O(output)."""
    codes, copies, starts = _elements(one, multisets, handles)
    if copies.astype(np.float64).sum() > _LONGEST:
        raise ChangeError("the arrays that a batch makes would have more than 2^31 elements")
    places, starts = _repeated(copies, starts)
    values = Column(one.type, dictionary, codes[places]).array
    type_ = array_of(one.type)
    lists = listed(np.diff(starts), values, arrow_type(type_), np.ones(len(handles), bool))
    return encode(lists, type_, dictionary.intern)


def _bits(one: Reading, multisets: Ordered, handles: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """Returns the bits that all, some or an odd number of values have. O(values)."""
    codes, copies, starts = _elements(one, multisets, handles)
    if one.function == "bit_xor":
        codes = np.where(copies % 2 == 1, codes, 0)
    there = np.diff(starts) > 0
    out = np.full(len(handles), NULL, np.int64)
    if there.any():
        out[there] = _FOLDS[one.function].reduceat(codes, starts[:-1][there])
    return out


_FOLDS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
_READERS: dict[str, Callable[[Reading, Ordered, np.ndarray, Dictionary], np.ndarray]] = {
    "min": _end,
    "max": _end,
    "percentile": _percentile,
    "percentile_trunc": _percentile_trunc,
    "percentile_disc": _at_least,
    "string_agg": _joined,
    "array_agg": _listed,
    **dict.fromkeys(_FOLDS, _bits),
}
