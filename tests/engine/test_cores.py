"""Cores in codes, as a program of stages uses them: nets in, nets out, one dictionary, settle or roll back."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import plans
from crown.engine.core import Core
from crown.ingest.batch import JoinInputs, RelationChange
from crown.store.arrow_buffers import texts
from crown.store.codec import NULL
from crown.store.zset import Zset
from plans.programs.wiring import Wire
from tests.engine.made import core_of, memory_of
from tests.oracles import brute_force
from tests.oracles.database import Database

PAIR = {"x": "int64", "y": "int64"}
QUERIES = {
    "tree": ("SELECT DISTINCT r.x, r.y, s.y AS z FROM R r, S s WHERE r.y = s.x", {"R": PAIR, "S": PAIR}),
    "predicate": ("SELECT DISTINCT r.x, r.y, s.y AS z FROM R r, S s WHERE r.y = s.x AND r.x>2", {"R": PAIR, "S": PAIR}),
    "bag": ("SELECT DISTINCT a.x, a.y, b.y AS z FROM R a, R b, R c WHERE a.y=b.x AND b.y=c.x AND c.y=a.x", {"R": PAIR}),
}


def zset(rows: list[tuple[int, ...]], weights: list[int], width: int = 2) -> Zset:
    return Zset(np.array(rows, np.int64).reshape(len(rows), width), np.array(weights, np.int64))


def counted(blocks: list[Zset]) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for block in blocks:
        for row, weight in zip(map(tuple, block.rows.tolist()), block.weights.tolist(), strict=True):
            assert weight != 0
            found[row] += weight
    return found


def coded(core: Core) -> JoinInputs:
    plan = core.state.plan
    return JoinInputs(plan, {t.name.lower(): Wire(t.columns) for t in plan.tables}, core.state.dictionary.extern)


def changes_of(inputs: JoinInputs, nets: dict[str, Zset]) -> list[RelationChange]:
    given = {name.lower(): net for name, net in nets.items()}
    return inputs.changes([given.get(str(name), Zset.empty(2)) for name in inputs.inputs])


class Stage:
    """A core, and the rows of its relations."""

    def __init__(self, name: str) -> None:
        query, self.tables = QUERIES[name]
        self.plan = plans.plan(query, self.tables)
        self.core = core_of(self.plan)
        self.coded = coded(self.core)
        self.database = Database(self.tables)

    def drawn(self, rng: random.Random) -> dict[str, list[tuple[tuple[int, ...], int]]]:
        batch = {}
        for name in self.tables:
            present = list(self.database.rows[name].items())
            changes = {row: -copies for row, copies in rng.sample(present, min(len(present), 4))}
            for _ in range(8):
                changes.setdefault((rng.randrange(6), rng.randrange(6)), rng.choice((1, 2)))
            batch[name] = list(changes.items())
        return batch

    def apply(self, batch: dict[str, list[tuple[tuple[int, ...], int]]]) -> Counter[tuple[int, ...]]:
        nets = {name: zset([row for row, _ in c], [w for _, w in c]) for name, c in batch.items()}
        self.applied = self.changes(nets)
        return counted(self.core.apply(self.applied))

    def settle(self) -> None:
        self.core.settle(self.applied)

    def changes(self, nets: dict[str, Zset]) -> list[RelationChange]:
        return changes_of(self.coded, nets)

    def result(self) -> set[tuple[int, ...]]:
        return brute_force.results(self.plan, self.database)


@pytest.mark.parametrize("name", QUERIES)
def test_nets_in_codes_give_the_exact_change_and_can_be_rolled_back(name: str) -> None:
    rng, stage = random.Random(name), Stage(name)
    for _ in range(25):
        batch = stage.drawn(rng)
        before = stage.result()
        kept = {relation: rows.copy() for relation, rows in stage.database.rows.items()}
        stage.database.apply(batch)
        wanted = Counter(dict.fromkeys(stage.result() - before, 1) | dict.fromkeys(before - stage.result(), -1))
        assert stage.apply(batch) == wanted
        if rng.random() < 0.4:
            stage.core.roll_back()
            stage.database.rows = kept
        else:
            stage.settle()
        assert counted(list(map(Zset.copy, stage.core.results.tuples()))) == Counter(stage.result())


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_that_stands_is_undone_and_says_what_that_changed(name: str) -> None:
    rng, stage = random.Random(name), Stage(name)
    for _ in range(6):
        batch = stage.drawn(rng)
        nets = {relation: zset([row for row, _ in c], [w for _, w in c]) for relation, c in batch.items()}
        changes = stage.changes(nets)
        delta = counted(stage.core.apply(changes))
        stage.core.settle(changes)
        undone = counted(stage.core.undo(changes))
        stage.core.settle(changes, -1)
        assert undone == Counter({row: -weight for row, weight in delta.items()})
        stage.database.apply(batch)
        assert stage.apply(batch) == delta
        stage.settle()


def test_a_core_whose_deltas_are_left_early_can_be_rolled_back() -> None:
    stage = Stage("tree")
    stage.apply({"R": [((1, 2), 1)], "S": []})
    stage.settle()
    changes = stage.changes({"S": zset([(2, 3), (2, 4)], [1, 1])})
    deltas = iter(stage.core.delivered(changes, lambda: None))
    assert next(deltas).num_rows == 2
    stage.core.roll_back()
    assert not list(stage.core.results.tuples())
    assert stage.apply({"S": [((2, 5), 1)]}) == Counter({(1, 2, 5): 1})


def test_a_core_without_live_views_says_nothing_of_a_batch_that_is_undone() -> None:
    stage = Stage("tree")
    changes = stage.changes({"R": zset([(1, 2)], [1]), "S": zset([(2, 3)], [1])})
    assert not list(stage.core.delivered(changes, lambda: None, deltas=False))
    stage.core.settle(changes)
    assert counted(list(map(Zset.copy, stage.core.results.tuples()))) == Counter({(1, 2, 3): 1})
    assert not counted(stage.core.undo(changes))
    stage.core.settle(changes, -1)
    assert not list(stage.core.results.tuples())


def test_codes_of_null_join_nothing() -> None:
    stage = Stage("tree")
    assert not stage.apply({"R": [((1, NULL), 1)], "S": [((NULL, 7), 1)]})


def test_one_core_feeds_another_through_one_dictionary() -> None:
    plan = plans.plan("Q(x, t) :- R(x, y), S(y, t).", {"R": PAIR, "S": {"y": "int64", "t": "string"}})
    memory = memory_of(plan)
    first = core_of(plan, memory)
    query = "Q(x, t, z) :- P(x, t), U(t, z)."
    schema = {"P": {"x": "int64", "t": "string"}, "U": {"t": "string", "z": "int64"}}
    second = core_of(plans.plan(query, schema), memory)
    tag = int(first.state.dictionary.intern(texts(pa.array([b"tag"])), True)[0])
    for net in first.apply(changes_of(coded(first), {"r": zset([(1, 2)], [1]), "s": zset([(2, tag)], [1])})):
        blocks = second.apply(changes_of(coded(second), {"p": net, "u": zset([(tag, 9)], [1])}))
        assert counted(blocks) == Counter({(1, tag, 9): 1})
        assert second.head.decoded(blocks[0])[1].to_pylist() == ["tag"]


def test_a_net_has_each_tuple_once_and_what_goes_first() -> None:
    given = zset([(1, 2), (3, 4), (1, 2), (5, 6), (3, 4)], [1, 2, 1, -1, -2])
    net = given.net()
    assert net.rows.tolist() == [[5, 6], [1, 2]]
    assert net.weights.tolist() == [-1, 2]
    turned = Zset.of_columns(np.ascontiguousarray(net.rows.T), net.weights)
    assert turned.flat().tolist() == net.flat().tolist() == [5, 6, 1, 2]
    assert turned.columns().tolist() == net.columns().tolist() == [[5, 1], [6, 2]]
    assert Zset.gathered([turned, net.negated()], 2).net().rows.tolist() == []
    assert turned.project([1]).rows.tolist() == [[6], [2]]
