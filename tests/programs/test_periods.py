"""OVERLAPS by PostgreSQL's rule, for all combinations of ends, and JULIANDAY by SQLite."""

from __future__ import annotations

import datetime as dt
import sqlite3
from itertools import product
from random import Random

import pytest

import crown

ENDS = {
    "columns": {"id": "int64", "a": "timestamp_ntz", "b": "timestamp_ntz", "c": "timestamp_ntz", "d": "timestamp_ntz"}
}
TIMES = [None, *(dt.datetime(2026, 1, day) for day in range(1, 5))]
ROWS = [(number, *ends) for number, ends in enumerate(product(TIMES, repeat=4))]
QUERY = "SELECT id, (a, b) OVERLAPS (c, d) AS o FROM t"


def _period(one: dt.datetime | None, other: dt.datetime | None) -> tuple[dt.datetime | None, dt.datetime | None]:
    if one is None or other is None:
        return one or other, None
    return min(one, other), max(one, other)


def overlaps(a: object, b: object, c: object, d: object) -> bool | None:
    """``overlaps_timestamp`` of PostgreSQL, step by step."""
    (one, one_end), (two, two_end) = sorted(map(_period, (a, c), (b, d)), key=lambda p: (p[0] is not None, p[0]))  # type: ignore[arg-type]
    if one is None or two is None:
        return None
    if one == two:
        return None if one_end is None or two_end is None else True
    if one_end is None:
        return None
    if two < one_end:
        return True
    return None if two_end is None else False


def test_periods_overlap_by_the_rule_of_postgresql() -> None:
    view = crown.view(QUERY, schema={"t": ENDS}, dialect="postgres")
    there = crown.view("SELECT id FROM t WHERE NOT (a, b) OVERLAPS (c, d)", schema={"t": ENDS}, dialect="postgres")
    random, held = Random(3), set[int]()
    for _ in range(4):
        batch = {number for number in range(len(ROWS)) if random.random() < 0.5}
        changes = {"t": [(*ROWS[number], -1 if number in held else 1) for number in batch]}
        rows = [dict(zip(("id", "a", "b", "c", "d", "_weight"), row, strict=True)) for row in changes["t"]]
        view.apply({"t": rows})
        there.apply({"t": rows})
        held ^= batch
        expected = {number: overlaps(*ROWS[number][1:]) for number in held}
        assert {row["id"]: row["o"] for row in view} == expected
        assert {row["id"] for row in there} == {number for number, found in expected.items() if found is False}


def test_a_period_may_have_a_length() -> None:
    lasting = "SELECT id, (a, INTERVAL '2' DAY) OVERLAPS (DATE '2026-01-03', DATE '2026-01-09') AS o FROM t"
    view = crown.view(lasting, schema={"t": ENDS}, dialect="postgres")
    view.update({"t": [(day, dt.datetime(2026, 1, day), None, None, None) for day in range(1, 5)]})
    assert {row["id"]: row["o"] for row in view} == {1: False, 2: True, 3: True, 4: True}


@pytest.mark.parametrize("given", ["a OVERLAPS b", "(a, b, c) OVERLAPS (c, d)"])
def test_what_is_no_period_is_refused(given: str) -> None:
    with pytest.raises(crown.PlanError, match="OVERLAPS compares two periods") as refused:
        crown.view(f"SELECT {given} AS o FROM t", schema={"t": ENDS}, dialect="postgres")
    assert refused.value.hint == "write (start, end) OVERLAPS (start, end)"


def test_julianday_is_that_of_sqlite() -> None:
    random = Random(4)
    days = [dt.datetime(1, 1, 1) + dt.timedelta(milliseconds=random.randrange(3 * 10**14)) for _ in range(300)]
    schema = {"t": {"id": "int64", "at": "timestamp_ntz", "d": "date"}}
    view = crown.view("SELECT id, JULIANDAY(t.at) AS x, JULIANDAY(d) AS y FROM t", schema, dialect="sqlite")
    view.update({"t": [(number, at, at.date()) for number, at in enumerate(days)] + [(-1, None, None)]})
    sqlite = sqlite3.connect(":memory:")
    found = {row["id"]: (row["x"], row["y"]) for row in view}
    for number, at in enumerate(days):
        given = at.isoformat(" ", "milliseconds"), at.date().isoformat()
        assert found[number] == sqlite.execute("SELECT julianday(?), julianday(?)", given).fetchone()
    assert found[-1] == (None, None)
