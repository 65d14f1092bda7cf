"""Cells that stay on their executors: where Spark would run them, and that results are the same. Oracle: DuckDB."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from spark_jobs import maintain
from spark_jobs.dispatch.placement import pinned
from spark_jobs.errors import SparkJobError
from tests.spark.streams import ChangeFiles, batch_of, oracle_of, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, y.dst c FROM g x, g y WHERE x.dst = y.src"


def places(frame):
    """Where Spark would run the task of each partition."""
    rdd = frame._jdf.queryExecution().toRdd()
    context = frame.sparkSession.sparkContext._jsc.sc()
    return [context.getPreferredLocs(rdd, i).mkString(",") for i in range(rdd.getNumPartitions())]


@pytest.mark.parametrize("cells", [1, 3])
def test_every_cell_has_a_partition_of_its_own_that_prefers_one_executor(spark, cells):
    rows = spark.range(1000).select((F.col("id") % cells).cast("int").alias("_cell"), "id")
    frame = pinned(rows, cells)
    found = frame.select(F.spark_partition_id().alias("at"), "_cell", "id").collect()
    assert len({row["id"] for row in found}) == len(found) == 1000
    assert {(row["at"], row["_cell"]) for row in found} == {(cell, cell) for cell in range(cells)}
    assert set(frame.columns) == {"_cell", "id"}
    assert places(frame) == ["executor_localhost_driver"] * cells or all(
        "executor_" in place for place in places(frame)
    )
    assert not any("executor_" in place for place in places(rows.repartitionById(cells, F.col("_cell"))))


@pytest.mark.slow
def test_pinned_cells_give_the_same_result_and_see_empty_batches(spark, tmp_path):
    rng, files, oracle = random.Random(2), ChangeFiles(tmp_path / "in", GRAPH), oracle_of(GRAPH, HOPS)
    changes = [
        {"g": [(rng.randrange(20), rng.randrange(20), rng.choice((1, 1, -1))) for _ in range(size)]}
        for size in (100, 0, 1, 100)
    ]
    for batch in changes:
        files.add(batch)
    sink = run(spark, HOPS, files, tmp_path / "state", schema=GRAPH, cells=3, placement="pinned")
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
    found = [len(list(cell.glob("*.delta"))) for cell in (tmp_path / "state").glob("crown/*/crown/[0-9]")]
    assert found == [4] * 3


def test_what_cannot_be_pinned_is_said(spark, tmp_path):
    frames = ChangeFiles(tmp_path / "in", GRAPH)
    frames.add({"g": [(1, 2, 1)]})
    given = {"g": frames.frames(spark)["g"]}
    with pytest.raises(SparkJobError, match=r"placement='here': give one of \"auto\", \"pinned\", \"anywhere\""):
        maintain(spark, HOPS, given, checkpoint=str(tmp_path / "state"), placement="here")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    with pytest.raises(SparkJobError, match=r"spark\.sql\.adaptive\.enabled is true: set it to false"):
        maintain(spark, HOPS, given, checkpoint=str(tmp_path / "state"), placement="pinned")
