"""TPC-H: which of the 22 queries have a program, and that those programs have DuckDB's rows."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from functools import cache

from plans import program
from tests.marks import every
from tests.oracles import duck
from tests.oracles.database import Database, Row
from tests.plans.expressions.evaluator import results
from tests.plans.tpch import QUERIES, TABLES, database

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


def answer(number: int, tables: Database) -> Counter[Row]:
    """Returns DuckDB's rows; AVG of the decimals of TPC-H has six digits behind the point, as in Spark."""
    return duck.results(re.sub(r"(AVG\(\w+\))", r"CAST(\1 AS DECIMAL(38, 6))", QUERIES[number]), tables)


@every(sorted(QUERIES))
def test_a_query_has_the_rows_of_duckdb(number: int) -> None:
    made = program(QUERIES[number], TABLES)
    for seed in SEEDS:
        assert rounded(results(made, tables(seed))) == rounded(answer(number, tables(seed))), f"seed {seed}"


def test_most_queries_have_an_answer_on_these_tables() -> None:
    answered = [n for n, query in QUERIES.items() if any(duck.results(query, tables(seed)) for seed in SEEDS)]
    assert len(answered) >= 18
