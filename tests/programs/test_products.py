"""Products whose parts are tested by themselves: DuckDB's result after every batch, and no pair of rows looked at."""

from __future__ import annotations

from random import Random

import pytest

import crown
import plans
from crown.kernels.memory import arena as A
from tests.marks import seeds
from tests.oracles.database import Row
from tests.programs.driver import Driver

TABLES = ("r", "s", "t", "u")
SCHEMA = {name: {"g": "int64", "x": "int64", "y": "int64"} for name in TABLES}
TESTS = ("{0}.x < {1}.x", "{0}.x <> {1}.x", "{0}.x + {1}.y = 3", "({0}.x = {1}.x OR {0}.y > {1}.y)", "{0}.x <= {1}.y")
SHAPES = (
    "SELECT COUNT(*) AS n, SUM({0}.y - {2}.y) AS s FROM {from_} WHERE {where}",
    "SELECT {0}.g, SUM({0}.y * {2}.y) AS s, AVG({1}.x) AS a FROM {from_} WHERE {where} GROUP BY {0}.g",
    "SELECT {2}.g, MAX({0}.y) AS m, COUNT({1}.x) AS n FROM {from_} WHERE {where} GROUP BY {2}.g",
    "SELECT {0}.x, {2}.y FROM {from_} WHERE {where}",
    "SELECT DISTINCT {0}.g FROM {from_} WHERE {where}",
)


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_random_products_are_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    names = random.sample(TABLES, random.choice([3, 3, 4]))
    parts = [random.choice(TESTS).format(*random.sample(names[:2], 2))]
    parts += random.choice([[], [f"{names[0]}.g = {names[1]}.g"], [f"{names[2]}.y > 0"], [f"{names[0]}.x < 4"]])
    parts += [random.choice(TESTS).format(*names[2:])] if len(names) == 4 and random.random() < 0.7 else []
    parts += random.choice([[], [f"EXISTS (SELECT 1 FROM {names[0]} AS e WHERE e.g = {names[2]}.g)"]])
    random.shuffle(parts)
    query = random.choice(SHAPES).format(*names, from_=", ".join(names), where=" AND ".join(parts))
    made = plans.program(query, SCHEMA)
    driver = Driver(query, made, {name: SCHEMA[name] for name in names})
    for turn in range(4):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // 3)
            come = [tuple(random.choice([None, 0, 1, 1, 2, 3]) for _ in range(3)) for _ in range(random.choice([0, 3]))]
            batch[name] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        driver.step(batch, again=turn == 2)
    driver.remove_everything()


def _steps(view: crown.View) -> int:
    return sum(int(part[A.H_STEPS]) for stage in view._engine.stages for part in stage.parts)


def test_a_change_of_a_side_that_is_compared_with_its_sum_costs_the_rows_that_pass_or_no_longer_pass() -> None:
    """PSP of DBToaster, with a threshold that moves between two rows."""
    query = (
        "SELECT SUM(a.price - b.price) AS s FROM bids b, asks a WHERE b.volume > 0.0001 * (SELECT SUM(volume) FROM "
        "bids) AND a.volume > 0.0001 * (SELECT SUM(volume) FROM asks)"
    )
    taken = []
    for n in (500, 8_000):
        view = crown.view(query, {name: {"price": "int64", "volume": "int64"} for name in ("bids", "asks")})
        rows = {"price": list(range(n)), "volume": [i * 100 for i in range(n)]}
        view.update({"bids": rows, "asks": rows})
        before = _steps(view)
        for i in range(4):
            view.apply({"bids": [(i, i)]})
        taken.append(_steps(view) - before)
        view.check_invariants()
    assert taken[1] <= 2 * taken[0] + 100, "16 times the rows are a few levels of a tree more"


def test_a_product_that_is_divided_says_so() -> None:
    query = "SELECT COUNT(*) AS n FROM r, s, t WHERE r.x <> s.x"
    assert "product: r, s are joined first; no condition connects the others" in crown.explain(query, SCHEMA)
    assert "are joined first" not in crown.explain(f"{query} AND s.y = t.y", SCHEMA)
