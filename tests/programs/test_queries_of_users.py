"""Queries as people write them, in eleven dialects: after every batch with deletes the results are DuckDB's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest
import sqlglot

from plans import program
from tests.marks import seeds
from tests.programs.driver import Driver
from tests.programs.queries_of_users import QUERIES, TABLES

_JSON = (
    '{"page":"home","ms":12,"user":{"id":3},"ref":"g"}', '{"page":"cart","ms":7}', '{"a":1,"b":[1,2],"c":{"d":"x"}}',
    "{}", '{"page":"home"}', '{"a":"q","b":"r"}',
)  # fmt: skip


def _rows(random: Random) -> dict[str, Callable[[int], tuple[Any, ...]]]:
    """What makes a row of each table; its number is its key, or a fraction of a second of its own."""
    of, few = random.choice, lambda: random.randint(1, 6)

    def moment(number: int) -> dt.datetime:
        return dt.datetime(2024, of((1, 1, 2, 6)), few(), of((0, 9, 23)), random.randint(0, 59), of((0, 30)), number)

    def close(number: int, minutes: int = 0) -> dt.datetime:
        return dt.datetime(2024, 1, 1, 10, random.randint(0, minutes), random.randint(0, 40), number)

    return {
        "orders": lambda n: (n, few(), Decimal(random.randint(1, 30_000)) / 100, of(("paid", "refund", "a", None)),
                             moment(n), of((("a", "b"), ("x",), (), ("a", "c", "b"))), of(_JSON)),
        "customers": lambda n: (n, of(("Ann B", "bot x", "Cy Dee")) + str(n), of(("a@gmail.com", "b@yahoo.de", "c@x")),
                                of(("DE", "FR", "", None)), moment(n).date()),
        "items": lambda n: (few(), few(), few(), of((1.5, 2.25, 9.0))),
        "products": lambda n: (n, f"p{n}", of(("k1", "k2", None)), of((1, 2, None))),
        "events": lambda n: (few(), of(("view", "cart", "purchase")), close(n, 59), of(("https://x", "http://y", "f")),
                             of(_JSON)),
        "subs": lambda n: (few(), of(("free", "pro")), dt.date(2024, 1, 1) + dt.timedelta(n),
                           of((dt.date(2024, 9, 1), None)), Decimal(random.randint(1, 99))),
        "payments": lambda n: (n, few(), of(("card", "cash", "credit_card", "coupon")), Decimal(few()) / 4, moment(n)),
        "bid": lambda n: (few(), few(), random.randint(1, 20_000), close(n)),
        "auction": lambda n: (n, f"i{n}", few(), of((10, 11)), close(n), close(n, 1) + dt.timedelta(seconds=20)),
        "person": lambda n: (n, f"n{n}", "c", of(("OR", "ID", "CA")), moment(n)),
        "trades": lambda n: (of(("A", "B")), close(n, 20), float(random.randint(10, 20)), few(), "b"),
        "quotes": lambda n: (of(("A", "B")), close(n, 20), float(few()), float(random.randint(10, 20))),
    }  # fmt: skip


def _check(dialect: str, query: str, oracle: str, seed: int) -> None:
    if dialect != "duckdb" and not oracle:
        (oracle,) = sqlglot.transpile(query, read=dialect, write="duckdb")
    random = Random(f"{seed} {query}")
    rows, made = _rows(random), program(query, TABLES, dialect=dialect)
    driver = Driver(oracle or query, made, TABLES, exact=False)
    number = 0
    for step in range(3):
        batch: dict[str, Any] = {}
        for name in driver.read:
            there = list(driver.database.rows[name].elements())
            gone = random.sample(there, len(there) // 3)
            new = [rows[name](number + i) for i in range(1, 13)]
            batch[name] = [*((row, -1) for row in gone), *((row, 1) for row in new)]
        number += 12
        driver.step(batch, again=step == 1)
    driver.remove_everything()


@pytest.mark.parametrize(("dialect", "query", "oracle"), QUERIES)
def test_a_query_of_a_user_has_the_results_of_duckdb(dialect: str, query: str, oracle: str) -> None:
    _check(dialect, query, oracle, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "query", "oracle"), QUERIES)
def test_queries_of_users_have_the_results_of_duckdb(dialect: str, query: str, oracle: str) -> None:
    for seed in seeds(5, 2):
        _check(dialect, query, oracle, seed)
