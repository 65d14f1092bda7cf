"""Broken queries of every kind: whatever happens to a text, the planner plans it or raises a PlanError."""

from __future__ import annotations

import logging
import random
import re

import duckdb
import pytest

import crown
from plans import Plan, PlanError, plan
from tests.oracles import duck
from tests.oracles.database import Database, canonical
from tests.plans import limits, test_execution
from tests.plans.catalogue import CASES, SCHEMA

_PAGE = limits.PAGE.read_text(encoding="utf-8")
SEEDS: list[tuple[str, object]] = [
    *((case.query, SCHEMA) for case in CASES),
    *((query, limits.schema(_PAGE)) for query, _ in limits.entries(_PAGE)),
    *((query, test_execution.TABLES) for query in test_execution.SQL.values()),
]
_WORDS = """
NOT IN ( ) , = < > <=> AND OR NULL 'x' '' 1 1.5 . 1e9 src dst x.src G * DISTINCT LIKE BETWEEN CASE WHEN THEN END IS
EXISTS SELECT FROM WHERE JOIN ON USING CAST AS INT - + / || DATE INTERVAL TRUE ; :: [ ] { } -> -[]-> :- _ "q" `b` ? :p
@v % ANY ALL OVER COUNT(*) LEFT SEMI /* -- \\ é
"""
WORDS = _WORDS.split()


def _mutant(text: str, rng: random.Random) -> str:
    tokens = re.findall(r"\s+|\w+|[^\w\s]", text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, dice = rng.randrange(len(tokens)), rng.random()
        if dice < 0.35 and len(tokens) > 1:
            del tokens[at]
        elif dice < 0.75:
            tokens.insert(at, f" {rng.choice(WORDS)} ")
        else:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens)


def test_a_mutant_that_is_planned_means_what_duckdb_takes_it_for() -> None:
    rng, done = random.Random(5), 0
    database = Database(test_execution.TABLES)
    for _ in range(12):
        database.apply(test_execution._batch(database, rng))
    queries = [query for query in test_execution.SQL.values() if "/" not in query]
    while done < 60:
        query = _mutant(rng.choice(queries), rng)
        if "/" in query or "\\" in query:  # x / 0 is NULL here; a backslash is an escape in Spark's strings only
            continue
        try:
            made = plan(query, test_execution.TABLES)
            expected = set(duck.results(query, database))
        except (PlanError, duckdb.Error):
            continue
        view = crown.view(made)
        used = {table.name for table in made.tables}
        view.apply({name: table for name in used for table in [database.arrow(name)]})
        rows = [row for part in view.results() for row in zip(*(c.to_pylist() for c in part.columns), strict=True)]
        assert sorted(canonical(rows), key=repr) == sorted(expected, key=repr), query
        done += 1


@pytest.mark.parametrize("seed", range(4))
def test_a_broken_query_is_a_plan_error(seed: int) -> None:
    logging.disable(logging.WARNING)  # sqlglot warns of statements that it only passes through
    rng, planned = random.Random(seed), 0
    try:
        for _ in range(600):
            query, schema = rng.choice(SEEDS)
            try:
                made = plan(_mutant(query, rng), schema)
            except PlanError as error:
                str(error)
            else:
                planned += 1
                assert Plan.from_json(made.to_json()) == made
    finally:
        logging.disable(logging.NOTSET)
    assert planned
