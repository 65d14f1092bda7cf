"""Two small tables, random batches with deletes of them, and a query of a dialect that is checked after each."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

from plans import program
from tests.marks import turns
from tests.programs.driver import Driver

SCHEMA = {
    "r": {
        "id": "int64",
        "a": "int64",
        "b": "int64",
        "s": "string",
        "d": "date",
        "at": "timestamp_ntz",
        "nums": "array<int64>",
        "tags": "array<string>",
    },
    "u": {"a": "int64", "v": "int64"},
}


def _some(random: Random, *values: Any) -> Any:
    return random.choice([None, *values, *values])


def _row(random: Random) -> tuple[Any, ...]:
    def several(*values: Any) -> Any:
        return None if random.random() < 0.15 else tuple(_some(random, *values) for _ in range(random.randint(0, 3)))

    day = _some(random, dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2023, 1, 1))
    at = _some(random, dt.datetime(2024, 2, 29, 12, 34, 56, 789000), dt.datetime(1969, 12, 31, 23, 59, 59, 500000))
    text = _some(random, "a", "b", "2024-03-01", '{"a": {"b": [1, "x"]}}')
    ids = random.randint(0, 3), _some(random, 0, 1, 2), _some(random, 0, 1, -3)
    return *ids, text, day, at, several(0, 1, 2), several("a", "b", "")


def changed(random: Random, driver: Driver) -> dict[str, Any]:
    """Deletes of rows that are there, and new ones."""
    made: dict[str, Any] = {}
    for name, new in (("r", _row), ("u", lambda r: (_some(r, 0, 1, 2), r.randint(0, 3)))):
        there = list(driver.database.rows[name].elements())
        gone = random.sample(there, min(len(there), random.randint(0, 3)))
        made[name] = [*((row, -1) for row in gone), *((new(random), 1) for _ in range(random.randint(0, 4)))]
    return made


def check(dialect: str, query: str, oracle: str, seed: int) -> None:
    """Streams batches into a query, and compares with DuckDB's answer to ``oracle``, or to the query itself."""
    random = Random(f"{seed} {query}")
    driver = Driver(oracle or query, program(query, SCHEMA, dialect=dialect), SCHEMA, exact=False)
    for number in turns(3, 4):
        driver.step(changed(random, driver), again=number % 2 == 1)
    driver.remove_everything()
