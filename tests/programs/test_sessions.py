"""Sessions after every batch: crown = DuckDB, which finds them with window functions."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
import plans
from plans.errors import PlanError
from plans.schema import Column, Table
from plans.search.cells.cuts import by_output
from tests.marks import every, seeds, turns
from tests.oracles.database import Row
from tests.programs.driver import Driver

CLICKS = {"clicks": {"user": "int64", "at": "timestamp_ntz", "x": "int64"}}
TABLES = {"t": Table("t", (Column("k", "string"), Column("ts", "timestamp_ntz"), Column("x", "int64")))}
NOON = datetime(2024, 2, 29, 12)

_MARKED = """
(SELECT *, SUM(o) OVER (KEY ORDER BY ts RANGE UNBOUNDED PRECEDING) AS g FROM
(SELECT *, CASE WHEN ts <= LAG(ts) OVER (KEY ORDER BY ts) + INTERVAL 10 SECOND THEN 0 ELSE 1 END AS o
FROM t WHERE ts IS NOT NULL) m) q
"""
"""What DuckDB has: `o` is 1 in the first row of a session, so the running sum `g` is its number."""
KEYED, ALL = _MARKED.replace("KEY", "PARTITION BY k"), _MARKED.replace("KEY", "")

GROUPED = [
    (
        """
        SELECT k, SESSION_START(ts, INTERVAL '10' SECOND) AS s, SESSION_END(ts, INTERVAL '10' SECOND) AS e,
        COUNT(*) AS n, SUM(x) AS x FROM t GROUP BY k, SESSION(ts, INTERVAL '10' SECOND)
        """,
        f"""
        SELECT k, MIN(ts) AS s, MAX(ts) + INTERVAL 10 SECOND AS e, COUNT(*) AS n, SUM(x) AS x FROM {KEYED} GROUP BY k, g
        """,
    ),
    (
        """
        SELECT session_window.end AS e, MAX(k) AS m FROM t
        GROUP BY session_window(ts, '10 seconds') HAVING COUNT(*) > 1
        """,
        f"SELECT MAX(ts) + INTERVAL 10 SECOND AS e, MAX(k) AS m FROM {ALL} GROUP BY g HAVING COUNT(*) > 1",
    ),
    (
        "SELECT k, session_window AS w, COUNT(*) AS n FROM t GROUP BY k, session_window(ts, '10 seconds')",
        f"SELECT k, {{'start': MIN(ts), 'end': MAX(ts) + INTERVAL 10 SECOND}} AS w, COUNT(*) AS n FROM {KEYED} "
        "GROUP BY k, g",
    ),
    (
        "SELECT UPPER(k) AS u, SESSION(ts, '10 seconds') AS s FROM t WHERE x > 0 GROUP BY k, SESSION(ts, '10 seconds')",
        f"SELECT UPPER(k) AS u, MIN(ts) AS s FROM {KEYED.replace('NULL)', 'NULL AND x > 0)')} GROUP BY k, g",
    ),
    (
        "SELECT q.k, q.ts, q.window_start AS s, q.window_end AS e FROM SESSION(t, k, ts, '10 seconds') q",
        f"""
        SELECT k, ts, MIN(ts) OVER (PARTITION BY k, g) AS s, MAX(ts) OVER (PARTITION BY k, g) + INTERVAL 10 SECOND AS e
        FROM {KEYED}
        """,
    ),
    (
        """
        WITH v AS (SELECT ts, x + 1 AS y FROM t) SELECT window_start AS s, SUM(y) AS y
        FROM TABLE(SESSION(TABLE v, DESCRIPTOR(ts), INTERVAL '10' SECONDS)) GROUP BY window_start
        """,
        f"SELECT MIN(ts) AS s, SUM(x + 1) AS y FROM {ALL} GROUP BY g",
    ),
]


@pytest.mark.parametrize("number", range(len(GROUPED)))
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_random_streams_have_the_sessions_that_duckdb_finds(number: int, seed: int, tmp_path: Path) -> None:
    random, (query, oracle) = Random(seed), GROUPED[number]
    driver = Driver(oracle, plans.program(query, TABLES), TABLES)
    for turn in turns(7, 10):
        there = list(driver.database.rows["t"].elements())
        gone = random.sample(there, len(there) // random.choice([2, 3, 5]))
        batch: list[tuple[Row, int]] = [(row, -1) for row in gone]
        for _ in range(random.randrange(9)):
            at = random.choice([None, *(NOON + timedelta(seconds=random.choice([5, 10, 1]) * i) for i in range(12))])
            row = (random.choice(["a", "b", None]), at, random.choice([1, 2, -5, None]))
            batch.append((row, random.choice([1, 1, 1, 2])))
        driver.step({"t": batch}, again=turn % 3 == 0, saved=tmp_path / "state" if turn == 6 else None)
    driver.remove_everything()


def moments(*seconds: int, user: int = 1) -> list[tuple[int, datetime, int]]:
    return [(user, NOON + timedelta(seconds=second), 1) for second in seconds]


def test_a_row_closes_a_gap_and_opens_it_again() -> None:
    query = (
        "SELECT SESSION_END(at, '10 seconds') AS e, COUNT(*) AS n FROM clicks GROUP BY user, SESSION(at, '10 seconds')"
    )
    view = crown.view(query, CLICKS)
    view.update({"clicks": moments(0, 10, 21)})
    told = view.apply({"clicks": moments(15)}).to_pylist()
    assert sorted((row["n"], row["_weight"]) for row in told) == [(1, -1), (2, -1), (4, 1)]
    (user, at, x), *_ = moments(15)
    told = view.apply({"clicks": [{"user": user, "at": at, "x": x, "_weight": -1}]}).to_pylist()
    assert sorted((row["n"], row["_weight"]) for row in told) == [(1, 1), (2, 1), (4, -1)]


def test_a_row_behind_all_others_costs_the_logarithm_and_a_late_one_the_session_that_it_moves() -> None:
    query = "SELECT user, SUM(x) AS s FROM clicks GROUP BY user, SESSION(at, '10 seconds')"
    for n in (1_000, 8_000, 32_000):
        view = crown.view(query, CLICKS)
        view.update({"clicks": moments(*range(0, 5 * n, 5))})  # one session
        before = _steps(view)
        for second in range(5 * n, 5 * n + 500, 5):
            assert len(view.apply({"clicks": moments(second)})) == 2
        assert _steps(view) - before <= 100 * (40 * math.log2(n) + 100)
        before = _steps(view)
        assert len(view.apply({"clicks": moments(-5)})) == 2
        assert n < _steps(view) - before <= 20 * n


def _steps(view: crown.View) -> int:
    return sum(stage.get("steps", 0) for stage in view.stats()["stages"])


def test_the_ways_to_write_it_are_one_plan() -> None:
    def stages(text: str) -> Any:
        return plans.program(text, CLICKS).stages

    flink = "TABLE(SESSION(TABLE clicks PARTITION BY user, DESCRIPTOR(at), INTERVAL '10' MINUTES))"
    one = stages("SELECT * FROM SESSION(clicks, user, at, '10 minutes')")
    assert one == stages(f"SELECT * FROM {flink}") == stages(f"SELECT * FROM {flink.replace('user,', '(user),')}")
    grouped = "SELECT {}, COUNT(*) AS n FROM clicks GROUP BY user, {}"
    one = stages(grouped.format("SESSION_START(at, '1 minute') AS s", "SESSION(at, INTERVAL '1' MINUTE)"))
    assert one == stages(grouped.format("session_window.start AS s", "session_window(at, '1 minute')"))
    inline = "session_window(at, '1 minute')"
    assert one == stages(grouped.format(f"{inline}.start AS s", inline))


def test_explain_says_that_sessions_are_kept_and_what_they_cost() -> None:
    said = str(plans.program("SELECT COUNT(*) AS n FROM clicks GROUP BY user, SESSION(at, '90 minutes')", CLICKS))
    assert "SESSION_START(at, 90 minutes)" in said
    assert "and the rows of a session that others join, or leave" in " ".join(said.split())


def test_sessions_are_cut_by_their_keys() -> None:
    cut = by_output(
        plans.program("SELECT user, COUNT(*) AS n FROM clicks GROUP BY user, SESSION(at, '1 hour')", CLICKS)
    )
    assert cut is not None
    assert cut.name == "user"


def test_session_is_a_name_where_no_session_is_meant() -> None:
    view = crown.view("SELECT session, COUNT(*) AS n FROM r GROUP BY session", {"r": {"session": "int64"}})
    assert view.apply({"r": [(3,)]}).to_pylist() == [{"session": 3, "n": 1, "_weight": 1}]
    view = crown.view(
        "SELECT session_window, COUNT(*) AS n FROM r GROUP BY session_window", {"r": {"session_window": "int64"}}
    )
    assert view.apply({"r": [(3,)]}).to_pylist() == [{"session_window": 3, "n": 1, "_weight": 1}]


@every(
    [
        ("SELECT SESSION_START(at, '1 minute') AS s FROM clicks", "SESSION_START needs a session in GROUP BY"),
        (
            "SELECT user, SESSION_END(at, '1 minute') AS s FROM clicks GROUP BY user",
            "SESSION_END needs a session in GROUP BY",
        ),
        (
            "SELECT SESSION_END(at, '1 minute') AS s FROM clicks GROUP BY SESSION(at, '2 minutes')",
            "SESSION_END uses another session than GROUP BY",
        ),
        (
            "SELECT COUNT(*) AS n FROM clicks GROUP BY SESSION(at, '1 minute'), SESSION(at, '2 minutes')",
            "GROUP BY has two sessions",
        ),
        (
            "SELECT COUNT(*) AS n FROM clicks GROUP BY CUBE (user, SESSION(at, '1 minute'))",
            "a session in GROUPING SETS, ROLLUP or CUBE is not supported",
        ),
        ("SELECT COUNT(*) AS n FROM clicks GROUP BY SESSION(x, '1 minute')", "SESSION takes a timestamp, not int64"),
        (
            "SELECT COUNT(*) AS n FROM clicks GROUP BY SESSION(at)",
            "SESSION takes a timestamp and a gap, not 1",
        ),
        ("SELECT COUNT(*) AS n FROM clicks GROUP BY SESSION(at, '1 month')", "SESSION takes the length of a window"),
        (
            "SELECT * FROM SESSION(clicks, '1 minute')",
            "SESSION in FROM takes a table, the columns of its keys, a",
        ),
        ("SELECT * FROM SESSION(clicks, x, '1 minute')", "SESSION takes a timestamp, not int64"),
        (
            "SELECT session_window.middle AS w FROM clicks GROUP BY session_window(at, '1 minute')",
            "session_window has only start and end, not MIDDLE",
        ),
        (
            "SELECT MAX_BY(user, x) AS m FROM clicks GROUP BY SESSION(at, '1 minute')",
            "MAX_BY of a session is not supported",
        ),
    ]
)
def test_what_is_no_session_is_refused(text: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        plans.program(text, CLICKS)
    assert said in str(caught.value)
