"""TPC-H: which of the 22 queries have a program, and that those programs have DuckDB's rows."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import cache

import pytest

from plans import PlanError, program
from tests.oracles import duck
from tests.oracles.database import Database, Row
from tests.plans.evaluator import results
from tests.plans.tpch import QUERIES, TABLES, database

REFUSED = {11: "decimal(36,2) and decimal(38,6) together need 40 digits"}
SEEDS = range(4)


@cache
def tables(seed: int) -> Database:
    return database(seed, 14)


def rounded(rows: Counter[Row]) -> Counter[Row]:
    """Numbers to six digits: a quotient of decimals has Spark's type, which is not DuckDB's."""
    out: Counter[Row] = Counter()
    for row, copies in rows.items():
        out[tuple(f"{float(v):.6g}" if isinstance(v, (int, float, Decimal)) else v for v in row)] += copies
    return out


@pytest.mark.parametrize("number", sorted(QUERIES.keys() - REFUSED.keys()))
def test_a_query_has_the_rows_of_duckdb(number: int) -> None:
    made = program(QUERIES[number], TABLES)
    for seed in SEEDS:
        expected = duck.results(QUERIES[number], tables(seed))
        assert rounded(results(made, tables(seed))) == rounded(expected), f"seed {seed}"


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_the_others_are_refused_with_a_reason(number: int) -> None:
    with pytest.raises(PlanError, match="decimal") as caught:
        program(QUERIES[number], TABLES)
    assert REFUSED[number] in str(caught.value)
    assert caught.value.position is not None


def test_query_11_is_maintained_once_its_decimals_fit() -> None:
    query = QUERIES[11].replace("HAVING SUM(ps_supplycost * ps_availqty)", "HAVING CAST(SUM({}) AS DECIMAL(28,2))")
    query = query.replace(
        "SELECT SUM(ps_supplycost * ps_availqty) * 0.0001", "SELECT CAST(SUM({}) * 0.0001 AS DECIMAL(32,6))"
    )
    query = query.replace("{}", "ps_supplycost * ps_availqty")
    made = program(query, TABLES)
    for seed in SEEDS:
        assert rounded(results(made, tables(seed))) == rounded(duck.results(query, tables(seed)))


def test_most_queries_have_an_answer_on_these_tables() -> None:
    answered = [n for n, query in QUERIES.items() if any(duck.results(query, tables(seed)) for seed in SEEDS)]
    assert len(answered) >= 18
