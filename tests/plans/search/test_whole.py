"""How the cells of one process share a program: by columns with which each cell gets clearly fewer rows."""

from __future__ import annotations

from typing import Any

import pytest

import crown
from plans import program
from plans.search.cells.whole import partitioning_of

KEYS: dict[str, dict[str, Any]] = {
    "customer": {"columns": {"c": "int64", "segment": "string"}, "key": ["c"]},
    "orders": {"columns": {"o": "int64", "c": "int64", "day": "date"}, "key": ["o"]},
    "line": {"columns": {"o": "int64", "n": "int64", "price": "int64"}, "key": ["o", "n"]},
}
PLAIN = {name: one["columns"] for name, one in KEYS.items()}
JOINED = "FROM customer, orders, line WHERE customer.c = orders.c AND orders.o = line.o"
BY_ORDER = f"SELECT line.o, day, SUM(price) AS s {JOINED} GROUP BY line.o, day"
BY_CUSTOMER = f"SELECT customer.c, SUM(price) AS s {JOINED} GROUP BY customer.c"


@pytest.mark.parametrize(
    ("query", "tables", "cells", "wanted"),
    [
        (BY_ORDER, KEYS, 2, {"orders": "o", "line": "o"}),
        (BY_ORDER, PLAIN, 2, {"orders": "o", "line": "o"}),  # two thirds of the rows, if all relations are as large
        (BY_CUSTOMER, KEYS, 2, None),  # every cell would have all lines, of which there are most
        (BY_CUSTOMER, KEYS, 8, None),
        (BY_CUSTOMER, PLAIN, 2, {"customer": "c", "orders": "c"}),
        ("SELECT x.c, COUNT(*) AS n FROM orders x, orders y WHERE x.day = y.day GROUP BY x.c", PLAIN, 2, None),
        ("SELECT SUM(price) AS s FROM line", PLAIN, 2, None),
    ],
)
def test_a_cell_gets_at_most_three_quarters_of_the_rows(
    query: str, tables: Any, cells: int, wanted: dict[str, str] | None
) -> None:
    assert partitioning_of(program(query, tables), cells) == wanted


def test_rates_say_how_large_a_relation_is() -> None:
    few_lines = {"customer": 10.0, "orders": 100.0, "line": 1.0}
    assert partitioning_of(program(BY_CUSTOMER, KEYS, rates=few_lines), 2) == {"customer": "c", "orders": "c"}
    many_customers = {"customer": 100.0, "orders": 1.0, "line": 2.0}
    assert partitioning_of(program(BY_ORDER, KEYS, rates=many_customers), 2) is None
    with pytest.raises(crown.CrownError, match=r"by a column of its result.*this query has no such column"):
        crown.view(BY_CUSTOMER, KEYS, threads=2)
