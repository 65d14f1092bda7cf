"""Streams that go back to an earlier batch, with their tables. Oracle: what the tables held after that batch."""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter

import pyarrow as pa
import pytest

import plans
from crown.errors import CrownError
from spark_jobs import read_deltas, write_deltas
from spark_jobs.commands import state as command
from spark_jobs.commands import submit
from spark_jobs.commands.state import operators, troubles
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.folders import locked
from spark_jobs.ingest.source_log import read_after
from spark_jobs.job import rollback as module
from spark_jobs.job import sinks
from spark_jobs.job.rollback import rollback
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_location import QUARANTINES, located
from spark_jobs.log.state_log import CellLog
from spark_jobs.recell.recell import recell
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.places import place_at
from spark_jobs.tables.results.net import net_of
from tests.marks import slow
from tests.spark.recell.jobs import Job

deltalake = pytest.importorskip("deltalake")

QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM r GROUP BY k"
R = {"r": {"k": "int64", "v": "int64"}}
BATCHES = 4


class Stream:
    """A job without Spark, whose deltas go into places as ``to_table`` has them go."""

    def __init__(self, folder, places, cells=2):
        self.program = plans.program(QUERY, R)
        self.job = Job(folder, self.program, cells)
        self.places = [place_at(text) for text in places]
        self.rng, self.present, self.results = random.Random(3), Counter(), []

    def batch(self):
        """Inserts and deletes some rows; returns the batch."""
        come = Counter((self.rng.choice([None, *range(8)]), self.rng.randrange(9)) for _ in range(12))
        gone = Counter(self.rng.sample(sorted(self.present.elements(), key=repr), min(6, self.present.total())))
        rows = [(*row, weight) for row, weight in come.items()] + [(*row, -weight) for row, weight in gone.items()]
        self.present = self.present + come - gone
        return {"r": pa.table(dict(zip(("k", "v", "_weight"), map(list, zip(*rows, strict=True)), strict=True)))}

    def run(self, batch):
        """Executes a batch, writes its deltas, and commits it."""
        found = self.job.executed(batch)
        types = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.int64()), ("_weight", pa.int64())])
        columns = list(zip(*((*row, weight) for row, weight in found.items()), strict=True)) or [[]] * 4
        delta = pa.table(dict(zip(types.names, columns, strict=True)), types)
        for place in self.places:
            place.target().apply("s", self.job.batch, net_of(delta, place.keys, self.job.batch))
        self.job.spark("commits")
        self.job.batch += 1
        self.results.append(self.recomputed())

    def back(self, batch):
        """What the test knows goes back, too."""
        self.job.batch = batch + 1
        del self.results[batch + 1 :]

    def recomputed(self):
        """The result by definition."""
        groups = {k: [v for key, v in self.present.elements() if key == k] for k in {k for k, _ in self.present}}
        return Counter((k, len(found), sum(found)) for k, found in groups.items())


def in_delta(folder):
    """The rows of a Delta table that holds the result, with its counts if it has some."""
    rows = deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return sum((Counter({(row["k"], row["n"], row["s"]): row.get("_count", 1)}) for row in rows), Counter())


def running(tmp_path, batches=BATCHES, more=()):
    """A stream of some batches with a result by key and one of counted rows; the places, and the rows per batch."""
    places = [f"{tmp_path / 'by key'}?key=k", str(tmp_path / "counted"), *more]
    stream, kept = Stream(tmp_path / "state", places), []
    for _ in range(batches):
        given = stream.batch()
        stream.run(given)
        kept.append((given, Counter(stream.present)))
    return stream, places, kept


def whole(stream):
    """Asserts that every file of the state fits."""
    for operator in operators(folder_at(stream.job.folder)):
        meta = read_meta(operator)
        for cell in range(meta["cells"]):
            assert not list(troubles(CellLog.of(operator / str(cell), meta)))


