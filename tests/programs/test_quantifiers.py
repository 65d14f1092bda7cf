"""Comparisons with ANY and ALL of a query or an array: TRUE, FALSE and NULL as in DuckDB, after every batch."""

from __future__ import annotations

from random import Random

import pytest

import crown
import plans
from plans.errors import PlanError
from tests.marks import every, seeds, turns
from tests.plans.lowering.program_queries import TABLES
from tests.programs.driver import Driver
from tests.programs.streamed import check
from tests.programs.test_single_values import batch_of

SIGNS = ("=", "<>", "<", "<=", ">", ">=")
QUANTIFIED = [f"{sign} {word}" for sign in SIGNS for word in ("ANY", "ALL")]
FURTHER = (
    "SELECT a FROM r WHERE NOT b < ALL (SELECT s.b FROM s WHERE s.c = 'p') AND a IS NOT NULL",
    "SELECT a FROM r WHERE b <= ALL (SELECT DISTINCT s.b FROM s WHERE s.b = r.a)",
    "SELECT a FROM r WHERE b > ANY (SELECT MAX(s.b) FROM s GROUP BY s.c) OR a = 1",
    "SELECT a FROM r WHERE b >= ALL (SELECT s.b FROM s UNION ALL SELECT a FROM r)",
    "SELECT a, SUM(b) AS n FROM r GROUP BY a HAVING SUM(b) > ALL (SELECT b FROM s)",
    "SELECT a, MAX(b) OVER (PARTITION BY a) >= ALL (SELECT b FROM s) AS v FROM r",
    "SELECT a, MAX(b) OVER (PARTITION BY a) > (SELECT COUNT(*) FROM s) AS v FROM r",
    "SELECT x.a FROM r x JOIN s ON x.b = s.b AND x.a <= ANY (SELECT a FROM u)",
    "SELECT CASE WHEN b < ALL (SELECT b FROM s) THEN a ELSE -1 END AS v FROM r",
)


def run(query: str, seed: int) -> None:
    random, driver = Random(seed), Driver(query, plans.program(query, TABLES, dialect="duckdb"), TABLES)
    for _ in turns(7, 12):
        changes = batch_of(random, driver.database)
        driver.step({name: changes[name] for name in driver.read})


@pytest.mark.parametrize("quantified", QUANTIFIED)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_a_comparison_with_a_query_is_the_one_of_duckdb(quantified: str, seed: int) -> None:
    run(f"SELECT a, b {quantified} (SELECT s.b FROM s WHERE s.b = 1 OR s.c = 'p') AS v FROM r", seed)
    run(f"SELECT a, b FROM r WHERE b {quantified} (SELECT b FROM s WHERE c = 'p')", seed)
    run(f"SELECT a, b FROM r WHERE b {quantified} (SELECT a FROM u WHERE u.a = r.a)", seed)


@pytest.mark.parametrize("query", FURTHER)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_a_comparison_may_be_anywhere(query: str, seed: int) -> None:
    run(query, seed)


@pytest.mark.parametrize("quantified", [*QUANTIFIED, "<> SOME"])
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_a_comparison_with_an_array_is_the_one_of_duckdb(quantified: str, seed: int) -> None:
    check("duckdb", f"SELECT id, a {quantified} (nums) AS v, NOT s {quantified} (tags) AS w FROM r", "", seed)
    check("duckdb", f"SELECT id FROM r WHERE b {quantified} (nums) OR NOT a + 1 {quantified} ([a, 1])", "", seed)
    check("duckdb", f"SELECT a, MAX(b) {quantified} ([a, 0]) AS v FROM r GROUP BY a", "", seed)


ARRAYS = (
    (1, 1, [2, 3], "abc", ["a%"]),
    (2, 1, [], "abc", []),
    (3, 1, [1, None], "abc", ["b", "%C"]),
    (4, 1, None, "x", None),
    (5, None, [], "x", [None]),
    (6, None, [1], "x", ["x", None]),
)
OF_POSTGRES = {
    "a < ALL (l)": [True, True, False, None, True, None],
    "a <> SOME (l)": [True, False, None, None, False, None],
    "a = ANY (l)": [False, False, True, None, False, None],
    "a <> ALL (l)": [True, True, False, None, True, None],
    "s LIKE ANY (p)": [True, False, False, None, None, True],
    "s ILIKE ANY (p)": [True, False, True, None, None, True],
    "s NOT LIKE ANY (p)": [False, False, True, None, None, None],
    "s NOT LIKE ALL (p)": [False, True, True, None, None, False],
    "a IN (VALUES (1), (2))": [True, True, True, True, None, None],
    "a = ANY (VALUES (1), (2))": [True, True, True, True, None, None],
    "a >= ALL (VALUES (1), (2))": [False, False, False, False, None, None],
}


@every(OF_POSTGRES)
def test_a_null_array_gives_null_in_postgres(value: str) -> None:
    schema = {"t": {"id": "int64", "a": "int64", "l": "array<int64>", "s": "string", "p": "array<string>"}}
    view = crown.view(f"SELECT id, {value} AS v FROM t", schema, dialect="postgres")
    view.apply({"t": list(ARRAYS)})
    assert [row["v"] for row in sorted(view, key=lambda row: row["id"])] == OF_POSTGRES[value]


def test_an_array_that_is_written_as_a_text_is_refused() -> None:
    with pytest.raises(PlanError, match=r"written as a text is not supported(.|\n)*write ARRAY\['a', 'b'\]"):
        crown.view("SELECT a FROM s WHERE c = ANY ('{p,q}')", TABLES, dialect="postgres")


@every(["b LIKE ALL (SELECT c FROM s)", "b > ALL (SELECT b, c FROM s)"])
def test_other_comparisons_are_refused(condition: str) -> None:
    with pytest.raises(PlanError, match=r"ALL is not supported(.|\n)*hint: write EXISTS"):
        plans.program(f"SELECT a FROM r WHERE {condition}", TABLES)
