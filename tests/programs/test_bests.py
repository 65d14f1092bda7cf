"""EXISTS by a comparison is a MIN or MAX: DuckDB's result after every batch, and only what changes is looked at."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pytest

import crown
import plans
from crown.kernels.memory import arena as A
from plans.programs.stages import BandStage
from tests.marks import seeds
from tests.oracles.database import Row
from tests.programs.driver import Driver

VALUES: dict[str, tuple[Any, ...]] = {
    "int64": (*range(-3, 6), 2**63 - 1, 1 - 2**63, None),
    "float64": (0.5, -1.5, -0.0, 2.0, float("inf"), float("-inf"), float("nan"), None),
    "date": (*(date(2024, 2, day) for day in range(25, 30)), None),
    "string": ("", "a", "ab", "b", "é", "zz", None),
}
ASKS = (
    "SELECT t.g, t.x FROM t WHERE EXISTS (SELECT 1 FROM q WHERE {})",
    "SELECT t.g, t.x FROM t WHERE NOT EXISTS (SELECT 1 FROM q WHERE {})",
    "SELECT t.x, EXISTS (SELECT 1 FROM q WHERE {}) AS e FROM t",
    "SELECT t.x, COUNT(*) AS n FROM t WHERE EXISTS (SELECT 1 FROM q WHERE {}) GROUP BY t.x",
    "SELECT DISTINCT t.g FROM t WHERE EXISTS (SELECT 1 FROM q WHERE {})",
    "SELECT t.x, r.v FROM t, r WHERE t.g = r.g AND EXISTS (SELECT 1 FROM q WHERE {}) AND NOT EXISTS (SELECT 1 FROM r "
    "AS s WHERE s.g = t.g AND s.v > t.x)",
    "SELECT t.g, t.x FROM t WHERE EXISTS (SELECT 1 FROM q JOIN r AS s ON q.g = s.g WHERE {})",
)


@pytest.mark.parametrize("seed", seeds(8, 300))
def test_random_subqueries_that_are_compared_are_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    type_ = random.choice(list(VALUES))
    schema = {
        "t": {"g": "int64", "x": type_},
        "q": {"g": "int64", "p": type_, "f": "bool"},
        "r": {"g": "int64", "v": type_},
    }
    parts = [random.choice(["q.p {} t.x", "t.x {} q.p"]).format(random.choice(["<", "<=", ">", ">="]))]
    parts += random.choice([[], ["q.g = t.g"], ["t.g = q.g"], ["q.g IS NOT DISTINCT FROM t.g"]])
    parts += random.choice([[], [], ["q.f"], ["q.p IS NOT NULL"]])
    random.shuffle(parts)
    query = random.choice(ASKS).format(" AND ".join(parts))
    program = plans.program(query, schema)
    assert any(isinstance(stage, BandStage) for stage in program.stages), query
    driver = Driver(query, program, {table.name: schema[table.name] for table in program.tables})

    def row(name: str) -> Row:
        value = random.choice(VALUES[type_])
        more = (random.choice([True, False, None]),) if name == "q" else ()
        return (random.choice([None, 0, 0, 1]), value, *more)

    for turn in range(5):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // random.choice([2, 4]))
            come = [row(name) for _ in range(random.choice([0, 1, 6]))]
            batch[name] = [*((old, -1) for old in gone), *((new, 1) for new in come)]
        driver.step(batch, again=turn == 2)
    driver.remove_everything()


def _steps(view: crown.View) -> int:
    return sum(int(part[A.H_STEPS]) for stage in view._engine.stages for part in stage.parts)


@pytest.mark.parametrize("query", ASKS[:2])
def test_a_change_of_a_subquery_costs_the_rows_for_which_the_answer_changes(query: str) -> None:
    schema = {"t": {"g": "int64", "x": "int64"}, "q": {"g": "int64", "p": "int64"}}
    for n in (1_000, 20_000):
        view = crown.view(query.format("q.g = t.g AND q.p < t.x"), schema)
        view.update({"t": {"g": [1] * n, "x": list(range(n))}, "q": {"g": [1] * 9, "p": [n // 2] * 9}})
        for weight in (1, -1):
            before = _steps(view)
            delta = view.apply({"q": [{"g": 1, "p": n // 2 - 5, "_weight": weight}]})
            assert delta.num_rows == 5
            assert _steps(view) - before <= 600, "neither all pairs, nor all rows with the key"
            before = _steps(view)
            assert view.apply({"q": [{"g": 1, "p": n // 2 + 7, "_weight": weight}]}).num_rows == 0
            assert _steps(view) - before <= 200
        view.check_invariants()


def test_what_is_asked_more_than_one_comparison_is_joined_as_before() -> None:
    schema = {"t": {"g": "int64", "x": "int64"}, "q": {"g": "int64", "p": "int64"}}
    for more in ("q.p < t.x AND q.p > t.g", "q.p <> t.x", "q.p + t.g < t.x", "q.p < t.x OR q.g = t.g"):
        program = plans.program(f"SELECT x FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.g = t.g AND ({more}))", schema)
        assert "MIN(" not in str(program)


@pytest.mark.parametrize("type_", VALUES)
def test_rows_between_the_ends_of_their_group_are_what_duckdb_says(type_: str) -> None:
    """Texts that are too long for one word are compared as texts, not by the order in which they came."""
    random = Random(type_)
    values = [f"{'x' * 30}{value}" for value in "hdbfacge"] if type_ == "string" else list(VALUES[type_])
    schema = {"t": {"g": "int64", "x": type_}, "q": {"g": "int64", "p": type_}}
    query = (
        "SELECT t.g, t.x FROM t JOIN (SELECT g, MIN(p) AS low, MAX(p) AS high FROM q GROUP BY g) AS e ON t.g = e.g AND "
        "t.x BETWEEN e.low AND e.high"
    )
    driver = Driver(query, plans.program(query, schema), schema)
    for turn in range(5):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // 3)
            come = [(random.choice([None, 0, 1]), random.choice(values)) for _ in range(6)]
            batch[name] = [*((old, -1) for old in gone), *((new, 1) for new in come)]
        driver.step(batch, again=turn == 2)
    driver.remove_everything()
