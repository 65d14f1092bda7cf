"""Rounds exact integers to result columns: SUM, AVG, VAR, COVAR, CORR, REGR."""

from __future__ import annotations

from functools import cache

import numpy as np

from crown.kernels.batches import extent
from crown.kernels.strings import NULL
from crown.stages.groups.terms import product
from crown.stages.kernels.groups import rounding, sums
from crown.store.arrow_buffers import texts_of_pairs
from crown.store.codec import Intern

_NAN = np.float64("nan")
_HALF = 1 << 31


def limbs(value: int, n: int) -> np.ndarray:
    """Returns a Python integer as int64[1, n]."""
    data = (value % (1 << 64 * n)).to_bytes(8 * n, "little")
    return np.frombuffer(data, np.int64).reshape(1, n)


def widened(rows: np.ndarray, n: int) -> np.ndarray:
    """Returns integers (int64[rows, m], m <= n) with ``n`` limbs."""
    m = rows.shape[1]
    if m == n:
        return rows
    sign = rows[:, -1:] >> 63
    return np.concatenate([rows, np.broadcast_to(sign, (len(rows), n - m))], axis=1)


def minus(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the differences of integers, with the limbs of the longer ones, in which they MUST fit."""
    n = max(left.shape[1], right.shape[1])
    out, other = widened(left, n).copy(), widened(right, n).copy()
    sums.subtract(out, other, n)
    return out


def scaled(rows: np.ndarray, factor: int) -> np.ndarray:
    """Returns integers times a factor > 0."""
    if factor == 1 or not len(rows):
        return rows
    if rows.shape[1] == 1 and factor < _HALF:
        low, high = extent(np.ascontiguousarray(rows).reshape(-1))
        if low > -_HALF and high < _HALF:  # the products fit in a word
            return rows * factor
    n = factor.bit_length() // 64 + 1
    return product(rows, np.ascontiguousarray(np.broadcast_to(limbs(factor, n), (len(rows), n))))


def ratio(rows: np.ndarray, divisors: np.ndarray, shift: int = 0) -> np.ndarray:
    """Returns float64[n]: the quotients of integers, times 2^-shift, rounded once. NaN where a divisor is not > 0."""
    rows, shift = _without_zeros(rows, shift)
    rows, divisors = np.ascontiguousarray(rows), np.ascontiguousarray(divisors)
    m, k = rows.shape[1], divisors.shape[1]
    out = np.empty(len(rows), np.float64)
    rounding.ratios(rows, m, divisors, k, shift, np.empty(3 * (max(m, k) + 1), np.int64), out)
    return out


_LONG = 16  # limbs from which removing redundant limbs pays


def _without_zeros(rows: np.ndarray, shift: int) -> tuple[np.ndarray, int]:
    """Returns integers without common redundant limbs: low zero limbs, and high limbs that repeat the sign. Also
    returns the shift corrected by the removed low limbs."""
    n = rows.shape[1]
    if n < _LONG or not len(rows):
        return rows, shift
    there = rows.any(axis=0)
    first = int(there.argmax()) if there.any() else n - 1
    signs = (rows[:, first + 1 :] == rows[:, first:-1] >> 63).all(axis=0)  # a limb that only repeats the sign
    last = n - int((~signs[::-1]).argmax()) if len(signs) and not signs.all() else first + 1
    return rows[:, first:last], shift - 64 * first


def float_codes(values: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Returns the codes of doubles: one zero, one NaN, and NULL where ``null`` (bool[n]) is True."""
    values = values + 0.0
    values[np.isnan(values)] = _NAN
    codes = values.view(np.int64)
    codes[null] = NULL
    return codes


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Returns a · b + c for doubles, rounded once: the rounding errors of product and sum (Dekker, Knuth) are added
    again."""
    product, total = a * b, a * b + c
    (a0, a1), (b0, b1) = _split(a), _split(b)
    lost = a1 * b1 - (((product - a0 * b0) - a1 * b0) - a0 * b1)
    added = total - product
    return np.asarray(total + ((product - (total - added)) + (c - added) + lost))


def _split(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the upper and the lower half of the digits of doubles."""
    far = value * 134217729.0  # 2^27 + 1
    upper = far - (far - value)
    return upper, value - upper


def decimals(rows: np.ndarray, null: np.ndarray, digits: int, intern: Intern | None) -> tuple[np.ndarray, int]:
    """Returns integers as codes of decimals of ``digits`` digits, and the first row with more digits, or -1.

    ``intern`` adds two-word decimals to the dictionary; None if one word is the code. Adds nothing if a row has too
    many digits.
    """
    rows, n = np.ascontiguousarray(rows), len(rows)
    pairs = np.empty((n, 2), np.int64)
    refused = int(rounding.pairs(rows, rows.shape[1], _bounds(digits), pairs))
    some = np.count_nonzero(null)
    if refused >= 0 or intern is None:
        return np.where(null, NULL, pairs[:, 0]), refused
    there = (~null).nonzero()[0] if some else None
    found = intern(texts_of_pairs(pairs, there), True)
    if there is None:
        return found, refused
    codes = np.full(n, NULL, np.int64)
    codes[there] = found
    return codes, refused


@cache
def _bounds(digits: int) -> np.ndarray:
    """Returns the least positive and the greatest negative integer with too many digits, two limbs each, int64[4]."""
    return np.concatenate([limbs(10**digits, 2), limbs(-(10**digits), 2)]).reshape(-1)
