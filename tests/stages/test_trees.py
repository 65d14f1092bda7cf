"""Trees of rows: large batches, which are sorted and fetched ahead, mean what DuckDB says; small trees are small."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

import crown
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from crown.kernels.strings import NULL
from crown.stages.kernels import retained
from crown.stages.kernels.trees.nodes import HEAD
from crown.stages.protocol import Part
from crown.stages.trees import Partitions, Trees
from crown.store.zset import Zset
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, canonical
from tests.stages.harness import parts

SCHEMA = {"r": {"k": "int64", "g": "int64", "v": "float64", "s": "string"}}
REST = "k NULLS FIRST, g NULLS FIRST, v NULLS FIRST, s NULLS FIRST"
QUERIES = [
    f"SELECT k, g, v, s FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC NULLS LAST, {REST}) <= 9",
    f"SELECT k, g, v, s FROM r ORDER BY s DESC NULLS LAST, {REST} LIMIT 200",
    "SELECT g, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY v) AS q, COUNT(DISTINCT v) AS n FROM r GROUP BY g",
    f"SELECT k, v, LAG(v, 2) OVER (PARTITION BY g ORDER BY {REST}) AS p FROM r",
]
VALUES = [math.nan, math.inf, -math.inf, 0.0, None, *(x / 4 for x in range(-200, 200))]


def _row(random: Random) -> tuple[Any, ...]:
    return (
        random.choice([None, random.randrange(40)]),
        random.choice([0, 0, 0, 1, 2, random.randrange(300)]),
        random.choice(VALUES),
        random.choice([None, "", "a", "ab", str(random.randrange(30))]),
    )


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_large_batches_are_what_duckdb_says(query: str, seed: int) -> None:
    random = Random(seed)
    view, database = crown.view(query, SCHEMA), Database(SCHEMA)
    result: Counter[tuple[Any, ...]] = Counter()
    for size in (1500, 700, 3, 1200, 2500):
        there = list(database.rows["r"].elements())
        gone = random.sample(there, min(len(there), size // 2 if size < 2500 else len(there)))
        changes = [(row, -1) for row in gone] + [(_row(random), 1) for _ in range(size - size // 2)]
        delta = view.apply({"r": [(*row, weight) for row, weight in changes]})
        database.apply({"r": changes})
        for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
            result[canonical([tuple(row)])[0]] += weight
        assert +result == duck.results(query, database)
        assert min(result.values(), default=0) >= 0
        view.check_invariants()


def _changed(trees: Trees, part: Part, root: int, values: list[int], weight: int) -> int:
    """Inserts or deletes values one by one; returns the words that are live then."""
    for value in values:
        row, weights, taken = np.array([[value]], np.int64), np.array([weight], np.int64), np.zeros(1, np.int64)
        retained.change(
            part.arena, root, trees.shape, trees.spec, trees.strides(1), row, weights, *part.dictionary.memory,
            trees.path, taken, 0,
        )  # fmt: skip
        assert taken.tolist() == [weight]
    return int(part.arena[A.H_LIVE])


def test_a_tree_has_few_words_beside_its_rows_whatever_its_size() -> None:
    (part,) = parts(1)
    part.open(1)
    root = int(retained.block(part.arena, 1))
    trees = Trees(part, ["int64"], np.array([0, 0, 0, 0], np.int64))
    empty, handles = int(part.arena[A.H_LIVE]), np.array([root], np.int64)
    random = Random(1)
    values = random.sample(range(10**6), 5000)
    for n, value in enumerate(values, 1):
        words = _changed(trees, part, root, [value], 1) - empty
        if n <= 20:
            assert words <= HEAD + 2 * (n + n // 2 + 1), "a leaf grows with its rows"
        assert words <= 8 * n, "no more than the node of a row had that was one by itself"
        assert trees.sizes(handles).tolist() == [n]
    assert words <= 4 * n
    assert trees.check_invariants(handles).tolist() == [n]
    positions = np.array([0, 17, n - 1, n, -1], np.int64)
    found = trees.at(np.repeat(handles, 5), positions, 0).tolist()
    assert found == [*(sorted(values)[at] for at in (0, 17, n - 1)), NULL, NULL]
    random.shuffle(values)
    for left in (4000, 1000, 100, 5, 0):
        words = _changed(trees, part, root, values[left:], -1) - empty
        del values[left:]
        assert words <= 16 * left + HEAD, "rows that are gone take their words with them"
        assert trees.check_invariants(handles).tolist() == [left]


def test_rows_and_the_sums_before_them_are_found_at_positions_in_any_order() -> None:
    (part,), random = parts(1), Random(2)
    part.open(1)
    by_value = np.array([1, 0, 0, 0, 0, 0, 0, 0], np.int64)
    trees = Partitions(part, int(table_at(0)), ["int64", "int64"], [0], by_value, np.array([2, 1, 1, 0, 1], np.int64))
    values = [(g, v) for g, n in enumerate((1, 7, 60, 5000)) for v in random.sample(range(10**6), n)]
    copies = {row: random.choice([1, 1, 3]) for row in values}
    random.shuffle(values)
    net = Zset(np.array(values, np.int64), np.array([copies[row] for row in values], np.int64))
    trees.change(net, lambda keys, weights: (keys[1] * weights).reshape(-1, 1), np.zeros(2, np.int64), "")
    listed = {g: [v for h, v in sorted(values) if h == g for _ in range(copies[h, v])] for g in range(4)}
    asked = [(g, listed[g].index(v)) for g, v in random.choices(values, k=400)]
    asked += [(g, listed[g].index(v)) for g, v in values if g < 2] + [(g, len(listed[g])) for g in range(4)]
    for some in (asked, sorted(asked), sorted(asked, reverse=True)):
        handles = trees.find(np.array([[g for g, _ in some], [0] * len(some)], np.int64))
        firsts = np.array([at for _, at in some], np.int64)
        ends = np.minimum(firsts + 2, trees.sizes(handles))
        rows, heads = trees.copied(handles, firsts, ends, trees.shape)
        assert rows.T.tolist() == [[g, v] for g, at in some for v in listed[g][at : at + 2]]
        assert heads[:, 0].tolist() == [sum(listed[g][:at]) for g, at in some]
