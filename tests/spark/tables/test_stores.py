"""Tables of deltas on object stores: every row once, whatever breaks off, gets lost or is in the way. Mostly no Spark.

Oracle: what was committed, counted in Python.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import delta_files, read_deltas, to_table, write_deltas
from spark_jobs.commands import submit
from spark_jobs.errors import BrokenChainError, CheckpointError, FolderError, SourceError, SparkJobError
from spark_jobs.job import places
from spark_jobs.storage.objects import ObjectFolder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.deltas.commits import Commits
from spark_jobs.tables.deltas.delta import DeltaLog, table_files
from spark_jobs.tables.deltas.parts import ATTEMPTS, schema_of
from spark_jobs.tables.results.net import net_of
from tests.marks import slow
from tests.spark.job.test_submit import PATHS, command, edge_pairs, write_edges
from tests.spark.storage.flaky import flaky_proxy
from tests.spark.storage.server import BUCKET, SECRET, environment, through, url_of
from tests.spark.streams import batch_of, oracle_of
from tests.spark.tables.driver import LOGS, SCHEMA, STREAM, attempt
from tests.spark.tables.test_write_deltas import GRAPH, HOPS, NOW, graph_files, states
from tests.spark.test_kills import run_until

deltalake = pytest.importorskip("deltalake")
FILES = {"delta": table_files, "parquet": delta_files}


SCHEMES = {"s3": "s3", "azure": "az", "gcs": "gs"}
STORES = [("s3", "delta"), ("s3", "parquet"), ("azure", "parquet"), ("gcs", "delta"), ("gcs", "parquet")]
"""Where tables are tried. deltalake 1.6 cannot append to a table on Azure's emulator, whoever asks for it."""


@pytest.fixture
def bucket(request):
    """A new folder of a bucket, with the options by which it is reached; by default on S3."""
    store = getattr(request, "param", "s3")
    where = f"{SCHEMES[store]}://{BUCKET}/{uuid.uuid4().hex}/the table"
    return folder_at(where, "path", request.getfixturevalue(store))


def found(form, folder):
    """The rows of the table: (a, weight, batch), counted."""
    files = FILES[form](folder)
    assert all(file.startswith(f"{folder}/part-") for file in files)
    total = Counter()
    for file in files:
        with folder.local(file.rpartition("/")[2]) as path:
            total.update(zip(*pq.read_table(path).to_pydict().values(), strict=True))
    return total


def expected(batches, cells=2):
    return Counter((10 * b + c, 1, b) for b in range(batches) for c in range(cells))


class BrokenOffError(Exception):
    """The driver dies here."""


@pytest.mark.parametrize(
    ("bucket", "form", "step"),
    [
        (store, form, step) if (number + i) % 2 == 0 else slow(store, form, step)
        for number, (store, form) in enumerate(STORES)
        for i, step in enumerate(("adopt", "create", "delete"))
    ],
    indirect=["bucket"],
)
def test_a_driver_that_dies_at_a_step_of_a_commit_leaves_every_row_once(bucket, monkeypatch, form, step):
    Commits(bucket, LOGS[form](bucket, STREAM)).commit(0, [attempt(bucket, 0, c) for c in range(2)])
    for batch, before in enumerate((True, False), 1):
        dying = Commits(bucket, LOGS[form](bucket, STREAM))
        wrote = [attempt(bucket, batch, c) for c in range(2)]
        attempt(bucket, batch)  # of an attempt that lost
        real = getattr(ObjectFolder, step)

        def dies(self, *given, real=real, before=before):
            if not before:
                real(self, *given)
            raise BrokenOffError

        with monkeypatch.context() as patch:
            patch.setattr(ObjectFolder, step, dies)
            with contextlib.suppress(BrokenOffError):
                dying.commit(batch, wrote)
        again = Commits(bucket, LOGS[form](bucket, STREAM))
        again.commit(batch, [attempt(bucket, batch, c) for c in range(2)])
        assert found(form, bucket) == expected(batch + 1)
        assert (bucket / ATTEMPTS).files() == {}
    parquet = [bucket.at(name) for name in bucket.files() if name.endswith(".parquet")]
    assert sorted(parquet) == sorted(FILES[form](bucket)), "no file is left that no batch has"


