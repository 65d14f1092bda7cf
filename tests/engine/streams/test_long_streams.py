"""Fixed queries under long streams: sliding windows and random updates, every implementation compared as it goes.

Where the state machine tries many shapes with few rows, this keeps groups long and turnover high.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import plans
from tests.engine.comparison import SideBySide
from tests.marks import by_turns, seeds
from tests.oracles.database import Batch

EDGE = {"src": "int64", "dst": "int64"}
GRAPH = {"G": EDGE}
SOCIAL = {
    "person": {"id": "int64", "name": "string"},
    "message": {"id": "int64", "author": "int64"},
    "knows": {"a": "int64", "b": "int64"},
    "tagged": {"message": "int64", "tag": "string"},
}
STREAMS: dict[str, tuple[dict[str, dict[str, str]], str]] = {
    "three hops": (
        GRAPH,
        "SELECT DISTINCT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d FROM G g1, G g2, G g3 "
        "WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst > 2",
    ),
    "three hops, middle": (
        GRAPH,
        "SELECT DISTINCT g2.src AS b, g3.src AS c FROM G g1, G g2, G g3 WHERE g1.dst = g2.src AND g2.dst = g3.src",
    ),
    "four hops, without the end": (
        GRAPH,
        "SELECT DISTINCT g2.src AS b, g3.src AS c, g3.dst AS d FROM G g1, G g2, G g3, G g4 "
        "WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g4.src AND g4.dst > 1",
    ),
    "two hops, ends only": (GRAPH, "SELECT DISTINCT x.src AS a, y.dst AS c FROM G x, G y WHERE x.dst = y.src"),
    "star": (
        GRAPH,
        "SELECT DISTINCT w.src AS a, w.dst AS b, x.dst AS c, y.dst AS d FROM G w, G x, G y "
        "WHERE w.src = x.src AND w.src = y.src",
    ),
    "comb": (
        {"G": EDGE, "V": {"v": "int64"}, "W": {"w": "int64"}},
        "SELECT DISTINCT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d FROM G g1, G g2, G g3, V, W "
        "WHERE g1.dst = g2.src AND g2.dst = g3.src AND V.v = g1.src AND W.w = g3.dst",
    ),
    "messages of friends": (
        SOCIAL,
        "SELECT DISTINCT person.id AS id, name, message.id AS m, k.a AS friend FROM person, message, knows k "
        "WHERE person.id = author AND k.b = person.id",
    ),
    "tags of friends of friends": (
        SOCIAL,
        "SELECT DISTINCT k1.a AS who, k1.b AS via, k2.b AS whom, tag, message.id AS m "
        "FROM message, tagged, knows k1, knows k2 "
        "WHERE message.id = tagged.message AND k1.b = k2.a AND author = k2.b AND k2.b <> k1.a",
    ),
    "tags that friends use": (
        SOCIAL,
        "SELECT DISTINCT tag FROM message, tagged, knows WHERE message.id = tagged.message AND author = b AND a < 4",
    ),
    "a relation that is joined on its output and on what it hides": (
        {
            "R": {"a": "int64", "c": "int64", "g": "string", "b": "int64"},
            "S": {"a": "int64", "d": "int64"},
            "T": {"c": "int64", "f": "int64"},
            "U": {"b": "int64"},
        },
        "SELECT DISTINCT R.a AS a, R.c AS c, g, d, f FROM R, S, T, U WHERE R.a = S.a AND R.c = T.c AND R.b = U.b",
    ),
    "two unconnected parts": (
        SOCIAL,
        "SELECT DISTINCT name, tag FROM person, knows, tagged WHERE person.id = knows.a AND tagged.message < 3",
    ),
}


def row(source: random.Random, columns: dict[str, str], size: int) -> tuple[object, ...]:
    return tuple(
        None if source.random() < 0.02 else source.randrange(size) if kind == "int64" else f"s{source.randrange(size)}"
        for kind in columns.values()
    )


def window(source: random.Random, tables: dict[str, dict[str, str]], size: int, steps: int) -> Iterator[Batch]:
    """First in, first out: each step inserts a row into every relation and deletes the one that is `3 * size` old."""
    inserted: dict[str, list[tuple[object, ...]]] = {name: [] for name in tables}
    for _ in range(steps):
        batch = {}
        for name, columns in tables.items():
            inserted[name].append(row(source, columns, size))
            batch[name] = [(inserted[name][-1], 1)]
            if len(inserted[name]) > 3 * size:
                batch[name].append((inserted[name][-1 - 3 * size], -1))
        yield batch


def churn(source: random.Random, tables: dict[str, dict[str, str]], size: int, steps: int) -> Iterator[Batch]:
    """Batches of random changes around a filled state; some of a single change, some that delete most of a relation."""
    present: dict[str, list[tuple[object, ...]]] = {name: [] for name in tables}
    for step in range(steps):
        batch: dict[str, list[tuple[tuple[object, ...], int]]] = {name: [] for name in tables}
        for name in tables if step % 4 else [source.choice(list(tables))]:
            rows = present[name]
            source.shuffle(rows)
            gone = len(rows) * 4 // 5 if source.random() < 0.1 else min(len(rows), source.randrange(3))
            batch[name] += [(rows.pop(), -1) for _ in range(gone)]
            fresh = [row(source, tables[name], size) for _ in range(0 if len(rows) > 4 * size else source.randrange(7))]
            rows += fresh
            batch[name] += [(values, 1) for values in fresh]
        yield batch


@pytest.mark.parametrize(("stream", "make"), by_turns(STREAMS, (window, churn)))
def test_long_stream(stream: str, make: object) -> None:
    _run(stream, make, seed=1, size=4, steps=18)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 4, first=2))
@pytest.mark.parametrize("make", [window, churn])
@pytest.mark.parametrize("stream", STREAMS)
def test_longer_stream(stream: str, make: object, seed: int) -> None:
    _run(stream, make, seed, size=4 + seed % 4, steps=120)


def _run(stream: str, make: object, seed: int, size: int, steps: int) -> None:
    tables, sql = STREAMS[stream]
    plan = plans.plan(sql, tables)
    tables = {table.name: tables[table.name] for table in plan.tables}
    sides = SideBySide(plan, tables, sql)
    most = 0
    for batch in make(random.Random(f"{stream} {seed}"), tables, size, steps):
        sides.step(batch)
        most = max(most, len(sides.current))
    assert most > 2, "the stream must have results to be a test"
    sides.step_by_removal()
