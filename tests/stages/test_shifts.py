"""Deltas as ranges after every batch: a copy to which they are applied = twin, for random running functions."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from crown.kernels.memory import arena as A
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from crown.stages.running.shifts import Shifts
from crown.store.codec import decode
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.frames import RANKS, Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column, Table
from tests.marks import seeds
from tests.models import normalise
from tests.models.over import over
from tests.models.program import enter
from tests.models.shifts import Copy
from tests.oracles.database import Database
from tests.stages import random_groups
from tests.stages.harness import bag_of, net_of, parts

Row = tuple[Any, ...]
EXACT = tuple(type_ for type_ in random_groups.NUMBERS if type_ != "float64")


def running(random: Random, columns: tuple[Column, ...]) -> tuple[OverStage, int]:
    """Returns a stage of running functions, and the number of columns of the order that distinguish its rows."""
    hidden = random.choice([0, 0, 1, 2])
    shown = columns[: len(columns) - hidden]
    keys = tuple(column.name for column in random.sample(shown[:-1], random.choice([0, 1, 1])))
    order = tuple(
        Order(c.name, random.random() < 0.5, random.random() < 0.5)
        for c in random.sample(shown, random.choice([0, 1, 1, 2]))
    )
    numbers = [column for column in columns if column.type in EXACT]
    made = []
    for i in range(random.randint(1, 3)):
        ranks = ["rank", "dense_rank"] if order else []
        kind = random.choice(["row_number", "count", *ranks, *(["sum"] * 2 if numbers else [])])
        frame, where = Frame(random.choice(["rows", "range"]), None, 0), random.choice([None, None, "c0"])
        if kind in RANKS:
            made.append(WindowFunction(f"w{i}", "int32", kind))
        elif kind == "count":
            argument = random.choice([(), (random.choice(columns).name,)])
            made.append(WindowFunction(f"w{i}", "int64", "count", argument, where, frame))
        else:
            x = random.choice(numbers)
            made.append(WindowFunction(f"w{i}", random_groups.SUMS[x.type], "sum", (x.name,), where, frame))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    assert all(one.running for one in made)
    names = [one.column for one in order]
    distinguishing = [*names, *(c.name for c in shown if c.name not in (*keys, *names))]
    return OverStage(feed, keys, order, tuple(made), hidden), len(distinguishing)


def copy_of(planned: OverStage, distinguished: int) -> Copy:
    place = {column.name: i for i, column in enumerate(planned.feed.columns)}
    order = [(place[key.column], key) for key in planned.order]
    ties = [name for name in place if name not in planned.keys and place[name] not in {at for at, _ in order}]
    order += [(place[name], Order(name, False, False)) for name in ties]
    return Copy(len(planned.shown), [place[name] for name in planned.keys], order[:distinguished], Counter())


def values(codes: np.ndarray, columns: list[Column], part: Part) -> list[Row]:
    read = [
        decode(np.ascontiguousarray(line), column.type, part.dictionary.extern).to_pylist()
        for line, column in zip(codes, columns, strict=True)
    ]
    return [tuple(normalise(column[i]) for column in read) for i in range(codes.shape[1])]


def ranges_of(shifts: Shifts, planned: OverStage, part: Part) -> list[tuple[Row, Row, Row]]:
    columns = [Column(output.name, output.type) for output in planned.feed.columns]
    moved = values(shifts.moved, [Column(call.name, call.type) for call in planned.functions], part)
    return list(zip(values(shifts.firsts, columns, part), values(shifts.lasts, columns, part), moved, strict=True))


@pytest.mark.parametrize("seed", seeds(8, 600))
def test_ranges_applied_to_a_copy_give_what_the_twin_has(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned, distinguished = running(random, columns)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    empty = int(part.arena[A.H_LIVE])
    database = Database({"r": Table("r", columns)})
    copy = copy_of(planned, distinguished)
    for batch in random_groups.batches(random, columns, 12, special=True):
        net, shifts = stage.shifted([net_of(batch, columns, part)], distinguished)
        copy.apply(bag_of([net], stage.columns, part), ranges_of(shifts, planned, part))
        database.apply({"r": list(batch.items())})
        expected = over(planned, enter(planned.feed, database.rows["r"], columns))
        assert copy.rows == expected
        stage.check_invariants()
        found: Counter[Row] = Counter()
        for rows in stage.scan():
            found.update(bag_of([rows.net()], stage.columns, part))
        assert found == expected
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


PLAIN = (Column("k", "int64"), Column("x", "int64"), Column("s", "int64"))


@pytest.mark.parametrize("unit", ["rows", "range"])
def test_a_change_costs_the_logarithm_of_its_partition_however_many_rows_move(unit: str) -> None:
    random = Random(1)
    functions = (
        WindowFunction("a", "int64", "sum", ("s",), frame=Frame(unit, None, 0)),
        WindowFunction("b", "int32", "rank"),
    )
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in PLAIN))
    for n in (500, 4_000, 32_000):
        (part,) = parts(1)
        stage = Over(OverStage(feed, ("k",), (Order("x"),), functions), PLAIN, part)
        values = random.sample(range(10 * n), n + 200)
        stage.shifted([net_of([((0, x, x), 1) for x in values[:n]], PLAIN, part)], 2)
        steps, delivered = stage.stats()["steps"], 0
        for x in values[n:]:
            rows, shifts = stage.shifted([net_of([((0, x, x), 1)], PLAIN, part)], 2)
            delivered += len(rows) + len(shifts)
        assert delivered <= 200 * 2
        assert stage.stats()["steps"] - steps <= 200 * 20 * math.log2(n)
