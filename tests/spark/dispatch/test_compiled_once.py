"""A small batch takes what Spark takes to prepare it: its code must be that of the batch before."""

from __future__ import annotations

import pytest

from tests.marks import slow
from tests.spark.streams import ChangeFiles, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, y.dst c FROM g x, g y WHERE x.dst = y.src"


@pytest.fixture
def compiling(spark):
    """The session compiles, as it does by default; for other tests it does not."""
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("cells", [1, slow(2)])
def test_no_batch_after_the_first_has_code_compiled(spark, tmp_path, cells):
    """The time when a batch began is in its plan, and no part of the code that Spark makes of it."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount
    before = compiled()
    files = ChangeFiles(tmp_path / "in", GRAPH)
    for batch in range(3):
        files.add({"g": [(batch, batch + 1, 1)]})
    counts = []

    def consume(frame, batch):
        frame.collect()
        counts.append(compiled())

    run(spark, HOPS, files, tmp_path / "state", consume=consume, schema=GRAPH, cells=cells)
    assert before < counts[1] == counts[2]
