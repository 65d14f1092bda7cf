"""Broken queries of every kind: whatever happens to a text, the planner plans it or raises a PlanError."""

from __future__ import annotations

import logging
import random
import re

import pytest

from plans import Plan, PlanError, plan
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
