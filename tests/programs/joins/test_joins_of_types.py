"""Joins of columns whose types differ: a value of one type meets the equal values of the other, however it is coded."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random

import pytest

import crown
from plans.errors import PlanError
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, Row, canonical, to_arrow

TABLES = {
    "N": {"k": "int64", "v": "decimal(8,2)"},
    "W": {"k": "int64", "v": "decimal(22,2)"},
    "S": {"k": "int64", "v": "decimal(9,3)"},
    "I": {"k": "int64", "v": "int32"},
    "F": {"k": "int64", "v": "float64"},
}
VALUES = [Decimal("0.00"), Decimal("1.00"), Decimal("2.00"), None]
PAIRS = [("N", "W"), ("W", "N"), ("N", "S"), ("I", "N"), ("I", "F")]
QUERIES = [
    "SELECT x.k, y.k AS l, x.v FROM {0} x JOIN {1} y ON x.v = y.v",
    "SELECT x.k, y.k AS l, y.v FROM {0} x LEFT JOIN {1} y ON x.v = y.v",
    "SELECT x.k, y.k AS l FROM {0} x FULL JOIN {1} y ON x.v = y.v",
    "SELECT x.k, y.k AS l FROM {0} x LEFT JOIN {1} y ON x.v = y.v AND x.k < y.k",
    "SELECT x.k, y.k AS l, z.k AS m FROM {0} x JOIN {1} y ON x.v = y.v JOIN {0} z ON z.v = y.v",
    "SELECT DISTINCT x.v, y.k AS l FROM {0} x JOIN {1} y ON x.v = y.v AND x.k = y.k",
    "SELECT x.v, CAST(SUM(y.k) AS BIGINT) AS s FROM {0} x JOIN {1} y ON x.v = y.v GROUP BY x.v",
    "SELECT x.k FROM {0} x JOIN (SELECT v, MAX(k) AS m FROM {1} GROUP BY v) y ON x.v = y.v",
    "SELECT x.k, y.v FROM {0} x JOIN (SELECT DISTINCT w.v, z.k FROM {1} w, I z) y ON x.v = y.v",
    "SELECT k, v FROM {0} x WHERE EXISTS (SELECT 1 FROM {1} y WHERE x.v = y.v)",
    "SELECT k, v FROM {0} x WHERE NOT EXISTS (SELECT 1 FROM {1} y WHERE x.v = y.v)",
    "SELECT k, v FROM {0} x WHERE EXISTS (SELECT 1 FROM {1} y, {0} z WHERE x.v = y.v AND y.v = z.v AND z.k < y.k)",
    "SELECT k FROM {0} x WHERE v IN (SELECT v FROM {1})",
    "SELECT k FROM {0} x WHERE v NOT IN (SELECT v FROM {1} WHERE v IS NOT NULL)",
    "SELECT k FROM {0} x WHERE v IN (SELECT v FROM {1}) OR k > 2",
    "SELECT k, (SELECT COUNT(*) FROM {1} y WHERE x.v = y.v) AS n FROM {0} x",
]


def follow(query: str, seed: int) -> None:
    """Compares the deltas of a view with DuckDB's results after every batch."""
    random, database, bag = Random(seed), Database(TABLES), Counter[Row]()
    view = crown.view(query, TABLES)
    read = sorted({table.name for table in view.plan.tables})
    for number in range(5):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name in read:
            rows = list(database.rows[name].elements())
            gone = rows if number == 4 else random.sample(rows, len(rows) // 2)
            fresh = [(random.randrange(4), random.choice(VALUES)) for _ in range(0 if number == 4 else 5)]
            batch[name] = [(row, -1) for row in gone] + [(_typed(name, row), 1) for row in fresh]
        database.apply(batch)
        delta = view.apply({name: to_arrow(database.schema, name, rows) for name, rows in batch.items()})
        for *row, weight in (tuple(row.values()) for row in delta.to_pylist()):
            bag[canonical([tuple(row)])[0]] += weight
        assert Counter({row: copies for row, copies in bag.items() if copies}) == duck.results(query, database)
        view.check_invariants()


def _typed(name: str, row: Row) -> Row:
    convert = {"I": int, "F": float}.get(name)
    return row if convert is None or row[1] is None else (row[0], convert(row[1]))


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_equal_values_of_two_types_meet(pair: tuple[str, str], seed: int) -> None:
    for query in QUERIES:
        follow(query.format(*pair), seed)


def test_a_variable_of_a_rule_is_of_one_coding() -> None:
    with pytest.raises(PlanError, match=r"joins decimal\(8,2\) with decimal\(22,2\)"):
        crown.view("Q(k, l) :- N(k, v), W(l, v).", TABLES)
