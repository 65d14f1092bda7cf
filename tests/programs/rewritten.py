"""Programs in which a rewrite may have left out a stage, on random batches of one table."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from plans import program
from tests.programs.driver import Driver

TABLES = {"r": {"a": "int64", "b": "int64", "c": "string"}}


def has_stage(query: str, kind: type[Any], copies: Callable[[int], int] = lambda a: 1) -> bool:
    """Returns whether the program of a query has a stage of a kind, after random batches that DuckDB's results follow.

    ``copies``: how many copies of a row are inserted, by its column ``a``, in which no two rows are equal.
    """
    random, made = Random(query), program(query, TABLES)
    driver = Driver(query, made, TABLES, exact=False)
    fresh = iter(random.sample(range(1_000), 100))
    for step in range(5):
        stored = list(driver.database.rows["r"].elements())
        deleted = [(row, -1) for row in random.sample(stored, len(stored) // 2)]
        rows = [(next(fresh), random.choice((1, 2, 3, None)), random.choice(("p", "q", None))) for _ in range(9)]
        driver.step({"r": [*deleted, *((row, copies(row[0])) for row in rows)]}, again=step == 1)
    driver.remove_everything()
    return any(isinstance(stage, kind) for stage in made.stages)