@pytest.mark.parametrize("to", [0, slow(1), slow(BATCHES - 1)])
def test_state_spark_and_tables_go_back_together_and_the_stream_goes_on(tmp_path, to):
    stream, places, kept = running(tmp_path)
    done = rollback(str(stream.job.folder), to, places)
    assert (done.batch, done.before, len(done.tables)) == (to, BATCHES - 1, 2)
    expected = stream.results[to]
    for folder in ("by key", "counted"):
        assert in_delta(tmp_path / folder) == expected
    names = {kind: {int(name) for name in os.listdir(stream.job.folder / kind)} for kind in ("offsets", "commits")}
    assert names == {"offsets": {*range(to + 1)}, "commits": {*range(to + 1)}}
    whole(stream)
    stream.back(to)
    stream.present = Counter(kept[to][1])
    for _ in range(2):  # other rows than the first time
        stream.run(stream.batch())
        for folder in ("by key", "counted"):
            assert in_delta(tmp_path / folder) == stream.results[-1]
    assert rollback(str(stream.job.folder), to, places).before == to + 2
    assert in_delta(tmp_path / "counted") == expected


@pytest.mark.parametrize("where", ["postgresql", "iceberg"])
def test_a_result_in_a_database_or_a_catalog_goes_back(tmp_path, request, where):
    if where == "iceberg":
        catalog, address = request.getfixturevalue("iceberg_catalog"), "iceberg:here.shop.back?key=k"
    else:
        psycopg, server = pytest.importorskip("psycopg"), request.getfixturevalue("database")
        address = f"{server}?table=back&key=k"
    stream, places, _ = running(tmp_path, more=[address])
    done = rollback(str(stream.job.folder), 1, places)
    assert "crown@" not in done.tables[-1]
    if where == "iceberg":
        found = [tuple(row.values()) for row in catalog.load_table("shop.back").scan().to_arrow().to_pylist()]
    else:
        with psycopg.connect(server) as connection:
            found = connection.execute("SELECT k, n, s FROM back").fetchall()
    assert Counter(found) == stream.results[1]
    assert rollback(str(stream.job.folder), 0, address).tables == done.tables[-1:]


def test_a_kill_between_any_two_steps_is_finished_by_the_same_call_and_no_stream_starts_before(tmp_path, monkeypatch):
    stream, places, _ = running(tmp_path)
    stops = 0
    while True:
        with monkeypatch.context() as patched:
            Steps(patched, stops)
            try:
                rollback(str(stream.job.folder), 1, places)
                break
            except StopError:
                stops += 1
        if (stream.job.folder / "crown" / "rollback.json").exists():
            assert stops > 1
            for refused in (
                lambda: located(str(stream.job.folder), None).claim(),
                lambda: recell(folder_at(stream.job.folder), 3),
                lambda: rollback(str(stream.job.folder), 2, places),
            ):
                with pytest.raises(CheckpointError, match=r"batch 1 was not finished: run .*--rollback-to 1"):
                    refused()
    assert stops > 12
    for folder in ("by key", "counted"):
        assert in_delta(tmp_path / folder) == stream.results[1]
    assert not (stream.job.folder / "crown" / "rollback.json").exists()
    whole(stream)


class StopError(BaseException):
    """The process dies."""


class Steps:
    """Ends a rollback at the n-th change that it makes to the disk or to a table, before it or behind it."""

    def __init__(self, patched, stops):
        self.left = stops
        for owner, name in (
            (LocalFolder, "replace"),
            (LocalFolder, "delete"),
            (module.CellLog, "disown"),
            (deltalake.DeltaTable, "merge"),
            (module, "sync"),
        ):
            patched.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, step):
        def counted(*given, **named):
            self.stop()
            done = step(*given, **named)
            self.stop()
            return done

        return counted

    def stop(self):
        self.left -= 1
        if self.left < 0:
            raise StopError


def test_what_cannot_go_back_is_refused_and_nothing_changes(tmp_path):
    stream, places, _ = running(tmp_path)
    folder = str(stream.job.folder)

    def refused(said, batch=1, into=tuple(places), error=CheckpointError):
        with pytest.raises(error, match=said):
            rollback(folder, batch, into)

    refused("no batch 4 to go back to: .* the batches up to 3", 4)
    refused("batch.*-2", -2, error=CrownError)
    refused("before its first batch", -1)
    other = Stream(tmp_path / "x" / "state", [str(tmp_path / "theirs")])
    other.job.folder.joinpath("metadata").write_text('{"id": "t"}')
    other.places[0].target().apply("t", 0, net_of(pa.table({"k": [1], "_weight": [1]}), None, 0))
    (tmp_path / "empty").mkdir()
    for name in ("empty", "theirs"):
        refused("has no batch of the stream", into=[places[0], str(tmp_path / name)], error=SourceError)
    with locked(stream.job.folder):
        refused("another job .* is running on the checkpoint")
    for kind in ("offsets", "commits"):
        (stream.job.folder / kind / "1").unlink()
    refused("keeps its newest batches only")
    with pytest.raises(CheckpointError, match="has no checkpoint of Spark"):
        rollback(str(tmp_path / "empty"), 0)
    assert in_delta(tmp_path / "counted") == stream.results[-1]
    whole(stream)
    assert not (stream.job.folder / "crown" / "rollback.json").exists()


