"""MIN and MAX of all rows up to the own one, or from it on: a change costs the rows whose value it changes."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pytest

import crown
from crown.kernels.memory import arena as A
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, canonical

SCHEMA = {"r": {"k": "int64", "x": "int64", "v": "int64", "d": "float64", "b": "bool"}}
TIES = ", ".join(f"{name} NULLS FIRST" for name in SCHEMA["r"])
FRAMES = [
    "UNBOUNDED PRECEDING AND CURRENT ROW", "CURRENT ROW AND UNBOUNDED FOLLOWING", "UNBOUNDED PRECEDING AND 2 FOLLOWING",
    "2 PRECEDING AND UNBOUNDED FOLLOWING", "UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
]  # fmt: skip


def _query(random: Random) -> str:
    falling = random.choice(["", " DESC NULLS LAST", " NULLS FIRST"])
    found = []
    for i in range(random.choice([1, 1, 2])):
        inner = f"{random.choice(['MIN', 'MAX'])}({random.choice(['v', 'd'])})"
        where = random.choice(["", "", " FILTER (WHERE b)"])
        frame = random.choice(FRAMES[:2] if random.random() < 0.7 else FRAMES)
        unit, order = ("ROWS", f", {TIES}") if random.random() < 0.5 or " 2 " in frame else ("RANGE", "")
        over = f"PARTITION BY k ORDER BY x{falling or ' NULLS FIRST'}{order} {unit} BETWEEN {frame}"
        found.append(f"{inner}{where} OVER ({over}) AS f{i}")
    return f"SELECT k, x, v, d, b, {', '.join(found)} FROM r"


def _row(random: Random, values: int) -> tuple[Any, ...]:
    return (
        random.choice([None, 0, 0, 1]), random.choice([None, *range(values)]),
        random.choice([None, 2**63 - 1, 1 - 2**63, *range(values)]),
        random.choice([None, math.nan, 0.0, -0.0, -1.5, math.inf, -math.inf]), random.choice([None, True, False]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_random_ends_with_many_ties_are_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    query, values = _query(random), random.choice([3, 8, 60])
    view, database, result = crown.view(query, SCHEMA), Database(SCHEMA), Counter[tuple[Any, ...]]()
    for _ in range(8):
        there = list(database.rows["r"].elements())
        gone = random.sample(there, min(len(there), random.choice([0, 1, 20])))
        if random.random() < 0.3:  # all rows with one value, among which some are the best ones
            value = random.randrange(values)
            gone = [row for row in there if row[2] == value]
        new = [(_row(random, values), 1) for _ in range(random.choice([0, 1, 5, 40]))]
        changes = [(row, -1) for row in gone] + new
        delta = view.apply({"r": [(*row, weight) for row, weight in changes]})
        database.apply({"r": changes})
        for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
            result[canonical([tuple(row)])[0]] += weight
        assert +result == duck.results(query, database), query
        assert min(result.values(), default=0) >= 0
        view.check_invariants()
    shown = zip(*(column.to_pylist() for column in view.to_table().columns), strict=True)
    assert Counter(canonical(shown)) == +result, query


def _steps(view: crown.View, row: dict[str, Any]) -> tuple[int, int]:
    """Returns how many rows a delta has, and the entries and rows that were looked at."""
    (over,) = (made for made in view._engine.stages if type(made).__name__ == "Over")
    before = int(over.parts[0][A.H_STEPS])
    return view.apply({"r": [row]}).num_rows, int(over.parts[0][A.H_STEPS]) - before


@pytest.mark.parametrize("frame", ["UNBOUNDED PRECEDING AND CURRENT ROW", "CURRENT ROW AND UNBOUNDED FOLLOWING"])
@pytest.mark.parametrize("unit", ["ROWS", "RANGE"])
def test_a_change_costs_the_rows_whose_value_it_changes_and_the_depth_of_the_tree(unit: str, frame: str) -> None:
    query = f"SELECT x, MIN(v) OVER (ORDER BY x {unit} BETWEEN {frame}) AS m FROM r"
    for n in (1000, 30_000):
        view = crown.view(query, {"r": {"x": "int64", "v": "int64"}})
        view.update({"r": {"x": list(range(0, 2 * n, 2)), "v": [5] * n}})
        most = 200 * math.ceil(math.log(n, 16))
        for weight in (1, -1):
            for value, place in ((9, n + 1), (5, n + 1), (5, -1), (5, 2 * n + 1), (None, n + 1)):
                delta, steps = _steps(view, {"x": place, "v": value, "_weight": weight})
                assert delta == 1
                assert steps <= most, (n, value, place, weight)
        blockers = {"x": [n - 49, n + 51], "v": [1, 1]}
        view.update({"r": blockers})
        best = {"x": n + 1, "v": 2}  # a better value is before it, on either way
        assert _steps(view, {**best, "_weight": 1})[0] == 1
        assert _steps(view, {**best, "_weight": -1})[1] <= most
        view.update({"r": {**blockers, "_weight": [-1, -1]}})
        view.update({"r": {"x": [n + 51 if frame.startswith("U") else n - 49], "v": [1]}})
        for weight in (1, -1):
            delta, steps = _steps(view, {"x": n + 1, "v": 2, "_weight": weight})
            assert delta == 1 + 2 * 25, "the rows up to the one that is better"
            assert steps <= most + 4 * delta


def test_explain_says_that_only_rows_change_whose_value_does() -> None:
    schema = {"r": {"x": "int64", "s": "string"}}
    assert (
        "and the rows whose value changes"
        in crown.view("SELECT MAX(x) OVER (ORDER BY x) AS m FROM r", schema).explain()
    )
    assert "MAX has the class shift" in crown.view("SELECT MAX(s) OVER (ORDER BY x) AS m FROM r", schema).explain()
