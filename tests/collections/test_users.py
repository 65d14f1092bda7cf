"""Queries as people write them, in twelve dialects, maintained: the result is DuckDB's, or that of a view of all rows.

`users.tsv` has one in a line; `users.lines` says what its fields are.
"""

from __future__ import annotations

import warnings
from collections import Counter
from random import Random

import pytest
import sqlglot

from crown.programs.program import ProgramEngine
from plans import QueryWarning, program
from tests.collections.users import SCHEMA, changes, lines
from tests.marks import every, seeds
from tests.oracles.alike import alike
from tests.oracles.database import Row, to_arrow
from tests.programs.driver import Driver
from tests.programs.test_programs import apply, result_of

LINES = lines()


class Users(Driver):
    """A driver of a query that DuckDB has, or that only a second engine answers from scratch."""

    alone = False

    def same(self, result: Counter[Row], wanted: Counter[Row]) -> bool:
        """Returns whether rows are those from scratch."""
        return alike(result, wanted)

    def from_scratch(self) -> Counter[Row]:
        """Returns the rows that another one has of the tables as they are."""
        if not self.alone:
            return super().from_scratch()
        other = ProgramEngine.create(self.made)
        rows = self.database.everything()
        apply(other, {name: to_arrow(self.database.schema, name, rows[name]) for name in rows if name in self.read})
        return result_of(other)


def maintained(dialect: str, text: str, how: str, seed: int) -> int:
    """Compares a query with its rows from scratch after every batch; returns how many it had, over all batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        made = program(text, SCHEMA, dialect=dialect)
    random = Random(f"{seed} {text}")
    query = how if how not in ("", "~") else text
    if not how and dialect != "duckdb":
        (query,) = sqlglot.transpile(text, read="spark" if dialect == "flink" else dialect, write="duckdb")
    driver = Users(query, made, SCHEMA)
    driver.alone, seen = how == "~", 0
    for number in range(3):
        batch = changes(random, driver.database, 12 * number, driver.read)
        seen += driver.step(batch, again=number == 1).total()
    driver.remove_everything()
    return seen


@every(LINES[::2])
def test_a_query_of_users_is_maintained(dialect: str, text: str, how: str) -> None:
    assert maintained(dialect, text, how, 1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 10, 2))
@pytest.mark.parametrize(("dialect", "text", "how"), LINES)
def test_a_query_of_users_is_maintained_for_long(dialect: str, text: str, how: str, seed: int) -> None:
    maintained(dialect, text, how, seed)


def test_there_are_queries_of_many_systems() -> None:
    assert len(LINES) > 200
    assert len({dialect for dialect, _, _ in LINES}) >= 12
