"""The finance queries of DBToaster, over bids and asks of integers: after every batch they are what DuckDB says."""

from __future__ import annotations

from random import Random

import pytest

import plans
from plans.program import Program
from plans.programs.stages import BandStage, SliceStage
from tests.marks import seeds
from tests.oracles.database import Row
from tests.programs.driver import Driver

BOOK = {"t": "int64", "id": "int64", "broker": "int64", "volume": "int64", "price": "int64"}
SCHEMA = {"bids": BOOK, "asks": BOOK}
BEHIND = (
    "0.25 * (SELECT SUM({0}1.volume) FROM {1} {0}1) > "
    "(SELECT SUM({0}2.volume) FROM {1} {0}2 WHERE {0}2.price > {0}.price)"
)
QUERIES = {
    "axfinder": "SELECT b.broker, SUM(a.volume - b.volume) AS s FROM bids b, asks a WHERE b.broker = a.broker AND "
    "(a.price > b.price + 3 OR b.price > a.price + 3) GROUP BY b.broker",
    "bsp": "SELECT x.broker, SUM(x.volume * x.price - y.volume * y.price) AS s FROM bids x, bids y "
    "WHERE x.broker = y.broker AND x.t > y.t GROUP BY x.broker",
    "vwap": f"SELECT SUM(b.price * b.volume) AS s FROM bids b WHERE {BEHIND.format('b', 'bids')}",
    "mst": "SELECT b.broker, SUM(a.price * a.volume - b.price * b.volume) AS s FROM bids b, asks a "
    f"WHERE {BEHIND.format('b', 'bids')} AND {BEHIND.format('a', 'asks')} GROUP BY b.broker",
    "psp": "SELECT SUM(a.price - b.price) AS s FROM bids b, asks a "
    "WHERE b.volume > 0.1 * (SELECT SUM(b1.volume) FROM bids b1) "
    "AND a.volume > 0.1 * (SELECT SUM(a1.volume) FROM asks a1)",
}
IN_ORDER = {"axfinder": 1, "bsp": 1, "vwap": 1, "mst": 2, "psp": 2}
"""How many stages of a query keep rows in order: joins by a comparison, and slices."""


def planned(name: str) -> Program:
    return plans.program(QUERIES[name], SCHEMA)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_the_finance_queries_are_what_duckdb_says(name: str, seed: int) -> None:
    random, made = Random(seed), planned(name)
    assert sum(isinstance(stage, BandStage | SliceStage) for stage in made.stages) == IN_ORDER[name]
    driver = Driver(QUERIES[name], made, SCHEMA)
    for turn in range(5):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for book, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // 3)
            come = [(turn, i, random.randrange(2), random.randint(1, 9), random.randrange(12)) for i in range(6)]
            batch[book] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        driver.step(batch, again=turn == 2)
    driver.remove_everything()
