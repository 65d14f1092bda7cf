"""Cells that read files themselves: the same results as through Spark, and no row goes through Spark."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from plans.errors import PlanError
from plans.schema import Column, Table
from spark_jobs import plain_errors
from spark_jobs.job.progress import rows_of_files, rows_read
from spark_jobs.storage.opening import folder_at
from tests.marks import by_turns, slow

ORDERS = pa.schema([
    ("id", pa.int64()), ("customer", pa.int32()), ("amount", pa.decimal128(10, 2)), ("day", pa.date32()),
    ("note", pa.string()), ("_weight", pa.int32()),
])  # fmt: skip
CUSTOMERS = pa.schema([("id", pa.int32()), ("region", pa.string()), ("at", pa.timestamp("us", "UTC"))])
QUERIES = {
    "join": "SELECT o.id, amount, region, c.at FROM orders o JOIN customers c ON o.customer = c.id WHERE amount > 2",
    "self-join": "SELECT DISTINCT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer "
    "WHERE a.note = 'x'",
    "groups of a join": "SELECT region, SUM(amount) AS s, MIN(day) AS d, COUNT(note) AS n "
    "FROM orders o JOIN customers c ON customer = c.id GROUP BY region",
    "groups": "SELECT note, COUNT(*) AS n FROM orders GROUP BY note",
}

EVERY_RUN = {("groups of a join", 3), ("self-join", 1)}


def rows(schema, rng, n):
    draw = {
        "id": lambda: rng.randrange(40),
        "customer": lambda: rng.choice([None, *range(8)]),
        "amount": lambda: rng.choice([None, Decimal(rng.randrange(-500, 500)) / 100]),
        "day": lambda: rng.choice([None, dt.date(1582, 10, 1), dt.date(2026, 1, 1)]),
        "note": lambda: rng.choice([None, "", "x", "a longer text of more than 32 bytes, ü"]),
        "_weight": lambda: rng.choice([1, 1, 2, 0]),
        "region": lambda: rng.choice([None, "north", "south"]),
        "at": lambda: rng.choice([None, dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)]),
    }
    return pa.table({field.name: pa.array([draw[field.name]() for _ in range(n)], field.type) for field in schema})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables of two files each; the second file of orders takes rows of the first away."""
    folder, rng = tmp_path_factory.mktemp("tables"), random.Random(5)
    for name, schema, n in (("orders", ORDERS, 300), ("customers", CUSTOMERS, 30)):
        (folder / name).mkdir()
        first = rows(schema, rng, n)
        pq.write_table(first, folder / name / "one file.parquet", row_group_size=97)
        second = rows(schema, rng, n // 2)
        if name == "orders":
            gone = first.slice(0, 60).filter(pa.compute.greater(first.slice(0, 60)["_weight"], 0))
            minus = pa.array([-1] * gone.num_rows, pa.int32())
            second = pa.concat_tables([second, gone.set_column(5, "_weight", minus)])
        pq.write_table(second, folder / name / "b%20.parquet", use_dictionary=False)
    return folder


def result(frame):
    return sorted(map(repr, frame.collect()))


def reads_files(frame):
    return "FileScan parquet" not in frame._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    ("query", "cells"),
    [
        pytest.param(
            query, cells, marks=[] if (name, cells) in EVERY_RUN else [pytest.mark.slow], id=f"{name}, {cells} cells"
        )
        for name, query in QUERIES.items()
        for cells in (1, 3)
    ],
)
def test_cells_read_what_spark_reads(spark, folder, query, cells):
    frames = {name: spark.read.parquet(str(folder / name)) for name in ("orders", "customers") if name in query}
    mine = crown.spark.maintain(spark, query, frames, cells=cells)
    assert reads_files(mine)
    through = {name: frame.where("true") for name, frame in frames.items()}
    theirs = crown.spark.maintain(spark, query, through, cells=cells)
    assert not reads_files(theirs)
    expected = result(theirs)
    assert len(expected) > 1
    assert result(mine) == expected


def test_rows_and_files_side_by_side(spark, folder):
    frames = {name: spark.read.parquet(str(folder / name)) for name in ("orders", "customers")}
    whole = crown.spark.maintain(spark, QUERIES["groups of a join"], frames, cells=2)
    frames["customers"] = frames["customers"].where("true")
    mixed = crown.spark.maintain(spark, QUERIES["groups of a join"], frames, cells=2)
    assert result(mixed) == result(whole)


