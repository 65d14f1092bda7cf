"""The commit of a batch, broken off between any two of its steps and killed: every row is in the table once. No Spark.

Oracle: what was committed, counted in Python; the tables are read with DuckDB and with deltalake.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crown.durable import files
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError, SourceError, SparkJobError
from spark_jobs.options import Output
from spark_jobs.storage import local
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.deltas import parts
from spark_jobs.tables.deltas.commits import Commits
from spark_jobs.tables.deltas.delta import DeltaLog, newest_batch, table_files
from spark_jobs.tables.deltas.manifests import Manifests, delta_files, newest_manifest
from spark_jobs.tables.deltas.parts import ATTEMPTS, manifest, statistics, write_part
from tests.marks import by_turns, slow
from tests.spark.tables.driver import LOGS, SCHEMA, STREAM, attempt

deltalake = pytest.importorskip("deltalake")
transaction = pytest.importorskip("deltalake.transaction")

FILES = {"delta": table_files, "parquet": delta_files}


def found(form, folder):
    """The rows of the table: (a, weight, batch), counted."""
    files = FILES[form](folder)
    return Counter(duckdb.sql(f"SELECT * FROM read_parquet({files})").fetchall())


def expected(batches, cells=1):
    return Counter((10 * b + c, 1, b) for b in range(batches) for c in range(cells))


class BrokenOffError(Exception):
    """The driver dies here."""


@pytest.mark.parametrize(
    ("step", "form", "before"), by_turns(("os.link", "sync", "unlink", "commit"), ("delta", "parquet"), (True, False))
)
def test_a_driver_that_dies_at_any_step_of_a_commit_leaves_every_row_once(tmp_path, monkeypatch, form, step, before):
    """The ``n``-th call of a step ends the driver, for every ``n``; a new driver is given the batch again."""
    for died_at, last in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 1)):
        folder = tmp_path / f"{died_at}.{last}"
        folder.mkdir()
        for batch in range(last):
            Commits(folder, LOGS[form](folder, STREAM)).commit(batch, [attempt(folder, batch, c) for c in range(2)])
        dying = Commits(folder, LOGS[form](folder, STREAM))
        wrote = [attempt(folder, last, c) for c in range(2)]
        attempt(folder, last)  # of an attempt that lost
        with monkeypatch.context() as patch:
            _die(patch, step, died_at, before)
            with contextlib.suppress(BrokenOffError):
                dying.commit(last, wrote)
        again = Commits(folder, LOGS[form](folder, STREAM))
        again.commit(last, [attempt(folder, last, c) for c in range(2)])
        again.commit(last + 1, [attempt(folder, last + 1, c) for c in range(2)])
        assert found(form, folder) == expected(last + 2, 2)
        assert list((folder / ATTEMPTS).iterdir()) == []
        parquet = [path for path in folder.iterdir() if path.suffix == ".parquet"]
        assert sorted(map(str, parquet)) == sorted(FILES[form](folder))  # no file is left that no batch has


def _die(patch, step, number, before):
    """Ends the driver at the ``number``-th call of a step, before or after it is done."""
    calls = {"left": number}

    def armed(real):
        def call(*args, **kwargs):
            if calls["left"] == 0 and before:
                raise BrokenOffError
            done = real(*args, **kwargs)
            if calls["left"] == 0:
                raise BrokenOffError
            calls["left"] -= 1
            return done

        return call

    if step == "os.link":
        patch.setattr(os, "link", armed(os.link))
    elif step == "sync":
        patch.setattr(local, "sync", armed(local.sync))
        patch.setattr(files, "sync", armed(files.sync))
    elif step == "unlink":
        patch.setattr(Path, "unlink", armed(Path.unlink))
    else:
        transact, create = deltalake.DeltaTable.create_write_transaction, transaction.create_table_with_add_actions
        patch.setattr(deltalake.DeltaTable, "create_write_transaction", armed(transact))
        patch.setattr(transaction, "create_table_with_add_actions", armed(create))


@pytest.mark.parametrize("form", [slow("delta"), "parquet"])
def test_a_driver_that_is_killed_again_and_again_leaves_every_row_once(tmp_path, form):
    rng = random.Random(3)
    command = "import sys; from tests.spark.tables.driver import committing; committing(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path[1:]])}
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", command, form, str(tmp_path)], stdout=subprocess.PIPE, env=environment
        ) as driver:
            assert driver.stdout is not None
            for _ in range(3):
                assert driver.stdout.readline().strip().isdigit()
            time.sleep(0.03 * rng.random())  # somewhere in a commit
            driver.send_signal(signal.SIGKILL)
    log = LOGS[form](tmp_path, STREAM)
    newest, table = log.newest(), Commits(tmp_path, log)
    table.commit(newest, [attempt(tmp_path, newest, c) for c in range(2)])
    assert newest > 3
    assert found(form, tmp_path) == expected(newest + 1, 2)


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_of_two_drivers_that_commit_a_batch_one_is_refused_and_leaves_no_file(tmp_path, form):
    one, two = (Commits(tmp_path, LOGS[form](tmp_path, STREAM)) for _ in range(2))
    one.commit(0, [attempt(tmp_path, 0)])
    two = Commits(tmp_path, LOGS[form](tmp_path, STREAM))
    one.commit(1, [attempt(tmp_path, 1)])
    with pytest.raises(CheckpointError, match="another job has committed batch 1"):
        two.commit(1, [attempt(tmp_path, 1)])
    one.commit(2, [attempt(tmp_path, 2)])
    assert found(form, tmp_path) == expected(3)
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".parquet"]) == 3


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_table_that_is_not_this_stream_s_or_not_whole_is_refused(tmp_path, form):
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
    table = Commits(mine, LOGS[form](mine, STREAM))
    table.commit(0, [attempt(mine, 0)])
    with pytest.raises(BrokenChainError, match="has batches up to 0 of this stream, which is at batch 2"):
        table.commit(2, [attempt(mine, 2)])
    table.commit(1, [attempt(mine, 1)])
    with pytest.raises(BrokenChainError, match="which is at batch 0: the checkpoint was reset"):
        table.commit(0, [attempt(mine, 0)])
    with pytest.raises(CheckpointError, match="would be mixed"):
        LOGS[form](mine, "another/crown")
    (other / "letter.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"letter\.txt"):
        LOGS[form](other, STREAM)
    (other / "letter.txt").unlink()
    with pytest.raises(BrokenChainError, match="has no batch of this stream, which is at batch 1"):
        Commits(other, LOGS[form](other, STREAM)).commit(1, [attempt(other, 1)])


def test_a_delta_table_with_other_columns_is_refused_and_an_empty_one_is_taken(tmp_path):
    made = deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema.from_arrow(SCHEMA))
    assert made.version() == 0
    Commits(tmp_path, DeltaLog(tmp_path, STREAM)).commit(0, [attempt(tmp_path, 0)])
    assert found("delta", tmp_path) == expected(1)
    wider = pa.schema([("a", pa.int64()), ("b", pa.string()), ("_weight", pa.int64()), ("_batch", pa.int64())])
    with pytest.raises(
        SourceError, match=r"has the columns a long, _weight long.* but the deltas have a long, b string"
    ):
        Commits(tmp_path, DeltaLog(tmp_path, STREAM)).commit(1, [attempt(tmp_path, 1, schema=wider)])
    assert newest_batch(tmp_path, STREAM) == 0
    assert newest_batch(tmp_path, "another/crown") == -1


def test_a_file_that_is_gone_is_named_but_a_batch_that_is_being_committed_is_left_out(tmp_path):
    table = Commits(tmp_path, Manifests(tmp_path, STREAM))
    for batch in range(3):
        table.commit(batch, [attempt(tmp_path, batch)])
    files = delta_files(tmp_path)
    os.rename(files[2], tmp_path / "aside")
    assert delta_files(tmp_path) == files[:2]
    os.rename(tmp_path / "aside", files[2])
    os.unlink(files[0])
    with pytest.raises(DamagedStateError, match="of the committed batch 0 is missing"):
        delta_files(tmp_path)
    (tmp_path / "_manifests" / "0.json").write_text("{")
    with pytest.raises(DamagedStateError, match=r"0\.json is missing or damaged"):
        delta_files(tmp_path)
    with pytest.raises(SourceError, match="no manifests"):
        delta_files(tmp_path / "nowhere")
    assert newest_manifest(folder_at(tmp_path / "nowhere")) == -1


def test_a_batch_that_breaks_off_leaves_no_file_and_one_without_rows_only_if_it_is_wanted(tmp_path):
    def breaking():
        yield pa.RecordBatch.from_pylist([{"a": 1, "_weight": 1}], pa.schema(list(SCHEMA)[:-1]))
        raise RuntimeError("the cell failed")

    attempts, path = tmp_path / ATTEMPTS, tmp_path / ATTEMPTS / "part.parquet"
    parts.GROUP_ROWS, groups = 1, parts.GROUP_ROWS
    with pytest.raises(RuntimeError, match="the cell failed"):
        write_part(attempts, path.name, SCHEMA, 0, breaking())
    parts.GROUP_ROWS = groups
    assert not path.exists()
    assert write_part(attempts, path.name, SCHEMA, 0, []) is None
    assert not path.exists()
    empty = write_part(attempts, path.name, SCHEMA, 0, [], empty=True)
    assert (empty.rows, pq.read_table(path).schema.names) == (0, SCHEMA.names)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write deltas"):
        write_part(tmp_path / "file" / ATTEMPTS, "part.parquet", SCHEMA, 0, [], empty=True)


def test_statistics_bound_every_value_and_leave_out_what_they_cannot_bound(tmp_path):
    types = {
        "i": pa.int32(),
        "s": pa.string(),
        "long": pa.string(),
        "d": pa.date32(),
        "f": pa.float64(),
        "n": pa.int64(),
    }
    schema = pa.schema([*types.items(), ("_weight", pa.int64()), ("_batch", pa.int64())])
    day = dt.date(2024, 2, 29)
    rows = [
        {
            "i": i,
            "s": f"{i:03}",
            "long": "x" * 99,
            "d": day + dt.timedelta(i),
            "f": float("nan"),
            "n": None,
            "_weight": 1,
        }
        for i in range(100)
    ]
    whole = pa.RecordBatch.from_pylist(rows, pa.schema(list(schema)[:-1]))
    path = tmp_path / ATTEMPTS / "part.parquet"
    part = write_part(path.parent, path.name, schema, 7, [whole.slice(0, 40), whole.slice(40)])
    said = json.loads(part.stats)
    assert said["numRecords"] == 100
    assert said["minValues"] == {"i": 0, "s": "000", "d": "2024-02-29", "_weight": 1, "_batch": 7}
    assert said["maxValues"] == {"i": 99, "s": "099", "d": "2024-06-07", "_weight": 1, "_batch": 7}
    assert said["nullCount"] == {name: 100 if name == "n" else 0 for name in schema.names}
    assert statistics(pq.read_metadata(path)) == said


def test_values_that_python_lacks_are_written_and_have_no_bounds(tmp_path):
    columns = {
        "d": pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32()),
        "s": pa.array([b"\xff", b"a"], pa.binary()).view(pa.string()),
        "i": pa.array([1, 2]),
        "_weight": pa.array([1, 1]),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    path = tmp_path / ATTEMPTS / "part.parquet"
    part = write_part(path.parent, path.name, rows.schema.append(pa.field("_batch", pa.int64())), 7, [rows])
    said = json.loads(part.stats)
    assert said["minValues"] == {"i": 1, "_weight": 1, "_batch": 7}
    assert said["nullCount"] == dict.fromkeys((*columns, "_batch"), 0)
    assert pq.read_table(path).column("d").cast(pa.int32()).to_pylist() == [2**31 - 1, 0]


@pytest.mark.parametrize("compression", parts.COMPRESSIONS)
def test_columns_that_repeat_are_written_as_they_are_and_others_as_differences(tmp_path, compression):
    columns = {
        "run": [i // 16 for i in range(4096)],
        "seldom": [None if i % 5 < 2 else i for i in range(4096)],
        "own": [i * i for i in range(4096)],
        "number": [i / 8 for i in range(4096)],
        "text": [f"t{i % 7}" for i in range(4096)],
        "_weight": [1] * 4096,
    }
    rows = pa.record_batch(columns)
    schema = rows.schema.append(pa.field("_batch", pa.int64()))
    path = tmp_path / ATTEMPTS / "part.parquet"
    part = write_part(path.parent, path.name, schema, 3, [rows.slice(0, 7), rows.slice(7)], compression=compression)
    group = pq.read_metadata(path).row_group(0)
    written = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    packed = {name for name, column in written.items() if "DELTA_BINARY_PACKED" in column.encodings}
    looked_up = {name for name, column in written.items() if column.has_dictionary_page}
    assert (packed, looked_up) == ({"seldom", "own"}, {"text"})
    said = {"lz4": "LZ4", "none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert {column.compression for column in written.values()} == {said}
    expected = list(zip(*columns.values(), [3] * 4096, strict=True))
    assert duckdb.sql(f"SELECT * FROM '{path}'").fetchall() == expected
    assert [tuple(row.values()) for row in pq.read_table(path).to_pylist()] == expected
    assert part.rows == 4096


def test_a_compression_that_is_unknown_is_refused_with_those_that_there_are():
    with pytest.raises(SparkJobError, match=r'compression=\'brotli\': give one of "lz4", "snappy", "zstd", "none"'):
        Output(compression="brotli")
    for name in parts.COMPRESSIONS:
        assert Output(compression=name).compression == name


def test_a_cell_that_says_nothing_is_noticed():
    rows = [{"cell": c, "file": f"{c}.parquet", "rows": 1, "bytes": 2, "stats": "{}"} for c in (0, 2)]
    with pytest.raises(CheckpointError, match="cell 1 has not reported what it wrote"):
        manifest(rows)
    rows.append({"cell": 1, "file": None, "rows": 0, "bytes": 0, "stats": None})
    assert [part.file for part in manifest(rows)] == ["0.parquet", "2.parquet"]
    assert manifest([]) == []


def test_a_delta_table_may_be_optimized_and_vacuumed_beside_the_stream(tmp_path):
    table = Commits(tmp_path, DeltaLog(tmp_path, STREAM))
    for batch in range(4):
        table.commit(batch, [attempt(tmp_path, batch)])
    waiting = attempt(tmp_path, 4)
    other = deltalake.DeltaTable(str(tmp_path))
    assert other.optimize.compact()["numFilesRemoved"] == 4
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    table.commit(4, [waiting])
    assert found("delta", tmp_path) == expected(5)
    assert newest_batch(tmp_path, STREAM) == 4
    again = Commits(tmp_path, DeltaLog(tmp_path, STREAM))
    assert not again.commit(4, [attempt(tmp_path, 4)])
    assert found("delta", tmp_path) == expected(5)
