"""Arrow's memory and NumPy's: what goes from one to the other and back is the same, also of slices."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from crown.store.arrow_buffers import bits, flags, halves, words

LENGTHS = [0, 1, 7, 8, 9, 64, 1000]


@pytest.mark.parametrize("n", LENGTHS)
def test_flags_and_bits_are_inverse_and_arrow_agrees(n: int) -> None:
    given = np.random.default_rng(n).random(n) < 0.5
    array = pa.Array.from_buffers(pa.bool_(), n, [None, bits(given)])
    array.validate(full=True)
    assert array.equals(pa.array(given, pa.bool_()))
    assert flags(array).tolist() == given.tolist()


@pytest.mark.parametrize("start", [0, 1, 7, 8, 13, 990, 1000])
def test_slices_are_read_from_where_they_begin(start: int) -> None:
    rng = np.random.default_rng(start)
    given, numbers = rng.random(1000) < 0.5, rng.integers(-(2**62), 2**62, 1000)
    assert flags(pa.array(given)[start:]).tolist() == given[start:].tolist()
    assert flags(pa.array(given)[start : start + 3]).tolist() == given[start : start + 3].tolist()
    assert words(pa.array(numbers)[start:]).tolist() == numbers[start:].tolist()
    narrow = numbers.astype(np.int32)
    assert words(pa.array(narrow)[start : start + 3], np.int32).tolist() == narrow[start : start + 3].tolist()


def test_bits_say_which_values_are_there() -> None:
    valid = np.arange(11) % 3 > 0
    array = pa.Array.from_buffers(pa.int64(), 11, [bits(valid), pa.py_buffer(np.arange(11))])
    array.validate(full=True)
    assert array.is_valid().to_pylist() == valid.tolist()
    assert array.null_count == 4


def test_values_are_not_copied_and_flags_are() -> None:
    numbers, marks = pa.array([1, 2, 3]), pa.array([True, False, True])
    assert np.shares_memory(words(numbers), np.frombuffer(numbers.buffers()[1], np.int64))
    flags(marks)[0] = False
    assert marks.to_pylist() == [True, False, True]


def test_halves_are_the_words_of_decimals_in_slices_too() -> None:
    given = [Decimal("1.25"), None, Decimal("-3.00"), Decimal("12345678901234567890.12")]
    array = pa.array(given, pa.decimal128(30, 2))
    for start in range(len(given) + 1):
        found = halves(array.slice(start))
        assert found.shape == (len(given) - start, 2)
        for (low, high), value in zip(found.tolist(), given[start:], strict=True):
            assert value is None or (high << 64) + (low % (1 << 64)) == int(value * 100)
