"""Every query of the planner's collection, maintained over a random stream: engine = DuckDB after every batch."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

from plans import PlanError
from tests.marks import slow
from tests.oracles.database import Row
from tests.oracles.declared import Declared
from tests.plans.lowering.program_queries import QUERIES, TABLES, planned
from tests.programs.driver import Driver
from tests.programs.keyed_batches import absent_rows, keyed_batch, together

POOLS = {
    "r": ((0, 1, 2, 3, None), (0, 1, 2, 3, None)),
    "s": ((0, 1, 2, 3, None), ("p", "q", "p and more", None)),
    "t": (range(5), (0, 1, 2, None), (Decimal("1.50"), Decimal("-0.25"), None)),
    "u": ((0, 1, 2, 3, None), (0.5, 1.0, 2.0, -1.25, None)),
}


def maintain(query: str, turns: int) -> None:
    """Applies random batches, takes some of them back, and compares with DuckDB after each.

    Some deletes of a batch find nothing.
    """
    random = Random(query)
    try:
        made = planned(query)
    except PlanError as error:
        if "cannot be counted" not in str(error):
            raise
        pytest.skip("rows of cyclic joins are not counted")
    driver = Driver(query, made, Declared(TABLES, made, whole=False, upserts=False), exact=False)

    def drawn(name: str) -> Row:
        return tuple(random.choice(pool) for pool in POOLS[name])

    for turn in range(turns):
        batch = keyed_batch(random, driver.database, drawn, tables=3, gone=2, fresh=3)
        driver.step(together(absent_rows(random, driver.database, drawn, driver.read), batch), again=turn % 4 == 0)
    driver.remove_everything()


@pytest.mark.parametrize("turns", [3, slow(10)])
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_maintained(query: str, turns: int) -> None:
    maintain(query, turns)
