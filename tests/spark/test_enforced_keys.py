"""Enforced keys on real streams: what breaks one stops the stream, or is set aside by the cells that keep the keys."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

import crown
from plans.schema import Schema
from spark_jobs import bulk_load, maintain, plain_errors
from spark_jobs.dispatch.chain import words_of
from spark_jobs.errors import SparkJobError
from tests.marks import slow
from tests.oracles.enforced import SCHEMA, Twin
from tests.spark.streams import ChangeFiles, Result, rows_of, run

pytestmark = pytest.mark.spark

JOINED = "SELECT o.id, o.n, p.w FROM o JOIN p ON o.v = p.v"
COUNTED = "SELECT v, COUNT(*) AS c, SUM(n) AS s FROM o GROUP BY v"
FILLED = {"p": [(v, w, 1) for w, v in enumerate("abc")]}


def row_of(change):
    return tuple(change[name] for name in ("id", "v", "n", "_weight"))


def set_aside(folder):
    """Returns the rows of a quarantine, how often each is there; all of one relation, and for one reason."""
    found = Counter()
    for file in folder.glob("**/*.jsonl"):
        for line in file.read_text().splitlines():
            told = json.loads(line)
            assert told["relation"] == "o"
            assert "is enforced, and" in told["reason"]
            row = json.loads(told["data"])
            found[told["batch"], row["id"], row["v"], row["n"], row["_weight"]] += 1
    return found


@pytest.mark.parametrize(("query", "cells"), [(JOINED, 2), slow(JOINED, 1), slow(COUNTED, 2)])
def test_rows_that_break_a_key_are_set_aside_though_batches_are_read_twice_and_state_is_lost(
    spark, tmp_path, query, cells
):
    """Two rows with one key differ in the column by which the query's cells are cut."""
    declared = Schema.of({name: of for name, of in SCHEMA.items() if name == "o" or " p " in query})
    twin, files, sink, refused = Twin(3), ChangeFiles(tmp_path / "in", declared), Result(), Counter()

    def twice(frame, number):
        first = rows_of(frame)
        assert rows_of(frame) == first
        sink.deltas[number] = first

    options = {"schema": declared, "cells": cells, "on_bad_row": "quarantine"}
    for number in range(3):
        batch = twin.batch(12)
        for place in twin.apply(batch):
            refused[number, *row_of(batch[place])] += 1
        files.add({"o": [row_of(change) for change in batch], **(FILLED if number == 0 else {})})
        run(spark, query, files, tmp_path / "state", consume=twice, **options)
        assert sink.state() == twin.result(query), number
        assert set_aside(tmp_path / "state" / "quarantine") == refused
        if number == 1:
            shutil.rmtree(tmp_path / "state" / "scratch", ignore_errors=True)
    assert refused
    kept = {path.parent.name for path in (tmp_path / "state").glob("**/meta.json")}
    assert kept == {"crown", "crown.keys.o"}


def test_a_stream_stops_at_a_row_that_breaks_a_key_and_goes_on_when_it_is_mended(spark, tmp_path):
    declared, files, sink = Schema.of(SCHEMA), ChangeFiles(tmp_path / "in", SCHEMA), Result()
    options = {"schema": declared, "cells": 2, "sink": sink}
    files.add({"o": [(1, "a", 0, 1)], **FILLED})
    run(spark, JOINED, files, tmp_path / "state", **options)
    files.add({"o": [(2, "b", 0, 1), (1, "c", 5, 1)]})
    said = r"bad row in relation 'o': the key id=1 is enforced, and 2 rows would have it: .*; row: \{.*\"n\": 5"
    with pytest.raises(SparkJobError, match=said), plain_errors():
        run(spark, JOINED, files, tmp_path / "state", **options)
    assert sink.state() == Counter({(1, 0, 0): 1})
    files.batches -= 1
    files.add({"o": [(2, "b", 0, 1), (1, "a", 0, -1), (1, "c", 5, 1)]})
    run(spark, JOINED, files, tmp_path / "state", **options)
    assert sink.state() == Counter({(2, 0, 1): 1, (1, 5, 2): 1})


@pytest.mark.slow  # the words of the operators are compared below
def test_relations_whose_names_differ_in_signs_only_have_operators_of_their_own(spark, tmp_path):
    key = {"columns": {"id": "int64", "v": "string"}, "key": ["id"], "enforced": True}
    declared = Schema.of({"a b": key, "a_b": key})
    files, sink = ChangeFiles(tmp_path / "in", declared), Result()
    query = "SELECT l.id, l.v, r.v AS w FROM `a b` l JOIN a_b r ON l.id = r.id"
    options = {"schema": declared, "cells": 2, "sink": sink, "on_bad_row": "quarantine"}
    files.add({"a b": [(1, "x", 1), (2, "y", 1)], "a_b": [(1, "p", 1), (2, "q", 1)]})
    files.add({"a b": [(1, "z", 1)], "a_b": [(1, "p", -1), (1, "r", 1), (2, "s", 1)]})
    run(spark, query, files, tmp_path / "state", **options)
    assert sink.state() == Counter({(1, "x", "r"): 1, (2, "y", "q"): 1})
    kept = {path.parent.name for path in (tmp_path / "state").glob("**/meta.json")}
    assert kept == {"crown", "crown.keys.a_b", "crown.keys.a_b_2"}