def test_a_batch_that_was_begun_and_not_committed_is_forgotten_with_what_its_tables_took(tmp_path):
    stream, places, _ = running(tmp_path, 3)
    kept = stream.job.spark
    stream.job.spark = lambda kind: kept(kind) if kind == "offsets" else None
    stream.run(stream.batch())
    assert rollback(str(stream.job.folder), 2, places).before == 3
    assert in_delta(tmp_path / "by key") == stream.results[2]
    assert not (stream.job.folder / "offsets" / "3").exists()


def test_rows_that_later_batches_set_aside_are_forgotten(tmp_path):
    stream, _, _ = running(tmp_path, 3)
    own, checkpoint = tmp_path / "own", located(str(stream.job.folder), None)
    for _ in range(2):
        checkpoint.writes_to(QUARANTINES, str(own))
    asides = [folder / "s" / "crown" for folder in (stream.job.folder / "quarantine", own)]
    for aside in (*asides, own / "another" / "crown"):
        aside.mkdir(parents=True)
        for name in ("0.0.jsonl", "2.1.jsonl", "12.0.jsonl", "notes"):
            (aside / name).write_text("{}\n")
    rollback(str(stream.job.folder), 1)
    for aside in asides:
        assert sorted(os.listdir(aside)) == ["0.0.jsonl", "notes"]
    assert len(os.listdir(own / "another" / "crown")) == 4


