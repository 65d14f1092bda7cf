"""Rows that do not fit: strict streams stop before any state changes, quarantine puts them aside and loses nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import crown
from plans.schema import Schema
from spark_jobs import maintain
from spark_jobs.errors import SourceError
from spark_jobs.ingest.rows import check
from spark_jobs.ingest.sources import Input, changes
from tests.marks import slow
from tests.spark.streams import Result, rows_of

SCHEMA = Schema.of(
    {
        "r": {
            "id": "int64",
            "name": "string",
            "price": "decimal(6,2)",
            "day": "date",
            "share": "float64",
            "small": "int32",
        }
    }
)
QUERY = "SELECT DISTINCT id, name, price, day, share, small FROM r"
GOOD = {"id": "1", "name": "ann", "price": "12.50", "day": "2024-02-29", "share": "0.5", "small": "7"}

MISFITS = {
    "id": ["12a", "1.5", "9223372036854775808", "-9223372036854775808", "1e3"],
    "price": ["12.505", "12345.00", "abc"],
    "day": ["2023-02-29", "yesterday", "2024-02-29 10:00:00"],
    "share": ["1e400", "half"],
    "small": ["2147483648", "0.5"],
    "_weight": ["", "x", "2147483648", "-9223372036854775808", "+2x"],
}


def rows_with_misfits():
    good = [{**GOOD, "id": str(n), "_weight": "+I"} for n in range(3)] + [{**GOOD, "_weight": "1"}]
    bad = [{**GOOD, "_weight": "1", name: value} for name, values in MISFITS.items() for value in values]
    return good, bad


def write_csv(path, rows):
    names = [*GOOD, "_weight"]
    path.write_text(",".join(names) + "\n" + "".join(",".join(row[n] for n in names) + "\n" for row in rows))


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def stream(spark, folder, checkpoint, sink, kind="csv", **options):
    frame = changes(spark, Input("r", folder, kind, {}, 1), SCHEMA["r"], None, streaming=True)
    deltas = maintain(spark, QUERY, {"r": frame}, checkpoint=str(checkpoint), schema=SCHEMA, **options)
    writer = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return sink


class ReadTwice(Result):
    """A sink for which Spark executes every batch twice."""

    def write(self, frame, batch):
        frame.count()
        super().write(frame, batch)


def quarantined(checkpoint):
    found = {}
    for file in sorted(Path(checkpoint).glob("quarantine/*/crown/*.jsonl")):
        for line in file.read_text().splitlines():
            note = json.loads(line)
            found.setdefault((note["batch"], note["relation"]), []).append((note["data"], note["reason"]))
    return found


@pytest.mark.parametrize(
    ("kind", "write", "cells"),
    [("csv", write_csv, 2), slow("csv", write_csv, 1), ("json", write_json, 1), slow("json", write_json, 2)],
    ids=["csv-2", "csv-1", "json-1", "json-2"],
)
def test_quarantine_takes_every_misfit_and_nothing_else(spark, tmp_path, kind, write, cells):
    folder, checkpoint = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    good, bad = rows_with_misfits()
    write(folder / f"1.{kind}", good + bad)
    sink = stream(spark, folder, checkpoint, ReadTwice(), kind, on_bad_row="quarantine", cells=cells)
    assert sorted(row[0] for row in sink.state()) == [0, 1, 2]
    put_aside = quarantined(checkpoint)[(0, "r")]
    assert len(put_aside) == len(bad)
    for data, reason in put_aside:
        row = json.loads(data)
        name = next(n for n, values in MISFITS.items() if (row.get(n) or "") in values)
        assert "change code" in reason or "weight" in reason if name == "_weight" else f"column '{name}'" in reason


@pytest.mark.parametrize("name", [*(slow(name) for name in MISFITS if name != "_weight"), "_weight"])
def test_a_strict_stream_stops_before_any_state_changes(spark, tmp_path, name):
    folder, checkpoint = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    write_csv(folder / "1.csv", [{**GOOD, "_weight": "1"}, {**GOOD, "_weight": "1", name: MISFITS[name][-1]}])
    with pytest.raises(Exception, match=r"bad row in relation 'r': .*row: \{") as error:
        stream(spark, folder, checkpoint, Result())
    assert MISFITS[name][-1] in str(error.value)
    assert not list(checkpoint.glob("crown/*/crown/*"))
    write_csv(folder / "1.csv", [{**GOOD, "_weight": "1"}])
    assert len(stream(spark, folder, checkpoint, Result()).state()) == 1


@pytest.mark.parametrize("cells", [1, slow(2)])
@pytest.mark.parametrize(
    "bad",
    [slow({"_weight": None}), slow({"_weight": 2**31}), {"b": -(2**63)}, slow({"a": -(2**63)})],
    ids=lambda bad: "-".join(map(str, bad.items())),
)
def test_values_of_their_type_that_cannot_be_taken_stop_a_stream_before_its_state_changes(spark, tmp_path, bad, cells):
    """The engine finds them where there is one cell, Spark's expressions where there are more: said in the same way."""
    frame = spark.createDataFrame([(1, 2, 1), (1, 3, 1)], "a long, b long, _weight long")
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    sink, state = Result(), tmp_path / "state"

    def run():
        changes = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
        sql = "SELECT DISTINCT x.a, x.b, y.b AS c FROM g x JOIN g y ON x.b = y.a"
        deltas = maintain(spark, sql, {"g": changes}, checkpoint=str(state), cells=cells)
        writer = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(state))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    row = {"a": 2, "b": 4, "_weight": 1} | bad
    (file,) = (tmp_path / "in").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(pa.Table.from_pylist([{"a": 3, "b": 5, "_weight": 1}, row], table.schema), tmp_path / "in/2.parquet")
    with pytest.raises(Exception, match=r"bad row in relation 'g': .*row: \{.*\"a\":") as error:
        run()
    assert str(next(iter(bad.values())) or "NULL") in str(error.value) or "_weight is missing" in str(error.value)
    assert not list(state.glob("crown/*/crown/*/1.delta"))
    pq.write_table(pa.Table.from_pylist([{"a": 2, "b": 4, "_weight": 1}], table.schema), tmp_path / "in/2.parquet")
    run()
    assert sink.state() == Counter({(1, 2, 4): 1})


