"""`window(at, size, slide, start)` and HOP in GROUP BY: the groups are those of all windows that each row is in."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest

import crown
from crown.errors import BadRowError
from tests.marks import every

SCHEMA = {"t": {"id": "int64", "at": "timestamp_ntz", "k": "int64", "x": "int64"}}
MINUTE = timedelta(minutes=1)
WINDOWS = {  # size, slide and start in minutes
    "window(at, '10 minutes')": (10, 10, 0),
    "window(at, '10 minutes', '5 minutes')": (10, 5, 0),
    "window(at, '10 minutes', '4 minutes', '3 minutes')": (10, 4, 3),
    "window(at, INTERVAL '1' HOUR, INTERVAL '1' HOUR, '15 minutes')": (60, 60, 15),
    "HOP(at, INTERVAL '7' MINUTE, INTERVAL '20' MINUTE)": (20, 7, 0),
}


def _starts(at: datetime, size: int, slide: int, start: int) -> list[datetime]:
    """The starts of all windows that a moment is in, one after the other."""
    first = datetime(1970, 1, 1) + start * MINUTE
    last = first + (at - first) // (slide * MINUTE) * slide * MINUTE
    starts = [last - step * slide * MINUTE for step in range(size // slide + 1)]
    return [one for one in starts if one <= at < one + size * MINUTE]


@every(WINDOWS.items())
def test_groups_are_those_of_the_windows_after_every_batch(call: str, lengths: tuple[int, int, int]) -> None:
    rng, size = random.Random(call), lengths[0]
    hop = call.startswith("HOP")
    start, end = ("HOP_START" + call[3:], "HOP_END" + call[3:]) if hop else ("window.start", "window.end")
    view = crown.view(
        f"SELECT k, {start} AS since, {end} AS till, COUNT(*) AS n, SUM(x) AS s FROM t WHERE x > 0 GROUP BY k, {call}",
        SCHEMA,
        dialect="flink" if hop else "spark",
    )
    rows: dict[int, dict[str, object]] = {}
    for batch in range(4):
        gone = [rows.pop(number) for number in rng.sample(sorted(rows), len(rows) // 2)]
        for number in range(8 * batch, 8 * batch + 8):
            at = datetime(1969, 12, 31, 22) + timedelta(seconds=rng.randrange(5 * 3600))
            at_or_none = rng.choice([at, at.replace(second=0), None] if number % 5 == 0 else [at, at.replace(second=0)])
            rows[number] = {"id": number, "at": at_or_none, "k": rng.choice([0, 1, None]), "x": rng.randrange(5)}
        added = [{**rows[number], "_weight": 1} for number in range(8 * batch, 8 * batch + 8)]
        view.apply({"t": [*added, *({**row, "_weight": -1} for row in gone)]})
        groups: dict[tuple[object, ...], list[int]] = {}
        for row in rows.values():
            if isinstance(row["at"], datetime) and isinstance(row["x"], int) and row["x"] > 0:
                for one in _starts(row["at"], *lengths):
                    groups.setdefault((row["k"], one, one + size * MINUTE), []).append(row["x"])
        wanted = Counter((*key, len(values), sum(values)) for key, values in groups.items())
        assert Counter(tuple(row.values()) for row in view) == wanted
        view.check_invariants()


def test_rows_without_groups_and_a_batch_that_is_rejected() -> None:
    view = crown.view(
        "SELECT id, window.start AS s FROM (SELECT id, window(at, '10 minutes', '5 minutes') FROM t)", SCHEMA
    )
    row = {"id": 1, "at": datetime(2026, 1, 1, 10, 3), "k": 1, "x": 1}
    assert view.apply({"t": [row, {**row, "at": None}]}).num_rows == 2
    with pytest.raises(BadRowError):
        view.apply({"t": [{**row, "_weight": -1}, {**row, "at": "no time"}]})
    assert [row["s"].minute for row in view] in ([0, 55], [55, 0])
    assert view.apply({"t": [{**row, "_weight": -1}]}).num_rows == 2
    assert view.count() == 0


def test_a_window_that_a_table_has_is_a_column_as_any_other() -> None:
    view = crown.view("SELECT window, COUNT(*) AS n FROM w GROUP BY window", {"w": {"window": "int64"}})
    assert view.apply({"w": [{"window": 5}]}).to_pylist() == [{"window": 5, "n": 1, "_weight": 1}]
