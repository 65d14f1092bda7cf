"""Columns that are constants: in subqueries that are read twice, and as keys of groupings that leave them out."""

from __future__ import annotations

from random import Random

import pytest

import plans
from tests.oracles.database import Row
from tests.programs.driver import Driver

SCHEMA = {"r": {"a": "int64"}, "s": {"b": "int64"}}
TWICE = "WITH x AS (SELECT DISTINCT a AS c, 7 AS k FROM r) "
SIDES = "(SELECT DISTINCT a AS x, 1 AS k FROM r) AS t {} JOIN (SELECT DISTINCT b AS y, 1 AS k, 'z' AS z FROM s) AS u "
GROUPED = "FROM (SELECT a AS x, 0 AS y FROM r) AS t GROUP BY "
QUERIES = (
    TWICE + "SELECT p.c, q.k FROM x AS p JOIN x AS q ON p.k = q.k",
    TWICE + "SELECT p.c, q.k + 7 AS d, 7 AS e FROM x AS p LEFT JOIN x AS q ON p.c = q.c + 1 AND q.k = 7",
    TWICE + "SELECT p.c, (SELECT COUNT(*) + 7 FROM x AS q WHERE q.k = p.k) AS n FROM x AS p",
    TWICE + "SELECT p.c FROM x AS p WHERE EXISTS (SELECT 1 FROM (SELECT DISTINCT b, 7 FROM s) AS q WHERE q.b = p.c)",
    *(f"SELECT x, t.k, y, u.k AS l, z FROM {SIDES.format(join)} ON t.k = u.k AND x = y" for join in ("", "FULL")),
    "SELECT x, y, 0 AS z, COUNT(*) + 0 AS n " + GROUPED + "ROLLUP(x, y)",
    "SELECT x + 0 AS x, y, MAX(0) AS m, SUM(x + 0) AS s " + GROUPED + "CUBE(x, y)",
    "SELECT y, COUNT(*) + 0 AS n " + GROUPED + "GROUPING SETS ((y), ())",
)


@pytest.mark.parametrize("query", QUERIES)
def test_the_result_is_that_of_duckdb(query: str) -> None:
    random, program = Random(3), plans.program(query, SCHEMA)
    driver = Driver(query, program, {table.name: SCHEMA[table.name] for table in program.tables})
    for turn in range(6):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // 3)
            come = [(random.choice([None, 0, 1, 2, 7]),) for _ in range(random.randrange(4))]
            batch[name] = [*((old, -1) for old in gone), *((new, 1) for new in come)]
        driver.step(batch, again=turn == 2)
