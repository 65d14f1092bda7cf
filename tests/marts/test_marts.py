"""Marts, maintained while their tables change: the result is DuckDB's after every batch."""

from __future__ import annotations

import random

import pytest

from plans import program
from tests.marks import seeds
from tests.marts.tables import PACKAGES, changes, marts, schema
from tests.oracles.database import Database
from tests.programs.driver import Driver

MARTS = [(package, name) for package in PACKAGES for name in marts(package)]


def maintain(package: str, name: str, seed: int, *, batches: int, most: int) -> int:
    """Returns how many rows a mart had, over all batches."""
    rng, text, tables = random.Random(seed), marts(package)[name], schema(package)
    driver = Driver(text, program(text, tables, dialect="duckdb"), tables, exact=False)
    seen = 0
    for number in range(batches):
        seen += driver.step(changes(rng, package, driver.database, most), again=number == 1).total()
    driver.remove_everything()
    return seen


@pytest.mark.parametrize(("package", "name"), MARTS)
def test_a_mart_is_maintained(package: str, name: str) -> None:
    assert maintain(package, name, 1, batches=4, most=4) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 10, 2))
@pytest.mark.parametrize(("package", "name"), MARTS)
def test_a_mart_is_maintained_for_long(package: str, name: str, seed: int) -> None:
    assert maintain(package, name, seed, batches=25, most=6) > 0


def test_ten_packages_have_forty_marts() -> None:
    assert len(PACKAGES) == 10
    assert len(MARTS) >= 40
    assert all(Database(schema(package)).rows for package in PACKAGES)
