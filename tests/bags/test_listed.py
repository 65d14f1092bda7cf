"""Cyclic queries that store no row of their result: copies, their limits, fills, what a stopped reader leaves."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import duckdb
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


RING = "G x, G y, G z, G w WHERE x.d = y.s AND y.d = z.s AND z.d = w.s AND w.d = x.s"
RINGS = f"SELECT x.s a, x.d b, y.d c, z.d d, {{}} FROM {RING}"
THREE = "SELECT x.s a, x.d b, y.d c{} FROM G x, G y, G z{} WHERE x.d = y.s AND y.d = z.s AND z.d = x.s{}"
HOUSE = RINGS.format("u.d e").replace("G w", "G w, G u, G v") + " AND u.s = x.d AND u.d = v.s AND v.d = y.d"
LISTED = (
    RINGS.format("k.n").replace("G w", "G w, K k") + " AND k.id = y.s",
    RINGS.format("k.n, m.n m").replace("G w", "G w, K k, K m") + " AND k.id = y.s AND m.id = x.s AND m.n > 1",
    "SELECT x.s a, x.d b, y.d c, z.d d, k.n FROM G x JOIN G y ON x.d = y.s JOIN G z ON y.d = z.s "
    "JOIN G w ON z.d = w.s AND w.d = x.s LEFT JOIN K k ON k.id = x.s",
    HOUSE,
    f"SELECT x.s a, COUNT(*) n, SUM(z.d * y.d) t FROM {RING} GROUP BY x.s",
    f"SELECT SUM(z.d) t FROM {RING}",
    f"SELECT COUNT(*) n FROM {RING}",
)
STORED = (
    RINGS.format("k.n").replace("G w", "G w, L k") + " AND k.id = y.s",  # L has no key
    RINGS.format("k.n").replace("G w", "G w, K k") + " AND k.n = y.s",
    RINGS.format("1 e") + " AND EXISTS (SELECT * FROM K k WHERE k.id = x.s)",
    RINGS.format("1 e").replace("G w", "G w, G u") + " AND u.s = x.s AND u.d = x.d",
    RINGS.format("u.d e").replace("G w", "G w, G u") + " AND u.s = x.s",
    f"SELECT x.s a, y.s c FROM {RING}",
    THREE.format("", "", "").replace("x.s a, x.d b, y.d c", "COUNT(*) n"),  # a module counts them
    THREE.format(", k.n", ", K k", " AND k.id = x.s"),
    THREE.format(", u.d e, v.d f", ", G u, G v, G w", " AND u.s = x.s AND u.d = v.s AND v.d = w.s AND w.d = x.s"),
    f"SELECT k.n, COUNT(*) m FROM {RING.replace('G w', 'G w, K k')} AND k.id = x.s GROUP BY k.n",
)
TABLES: dict[str, Any] = {
    "G": {"s": "int64", "d": "int64"},
    "K": {"columns": {"id": "int64", "n": "int64"}, "key": ["id"]},
    "L": {"id": "int64", "n": "int64"},
}


@pytest.mark.parametrize("query", LISTED + STORED)
def test_what_is_one_bag_is_listed_and_anything_else_is_stored(query: str) -> None:
    rng, view = random.Random(query), crown.view(query, TABLES)
    assert ("not stored" in view.explain()) == (query in LISTED)
    edges = [(rng.randrange(6), rng.randrange(6)) for _ in range(30)]
    rows = {
        "G": [*edges, *edges[:9]],
        "K": [(i, 2 * i % 5) for i in range(0, 6, 2)],
        "L": [(i % 4, i) for i in range(7)],
    }
    for name in rows:
        if f"{name} " in query:
            view.update({name: rows[name]})
    view.update({"G": [{"s": s, "d": d, "_weight": -1} for s, d in edges[:12]]})
    rows["G"] = [*edges[12:], *edges[:9]]
    connection = duckdb.connect()
    for name, held in rows.items():
        columns = "s BIGINT, d BIGINT" if name == "G" else "id BIGINT, n BIGINT"
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", held)
    found = Counter(tuple(row.values()) for row in view.to_table().to_pylist())
    assert found == Counter(connection.execute(query).fetchall())
    view.check_invariants()


def ladder(squares: int) -> str:
    """Squares in a row, each with an edge in common with the next one."""
    edges = [f"u{i}v{i}" for i in range(squares + 1)] + [f"{c}{i}{c}{i + 1}" for i in range(squares) for c in "uv"]
    atoms = ", ".join(f"e({edge[:2]}, {edge[2:]})" for edge in edges)
    return f"Q({', '.join(f'{c}{i}' for i in range(squares + 1) for c in 'uv')}) :- {atoms}."


def test_squares_in_a_row_are_one_bag_as_long_as_a_change_joins_with_few_rows() -> None:
    assert "not stored" in crown.view(ladder(2), EDGES).explain()
    assert "the bags hold O(N^2) rows" in " ".join(crown.view(ladder(3), EDGES).explain().split())
