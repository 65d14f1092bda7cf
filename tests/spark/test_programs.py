"""Queries of several stages on real streams. Oracle: DuckDB on the same changes, compared after every micro-batch."""

from __future__ import annotations

import random
import re
import shutil

import pytest

from plans.errors import PlanError
from spark_jobs import maintain
from spark_jobs.errors import SparkJobError
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run
from tests.spark.test_kills import main

pytestmark = pytest.mark.spark

SCHEMA = {"r": {"k": "int64", "x": "int64"}, "s": {"k": "int64", "y": "int64"}}
QUERIES = {
    "grouped": ("SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo FROM r GROUP BY k HAVING COUNT(*) > 1", (1, 2)),
    "total": ("SELECT COUNT(*) AS n, SUM(x) AS s FROM r", (1,)),
    "joined": ("SELECT r.k, SUM(r.x + s.y) AS t FROM r JOIN s ON r.k = s.k GROUP BY r.k", (1, 2)),
    "bag": ("SELECT r.k, s.y FROM r JOIN s ON r.k = s.k", (1,)),
    "outer": ("SELECT r.k, r.x, s.y FROM r LEFT JOIN s ON r.k = s.k", (1,)),
    "union": ("SELECT k FROM r UNION SELECT k FROM s", (1, 2)),
    "except all": ("SELECT k FROM r EXCEPT ALL SELECT k FROM s", (1, 2)),
    "not exists": ("SELECT DISTINCT k FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.k = r.k)", (1,)),
}
CASES = [
    pytest.param(name, cells, id=f"{name}-{cells}", marks=[pytest.mark.slow] if cells < cut[-1] else [])
    for name, (_, cut) in QUERIES.items()
    for cells in cut
]


def stream(names, batches=4, seed=3):
    """Random inserts and deletes of rows that are there, some of them more than once, NULLs among the values."""
    rng = random.Random(seed)
    present = {name: [] for name in names}
    for number in range(batches):
        batch = {}
        for name in names:
            rows = present[name]
            gone = rng.sample(rows, min(len(rows), 4 if number < batches - 1 else len(rows)))
            for row in gone:
                rows.remove(row)
            fresh = [(rng.choice((0, 1, 2, 3, None)), rng.choice((5, 7, -2, None))) for _ in range(9)]
            rows += fresh
            batch[name] = [(*row, -1) for row in gone] + [(*row, 1) for row in fresh]
        yield batch


@pytest.mark.parametrize(("name", "cells"), CASES)
def test_every_batch_is_what_duckdb_says_it_is(spark, tmp_path, name, cells):
    sql, _ = QUERIES[name]
    schema = {relation: columns for relation, columns in SCHEMA.items() if re.search(rf"(FROM|JOIN) {relation}\b", sql)}
    files, oracle, sink = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql), Result()
    batches = list(stream(schema))
    for batch in batches:
        files.add(batch)
    run(spark, sql, files, tmp_path / "state", sink=sink, schema=schema, cells=cells)
    for number, batch in enumerate(batches):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result


def test_state_comes_back_from_the_log_and_a_batch_again_changes_nothing(spark, tmp_path):
    """The live engines are lost after every batch; the function of foreachBatch reads each batch twice."""
    sql, schema = QUERIES["grouped"][0], {"r": SCHEMA["r"]}
    files, oracle, sink = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql), Result()

    def twice(frame, number):
        first = rows_of(frame)
        assert rows_of(frame) == first
        sink.deltas[number] = first

    for batch in stream(schema):
        files.add(batch)
        oracle.apply(batch_of(batch))
        run(spark, sql, files, tmp_path / "state", consume=twice, schema=schema, cells=2)
        assert sink.state() == oracle.result
        shutil.rmtree(tmp_path / "state" / "scratch", ignore_errors=True)


def test_a_total_cannot_be_cut_into_cells(spark, tmp_path):
    files = ChangeFiles(tmp_path / "in", {"r": SCHEMA["r"]})
    files.add({"r": [(1, 2, 1)]})
    with pytest.raises(PlanError, match="cannot be cut into 2 cells"):
        maintain(spark, QUERIES["total"][0], files.frames(spark), checkpoint=str(tmp_path / "c"), cells=2)
    with pytest.raises(SparkJobError, match='give "ignore" or "trust", for a query of several stages'):
        maintain(spark, QUERIES["total"][0], files.frames(spark), checkpoint=str(tmp_path / "c"), on_missing="raise")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.src, COUNT(*) AS n, SUM(b.dst) AS s FROM g a JOIN g b ON a.dst = b.src GROUP BY a.src",
        "SELECT a.src, b.dst FROM g a LEFT JOIN g b ON a.dst = b.src",
    ],
    ids=["grouped", "outer"],
)
def test_submit_verifies_a_program_by_the_text_of_its_query(tmp_path, capsys, sql):
    rng = random.Random(4)
    edges = sorted({(rng.randrange(60), rng.randrange(60)) for _ in range(500)}, key=lambda _: rng.random())
    (tmp_path / "edges.txt").write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    words = [sql, "--input", f"g={tmp_path / 'edges.txt'}", "--batch-rows", "150", "--verify"]
    words += ["--output", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state"), "--cells", "1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.rstrip().endswith("equal")
    assert "recomputed  0 rows" not in said
