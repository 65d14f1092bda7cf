"""Tables that hold a result. Oracle: the same deltas added up in Python, after every batch."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pathlib
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import crown
from spark_jobs import maintain, to_table
from spark_jobs.errors import BrokenChainError, CheckpointError, SourceError, SparkJobError
from spark_jobs.storage.local import LocalFolder
from spark_jobs.tables.deltas.parts import write_part
from spark_jobs.tables.results import merge
from spark_jobs.tables.results.iceberg import IcebergResult
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.net import net_of
from spark_jobs.tables.results.postgres import PostgresResult, _typed
from tests.spark.streams import ChangeFiles

deltalake = pytest.importorskip("deltalake")
psycopg = pytest.importorskip("psycopg")

STREAM = "a-stream"


class InDelta:
    """A result in a Delta table."""

    def __init__(self, folder):
        self.folder = folder
        self.address = str(folder)
        self.options = {}

    def result(self):
        return DeltaResult(LocalFolder(self.folder))

    def arrow(self):
        return deltalake.DeltaTable(str(self.folder)).to_pyarrow_table()

    def rows(self):
        return Counter(listed(self))

    def tamper(self, key):
        deltalake.DeltaTable(str(self.folder)).delete(f"a = {key}")


class InPostgres:
    """A result in a database."""

    def __init__(self, address, name):
        self.address = address
        self.options = {"table": name}
        self.name = name

    def result(self):
        return PostgresResult(self.address, self.name)

    def rows(self):
        with psycopg.connect(self.address) as connection:
            return Counter(connection.execute(f'SELECT * FROM "{self.name}"').fetchall())

    def tamper(self, key):
        with psycopg.connect(self.address) as connection:
            connection.execute(f'DELETE FROM "{self.name}" WHERE a = {key}')


class InIceberg:
    """A result in an Iceberg table."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.address = "iceberg:here.shop.result"
        self.options = {}

    def result(self):
        return IcebergResult("here.shop.result")

    def table(self):
        return self.catalog.load_table("shop.result")

    def arrow(self):
        return self.table().scan().to_arrow()

    def rows(self):
        return Counter(listed(self))

    def tamper(self, key):
        self.table().delete(f"a = {key}")


def listed(target):
    return list(zip(*target.arrow().to_pydict().values(), strict=True))


@pytest.fixture(params=["delta", "postgres", "iceberg"])
def target(request, tmp_path):
    if request.param == "delta":
        return InDelta(tmp_path / "the result")
    if request.param == "iceberg":
        return InIceberg(request.getfixturevalue("iceberg_catalog"))
    return InPostgres(request.getfixturevalue("database"), f"T{abs(hash(request.node.name)) % 10**9}")


def grouped(count, seed=4):
    """Deltas of a group by a key that may be NULL, batch by batch, with what they add up to."""
    rng, view = random.Random(seed), crown.view("SELECT a, COUNT(*) n, SUM(b) s FROM r GROUP BY a", R)
    state, held = Counter(), []
    for _ in range(count):
        rows = [(rng.choice([None, *range(9)]), rng.choice([None, *range(5)]), 1) for _ in range(12)]
        rng.shuffle(held)
        gone, held = held[:8], [*held[8:], *((a, b) for a, b, _ in rows)]
        delta = view.apply({"r": [{"a": a, "b": b, "_weight": w} for a, b, w in [*rows, *((*g, -1) for g in gone)]]})
        for row in delta.to_pylist():
            state[row["a"], row["n"], row["s"]] += row["_weight"]
        state = +state
        yield delta, Counter(state)


R = {"r": {"a": "int64", "b": "int64"}}


def test_a_result_by_key_is_current_after_every_batch_and_a_batch_again_changes_nothing(target):
    for batch, (delta, expected) in enumerate(grouped(6)):
        assert target.result().apply(STREAM, batch, net_of(delta, ["A"], batch))
        assert target.rows() == expected
        assert not target.result().apply(STREAM, batch, net_of(delta, ["a"], batch))
        assert target.rows() == expected
    with pytest.raises(BrokenChainError, match="is at batch 4: the checkpoint was reset"):
        target.result().apply(STREAM, 4, net_of(delta, ["a"], 4))
    with pytest.raises(BrokenChainError, match="has batches up to 5 of this stream, which is at batch 7"):
        target.result().apply(STREAM, 7, net_of(delta, ["a"], 7))
    with pytest.raises(CheckpointError, match="give this stream a table of its own"):
        target.result().apply("another", 0, net_of(delta, ["a"], 0))


