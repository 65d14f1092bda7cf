"""RANGE by months after every batch: kernels = twin = DuckDB around the ends of months, and the steps that it takes."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

import crown
from crown.kernels.strings import NULL
from crown.stages.over.frames import plus_offset
from crown.stages.over.stage import Over
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.frames import Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column, Table
from plans.time.durations import DAY
from tests.marks import seeds
from tests.models.over import over
from tests.oracles import duck
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_windows
from tests.stages.harness import bag_of, net_of, parts

BEGINS = (date(2023, 3, 1), date(2023, 4, 1), date(2024, 2, 1), date(2024, 3, 1), date(2024, 4, 1))
BOUNDS = (None, 0, -1, 1, -2, 3, -12, 12, 13)


def columns_of(type_: str) -> tuple[Column, ...]:
    return (Column("k", "int64"), Column("d", type_), Column("x", "int64"))


def day(random: Random, type_: str, hours: tuple[int, ...]) -> Any:
    """A day at the end or the begin of a month, or NULL: few, so that many are a month apart."""
    if random.random() < 0.1:
        return None
    found = random.choice(BEGINS) + timedelta(random.randint(-4, 1))
    if type_ == "date":
        return found
    return datetime(found.year, found.month, found.day) + timedelta(hours=random.choice(hours))


def planned(random: Random, columns: tuple[Column, ...], *frames: Frame) -> OverStage:
    """A stage of functions over frames in an order of days."""
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    kinds = [
        ("count", "int64", ()),
        ("sum", "int64", ("x",)),
        ("max", "int64", ("x",)),
        ("min", columns[1].type, ("d",)),
    ]
    functions = tuple(
        WindowFunction(f"w{i}", type_, name, read, None, frame)
        for i, frame in enumerate(frames)
        for name, type_, read in [random.choice(kinds)]
    )
    return OverStage(feed, ("k",), (Order("d", random.random() < 0.5, random.random() < 0.5),), functions)


@pytest.mark.parametrize("type_", ["date", "timestamp_ntz"])
@pytest.mark.parametrize("seed", seeds(4, 200))
def test_frames_of_months_are_those_of_the_twin_and_of_duckdb(seed: int, type_: str) -> None:
    random, columns = Random(seed), columns_of(type_)
    hours = (0, 5, 23) if seed % 2 else (5,)
    frames = []
    for _ in range(2):
        start, end = sorted(random.sample(BOUNDS[1:], 2))
        ends = random.choice([(start, end), (start, end), (None, start), (end, None), (-1, 0)])
        frames.append(Frame("months", *ends, random.choice(["", "", "row", "group", "ties"])))
    stage_plan = planned(random, columns, *frames)
    (part,) = parts(1)
    stage, database = Over(stage_plan, columns, part), Database({"r": Table("r", columns)})
    query, result = random_windows.sql_of(stage_plan), Counter[Any]()
    if type_ != "date" and len(hours) > 1:
        query = None  # the bound of a later moment may be an earlier one, which DuckDB does not look for
    for size in (30, *[random.randint(0, 2) for _ in range(4)]):
        batch = Counter({(random.randrange(2), day(random, type_, hours), random.randrange(9)): 1 for _ in range(size)})
        there = sorted(database.rows["r"].elements(), key=repr)
        batch.subtract(random.sample(there, min(len(there), random.choice([0, 1]))))
        batch = Counter({row: n for row, n in batch.items() if n})
        delta = bag_of([stage.apply([net_of(batch, columns, part)])], stage.columns, part)
        database.apply({"r": list(batch.items())})
        wanted = over(stage_plan, database.rows["r"])
        assert delta == difference(wanted, result)
        result = wanted
        stage.check_invariants()
        assert query is None or wanted == duck.results(query, database), query


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("type_", ["date", "timestamp_ntz"])
def test_one_change_reaches_every_row_whose_frame_holds_it(type_: str, falling: bool) -> None:
    columns = columns_of(type_)
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    days: list[Any] = [begin + timedelta(i) for begin in BEGINS[:4] for i in range(-4, 1)]
    if type_ != "date":
        days = [datetime(one.year, one.month, one.day, hour) for one in days[:10] for hour in (0, 23)]
    for frame in ((-1, 0), (1, 2), (-12, -12)):  # each by itself: what one reaches does not hide what others must
        counted = WindowFunction("n", "int64", "count", (), None, Frame("months", *frame))
        stage_plan = OverStage(feed, ("k",), (Order("d", falling),), (counted,))
        (part,) = parts(1)
        stage, rows = Over(stage_plan, columns, part), Counter({(0, one, 0): 1 for one in days})
        stage.apply([net_of(rows, columns, part)])
        before = over(stage_plan, rows)
        for one in days:
            delta = bag_of([stage.apply([net_of({(0, one, 1): 1}, columns, part)])], stage.columns, part)
            assert delta == difference(over(stage_plan, rows + Counter([(0, one, 1)])), before), (one, frame)
            stage.apply([net_of({(0, one, 1): -1}, columns, part)])


def test_a_change_costs_the_logarithm_of_its_partition_and_its_frame() -> None:
    columns, random = columns_of("date"), Random(1)
    for n in (500, 4_000, 32_000):
        (part,) = parts(1)
        feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
        counted = WindowFunction("n", "int64", "count", (), None, Frame("months", -1, 0))
        stage = Over(OverStage(feed, ("k",), (Order("d"),), (counted,)), columns, part)
        days = random.sample(range(10 * n), n + 100)
        rows = [(0, date(1000, 1, 1) + timedelta(one), 0) for one in days]
        stage.apply([net_of([(row, 1) for row in rows[:n]], columns, part)])
        steps = stage.stats()["steps"]
        delivered = sum(len(stage.apply([net_of([(row, 1)], columns, part)])) for row in rows[n:])
        assert delivered <= 100 * 20
        assert stage.stats()["steps"] - steps <= 100 * (20 * math.log2(n) + 60)


def test_a_bound_outside_of_the_calendar_is_its_end() -> None:
    most = 2**63 - 1
    codes = np.array([0, most // DAY * DAY, -(most // DAY) * DAY, most, NULL], np.int64)
    later, beyond = plus_offset(codes, "timestamp", 2**31 - 1, "months")
    assert later.tolist() == [most, most, most, most, NULL]
    assert beyond.tolist() == [True] * 4 + [False]
    assert plus_offset(codes, "timestamp", 1 - 2**31, "months")[0].tolist() == [1 - 2**63] * 4 + [NULL]
    near, beyond = plus_offset(codes[1:4], "timestamp", 0, "months")
    assert near.tolist() == codes[1:4].tolist()
    assert not beyond.any()
    days = np.array([19_782, NULL], np.int64)  # 2024-02-29
    assert plus_offset(days, "date", -12, "months")[0].tolist() == [19_416, NULL]


@pytest.mark.parametrize("order", ["x", "x DESC", "x NULLS LAST", "x DESC NULLS FIRST"])
@pytest.mark.parametrize("end", [1, -1])
def test_no_row_is_beyond_the_last_value_not_even_its_own(order: str, end: int) -> None:
    last = end * (2**63 - 1)
    way = "FOLLOWING" if (end > 0) != ("DESC" in order) else "PRECEDING"
    outside = f"RANGE BETWEEN 1 {way} AND UNBOUNDED FOLLOWING"
    if way == "PRECEDING":
        outside = f"RANGE BETWEEN UNBOUNDED PRECEDING AND 1 {way}"
    view = crown.view(
        f"SELECT x, COUNT(*) OVER (PARTITION BY k ORDER BY {order} {outside}) AS n FROM t WHERE x IS NOT NULL",
        {"t": {"k": "int64", "x": "int64"}},
    )
    view.update({"t": {"k": [1, 1, 1], "x": [last, last, 0]}})
    assert sorted((row["x"] == last, row["n"]) for row in view) == [(False, 2), (True, 0), (True, 0)]