def test_a_damaged_note_of_folders_is_refused_and_nothing_changes(tmp_path):
    stream, places, _ = running(tmp_path, 3)
    (stream.job.folder / "crown" / "outside.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"outside\.json is damaged: restore it from a copy, or delete it"):
        rollback(str(stream.job.folder), 1, places)
    assert in_delta(tmp_path / "counted") == stream.results[-1]
    assert not (stream.job.folder / "crown" / "rollback.json").exists()


def test_the_command_says_what_went_back(tmp_path, capsys):
    stream, places, _ = running(tmp_path, 3)
    names = ["checkpoint", "check", "json", "hot", "rollback_to", "recell", "into"]
    given = dict.fromkeys(names) | {"checkpoint": str(stream.job.folder), "rollback_to": 0, "into": places}
    assert command.run(type("Arguments", (), given)) == 0
    said = capsys.readouterr().out
    assert said.startswith("back at batch 0, from 2: the state and Spark's checkpoint\n  table  ")
    assert command.run(type("Arguments", (), given | {"json": True})) == 0
    assert json.loads(capsys.readouterr().out)["before"] == 0
    with pytest.raises(CheckpointError, match="with --rollback-to BATCH only"):
        command.run(type("Arguments", (), given | {"rollback_to": None}))


def changes(folder, number, rows):
    """Writes a file of changes."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(dict(zip(("k", "v", "_weight"), row, strict=True))) + "\n" for row in rows]
    (folder / f"{number}.json").write_text("".join(lines))


@pytest.mark.parametrize("sink", ["spark", slow("delta"), slow("parquet")])
def test_a_job_goes_back_with_its_output_and_reads_mended_files(spark, tmp_path, sink, capsys):
    for number in range(4):
        changes(tmp_path / "r", number, [(number % 2, number, 1), (7, number, 1)])
        os.utime(tmp_path / "r" / f"{number}.json", (number, number))  # the order in which Spark takes them
    words = [QUERY, "--schema", "r(k int64, v int64)", "--input", f"r={tmp_path / 'r'}:format=json,files=1"]
    words += ["--output", tmp_path / "out", "--checkpoint", tmp_path / "state", "--sink", sink]
    assert command_line(submit, *words) == 0
    assert written(spark, sink, tmp_path / "out") == {(0, 2, 2): 1, (1, 2, 4): 1, (7, 4, 6): 1}
    assert command_line(command, tmp_path / "state", "--rollback-to", 1) == 0
    assert "back at batch 1, from 3: " in capsys.readouterr().out
    assert written(spark, sink, tmp_path / "out") == {(0, 1, 0): 1, (1, 1, 1): 1, (7, 2, 1): 1}
    changes(tmp_path / "r", 3, [(1, 3, 1)])
    os.utime(tmp_path / "r" / "3.json", (3, 3))
    assert command_line(submit, *words) == 0
    assert written(spark, sink, tmp_path / "out") == {(0, 2, 2): 1, (1, 2, 4): 1, (7, 3, 3): 1}
    assert command_line(command, tmp_path / "state", "--rollback-to", 0) == 0
    assert written(spark, sink, tmp_path / "out") == {(0, 1, 0): 1, (7, 1, 0): 1}
    if sink == "spark":  # readers that do not know Spark's log see no file of a later batch
        assert len(list((tmp_path / "out").glob("*.parquet"))) == len(spark.read.parquet(out(tmp_path)).inputFiles())


def out(tmp_path):
    return str(tmp_path / "out")


def command_line(module, *words):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return module.run(parser.parse_args([str(word) for word in words]))


def written(spark, sink, folder):
    """The sum of the deltas that an output has."""
    frame = spark.read.parquet(str(folder)) if sink == "spark" else read_deltas(spark, str(folder))
    found = Counter()
    for row in frame.select("k", "n", "s", "_weight").collect():
        found[tuple(row)[:3]] += row["_weight"]
    return {row: weight for row, weight in found.items() if weight}


def test_a_stream_goes_back_with_its_table_and_reads_the_files_that_are_there_then(spark, tmp_path, capsys):
    """A bad file was deleted, one has another name, and one is new: none of them has to be fixed in place."""
    state, own = tmp_path / "state", tmp_path / "aside"

    def file(number, *rows):
        changes(tmp_path / "r", number, rows)
        os.utime(tmp_path / "r" / f"{number}.json", (number, number))

    def drained():
        frame = spark.readStream.schema("k long, v string, _weight long").option("maxFilesPerTrigger", 1)
        query = write_deltas(
            spark, QUERY, {"r": frame.json(str(tmp_path / "r"))}, str(tmp_path / "deltas"), checkpoint=str(state),
            schema=R, on_bad_row="quarantine", quarantine=str(own), trigger={"availableNow": True},
        )  # fmt: skip
        query.awaitTermination()

    for number in range(4):
        file(number, (number % 2, number, 1), (7, number, 1), (7, "bad", 1))
    drained()
    assert written(spark, "delta", tmp_path / "deltas") == {(0, 2, 2): 1, (1, 2, 4): 1, (7, 4, 6): 1}
    asides = lambda: sorted(path.name for path in own.glob("*/crown/*"))  # noqa: E731
    assert asides() == [f"{number}.0.jsonl" for number in range(4)]
    (tmp_path / "r" / "2.json").rename(tmp_path / "r" / "again.json")
    (tmp_path / "r" / "3.json").unlink()
    assert command_line(command, state, "--rollback-to", 1) == 0
    said = capsys.readouterr().out
    assert "  table  " in said
    gone = {str(tmp_path / "r" / name) for name in ("2.json", "3.json")}
    assert {line.split()[1] for line in said.splitlines() if line.startswith("  file ")} == gone
    assert written(spark, "delta", tmp_path / "deltas") == {(0, 1, 0): 1, (1, 1, 1): 1, (7, 2, 1): 1}
    assert asides() == ["0.0.jsonl", "1.0.jsonl"]
    file(4, (1, 5, 1))
    drained()
    assert written(spark, "delta", tmp_path / "deltas") == {(0, 2, 2): 1, (1, 2, 6): 1, (7, 3, 3): 1}
    assert max(read_after(LocalFolder(state), 1).values()) == 1


def test_entries_that_spark_has_put_together_with_later_ones_are_refused(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("7", "8", "9.compact", "10"):
        (log / name).write_text('v1\n{"path": "file:///gone"}')
    with pytest.raises(CheckpointError, match="up to 8: Spark has merged it with the logs of later batches"):
        sinks.back(LocalFolder(tmp_path), 8)
    sinks.back(LocalFolder(tmp_path), 9)()
    assert sorted(os.listdir(log)) == ["7", "8", "9.compact"]
