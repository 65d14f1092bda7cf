"""``crown submit --sink`` and ``read_view``, on one job. Oracles: a recompute by Spark, and the deltas added up."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from spark_jobs import read_deltas, read_view, view_batch
from spark_jobs.commands import state, submit
from spark_jobs.errors import BrokenChainError, CheckpointError, SparkJobError
from spark_jobs.job import places
from tests.spark.job.test_submit import PATHS, command, edge_pairs, write_edges
from tests.spark.streams import ChangeFiles, run

pytest.importorskip("deltalake")


def job(tmp_path, *more):
    write_edges(tmp_path / "edges.txt", edge_pairs(400))
    folders = ["--output", tmp_path / "out", "--checkpoint", tmp_path / "state", "--cells", 2]
    return [PATHS, "--input", f"g={tmp_path / 'edges.txt'}", "--batch-rows", 200, *folders, *more]


def test_a_job_with_a_delta_table_is_what_a_recompute_says_and_its_view_is_read_from_the_checkpoint(
    spark, tmp_path, capsys
):
    words = job(tmp_path, "--window", 0.3)
    assert command(submit, *words, "--sink", "delta", "--verify") == 0
    said = capsys.readouterr().out
    assert "\nequal\n" in said
    assert command(submit, *words, "--sink", "delta", "--verify") == 0  # nothing new
    assert "0 batches" in capsys.readouterr().out
    for other in ("spark", "parquet"):
        with pytest.raises(SparkJobError, match=r"has written .* with --sink delta"):
            command(submit, *words, "--sink", other)
    checkpoint, added = str(tmp_path / "state"), {}
    for a, b, c, weight, batch in read_deltas(spark, str(tmp_path / "out")).collect():
        added.setdefault(batch, Counter())[a, b, c] += weight
    last = view_batch(checkpoint)
    assert last == max(added) == 4
    for batch in (last, 2):
        expected = Counter()
        for number in range(batch + 1):
            expected.update(added.get(number, {}))
        expected = {row: weight for row, weight in expected.items() if weight}
        found = Counter(tuple(row) for row in read_view(spark, checkpoint, batch=batch).collect())
        assert found == expected
        assert (batch == last) == (not expected)  # at the end the window is empty
    read_view(spark, checkpoint, batch=2, batch_column="_batch").createOrReplaceTempView("paths")
    assert spark.sql("SELECT DISTINCT _batch FROM paths").collect() == [(2,)]
    assert command(state, checkpoint, "--hot", 2, "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["operators"]
    assert [cell["rows"] for cell in shown["cells"]] == [0, 0]
    assert all(cell["hottest"] == [] and cell["live_bytes"] > 0 for cell in shown["cells"])
    with pytest.raises(CheckpointError, match="is at batch 4; give that, or an older one"):
        read_view(spark, checkpoint, batch=5)
    with pytest.raises(CheckpointError, match="has a column of that name"):
        read_view(spark, checkpoint, batch_column="A")
    next((tmp_path / "state").glob("crown/*/crown/1/4.delta")).unlink()
    with pytest.raises(BrokenChainError, match="cell 1 does not have batch 4"):
        read_view(spark, checkpoint)


def test_a_view_may_have_a_column_called_batch_beside_that_of_the_batch(spark, tmp_path):
    schema = {"r": {"a": "int64"}}
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"r": [(1, 1), (2, 1)]})
    run(spark, "SELECT DISTINCT a AS batch, 5 AS five FROM r", files, tmp_path / "state", schema=schema, cells=1)
    found = read_view(spark, str(tmp_path / "state"), batch_column="number").orderBy("batch").collect()
    assert [tuple(row) for row in found] == [(1, 5, 0), (2, 5, 0)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sink", "delta", "--output", "noop"), "--sink delta writes a table: give a folder as --output"),
        (("--compression", "zstd"), "--compression zstd is for files that the cells write"),
        (("--sink", "parquet", "--format", "json"), "--sink parquet has a format of its own"),
    ],
)
def test_options_that_do_not_go_with_a_sink_are_refused(tmp_path, words, said):
    with pytest.raises(SparkJobError, match=said):
        command(submit, *job(tmp_path), *words)


def test_a_folder_with_another_table_is_no_output(tmp_path):
    for folder in ("out", "state"):
        (tmp_path / folder).mkdir()
    (tmp_path / "out" / "_manifests").mkdir()
    (tmp_path / "out" / "_manifests" / "4.json").write_text("{}")
    with pytest.raises(SparkJobError, match="holds the output of a job with another checkpoint"):
        places.claim_output(tmp_path / "out", tmp_path / "state", "parquet")