@pytest.mark.parametrize(("bucket", "form"), STORES, indirect=["bucket"])
def test_of_two_drivers_that_commit_a_batch_one_is_refused(bucket, form):
    Commits(bucket, LOGS[form](bucket, STREAM)).commit(0, [attempt(bucket, 0)])
    one, two = (Commits(bucket, LOGS[form](bucket, STREAM)) for _ in range(2))
    one.commit(1, [attempt(bucket, 1)])
    again = attempt(bucket, 1)
    with pytest.raises(CheckpointError, match="another job has committed batch 1"):
        two.commit(1, [again])
    assert found(form, bucket) == expected(2, 1)
    assert again.file not in bucket.files()
    one.commit(2, [attempt(bucket, 2)])
    assert found(form, bucket) == expected(3, 1)


@pytest.mark.parametrize(("bucket", "form"), STORES, indirect=["bucket"])
def test_a_table_of_another_stream_or_with_other_files_is_refused(bucket, form):
    table = Commits(bucket, LOGS[form](bucket, STREAM))
    table.commit(0, [attempt(bucket, 0)])
    with pytest.raises(BrokenChainError, match="has batches up to 0 of this stream, which is at batch 2"):
        table.commit(2, [attempt(bucket, 2)])
    with pytest.raises(CheckpointError, match="would be mixed"):
        LOGS[form](bucket, "another/crown")
    other = bucket.parent / "other"
    other.create("letter.txt", b"x")
    with pytest.raises(CheckpointError, match=r"letter\.txt"):
        LOGS[form](other, STREAM)
    with pytest.raises(SourceError, match="write_deltas writes to"):
        FILES[form](bucket.parent / "nowhere")
    assert FILES[form](str(bucket), bucket.bucket.options) == FILES[form](bucket)


@pytest.mark.parametrize("bucket", ["s3", "gcs"], indirect=True)
def test_a_commit_whose_answer_is_lost_stands_and_one_that_another_has_made_does_not(bucket, monkeypatch):
    """A request that is sent again finds what it has made itself; its files stay."""
    from deltalake.exceptions import CommitFailedError

    table = Commits(bucket, DeltaLog(bucket, STREAM))
    table.commit(0, [attempt(bucket, 0, c) for c in range(2)])
    real = deltalake.DeltaTable.create_write_transaction

    def answered_twice(self, *given, **named):
        real(self, *given, **named)
        raise CommitFailedError("Failed to commit transaction: Concurrent transaction failed.")

    with monkeypatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "create_write_transaction", answered_twice)
        assert table.commit(1, [attempt(bucket, 1, c) for c in range(2)])
    assert found("delta", bucket) == expected(2)
    create = ObjectFolder.create
    manifests = bucket.parent / "manifests"
    plain = Commits(manifests, LOGS["parquet"](manifests, STREAM))
    monkeypatch.setattr(ObjectFolder, "create", lambda self, *given: create(self, *given) and False)
    for batch in range(2):
        assert plain.commit(batch, [attempt(manifests, batch, c) for c in range(2)])
    assert found("parquet", manifests) == expected(2)


@pytest.mark.slow
@pytest.mark.parametrize("bucket", ["s3", "gcs"], indirect=True)
def test_a_server_in_trouble_leaves_every_row_once(bucket):
    """Requests are refused, lost, answered too late, or done and not answered; a batch that fails is given again.

    Not of a Delta table: deltalake waits with the interpreter's lock held, and the proxy is in this process.
    """
    form, known, said = "parquet", dict(bucket.bucket.options), []
    with flaky_proxy(url_of(known), 4) as (url, done):
        trouble = folder_at(str(bucket), "path", {**through(url, known), "timeout": "1s", "max_retries": "5"})
        batch, table = 0, None
        while batch < 8 and len(said) < 30:
            try:
                table = table or Commits(trouble, LOGS[form](trouble, STREAM))
                table.commit(batch, [attempt(trouble, batch, c) for c in range(2)])
            except (CheckpointError, SourceError, OSError) as error:
                said.append(str(error))
                table = None  # the stream ends, and is started again
            else:
                batch += 1
    assert found(form, bucket) == expected(8)
    assert sum(done.values()) > done["passed"]
    assert not any("\n" in sentence or SECRET in sentence for sentence in said)


@pytest.mark.parametrize("bucket", SCHEMES, indirect=True)
def test_the_columns_of_a_file_are_read_from_its_end(bucket, monkeypatch):
    wide = pa.schema([*((f"a column with a long name {i}", pa.int64()) for i in range(400)), *list(SCHEMA)[1:]])
    rows = pa.RecordBatch.from_pylist([{"_weight": 1}], pa.schema(list(wide)[:-1]))
    from spark_jobs.tables.deltas.parts import write_part

    part = write_part(bucket / ATTEMPTS, "part.parquet", wide, 0, [rows])
    asked = []
    real = ObjectFolder.tail
    monkeypatch.setattr(ObjectFolder, "tail", lambda self, file, count: asked.append(count) or real(self, file, count))
    assert schema_of(bucket, part) == wide
    assert len(asked) == 2, "the footer is longer than what is mostly enough"


