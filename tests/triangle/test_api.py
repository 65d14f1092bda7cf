"""The public class: tables in, record batches out, strings and composite keys, errors that change nothing."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crown.errors import CrownError, MemoryBudgetError, UnusableStateError
from ivm_triangle import NegativeMultiplicityError, Triangle, TriangleError


def rows(triangle: Triangle) -> list[dict]:
    return sorted((row for batch in triangle.results() for row in batch.to_pylist()), key=str)


def test_readme_example():
    triangle = Triangle(outputs="ab")
    triangle.apply(
        {
            "R": pa.table({"a": [1, 1], "b": [2, 3]}),
            "S": pd.DataFrame({"b": [2, 3], "c": [7, 7]}),
            "T": [{"c": 7, "a": 1, "_weight": 2}],
        }
    )
    assert rows(triangle) == [{"a": 1, "b": 2, "multiplicity": 2}, {"a": 1, "b": 3, "multiplicity": 2}]
    assert triangle.count() == 4
    triangle.apply({"S": {"b": [2], "c": [7], "_weight": [-1]}})
    assert rows(triangle) == [{"a": 1, "b": 3, "multiplicity": 2}]
    triangle.check_invariants()


@pytest.mark.parametrize("outputs", ["", "a", "ab", "abc"])
def test_strings_and_dates_come_back_as_they_went_in(outputs):
    day = dt.date(2024, 2, 29)
    triangle = Triangle(outputs)
    triangle.apply(
        {
            "R": {"who": ["ann", "bob"], "day": [day, day]},
            "S": {"day": [day], "n": [5]},
            "T": {"n": [5], "who": ["ann"]},
        }
    )
    full = {"a": "ann", "b": day, "c": 5}
    assert rows(triangle) == [{**{v: full[v] for v in outputs}, "multiplicity": 1}]
    triangle.check_invariants()


def test_composite_keys():
    triangle = Triangle("ab", columns={"R": (("x", "y"), "b"), "S": ("b", "c"), "T": ("c", ("x", "y"))})
    triangle.apply(
        {
            "R": {"x": [1, 1], "y": ["p", "q"], "b": [1, 1]},
            "S": {"b": [1], "c": [1]},
            "T": {"c": [1, 1], "x": [1, 2], "y": ["q", "p"]},
        }
    )
    assert rows(triangle) == [{"a0": 1, "a1": "q", "b": 1, "multiplicity": 1}]


def test_self_join_counts_closed_walks():
    triangle = Triangle(edges="E")
    edges = [(0, 1), (1, 2), (2, 0), (3, 3)]
    triangle.apply({"E": {"src": [e[0] for e in edges], "dst": [e[1] for e in edges]}})
    assert triangle.count() == 4  # three rotations of the cycle, and the loop
    triangle.apply({"E": {"src": [3], "dst": [3], "_weight": [1]}})
    assert triangle.count() == 3 + 8
    with pytest.raises(TriangleError, match="itself"):
        triangle.apply({"R": {"a": [1], "b": [2]}})


def test_rows_with_null_keys_are_left_out():
    triangle = Triangle("abc")
    triangle.apply({"R": {"a": [1, None], "b": [None, 2]}, "S": {"b": [2], "c": [3]}})
    assert triangle.stats()["relations"] == {"R": 0, "S": 1, "T": 0}
    assert triangle.stats()["null_rows"] == 2


def test_weights_of_one_tuple_are_summed_before_the_check():
    triangle = Triangle()
    triangle.apply({"R": {"a": [1, 1, 1], "b": [2, 2, 2], "_weight": [-1, 3, -2]}})
    assert triangle.stats()["size"] == 0
    assert triangle.stats()["updates"] == 0


def test_a_batch_below_zero_is_refused_whole():
    triangle = Triangle()
    triangle.apply({"R": {"a": ["x"], "b": ["y"]}})
    before = triangle.stats()
    with pytest.raises(NegativeMultiplicityError, match=r"R\(x; y\) has 1 copies, the batch deletes 2"):
        triangle.apply({"S": {"b": ["y"], "c": ["z"]}, "R": {"a": ["x"], "b": ["y"], "_weight": [-2]}})
    assert triangle.stats() == before
    triangle.check_invariants()


def test_multiplicities_that_could_overflow_are_refused_before_any_change():
    triangle = Triangle()
    triangle.apply({"R": {"a": [1], "b": [1], "_weight": [2**31]}, "S": {"b": [1], "c": [1], "_weight": [2**30]}})
    with pytest.raises(TriangleError, match="64 bits"):
        triangle.apply({"T": {"c": [1], "a": [1], "_weight": [2**31]}})
    triangle.apply({"R": {"a": [1], "b": [1], "_weight": [-(2**31) + 1]}})
    triangle.apply({"T": {"c": [1], "a": [1], "_weight": [2**30]}})
    assert triangle.count() == 2**60


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"X": {"a": [1], "b": [2]}}, "relations are R"),
        ({"R": {"a": [1], "b": [2], "c": [3]}}, "columns"),
        ({"R": {"a": [1], "b": [2], "_weight": [0.5]}}, "_weight"),
        ({"R": 7}, "pandas"),
        ({"R": {"a": ["one"], "b": [2]}}, "domain A"),
    ],
)
def test_errors_say_what_to_do(changes, says):
    triangle = Triangle()
    triangle.apply({"R": {"a": [1], "b": [2]}})
    with pytest.raises(TriangleError, match=says):
        triangle.apply(changes)
    assert triangle.stats()["size"] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"outputs": "bc"},
        {"epsilon": 1.5},
        {"epsilon": {"R": 0.5}},
        {"partition": "triple"},
        {"strategy": "best"},
        {"outputs": "ab", "strategy": "sit"},
    ],
)
def test_unknown_options_are_refused(options):
    with pytest.raises(CrownError):
        Triangle(**options)


def test_epsilon_per_relation():
    triangle = Triangle(epsilon={"R": 1.0, "S": 0.0, "T": 1.0}, strategy="eps")
    rng = np.random.default_rng(0)
    triangle.apply_codes(np.column_stack([rng.integers(0, 3, 200), rng.integers(0, 8, (200, 2)), np.ones(200, int)]))
    triangle.check_invariants()
    assert triangle.stats()["heavy"]["S.0"] == len(set(triangle_values(triangle)))
    before = triangle.stats()["operations"]
    for _ in range(20):
        triangle.apply_codes(np.array([(0, 1, 1, 1)]))
    assert triangle.stats()["operations"] - before < 20 * 60  # R is looked up in V_ST: factorized maintenance


def triangle_values(triangle: Triangle) -> list[int]:
    from ivm_triangle.invariants import contents

    return list(contents(triangle._state).nodes[1][0])


def test_dictionaries_forget_values_that_are_gone():
    triangle = Triangle()
    for start in range(0, 20_000, 1000):
        names = [f"v{i}" for i in range(start, start + 1000)]
        triangle.apply({"R": {"a": names, "b": names}})
        triangle.apply({"R": {"a": names, "b": names, "_weight": [-1] * 1000}})
    assert all(len(domain.codes) <= 2048 for domain in triangle._domains[:2])


def test_memory_is_bounded_and_says_so():
    triangle = Triangle(memory=1 << 16)
    with pytest.raises(MemoryBudgetError, match="memory"):
        triangle.apply_codes(np.array([(0, i, i, 1) for i in range(10_000)]))
    with pytest.raises(UnusableStateError, match="start again from the tables"):
        triangle.apply_codes(np.array([(0, 1, 1, 1)]))


def test_state_is_flat_under_a_stream_of_constant_size():
    triangle = Triangle("abc")
    rng = np.random.default_rng(1)
    sizes = []
    window: list[np.ndarray] = []
    for _ in range(60):
        fresh = np.unique(np.column_stack([rng.integers(0, 3, 100), rng.integers(0, 40, (100, 2))]), axis=0)
        window.append(np.column_stack([fresh, np.ones(len(fresh), int)]))
        triangle.apply_codes(window[-1])
        if len(window) > 5:
            old = window.pop(0)
            old[:, 3] = -1
            triangle.apply_codes(old)
        sizes.append(len(triangle._state.words))
    triangle.check_invariants()
    assert sizes[-1] <= 1.5 * sizes[15]


@pytest.mark.parametrize("strategy", ["auto", "classical"])
@pytest.mark.parametrize("domain", [2, 5, 40])
def test_a_self_join_stored_once_counts_like_three_copies(strategy, domain):
    rng = random.Random(domain)
    shared, edges = Triangle(edges="E", strategy=strategy), {}
    copies = Triangle(strategy="eps")
    swing = [(0, i) for i in range(25)] + [(i, 1) for i in range(25)] + [(0, 0), (1, 0)]
    stream = [(x, y, 1) for x, y in swing] + [(x, y, -1) for x, y in reversed(swing)]
    for _ in range(150):
        stream.append((rng.randrange(domain), rng.randrange(domain), rng.choice((1, 2, -1))))
    for i, (x, y, m) in enumerate(stream):
        if edges.get((x, y), 0) + m < 0:
            with pytest.raises(NegativeMultiplicityError, match="E"):
                shared.replay_codes(np.array([(0, x, y, m)]))
            continue
        edges[x, y] = edges.get((x, y), 0) + m
        shared.replay_codes(np.array([(0, x, y, m)]))
        copies.replay_codes(np.array([(k, x, y, m) for k in range(3)]))
        assert shared.count() == copies.count()
        if i % 10 == 0:
            shared.check_invariants()
    if strategy == "auto":
        assert shared.stats()["minor_rebalancings"] > 0
    bulk = Triangle(edges="E", strategy=strategy)
    present = [(0, x, y, m) for (x, y), m in edges.items() if m]
    bulk.apply_codes(np.array(present))
    bulk.check_invariants()
    assert bulk.count() == shared.count()
    bulk.apply_codes(np.array([(k, x, y, -m) for k, x, y, m in present]))
    bulk.check_invariants()
    assert bulk.count() == 0


@pytest.mark.parametrize("strategy", ["sit", "classical"])
@pytest.mark.parametrize("epsilon", [0, 0.34, 0.5, 0.6, 1])
@pytest.mark.parametrize("seed", range(3))
def test_loops_at_heavy_vertices_are_counted_with_what_was_there_before(strategy, epsilon, seed):
    rng = random.Random(seed)
    shared, edges = Triangle(edges="E", strategy=strategy, epsilon=epsilon), {}
    copies = Triangle(strategy="classical")
    ends = [
        lambda: (0, rng.randrange(25)),
        lambda: (rng.randrange(25), 0),
        lambda: (0, 0),
        lambda: (rng.randrange(4),) * 2,
    ]
    for i in range(250):
        x, y = rng.choice(ends)()
        m = rng.choice((1, 2)) if not edges.get((x, y)) or rng.random() < 0.4 else -rng.randint(1, edges[x, y])
        edges[x, y] = edges.get((x, y), 0) + m
        shared.replay_codes(np.array([(0, x, y, m)]))
        copies.replay_codes(np.array([(k, x, y, m) for k in range(3)]))
        assert shared.count() == copies.count(), f"after update {i}: {x, y, m}"
    shared.check_invariants()


def test_one_stored_relation_has_one_epsilon():
    with pytest.raises(TriangleError, match="one epsilon"):
        Triangle(edges="E", epsilon={"R": 1, "S": 0, "T": 1}, strategy="sit")


def test_a_weight_that_would_be_ignored_is_an_error():
    triangle = Triangle()
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 2, "_weight": -1}]
    with pytest.raises(TriangleError, match="row 1 has other keys"):
        triangle.apply({"R": rows})
    with pytest.raises(TriangleError, match="rename it to '_weight'"):
        Triangle(columns={"R": ("a", "b")}).apply({"R": [{"a": 1, "b": 2, "weight": -1}]})


@pytest.mark.parametrize("changes", [None, [1], {"R": {"a": 1, "b": 2}}, {"R": 5}, {"R": [1, 2]}])
def test_what_is_no_batch_is_refused_in_a_sentence(changes):
    with pytest.raises(TriangleError, match=r"changes|no table"):
        Triangle().apply(changes)


def test_a_frame_of_any_library_is_a_table() -> None:
    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"a": [1], "b": [2]}).__arrow_c_stream__(requested_schema)

    triangle = Triangle("ab")
    triangle.apply({"R": Frame(), "S": {"b": [2], "c": [3]}, "T": {"c": [3], "a": [1]}})
    assert triangle.count() == 1
