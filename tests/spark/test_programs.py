"""Queries of several stages on real streams. Oracle: DuckDB on the same changes, compared after every micro-batch."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException

from crown.errors import CrownError
from plans.errors import PlanError
from spark_jobs import maintain
from tests.marks import slow
from tests.oracles import duck
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run
from tests.spark.test_kills import main

pytestmark = pytest.mark.spark

SCHEMA = {"r": {"k": "int64", "x": "int64"}, "s": {"k": "int64", "y": "int64"}}
QUERIES = {
    "grouped": ("SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo FROM r GROUP BY k HAVING COUNT(*) > 1", (1, 2)),
    "total": ("SELECT COUNT(*) AS n, SUM(x) AS s FROM r", (1, 2)),
    "joined": ("SELECT r.k, SUM(r.x + s.y) AS t FROM r JOIN s ON r.k = s.k GROUP BY r.k", (1, 2)),
    "merged": (
        "SELECT r.x + s.y AS z, COUNT(*) AS n, MIN(x) AS lo, COUNT(DISTINCT y) AS d FROM r JOIN s ON r.k = s.k "
        "GROUP BY r.x + s.y HAVING COUNT(*) > 1",
        (2,),
    ),
    "bag": ("SELECT r.k, s.y FROM r JOIN s ON r.k = s.k", (2,)),
    "outer": ("SELECT r.k, r.x, s.y FROM r LEFT JOIN s ON r.k = s.k", (1, 2)),
    "two hops": ("SELECT a.k, a.x, b.x AS y FROM r a LEFT JOIN r b ON a.x = b.k", (2,)),
    "union": ("SELECT k FROM r UNION SELECT k FROM s", (1, 2)),
    "union of both ends": ("SELECT k FROM r UNION ALL SELECT x FROM r", (2,)),
    "except all": ("SELECT k FROM r EXCEPT ALL SELECT k FROM s", (1, 2)),
    "asof join": (
        "SELECT r.k, r.x, q.y FROM r ASOF LEFT JOIN (SELECT k, y FROM s GROUP BY k, y) q ON r.k = q.k AND r.x >= q.y",
        (1, 2),
    ),
    "band": ("SELECT r.k, COUNT(*) AS n, SUM(s.y) AS t FROM r JOIN s ON r.x < s.y GROUP BY r.k", (2,)),
    "exists by the least": ("SELECT k, x FROM r WHERE EXISTS (SELECT * FROM s WHERE s.k = r.k AND s.y < r.x)", (2,)),
    "not exists by the least": ("SELECT k, x FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.y < r.x)", (2,)),
    "slice": (
        "SELECT x FROM (SELECT x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x NULLS FIRST) AS n FROM r) "
        "WHERE n BETWEEN 2 AND 3",
        (2,),
    ),
    "numbers": (
        "SELECT MAX(n) AS m, SUM(n) AS s FROM (SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM r)",
        (2,),
    ),
    "recursion": (
        "WITH RECURSIVE p AS (SELECT k, x FROM r WHERE k < 3 UNION SELECT p.k, r.x FROM p JOIN r ON p.x = r.k) "
        "SELECT k, COUNT(*) AS n FROM p GROUP BY k",
        (1, 2),
    ),
    "recursion of two": (
        "WITH RECURSIVE even (k, x) AS (SELECT DISTINCT odd.k, r.x FROM odd JOIN r ON odd.x = r.k), odd (k, x) AS "
        "(SELECT k, x FROM r UNION SELECT even.k, r.x FROM even JOIN r ON even.x = r.k) SELECT DISTINCT k FROM even",
        (1, 2),
    ),
    "recursion with min": (
        "WITH RECURSIVE p (k, d) USING KEY (k, min(d)) AS (SELECT k, x FROM r UNION SELECT ABS(x) % 4, d + 1 FROM p "
        "JOIN r ON p.k = r.k) SELECT k, d FROM p WHERE d > 0",
        (1, 2),
    ),
    "recursion with duplicates": (
        "WITH RECURSIVE p AS (SELECT k, x, 1 AS d FROM r UNION ALL SELECT p.k, s.y, p.d + 1 FROM p JOIN s ON p.x = s.k "
        "WHERE p.d < 3) SELECT k, x, d FROM p",
        (1,),
    ),
    "not exists": ("SELECT DISTINCT k FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.k = r.k)", (1,)),
}
duck.MEANINGS[QUERIES["recursion of two"][0]] = (
    "WITH RECURSIVE p (n, k, x) AS (SELECT 1, k, x FROM r UNION SELECT 1 - n, p.k, r.x FROM p JOIN r ON p.x = r.k) "
    "SELECT DISTINCT k FROM p WHERE n = 0"
)
EVERY_RUN = [
    ("grouped", 2),
    ("outer", 2),
    ("not exists by the least", 2),
    ("recursion with min", 2),
]
"""The others are cut like one of these, or stand in one cell; ``test_merges`` has two rounds."""
CASES = [
    pytest.param(name, cells, id=f"{name}-{cells}", marks=[] if (name, cells) in EVERY_RUN else [pytest.mark.slow])
    for name, (_, cut) in QUERIES.items()
    for cells in cut
]


def stream(names, batches=3, seed=3):
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


@pytest.mark.slow
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


def test_what_cannot_be_cut_and_what_makes_no_sense_is_a_sentence(spark, tmp_path):
    files = ChangeFiles(tmp_path / "in", SCHEMA)
    files.add({"r": [(1, 2, 1)]})
    frames, state = files.frames(spark), str(tmp_path / "c")
    with pytest.raises(PlanError, match="cannot be cut into 2 cells"):
        maintain(spark, "SELECT r.x + s.y AS z FROM r JOIN s ON r.k = s.k", frames, checkpoint=state, cells=2)
    with pytest.raises(CrownError, match='must be "ignore", "raise" or "trust"'):
        maintain(spark, QUERIES["joined"][0], frames, checkpoint=state, on_missing="count")


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_a_delete_of_what_is_not_there_can_stop_a_program(spark, tmp_path, cells):
    """The sentence names the row; x is not read by the query, and yet it decides which row is there."""
    sql, schema = "SELECT COUNT(*) AS n, SUM(k) AS s FROM r", {"r": SCHEMA["r"]}
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"r": [(1, 2, 1), (1, 3, 1)]})
    sink = run(spark, sql, files, tmp_path / "state", schema=schema, cells=cells, on_missing="raise")
    files.add({"r": [(1, 2, -1), (1, 4, -1)]})
    with pytest.raises(StreamingQueryException, match=r"deletes 1 copy of \{'k': 1, 'x': 4\}, more than there are"):
        run(spark, sql, files, tmp_path / "state", sink=sink, schema=schema, cells=cells, on_missing="raise")
    assert sink.state() == {(2, 2): 1}


@pytest.mark.parametrize(
    "sql",
    [
        slow("SELECT a.src, COUNT(*) AS n, SUM(b.dst) AS s FROM g a JOIN g b ON a.dst = b.src GROUP BY a.src"),
        slow("SELECT a.src, b.dst FROM g a LEFT JOIN g b ON a.dst = b.src"),
    ],
    ids=["grouped", "outer"],
)
def test_submit_verifies_a_program_by_the_text_of_its_query(spark, tmp_path, capsys, sql):
    rng = random.Random(4)
    edges = sorted({(rng.randrange(60), rng.randrange(60)) for _ in range(500)}, key=lambda _: rng.random())
    (tmp_path / "edges.txt").write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    words = [sql, "--input", f"g={tmp_path / 'edges.txt'}", "--batch-rows", "250", "--verify"]
    words += ["--output", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state"), "--cells", "1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.rstrip().endswith("equal")
    assert "recomputed  0 rows" not in said


def test_doubles_of_every_size_are_summed_in_several_cells(spark, tmp_path):
    schema, sql = {"r": {"k": "int64", "x": "float64"}}, "SELECT SUM(x) AS s, AVG(x) AS a FROM r"
    files, sink = ChangeFiles(tmp_path / "in", schema), Result()
    files.add({"r": [(1, 1e308, 1), (2, 1e308, 1), (3, -1e308, 1), (4, 1e-30, 1)]})
    files.add({"r": [(1, 1e308, -1), (2, 1e308, -1), (3, -1e308, -1)]})
    run(spark, sql, files, tmp_path / "state", schema=schema, cells=2, sink=sink)
    assert sink.state(0) == Counter({(1e308, 2.5e307): 1})
    assert sink.state() == Counter({(1e-30, 1e-30): 1})