@pytest.mark.parametrize("bucket", ["s3", "gcs"], indirect=True)
def test_a_result_table_is_merged_on_a_store(bucket):
    from spark_jobs.tables.results.merge import DeltaResult

    target, options = DeltaResult(bucket), bucket.bucket.options
    assert to_table(str(bucket), ["a"], storage_options=options) is not None
    steps = [[(1, "x", 1), (2, "y", 1)], [(1, "x", -1), (1, "z", 1)], [(2, "y", -1)]]
    for batch, rows in enumerate(steps):
        deltas = pa.table(dict(zip(("a", "b", "_weight"), map(list, zip(*rows, strict=True)), strict=True)))
        for first in (True, False):
            assert target.apply("a-stream", batch, net_of(deltas, ["a"], batch)) is first
    table = deltalake.DeltaTable(str(bucket), storage_options=options)
    assert table.to_pyarrow_table().to_pylist() == [{"a": 1, "b": "z"}]


def test_an_output_on_a_store_belongs_to_one_job(bucket, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for checkpoint in (one, two):
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(json.dumps({"id": checkpoint.name}))
    for _ in range(2):
        with places.locked_output(bucket, one, "parquet"):
            places.check_exists(bucket)
    table = Commits(bucket, LOGS["parquet"](bucket, f"one/{places.OPERATOR}"))
    table.commit(0, [attempt(bucket, 0)])
    with (
        pytest.raises(SparkJobError, match="the output of a job with another checkpoint"),
        places.locked_output(bucket, two),
    ):
        pass
    with places.locked_output(bucket, one, "parquet"):
        bucket.delete(["_crown.json"])
        with pytest.raises(SparkJobError, match="was removed, or replaced"):
            places.check_exists(bucket)
    said = rf"--output s3://{BUCKET}/x: this must be a folder of this host, .* a table that its cells write"
    options = [PATHS, "--input", f"g={tmp_path}:format=csv", "--output", f"s3://{BUCKET}/x", "--checkpoint", one]
    with pytest.raises(FolderError, match=said):
        command(submit, *options)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize(("store", "scheme"), [("s3", "s3a"), ("gcs", "gs")])
def test_the_cells_of_a_stream_write_to_a_store(spark, tmp_path, request, store, scheme, form):
    files, made = graph_files(tmp_path / "in", 3)
    known = request.getfixturevalue(store)
    table, oracle, wanted = f"{scheme}://{BUCKET}/{uuid.uuid4().hex}/deltas", oracle_of(GRAPH, HOPS), []
    options = {"checkpoint": str(tmp_path / "state"), "cells": 2, "storage_options": known}
    for _ in range(2):  # the second finds nothing new
        stream = write_deltas(spark, HOPS, files.frames(spark), table, format=form, trigger=NOW, **options)
        stream.awaitTermination()
    for changes in made:
        oracle.apply(batch_of(changes))
        wanted.append(Counter(oracle.result))
    rows = [tuple(row) for row in read_deltas(spark, table, known).collect()]
    assert list(states(rows, len(made))) == wanted
    folder = folder_at(table, "path", known)
    assert (folder / ATTEMPTS).files() == {}
    if form == "delta":
        stored = deltalake.DeltaTable(str(folder), storage_options=known).to_pyarrow_table()
        assert Counter(rows) == Counter(zip(*stored.to_pydict().values(), strict=True))
    assert not any("s3" in path.name for path in tmp_path.rglob("*"))


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_of_the_command_line_writes_to_a_store(tmp_path, s3, monkeypatch):
    """In a process of its own, whose workers have the credentials in their environment."""
    for name, value in environment(s3).items():
        monkeypatch.setenv(name, value)
    pairs = edge_pairs(400)
    random.Random(2).shuffle(pairs)
    write_edges(tmp_path / "edges.txt", pairs)
    start = "import sys; from tests.spark.test_kills import main; sys.exit(main(sys.argv[1:]))"
    options = [sys.executable, "-c", start, PATHS, "--input", f"g={tmp_path / 'edges.txt'}", "--batch-rows", "150"]
    options += ["--checkpoint", str(tmp_path / "state"), "--cores", "2", "--verify"]
    options += ["--sink", "delta", "--output", f"s3://{BUCKET}/{uuid.uuid4().hex}"]
    said = run_until(options, kill_after=None)
    assert said[-1] == "equal", said
    assert not any(SECRET in line for line in said)
