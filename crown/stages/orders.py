"""Describes orders of rows for kernels: which words of a row are compared, how, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.kernels.strings import NULL
from crown.stages.kernels.trees import orders
from crown.store.codec import uses_dictionary
from plans.programs.frames import Order
from plans.schema import Column
from plans.types import decimal_parts

_BITS = np.int64(2**63 - 1)


def order_of(type_: str) -> int:
    """Returns the constant with which kernels compare values of a type."""
    if type_ == "float64":
        return orders.BY_FLOAT
    if not uses_dictionary(type_):
        return orders.BY_WORD
    return orders.BY_BYTES if decimal_parts(type_) is None else orders.BY_DECIMAL


def order_words(columns: Sequence[Column], order: Sequence[Order], keys: Sequence[int] = ()) -> np.ndarray:
    """Returns an order of rows for kernels (see ``crown.stages.kernels.trees.ordered``): the columns of ``order``, then
    every other column except the ``keys``, ascending, NULLs first."""
    place = {column.name: i for i, column in enumerate(columns)}
    sorted_by = [(place[key.column], key.falling, key.nulls_last) for key in order]
    listed = {*keys, *(position for position, _, _ in sorted_by)}
    sorted_by += [(position, False, False) for position in range(len(columns)) if position not in listed]
    words = [[position, order_of(columns[position].type), falling, last] for position, falling, last in sorted_by]
    return np.array(words, np.int64).reshape(-1)


def ordered(codes: np.ndarray, type_: str, descending: bool) -> np.ndarray:
    """Returns integers in the same order as the values of numbers of one word, dates and times."""
    keys = codes ^ ((codes >> 63) & _BITS) if order_of(type_) == orders.BY_FLOAT else codes
    return ~keys if descending else keys


def extremum_keys(codes: np.ndarray, type_: str, function: str) -> np.ndarray:
    """Returns unsigned words that are the greater the closer a value is to the result of MIN or MAX; 0 for NULL."""
    keys = ordered(codes, type_, False)
    return np.where(codes == NULL, 0, (-keys if function == "min" else keys) ^ NULL)


def codes_of_extremum_keys(words: np.ndarray, type_: str, function: str) -> np.ndarray:
    """Returns the codes of the values with these ``extremum_keys``."""
    keys = words ^ NULL
    return np.where(words == 0, NULL, ordered(-keys if function == "min" else keys, type_, False))
