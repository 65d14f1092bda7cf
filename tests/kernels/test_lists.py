"""A group's lists against Python lists, with and without carried values, and groups that are inserted and deleted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crown.engine.kernels import layout
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import CHILDREN, IN_WORD, WIDE, carried_base, carries_words, list_room, room_log
from crown.kernels.memory.tables import LOW32, table_at
from tests.kernels.wrappers import (
    alloc,
    bundle_get,
    check_allocator,
    group_drop,
    halves,
    hash_key,
    list_append,
    list_base,
    list_remove,
    new_arena,
    until_full,
)

ROW, LINK, VALUE = 4, 2, 3  # words of a row here: its position stands in word 2, an attribute in word 3
GROUP = 3  # words of a group without key


@dataclass
class List:
    """The children list of a group in an arena of its own, and the Python list that it should be."""

    carried: int
    arena: np.ndarray = field(default_factory=lambda: new_arena(1 << 15))
    model: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.halves_ = halves(self.arena)
        self.group = int(alloc(self.arena, GROUP))
        self.arena[self.group : self.group + GROUP] = 0

    def append(self, value: int) -> None:
        row = int(alloc(self.arena, ROW))
        self.arena[row + VALUE] = value
        self.rows.append(row)
        at = list_append(self.arena, self.halves_, self.group, CHILDREN, self.carried, row, LINK)
        assert at == len(self.model)
        self.model.append(row)

    def remove(self, at: int) -> None:
        """The last entry takes the place of one that goes."""
        list_remove(self.arena, self.halves_, self.group, CHILDREN, self.carried, at, LINK)
        row, last = self.model[at], self.model.pop()
        if at < len(self.model):
            self.model[at] = last
        A.release(self.arena, row, ROW)
        self.rows.remove(row)

    @property
    def wide(self) -> bool:
        return bool(list_room(self.halves_, self.group, CHILDREN) & WIDE)

    @property
    def room(self) -> int:
        return 1 << int(room_log(list_room(self.halves_, self.group, CHILDREN)))

    def check(self) -> None:
        n, capacity = len(self.model), self.room
        assert self.halves_[2 * self.group + 1] == n <= capacity
        assert capacity == 1 or capacity <= 4 * n
        base = int(list_base(self.halves_, self.group, CHILDREN, self.carried))
        assert self.halves_[base : base + n].tolist() == self.model
        assert [int(self.halves_[2 * (row + LINK) + 1]) for row in self.model] == list(range(n))
        blocks = {self.group: GROUP, **dict.fromkeys(self.rows, ROW)}
        if capacity > 1:
            block = int(self.halves_[2 * self.group])
            blocks[block] = capacity // 2
            if self.carried != A.PLAIN:
                blocks[block] += capacity if self.wide else capacity // 2
                assert carries_words(self.halves_, self.group, CHILDREN) == self.wide
                words = self.arena if self.wide else self.halves_
                first = int(carried_base(self.halves_, self.group, CHILDREN, self.carried))
                values = [int(self.arena[row + VALUE]) for row in self.model]
                assert words[first : first + n].tolist() == values
                assert self.wide or all(-(2**31) <= value < 2**31 for value in values)
        check_allocator(self.arena, blocks)


@pytest.mark.parametrize("large", [2**31, 2**31 + 2**26, 2**62], ids=["half words", "a few words", "words"])
@pytest.mark.parametrize("carried", [int(A.PLAIN), VALUE], ids=["plain", "with values"])
@given(st.integers(0, 2**32))
def test_a_list_is_a_list(carried: int, large: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = List(carried)
    for growing in (0.9, 0.5, 0.2):
        for _ in range(40):
            if not rows.model or rng.random() < growing:
                rows.append(rng.randrange(-large, large))
            else:
                rows.remove(rng.randrange(len(rows.model)))
            if len(rows.model) < 5:
                rows.check()
        rows.check()
    while rows.model:
        rows.remove(rng.randrange(len(rows.model)))
        rows.check()
    assert rows.arena[A.H_LIVE] == A.header_words(0) + GROUP, "an empty list has no block of its own"


@pytest.mark.parametrize("carried", [int(A.PLAIN), VALUE], ids=["plain", "with values"])
def test_a_list_doubles_when_it_is_full_and_halves_when_less_than_half_is_left(carried: int) -> None:
    rows = List(carried)
    grown, shrunk = [], []
    for i in range(40):
        rows.append(i)
        grown.append(rows.room)
    assert grown == [1, 2, 4, 4, *[8] * 4, *[16] * 8, *[32] * 16, *[64] * 8]
    while rows.model:
        rows.remove(0)
        shrunk.append((len(rows.model), rows.room))
    assert [a for a, b in zip(shrunk[1:], shrunk, strict=False) if a[1] != b[1]] == [
        (28, 32),
        (14, 16),
        (6, 8),
        (3, 4),
        (1, 2),
        (0, 1),
    ]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, -(2**63)])
def test_a_list_is_wide_from_the_first_value_that_needs_it_until_it_is_back_in_its_field(value: int) -> None:
    for before in (0, 1, 2, 3, 40):
        rows = List(VALUE)
        for small in range(before):
            rows.append(small)
        assert not rows.wide
        rows.append(value)
        rows.append(1)
        rows.check()
        assert rows.wide
        while len(rows.model) > 2:
            rows.remove(len(rows.model) - 2)
            rows.check()
            assert rows.wide, "also when the value has gone"
        rows.remove(1)
        rows.remove(0)
        rows.append(2**31 - 1)
        rows.append(-(2**31))
        rows.check()
        assert not rows.wide


def test_a_list_that_cannot_grow_refuses_and_changes_nothing() -> None:
    rows = List(VALUE, new_arena(1 << 10))
    before = until_full(rows.arena, lambda: rows.append(1))
    used = int(before[A.H_TOP])
    if len(rows.rows) > len(rows.model):  # the row itself had room
        A.release(rows.arena, rows.rows.pop(), ROW)
    assert np.array_equal(rows.arena[A.header_words(0) : used], before[A.header_words(0) : used])
    rows.check()


NODE = 1
TABLE = int(table_at(0))
SHIFTS = (0, 4)


def _plan(k: int) -> np.ndarray:
    """The plan array of a node whose edge has a key of ``k`` words, and the second group of an index of two edges."""
    index = layout.P_NODES + layout.ND * (NODE + 1)
    groups = [word for shift in SHIFTS for word in (shift, IN_WORD)]
    words = [TABLE, k, k + 4 * len(SHIFTS), len(SHIFTS), index + 5, *groups, *range(k)]
    plan = np.zeros(index + len(words), np.int64)
    plan[index:] = words
    d = layout.P_NODES + layout.ND * NODE
    plan[layout.P_IDENTITY] = len(plan) - k
    plan[d + layout.N_KEY], plan[d + layout.N_INDEX], plan[d + layout.N_SHIFT] = k, index, SHIFTS[1]
    plan[d + layout.N_REFERENCES] = IN_WORD
    return plan


def _index(plan: np.ndarray) -> int:
    return int(plan[layout.P_NODES + layout.ND * NODE + layout.N_INDEX])


@pytest.mark.parametrize("k", [1, 3])
def test_a_bundle_is_there_as_long_as_one_side_of_an_edge_refers_to_a_group_of_it(k: int) -> None:
    arena = new_arena(1 << 15, tables_=1)
    halves_, plan = halves(arena), _plan(k)
    identity = int(plan[layout.P_IDENTITY])
    rng = random.Random(k)
    bundles: dict[tuple[int, ...], int] = {}
    initial = int(arena[A.H_LIVE])
    for _ in range(300):
        key = tuple(rng.randrange(4) for _ in range(k))
        source = np.array(key, np.int64)
        tag = np.int64(hash_key(arena, plan, identity, k, source, 0))
        bundle = int(bundle_get(arena, halves_, plan, _index(plan), tag, source, 0, identity))
        assert bundles.setdefault(key, bundle) == bundle, "one bundle per key"
        assert tuple(arena[bundle : bundle + k].tolist()) == key
        used = rng.choice([(0, 0), (1, 0), (0, 1), (2, 2)])
        g = bundle + rng.choice(SHIFTS)
        halves_[2 * (g + k + 1) + 1], halves_[2 * (g + k) + IN_WORD] = used
        others = [halves_[2 * (bundle + s + k) + half] for s in SHIFTS for half in (3, IN_WORD)]
        group_drop(arena, halves_, plan, NODE, bundle + SHIFTS[1])
        if not any(others):
            del bundles[key]
        assert arena[TABLE + A.T_COUNT] == len(bundles)
    slots = arena[int(arena[TABLE + A.T_SLOTS]) :][: int(arena[TABLE + A.T_CAPACITY])]
    assert sorted((slots[slots != 0] & LOW32).tolist()) == sorted(bundles.values())
    for bundle in bundles.values():
        arena[bundle + k : bundle + k + 8] = 0
        group_drop(arena, halves_, plan, NODE, bundle + SHIFTS[1])
    assert int(arena[A.H_LIVE]) == initial


def test_a_new_bundle_has_the_key_and_empty_groups() -> None:
    arena, plan = new_arena(1 << 12, tables_=1), _plan(2)
    source = np.array([5, -3], np.int64)
    identity = int(plan[layout.P_IDENTITY])
    tag = np.int64(hash_key(arena, plan, identity, 2, source, 0))
    bundle = int(bundle_get(arena, halves(arena), plan, _index(plan), tag, source, 0, identity))
    assert arena[bundle : bundle + 10].tolist() == [5, -3, *[0] * 8]
