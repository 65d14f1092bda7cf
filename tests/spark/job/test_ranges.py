"""``emit="ranges"``: what cells tell of a stream, applied to a copy, is what DuckDB has after every batch."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from plans.errors import PlanError
from plans.programs.frames import Order
from spark_jobs import maintain
from tests.marks import slow
from tests.models.shifts import Copy
from tests.oracles import duck
from tests.oracles.database import Database
from tests.spark.streams import ChangeFiles, assassin, batch_of, run

pytestmark = pytest.mark.spark

SCHEMA = {"t": {"k": "int64", "x": "int64", "a": "int64"}}
BY_KEY = "SELECT k, x, a, SUM(a) OVER w AS s, RANK() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY x)"
WHOLE = "SELECT k, x, a, SUM(a) OVER w AS s, RANK() OVER w AS r FROM t WINDOW w AS (ORDER BY x)"


class Stopped(Exception):
    """What a sink raises."""


class Ranges:
    """The ranges of each batch as a foreachBatch sink receives them; ``stopping``: the batch that it fails at first."""

    def __init__(self, stopping=None):
        self.batches, self.stopping = {}, stopping

    def write(self, frame, batch):
        """The sink."""
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        if batch == self.stopping:
            self.stopping = None
            raise Stopped
        assert all(row.pop("_commit_version") == batch for row in rows)
        self.batches[batch] = rows


def split(rows):
    """Rows with their weights, and ranges."""
    told, ranges = Counter(), []
    for row in rows:
        weight, until = row.pop("_weight"), row.pop("_until")
        values = tuple(row.values())
        if until is None:
            told[values] += weight
        else:
            ranges.append((values[:3], tuple({**row, **until}.values())[:3], values[3:]))
    return told, ranges


@pytest.mark.parametrize(("query", "cells"), [(BY_KEY, 2), slow(WHOLE, 2)])
def test_ranges_of_a_stream_are_the_change_of_the_result(spark, tmp_path, query, cells):
    """A batch whose sink fails is executed again: its cells take it back, and say the same. So it is where a worker is
    killed at its first rows."""
    rng, files = random.Random(11), ChangeFiles(tmp_path / "in", SCHEMA)
    batches, there = [], []
    for _ in range(4):
        gone = rng.sample(there, len(there) // 3)
        fresh = [(rng.randrange(3), rng.randrange(30), rng.randrange(9)) for _ in range(15)]
        there = [row for row in there if row not in gone] + fresh
        batches.append({"t": [*((*row, -1) for row in gone), *((*row, 1) for row in fresh)]})
        files.add(batches[-1])
    sink, marks, scratch = Ranges(stopping=2), tmp_path / "marks", tmp_path / "state" / "scratch"
    marks.mkdir()
    killed = assassin(str(scratch), str(marks), {1, 3})
    with pytest.raises(Exception, match="Stopped"):
        run(spark, query, files, tmp_path / "state", sink=sink, behind=killed, cells=cells, emit="ranges")
    run(spark, query, files, tmp_path / "state", sink=sink, behind=killed, cells=cells, emit="ranges")
    assert {mark.name for mark in marks.iterdir()} == {"1.0", "3.0"}
    order = [(at, Order(name)) for at, name in ((1, "x"), (0, "k"), (2, "a")) if query is WHOLE or at]
    copy = Copy(3, [0] if query is BY_KEY else [], order, Counter())
    database, found = Database(SCHEMA), 0
    for number, batch in enumerate(batches):
        rows, ranges = split(sink.batches[number])
        found += len(ranges)
        copy.apply(rows, ranges)
        database.apply(batch_of(batch))
        assert copy.rows == duck.results(query, database)
    assert found


def test_a_batch_job_tells_its_result_and_a_query_without_ranges_says_why(spark):
    frame = spark.createDataFrame([(1, 2, 3), (1, 4, 5)], "k long, x long, a long")
    rows = [row.asDict(recursive=True) for row in maintain(spark, BY_KEY, {"t": frame}, emit="ranges").collect()]
    assert sorted(row["s"] for row in rows) == [3, 8]
    assert {(row["_weight"], row["_until"], row["_commit_version"]) for row in rows} == {(1, None, 0)}
    with pytest.raises(PlanError, match="AVG by the same amount"):
        maintain(spark, BY_KEY.replace("SUM", "AVG"), {"t": frame}, emit="ranges")
