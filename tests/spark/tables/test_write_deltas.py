"""A table of deltas that the cells write themselves. Oracle: DuckDB's recompute after every batch, kills included."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from threading import Event, Thread

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import delta_files, read_deltas, write_deltas
from spark_jobs.tables.deltas.delta import table_files
from spark_jobs.tables.deltas.parts import ATTEMPTS
from tests.marks import slow
from tests.spark.streams import ChangeFiles, batch_of, oracle_of

deltalake = pytest.importorskip("deltalake")

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"
NOW = {"availableNow": True}


class Killer(Thread):
    """Kills the worker of each cell once, in a batch, when it has begun to write its file of deltas."""

    def __init__(self, table, scratch, batch):
        super().__init__(daemon=True)
        self.attempts, self.scratch, self.batch = table / ATTEMPTS, scratch, batch
        self.killed, self.over = set(), Event()

    def run(self):
        while not self.over.wait(0.0005):
            for file in self.attempts.glob(f"part-{self.batch:08d}-*"):
                cell = int(file.name.split("-")[2])
                if cell not in self.killed:
                    (lock,) = self.scratch.glob(f"*/*/crown/{cell}/lock")
                    os.kill(int(lock.read_text()), signal.SIGKILL)
                    self.killed.add(cell)


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
    files, made = graph_files(tmp_path / "in", 3, edges=200)
    oracle, table = oracle_of(GRAPH, HOPS), tmp_path / "the table"
    options = {"checkpoint": str(tmp_path / "state"), "scratch": str(tmp_path / "scratch"), "cells": 2}
    killer = Killer(table, tmp_path / "scratch", 1)
    killer.start()
    stream = write_deltas(spark, HOPS, files.frames(spark), str(table), format=form, trigger=NOW, **options)
    stream.awaitTermination()
    killer.over.set()
    killer.join()
    assert killer.killed == {0, 1}
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
