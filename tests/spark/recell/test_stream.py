"""A real stream, cut anew between two runs of the same application: DuckDB's table after every micro-batch."""

from __future__ import annotations

import pytest

from plans.schema import Schema
from spark_jobs import read_view
from spark_jobs.errors import PlanChangedError
from spark_jobs.recell.recell import recell
from spark_jobs.storage.opening import folder_at
from tests.oracles.upserts import Twin, schema
from tests.spark.streams import ChangeFiles, Result, rows_of, run
from tests.spark.test_upserts import FILLED, JOINED, row_of

pytestmark = pytest.mark.spark


def test_a_stream_goes_on_in_three_cells_after_two(spark, tmp_path):
    """Rows by key, texts and a join; the live engines of the two cells are still there."""
    declared, folder = Schema.of(schema("seq")), tmp_path / "state"
    twin, files, sink = Twin(3, True), ChangeFiles(tmp_path / "in", declared), Result()

    def batches(count, cells):
        for _ in range(count):
            batch = twin.batch(14)
            twin.apply(batch)
            files.add({"o": [row_of(change) for change in batch], **(FILLED if files.batches == 0 else {})})
            run(spark, JOINED, files, folder, sink=sink, schema=declared, cells=cells)
            assert sink.state() == twin.result(JOINED)

    batches(1, 2)
    with pytest.raises(PlanChangedError, match="--recell 3; or start"):
        run(spark, JOINED, files, folder, sink=sink, schema=declared, cells=3)
    done = recell(folder_at(folder), 3)
    assert done.result.rows == sum(sink.state().values())
    batches(1, None)
    assert len(done.state.folders()) == 1
    seen = read_view(spark, str(folder))
    assert rows_of(seen.selectExpr("*", "1L AS _weight")) == twin.result(JOINED)
