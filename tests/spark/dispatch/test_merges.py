"""Queries that meet in a second round of cells: kills in both, state from the log, tables loaded first, bad rows.

Oracle: DuckDB on the same changes, compared after every micro-batch.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from spark_jobs import bulk_load
from spark_jobs.dispatch import chain
from spark_jobs.log.state_log import cell_folders
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run
from tests.spark.test_kills import GRAPH, run_until

pytestmark = pytest.mark.spark

TOTAL = "SELECT COUNT(*) AS n, SUM(x.src * y.dst) AS s, MAX(y.dst) AS hi FROM g x JOIN g y ON x.dst = y.src"
PER_SUM = (
    "SELECT x.src + y.dst AS k, COUNT(DISTINCT x.dst) AS n, CAST(SUM(x.src) AS BIGINT) AS s FROM g x JOIN g y "
    "ON x.dst = y.src GROUP BY x.src + y.dst HAVING COUNT(*) > 1"
)
MEANS = (
    "SELECT AVG(x.src) AS m, SUM(y.dst * 0.5e0) AS s, AVG(x.dst * 0.5e0) AS d, MAX(y.dst) AS hi FROM g x JOIN g y "
    "ON x.dst = y.src"
)
TRIANGLES = "SELECT COUNT(*) AS n FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src"
QUERIES = {"groups travel": TOTAL, "sums travel": MEANS, "rows travel": PER_SUM}


def changes(batches, seed=5, rows=80):
    """Random inserts and deletes, some of them of what is not there."""
    rng = random.Random(seed)
    return [
        {"g": [(rng.randrange(12), rng.randrange(12), rng.choice((1, 1, 1, -1))) for _ in range(rows)]}
        for _ in range(batches)
    ]


def lethal(marks, made):
    """What makes the function of a step, with workers that die: in batch 0 when their first rows have left, in batch 1
    when the state says that the batch is done. Each cell of each operator dies once in each."""

    def task_of(step, parts=None):
        inner, operator = made(step, parts), step.operator

        def task(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            batch = context.getLocalProperty("streaming.sql.batchId")
            mark = Path(marks) / f"{batch}.{operator}.{context.partitionId()}"
            for rows in inner(batches):
                yield rows
                if batch == "0" and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            if batch == "1" and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        return task

    return task_of


@pytest.mark.parametrize(
    ("name", "cells"), [slow("groups travel", 2), ("sums travel", 2), slow("rows travel", 2), slow("groups travel", 4)]
)
def test_workers_of_both_rounds_may_die_in_the_middle_of_a_batch_and_after_it(
    spark, tmp_path, monkeypatch, name, cells
):
    files, oracle, sink = ChangeFiles(tmp_path / "in", GRAPH), oracle_of(GRAPH, QUERIES[name]), Result()
    batches, marks = changes(3), tmp_path / "marks"
    marks.mkdir()
    for batch in batches:
        files.add(batch)
    monkeypatch.setattr(chain, "_task", lethal(str(marks), chain._task))
    run(spark, QUERIES[name], files, tmp_path / "state", sink=sink, schema=GRAPH, cells=cells)
    for number, batch in enumerate(batches):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
    merging = cells if name == "rows travel" else 1
    died = [mark.name for mark in marks.iterdir()]
    assert len([mark for mark in died if mark.startswith("1.crown.merge")]) == merging
    assert len([mark for mark in died if mark.startswith("1.crown.") and "merge" not in mark]) == cells
    assert any(mark.startswith("0.crown.merge") for mark in died)


@pytest.mark.parametrize(
    ("cells", "sorted_", "query"),
    [
        slow(2, False, TOTAL),
        (4, True, TOTAL),
        slow(1, True, TOTAL),
        slow(2, False, TRIANGLES),
        slow(1, False, TRIANGLES),
    ],
)
def test_both_rounds_come_back_from_their_logs_and_a_batch_again_changes_nothing(
    spark, tmp_path, cells, sorted_, query
):
    """However the changes are split into batches and cells, their sum is the same: that of DuckDB."""
    batches, sink = changes(2), Result()
    if sorted_:
        batches = [{"g": [row for batch in batches for row in batch["g"] if row[2] == sign]} for sign in (1, -1)]
    files, oracle = ChangeFiles(tmp_path / "in", GRAPH), oracle_of(GRAPH, query)

    def twice(frame, number):
        first = rows_of(frame)
        assert rows_of(frame) == first
        sink.deltas[number] = first

    for batch in batches:
        files.add(batch)
        oracle.apply(batch_of(batch))
        run(spark, query, files, tmp_path / "state", consume=twice, schema=GRAPH, cells=cells)
        assert sink.state() == oracle.result
        shutil.rmtree(tmp_path / "state" / "scratch", ignore_errors=True)


def test_a_stream_goes_on_from_tables_that_were_loaded_in_two_rounds(spark, tmp_path):
    first, second = changes(2)
    oracle, loaded = oracle_of(GRAPH, TOTAL), Result()
    table = spark.createDataFrame(first["g"], "src long, dst long, _weight long")
    loaded.deltas[-1] = rows_of(
        bulk_load(spark, TOTAL, {"g": table}, checkpoint=str(tmp_path / "state"), schema=GRAPH, cells=2)
    )
    oracle.apply(batch_of(first))
    assert loaded.state() == oracle.result
    files = ChangeFiles(tmp_path / "in", GRAPH)
    files.add(second)
    run(spark, TOTAL, files, tmp_path / "state", sink=loaded, schema=GRAPH, cells=2)
    oracle.apply(batch_of(second))
    assert loaded.state() == oracle.result


def test_a_bad_row_is_put_aside_once_though_its_relation_plays_two_roles(spark, tmp_path):
    files, oracle = ChangeFiles(tmp_path / "in", {"g": {"src": "string", "dst": "int64"}}), oracle_of(GRAPH, TOTAL)
    files.add({"g": [("1", 2, 1), ("2", 3, 1), ("two", 3, 1)]})
    oracle.apply(batch_of({"g": [(1, 2, 1), (2, 3, 1)]}))
    state = tmp_path / "state"
    sink = run(spark, TOTAL, files, state, schema=GRAPH, cells=4, on_bad_row="quarantine")
    assert sink.state() == oracle.result
    notes = [json.loads(line) for path in (state / "quarantine").rglob("*.jsonl") for line in path.open()]
    assert [note["relation"] for note in notes] == ["g"]
    (operators,) = ([folder.name for folder in stream.iterdir()] for stream in (state / "crown").iterdir())
    assert sorted(operators) == ["crown", "crown.merge"]
    counts = {len(cell_folders(folder)) for stream in (state / "crown").iterdir() for folder in stream.iterdir()}
    assert counts == {4, 1}


@pytest.mark.slow
def test_a_killed_driver_goes_on_in_both_rounds(tmp_path):
    edges = tmp_path / "edges.txt"
    rng = random.Random(6)
    pairs = sorted({(rng.randrange(400), rng.randrange(400)) for _ in range(3000)}, key=lambda _: rng.random())
    edges.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    command = [
        sys.executable,
        "-c",
        "import sys; from tests.spark.test_kills import main; sys.exit(main(sys.argv[1:]))",
    ]
    command += [TOTAL, "--input", f"g={edges}", "--batch-rows", "600", "--output", str(tmp_path / "out")]
    command += ["--checkpoint", str(tmp_path / "state"), "--cores", "2", "--cells", "2", "--verify"]
    first, second = run_until(command, kill_after=2), run_until(command, kill_after=None)
    before, after = ([int(n) for n in re.findall(r"^batch +(\d+)", "\n".join(x), re.M)] for x in (first, second))
    assert second[-1] == "equal", second
    assert (before[0], after[-1]) == (0, 4)
    assert 2 < after[0] <= before[-1] + 1
    assert "recomputed  1 rows" in "\n".join(second)