def test_a_column_of_the_result_may_be_called_as_one_of_a_change_feed(target):
    delta = pa.table({"a": [1], "_change_type": ["old"], "_weight": [1]})
    target.result().apply(STREAM, 0, net_of(delta, ["a"], 0))
    again = pa.table({"a": [1, 1, 2], "_change_type": ["old", "new", "x"], "_weight": [-1, 1, 1]})
    target.result().apply(STREAM, 1, net_of(again, ["a"], 1))
    assert target.rows() == {(1, "new"): 1, (2, "x"): 1}


def test_a_result_without_a_key_has_a_count_of_every_row(target):
    rng, state = random.Random(8), Counter()
    for batch in range(5):
        rows = [(rng.choice([None, 1, 2, 3]), rng.choice([None, "", "x,\"y'", "é"])) for _ in range(15)]
        weights = [1 if rng.random() < 0.6 or not state[row] else -1 for row in rows]
        change = Counter()
        for row, weight in zip(rows, weights, strict=True):
            if state[row] + change[row] + weight >= 0:
                change[row] += weight
        state = Counter({row: n for row in {*state, *change} if (n := state[row] + change[row])})
        given = [(a, s, w) for (a, s), w in change.items()]
        a, s, w = zip(*given, strict=True)
        delta = pa.table(
            {"a": pa.array(a, pa.int64()), "S": pa.array(s, pa.string()), "_weight": pa.array(w, pa.int64())}
        )
        target.result().apply(STREAM, batch, net_of(delta, None, batch))
        assert target.rows() == Counter({(*row, n): 1 for row, n in state.items()})


def test_every_type_arrives_as_it_is(target):
    row = {
        "a": 1, "i": pa.scalar(-5, pa.int32()).as_py(), "t": "ü\n\\N", "f": 0.1 + 0.2, "o": True,
        "d": dt.date(2024, 2, 1), "z": dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC), "l": dt.datetime(2024, 1, 1, 0, 0),
        "n": decimal.Decimal("12.50"), "b": b"\x00\xff",
    }  # fmt: skip
    types = [
        pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"),
        pa.timestamp("us"), pa.decimal128(6, 2), pa.binary(),
    ]  # fmt: skip
    schema = pa.schema([*zip(row, types, strict=True), ("_weight", pa.int64())])
    delta = pa.Table.from_pylist([{**row, "_weight": 1}, {"a": 2, "_weight": 1}], schema)
    target.result().apply(STREAM, 0, net_of(delta, ["a"], 0))
    assert target.rows() == Counter([tuple(row.values()), (2, *[None] * 9)])
    again = pa.Table.from_pylist([{**row, "_weight": -1}, {**row, "t": "", "_weight": 1}], schema)
    target.result().apply(STREAM, 1, net_of(again, ["a"], 1))
    assert target.rows() == Counter([tuple({**row, "t": ""}.values()), (2, *[None] * 9)])


@pytest.mark.parametrize("target", ["delta", "iceberg"], indirect=True)
def test_rows_are_found_by_values_with_parts(target):
    schema = pa.schema(
        [
            ("l", pa.list_(pa.string())),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("_weight", pa.int64()),
        ]
    )
    one, empty = (["a", None], {"x": 1, "y": None}, [("k", 1)]), ([], {"x": None, "y": None}, [])
    batches = [
        [(*one, 2), (*empty, 1), (None, None, None, 1)],
        [(*one, -1), (["a"], *one[1:], 1), (None, None, None, -1)],
        [(*empty, -1), (None, *empty[1:], 1), (*one, 1)],
    ]
    state = Counter()
    for batch, rows in enumerate(batches):
        delta = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        target.result().apply(STREAM, batch, net_of(delta, None, batch))
        for *row, weight in rows:
            state[repr(row)] += weight
        assert {repr(list(row[:-1])): row[-1] for row in listed(target)} == +state


