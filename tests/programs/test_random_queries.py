"""Random queries over the whole dialect, maintained: engine = DuckDB after every batch, with deletes."""

from __future__ import annotations

import random
import warnings
from copy import deepcopy

import duckdb
import pytest

from crown.errors import SeveralRowsError
from plans import PlanError, QueryWarning, program
from tests import campaign
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import to_arrow
from tests.plans.lowering.random_queries import REFUSED, Writer
from tests.plans.lowering.random_rows import TABLES, batch
from tests.programs.driver import Driver
from tests.programs.test_programs import apply

FOUND = """
SELECT c1 FROM u JOIN (SELECT DISTINCT d, CAST(v AS DOUBLE) c1 FROM t, s WHERE v = b) q ON x = c1 WHERE x <= FLOOR(c1)
SELECT COALESCE(x, CAST('NaN' AS DOUBLE)) AS c0 FROM u GROUP BY COALESCE(x, CAST('NaN' AS DOUBLE))
SELECT n.id FROM n LEFT JOIN e ON e.id = n.id JOIN (SELECT DISTINCT CAST(id AS INT) + 1 AS c0 FROM e) q ON n.id = c0
""".strip().splitlines()
"""Queries that were not planned, or had a wrong result, once."""


def maintain(query: str, seed: int, batches: int) -> None:
    """Applies random batches; some are rolled back and applied again. A batch that DuckDB refuses is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        driver = Driver(query, program(query, TABLES, dialect="duckdb"), TABLES, exact=False)
    rng = random.Random(seed)
    for turn in range(batches):
        changes = batch(rng, driver.database)
        after = deepcopy(driver.database)
        after.apply(changes)
        try:
            duck.results(query, after)
        except duckdb.InvalidInputException:  # a subquery that is a value has several rows
            given = {n: to_arrow(after.schema, n, rows) for n, rows in changes.items() if n in driver.read}
            with pytest.raises(SeveralRowsError):
                apply(driver.engine, given)
        else:
            driver.step(changes, again=turn in (0, 3))
    driver.remove_everything()


@pytest.mark.parametrize("seed", seeds(8, 1000))
def test_a_random_query_is_maintained(seed: int) -> None:
    query = Writer(seed).query()
    try:
        maintain(query, seed, 5 if campaign.is_running() else 3)
    except PlanError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.parametrize("query", FOUND)
def test_a_query_that_was_wrong_is_right(query: str) -> None:
    for seed in range(3):
        maintain(query, seed, 5)