def test_a_load_from_files_is_gone_on_with(spark, folder, tmp_path):
    frames = {name: spark.read.parquet(str(folder / name)) for name in ("orders", "customers")}
    state = str(tmp_path / "state")
    loaded = crown.spark.bulk_load(spark, QUERIES["groups of a join"], frames, checkpoint=state, cells=2)
    assert reads_files(loaded)
    before = loaded.toArrow().to_pylist()
    more = rows(ORDERS, random.Random(6), 20)
    (tmp_path / "changes").mkdir()
    (tmp_path / "none").mkdir()
    pq.write_table(more, tmp_path / "changes" / "1.parquet")
    stream = {name: spark.readStream.schema(frame.schema) for name, frame in frames.items()}
    changes = {"orders": stream["orders"].parquet(str(tmp_path / "changes"))}
    changes["customers"] = stream["customers"].parquet(str(tmp_path / "none"))
    deltas = crown.spark.maintain(spark, QUERIES["groups of a join"], changes, checkpoint=state, cells=2)
    writer = deltas.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer.option("checkpointLocation", state).trigger(availableNow=True).start().awaitTermination()
    after = before + pq.read_table(tmp_path / "out").to_pylist()
    pq.write_table(more, folder / "orders" / "later.parquet")
    try:
        frames["orders"] = spark.read.parquet(str(folder / "orders"))
        whole = crown.spark.maintain(spark, QUERIES["groups of a join"], frames, cells=1).toArrow().to_pylist()
    finally:
        (folder / "orders" / "later.parquet").unlink()
    assert summed(after) == summed(whole)


def summed(deltas):
    found = {}
    for row in deltas:
        key = repr({name: value for name, value in row.items() if name != "_weight"})
        found[key] = found.get(key, 0) + row["_weight"]
    return {key: weight for key, weight in found.items() if weight}


@pytest.mark.parametrize("cells", [slow(1), 3])
def test_a_stream_of_files(spark, folder, tmp_path, cells):
    """Oracle: Spark's rows of the same files, as one batch."""
    query, rng, state = QUERIES["groups of a join"], random.Random(cells), str(tmp_path / "state")
    given = {"orders": ORDERS, "customers": CUSTOMERS}
    frames = {}
    for name, schema in given.items():
        (tmp_path / name).mkdir()
        pq.write_table(rows(schema, rng, 30), tmp_path / name / "0.parquet")
        reader = spark.readStream.schema(spark.read.parquet(str(folder / name)).schema)
        frames[name] = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))
    whole, read = [], 0
    for number in range(1, 3):
        more = {name: rows(schema, rng, 10 * number) for name, schema in given.items()}
        if number == 2:  # what came goes
            first = pq.read_table(tmp_path / "orders" / "0.parquet")
            more["orders"] = first.set_column(5, "_weight", pa.compute.negate(first["_weight"]))
        for name, table in more.items():
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
        deltas = crown.spark.maintain(spark, query, frames, checkpoint=state, cells=cells)
        assert reads_files(deltas)
        writer = deltas.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        stream = writer.option("checkpointLocation", state).trigger(availableNow=True).start()
        stream.awaitTermination()
        for progress in (json.loads(one.json) for one in stream.recentProgress):
            if "addBatch" in progress["durationMs"]:
                at = folder_at(tmp_path / "state" / "crown" / str(stream.id))
                read += rows_read(progress, rows_of_files(at, progress["batchId"]))
        through = {name: spark.read.parquet(str(tmp_path / name)).where("true") for name in given}
        whole = crown.spark.maintain(spark, query, through).toArrow().to_pylist()
        assert summed(pq.read_table(tmp_path / "out").to_pylist()) == summed(whole)
    assert len(whole) > 1
    assert read == sum(frame.count() for frame in through.values())


