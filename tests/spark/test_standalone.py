"""A standalone master with two workers on loopback: cells stay, and the loss of an executor moves its cell only.

The live engine of the lost executor goes with it, as if it had been on a host of its own. Oracle: DuckDB.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.standalone import standalone
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, run
from tests.spark.test_cluster import GRAPH, HOPS

BEFORE, AFTER = 25, 5


@pytest.mark.slow
@pytest.mark.spark
def test_cells_attach_on_a_standalone_cluster_and_a_killed_executor_costs_its_cells_one_restore(tmp_path):
    with standalone(tmp_path, 2) as master:
        told = subprocess.run(
            [sys.executable, "-c", "from tests.spark.test_standalone import main; main()", str(tmp_path), master],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])},
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr[-5000:]
    lost = int(told.stdout.split()[-1])
    assert lost in (0, 1)
    notes = {}
    for cell in (0, 1):
        (folder,) = tmp_path.glob(f"state/crown/*/crown/{cell}")
        notes[cell] = [
            json.loads((folder / f"{batch}.json").read_text())["restored"] for batch in range(BEFORE + AFTER)
        ]
    attached = [restored == -1 for cell in notes for restored in notes[cell][1:BEFORE]]
    assert sum(attached) >= 0.95 * len(attached), notes
    assert notes[1 - lost][BEFORE:] == [-1] * AFTER, notes  # the other cell has not noticed
    assert notes[lost][BEFORE] >= 0, notes
    assert notes[lost][BEFORE + 1 :] == [-1] * (AFTER - 1), notes


def main() -> None:
    """Runs the stream, kills the executor of a cell, and goes on; prints the cell."""
    from spark_jobs import local_session

    folder, master = Path(sys.argv[1]), sys.argv[2]
    rng, files, oracle, sink = random.Random(3), ChangeFiles(folder / "in", GRAPH), oracle_of(GRAPH, HOPS), Result()
    changes = [
        {"g": [(rng.randrange(30), rng.randrange(30), rng.choice((1, 1, -1))) for _ in range(80)]}
        for _ in range(BEFORE + AFTER)
    ]
    conf = {
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.pyspark.python": sys.executable,
    }
    spark = local_session("standalone", memory="1g", conf=conf)
    killed: list[int] = []

    def write(frame, batch):
        sink.write(frame, batch)
        if batch == BEFORE - 1 and not killed:
            killed.append(kill_executor_of_cell(folder))

    for batch in changes:
        files.add(batch)
    run(spark, HOPS, files, folder / "state", sink=sink, schema=GRAPH, cells=2, consume=write)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result, number
    spark.stop()
    print(killed[0])


def kill_executor_of_cell(folder: Path) -> int:
    """Kills the executor whose worker holds cell 0, and its live engine with it; returns the cell."""
    (lock,) = folder.glob("state/scratch/*/*/crown/0/lock")
    executor = parent_of(int(lock.read_text()))  # the worker process's daemon, and its executor
    executor = parent_of(executor)
    os.kill(executor, signal.SIGKILL)
    lock.with_name("engine.arena").unlink()  # on another host there is none
    time.sleep(2)
    return 0


def parent_of(process: int) -> int:
    """The process that started another one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
