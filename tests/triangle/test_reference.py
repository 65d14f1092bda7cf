"""The readable twin against brute force, einsum and golden cases, for every eps, program and step."""

from __future__ import annotations

import pytest

from ivm_triangle.errors import NegativeMultiplicityError, StaleCursorError
from tests.marks import by_turns
from tests.models.triangle.enumerate import Hop, HopUnion, IndexedSet, Scan, enumerate_results, union
from tests.models.triangle.triangle import Reference
from tests.triangle.oracles import (
    EPSILONS,
    brute_force,
    by_einsum,
    digest,
    golden_parameters,
    project,
    random_stream,
    store,
    swinging_hub,
)

PROGRAMS = [
    ("", "single", "eps"),
    ("", "double", "eps"),
    ("", "single", "sit"),
    ("a", "single", "eps"),
    ("ab", "single", "eps"),
    ("abc", "single", "eps"),
    ("ab", "single", "classical"),
]


def results(state: Reference) -> dict[tuple, int]:
    rows = list(enumerate_results(state))
    assert len({key for key, _ in rows}) == len(rows), "a result came twice"
    return dict(rows)


@pytest.mark.parametrize(("epsilon", "made"), by_turns(EPSILONS, PROGRAMS, share=2))
def test_every_step_equals_brute_force_and_einsum(epsilon, made):
    outputs, partition, strategy = made
    state = Reference(outputs, epsilon, partition, strategy)
    for seed, domain in ((1, 3), (2, 6)):
        rows = [{}, {}, {}]
        for k, x, y, m in random_stream(seed, 70, domain):
            assert state.update(k, x, y, m)
            store(rows, k, x, y, m)
            state.check_invariants()
            want = project(brute_force(rows), outputs)
            assert results(state) == want == by_einsum(rows, outputs)
        undo = [(k, x, y, -m) for k in range(3) for (x, y), m in rows[k].items()]
        state.apply(undo)
        state.check_invariants()
        assert state.size == 0
        assert state.base in (1, 2, 3)
        assert not any(state.views)
        assert not any(nodes for pair in state.nodes for nodes in pair)


@pytest.mark.parametrize(("made", "epsilon"), by_turns(PROGRAMS, (0.25, 0.5, 0.75)))
def test_moved_values_keep_every_view_equal_to_its_definition(made, epsilon):
    outputs, partition, strategy = made
    state = Reference(outputs, epsilon, partition, strategy)
    rows = [{}, {}, {}]
    for k, x, y, m in swinging_hub(14, 6):
        assert state.update(k, x, y, m)
        store(rows, k, x, y, m)
        state.check_invariants()
    assert results(state) == project(brute_force(rows), outputs)
    if strategy != "classical" and epsilon == 0.5:
        assert state.minors > 0
    factor = 3 if sum(state.plan.partitioned) <= 3 else 6
    assert state.moved <= factor * state.flips


@pytest.mark.parametrize(("outputs", "partition", "strategy"), PROGRAMS)
def test_a_load_equals_the_same_updates_one_by_one(outputs, partition, strategy):
    stream = random_stream(7, 200, 6)
    one = Reference(outputs, 0.5, partition, strategy)
    one.apply(stream)
    rows = [(k, x, y, m) for k in range(3) for (x, y), m in one.rows[k].items()]
    bulk = Reference(outputs, 0.5, partition, strategy)
    bulk.load(rows)
    bulk.check_invariants()
    assert bulk.base == 2 * bulk.size + 1
    assert results(bulk) == results(one)


