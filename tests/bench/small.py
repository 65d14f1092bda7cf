"""Small random streams, and the comparison of a subject with DuckDB along them."""

from __future__ import annotations

from bench.cases import checksum
from bench.cases.streams import Stream
from bench.cases.workloads import Loaded, load
from bench.subjects.subject import Subject, Totals
from tests.oracles import duck

SMALL = {
    "vertices": 40,
    "edges": 260,
    "persons": 40,
    "events": 600,
    "prefix": 0,
    "span": 0.1,
    "steps": 60,
    "window": 70,
    "keep": 0.6,
}


def small(workload: str, seed: int = 1) -> Loaded:
    return load(workload, "generated", SMALL | {"seed": seed})


def expected(loaded: Loaded, position: int) -> Totals:
    query = checksum.sql(loaded.sql, loaded.outputs)
    with duck.holding(loaded.stream.alive(position)) as cursor:
        ((count, total),) = cursor.execute(query).fetchall()
    return Totals(count, total)


def deletes_find_their_rows(stream: Stream) -> None:
    """Asserts that no row is inserted twice or deleted while it is absent."""
    alive: set[tuple[object, ...]] = set()
    names = list(stream.tables)
    rows = [list(zip(*(c.to_pylist() for c in t.columns), strict=True)) for t in stream.tables.values()]
    for relation, row, weight in zip(stream.relation, stream.row, stream.weight, strict=True):
        key = (names[relation], *rows[relation][row])
        assert (key in alive) == (weight < 0)
        alive.symmetric_difference_update({key})


def follow(subject: Subject, loaded: Loaded, rows: int, every: int = 4) -> int:
    """Drive the subject over the stream, comparing at every ``every``-th batch and at the end; the largest result."""
    subject.checking()
    largest, position = 0, 0
    for i, batch in enumerate(loaded.stream.batches(rows)):
        subject.apply(batch)
        position = min(position + rows, len(loaded.stream))
        if i % every == 0 or position == len(loaded.stream):
            truth, found = expected(loaded, position), subject.totals()
            assert found.count == truth.count, f"after {position} updates"
            assert found.checksum in (None, truth.checksum), f"after {position} updates"
            largest = max(largest, truth.count)
    subject.close()
    return largest
