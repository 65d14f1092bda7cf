"""What functions pick from their own row on, in trees of several levels: kernels = twin after every batch, by steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

from crown.errors import ChangeError
from crown.kernels.memory import arena as A
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from crown.store.budget import Budget
from crown.store.zset import Zset
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.frames import Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column
from tests.marks import seeds
from tests.models.over import over
from tests.oracles.expectation import difference
from tests.stages.harness import bag_of, net_of, parts, scanned

Row = tuple[Any, ...]
COLUMNS = (Column("k", "int64"), Column("t", "timestamp_ntz"), Column("x", "int64"), Column("b", "bool"))
FEED = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in COLUMNS))
NOON = datetime(2024, 2, 29, 12)
SECOND = 1_000_000
START = WindowFunction("s", "timestamp_ntz", "session_start", ("t",), count=4 * SECOND)
END = WindowFunction("e", "timestamp_ntz", "session_end", ("t",), count=4 * SECOND)


def functions(random: Random) -> tuple[WindowFunction, ...]:
    """Some functions that pick, some below a filter, perhaps beside one that reads a frame."""
    found = [random.choice([START, END])] if random.random() < 0.7 else [START, END]
    for i in range(random.randrange(4)):
        back, where = random.random() < 0.5, random.choice(["b", "b", None])
        near = random.choice([0, 0, -1, 1, 3, -3])
        frame = Frame("rows", None, near) if back else Frame("rows", near, None)
        default = random.choice(["x", None])
        name, count = "last_value" if back else "nth_value", random.choice([0, 1, 2, 5])
        found.append(WindowFunction(f"p{i}", "int64", name, ("x",), where, frame, count, default))
    if random.random() < 0.4:
        found.append(WindowFunction("n", "int64", random.choice(["lag", "lead"]), ("x",), count=random.randrange(40)))
    if random.random() < 0.3:
        found.append(WindowFunction("sum", "int64", "sum", ("x",), None, Frame("rows", -2, 1)))
    random.shuffle(found)
    return tuple(found)


def rows(random: Random, seconds: int, often: float) -> Callable[[], Row]:
    """Rows of few partitions and times; so many of them pass."""
    return lambda: (
        random.choice([0, 0, 0, 1]), NOON + timedelta(seconds=random.randrange(seconds)), random.randrange(3),
        random.choice([None, False]) if random.random() > often else True,
    )  # fmt: skip


class Hesitant(Budget):
    """Has kernels come back after every few words, and lets them go on."""

    asked = 0

    def allow(self, part: int, expected: int = 0) -> None:
        self.fixed = False
        self.asked += 1
        super().allow(part, expected)
        header = self._headers[part]
        header[A.H_BUDGET] = min(header[A.H_BUDGET], header[A.H_LIVE] + 40)


@pytest.mark.parametrize("seed", seeds(4, 300))
def test_what_is_picked_is_what_the_twin_picks(seed: int) -> None:
    random, (part,) = Random(seed), parts(1)
    hesitant = Hesitant([part.arena])
    hesitant.allow(0)
    if seed % 2:
        part = replace(part, number=0, budget=hesitant)
    planned = OverStage(FEED, random.choice([("k",), ()]), (Order("t"),), functions(random), random.choice([0, 0, 2]))
    stage = Over(planned, COLUMNS, part)
    empty = int(part.arena[A.H_LIVE])
    row = rows(random, random.choice([40, 300, 900]), random.choice([0.05, 0.5]))
    there: Counter[Row] = Counter()
    result: Counter[Row] = Counter()
    for turn in range(8):
        batch: Counter[Row] = Counter()
        low = random.randrange(200)
        some = sorted(there, key=repr)  # rows that are one behind the other go together
        for one in [*some[low : low + random.randrange(60)], *random.sample(some, len(some) // 9)]:
            batch[one] = -random.randint(1, there[one]) if random.random() < 0.2 else -there[one]
        for _ in range(150 if turn == 0 else random.choice([1, 20, 60])):
            batch[row()] += random.choice([1, 1, 3])
        if turn == 7:
            batch = Counter({one: -copies for one, copies in there.items()})
        net = net_of(batch, COLUMNS, part)
        if turn % 3 == 1:
            stage.apply([net])
            stage.undo([net])
            assert scanned(stage, part) == result
        delta = bag_of([stage.apply([net])], stage.columns, part)
        there.update(batch)
        there = +there
        wanted = over(planned, there)
        assert delta == difference(wanted, result)
        result = wanted
        stage.check_invariants()
        assert scanned(stage, part) == wanted
        for known in random.sample(sorted(wanted, key=repr), min(2, len(wanted))):
            assert stage.multiplicity(net_of({known: 1}, stage.columns, part).rows[0]) == wanted[known]
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"
    assert seed % 2 == 0 or hesitant.asked > 20, "batches went on after they had come back"


def sessions(n: int, *functions: WindowFunction) -> tuple[Over, Part]:
    """A stage with one session of so many rows, two seconds apart."""
    (part,) = parts(1)
    stage = Over(OverStage(FEED, ("k",), (Order("t"),), functions), COLUMNS, part)
    stage.apply([net_of([(at(2 * i), 1) for i in range(n)], COLUMNS, part)])
    return stage, part


def at(seconds: int) -> Row:
    return 0, NOON + timedelta(seconds=seconds), 0, True


def test_a_row_in_the_midst_of_a_session_costs_the_logarithm_of_its_rows() -> None:
    for n in (500, 4_000, 32_000):
        random = Random(n)
        stage, part = sessions(n, START, END)
        steps = stage.stats()["steps"]
        for second in random.sample(range(1, 2 * n - 1), 100):
            come = net_of([(at(second), 1)], COLUMNS, part)
            assert len(stage.apply([come])) == len(stage.apply([come.negated()])) == 1
        assert stage.stats()["steps"] - steps <= 200 * (20 * math.log2(n) + 300)


def test_a_session_that_parts_and_becomes_one_again_is_told_by_its_shorter_part() -> None:
    stage, part = sessions(1_000, START)
    gone = net_of([(at(2 * i), -1) for i in (990, 991)], COLUMNS, part)
    assert len(stage.apply([gone])) == 2 + 2 * 8
    assert len(stage.apply([gone.negated()])) == 2 + 2 * 8
    stage, part = sessions(1_000, END)
    gone = net_of([(at(2 * i), -1) for i in (9, 10)], COLUMNS, part)
    assert len(stage.apply([gone])) == 2 + 2 * 9
    assert len(stage.apply([gone.negated()])) == 2 + 2 * 9


def test_times_that_are_further_apart_than_a_word_says_are_in_two_sessions() -> None:
    stage, _ = sessions(3, START, END)
    far = np.array([[0, 0, 0], [1 - 2**63, 2**63 - 1, 2**63 - 2], [1, 1, 1], [1, 1, 1]], np.int64)
    net = Zset.of_columns(far, np.ones(3, np.int64))
    told = stage.apply([net]).columns()
    assert sorted(told[4].tolist()) == [1 - 2**63, 2**63 - 2, 2**63 - 2]
    stage.check_invariants()
    assert len(stage.apply([net.negated()])) == 3
    stage.check_invariants()


def test_a_batch_that_is_refused_leaves_the_sessions_as_they_were() -> None:
    stage, part = sessions(300, START, END)
    before = scanned(stage, part)
    batch = [(at(2 * i), -1) for i in range(100, 110)] + [(at(2 * i + 1), 1) for i in range(50)] + [(at(5_001), -1)]
    with pytest.raises(ChangeError, match="deletes an absent row"):
        stage.apply([net_of(batch, COLUMNS, part)])
    assert scanned(stage, part) == before
    stage.check_invariants()
