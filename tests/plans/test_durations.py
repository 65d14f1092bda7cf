"""Lengths of time: what is shown of one is read back as that length, in the largest unit that has it whole."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans.time import durations


@given(st.integers(1, 10**6), st.sampled_from([1, 1000, 10**6, 60 * 10**6, 3600 * 10**6, 24 * 3600 * 10**6]))
def test_what_is_shown_is_read_back(count: int, unit: int) -> None:
    text = durations.shown(count * unit)
    assert durations.microseconds(text) == count * unit
    assert int(text.split()[0]) <= count


@pytest.mark.parametrize(
    ("length", "text"),
    [(1, "1 microsecond"), (5000, "5 milliseconds"), (1000, "1 millisecond"), (90 * 60 * 10**6, "90 minutes")],
)
def test_it_is_shown_in_its_largest_unit(length: int, text: str) -> None:
    assert durations.shown(length) == text


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ("1 hour 30 minutes", 5400 * 10**6),
        ("1.5 s", 1_500_000),
        ("INTERVAL '2' DAYS", 2 * 24 * 3600 * 10**6),
        (dt.timedelta(weeks=1, microseconds=1), 7 * 24 * 3600 * 10**6 + 1),
        ("1 month", None),
        ("0.5 us", None),
        ("", None),
        (5, None),
    ],
)
def test_lengths_are_read_as_people_write_them(given: object, length: int | None) -> None:
    assert durations.microseconds(given) == length
