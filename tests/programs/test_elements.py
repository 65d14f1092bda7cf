"""Subqueries over the elements of an array of the row, against DuckDB after every batch with deletes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import crown
from plans import PlanError, program
from tests.marks import every, seeds
from tests.programs.driver import Driver

SCHEMA = {
    "t": {"id": "int64", "a": "int64", "l": "array<int64>", "s": "array<struct<k:string,v:int64>>"},
    "u": {"x": "int64"},
}
VALUES = (
    "(SELECT SUM(x) FROM UNNEST(t.l) AS u(x))",
    "(SELECT SUM(x + t.a) FROM UNNEST(t.l) AS u(x) WHERE x > 0)",
    "(SELECT COUNT(*) FROM UNNEST(l) AS u(x))",
    "(SELECT COUNT(x) + COUNT(DISTINCT x) FROM UNNEST(l) AS u(x) WHERE x <> a)",
    "(SELECT MAX(x) - MIN(x) FROM UNNEST(l) AS u(x))",
    "(SELECT AVG(x) FROM UNNEST(l) AS u(x))",
    "(SELECT MEDIAN(x) FROM UNNEST(l) AS u(x))",
    "(SELECT SUM(x) FILTER (WHERE x > 1) FROM UNNEST(l) AS u(x))",
    "(SELECT SUM(e.v) FROM UNNEST(s) AS u(e) WHERE e.k = 'a')",
    "(SELECT MAX(x) FROM UNNEST(l) AS u(x)) IN (SELECT x FROM u)",
    "(SELECT LIST(x) FROM UNNEST(l) AS u(x) WHERE x > 0)",
    "(SELECT LIST_SORT(LIST(DISTINCT x), 'ASC', 'NULLS FIRST') FROM UNNEST(l) AS u(x))",
    "(SELECT STDDEV(x) FROM UNNEST(l) AS u(x))",
    "(SELECT PRODUCT(x) + MAD(x) FROM UNNEST(l) AS u(x))",
    "(SELECT APPROX_COUNT_DISTINCT(x) FROM UNNEST(l) AS u(x))",
    "a IN (SELECT SUM(x) FROM UNNEST(l) AS u(x))",
    "a NOT IN (SELECT x FROM UNNEST(l) AS u(x) ORDER BY x DESC LIMIT 1)",
    "ARRAY(SELECT SUM(x) FROM UNNEST(l) AS u(x))",
    "ARRAY(SELECT x * 2 FROM UNNEST(l) AS u(x) WHERE x > 0)",
    "EXISTS (SELECT 1 FROM UNNEST(l) AS u(x) WHERE x = a)",
    "a IN (SELECT x FROM UNNEST(l) AS u(x))",
    "a NOT IN (SELECT * FROM UNNEST(l))",
)
CONDITIONS = (
    "EXISTS (SELECT 1 FROM UNNEST(l) AS u(x) WHERE x = a)",
    "NOT EXISTS (SELECT * FROM UNNEST(s) AS u(e) WHERE e.v > a)",
    "a IN (SELECT x + 1 FROM UNNEST(l) AS u(x))",
    "a NOT IN (SELECT x FROM UNNEST(l) AS u(x))",
    "(SELECT BOOL_OR(x > a) FROM UNNEST(l) AS u(x))",
    "a = (SELECT COUNT(*) FROM UNNEST(l) AS u(x)) AND EXISTS (SELECT * FROM u WHERE u.x = t.a)",
)
QUERIES = [
    *(f"SELECT id, {value} AS v FROM t" for value in VALUES),
    *(f"SELECT id FROM t WHERE {condition}" for condition in CONDITIONS),
    "SELECT a, SUM((SELECT SUM(x) FROM UNNEST(l) AS u(x))) AS v FROM t GROUP BY a",
    "SELECT t.id, u.x FROM t LEFT JOIN u ON u.x = (SELECT MIN(y) FROM UNNEST(l) AS q(y))",
]


def _row(random: Random) -> tuple[Any, ...]:
    def some(*values: Any) -> Any:
        return random.choice([None, *values, *values])

    numbers = None if random.random() < 0.15 else tuple(some(0, 1, 2) for _ in range(random.randint(0, 3)))
    structs = (
        None if random.random() < 0.15 else tuple((some("a", "b"), some(0, 1)) for _ in range(random.randint(0, 2)))
    )
    return random.randint(0, 4), some(0, 1, 2), numbers, structs


@pytest.mark.parametrize("seed", seeds(1, 12))
@pytest.mark.parametrize("query", QUERIES)
def test_the_result_is_that_of_duckdb_after_every_batch(query: str, seed: int) -> None:
    random = Random(f"{seed} {query}")
    driver = Driver(query, program(query, SCHEMA, dialect="duckdb"), SCHEMA, exact=False)
    for number in range(4):
        changes: dict[str, Any] = {}
        for name, new in (("t", _row), ("u", lambda r: (r.randint(0, 2),))):
            there = list(driver.database.rows[name].elements())
            gone = random.sample(there, min(len(there), random.randint(0, 3)))
            changes[name] = [*((row, -1) for row in gone), *((new(random), 1) for _ in range(random.randint(0, 4)))]
        driver.step(changes, again=number == 2)
    driver.remove_everything()


@every([f"SELECT id, {value} AS v FROM t" for value in VALUES if "FROM u)" not in value])
def test_a_value_of_elements_has_no_stage_of_its_own(query: str) -> None:
    assert len(program(query, SCHEMA, dialect="duckdb").stages) == 1


ROW = {"id": 1, "a": 2, "l": [3, 1, None], "s": [{"k": "b", "v": 7}, {"k": "a", "v": 5}, {"k": "a", "v": 6}]}
OF_BIGQUERY: dict[str, Any] = {
    "(SELECT v FROM UNNEST(s) WHERE k = 'b')": 7,
    "(SELECT e.v FROM UNNEST(s) AS e WHERE e.k = 'b')": 7,
    "(SELECT v FROM UNNEST(s) WHERE k = 'a')": None,
    "(SELECT v FROM UNNEST(s) WHERE k = 'a' LIMIT 1)": 5,
    "(SELECT v FROM UNNEST(s) WHERE k = 'c')": None,
    "(SELECT STRING_AGG(k, '-') FROM UNNEST(s))": "b-a-a",
    "(SELECT LOGICAL_AND(v > t.a) FROM UNNEST(s))": True,
    "(SELECT COUNTIF(v > 5) FROM UNNEST(s))": 2,
    "ARRAY(SELECT v + 1 FROM UNNEST(s) ORDER BY v + 1 DESC)": [8, 7, 6],
    "ARRAY(SELECT x FROM UNNEST(l) AS x WITH OFFSET AS at WHERE at < 2)": [3, 1],
    "EXISTS (SELECT 1 FROM UNNEST(l) AS x WITH OFFSET AS at WHERE at = 1 AND x = 1)": True,
}


@every(OF_BIGQUERY)
def test_bigquery_picks_and_joins_elements(value: str) -> None:
    view = crown.view(f"SELECT {value} AS v FROM t", SCHEMA, dialect="bigquery")
    view.update({"t": [ROW]})
    assert [row["v"] for row in view] == [OF_BIGQUERY[value]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("(SELECT CORR(x, x) FROM UNNEST(l) AS x)", "CORR of the elements of an array is not supported"),
        ("ARRAY(SELECT v FROM UNNEST(s) ORDER BY k)", "this order of the elements of an array is not supported"),
        ("(SELECT SUM(x) FROM UNNEST(l) AS x LIMIT 0)", "this LIMIT of the elements of an array is not supported"),
        ("EXISTS (SELECT 1 FROM UNNEST(l) AS x LIMIT 0)", "this LIMIT of the elements of an array is not supported"),
        ("(SELECT STRING_AGG(k, k) FROM UNNEST(s))", "STRING_AGG of the elements of an array is not supported"),
        ("(SELECT x FROM UNNEST(l) AS x WHERE x IN (SELECT x FROM u))", "UNNEST without a table before it in FROM is "
         "not supported"),
    ],
)  # fmt: skip
def test_what_is_no_function_of_the_elements_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(f"SELECT id, {query} AS v FROM t", SCHEMA, dialect="bigquery")
    assert caught.value.message == message
    assert caught.value.position is not None
