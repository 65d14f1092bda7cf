"""Updates by key on real streams: DuckDB's table after INSERT OR REPLACE, compared after every micro-batch."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from pyspark.sql import functions as F

import crown
from crown.changes import VERSION
from plans.schema import CHANGE_TYPE, Schema
from spark_jobs import bulk_load, maintain, read_deltas, read_view, write_deltas
from spark_jobs.errors import SourceError
from spark_jobs.ingest.sources import Input, changes
from tests.marks import slow
from tests.oracles.upserts import Twin, schema
from tests.spark.streams import ChangeFiles, Result, rows_of, run

pytestmark = pytest.mark.spark

JOINED = "SELECT o.id, p.w FROM o JOIN p ON o.v = p.v"
COUNTED = "SELECT v, COUNT(*) AS c, SUM(n) AS s FROM o GROUP BY v"
SEQUENCE = "SELECT o.id, o.seq, p.w FROM o JOIN p ON o.v = p.v WHERE o.seq > 3"
FILLED = {"p": [(v, w, 1) for w, v in enumerate("abc")]}


def row_of(change):
    return tuple(change.get(name) for name in ("id", "v", "n", "seq", "_weight"))


@pytest.mark.parametrize(("query", "cells"), [(JOINED, 2), slow(SEQUENCE, 2), slow(JOINED, 1), slow(COUNTED, 2)])
def test_every_batch_is_what_duckdb_has_though_it_is_read_twice_and_state_is_lost(spark, tmp_path, query, cells):
    """The join column of a row changes, so the row moves from one cell to the other."""
    declared = Schema.of({name: of for name, of in schema("seq").items() if name == "o" or " p " in query})
    twin, files, sink = Twin(3, True), ChangeFiles(tmp_path / "in", declared), Result()

    def twice(frame, number):
        first = rows_of(frame)
        assert rows_of(frame) == first
        sink.deltas[number] = first

    for number in range(3):
        batch = twin.batch(14)
        twin.apply(batch)
        files.add({"o": [row_of(change) for change in batch], **(FILLED if number == 0 else {})})
        run(spark, query, files, tmp_path / "state", consume=twice, schema=declared, cells=cells)
        assert sink.state() == twin.result(query), number
        if number == 1:
            shutil.rmtree(tmp_path / "state" / "scratch", ignore_errors=True)
    kept = {path.parent.name for path in (tmp_path / "state").glob("**/meta.json")}
    assert kept == {"crown", "crown.keys.o"}


@pytest.mark.slow  # test_enforced_keys has a backfill with operators by key
def test_a_stream_goes_on_from_a_backfill(spark, tmp_path):
    declared = Schema.of(schema("seq"))
    twin, files, sink = Twin(6, True), ChangeFiles(tmp_path / "in", declared), Result()
    first = twin.batch(20)
    twin.apply(first)
    columns = "id long, v string, n long, seq long, _weight long"
    tables = {
        "o": spark.createDataFrame([row_of(change) for change in first], columns),
        "p": spark.createDataFrame([(v, w) for v, w, _ in FILLED["p"]], "v string, w long"),
    }
    loaded = bulk_load(spark, JOINED, tables, checkpoint=str(tmp_path / "state"), schema=declared, cells=2)
    sink.deltas[-1] = rows_of(loaded)
    assert sink.state() == twin.result(JOINED)
    batch = twin.batch(20)
    twin.apply(batch)
    files.add({"o": [row_of(change) for change in batch]})
    run(spark, JOINED, files, tmp_path / "state", sink=sink, schema=declared, cells=2)
    assert sink.state() == twin.result(JOINED)


def test_envelopes_without_the_row_before_are_taken_by_key(spark, tmp_path):
    (tmp_path / "o").mkdir()
    lines = [
        '{"op":"c","before":null,"after":{"id":1,"v":"a","n":1},"seq":10}',
        '{"op":"u","before":null,"after":{"id":1,"v":"b","n":2},"seq":11}',
        '{"op":"c","before":null,"after":{"id":2,"v":"b","n":2},"seq":12}',
        '{"op":"d","before":{"id":2},"after":null,"seq":13}',
        '{"op":"u","before":null,"after":{"id":1,"v":"c","n":0},"seq":9}',
        "null",
    ]
    (tmp_path / "o" / "1.json").write_text("\n".join(lines) + "\n")
    declared = Schema.of({"o": schema("seq")["o"]})
    frame = changes(spark, Input("o", tmp_path / "o", "json", {}, 1), declared["o"], None, False)
    assert rows_of(maintain(spark, "SELECT id, v FROM o", {"o": frame}, schema=declared)) == {(1, "b"): 1}
    image = "struct<id: bigint, v: string, n: bigint>"
    rows = [("c", None, (1, "a", 1), 1), ("d", (1, None, None), None, 2), ("u", None, (3, "b", 1), 3)]
    frame = spark.createDataFrame(rows, f"op string, before {image}, after {image}, seq long")
    assert rows_of(maintain(spark, "SELECT id, v FROM o", {"o": frame}, schema=declared)) == {(3, "b"): 1}
    partial = frame.withColumn("op", F.lit("x"))
    with pytest.raises(Exception, match="unknown op 'x'; use c, r, u or d"):
        maintain(spark, "SELECT id, v FROM o", {"o": partial}, schema=declared).collect()


def test_deletes_have_the_key_alone_and_codes_of_rows_before_change_nothing(spark):
    rows = [
        (1, "a", 1, 1, "+I"),
        (1, "b", 1, 2, "+U"),
        (1, "a", 1, 2, "-U"),
        (2, "a", 1, 1, "+I"),
        (2, None, None, 3, "-D"),
    ]
    frame = spark.createDataFrame(rows, "id long, v string, n long, seq long, _row_kind string")
    declared = {
        "o": {**schema("seq")["o"], "columns": {"id": "int64", "v": "string not null", "n": "int64", "seq": "int64"}}
    }
    assert rows_of(maintain(spark, "SELECT id, v FROM o", {"o": frame}, schema=declared)) == Counter({(1, "b"): 1})
    twice = frame.drop("_row_kind").withColumn("_weight", F.lit(2))
    with pytest.raises(Exception, match="a relation with upserts has every row once; use 1 or -1"):
        maintain(spark, "SELECT id, v FROM o", {"o": twice}, schema=declared).collect()


def test_without_a_sequence_there_is_a_sentence(spark):
    frame = spark.createDataFrame([(1, "a", 1, 1)], "id long, v string, n long, seq long")
    with pytest.raises(SourceError, match="rows of a Spark batch have no order: declare sequence="):
        maintain(spark, "SELECT id FROM o", {"o": frame}, schema=schema())


@pytest.mark.parametrize("emit", [None, slow("cdc")])
def test_state_elsewhere_a_table_that_cells_write_and_a_window_beside_go_with_upserts(spark, tmp_path, emit):
    """The state has a place of its own; its operators by key are there, too, and are read back after a start."""
    query = "SELECT p.v, COUNT(*) AS c, MAX(p.w) AS w FROM o JOIN p ON o.v = p.v GROUP BY p.v"
    declared = Schema.of(schema("seq"))
    twin, files = Twin(12, True), ChangeFiles(tmp_path / "in", declared)
    twin.duck.execute("DELETE FROM p")
    options = {"checkpoint": str(tmp_path / "job"), "state": str(tmp_path / "state"), "schema": declared}
    options |= {"windows": {"p": crown.last_rows(4, by="w")}, "emit": emit or "weights", "key": ["v"] if emit else None}
    for number in range(4):
        batch = twin.batch(9)
        twin.apply(batch)
        come = [("abc"[(number + i) % 3], 3 * number + i) for i in range(3)]
        files.add({"o": [row_of(change) for change in batch], "p": [(*row, 1) for row in come]})
        twin.duck.executemany("INSERT INTO p VALUES (?, ?)", come)
        twin.duck.execute("DELETE FROM p WHERE w NOT IN (SELECT w FROM p ORDER BY w DESC LIMIT 4)")
        if number % 2:
            trigger = {"availableNow": True}
            stream = write_deltas(
                spark, query, files.frames(spark), str(tmp_path / "table"), format="parquet", trigger=trigger,
                scratch=str(tmp_path / "scratch"), **options,
            )  # fmt: skip
            stream.awaitTermination()
            shutil.rmtree(tmp_path / "scratch")
            wanted = twin.result(query)
            assert summed(read_deltas(spark, str(tmp_path / "table"))) == wanted
            found = read_view(spark, options["checkpoint"])
            assert Counter(tuple(row) for row in found.collect()) == wanted
    assert {path.name for path in (tmp_path / "job" / "crown").iterdir()} == {"elsewhere.json", "outside.json"}
    assert {path.parent.name for path in (tmp_path / "state").glob("*/*/meta.json")} == {"crown", "crown.keys.o"}


def summed(table):
    """What the rows of a table of deltas add up to."""
    gone, found = ("delete", "update_preimage"), Counter()
    for row in (row.asDict() for row in table.collect()):
        row.pop("_batch", None)
        row.pop(VERSION, None)
        weight = row.pop("_weight", None) or (-1 if row.pop(CHANGE_TYPE) in gone else 1)
        found[tuple(row.values())] += weight
    return Counter({row: weight for row, weight in found.items() if weight})
