"""A table of deltas that the cells write themselves. Oracle: DuckDB's recompute after every batch, kills included."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import delta_files, read_deltas, write_deltas
from spark_jobs.cell.engines import QueryEngines
from spark_jobs.tables.delta import table_files
from spark_jobs.tables.parts import ATTEMPTS
from tests.marks import slow
from tests.spark.streams import ChangeFiles, batch_of, oracle_of

deltalake = pytest.importorskip("deltalake")

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"
NOW = {"availableNow": True}


@dataclass(frozen=True)
class Killed(QueryEngines):
    """Engines whose worker is killed once per batch named, when it has written some of the batch's deltas."""

    marks: str = ""
    batches: tuple[int, ...] = ()

    def create(self, plan, path, on_missing):
        return self._armed(super().create(plan, path, on_missing))

    def attach(self, plan, path, on_missing):
        return self._armed(super().attach(plan, path, on_missing))

    def load(self, source, plan, path, on_missing):
        engine, extra = super().load(source, plan, path, on_missing)
        return self._armed(engine), extra

    def _armed(self, engine):
        from pyspark import TaskContext

        from spark_jobs.tables import parts

        parts.GROUP_ROWS = 1  # every block of deltas is a row group, so the file is there when the worker dies
        run, marks, batches = engine.run, self.marks, self.batches

        def armed(prepared, **options):
            context = TaskContext.get()
            batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
            mark, seen = Path(marks) / f"{batch}.{context.partitionId()}", 0
            for rows in run(prepared, **options):
                if seen and batch in batches and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield rows.slice(0, rows.num_rows // 2)
                seen += rows.num_rows
                if seen and batch in batches and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield rows.slice(rows.num_rows // 2)

        engine.run = armed
        return engine


def graph_files(folder, batches, people=40, edges=250, seed=5):
    """Random change files, and the same changes for the oracle."""
    rng, files = random.Random(seed), ChangeFiles(folder, GRAPH)
    made = [
        {"g": [(rng.randrange(people), rng.randrange(people), rng.choice((1, 1, 1, -1))) for _ in range(edges)]}
        for _ in range(batches)
    ]
    for changes in made:
        files.add(changes)
    return files, made


def readers(form, folder):
    """The committed rows as (values..., weight, batch), by reader."""
    files = delta_files(folder) if form == "parquet" else table_files(folder)
    found = {"duckdb": duckdb.sql(f"SELECT * FROM read_parquet({files})").fetchall()}
    if form == "parquet":
        found["duckdb, all files"] = duckdb.sql(f"SELECT * FROM '{folder}/*.parquet'").fetchall()
        found["pandas"] = list(pd.read_parquet(folder).itertuples(index=False, name=None))
        found["pyarrow"] = list(zip(*pq.read_table(files).to_pydict().values(), strict=True))
    else:
        table = deltalake.DeltaTable(str(folder))
        found["pandas"] = list(table.to_pandas().itertuples(index=False, name=None))
        found["pyarrow"] = list(zip(*table.to_pyarrow_table().to_pydict().values(), strict=True))
    return found


def states(rows, batches):
    """The result after each batch that deltas add up to."""
    total: Counter = Counter()
    for number in range(batches):
        for *row, weight, batch in rows:
            if batch == number:
                total[tuple(row)] += weight
        yield Counter({row: weight for row, weight in total.items() if weight})


@pytest.mark.parametrize("form", ["delta", slow("parquet")])
def test_workers_killed_while_they_write_leave_every_delta_once(spark, tmp_path, form):
    files, made = graph_files(tmp_path / "in", 3)
    oracle, marks, table = oracle_of(GRAPH, HOPS), tmp_path / "marks", tmp_path / "the table"
    marks.mkdir()
    options = {"checkpoint": str(tmp_path / "state"), "scratch": str(tmp_path / "scratch"), "cells": 2}
    engines = Killed(str(marks), (1,))
    stream = write_deltas(
        spark, HOPS, files.frames(spark), str(table), format=form, trigger=NOW, engines=engines, **options
    )
    stream.awaitTermination()
    assert {mark.name.partition(".")[0] for mark in marks.iterdir()} == {"1"}
    assert list((table / ATTEMPTS).iterdir()) == []  # what the killed left is gone
    expected = []
    for changes in made:
        oracle.apply(batch_of(changes))
        expected.append(Counter(oracle.result))
    for reader, rows in readers(form, table).items():
        assert list(states(rows, len(made))) == expected, reader
    assert Counter(tuple(row) for row in read_deltas(spark, str(table)).collect()) == Counter(rows)
    if form == "delta":
        actions = pa.table(deltalake.DeltaTable(str(table)).get_add_actions(flatten=True)).to_pylist()
        assert sum(action["num_records"] for action in actions) == len(rows)
        for bound in ("min._batch", "max._batch"):
            assert {action[bound] for action in actions} == set(range(3))
