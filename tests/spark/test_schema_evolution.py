"""A table gets a column while a stream of its changes has state: the stream goes on, or says that it cannot."""

from __future__ import annotations

import pytest

from plans.schema import Schema
from spark_jobs import bulk_load
from spark_jobs.errors import PlanChangedError
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run

pytestmark = pytest.mark.spark

BEFORE = {"r": {"k": "int64", "x": "int64"}}
AFTER = {"r": {"k": "int64", "new": "string", "x": "int64"}}
GROUPED = "SELECT k, SUM(x) AS s FROM r GROUP BY k"


def test_a_column_that_the_query_does_not_read_changes_nothing_and_one_that_it_reads_is_a_backfill(spark, tmp_path):
    files, oracle, sink = ChangeFiles(tmp_path / "in", BEFORE), oracle_of(BEFORE, GROUPED), Result()
    first = {"r": [(1, 2, 1), (1, 3, 1), (2, 5, 1)]}
    files.add(first)
    oracle.apply(batch_of(first))
    run(spark, GROUPED, files, tmp_path / "state", sink=sink, schema=BEFORE, cells=2)
    files.schema = Schema.of(AFTER)
    files.add({"r": [(1, "y", 2, -1), (2, None, 7, 1)]})
    oracle.apply(batch_of({"r": [(1, 2, -1), (2, 7, 1)]}))
    run(spark, GROUPED, files, tmp_path / "state", sink=sink, schema=AFTER, cells=2)
    assert sink.state() == oracle.result == {(1, 3): 1, (2, 12): 1}

    reading = "SELECT k, new, SUM(x) AS s FROM r GROUP BY k, new"
    with pytest.raises(PlanChangedError, match=r"needs its own state: .* new checkpoint .* and an empty output"):
        run(spark, reading, files, tmp_path / "state", schema=AFTER, cells=2)
    table = spark.createDataFrame([(1, None, 3), (2, None, 5), (2, None, 7)], "k long, new string, x long")
    migrated, rest = Result(), ChangeFiles(tmp_path / "rest", AFTER)
    migrated.deltas[-1] = rows_of(
        bulk_load(spark, reading, {"r": table}, checkpoint=str(tmp_path / "new"), schema=AFTER, cells=2)
    )
    rest.add({"r": [(2, None, 5, -1), (2, "z", 5, 1)]})
    run(spark, reading, rest, tmp_path / "new", sink=migrated, schema=AFTER, cells=2)
    assert migrated.state() == {(1, None, 3): 1, (2, None, 7): 1, (2, "z", 5): 1}