@pytest.mark.parametrize("target", ["delta", "iceberg"], indirect=True)
@pytest.mark.parametrize("keys", [["k"], None])
def test_rows_are_found_by_a_key_of_arrays(target, keys):
    found = by_few(target, keys, pa.list_(pa.int64()), [[1, None], None, [], [1]])
    assert found["k"].to_pylist() == [[1, None], [], [1]]


@pytest.mark.parametrize("keys", [["k"], None])
def test_rows_are_found_by_a_date_beyond_the_year_9999(tmp_path, keys):
    found = by_few(InDelta(tmp_path / "result"), keys, pa.date32(), [9_000_000, None, -4_000_000, 0])
    assert found["k"].cast(pa.int32()).to_pylist() == [9_000_000, -4_000_000, 0]


def test_iceberg_says_that_it_takes_no_date_beyond_the_year_9999(iceberg_catalog):
    with pytest.raises(CheckpointError, match="cannot be written to the Iceberg table"):
        by_few(InIceberg(iceberg_catalog), ["k"], pa.date32(), [9_000_000, None, -4_000_000, 0])


@pytest.mark.parametrize("by", ["compaction", "append"])
def test_a_table_that_another_writer_changes_meanwhile_is_read_again(tmp_path, monkeypatch, by):
    target = InDelta(tmp_path / "result")
    for batch in range(3):
        target.result().apply(STREAM, batch, net_of(delta_of((2 * batch, 1, 1), (2 * batch + 1, 1, 1)), ["a"], batch))

    def meanwhile():
        if by == "compaction":
            deltalake.DeltaTable(target.address).optimize.compact()
        else:
            deltalake.write_deltalake(target.address, delta_of((99, 1, 1)).drop_columns(["_weight"]), mode="append")

    before_writing(monkeypatch, meanwhile)
    assert target.result().apply(STREAM, 3, net_of(delta_of((0, 1, -1), (0, 9, 1)), ["a"], 3))
    theirs = {(99, 1): 1} if by == "append" else {}
    assert target.rows() == Counter({(0, 9): 1, **{(a, 1): 1 for a in range(1, 6)}, **theirs})
    assert len(written_of(target, 3)) == 1


def test_a_batch_that_another_process_commits_meanwhile_is_in_the_table_once(tmp_path, monkeypatch):
    target = InDelta(tmp_path / "result")
    target.result().apply(STREAM, 0, net_of(delta_of((0, 1, 1)), ["a"], 0))
    net = net_of(delta_of((0, 1, -1), (0, 2, 1), (1, 1, 1)), ["a"], 1)
    before_writing(monkeypatch, lambda: target.result().apply(STREAM, 1, net))
    with pytest.raises(CheckpointError, match="another job has committed batch 1 of this stream"):
        target.result().apply(STREAM, 1, net)
    assert target.rows() == {(0, 2): 1, (1, 1): 1}
    assert len(written_of(target, 1)) == 1


def test_the_first_two_results_of_a_database_may_come_at_once(database):
    net = net_of(delta_of((1, 1, 1)), ["a"], 0)
    with psycopg.connect(database, autocommit=True) as server, ThreadPoolExecutor(1) as pool:
        server.execute("CREATE DATABASE fresh")
        fresh = database.replace("/postgres", "/fresh")
        with psycopg.connect(fresh) as first:
            PostgresResult(fresh, "one")._newest(first.cursor(), STREAM, net)
            second = pool.submit(PostgresResult(fresh, "two").apply, STREAM, 0, net)
            waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'fresh' AND wait_event_type = 'Lock'"
            while not (second.done() or server.execute(waits).fetchone() == (1,)):
                time.sleep(0.01)
        assert second.result()
        with psycopg.connect(fresh) as connection:
            assert connection.execute("TABLE two").fetchall() == [(1, 1)]


def written_of(target, batch):
    """The files in the folder of a table that are of a batch, also those that are in no version of it."""
    return [*pathlib.Path(target.address).glob(f"part-{batch:08d}-*.parquet")]


