"""The kernels against their readable twin, the oracles and golden cases, with every invariant after every update."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ivm_triangle import NegativeMultiplicityError, StaleCursorError, Triangle, TriangleError
from ivm_triangle.invariants import contents
from tests.marks import by_turns
from tests.models.triangle.enumerate import enumerate_results
from tests.models.triangle.triangle import Reference
from tests.triangle.oracles import (
    EPSILONS,
    brute_force,
    by_einsum,
    golden_parameters,
    project,
    random_stream,
    store,
    swinging_hub,
)
from tests.triangle.test_reference import PROGRAMS, check_golden

NAMES = ("outputs", "partition", "strategy")


def results(triangle: Triangle) -> dict[tuple, int]:
    rows = [tuple(row.values()) for batch in triangle.results() for row in batch.to_pylist()]
    assert len({row[:-1] for row in rows}) == len(rows), "a result came twice"
    return {row[:-1]: row[-1] for row in rows}


def step(triangle: Triangle, *update: int) -> None:
    triangle.apply_codes(np.array([update], dtype=np.int64))


@pytest.mark.parametrize(("epsilon", "made"), by_turns(EPSILONS, PROGRAMS, share=2))
def test_every_step_equals_the_oracles_and_the_twin(epsilon, made):
    outputs, partition, strategy = made
    triangle, reference = (make(outputs, epsilon, partition, strategy) for make in (Triangle, Reference))
    rows = [{}, {}, {}]
    for update in random_stream(11, 60, 5):
        step(triangle, *update)
        reference.update(*update)
        store(rows, *update)
        triangle.check_invariants()
        want = project(brute_force(rows), outputs)
        assert results(triangle) == want == by_einsum(rows, outputs) == dict(enumerate_results(reference))
        stats = triangle.stats()
        assert (stats["N"], stats["major_rebalancings"]) == (reference.base, reference.majors)
    for k in range(3):
        for (x, y), m in rows[k].items():
            step(triangle, k, x, y, -m)
    triangle.check_invariants()
    stats = triangle.stats()
    assert stats["size"] == 0
    assert stats["N"] in (1, 2, 3)
    assert not any(stats["views"].values())
    assert not any(stats["heavy"].values())
    assert not any(contents(triangle._state).nodes[k][c] for k in range(3) for c in range(2))


@pytest.mark.parametrize(("made", "epsilon"), by_turns(PROGRAMS, (0.25, 0.5, 0.75)))
def test_moved_values_agree_with_the_twin(made, epsilon):
    outputs, partition, strategy = made
    triangle, reference = (make(outputs, epsilon, partition, strategy) for make in (Triangle, Reference))
    for i, update in enumerate(swinging_hub(14, 6)):
        step(triangle, *update)
        reference.update(*update)
        if i % 3 == 0:
            triangle.check_invariants()
            assert results(triangle) == dict(enumerate_results(reference))
    stats = triangle.stats()
    assert (stats["minor_rebalancings"], stats["tuples_moved"]) == (reference.minors, reference.moved)
    copy = contents(triangle._state)
    assert copy.rows == reference.rows
    for k in range(3):
        for column in range(2):
            flags = {v: node.heavy for v, node in reference.nodes[k][column].items()}
            assert {v: node.heavy for v, node in copy.nodes[k][column].items()} == flags


@pytest.mark.parametrize("case", golden_parameters())
@pytest.mark.parametrize("outputs", ["", "a", "ab", "abc", "sit", "double"])
def test_golden(case, outputs):
    plan = {"sit": ("", "single", "sit"), "double": ("", "double", "eps")}.get(outputs, (outputs, "single", "eps"))
    triangle = Triangle(plan[0], 0.5, plan[1], plan[2])
    if case["load"]:
        triangle.apply_codes(np.array([("RST".index(r), x, y, m) for r, x, y, m in case["load"]]))
    for i, line in enumerate(case["steps"]):
        relation, x, y, m = line["op"]
        try:
            for k in (0, 1, 2) if relation == "E" else ("RST".index(relation),):
                step(triangle, k, x, y, m)
            assert line["ok"]
        except NegativeMultiplicityError:
            assert not line["ok"]
        stats = triangle.stats()
        assert stats["N"] == line["N"]
        if "d0" in line and (i % 7 == 0 or len(case["steps"]) < 100):
            check_golden(line, stats["size"], results(triangle), plan[0])
    triangle.check_invariants()


@pytest.mark.parametrize(NAMES, PROGRAMS)
def test_batches_equal_single_updates_in_any_split(outputs, partition, strategy):
    stream = random_stream(5, 240, 7)
    for size in (1, 7, 60, 240):
        triangle = Triangle(outputs, 0.5, partition, strategy)
        rows = [{}, {}, {}]
        for start in range(0, len(stream), size):
            batch = stream[start : start + size]
            triangle.apply_codes(np.array(batch))
            for update in batch:
                store(rows, *update)
            triangle.check_invariants()
        assert results(triangle) == project(brute_force(rows), outputs)


updates = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.integers(-2, 3)), min_size=1, max_size=40
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(updates, st.sampled_from(PROGRAMS), st.sampled_from(EPSILONS), st.integers(1, 6))
def test_any_sequence_of_batches(stream, plan, epsilon, size):
    triangle = Triangle(plan[0], epsilon, plan[1], plan[2])
    rows = [{}, {}, {}]
    for start in range(0, len(stream), size):
        batch = stream[start : start + size]
        before = results(triangle)
        trial = [dict(relation) for relation in rows]
        for k, x, y, m in batch:
            trial[k][x, y] = trial[k].get((x, y), 0) + m
        if any(m < 0 for relation in trial for m in relation.values()):
            with pytest.raises(NegativeMultiplicityError):
                triangle.apply_codes(np.array(batch))
            assert results(triangle) == before
        else:
            rows = [{xy: m for xy, m in relation.items() if m} for relation in trial]
            triangle.apply_codes(np.array(batch))
        triangle.check_invariants()
        assert results(triangle) == project(brute_force(rows), plan[0])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(updates, st.sampled_from(PROGRAMS), st.randoms(use_true_random=False))
def test_rotation_and_renaming_of_values_change_nothing(stream, plan, rng):
    stream = [(k, x, y, abs(m)) for k, x, y, m in stream if m]
    names = rng.sample(range(-(10**12), 10**12), 4)
    plain, renamed, rotated = (Triangle(plan[0], 0.5, plan[1], plan[2]) for _ in range(3))
    for k, x, y, m in stream:
        step(plain, k, x, y, m)
        step(renamed, k, names[x], names[y], m)
        step(rotated, (k + 1) % 3, x, y, m)
    want = results(plain)
    assert results(renamed) == {(*(names[v] for v in key),): m for key, m in want.items()}
    assert rotated.count() == plain.count()
    rotated.check_invariants()


@pytest.mark.parametrize("outputs", ["", "abc"])
def test_thresholds_that_follow_the_rates_change_no_result(outputs):
    triangle, rows = Triangle(outputs, "auto", strategy="eps"), [{}, {}, {}]
    rng = np.random.default_rng(5)
    thetas = set()
    for i in range(700):
        k = int(rng.choice(3, p=[0.9, 0.05, 0.05] if i < 400 else [0.05, 0.05, 0.9]))
        x, y = (int(v) for v in rng.integers(0, 12, 2))
        m = -1 if (x, y) in rows[k] and rng.random() < 0.6 else 1
        store(rows, k, x, y, m)
        triangle.replay_codes(np.array([(k, x, y, m)]))
        stats = triangle.stats()
        thetas.add(tuple(round(theta / stats["N"] ** 0.5, 3) for theta in stats["theta"].values()))
        if i % 10 == 0:
            triangle.check_invariants()
            assert results(triangle) == project(brute_force(rows), outputs)
    assert len(thetas) >= 3, "thresholds followed"


def test_only_programs_with_one_kind_of_scan_follow_the_rates():
    for options in ({"outputs": "a"}, {"outputs": "ab"}, {"partition": "double", "strategy": "eps"}):
        with pytest.raises(TriangleError, match="give a number"):
            Triangle(epsilon="auto", **options)
    with pytest.raises(TriangleError, match='or "auto"'):
        Triangle(epsilon="best")
    assert not Triangle(epsilon="auto").plan.adaptive, "set intersection tables scan the shorter list anyway"


def test_a_batch_moves_a_value_once_and_rebalances_once():
    triangle = Triangle(strategy="eps")
    triangle.apply_codes(np.array([(k, i, 100 * k + i, 1) for k in range(3) for i in range(200)]))
    hub = np.array([(0, 7, 1000 + i, 1) for i in range(60)])
    triangle.apply_codes(hub)
    before = triangle.stats()
    assert before["heavy"]["R.0"] == 1
    other = np.add(hub, [0, 0, 500, 0])
    triangle.apply_codes(np.concatenate([hub * [1, 1, 1, -1], other]))  # degree 61 -> 1 -> 61
    triangle.check_invariants()
    assert triangle.stats()["minor_rebalancings"] == before["minor_rebalancings"]
    triangle.apply_codes(other * [1, 1, 1, -1])
    triangle.check_invariants()
    assert triangle.stats()["minor_rebalancings"] == before["minor_rebalancings"] + 1
    assert triangle.stats()["heavy"]["R.0"] == 0
    rows = np.array([(k, i, 100 * k + i, 1) for k in range(3) for i in range(200)])
    stored, majors = 600, before["major_rebalancings"]
    for size, base in ((310, before["N"]), (60, 121)):  # the second one would have to halve N twice
        assert stored - size < triangle.stats()["N"] / 4, "no bulk load"
        triangle.apply_codes(rows[size:stored] * [1, 1, 1, -1])
        triangle.check_invariants()
        stored = size
        assert triangle.stats()["N"] == base
    assert triangle.stats()["major_rebalancings"] == majors + 1


def test_lists_of_like_length_are_intersected_by_marks_with_multiplicities():
    rng = np.random.default_rng(2)
    triangle, rows = Triangle(), [{}, {}, {}]
    for _ in range(400):
        k, x, y = (int(v) for v in rng.integers((3, 9, 9)))
        m = int(rng.integers(1, 4))
        if rng.random() < 0.3 and (x, y) in rows[k]:
            m = -rows[k][x, y]
        store(rows, k, x, y, m)
        triangle.replay_codes(np.array([(k, x, y, m)]))
        triangle.check_invariants()
        assert triangle.count() == sum(project(brute_force(rows), "").values())


@pytest.mark.parametrize("rows", [[(3, 0, 0, 1)], [(-1, 0, 0, 1)], [(0, 0, 1)]])
def test_codes_of_no_relation_are_refused(rows):
    for call in (Triangle().apply_codes, Triangle().replay_codes):
        with pytest.raises(TriangleError):
            call(np.array(rows))


def test_results_refuse_to_go_on_after_an_update():
    triangle = Triangle("abc")
    triangle.apply_codes(np.array([(k, i, i, 1) for k in range(3) for i in range(3)]))
    rows = triangle.results()
    next(rows)
    step(triangle, 0, 9, 9, 1)
    with pytest.raises(StaleCursorError, match="call results"):
        next(rows)