@pytest.mark.parametrize("case", golden_parameters())
@pytest.mark.parametrize("outputs", ["", "a", "ab", "abc", "sit", "double"])
def test_golden(case, outputs):
    plan = {"sit": ("", "single", "sit"), "double": ("", "double", "eps")}.get(outputs, (outputs, "single", "eps"))
    state = Reference(plan[0], 0.5, plan[1], plan[2])
    if case["load"]:
        state.load([("RST".index(r), x, y, m) for r, x, y, m in case["load"]])
    for step in case["steps"]:
        relation, x, y, m = step["op"]
        accepted = all(state.update(k, x, y, m) for k in ((0, 1, 2) if relation == "E" else ("RST".index(relation),)))
        assert accepted == step["ok"]
        assert state.base == step["N"]
        check_golden(step, state.size, results(state), plan[0])
        flags = step.get({"": "heavy_single", "abc": "heavy_single"}.get(outputs, "heavy_double"))
        if flags and outputs in ("", "abc", "double"):
            for k, name in enumerate("RST"):
                for column, heavy in enumerate(flags[name]):
                    assert sorted(v for v, n in state.nodes[k][column].items() if n.heavy) == sorted(heavy)
    state.check_invariants()


def check_golden(step: dict, size: int, result: dict[tuple, int], outputs: str) -> None:
    """Compare a result with what a golden step says about it (in full, or as count and digest)."""
    assert size == step.get("size", size)
    level = len(outputs)
    if level == 0:
        assert result.get((), 0) == step.get("d0", result.get((), 0))
    elif f"d{level}" in step:
        assert sorted([*key, m] for key, m in result.items()) == sorted(step[f"d{level}"])
    elif f"h{level}" in step:
        assert len(result) == step[f"n{level}"]
        assert digest(result) == step[f"h{level}"]


def test_a_delete_below_zero_changes_nothing():
    state = Reference("abc")
    state.apply([(0, 1, 2, 2), (1, 2, 3, 1)])
    before = (dict(state.rows[0]), state.base, state.ops)
    assert not state.update(0, 1, 2, -3)
    assert not state.update(2, 9, 9, -1)
    assert (dict(state.rows[0]), state.base, state.ops) == before
    with pytest.raises(NegativeMultiplicityError, match=r"R\(1, 2\)"):
        state.apply([(0, 1, 2, -3)])
    state.check_invariants()


def test_reading_results_across_an_update_is_refused():
    state = Reference("ab")
    state.apply([(0, 1, 2, 1), (1, 2, 3, 1), (2, 3, 1, 1), (0, 2, 2, 1), (2, 3, 2, 1)])
    rows = enumerate_results(state)
    next(rows)
    state.update(0, 5, 5, 1)
    with pytest.raises(StaleCursorError):
        next(rows)


def test_union_reports_each_element_once_and_stays_at_the_end():
    listings = []
    for elements in ((1, 2, 3), (3, 4), (), (4, 1, 9)):
        listing = IndexedSet()
        for x in elements:
            listing.add(x)
        listings.append(Scan(listing))
    assert sorted(union(listings)) == [1, 2, 3, 4, 9]
    assert all(scan.next() is None for scan in listings)


def test_hop_union_never_loses_a_bucket():
    """The published NEXT loses elements here: it excludes the bucket its own pointer stands on."""
    import random

    for seed in range(800):
        rng = random.Random(seed)
        ids, buckets = IndexedSet(), {}
        for i in range(rng.randint(1, 6)):
            buckets[i] = IndexedSet()
            for x in rng.sample(range(8), rng.randint(1, 8)):
                buckets[i].add(x)
            ids.add(i)
        everything = sorted({x for bucket in buckets.values() for x in bucket})

        def candidates(t, every=seed % 2, of=buckets):
            return [i for i in of if every or t in of[i]]

        hops = HopUnion(ids, buckets.__getitem__, candidates)
        seen = list(iter(hops.next, None))
        assert sorted(seen) == everything
        assert len(seen) == len(everything)


def test_excluded_ranges_stay_maximal():
    listing = IndexedSet()
    for x in range(6):
        listing.add(x)
    hop = Hop(listing)
    for x in (2, 4, 3, 0):
        assert hop.exclude(x)
    assert not hop.exclude(17)
    assert list(iter(hop.next, None)) == [1, 5]
    for x in (5, 1):
        hop.exclude(x)
    assert hop.empty()