def before_writing(monkeypatch, meanwhile):
    """Has something happen once, between reading a Delta table and writing to it."""

    def write(*args, **options):
        monkeypatch.setattr(merge, "write_part", write_part)
        meanwhile()
        return write_part(*args, **options)

    monkeypatch.setattr(merge, "write_part", write)


def by_few(target, keys, type_, values):
    """Changes rows that have four values as their key, and returns what is left, the newest first."""

    def apply(batch, *rows):
        chosen, n, weights = zip(*rows, strict=True)
        k = pa.array([values[i] for i in chosen], type_)
        delta = pa.table({"k": k, "n": list(n), "_weight": pa.array(weights, pa.int64())})
        target.result().apply(STREAM, batch, net_of(delta, keys, batch))

    apply(0, (0, 1, 1), (1, 1, 1), (2, 2, 1))
    apply(1, (0, 1, -1), (0, 2, 1), (3, 1, 1))
    apply(2, (1, 1, -1), (0, 2, -1), (0, 3, 1))
    found = target.arrow().sort_by([("n", "descending")])
    assert found["n"].to_pylist() == [3, 2, 1]
    return found


def delta_of(*rows):
    return pa.table(
        {
            name: pa.array(values, pa.int64())
            for name, values in zip(("a", "n", "_weight"), zip(*rows, strict=True), strict=True)
        }
    )


def test_a_key_that_is_none_and_a_table_that_was_changed_are_found_out(target):
    with pytest.raises(SparkJobError, match="is not a key of the result: in batch 3 several rows have a = 7"):
        net_of(delta_of((7, 1, 1), (7, 2, 1)), ["a"], 3)
    target.result().apply(STREAM, 0, net_of(delta_of((1, 1, 1), (2, 1, 1)), ["a"], 0))
    target.tamper(2)
    for _ in range(2):  # and it is said again
        with pytest.raises(SparkJobError, match="batch 1 does not fit what is in"):
            target.result().apply(STREAM, 1, net_of(delta_of((2, 1, -1)), ["a"], 1))


def test_a_second_row_of_a_key_is_found_out_when_it_comes(target):
    target.result().apply(STREAM, 0, net_of(delta_of((1, 1, 1)), ["a"], 0))
    with pytest.raises(SparkJobError, match="batch 1 does not fit what is in"):
        target.result().apply(STREAM, 1, net_of(delta_of((1, 5, 1), (3, 3, 1)), ["a"], 1))


def test_what_makes_no_sense_is_refused_before_anything_is_made(tmp_path):
    for options, said in [
        ({"keys": "a"}, "give a list of columns"),
        ({"keys": []}, "leave out keys="),
        ({"keys": ["a", "A"]}, "its key names 'A' twice; name each column once"),
        ({"table": "t"}, "is for a database"),
    ]:
        with pytest.raises(SourceError, match=said):
            to_table(str(tmp_path / "t"), **options)
    for place in (
        f"{tmp_path / 't'}?key=a,b,a",
        "postgresql://me:secret@127.0.0.1/x?table=t&key=a,a",
        "kafka://h:1/t?key=a,a",
        "iceberg:c.n.t?key=a,a",
        f"{tmp_path / 't'}?key=a&key=b",
        "postgresql://me:secret@127.0.0.1/x?table=t&key=a&key=b",
        "kafka://h:1/t?key=a&key=b",
        "iceberg:c.n.t?key=a&key=b",
    ):
        with pytest.raises(SourceError, match=r"its key names 'a' twice|it (has key=|names its key) twice") as said:
            to_table(place)
        assert "secret" not in str(said.value)
        with pytest.raises(SourceError, match="its key has a column without a name"):
            to_table(place.partition("key=")[0] + "key=")
    for place in ("postgresql://nobody@127.0.0.1/x", "postgresql://nobody@127.0.0.1/x?table="):
        with pytest.raises(SourceError, match="a database needs table="):
            to_table(place)
    for form in ({"a": [1]}, {"a": [1], "_weight": [0], "_until": [None], "_commit_version": [0]}):
        with pytest.raises(SourceError, match="and these have another form: leave emit= out"):
            net_of(pa.table(form), None, 0)
    with pytest.raises(SourceError, match="keys= names 'z', but the result has: a, n"):
        net_of(delta_of((1, 1, 1)), ["z"], 0)
    with pytest.raises(SourceError, match="has a column '_op'"):
        net_of(pa.table({"_op": [1], "_weight": [1]}), None, 0)
    with pytest.raises(SourceError, match="cannot hold the column b, which has the type"):
        _typed(pa.field("b", pa.list_(pa.int64())))
    with pytest.raises(CheckpointError, match=r"cannot be written to t in 127\.0\.0\.1/x .*connection") as error:
        PostgresResult("postgresql://me:secret@127.0.0.1:1/x", "t").apply(
            STREAM, 0, net_of(delta_of((1, 1, 1)), ["a"], 0)
        )
    assert "secret" not in str(error.value)


