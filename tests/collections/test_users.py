"""Queries as users of six systems write them, maintained: the result is DuckDB's, or that of a view of all rows.

`users.sql` has one in a line: its dialect; `=` where it means the same to DuckDB in the words that sqlglot finds, and
`~` where it does not, so that it is compared with a view that is given all rows at once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from random import Random

import pytest
import sqlglot

from crown.programs.program import ProgramEngine
from plans import QueryWarning, program
from tests.collections.texts import FOLDER
from tests.collections.users import SCHEMA, changes
from tests.marks import every, seeds
from tests.oracles.alike import alike
from tests.oracles.database import Row, to_arrow
from tests.programs.driver import Driver
from tests.programs.test_programs import apply, result_of

LINES = [tuple(line.split(" ", 2)) for line in (FOLDER / "users.sql").read_text().splitlines()]


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


def maintained(dialect: str, how: str, text: str, seed: int) -> int:
    """Compares a query with its rows from scratch after every batch; returns how many it had, over all batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        made = program(text, SCHEMA, dialect=dialect)
    random = Random(seed)
    query = sqlglot.transpile(text, read=dialect, write="duckdb")[0] if how == "=" else text
    driver = Users(query, made, SCHEMA)
    driver.alone, seen = how == "~", 0
    for number in range(5):
        seen += driver.step(changes(random, driver.database, 10 * number), again=number == 2).total()
    driver.remove_everything()
    return seen


@every(LINES)
def test_a_query_of_users_is_maintained(dialect: str, how: str, text: str) -> None:
    assert maintained(dialect, how, text, 1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 10, 2))
@pytest.mark.parametrize(("dialect", "how", "text"), LINES)
def test_a_query_of_users_is_maintained_for_long(dialect: str, how: str, text: str, seed: int) -> None:
    maintained(dialect, how, text, seed)


def test_there_are_queries_of_six_systems() -> None:
    assert len(LINES) > 50
    assert {dialect for dialect, _, _ in LINES} == {"bigquery", "duckdb", "flink", "postgres", "snowflake", "spark"}
