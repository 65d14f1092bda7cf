"""Programs of stages, evaluated by definition, have the rows that DuckDB computes: no engine is needed to see it."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest

from plans import Program, program
from tests.oracles import duck
from tests.oracles.database import Database, Row
from tests.plans.evaluator import results
from tests.plans.program_queries import QUERIES, TABLES

NUMBERS = (0, 1, 2, 3, None)
LETTERS = ("p", "q", None)


def database(seed: int) -> Database:
    """Returns small tables with NULLs and duplicates; some of them are empty."""
    rng = random.Random(seed)
    made = Database(TABLES)
    sizes = [rng.choice((0, 1, 3, 6, 9)) if seed % 3 else 0 if rng.random() < 0.5 else 5 for _ in range(4)]
    rows: dict[str, list[tuple[Row, int]]] = {
        "r": [((rng.choice(NUMBERS), rng.choice(NUMBERS)), rng.choice((1, 1, 2))) for _ in range(sizes[0])],
        "s": [((rng.choice(NUMBERS), rng.choice(LETTERS)), rng.choice((1, 1, 3))) for _ in range(sizes[1])],
        "t": [
            ((k, rng.choice(NUMBERS), rng.choice((Decimal("1.50"), Decimal("-0.25"), None))), 1)
            for k in rng.sample(range(5), min(5, sizes[2]))
        ],
        "u": [((rng.choice(NUMBERS), rng.choice((0.5, 1.0, 2.0, -1.25, None))), 1) for _ in range(sizes[3])],
    }
    made.apply(rows)
    return made


def rounded(rows: Counter[Row]) -> Counter[Row]:
    """Floats to nine digits, so that the order of additions does not show."""
    out: Counter[Row] = Counter()
    for row, copies in rows.items():
        out[tuple(float(f"{v:.9g}") + 0.0 if isinstance(v, float) else v for v in row)] += copies
    return out


DATABASES = [database(seed) for seed in range(12)]


@pytest.mark.parametrize("query", QUERIES)
def test_a_program_has_the_rows_of_its_query(query: str) -> None:
    made = program(query, TABLES)
    assert Program.from_json(made.to_json()) == made
    for number, tables in enumerate(DATABASES):
        expected = duck.results(query, tables)
        assert rounded(results(made, tables)) == rounded(expected), f"database {number}"
