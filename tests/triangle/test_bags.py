"""Bags: the exact change of the result set, against recomputation, for triangles and any other cyclic join."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from crown.bags import generic as generic_module
from crown.bags import protocol as bags
from crown.bags.generic import GenericBag
from crown.bags.protocol import BagError, BagSpec, open_bag
from crown.bags.tries import binding_order
from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.numbers.limbs import MOST
from crown.store.memory import reserve
from crown.store.zset import Zset
from ivm_triangle import bag as bag_module
from ivm_triangle.bag import TriangleBag
from ivm_triangle.invariants import contents
from tests.marks import slow

WORDS = 1 << 22
TRIANGLE = (("a", "b"), ("c", "b"), ("c", "a"))
GENERIC = {
    "triangle": TRIANGLE,
    "4-cycle": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")),
    "4-clique": (("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")),
    "Loomis-Whitney 4": (("a", "b", "c"), ("b", "c", "d"), ("c", "d", "a"), ("d", "a", "b")),
    "4-cycle with a chord and a filter": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c"), ("b",)),
    "shared attribute": (("g", "a", "b"), ("g", "b", "c"), ("g", "c", "a")),
}


def recompute(spec: BagSpec, rows: list[dict]) -> dict[tuple, int]:
    """The join by nested loops, with the weights of its results."""
    results = [({}, 1)]
    for atom, present in zip(spec.atoms, rows, strict=True):
        named = [(dict(zip(atom, row, strict=True)), copies) for row, copies in present.items()]
        results = [
            ({**left, **row}, product * copies)
            for left, product in results
            for row, copies in named
            if all(left.get(a, v) == v for a, v in row.items())
        ]
    return {tuple(result[a] for a in spec.outputs): product if spec.weighted else 1 for result, product in results}


def change(rows: list[tuple], weights: list[int]) -> Zset:
    return Zset(np.array(rows, dtype=np.int64), np.array(weights, dtype=np.int64))


class Follower:
    """Feeds a bag and keeps what its stream says, complaining about every change that is none."""

    def __init__(self, bag) -> None:
        self.bag, self.present = bag, {}
        self.rows = [{} for _ in bag.spec.atoms]

    def apply(self, atom: int, batch: list[tuple], weights: list[int]) -> None:
        missing = np.zeros(len(batch), dtype=np.int64)
        blocks = [block.copy() for block in self.bag.apply(atom, change(batch, weights), missing)]
        for first, second in pairwise(weight for block in blocks for weight in block.weights.tolist()):
            assert (first > 0) <= (second > 0), "deletions come first"
        changed = Counter(row for block in blocks for row in map(tuple, block.rows.tolist()))
        assert self.bag.spec.weighted or not self.bag.repeats
        whole = {row for row, weight in zip(batch, weights, strict=True) if weight < 0}.isdisjoint(
            row for row, weight in zip(batch, weights, strict=True) if weight > 0
        )
        once = whole and not self.bag.repeats and set(self.bag.spec.outputs) == set(self.bag.spec.attributes)
        for block in blocks:
            for row, weight in zip(map(tuple, block.rows.tolist()), block.weights.tolist(), strict=True):
                before = self.present.pop(row, 0)
                assert not once or changed[row] == 1
                assert self.bag.repeats or weight == -before or (weight > 0 and not before)
                if before + weight:
                    self.present[row] = before + weight
        unfound = 0
        for sign in (-1, 1):
            for row, weight in zip(batch, weights, strict=True):
                if weight * sign > 0:
                    total = self.rows[atom].get(row, 0) + weight
                    unfound += max(-total, 0)
                    self.rows[atom][row] = max(total, 0)
                    if total <= 0:
                        del self.rows[atom][row]
        assert missing.sum() == unfound
        asked = Zset(np.array(batch, np.int64), np.ones(len(batch), np.int64))
        assert self.bag.copies(atom, asked).tolist() == [self.rows[atom].get(row, 0) for row in batch]

    def check(self) -> None:
        assert self.present == recompute(self.bag.spec, self.rows)
        listed = [
            (tuple(row), weight)
            for block in self.bag.results()
            for row, weight in zip(block.rows.tolist(), block.weights.tolist(), strict=True)
        ]
        assert len(listed) == len(set(listed))
        assert dict(listed) == self.present
        assert len(self.bag) == sum(map(len, self.rows))
        self.bag.check_invariants()


def run(follower: Follower, rng: random.Random, batches: int, domain: int, every: int = 1) -> None:
    for i in range(batches):
        atom = rng.randrange(len(follower.rows))
        width = len(follower.bag.spec.atoms[atom])
        size = rng.randint(1, 6)
        batch = [tuple(rng.randrange(domain) for _ in range(width)) for _ in range(size)]
        known = sorted(follower.rows[atom])
        if known and rng.random() < 0.3:
            batch = rng.choices(known, k=size)
        follower.apply(atom, batch, [rng.choice((1, 1, 2, -1, -2)) for _ in batch])
        if i % every == 0:
            follower.check()


@pytest.mark.parametrize("outputs", ["abc", "cab", "ab", "cb", "b", ""])
def test_triangle_bag_follows_recomputation(outputs):
    for seed in range(3):
        run(Follower(TriangleBag(BagSpec(TRIANGLE, tuple(outputs)), reserve(WORDS))), random.Random(seed), 60, 5)


@pytest.mark.parametrize("rows", [1, 7, 8192])
@pytest.mark.parametrize("kind", [TriangleBag, GenericBag])
def test_results_have_the_product_of_the_copies_as_their_weight(kind, rows, monkeypatch):
    for module in (bag_module, generic_module):
        monkeypatch.setattr(module, "BLOCK_ROWS", rows)
    for seed, outputs in enumerate(("abc", "bca")):
        spec = BagSpec(TRIANGLE, tuple(outputs), weighted=True)
        run(Follower(kind(spec, reserve(WORDS))), random.Random(seed), 60, 4)
    wide = (("x", "a", "b"), ("b", "c"), ("c", "a", "x"))
    run(Follower(kind(BagSpec(wide, tuple("xabc"), weighted=True), reserve(WORDS))), random.Random(2), 40, 3)


@pytest.mark.parametrize("name", GENERIC)
def test_generic_bag_weighs_results(name):
    atoms = GENERIC[name]
    everything = tuple(dict.fromkeys(a for atom in atoms for a in atom))
    for filtered in (frozenset(), frozenset({len(atoms) - 1})):
        spec = BagSpec(atoms, everything, filtered, weighted=True)
        run(Follower(GenericBag(spec, reserve(WORDS))), random.Random(name), 40, 3, every=4)


@pytest.mark.parametrize("kind", [TriangleBag, GenericBag])
def test_a_weight_that_would_leave_63_bits_is_the_largest(kind):
    bag = kind(BagSpec(TRIANGLE, tuple("abc"), weighted=True), reserve(WORDS))
    many = 1 << 30
    for atom in (0, 1):
        assert not list(bag.apply(atom, change([(1, 1)], [many])))
    for weight in (many, -many, many):
        (block,) = bag.apply(2, change([(1, 1)], [weight]))
        assert block.weights.tolist() == [MOST if weight > 0 else -MOST]
    (block,) = bag.apply(2, change([(1, 1)], [7 - many]))
    assert bag.repeats
    assert block.weights.tolist() == [-MOST]
    (block,) = bag.results()
    assert block.weights.tolist() == [7 << 60]


@pytest.mark.parametrize("kind", [TriangleBag, GenericBag])
def test_a_quiet_change_yields_nothing_and_is_complete(kind):
    for weighted in (False, True):
        follower = Follower(kind(BagSpec(TRIANGLE, tuple("abc"), weighted=weighted), reserve(WORDS)))
        run(follower, random.Random(8), 20, 3)
        for atom, rows in enumerate(follower.rows):
            rows = {(2, 2): 2, **dict.fromkeys(list(rows)[:2], -1)}
            assert not list(follower.bag.apply(atom, change(list(rows), list(rows.values())), quiet=True))
            for row, weight in rows.items():
                follower.rows[atom][row] = follower.rows[atom].get(row, 0) + weight
                if follower.rows[atom][row] <= 0:
                    del follower.rows[atom][row]
        follower.present = recompute(follower.bag.spec, follower.rows)
        follower.check()


@pytest.mark.parametrize("outputs", ["abc", "a", "ca"])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_triangle_bag_resumes_in_any_small_buffer(outputs, rows, monkeypatch):
    monkeypatch.setattr(bag_module, "BLOCK_ROWS", rows)
    follower = Follower(TriangleBag(BagSpec(TRIANGLE, tuple(outputs)), reserve(WORDS)))
    run(follower, random.Random(4), 40, 4)


def test_wedge_lists_serve_values_heavy_on_both_ends():
    follower = Follower(TriangleBag(BagSpec(TRIANGLE, ("a", "b", "c")), reserve(WORDS)))
    n = 40
    follower.apply(1, [(c, 0) for c in range(n)], [1] * n)  # b = 0 heavy
    follower.apply(2, [(c, 0) for c in range(n)], [1] * n)  # a = 0 heavy
    follower.check()
    assert any(len(wedges) == n for view in contents(follower.bag._state).views for wedges in view.values())
    before = follower.bag.stats()["operations"]
    for weight in (1, -1, 1, 1, -1, -1):
        follower.apply(0, [(0, 0)], [weight])
        follower.check()
    assert follower.bag.stats()["minor_rebalancings"] + follower.bag.stats()["major_rebalancings"] > 0
    assert follower.bag.stats()["operations"] - before < 6 * (n + 20)
    follower.apply(1, [(c, 0) for c in range(n)], [-1] * n)
    follower.check()
    assert follower.present == {}


@pytest.mark.parametrize("outputs", ["abc", slow("a"), slow("ca"), slow("")])
def test_half_full_of_wedges_a_bag_keeps_their_number_only(outputs):
    spec, n = BagSpec(TRIANGLE, tuple(outputs)), 200
    follower = Follower(TriangleBag(spec, reserve(1 << 17)))
    follower.apply(0, [(0, 0), (1, 0)], [1, 1])
    hubs = [(c, v) for c in range(n) for v in range(8)]
    follower.apply(1, hubs, [1] * len(hubs))
    assert not follower.bag.thin
    for half in (hubs[:1000], hubs[1000:]):
        follower.apply(2, half, [1] * len(half))
    assert follower.bag.thin
    follower.check()
    assert "linear space" in follower.bag.bound
    used = follower.bag.stats()["bytes"]
    for weight in (1, -3, 3):
        follower.apply(0, [(0, 0), (3, 4), (77, 0)], [weight] * 3)
        follower.check()
    run(follower, random.Random(1), 5, 70, every=4)
    arena = reserve(1 << 18)
    arena[: len(follower.bag.words)] = follower.bag.words
    follower.bag = TriangleBag(spec, arena)
    assert follower.bag.thin
    follower.check()
    follower.apply(1, hubs, [-1] * len(hubs))
    follower.check()
    wide = TriangleBag(spec, reserve(WORDS))
    for atom in (1, 2):
        list(wide.apply(atom, change(hubs, [1] * len(hubs))))
    assert not wide.thin
    assert used < wide.stats()["bytes"] / 2


def test_composite_keys():
    spec = BagSpec((("x", "a", "b"), ("b", "c", "u", "v"), ("v", "a", "c", "x", "u")), ("c", "x", "a", "v", "b", "u"))
    follower = Follower(TriangleBag(spec, reserve(WORDS)))
    run(follower, random.Random(3), 90, 2, every=3)
    for atom, rows in enumerate(follower.rows):
        if rows:
            follower.apply(atom, list(rows), [-m for m in rows.values()])
    follower.check()
    assert follower.present == {}


@pytest.mark.parametrize("name", GENERIC)
def test_generic_bag_follows_recomputation(name):
    atoms = GENERIC[name]
    everything = tuple(dict.fromkeys(a for atom in atoms for a in atom))
    for outputs in (everything, everything[::-1], everything[:2], everything[-1:], ()):
        run(Follower(GenericBag(BagSpec(atoms, outputs), reserve(WORDS))), random.Random(len(outputs)), 40, 3, every=4)


@pytest.mark.parametrize("rows", [1, 3])
def test_generic_bag_resumes_in_any_small_buffer(rows, monkeypatch):
    monkeypatch.setattr(generic_module, "BLOCK_ROWS", rows)
    run(Follower(GenericBag(BagSpec(GENERIC["4-cycle"], tuple("abcd")), reserve(WORDS))), random.Random(9), 40, 3)


def test_both_bags_agree_on_triangles():
    rng = random.Random(8)
    spec = BagSpec(TRIANGLE, ("a", "b", "c"))
    one, two = Follower(TriangleBag(spec, reserve(WORDS))), Follower(GenericBag(spec, reserve(WORDS)))
    for _ in range(60):
        atom = rng.randrange(3)
        batch = [(rng.randrange(9), min(rng.randrange(9), rng.randrange(9))) for _ in range(20)]
        weights = [rng.choice((1, 1, -1)) for _ in batch]
        one.apply(atom, batch, weights)
        two.apply(atom, batch, weights)
        assert one.present == two.present


@pytest.mark.parametrize("kind", [TriangleBag, GenericBag])
def test_a_copy_of_the_words_is_a_snapshot(kind):
    spec = BagSpec(TRIANGLE, ("a", "b", "c"))
    follower = Follower(kind(spec, reserve(WORDS)))
    run(follower, random.Random(5), 30, 4, every=30)
    arena = reserve(WORDS * 2)
    arena[: len(follower.bag.words)] = follower.bag.words
    follower.bag = kind(spec, arena)
    follower.check()
    run(follower, random.Random(6), 30, 4)
    with pytest.raises(SnapshotError, match="belongs to"):
        kind(BagSpec(TRIANGLE, ("a", "b")), arena)
    arena[0] = 7
    with pytest.raises(SnapshotError, match="not the complete state"):
        kind(spec, arena)


@pytest.mark.parametrize("kind", [TriangleBag, GenericBag])
def test_an_exhausted_arena_is_an_error_that_says_so(kind):
    bag = kind(BagSpec(TRIANGLE, ("a", "b", "c")), reserve(4096))
    rows = [(i, i) for i in range(4000)]
    with pytest.raises(MemoryBudgetError):
        list(bag.apply(0, change(rows, [1] * len(rows))))


def test_shapes_that_are_no_triangle_are_refused_with_a_way_out():
    for atoms in ((("a", "b"), ("b", "c")), GENERIC["shared attribute"], (("a", "b"), ("b", "c"), ("c", "a", "d"))):
        with pytest.raises(BagError, match="generic"):
            TriangleBag(BagSpec(atoms, ("a",)), reserve(WORDS))
    with pytest.raises(BagError, match="composite"):
        TriangleBag(BagSpec((("a", "b"), ("b", "c", "d"), ("c", "d", "a")), ("a", "c")), reserve(WORDS))


def test_bounds_for_explain():
    def bound(name: str) -> str:
        return GenericBag(BagSpec(GENERIC[name], ("a",)), reserve(WORDS)).bound

    assert "O(N^1)" in bound("4-cycle")
    assert "O(N^1)" in bound("4-clique")
    assert "sqrt N" in TriangleBag(BagSpec(TRIANGLE, ("a",)), reserve(WORDS)).bound
    assert binding_order(BagSpec(GENERIC["4-cycle"], ()), 0) == ["c", "d"]


def test_modules_are_found_by_entry_point(monkeypatch):
    class Entry:
        name, value = "triangle", "ivm_triangle.bag:TriangleBag"

        def load(self):
            return TriangleBag

    monkeypatch.setattr(bags, "entry_points", lambda group: [Entry()] if group == "crown.bags" else [])
    assert isinstance(open_bag("triangle", BagSpec(TRIANGLE, ("a",)), reserve(WORDS)), TriangleBag)
    with pytest.raises(BagError, match="'pentagon'"):
        open_bag("pentagon", BagSpec(TRIANGLE, ("a",)), reserve(WORDS))
