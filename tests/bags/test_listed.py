"""Cyclic queries that store no row of their result: copies, their limits, fills, what a stopped reader leaves."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.bags.protocol import BagBudgetError
from crown.engine.load.loader import Loader
from crown.errors import ChangeError, ConcurrentChangeError, CrownError
from crown.store.zset import Zset
from tests.engine.made import join_of

EDGES = {"e": {"x": "int64", "y": "int64"}}
TRIANGLE = "SELECT a.x, a.y, b.y AS z FROM e a, e b, e c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
SQUARE = (
    "SELECT a.x, a.y, b.y AS z, c.y AS w FROM e a, e b, e c, e d "
    "WHERE a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = a.x"
)
QUERIES = (TRIANGLE, SQUARE, TRIANGLE.replace("SELECT", "SELECT DISTINCT"), SQUARE.replace("SELECT", "SELECT DISTINCT"))
Edges = Counter[tuple[int, int]]


def batch(edges: Edges) -> dict[str, pa.Table]:
    """A table with a row per edge, its copies as weight."""
    rows = [(*edge, copies) for edge, copies in edges.items()]
    return {"e": pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], ["x", "y", "_weight"])}


def cycles(edges: Edges, length: int, distinct: bool) -> Counter[tuple[int, ...]]:
    """By walks of edges."""
    ahead: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (x, y), copies in edges.items():
        ahead[x].append((y, copies))
    walks = [((x,), 1) for x in ahead]
    for _ in range(length):
        walks = [((*walk, y), n * copies) for walk, n in walks for y, copies in ahead[walk[-1]]]
    found = {walk[:-1]: n for walk, n in walks if walk[0] == walk[-1]}
    return Counter(dict.fromkeys(found, 1) if distinct else found)


def rows_of(table: pa.Table) -> Counter[tuple[int, ...]]:
    """The rows of a result or a delta, each of which must occur once."""
    rows: Counter[tuple[int, ...]] = Counter()
    for row in table.to_pylist():
        weight = row.pop("_weight", 1)
        assert tuple(row.values()) not in rows
        rows[tuple(row.values())] = weight
    return rows


@pytest.mark.parametrize("query", QUERIES)
def test_nothing_is_stored_whether_rows_fill_an_empty_view_or_change_it(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loader, "min_tuples", 40)
    rng, view = random.Random(query), crown.view(query, EDGES)
    assert "not stored" in view.explain()
    edges: Edges = Counter()
    total: Counter[tuple[int, ...]] = Counter()
    for size in (80, 5, 1, 30, 60):
        change: Edges = Counter()
        for _ in range(size):
            known = rng.choice(list(edges)) if edges and rng.random() < 0.4 else None
            if known is not None and edges[known] + change[known] > 0:
                change[known] -= 1
            else:
                change[rng.randrange(9), rng.randrange(9)] += rng.choice((1, 1, 3))
        change = Counter({edge: copies for edge, copies in change.items() if copies})
        total.update(rows_of(view.apply(batch(change))))
        edges.update(change)
        edges = +edges
        expected = cycles(edges, query.count(" = "), "DISTINCT" in query)
        assert Counter({row: copies for row, copies in total.items() if copies}) == expected
        assert view.count() == expected.total()
    some = rng.sample(sorted(expected), 20)
    names = view.schema.names[: len(some[0])]
    assert [view.multiplicity(dict(zip(names, row, strict=True))) for row in some] == [expected[row] for row in some]
    assert view.multiplicity(dict(zip(names, [99] * len(names), strict=True))) == 0


@pytest.mark.parametrize("query", [TRIANGLE, SQUARE])
def test_more_copies_than_63_bits_count_are_refused(query: str) -> None:
    view, many = crown.view(query, EDGES), (1 << 31) - 1
    ring = [(i, (i + 1) % query.count(" = ")) for i in range(query.count(" = "))]
    view.apply(batch(Counter(dict.fromkeys(ring, 1))))
    with pytest.raises(ChangeError, match="63 bits"):
        view.apply(batch(Counter(dict.fromkeys(ring, many))))
    assert view.count() == len(ring)
    view.update(batch(Counter(dict.fromkeys(ring, many))))  # no delta is computed
    with pytest.raises(CrownError, match="63 bits"):
        view.to_table()
    view.update(batch(Counter(dict.fromkeys(ring, -many))))
    assert rows_of(view.to_table()).total() == len(ring)


def test_a_bag_that_gets_more_memory_within_a_change_nets_what_it_listed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = crown.view(TRIANGLE, EDGES)
    view.apply(batch(Counter({(0, 1): 1, (1, 2): 1, (2, 0): 1, (0, 0): 2})))
    bag: Any = join_of(view).states[0].bags[0]
    apply = bag.apply

    def row_by_row(atom: int, change: Zset, missing: np.ndarray | None = None, quiet: bool = False) -> Iterator[Zset]:
        yield from apply(atom, change[:1], None if missing is None else missing[:1], quiet)
        if len(change) > 1:
            raise BagBudgetError(1)

    monkeypatch.setattr(bag, "apply", row_by_row)
    delta = rows_of(view.apply(batch(Counter({(0, 0): 1, (5, 6): 1}))))
    assert delta[0, 0, 0] == 27 - 8


def test_an_iterator_notices_that_the_view_has_changed() -> None:
    view = crown.view(SQUARE, EDGES)
    view.update({"e": [(x, y) for x in range(30) for y in range(30)]})
    blocks = view.results()
    next(blocks)
    view.update({"e": [(77, 78)]})
    with pytest.raises(ConcurrentChangeError):
        next(blocks)
