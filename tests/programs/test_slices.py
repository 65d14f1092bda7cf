"""Conditions on the number of a row, and aggregates over numbers: DuckDB's after every batch, and what they cost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import crown
import plans
from crown.kernels.memory import arena as A
from plans.programs.stages import OverStage, TopStage
from tests.marks import seeds
from tests.oracles.database import Row
from tests.programs.driver import Driver

VALUES: dict[str, tuple[Any, ...]] = {
    "int64": (*range(-2, 4), None),
    "float64": (0.5, -1.5, -0.0, float("inf"), float("nan"), None),
    "string": ("", "a", "ab", "zz", "y" * 20, "x" * 20, None),
}
NUMBERS = ("ROW_NUMBER", "DENSE_RANK", "RANK")
ASKS = (
    "SELECT id, n, n + 1 AS m FROM ({}) q WHERE {}",
    "SELECT id, x FROM ({}) q WHERE {}",
    "SELECT x, COUNT(*) AS c, SUM(id) AS s FROM ({}) q WHERE {} GROUP BY x",
    "SELECT t.id, q.id AS other FROM t LEFT JOIN ({}) q ON t.g = q.g AND {}",
    "SELECT t.id FROM t WHERE t.id IN (SELECT q.id FROM ({}) q WHERE {})",
)


def bounds(random: Random) -> str:
    first, last = random.randint(0, 3), random.randint(1, 6)
    ends = [f"n BETWEEN {first} AND {last}", f"n > {first}", f"{first} <= n", f"n = {last}"]
    return random.choice([*ends, f"n >= {first} AND n < {last}"])


@pytest.mark.parametrize("seed", seeds(5, 300))
def test_random_slices_are_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    function, type_ = random.choice(NUMBERS), random.choice(list(VALUES))
    schema = {"t": {"g": "int64", "id": "int64", "x": type_}}
    by = random.choice(["PARTITION BY g ", ""])
    order = "x NULLS FIRST, id" if function == "ROW_NUMBER" else random.choice(["x NULLS FIRST", "x DESC NULLS LAST"])
    numbered = f"SELECT g, id, x, {function}() OVER ({by}ORDER BY {order}) AS n FROM t"
    query = random.choice(ASKS).format(numbered, bounds(random))
    driver, ids = Driver(query, plans.program(query, schema), schema), iter(range(10**6))
    for turn in range(5):
        there = list(driver.database.rows["t"].elements())
        gone = random.sample(there, len(there) // random.choice([2, 3]))
        come: list[Row] = [
            (random.choice([None, 0, 0, 1]), next(ids), random.choice(VALUES[type_]))
            for _ in range(random.choice([0, 1, 8]))
        ]
        come += random.sample(there, len(there) // 4)  # copies
        driver.step({"t": [*((row, -1) for row in gone), *((row, 1) for row in come)]}, again=turn == 2)
    driver.remove_everything()


TOLD = (
    "COUNT(n)", "SUM(n)", "MIN(n)", "MAX(n)", "COUNT(*)", "MAX(n) - MIN(n) + COUNT(n)", "AVG(n)", "COUNT(DISTINCT n)",
    "AVG(n) + COUNT(DISTINCT n) - SUM(n)",
)  # fmt: skip


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_random_aggregates_over_numbers_are_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    schema = {"t": {"g": "int64", "h": "int64", "x": "int64"}}
    parts = random.choice(["", "g", "g, h"])
    by = random.choice([part for part in ("", "g", "h", "g, h") if set(part.split(", ")) <= {"", *parts.split(", ")}])
    told = random.sample(TOLD, random.randint(1, 3))
    items = ", ".join([*([by] if by else []), *(f"{one} AS c{i}" for i, one in enumerate(told))])
    over = f"{f'PARTITION BY {parts} ' if parts else ''}ORDER BY x DESC NULLS LAST"
    query = f"SELECT {items} FROM (SELECT *, ROW_NUMBER() OVER ({over}) AS n FROM t WHERE x > 0 OR x IS NULL) q"
    query += random.choice(["", " WHERE g > 0"]) if "g" in parts else ""
    query += f" GROUP BY {by}" if by else ""
    query += random.choice(["", " HAVING COUNT(n) > 2", " HAVING MAX(n) > 1"])
    made = plans.program(query, schema)
    assert not any(isinstance(stage, OverStage) for stage in made.stages), "no row is numbered"
    driver = Driver(query, made, schema)
    for turn in range(5):
        there = list(driver.database.rows["t"].elements())
        gone = random.sample(there, len(there) // random.choice([2, 3]))
        come = [tuple(random.choice([None, 0, 1, 2]) for _ in range(3)) for _ in range(random.choice([0, 1, 8]))]
        driver.step({"t": [*((row, -1) for row in gone), *((row, 1) for row in come)]}, again=turn == 2)
    driver.remove_everything()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, MAX(n) AS m FROM ({}) GROUP BY x", "SELECT MAX(n) AS m FROM ({}) WHERE x > 2",
        "SELECT MEDIAN(n) AS m FROM ({})", "SELECT SUM(x) AS s, MAX(n) AS m FROM ({})",
        "SELECT MAX(2 * n) AS m FROM ({})",
        "SELECT SUM(DISTINCT n) AS m FROM ({})", "SELECT MAX(n) FILTER (WHERE x > 1) AS m FROM ({})",
        "SELECT n, COUNT(n) AS c FROM ({}) GROUP BY n",
    ],
)  # fmt: skip
def test_aggregates_of_other_forms_read_the_numbers(query: str) -> None:
    schema = {"t": {"g": "int64", "x": "int64"}}
    numbered = "SELECT g, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x NULLS FIRST) AS n FROM t"
    query = query.format(numbered)
    made = plans.program(query, schema)
    assert any(isinstance(stage, OverStage) for stage in made.stages)
    driver = Driver(query, made, schema)
    for number in range(3):
        driver.step({"t": [((g, x), 1) for g in (0, 1, None) for x in (number, 1, None)]})


@pytest.mark.parametrize("shown", ["id", "id, n"])
def test_a_change_costs_what_enters_and_leaves_a_slice(shown: str) -> None:
    for n in (500, 16_000):
        query = f"SELECT {shown} FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY x, id) AS n FROM t) WHERE n BETWEEN "
        view = crown.view(f"{query}{n // 2} AND {n // 2 + 4}", {"t": {"id": "int64", "x": "int64"}})
        view.update({"t": {"id": list(range(n)), "x": list(range(n))}})
        before = _steps(view)
        delta = view.apply({"t": [(n, -1)]})
        assert delta.num_rows == (10 if "n" in shown else 2), "five numbers are of other rows; one enters"
        assert view.apply({"t": [(n + 1, n)]}).num_rows == 0
        assert _steps(view) - before <= 400
        view.check_invariants()


def _steps(view: crown.View) -> int:
    return sum(int(part[A.H_STEPS]) for stage in view._engine.stages for part in stage.parts)


def test_a_lower_bound_alone_is_a_slice_without_an_end() -> None:
    schema = {"t": {"g": "int64", "id": "int64"}}
    query = "SELECT id FROM (SELECT id, {}() OVER (PARTITION BY g ORDER BY id) AS n FROM t) WHERE n > 2"
    (stage,) = plans.program(query.format("ROW_NUMBER"), schema).stages
    assert isinstance(stage, TopStage)
    assert stage.offset == 2
    ranked = plans.program(query.format("RANK"), schema).stages
    assert any(isinstance(stage, OverStage) for stage in ranked), (
        "how many rows a rank has before it is not its position"
    )
    assert "all after 2 by id" in crown.explain(query.format("ROW_NUMBER"), schema)
