"""Joins by a comparison after every batch: kernels = definition of the program = DuckDB, on random streams."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crown
import plans
from plans.program import Program
from plans.programs.stages import BandStage
from plans.schema import Column, Table
from tests.marks import seeds
from tests.oracles.database import Row
from tests.plans.expressions import evaluator
from tests.programs.driver import Driver
from tests.programs.results import rows_of

NAN = float("nan")
VALUES: dict[str, tuple[Any, ...]] = {
    "int64": (*range(-3, 9), -(2**61), 2**61, None),
    "float64": (0.5, -1.5, 2.0, 3.25, 4.0, -0.0, float("inf"), float("-inf"), NAN, None),
    "date": (*(date(2024, 2, day) for day in range(25, 30)), None),
    "timestamp_ntz": (*(datetime(2024, 1, 1, 0, 0, second) for second in range(6)), None),
    "decimal(25,2)": (*(Decimal(n).scaleb(-2) for n in (-(10**20), -150, 0, 1, 2, 300, 10**20)), None),
    "string": ("", "a", "ab", "b", "é", "zz", None),
}


def tables(random: Random, type_: str) -> dict[str, Table]:
    """Bands `l` and points `r`."""
    key = random.choice([(), ("id",)])
    return {
        "l": Table("l", (*columns("k", "id", "v"), Column("x", type_), Column("y", type_)), key),
        "r": Table("r", (*columns("k", "g", "w"), Column("t", type_))),
    }


def columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "int64") for name in names)


TOLD = (
    "COUNT(*) AS n", "SUM(w) AS s", "COUNT(*) AS n, SUM(v - w) AS s", "SUM(v * w) AS s, AVG(w) AS a, COUNT(v) AS c",
    "MAX(w) AS m, COUNT(w) FILTER (WHERE v > 1) AS n",
)  # fmt: skip
APART = ("(r.t > l.y OR r.t < l.x)", "(l.x >= r.t OR r.t > l.y)", "(r.t <= l.x OR l.y <= r.t)")


WIDE = ("decimal(25,2)", "string")  # whose value is more than one word


def is_in_order(asked: str, type_: str, key: tuple[str, ...]) -> bool:
    """Whether a band stage maintains a group: not where every pair may have to be looked at.

    A MAX needs that, and so do bands of wide values with two bounds that the result distinguishes.
    """
    where, _, by = asked.partition(" WHERE ")[2].partition(" GROUP BY ")
    listed = "l.x" in by or (by == "l.id" and bool(key))
    return bool(by) and "MAX" not in asked and not (listed and "l.x" in where and "l.y" in where and type_ in WIDE)


MOVED = ("r.t - l.x > 2", "r.t + 1 <= l.x - 3", "(r.t - l.x < -1 OR l.x + 3 < r.t)", "3 >= l.y - r.t")


def query(random: Random, type_: str) -> str:
    """A join by a comparison: grouped by what is of one side, of both or of none, or listed."""
    low, high = random.choice(["r.t > l.x", "l.x <= r.t"]), random.choice(["r.t < l.y", "l.y >= r.t"])
    ties = random.choice([[low], [high], [low, high], [low, high], [random.choice(APART)]])
    ties += random.choice([[], ["l.k = r.k"], ["l.k <=> r.k"], ["l.v > 0"]])
    if type_ == "int64" and random.random() < 0.4:
        ties[0] = random.choice(MOVED)
    by = random.choice(["", "l.k", "l.id", "r.g", "l.k, r.g", "r.t", "r.k, l.x"])
    if random.random() < 0.2:
        told = f"SELECT {random.choice(['', 'DISTINCT '])}l.id, l.v + r.w AS z, r.g FROM l, r"
        return f"{told} WHERE {' AND '.join(ties)}"
    told = f"SELECT {by and f'{by}, '}{random.choice(TOLD)} FROM l, r WHERE {' AND '.join(ties)}"
    return told + (f" GROUP BY {by}" if by else "")


def batches(random: Random, database: Any, type_: str, turns: int) -> Any:
    """Yields batches of inserts, of deletes, and of both."""
    ids = iter(range(10**6))
    for _ in range(turns):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name in ("l", "r"):
            there = database.rows[name]
            share = random.choice([0, 3, 2])
            batch[name] = (
                [(row, -1) for row in random.sample(list(there.elements()), there.total() // share)] if share else []
            )
        few = (*range(4), None)
        for _ in range(random.randrange(9)):
            ends = random.choice(VALUES[type_]), random.choice(VALUES[type_])
            batch["l"].append(((random.choice(few), next(ids), random.choice(few), *ends), 1))
            row = (random.choice(few), random.choice(few), random.choice((*few, 2**40)), random.choice(VALUES[type_]))
            batch["r"].append((row, random.choice([1, 1, 3])))
        yield batch


@pytest.mark.parametrize("seed", seeds(5, 400))
def test_random_joins_by_a_comparison_are_those_of_the_definition_and_of_duckdb(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    type_ = random.choice(list(VALUES))
    schema, asked = tables(random, type_), query(random, type_)
    made = plans.program(asked, schema)
    assert made == Program.from_json(made.to_json())
    if is_in_order(asked, type_, schema["l"].key):
        assert any(isinstance(stage, BandStage) for stage in made.stages), asked
    driver = Driver(asked.replace("<=>", "IS NOT DISTINCT FROM"), made, schema)
    for turn, batch in enumerate(batches(random, driver.database, type_, 7)):
        found = driver.step(batch, again=turn % 3 == 1, saved=tmp_path / "state" if turn == 4 else None)
        assert evaluator.results(made, driver.database) == found
    driver.remove_everything()


@pytest.mark.parametrize("by", ["l.id", "r.k, l.x"])
@pytest.mark.parametrize("type_", WIDE)
def test_bands_of_wide_values_that_are_told_apart_are_tested_pair_by_pair(type_: str, by: str) -> None:
    random, schema = Random(type_ + by), tables(Random(1), type_)
    schema["l"] = replace(schema["l"], key=("id",))
    for low, banded in (("l.x <= r.t AND ", False), ("", True)):
        asked = f"SELECT {by}, COUNT(*) AS n FROM l, r WHERE {low}r.t < {'l.y' if low else 'l.x'} GROUP BY {by}"
        made = plans.program(asked, schema)
        assert is_in_order(asked, type_, ("id",)) == banded
        assert any(isinstance(stage, BandStage) for stage in made.stages) == banded
        driver = Driver(asked, made, schema)
        for batch in batches(random, driver.database, type_, 3):
            driver.step(batch)


SCHEMA = {"l": {"id": "int64", "x": "int64", "y": "int64", "v": "int64"}, "r": {"t": "int64", "w": "int64"}}
ANY = "FROM l, r WHERE l.x <= r.t AND r.t < l.y"


@pytest.mark.parametrize(
    ("told", "ends", "growing"),
    [
        (f"SELECT COUNT(*) AS n, SUM(v * w) AS s {ANY}", 10**6, "both"),
        (f"SELECT l.id, COUNT(*) AS n {ANY} GROUP BY l.id", 10, "both"),  # few bands hold a point
        ("SELECT SUM(v - w) AS s FROM l, r WHERE l.x < r.t", 10**6, "both"),
        ("SELECT l.id, SUM(w) AS s FROM l, r WHERE l.x < r.t GROUP BY l.id", 10**6, "l"),
        (f"SELECT l.id, r.w {ANY}", 10, "both"),
    ],
)
def test_a_change_costs_the_logarithm_and_what_it_tells(told: str, ends: int, growing: str) -> None:
    random = Random(7)
    assert isinstance(plans.program(told, SCHEMA).stages[0], BandStage)
    cost = {}
    for n in (500, 4_000, 32_000):
        view = crown.view(told, SCHEMA)
        low = [random.randrange(10 * n) for _ in range(n)]
        rows = {"id": list(range(n)), "x": low, "y": [x + random.randrange(1, ends) for x in low], "v": [1] * n}
        few = n if growing == "both" else 20
        view.apply({"l": pa.table(rows), "r": pa.table({"t": random.sample(range(10 * n), few), "w": [2] * few})})
        steps = _steps(view)
        for i in range(100):
            at = random.randrange(10 * n)
            band = {"id": [n + i], "x": [at], "y": [at + random.randrange(1, ends)], "v": [3]}
            changes = {"l": pa.table(band)}
            if growing == "both":
                changes["r"] = pa.table({"t": [random.randrange(10 * n)], "w": [5]})
            view.apply(changes)
        cost[n] = (_steps(view) - steps) / 100
        assert cost[n] <= 12 * math.log2(n) + 120
    assert cost[32_000] <= 2 * cost[500] + 60


def _steps(view: crown.View) -> int:
    return sum(stage.get("steps", 0) for stage in view.stats()["stages"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM r, s WHERE x > y",
        "SELECT id, COUNT(*) AS n FROM r, s WHERE x > y GROUP BY id",
        "SELECT id FROM r, s WHERE x >= y AND x < y + 3",
    ],
)
def test_decimals_without_a_common_type_are_compared_by_their_values(query: str) -> None:
    kept = {"r": {"id": "int64", "x": "decimal(38,2)"}, "s": {"y": "decimal(38,6)"}}
    random = Random(query)
    driver = Driver(query, plans.program(query, kept), kept)
    for _ in range(4):
        rows = [((n, Decimal(random.randrange(9))), 1) for n in range(5)]
        there = list(driver.database.rows["s"].elements())
        driver.step({"r": rows, "s": [((Decimal(random.randrange(9)),), 1), *((row, -1) for row in there[:1])]})


FAR = 2**63 - 1
OVER = {
    "r.t - l.x > 5": lambda x, t: t - x > 5,
    "r.t - 5 <= l.x + 4": lambda x, t: t - 5 <= x + 4,
    "r.t + 3 < l.x OR r.t > l.x + 3": lambda x, t: t + 3 < x or t > x + 3,
    "r.t BETWEEN l.x - 2 AND l.x + 2": lambda x, t: x - 2 <= t <= x + 2,
    "r.t + 1 BETWEEN l.x - 2 AND l.x + 2": lambda x, t: x - 2 <= t + 1 <= x + 2,
}


@pytest.mark.parametrize("condition", OVER)
def test_what_is_added_to_whole_numbers_does_not_overflow(condition: str) -> None:
    ends = [None, *(sign * (FAR - by) for sign in (1, -1) for by in range(6)), 0, 1]
    for told in ("COUNT(*) AS n", "l.x, r.t"):
        view = crown.view(f"SELECT {told} FROM l, r WHERE {condition}", {"l": {"x": "int64"}, "r": {"t": "int64"}})
        view.apply({"l": [{"x": x} for x in ends], "r": [{"t": t} for t in ends]})
        view._engine.check_invariants()
        there = [end for end in ends if end is not None]
        wanted = [(x, t) for x in there for t in there if OVER[condition](x, t)]
        assert rows_of(view) == (Counter(wanted) if "x" in told else Counter([(len(wanted),)]))


SHARED = (
    "l.x >= r.t AND l.x <= r.t", "r.t BETWEEN l.x AND l.x", "r.t > l.x AND r.t < l.x", "r.t >= l.x OR r.t < l.x",
    "l.x = r.t AND r.t <= l.y", "l.x = r.g AND r.t > l.x", "l.x = r.t AND l.x = r.g AND r.w >= l.x",
    "l.k = r.t AND r.t BETWEEN l.k AND l.x", "l.x = r.t AND r.t > l.x",
)  # fmt: skip


@pytest.mark.parametrize("tie", SHARED)
@pytest.mark.parametrize("told", ["COUNT(*) AS n", "l.k, COUNT(*) AS n", "r.g, SUM(l.v) AS s", "l.x, r.t", "l.k, r.w"])
def test_a_column_may_be_both_ends_of_a_band_or_an_end_and_a_key(told: str, tie: str) -> None:
    schema, random = tables(Random(1), "int64"), Random(tie + told)
    by = told.split(", ")[0]
    asked = f"SELECT {told} FROM l, r WHERE {tie}" + (f" GROUP BY {by}" if "(" in told and ", " in told else "")
    driver = Driver(asked, plans.program(asked, schema), schema)
    for turn, batch in enumerate(batches(random, driver.database, "int64", 4)):
        driver.step(batch, again=turn == 2)