def test_a_stream_that_two_relations_read_is_one_source(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k=v" / "in").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1, 2], "b": [2, 1]}), tmp_path / "k=v" / "in" / "1.parquet")
    frame = spark.readStream.schema("a long, b long").parquet(str(tmp_path / "k=v" / "in"))
    query = "SELECT x.a, y.b FROM x JOIN y ON x.b = y.a"
    deltas = crown.spark.maintain(spark, query, {"x": frame, "y": frame}, checkpoint="state", cells=1)
    writer = deltas.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start().awaitTermination()
    assert pq.read_table(tmp_path / "out").num_rows == 2
    assert [folder.name for folder in (tmp_path / "state" / "sources").iterdir()] == ["0"]


def test_a_file_that_is_gone_or_damaged_is_an_error_that_says_what_to_do(spark, tmp_path):
    (tmp_path / "t").mkdir()
    first, rows = tmp_path / "t" / "1.parquet", pa.table({"a": [1], "b": [1]})
    for file in (first, tmp_path / "t" / "2.parquet"):
        pq.write_table(rows, file)
    deltas = crown.spark.maintain(spark, GROUPS, {"t": spark.read.parquet(str(tmp_path / "t"))})
    first.unlink()
    with pytest.raises(crown.CrownError, match=r"1\.parquet is missing: restore it, or"), plain_errors():
        deltas.collect()
    first.write_bytes(b"no file")
    with (
        pytest.raises(crown.CrownError, match=r"1\.parquet is not a readable Parquet file.*without rows"),
        plain_errors(),
    ):
        deltas.collect()
    pq.write_table(rows.slice(0, 0), first)
    assert result(deltas) == ["Row(b=1, s=1, _weight=1)"]


GROUPS = "SELECT b, SUM(a) AS s FROM t GROUP BY b"


UNREADABLE = {
    "type": ("a long, b long", {"a": pa.array(["1"]), "b": pa.array([1])}, "column 'a' has type string"),
    "value": ("a long, b long", {"a": pa.array([1]), "b": pa.array([-(2**63)])}, "bad row in relation 't': column 'b'"),
    "weight": ("a long, b long, _weight long", {"a": [1], "b": [1], "_weight": pa.nulls(1, pa.int64())}, "is missing"),
}


@pytest.mark.parametrize(("kind", "cells"), by_turns(UNREADABLE, (2, 1)))
def test_what_cannot_be_read_is_an_error_of_one_sentence(spark, tmp_path, kind, cells):
    schema, table, said = UNREADABLE[kind]
    pq.write_table(pa.table(table), tmp_path / "1.parquet")
    frame = spark.read.schema(schema).parquet(str(tmp_path))
    deltas = crown.spark.maintain(spark, GROUPS, {"t": frame}, cells=cells)
    assert reads_files(deltas)
    with pytest.raises(crown.CrownError, match=said), plain_errors():
        deltas.collect()


def test_a_column_that_a_file_lacks_is_null(spark, tmp_path):
    pq.write_table(pa.table({"B": [1, 2]}), tmp_path / "1.parquet")
    frame = spark.read.schema("a long, b long").parquet(str(tmp_path))
    deltas = crown.spark.maintain(spark, "SELECT a, b FROM t", {"t": frame})
    assert reads_files(deltas)
    assert result(deltas) == ["Row(a=None, b=1, _weight=1)", "Row(a=None, b=2, _weight=1)"]


def test_other_frames_go_through_spark(spark, tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [1, 2]}), tmp_path / "x.parquet")
    (tmp_path / "parts" / "b=1").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "parts" / "b=1" / "1.parquet")
    plain = spark.read.parquet(str(tmp_path / "x.parquet"))
    kept = spark.read.parquet(str(tmp_path / "x.parquet")).cache()
    frames = {
        "filtered": plain.where("a > 1"),
        "computed": plain.selectExpr("a + 1 AS a", "b"),
        "renamed": plain.selectExpr("b AS a", "a AS b"),
        "of partitions": spark.read.parquet(str(tmp_path / "parts")),
        "coded": plain.selectExpr("a", "b").withColumn("_weight", plain.a.cast("string")),
    }
    for name, frame in frames.items():
        assert not reads_files(crown.spark.maintain(spark, GROUPS, {"t": frame})), name
    try:
        deltas = crown.spark.maintain(spark, GROUPS, {"t": kept})
        assert "InMemoryTableScan" in deltas._jdf.queryExecution().toString()
    finally:
        kept.unpersist()
    aside = crown.spark.maintain(spark, GROUPS, {"t": plain}, on_bad_row="quarantine", quarantine=str(tmp_path / "bad"))
    assert not reads_files(aside)
    assert reads_files(crown.spark.maintain(spark, GROUPS, {"t": plain.select("b", "a")}))
    with pytest.raises(PlanError, match="column"):
        crown.spark.maintain(spark, GROUPS, {"t": plain.select("a")})


def test_a_declared_key_is_never_null_whether_or_not_all_of_it_is_read(spark, tmp_path):
    found = pa.table({"id": [1, 2], "line": [1, None], "amount": [5, 6]})
    pq.write_table(found, tmp_path / "lines.parquet")
    frames = {"lines": spark.read.parquet(str(tmp_path / "lines.parquet"))}
    columns = tuple(Column(name, "int64") for name in found.column_names)
    declared = {"lines": Table("lines", columns, ("id", "line"))}
    groups = crown.spark.maintain(spark, "SELECT id, SUM(amount) AS s FROM lines GROUP BY id", frames, schema=declared)
    assert reads_files(groups)
    assert len(result(groups)) == 2, "what is not read is not looked at"
    listed = crown.spark.maintain(spark, "SELECT id, line FROM lines", frames, schema=declared)
    assert reads_files(listed)
    with plain_errors(), pytest.raises(Exception, match=r"line.* NULL|NULL.*line"):
        result(listed)
