"""A checkpoint that was copied: the copy has a history of its own. Oracle: DuckDB, after every batch."""

from __future__ import annotations

import shutil

import pytest

from tests.spark.streams import ChangeFiles, batch_of, oracle_of, run

pytestmark = pytest.mark.spark

SCHEMA = {"r": {"a": "int64", "b": "int64"}}
QUERY = "SELECT DISTINCT x.a, y.b FROM r x JOIN r y ON x.b = y.a"
CHANGES = [
    {"r": [(1, 2, 1), (2, 3, 1)]},
    {"r": [(2, 4, 1), (2, 3, -1)]},
    {"r": [(5, 2, 1)]},
]


@pytest.fixture
def original(spark, tmp_path):
    """A stream after its first batch, and its files; the live engines stay in the session's scratch folder."""
    files = ChangeFiles(tmp_path / "in", SCHEMA)
    files.add(CHANGES[0])
    return files, run_on(spark, files, tmp_path / "state")


def run_on(spark, files, folder, sink=None):
    return run(spark, QUERY, files, folder, sink=sink, schema=SCHEMA, cells=1, scratch=str(folder.parent / "scratch"))


def results(*batches):
    oracle = oracle_of(SCHEMA, QUERY)
    for batch in batches:
        oracle.apply(batch_of(batch))
    return oracle.result


def test_a_copy_goes_its_own_way_in_the_session_and_scratch_folder_of_the_original(spark, tmp_path, original):
    files, sink = original
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    files.add(CHANGES[1])
    files.add(CHANGES[2])
    run_on(spark, files, tmp_path / "state", sink)
    assert sink.state() == results(*CHANGES)
    files.add(CHANGES[2])
    copied = run_on(spark, files, tmp_path / "copy")
    assert {batch: copied.deltas[batch] for batch in (1, 2)} == {batch: sink.deltas[batch] for batch in (1, 2)}
    run_on(spark, files, tmp_path / "state", sink)
    assert copied.deltas[3] == sink.deltas[3]


def test_an_older_copy_in_the_place_of_a_checkpoint_is_said_to_be_one(spark, tmp_path, original):
    files, sink = original
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    files.add(CHANGES[1])
    files.add(CHANGES[2])
    run_on(spark, files, tmp_path / "state", sink)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "older").rename(tmp_path / "state")
    with pytest.raises(Exception, match=r"the checkpoint was replaced by an older copy\. .* in a new session"):
        run_on(spark, files, tmp_path / "state")
