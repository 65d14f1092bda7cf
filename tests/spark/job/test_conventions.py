"""Change conventions of others on Spark: what goes in are the same weights as embedded, what comes out adds up."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from pyspark.sql import functions as F

import crown
from crown import changes as formats
from crown.errors import BadRowError
from crown.ingest.conventions import CODES
from plans.schema import Column, Schema, Table
from spark_jobs import maintain
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.ingest.conventions import normal
from spark_jobs.ingest.sources import Input, changes
from tests.marks import slow
from tests.spark.streams import ChangeFiles, rows_of, run

QUERY = "SELECT a, b FROM r"
SCHEMA = {"r": {"a": "int64", "b": "string"}}
FEEDS = {
    "delta": ("_change_type", ["insert", "delete", "update_preimage", "update_postimage"]),
    "iceberg": ("_change_type", ["INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"]),
    "flink": ("_row_kind", ["+I", "-D", "-U", "+U"]),
    "weights": ("_weight", ["2", "-1", "-D", "insert"]),
}
ENVELOPE = "op string, before struct<a: bigint, b: string>, after struct<a: bigint, b: string>, ts_ms bigint"


@pytest.mark.parametrize("name", [slow(name) if name == "iceberg" else name for name in FEEDS])
def test_a_feed_is_found_by_its_column_and_means_what_it_means_embedded(spark, name):
    column, codes = FEEDS[name]
    rows = [(1, "x", codes[0]), (1, "x", codes[2]), (1, "y", codes[3]), (2, "z", codes[0]), (3, "z", codes[0])]
    frame = spark.createDataFrame(rows, f"a long, b string, {column} string").withColumn("_commit_version", F.lit(1))
    embedded = crown.view(QUERY, SCHEMA)
    told = embedded.apply({"r": [{"a": a, "b": b, column: code} for a, b, code in rows]})
    wanted = Counter({(row["a"], row["b"]): row["_weight"] for row in told.to_pylist()})
    for schema in (None, SCHEMA):
        assert rows_of(maintain(spark, QUERY, {"r": frame}, schema=schema)) == wanted
    renamed = frame.withColumnRenamed(column, "op")
    assert rows_of(maintain(spark, QUERY, {"r": renamed}, change="op")) == wanted


@pytest.mark.parametrize("weight", [slow(None), 0, slow(1), slow(2)])
def test_null_and_zero_weights_mean_the_same_embedded_and_on_spark(spark, weight):
    """NULL is a bad row, 0 changes nothing, no column at all inserts: whatever type the column has."""
    view = crown.view(QUERY, SCHEMA)
    rows = [{"a": 1, "b": "x", "_weight": 1}, {"a": 2, "b": "x", "_weight": weight}]
    for kind in ("long", "int", "double", "string"):
        frame = spark.createDataFrame([(1, "x", 1), (2, "x", weight)], "a long, b string, _weight long")
        deltas = maintain(spark, QUERY, {"r": frame.withColumn("_weight", F.col("_weight").cast(kind))})
        if weight is None:
            with pytest.raises(Exception, match="unknown change code NULL"):
                deltas.collect()
            with pytest.raises(BadRowError, match="_weight is missing"):
                view.apply({"r": rows})
        else:
            told = crown.view(QUERY, SCHEMA).apply({"r": rows}).to_pylist()
            if kind == "string" and weight:
                frame = frame.withColumn("_weight", F.concat(F.lit("+"), F.col("_weight").cast("string")))
            assert rows_of(deltas) == Counter({(row["a"], row["b"]): row["_weight"] for row in told})


@pytest.mark.parametrize("name", ["op", "weight", "_WEIGHT", "_Weight", "row_kind", "_CHANGE_TYPE", "__deleted"])
def test_a_column_that_would_turn_deletes_into_inserts_is_an_error_also_without_a_schema(spark, name):
    frame = spark.createDataFrame([(1, "x", "-1")], f"a long, b string, {name} string")
    with pytest.raises(SourceError, match=f"column '{name}'; rename it to"):
        maintain(spark, QUERY, {"r": frame})
    if name == "row_kind":  # what the query reads is a column like any other
        found = rows_of(maintain(spark, f"SELECT a, {name} AS x FROM r", {"r": frame}))
        assert found == {(1, "-1"): 1}


def test_two_columns_or_none_that_say_it_are_errors(spark):
    frame = spark.createDataFrame([(1, "x", 1, "d")], "a long, b string, _weight long, op string")
    with pytest.raises(SourceError, match="'_weight' and 'op', which both say"):
        maintain(spark, QUERY, {"r": frame}, change="op")
    with pytest.raises(SourceError, match="no change column 'kind'"):
        maintain(spark, QUERY, {"r": frame}, change="kind")
    with pytest.raises(SourceError, match="an envelope of Debezium has columns op"):
        maintain(spark, QUERY, {"r": frame}, change="debezium")


def envelopes(rng, count):
    """Envelopes of a table with key a, snapshot reads first; tombstones after deletes."""
    table, made = {}, []
    for a in range(3):
        table[a] = "s"
        made.append(("r", None, (a, "s"), 1))
    for _ in range(count):
        a = rng.randrange(6)
        if a not in table:
            table[a] = rng.choice("xyz")
            made.append(("c", None, (a, table[a]), 2))
        elif rng.random() < 0.4:
            made += [("d", (a, table.pop(a)), None, 3), (None, None, None, None)]
        else:
            before, table[a] = table[a], rng.choice("xyz")
            made.append(("u", (a, before), (a, table[a]), 4))
    return made, table


def test_envelopes_of_debezium_are_the_table(spark):
    made, table = envelopes(random.Random(3), 60)
    frame = spark.createDataFrame(made, ENVELOPE)
    for options in ({}, {"change": "debezium"}, {"schema": SCHEMA}):
        found = rows_of(maintain(spark, QUERY, {"r": frame}, **options))
        assert found == Counter(dict.fromkeys(table.items(), 1))


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        (("u", None, (1, "x"), 1), "no row before it: .*REPLICA IDENTITY FULL"),
        slow(("d", None, None, 1), "no row before it"),
        slow(("c", None, None, 1), "no row after it"),
        slow(("t", None, None, 1), "unknown op 't'"),
        (("u", (1, "x"), (1, "__debezium_unavailable_value"), 1), "column 'b' was left out by the source"),
    ],
)
def test_an_envelope_that_cannot_be_applied_is_a_bad_row(spark, envelope, said):
    frame = spark.createDataFrame([envelope], ENVELOPE)
    with pytest.raises(Exception, match=f"bad row in relation 'r': .*{said}"):
        maintain(spark, QUERY, {"r": frame}).collect()


def json_rows(spark, folder, lines, change=None):
    folder.mkdir()
    (folder / "1.json").write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    )
    schema = Schema.of(SCHEMA)
    frame = changes(spark, Input("r", folder, "json"), schema["r"], change, streaming=False)
    return maintain(spark, QUERY, normal({"r": frame}, change, schema), schema=schema)


def test_envelopes_as_json_lines_with_or_without_a_payload_around_them(spark, tmp_path):
    made, table = envelopes(random.Random(4), 40)
    lines = [
        {"op": op, "before": b and {"a": b[0], "b": b[1]}, "after": c and {"a": c[0], "b": c[1]}} if op else "null"
        for op, b, c, _ in made
    ]
    wanted = Counter(dict.fromkeys(table.items(), 1))
    assert rows_of(json_rows(spark, tmp_path / "bare", lines)) == wanted
    inside = [{"schema": {}, "payload": None if line == "null" else line} for line in lines]
    assert rows_of(json_rows(spark, tmp_path / "inside", inside, "debezium")) == wanted
    for number, (line, said) in enumerate(
        [
            ({"op": "d", "before": {"a": 1}, "after": None}, "column 'b' is missing before"),
            ("{half a line", "not a JSON object: .half a line"),
            ({"a": 1, "b": "x"}, "not an envelope, it has no 'op'"),
            ({"payload": 5}, "not a JSON object"),
        ]
    ):
        with pytest.raises(Exception, match=said):
            json_rows(spark, tmp_path / f"lacking{number}", [*lines, line]).collect()


def test_in_json_lines_every_record_has_a_weight_or_none(spark, tmp_path):
    row = {"a": 1, "b": "x"}
    assert rows_of(json_rows(spark, tmp_path / "none", [row, row])) == {(1, "x"): 2}
    assert rows_of(json_rows(spark, tmp_path / "feed", [{**row, "_change_type": "insert"}])) == {(1, "x"): 1}
    with pytest.raises(Exception, match="column '_weight' is missing"):
        json_rows(spark, tmp_path / "later", [{**row, "_weight": -1}, row]).collect()
    with pytest.raises(Exception, match="column '_weight' is not in the first record"):
        json_rows(spark, tmp_path / "first", [row, {**row, "_weight": -1}]).collect()


# -- out --------------------------------------------------------------------------------------------------------------


class Emitted:
    """A sink that keeps the rows of every batch as dicts."""

    def __init__(self):
        self.batches = {}

    def write(self, frame, batch):
        self.batches[batch] = [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.parametrize(("query", "key"), [("SELECT src, COUNT(*) AS n FROM g GROUP BY src", "src"), slow(None, "c")])
def test_a_stream_of_updates_has_one_change_per_key_and_version(spark, tmp_path, query, key):
    """``c`` is not the column by which the second query is cut: rows of a key meet behind the cells."""
    query = query or "Q(a, c) :- g(a, b), g(b, c)."
    rng, files = random.Random(7), ChangeFiles(tmp_path / "in", {"g": {"src": "int64", "dst": "int64"}})
    for _ in range(3):
        files.add({"g": [(rng.randrange(6), rng.randrange(6), rng.choice((1, 1, -1))) for _ in range(25)]})
    plain = run(spark, query, files, tmp_path / "plain", cells=2)
    sinks = {emit: run(spark, query, files, tmp_path / emit, sink=Emitted(), cells=2, emit=emit, key=[key])
             for emit in ("cdc", "debezium")}  # fmt: skip
    for batch, deltas in plain.deltas.items():
        feed = sinks["cdc"].batches[batch]
        assert {row["_commit_version"] for row in feed} <= {batch}
        names = [name for name in (feed[0] if feed else {}) if not name.startswith("_")]
        total = Counter()
        for row in feed:
            total[tuple(row[name] for name in names)] += CODES[row["_change_type"]]
        assert {k: v for k, v in total.items() if v} == {k: v for k, v in deltas.items() if v}
        unpaired = {kind: {row[key] for row in feed if row["_change_type"] == kind} for kind in ("insert", "delete")}
        assert not unpaired["insert"] & unpaired["delete"]
        if key == "src":  # what create_auto_cdc_flow(keys=["src"], sequence_by="_commit_version") is given
            given = [row[key] for row in feed if row["_change_type"] != "update_preimage"]
            assert len(given) == len(set(given))
        back = Counter()
        for row in formats.from_debezium(sinks["debezium"].batches[batch]).rows(Table("feed", (Column("c", "int64"),))):
            back[tuple(row[name] for name in names)] += row["_weight"]
        assert {k: v for k, v in back.items() if v} == {k: v for k, v in deltas.items() if v}
        assert {row["source"]["batch"] for row in sinks["debezium"].batches[batch]} <= {batch}


def test_what_makes_no_sense_to_emit_is_refused(spark):
    frame = spark.createDataFrame([(1, "x")], "a long, b string")
    for options, said in (
        ({"emit": "avro"}, "give one of weights, cdc, rowkind, debezium, ranges"),
        ({"key": ["a"]}, "weights need none"),
        ({"emit": "cdc", "key": "a"}, r"give a list of columns, \['a'\]"),
        ({"emit": "cdc", "key": ["z"]}, "names 'z', but the output has: a, b"),
    ):
        with pytest.raises(SparkJobError, match=said):
            maintain(spark, QUERY, {"r": frame}, **options)
    kinds = maintain(spark, QUERY, {"r": frame}, emit="rowkind").collect()
    assert [row.asDict() for row in kinds] == [{"a": 1, "b": "x", "_row_kind": "+I", "_commit_version": 0}]