def test_words_of_operators_are_told_apart_whatever_the_names():
    assert words_of(["a_b", "A b", "a.b", "a_b_2", "c"]) == {
        "a b": "a_b",
        "a.b": "a_b_2",
        "a_b": "a_b_3",
        "a_b_2": "a_b_2_2",
        "c": "c",
    }


def test_a_stream_goes_on_from_a_backfill_with_the_keys_that_it_has(spark, tmp_path):
    declared, files, sink, twin = Schema.of(SCHEMA), ChangeFiles(tmp_path / "in", SCHEMA), Result(), Twin(4)
    first = [{"id": i, "v": "abc"[i % 3], "n": i, "_weight": 1} for i in range(6)]
    assert twin.apply(first) == []
    tables = {
        "o": spark.createDataFrame([row_of(change)[:-1] for change in first], "id long, v string, n long"),
        "p": spark.createDataFrame([(v, w) for v, w, _ in FILLED["p"]], "v string, w long"),
    }
    options = {"schema": declared, "cells": 2}
    loaded = bulk_load(spark, JOINED, tables, checkpoint=str(tmp_path / "state"), **options)
    sink.deltas[-1] = rows_of(loaded)
    assert sink.state() == twin.result(JOINED)
    batch = twin.batch(14)
    assert twin.apply(batch)
    files.add({"o": [row_of(change) for change in batch]})
    run(spark, JOINED, files, tmp_path / "state", sink=sink, on_bad_row="quarantine", **options)
    assert sink.state() == twin.result(JOINED)
    with pytest.raises(Exception, match="the key id=0 is enforced, and 2 rows would have it"):
        bulk_load(
            spark,
            JOINED,
            {**tables, "o": tables["o"].union(tables["o"].limit(1))},
            checkpoint=str(tmp_path / "other"),
            **options,
        ).collect()


def test_batch_tables_are_taken_without_what_breaks_a_key(spark, tmp_path):
    rows = [(1, "a", 0), (2, "b", 0), (2, "c", 1), (3, "c", 0)]
    tables = {
        "o": spark.createDataFrame(rows, "id long, v string, n long"),
        "p": spark.createDataFrame([(v, w) for v, w, _ in FILLED["p"]], "v string, w long"),
    }
    aside = {"on_bad_row": "quarantine", "quarantine": str(tmp_path / "aside")}
    result = maintain(spark, JOINED, tables, schema=Schema.of(SCHEMA), cells=2, **aside)
    assert rows_of(result) == Counter({(1, 0, 0): 1, (3, 0, 2): 1})
    assert {key[1:4] for key in set_aside(tmp_path / "aside")} == {(2, "b", 0), (2, "c", 1)}


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_late_rows_of_a_window_are_set_aside_too(spark, tmp_path, cells):
    schema = {"r": {"k": "int64", "ts": "int64"}, "s": {"k": "int64", "c": "int64"}}
    sql = "SELECT r.ts, s.c FROM r JOIN s ON r.k = s.k"
    state, files, sink = tmp_path / "state", ChangeFiles(tmp_path / "in", schema), Result()
    options = {"schema": schema, "cells": cells, "on_bad_row": "quarantine", "sink": sink}
    options["windows"] = {"r": crown.ttl("ts", 10, late="quarantine")}
    files.add({"r": [(1, 100, 1), (2, 99, 1)], "s": [(1, 7, 1), (2, 8, 1)]})
    files.add({"r": [(1, 20, 1), (2, 101, 1)]})
    run(spark, sql, files, state, **options)
    assert sink.state() == Counter({(100, 7): 1, (99, 8): 1, (101, 8): 1})
    told = [json.loads(line) for file in state.glob("quarantine/**/*.jsonl") for line in file.open()]
    assert [(one["batch"], one["relation"], json.loads(one["data"])["ts"]) for one in told] == [(1, "r", 20)]
    assert "is late: the watermark is 100" in told[0]["reason"]


def test_with_trusted_deletes_one_of_a_key_without_a_row_is_set_aside_and_the_stream_goes_on(spark, tmp_path):
    declared = Schema.of({"o": SCHEMA["o"]})
    files, sink = ChangeFiles(tmp_path / "in", declared), Result()
    options = {"schema": declared, "cells": 1, "sink": sink, "on_missing": "trust"}
    files.add({"o": [(1, "a", 2, 1), (9, "a", 2, -1)]})
    files.add({"o": [(2, "a", 3, 1), (1, "a", 2, -1)]})
    said = "and the batch deletes a row with this key that does not exist"
    with pytest.raises(SparkJobError, match=said), plain_errors():
        run(spark, COUNTED, files, tmp_path / "stopped", **options)
    run(spark, COUNTED, files, tmp_path / "state", on_bad_row="quarantine", **options)
    assert sink.state() == Counter({("a", 1, 3): 1})
    assert set_aside(tmp_path / "state" / "quarantine") == Counter({(0, 9, "a", 2, -1): 1})
