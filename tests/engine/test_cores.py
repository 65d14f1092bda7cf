"""Cores in codes, as a program of stages uses them: nets in, nets out, one dictionary, settle or take back."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import plans
from crown.engine.core import Core
from crown.errors import CrownError, UnusableStateError
from crown.ingest.batch import RelationChange
from crown.ingest.coded import CodedPreparer
from crown.ingest.masks import EVERY
from crown.store.arrow_buffers import texts
from crown.store.codec import NULL
from crown.store.zset import Zset
from tests.engine.made import core_of, memory_of
from tests.oracles import brute_force
from tests.oracles.database import Database

PAIR = {"x": "int64", "y": "int64"}
QUERIES = {
    "tree": ("SELECT DISTINCT r.x, r.y, s.y AS z FROM R r, S s WHERE r.y = s.x", {"R": PAIR, "S": PAIR}),
    "predicate": ("SELECT DISTINCT r.x, r.y, s.y AS z FROM R r, S s WHERE r.y = s.x AND r.x>2", {"R": PAIR, "S": PAIR}),
    "counted": ("SELECT DISTINCT r.x, s.y AS z FROM R r, S s WHERE r.y = s.x", {"R": PAIR, "S": PAIR}),
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


def coded(core: Core) -> CodedPreparer:
    return CodedPreparer(core.state.plan, core.state.dictionary.extern, {})


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
        return counted([block.copy() for block in self.core.apply(self.changes(nets))])

    def changes(self, nets: dict[str, Zset]) -> tuple[RelationChange, ...]:
        return self.coded.changes({name.lower(): (net, EVERY) for name, net in nets.items()})

    def result(self) -> set[tuple[int, ...]]:
        return brute_force.results(self.plan, self.database)


@pytest.mark.parametrize("name", QUERIES)
def test_nets_in_codes_give_the_exact_change_and_can_be_taken_back(name: str) -> None:
    rng, stage = random.Random(name), Stage(name)
    for _ in range(25):
        batch = stage.drawn(rng)
        before = stage.result()
        kept = {relation: rows.copy() for relation, rows in stage.database.rows.items()}
        stage.database.apply(batch)
        wanted = Counter(dict.fromkeys(stage.result() - before, 1) | dict.fromkeys(before - stage.result(), -1))
        assert stage.apply(batch) == wanted
        if rng.random() < 0.4:
            stage.core.take_back()
            stage.database.rows = kept
        else:
            stage.core.settle()
        assert counted(list(map(Zset.copy, stage.core.results.tuples()))) == Counter(stage.result())


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_that_stands_is_undone_and_says_what_that_changed(name: str) -> None:
    rng, stage = random.Random(name), Stage(name)
    for _ in range(6):
        batch = stage.drawn(rng)
        nets = {relation: zset([row for row, _ in c], [w for _, w in c]) for relation, c in batch.items()}
        changes = stage.changes(nets)
        delta = counted([block.copy() for block in stage.core.apply(changes)])
        stage.core.settle()
        undone = counted([stage.core.undo(changes, stage.core.missing)])
        assert undone == Counter({row: -weight for row, weight in delta.items()})
        stage.database.apply(batch)
        assert stage.apply(batch) == delta
        stage.core.settle()


def test_a_core_whose_blocks_are_left_early_is_as_before() -> None:
    stage = Stage("tree")
    stage.apply({"R": [((1, 2), 1)], "S": []})
    stage.core.settle()
    blocks = stage.core.apply(stage.changes({"S": zset([(2, 3), (2, 4)], [1, 1])}))
    assert len(next(blocks)) == 2
    blocks.close()
    assert not list(stage.core.results.tuples())
    assert stage.apply({"S": [((2, 5), 1)]}) == Counter({(1, 2, 5): 1})


def test_between_apply_and_settle_a_core_takes_nothing_else() -> None:
    stage = Stage("tree")
    stage.apply({"R": [((1, 2), 1)]})
    with pytest.raises(UnusableStateError):
        stage.core.apply(())
    stage.core.settle()
    assert stage.apply({"S": [((2, 3), 1)]}) == Counter({(1, 2, 3): 1})


def test_codes_of_null_join_nothing_and_unknown_relations_are_refused() -> None:
    stage = Stage("tree")
    assert not stage.apply({"R": [((1, NULL), 1)], "S": [((NULL, 7), 1)]})
    stage.core.settle()
    with pytest.raises(CrownError, match="does not read the relation 't'"):
        stage.changes({"T": zset([(1, 2)], [1])})


def test_one_core_feeds_another_through_one_dictionary() -> None:
    plan = plans.plan("Q(x, t) :- R(x, y), S(y, t).", {"R": PAIR, "S": {"y": "int64", "t": "string"}})
    memory = memory_of(plan)
    first = core_of(plan, memory)
    query = "Q(x, t, z) :- P(x, t), U(t, z)."
    schema = {"P": {"x": "int64", "t": "string"}, "U": {"t": "string", "z": "int64"}}
    second = core_of(plans.plan(query, schema), memory)
    tag = int(first.state.dictionary.intern(texts(pa.array([b"tag"])), True)[0])
    for net in first.apply(
        coded(first).changes({"r": (zset([(1, 2)], [1]), EVERY), "s": (zset([(2, tag)], [1]), EVERY)})
    ):
        blocks = list(second.apply(coded(second).changes({"p": (net, EVERY), "u": (zset([(tag, 9)], [1]), EVERY)})))
        assert counted(blocks) == Counter({(1, tag, 9): 1})
        assert second.head.decoded(blocks[0])[1].to_pylist() == ["tag"]
    second.settle()
    first.settle()


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
