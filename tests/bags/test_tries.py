"""The tries of a generic bag's atoms: which there are, how their records are laid out, and who may open them."""

from __future__ import annotations

import numpy as np
import pytest

from crown.bags import generic
from crown.bags.generic import GenericBag
from crown.bags.kernels import layout as L
from crown.bags.protocol import BagSpec
from crown.bags.tries import Tries
from crown.errors import SnapshotError
from crown.store.memory import reserve
from crown.store.zset import Zset
from tests.triangle.test_bags import GENERIC

SQUARE = BagSpec(GENERIC["4-cycle"], ("a", "b", "c", "d"))


def spec_of(name: str) -> BagSpec:
    atoms = GENERIC[name]
    return BagSpec(atoms, tuple(dict.fromkeys(a for atom in atoms for a in atom)))


@pytest.mark.parametrize("name", GENERIC)
def test_every_way_from_a_set_leads_on_to_the_rows(name):
    for trie in Tries(spec_of(name)).tries:
        assert trie.whole(trie.sets[-1])
        for of in trie.sets[:-1]:
            assert trie.leaving(of), "a node is dropped when its first list is empty"
            assert all(of | {v} in trie.sets[trie.sets.index(of) + 1 :] for v in trie.leaving(of))


@pytest.mark.parametrize("name", GENERIC)
def test_every_word_of_a_record_has_one_meaning(name):
    for trie in Tries(spec_of(name)).tries:
        for of in trie.sets:
            words = [*range(L.first_link(len(of), trie.whole(of)))]
            words += [trie.link(above, v) for above, v in trie.incoming(of)]
            for v in trie.leaving(of):
                words += range(trie.field(of, v), trie.field(of, v) + L.LIST_WORDS)
            assert sorted(words) == list(range(trie.words(of)))


def test_searches_share_the_nodes_of_the_sets_that_they_come_by():
    (edges, *_) = Tries(SQUARE).tries
    assert [sorted(of) for of in edges.sets] == [[], ["a"], ["b"], ["a", "b"]]


@pytest.mark.parametrize("long", [("a", "c"), ("b", "c")])
def test_the_shortest_list_is_read(long):
    """Of the lists of c below a row of (a, b), one has a value, the other a thousand."""
    atoms = (("a", "b"), ("a", "c"), ("b", "c"), ("a", "d"), ("b", "d"), ("c", "d"))
    bag = GenericBag(BagSpec(atoms, ("a", "b", "c", "d")), reserve(1 << 22))

    def insert(atom, rows):
        change = Zset(np.array(rows), np.ones(len(rows), np.int64))
        return [block.rows.tolist() for block in bag.apply(atom, change)]

    many = [(1, c) for c in range(1_000)]
    for atom, columns in enumerate(atoms[1:3], 1):
        insert(atom, many if columns == long else [(1, 7)])
    for atom in (3, 4):
        insert(atom, [(1, 8)])
    insert(5, [(7, 8)])
    before = bag.stats()["steps"]
    assert insert(0, [(1, 1)]) == [[[1, 1, 7, 8]]]
    assert bag.stats()["steps"] - before <= 4, "c and d, each once, and the ends of their lists"


def test_a_pair_of_values_is_a_row_and_nothing_else():
    n = 2_000
    rng = np.random.default_rng(5)
    bag = GenericBag(SQUARE, reserve(1 << 22))
    before = bag.stats()["bytes"]
    rows = np.unique(rng.integers(0, 1_000, (n, 2)), axis=0)
    assert not list(bag.apply(0, Zset(rows, np.ones(len(rows), np.int64))))
    found = bag.stats()
    values = len(np.unique(rows[:, 0])) + len(np.unique(rows[:, 1]))
    assert found["rows"] == [len(rows), 0, 0, 0]
    assert found["nodes"] == values + 1, "one per value, and the root"
    assert (found["bytes"] - before) / len(rows) < 130
    assert not list(bag.apply(0, Zset(rows, -np.ones(len(rows), np.int64))))
    assert bag.stats()["nodes"] == 0
    assert bag.stats()["bytes"] == before


def test_a_state_of_another_layout_is_refused_in_a_sentence(monkeypatch):
    arena = reserve(1 << 16)
    GenericBag(SQUARE, arena)
    monkeypatch.setattr(generic, "LAYOUT", generic.LAYOUT + 1)
    with pytest.raises(SnapshotError, match="another version of crown: fill a new view"):
        GenericBag(SQUARE, arena)
