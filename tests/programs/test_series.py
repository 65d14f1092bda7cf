"""Series of constants beside a table, after inserts and deletes: engine = DuckDB."""

from __future__ import annotations

import datetime as dt
from random import Random

import pytest

import crown
from plans import PlanError, program
from tests.marks import every
from tests.programs.driver import Driver

TABLES = {"t": {"id": "int64", "day": "date", "at": "timestamp_ntz"}}
DAYS = "WITH RECURSIVE d AS (SELECT DATE '2024-01-30' AS day UNION ALL SELECT {} FROM d WHERE day < DATE '2024-02-03') "
COUNTED = "SELECT d.day, COUNT(t.id) AS n FROM d LEFT JOIN t ON t.day = d.day GROUP BY d.day"
ORACLE = DAYS.format("(day + INTERVAL 1 DAY)::DATE") + COUNTED
DUCKDB = (
    ORACLE,
    DAYS.format("day + INTERVAL 1 DAY") + COUNTED,
    "WITH RECURSIVE f(i, a, b) AS (SELECT 1, 0::BIGINT, 1::BIGINT UNION ALL SELECT i + 1, b, a + b FROM f AS g WHERE "
    "g.i < 20) SELECT id, f.b FROM f JOIN t ON t.id = f.a",
    "WITH RECURSIVE m(k) AS (SELECT 1 UNION SELECT (k * 2) % 7 FROM m) SELECT k, COUNT(id) AS n FROM m LEFT JOIN t ON "
    "t.id = m.k GROUP BY k",
    "WITH RECURSIVE v(a, b) AS (VALUES (1, 'x'), (3, NULL) UNION ALL SELECT a + 1, b || '!' FROM v WHERE "
    "length(b) < 3), w AS (SELECT * FROM v WHERE a > 1) SELECT w.*, t.day FROM w LEFT JOIN t ON t.id = w.a",
    "WITH RECURSIVE h AS (SELECT TIMESTAMP '2024-01-31 00:00:00' AS t, 0.5::DOUBLE AS x UNION ALL SELECT t + INTERVAL "
    "6 HOUR, x + 0.5 FROM h WHERE t < TIMESTAMP '2024-02-01') SELECT h.t, h.x, COUNT(id) AS n FROM h LEFT JOIN t ON "
    "t.at >= h.t AND t.at < h.t + INTERVAL 6 HOUR GROUP BY ALL",
    "WITH RECURSIVE plain AS (SELECT id FROM t) SELECT * FROM plain",
)
OTHERS = (
    ("tsql", "WITH d AS (SELECT CAST('2024-01-30' AS DATE) AS day UNION ALL SELECT DATEADD(day, 1, day) FROM d WHERE "
     "day < '2024-02-03') " + COUNTED),
    ("mysql", DAYS.format("DATE_ADD(day, INTERVAL 1 DAY)") + COUNTED),
    ("bigquery", DAYS.format("DATE_ADD(day, INTERVAL 1 DAY)") + COUNTED),
    ("spark", DAYS.format("date_add(day, 1)") + COUNTED),
    ("postgres", DAYS.format("day + 1") + COUNTED),
    ("snowflake", "WITH d AS (SELECT DATEADD(day, SEQ4(), '2024-01-30'::date) AS day FROM TABLE(GENERATOR(ROWCOUNT => "
     "5))) " + COUNTED),
    ("snowflake", "WITH d AS (SELECT DATEADD(day, ROW_NUMBER() OVER (ORDER BY NULL) - 1, '2024-01-30'::date) AS day "
     "FROM TABLE(GENERATOR(ROWCOUNT => 5)) AS g) " + COUNTED),
)  # fmt: skip
REFUSED = {
    "SELECT 1 AS n UNION ALL SELECT n + 1 FROM r": "more than 10000 rows, or does not end",
    "SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9 LIMIT 3": "r reads itself under a LIMIT",
    "SELECT 1 AS n UNION ALL SELECT MAX(n) FROM r": "r reads itself in a query that is more than a join",
    "SELECT 1 AS n UNION ALL SELECT n + 1, 2 FROM r WHERE n < 3": "this has 2 columns, but r has 1",
    "SELECT 1 AS n UNION ALL SELECT m + 1 FROM r WHERE n < 3": "unknown column m",
    "SELECT 1 AS n UNION ALL SELECT n * 1.5 FROM r WHERE n < 3": "has the type .* here and int32 before",
    "SELECT 1 AS n UNION ALL SELECT 'a' FROM r WHERE n < 3": "column n has the type string here and int32 before",
}


def _streamed(query: str, oracle: str, dialect: str) -> None:
    random = Random(query)
    driver = Driver(oracle, program(query, TABLES, dialect=dialect), TABLES)
    for step in range(4):
        there = list(driver.database.rows["t"].elements())
        gone = [(row, -1) for row in random.sample(there, len(there) // 2)]
        days = [
            dt.datetime(2024, 1, 29, random.randrange(24)) + dt.timedelta(days=random.randrange(6)) for _ in range(8)
        ]
        new = [((random.randrange(8), random.choice([None, day.date()]), day), 1) for day in days]
        driver.step({"t": [*gone, *new]}, again=step == 2)
    driver.remove_everything()


@pytest.mark.parametrize("query", DUCKDB)
def test_a_series_beside_a_table_is_that_of_duckdb(query: str) -> None:
    _streamed(query, query, "duckdb")


@every(OTHERS)
def test_series_of_other_dialects_are_those_of_duckdb(dialect: str, query: str) -> None:
    _streamed(query, ORACLE, dialect)


@every(REFUSED.items())
def test_what_is_no_recursion_or_has_no_end_is_rejected(body: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        crown.view(f"WITH RECURSIVE r AS ({body}) SELECT r.n FROM r JOIN t ON t.id = r.n", TABLES, dialect="duckdb")


def test_explain_shortens_the_rows_of_a_series() -> None:
    text = crown.view(ORACLE.replace("2024-02-03", "2026-01-01"), TABLES, dialect="duckdb").explain()
    assert '\'[{"c0":"2024-01-30"}' in text
    assert len(text) < 5_000
