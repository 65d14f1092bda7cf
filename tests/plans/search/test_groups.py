"""Groups of results that share cells. Oracle: DuckDB in each cell, on the rows that are sent there."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from plans.errors import PlanError
from plans.programs import named
from plans.search.cells.groups import Group, groups_of
from tests.oracles import duck

SCHEMA = {
    "orders": {"o": "int64", "c": "int64", "day": "int64"},
    "lines": {"o": "int64", "p": "int64", "n": "int64"},
    "products": {"p": "int64", "price": "int64"},
}
VIEWS = {
    "by_order": "SELECT o, SUM(n) AS n FROM lines GROUP BY o",
    "sold": "SELECT orders.o, c, p, n FROM orders JOIN lines ON orders.o = lines.o",
    "priced": "SELECT sold.o, c, n * price AS worth FROM sold JOIN products ON sold.p = products.p",
    "by_product": "SELECT p, SUM(n) AS n FROM lines GROUP BY p",
    "by_customer": "SELECT c, COUNT(*) AS n FROM orders GROUP BY c",
    "all_of_it": "SELECT COUNT(*) AS n FROM lines",
    "first": "SELECT o, c FROM orders ORDER BY day, o LIMIT 3",
    "pairs": "SELECT 1 AS one FROM products, orders",
}


def program(*names: str) -> Any:
    made = named.empty(SCHEMA)
    for name in names or VIEWS:
        made = named.added(made, name, VIEWS[name])
    return made


def rows(source: random.Random) -> dict[str, pa.Table]:
    sizes = {"orders": 40, "lines": 90, "products": 9}
    return {
        name: pa.table({column: [source.randrange(12) for _ in range(sizes[name])] for column in columns})
        for name, columns in SCHEMA.items()
    }


def sent(tables: dict[str, pa.Table], group: Group) -> list[dict[str, pa.Table]]:
    """The rows that each cell of a group gets."""
    found = []
    for cell in range(group.cells):
        mine = {}
        for name, ways in group.ways.items():
            (by,) = ways
            chosen = [
                not by or hash(tuple(row.get(column, 0) for column in by)) % group.cells == cell  # all may go to one
                for row in tables[name].to_pylist()
            ]
            mine[name] = tables[name].filter(pa.array(chosen, pa.bool_()))
        found.append(mine)
    return found


def results(tables: dict[str, pa.Table], name: str) -> Counter[tuple[Any, ...]]:
    with duck.holding(tables) as cursor:
        if "sold" in VIEWS[name] and name != "sold":
            cursor.execute(f"CREATE TEMP VIEW sold AS {VIEWS['sold']}")
        return Counter(cursor.execute(VIEWS[name]).fetchall())


@pytest.mark.parametrize("cells", [2, 5])
def test_cells_of_a_group_find_what_one_process_finds(cells: int) -> None:
    tables = rows(random.Random(cells))
    groups = groups_of(program(), cells).groups
    assert sorted(name for group in groups for name in group.results) == sorted(VIEWS), "each is in one group"
    for group in groups:
        places = sent(tables, group)
        assert sum(len(table) for place in places for table in place.values()) == pytest.approx(
            sum(len(tables[name]) * (1 if by else group.cells) for name, ways in group.ways.items() for by in ways)
        )
        for name in set(group.results) - set(group.merged):
            assert sum((results(place, name) for place in places), Counter()) == results(tables, name), name


def test_results_whose_cuts_agree_share_cells() -> None:
    found = groups_of(program(), 4)
    assert [group.results for group in found.groups] == [
        ("by_order", "sold", "priced", "by_product", "by_customer", "all_of_it", "first"),
        ("pairs",),
    ]
    first, last = found.groups
    assert first.ways == {"lines": {("o",)}, "orders": {("o",)}, "products": {()}}
    assert first.merged == ("by_product", "by_customer", "all_of_it", "first"), "rather than send all rows once more"
    assert last.to_json()["ways"] == {"orders": [[]], "products": [[]]}
    assert last.cells == 1
    assert found.to_json()["groups"] == [first.to_json(), last.to_json()]
    assert (found.rows, found.arriving, found.pays) == (1.5 + 2, 3, False), "orders and products travel twice"


def test_what_is_only_added_up_may_be_sent_by_any_column_and_by_the_one_that_others_want() -> None:
    (group,) = groups_of(program("all_of_it"), 4).groups
    assert group.ways == {"lines": {("*",)}}
    (group,) = groups_of(program("all_of_it", "by_order"), 4).groups
    assert (group.results, group.ways) == (("all_of_it", "by_order"), {"lines": {("o",)}})


def test_rows_follow_the_rates() -> None:
    found = groups_of(program("sold", "priced"), 4, {"Orders": 100, "lines": 200, "products": 10})
    (group,) = found.groups
    assert (group.arriving, group.rows, group.sent, found.pays) == (310, 85, 340, True)
    sold, priced = groups_of(program("sold", "priced"), 4, {"orders": 1, "products": 100}).groups
    assert (sold.results, sold.cells, sold.rows) == (("sold",), 4, 0.25)
    assert (priced.results, priced.cells, priced.rows) == (("priced",), 1, 101), "every cell would have all products"
    (group,) = groups_of(program("pairs"), 4).groups
    assert (group.cells, group.rows, group.sent, group.arriving) == (1, 2, 2, 2)
    with pytest.raises(PlanError, match="cells=1 is not a number of cells"):
        groups_of(program("sold"), 1)
