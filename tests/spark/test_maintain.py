"""``maintain`` on real streams. Oracle: DuckDB on the same changes, compared after every micro-batch."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from crown.errors import CrownError
from plans.errors import PlanError
from spark_jobs import bulk_load, maintain
from spark_jobs.errors import BrokenChainError, CheckpointError, SourceError, SparkJobError
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
PEOPLE = {
    "person": {"id": "int64", "name": "string", "born": "date"},
    "knows": {"a": "int64", "b": "int64"},
    "tag": {"name": "string", "score": "float64"},
}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"
CASES = {
    "3-hop": (GRAPH, HOPS + " AND z.dst > 2"),
    "2-hop projected": (GRAPH, "SELECT DISTINCT x.src a, y.dst c FROM g x, g y WHERE x.dst = y.src"),
    "triangle": (
        GRAPH,
        "SELECT DISTINCT x.src a, y.src b, z.src c FROM g x, g y, g z "
        "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src",
    ),
    "three relations": (
        PEOPLE,
        "SELECT DISTINCT p.id, p.name, k.b, t.score FROM person p, knows k, tag t "
        "WHERE p.id = k.a AND p.name = t.name AND p.born IS NOT NULL AND k.b <> 3",
    ),
}


def graph_batch(rng, size=30):
    return {"g": [(rng.randrange(7), rng.randrange(7), rng.choice((1, 1, 1, -1))) for _ in range(size)]}


def people_batch(rng, alive, size=25):
    """Inserts, and deletes of rows that are there.

    Where a query uses only some columns, rows that agree in them are one row with a multiplicity, so a delete of an
    absent row could hit another; that is the engine's rule, not DuckDB's.
    """

    def name():
        return rng.choice(("ann", "bob", "it's", "", "žlutý", None))

    fresh = {
        "person": lambda: (rng.randrange(6), name(), rng.choice((dt.date(1990, 1, 2), dt.date(2001, 12, 31), None))),
        "knows": lambda: (rng.randrange(6), rng.choice((1, 2, 3, None))),
        "tag": lambda: (name(), rng.choice((0.5, -1.25, None))),
    }
    batch = {}
    for relation, make in fresh.items():
        rows = alive.setdefault(relation, [])
        gone = [rows.pop(rng.randrange(len(rows))) for _ in range(len(rows) // 3)]
        new = [make() for _ in range(size if relation != "tag" else size // 5)]
        rows += new
        batch[relation] = [(*row, -1) for row in gone] + [(*row, 1) for row in new]
    return batch


def batches(schema, count, seed=3):
    rng, alive = random.Random(seed), {}
    return [graph_batch(rng) if schema is GRAPH else people_batch(rng, alive) for _ in range(count)]


@pytest.mark.parametrize(
    ("case", "cells"),
    [
        slow("3-hop", 1),
        slow("3-hop", 2),
        slow("3-hop", 4),  # three relations have more types, and further tests read every batch of 3 hops
        slow("3-hop", 8),
        slow("2-hop projected", 4),
        slow("triangle", 4),
        slow("three relations", 1),
        ("three relations", 4),
    ],
)
def test_every_batch_is_what_duckdb_says_it_is(spark, tmp_path, case, cells):
    schema, sql = CASES[case]
    files, oracle = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql)
    changes = batches(schema, 2)
    changes.insert(1, {})  # a batch without rows
    for batch in changes:
        files.add(batch)
    sink = run(spark, sql, files, tmp_path / "state", cells=cells, schema=schema)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
        assert set(sink.deltas[number].values()) <= {1, -1}
    assert sink.state()


def test_a_batch_frame_gives_the_result_and_keeps_no_state(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    oracle = oracle_of(schema, sql)
    inserts = {"g": [(a, b, 1) for a in range(6) for b in range(6) if (a + b) % 3]}
    oracle.apply(batch_of(inserts))
    frame = spark.createDataFrame(inserts["g"], "src long, dst long, _weight long")
    deltas = maintain(spark, sql, {"g": frame}, cells=4)
    assert not deltas.isStreaming
    for _ in range(2):
        assert rows_of(deltas) == oracle.result


def test_frames_without_a_weight_column_are_inserts_and_change_codes_are_weights(spark):
    plain = spark.createDataFrame([(1, 2), (2, 3)], "src long, dst long")
    coded = spark.createDataFrame(
        [(1, 2, "+I"), (2, 3, "c"), (5, 6, "insert"), (5, 6, "-D")], "src int, dst int, op string"
    )
    sql = CASES["2-hop projected"][1]
    assert rows_of(maintain(spark, sql, {"g": plain})) == {(1, 3): 1}
    assert rows_of(maintain(spark, sql, {"g": coded}, change="op", cells=2)) == {(1, 3): 1}


def test_a_stream_goes_on_from_its_checkpoint_with_the_cells_it_has(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files, oracle, sink = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql), Result()
    for number, batch in enumerate(batches(schema, 2)):
        files.add(batch)
        oracle.apply(batch_of(batch))
        run(spark, sql, files, tmp_path / "state", sink=sink, schema=schema, cells=2 if number == 0 else None)
        assert sink.state() == oracle.result
    assert len(list((tmp_path / "state" / "crown").glob("*/crown/[0-9]*"))) == 2


@pytest.mark.slow  # test_bad_input counts and reads every batch, test_upserts reads it twice
def test_two_actions_on_a_batch_see_the_same_deltas(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files, oracle, sink = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql), Result()
    changes = batches(schema, 2)
    for batch in changes:
        files.add(batch)
    seen = []

    def twice(frame, number):
        seen.append((frame.count(), sum(rows_of(frame.filter("_weight > 0")).values())))
        sink.write(frame, number)

    run(spark, sql, files, tmp_path / "state", consume=twice, schema=schema, cells=2)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
        assert seen[number][0] == sum(abs(weight) for weight in sink.deltas[number].values())
        assert seen[number][1] == sum(weight for weight in sink.deltas[number].values() if weight > 0)


def test_reading_only_some_cells_of_a_batch_is_noticed(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files = ChangeFiles(tmp_path / "in", schema)
    for batch in batches(schema, 2):
        files.add(batch)
    with pytest.raises(Exception, match=r"cell [1-3] does not have batch 0.*limit"):
        run(
            spark,
            sql,
            files,
            tmp_path / "state",
            consume=lambda frame, number: frame.limit(1).collect() if number == 0 else frame.collect(),
            schema=schema,
            cells=4,
        )


def test_a_changed_query_on_an_old_checkpoint_is_refused(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files = ChangeFiles(tmp_path / "in", schema)
    files.add(batches(schema, 1)[0])
    run(spark, sql, files, tmp_path / "state", schema=schema, cells=2)
    with pytest.raises(
        CheckpointError, match=r"written by plan [0-9a-f]{64} .*this is plan [0-9a-f]{64} .*new checkpoint"
    ):
        run(spark, sql + " AND x.src > 1", files, tmp_path / "state", schema=schema)
    with pytest.raises(CheckpointError, match=r"2 cells.*cells=2"):
        run(spark, sql, files, tmp_path / "state", schema=schema, cells=4)


def test_a_stream_starts_from_a_bulk_load(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files, oracle, sink = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql), Result()
    there = {"g": [(a, b, 1) for a in range(6) for b in range(6) if (a * b) % 4 == 1]}
    oracle.apply(batch_of(there))
    frame = spark.createDataFrame(there["g"], "src long, dst long, _weight long")
    loaded = bulk_load(spark, sql, {"g": frame}, checkpoint=str(tmp_path / "state"), cells=2)
    sink.deltas[-1] = rows_of(loaded)
    assert sink.state() == oracle.result
    (batch,) = batches(schema, 1)
    files.add(batch)
    oracle.apply(batch_of(batch))
    run(spark, sql, files, tmp_path / "state", sink=sink, schema=schema, cells=2)
    assert sink.state() == oracle.result
    with pytest.raises(CheckpointError, match="already runs"):
        bulk_load(spark, sql, {"g": frame}, checkpoint=str(tmp_path / "state"))


def test_half_a_bulk_load_is_refused(spark, tmp_path):
    schema, sql = CASES["3-hop"]
    files = ChangeFiles(tmp_path / "in", schema)
    files.add(batches(schema, 1)[0])
    frame = spark.createDataFrame([(1, 2), (2, 3), (3, 4)], "src long, dst long")
    bulk_load(spark, sql, {"g": frame}, checkpoint=str(tmp_path / "state"), cells=2).limit(1).collect()
    next((tmp_path / "state" / "crown" / "backfill" / "crown").glob("*/*.snapshot")).unlink()
    with pytest.raises(Exception, match="has no backfill"):
        run(spark, sql, files, tmp_path / "state", schema=schema, cells=2)


def test_absent_deletes_are_counted_or_refused(spark, tmp_path):
    schema, sql = CASES["2-hop projected"]
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"g": [(1, 2, 1), (2, 3, 1)]})
    files.add({"g": [(1, 2, -2), (9, 9, -1)]})
    sink = run(spark, sql, files, tmp_path / "ignore", schema=schema, cells=1)
    assert sink.state() == {}
    with pytest.raises(Exception, match="more than there are"):
        run(spark, sql, files, tmp_path / "raise", schema=schema, cells=1, on_missing="raise")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"changes": {}}, SourceError, "no changes"),
        ({"changes": ("g", "h")}, SourceError, "relation 'h' is not part of this query, which reads: g"),
        ({"changes": ("h",)}, PlanError, "g"),
        ({"cells": 0}, PlanError, "cells=0"),
        ({"on_bad_row": "skip"}, CrownError, "on_bad_row"),
        ({"on_bad_row": "quarantine"}, SparkJobError, "quarantine="),
        ({"change": "op"}, SourceError, "change column 'op'"),
        (
            {"schema": {"g": {"src": "int64", "dst": "int64", "at": "date"}}, "sql": "SELECT DISTINCT at FROM g"},
            SourceError,
            "no column 'at'",
        ),
    ],
)
def test_what_makes_no_sense_is_said_at_once(spark, options, error, said):
    frame = spark.createDataFrame([(1, 2)], "src long, dst long")
    names = options.pop("changes", ("g",))
    sql = options.pop("sql", CASES["2-hop projected"][1])
    with pytest.raises(error, match=said):
        maintain(spark, sql, dict.fromkeys(names, frame), **options)


def test_a_declared_relation_that_the_query_does_not_read_is_ignored(spark):
    frame = spark.createDataFrame([(1, 2), (2, 3)], "src long, dst long")
    other = spark.createDataFrame([([1],)], "xs array<int>")
    schema = {"g": {"src": "int64", "dst": "int64"}, "h": {"x": "int64"}}
    made = maintain(spark, CASES["2-hop projected"][1], {"g": frame, "h": other}, schema=schema)
    assert made.count() == 1


def test_streams_need_a_checkpoint_on_a_mounted_file_system_and_company_of_streams(spark, tmp_path):
    schema, sql = CASES["three relations"]
    files = ChangeFiles(tmp_path / "in", schema)
    files.add(batches(schema, 1)[0])
    frames = files.frames(spark)
    with pytest.raises(CheckpointError, match="checkpoint="):
        maintain(spark, sql, frames)
    with pytest.raises(CheckpointError, match="hdfs://"):
        maintain(spark, sql, frames, checkpoint="hdfs://host/state")
    frames["tag"] = spark.createDataFrame([("ann", 1.0)], "name string, score double")
    with pytest.raises(SourceError, match="bulk_load"):
        maintain(spark, sql, frames, checkpoint=str(tmp_path))


def test_our_errors_are_crown_errors():
    assert issubclass(BrokenChainError, CrownError)