def test_a_bad_row_that_no_atom_wants_is_still_an_error(spark):
    frame = spark.createDataFrame([(1, "x")], "src long, dst string")
    deltas = maintain(
        spark,
        "SELECT DISTINCT src, dst FROM g WHERE dst > 5",
        {"g": frame},
        schema={"g": {"src": "int64", "dst": "int64"}},
    )
    with pytest.raises(Exception, match="'x' is not a value of type int64"):
        deltas.collect()


UNREADABLE = {
    "csv": {
        "5,ann,1.00": "the line has 3 fields instead of 7",
        "5,ann,1.00,2024-01-01,0.5,7,1,1": "the line has 8 fields instead of 7",
    },
    "json": {
        '{"id": 5, "name": "ann", "price": 1, "share": 1, "small": 1}': "column 'day' is missing",
        "{half a row": "not a JSON object",
        "[1, 2]": "not a JSON object",
        '{"id": 5}{"id": 6}': "not a JSON object",
        '{"id": 5} and more': "not a JSON object",
        '{"id": 5}, {"id": 6}': "not a JSON object",
    },
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_records_that_cannot_be_read_are_bad_rows(spark, tmp_path, kind):
    folder, checkpoint = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    (write_csv if kind == "csv" else write_json)(folder / f"1.{kind}", [{**GOOD, "_weight": "1"}])
    with open(folder / f"1.{kind}", "a") as file:
        file.writelines(f"{line}\n" for line in UNREADABLE[kind])
    sink = stream(spark, folder, checkpoint, Result(), kind, on_bad_row="quarantine", cells=1)
    assert len(sink.state()) == 1
    found = quarantined(checkpoint)[(0, "r")]
    assert len(found) == len(UNREADABLE[kind])
    for (_, said), reason in zip(found, UNREADABLE[kind].values(), strict=True):
        assert reason in said
    with pytest.raises(Exception, match=f"bad row in relation 'r': .*{next(iter(UNREADABLE[kind].values()))}"):
        stream(spark, folder, tmp_path / "strict", Result(), kind)


def test_values_of_json_keep_their_exact_text_and_null_is_a_value(spark, tmp_path):
    (tmp_path / "1.json").write_text(
        '{"id": 9007199254740993, "name": null, "price": 1.10, "day": null, "share": 1e3, "small": -1}\n\n'
    )
    frame = changes(spark, Input("r", tmp_path, "json"), SCHEMA["r"], None, streaming=False)
    ((row, weight),) = rows_of(maintain(spark, QUERY, {"r": frame}, schema=SCHEMA)).items()
    assert weight == 1
    assert row[0] == 9007199254740993
    assert (row[1], str(row[2]), row[3], row[4], row[5]) == (None, "1.10", None, 1000.0, -1)


def test_typed_columns_are_narrowed_only_where_nothing_is_lost(spark):
    schema = {"r": {"a": "int32", "b": "int64"}}
    sql = "SELECT DISTINCT a, b FROM r"
    fits = spark.createDataFrame([(1, 2.0), (None, None)], "a long, b double")
    assert set(rows_of(maintain(spark, sql, {"r": fits}, schema=schema))) == {(1, 2), (None, None)}
    for a, b in ((2**31, 1.0), (1, 1.5), (1, float("nan"))):
        frame = spark.createDataFrame([(a, b)], "a long, b double")
        with pytest.raises(Exception, match="is not a value of type int"):
            maintain(spark, sql, {"r": frame}, schema=schema).collect()
    with pytest.raises(SourceError, match="boolean cannot be read as int32"):
        maintain(spark, sql, {"r": spark.createDataFrame([(True, 1)], "a boolean, b long")}, schema=schema)


@pytest.mark.parametrize("type_", ["double", "string", "decimal(20,10)"])
def test_decimals_that_are_rounded_by_declaration_are_those_of_the_embedded_engine(spark, type_):
    texts = ["0.125", "2.675", "-0.005", "1e-9", "9999.994", "7", None]
    frame = spark.createDataFrame([(text,) for text in texts], "d string").selectExpr(f"CAST(d AS {type_}) AS d")
    rows = frame.collect()
    view = crown.view("SELECT DISTINCT d FROM r", {"r": {"d": "decimal(6,2) rounded"}})
    view.insert("r", [(row["d"],) for row in rows])
    found = maintain(spark, "SELECT DISTINCT d FROM r", {"r": frame}, schema={"r": {"d": "decimal(6,2) rounded"}})
    assert set(rows_of(found)) == {(row["d"],) for row in view}
    assert len(view) == 7
    table = Schema.of({"r": {"d": "decimal(6,2) rounded"}})["r"]
    large = spark.createDataFrame([("9999.995",)], "d string").selectExpr(f"CAST(d AS {type_}) AS d")
    assert large.select(check(large, table, ["d"]).bad).collect() == [(True,)]


@pytest.mark.parametrize("name", ["weight", "_WEIGHT", "__weight", "_weights"])
def test_a_column_that_could_be_meant_for_the_weight_is_an_error(spark, name):
    sql, schema = "SELECT DISTINCT a, b FROM r", {"r": {"a": "int64", "b": "int64"}}
    frame = spark.createDataFrame([(1, 2, -1)], f"a long, b long, {name} long")
    with pytest.raises(SourceError, match="rename it to '_weight'"):
        maintain(spark, sql, {"r": frame}, schema=schema)
    inserts = frame.withColumn(name, -frame[name])
    assert set(rows_of(maintain(spark, sql, {"r": inserts}, schema=schema, change=name))) == {(1, 2)}


def test_a_null_where_the_schema_says_not_null_is_a_bad_row(spark):
    tables = Schema.of({"r": {"id": "int64 not null", "x": "int64"}, "t": {"columns": {"id": "int64"}, "key": ["id"]}})
    frame = spark.createDataFrame([(1, None), (None, 2)], "id bigint, x bigint")
    for table, needed, why in (
        (tables["r"], ["id", "x"], "declared NOT NULL, or the order of a window"),
        (tables["t"], ["id"], "part of the key"),
    ):
        rows = check(frame, table, needed)
        reasons = [row[0] for row in frame.select(F.when(rows.bad, rows.reason)).collect()]
        assert reasons == [None, f"column 'id' is NULL, and {why}"]


@pytest.mark.parametrize(("kind", "text"), [("csv", "a,b\n1,2\n"), ("json", '{"a": 1, "b": 2}\n')])
def test_the_mark_that_some_programs_begin_a_file_with_is_no_part_of_it(spark, tmp_path, kind, text):
    schema = Schema.of({"r": {"a": "int64", "b": "int64"}})
    (tmp_path / f"1.{kind}").write_text(text, encoding="utf-8-sig")
    frame = changes(spark, Input("r", tmp_path, kind, {}, 1), schema["r"], None, streaming=False)
    assert rows_of(maintain(spark, "SELECT DISTINCT a, b FROM r", {"r": frame}, schema=schema)) == {(1, 2): 1}


def test_a_column_that_is_not_there_is_told_with_those_that_are(spark, tmp_path):
    schema = Schema.of({"r": {"a": "int64", "b": "int64"}})
    (tmp_path / "1.csv").write_text("a,c\n1,2\n")
    frame = changes(spark, Input("r", tmp_path, "csv", {}, 1), schema["r"], None, streaming=False)
    with pytest.raises(SourceError, match=r"no column 'b'; it has a, c, _file\. Rename"):
        maintain(spark, "SELECT DISTINCT a, b FROM r", {"r": frame}, schema=schema)