def test_a_stream_keeps_both_current(spark, tmp_path, database):
    files = ChangeFiles(tmp_path / "in", R)
    rng, counted = random.Random(2), Counter()
    for _ in range(3):
        rows = [(rng.randrange(5), rng.randrange(9), 1) for _ in range(20)]
        counted.update(a for a, _, _ in rows)
        files.add({"r": rows})
    for name, keep in (
        ("in a folder", to_table(str(tmp_path / "counts"), ["a"])),
        ("in a database", to_table(database, ["a"], table="counts")),
    ):
        state = str(tmp_path / name)
        query, frames = "SELECT a, COUNT(*) AS n FROM r GROUP BY a", files.frames(spark)
        deltas = maintain(spark, query, frames, checkpoint=state, scratch=str(tmp_path / "scratch"))
        writer = deltas.writeStream.foreachBatch(keep).option("checkpointLocation", state)
        writer.trigger(availableNow=True).start().awaitTermination()
    expected = Counter(counted.items())
    assert InDelta(tmp_path / "counts").rows() == InPostgres(database, "counts").rows() == expected


def test_two_tables_in_one_function_read_the_batch_once(spark, tmp_path):
    """A batch that is read again is rolled back and applied again by every cell, which its notes say."""
    files = ChangeFiles(tmp_path / "in", R)
    for n in range(2):
        files.add({"r": [(n, n, 1), (n, n + 1, 1)]})
    one, other = (to_table(str(tmp_path / name), keys) for name, keys in (("by key", ["a"]), ("with counts", None)))

    def both(frame, batch):
        one(frame, batch)
        other(frame, batch)

    state = tmp_path / "state"
    query, scratch = "SELECT a, COUNT(*) AS n FROM r GROUP BY a", str(tmp_path / "scratch")
    deltas = maintain(spark, query, files.frames(spark), checkpoint=str(state), scratch=scratch)
    writer = deltas.writeStream.foreachBatch(both).option("checkpointLocation", str(state))
    writer.trigger(availableNow=True).start().awaitTermination()
    notes = [json.loads(note.read_text()) for note in sorted(state.glob("crown/*/crown/0/[0-9].json"))]
    assert [note["redone"] for note in notes] == [False, False]
    assert sorted(InDelta(tmp_path / "by key").rows()) == [(0, 2), (1, 2)]
    assert InDelta(tmp_path / "with counts").rows() == Counter({(0, 2, 1): 1, (1, 2, 1): 1})


def test_a_frame_that_is_kept_for_a_later_batch_is_read_again_and_refused(spark, tmp_path):
    files, kept = ChangeFiles(tmp_path / "in", R), []
    for n in range(2):
        files.add({"r": [(n, n, 1)]})
    keep = to_table(str(tmp_path / "table"), ["a"])

    def late(frame, batch):
        kept.append(frame)
        keep(kept[0], batch)

    state = str(tmp_path / "state")
    query, scratch = "SELECT a, COUNT(*) AS n FROM r GROUP BY a", str(tmp_path / "scratch")
    deltas = maintain(spark, query, files.frames(spark), checkpoint=state, scratch=scratch)
    writer = deltas.writeStream.foreachBatch(late).option("checkpointLocation", state)
    with pytest.raises(Exception, match="kept the frame of an earlier batch"):
        writer.trigger(availableNow=True).start().awaitTermination()
