"""Jobs and a pipeline on executors of a local cluster, one of which is killed. Oracle: DuckDB."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.spark.streams import ChangeFiles
from tests.spark.test_cluster import GRAPH
from tests.spark.test_standalone import parent_of

HOPS = "SELECT x.src AS a, y.dst AS c, COUNT(*) AS n FROM g x JOIN g y ON x.dst = y.src GROUP BY x.src, y.dst"
BATCHES, KILL_AFTER = 12, 4
PATHS = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])


def settings(executors):
    """Returns the settings of a session with so many executors of one core each."""
    return {"spark.master": f"local-cluster[{executors},1,1024]", "spark.executorEnv.PYTHONPATH": PATHS}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("executors", [2, 4])
def test_a_job_survives_an_executor(tmp_path, executors):
    rng, files = random.Random(executors), ChangeFiles(tmp_path / "in", GRAPH)
    left: dict[tuple[int, int], int] = {}
    for _ in range(BATCHES):
        batch = [(rng.randrange(20), rng.randrange(20), 1) for _ in range(60)]
        gone = [edge for edge, copies in left.items() if copies > 0 and rng.random() < 0.1]
        batch += [(*edge, -1) for edge in gone]
        for a, b, weight in batch:
            left[a, b] = left.get((a, b), 0) + weight
        files.add({"g": batch})
    words = [sys.executable, "-m", "crown", "submit", HOPS, "--input", f"g={tmp_path / 'in' / 'g'}:files=1"]
    words += ["--output", str(tmp_path / "out"), "--sink", "delta", "--checkpoint", str(tmp_path / "state")]
    words += ["--scratch", str(tmp_path / "scratch"), "--cells", str(executors), "--memory", "1g"]
    for name, value in settings(executors).items():
        words += ["--conf", f"{name}={value}"]
    with open(tmp_path / "said", "w") as said:
        job = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": PATHS}, stdout=said, stderr=said)
        try:
            killed = False
            while job.poll() is None:
                if not killed and list(tmp_path.glob(f"state/crown/*/crown/0/{KILL_AFTER}.json")):
                    killed = kill_an_executor(tmp_path / "scratch")
                time.sleep(0.1)
        finally:
            job.kill()
            job.wait()
    assert killed, (tmp_path / "said").read_text()[-3000:]
    assert job.returncode == 0, (tmp_path / "said").read_text()[-3000:]
    notes = [file for file in tmp_path.glob("state/crown/*/crown/*/*.json") if file.stem.isdigit()]
    assert len(notes) == BATCHES * executors, "a cell has run no task for a batch"
    edges = [edge for edge, copies in left.items() for _ in range(copies)]
    deltas = DeltaTable(tmp_path / "out").to_pyarrow_table()
    with duckdb.connect() as connection:
        connection.register("g", pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]}))
        connection.register("deltas", deltas)
        net = "SELECT a, c, n FROM deltas GROUP BY ALL HAVING SUM(_weight) <> 0 ORDER BY ALL"
        found = connection.sql(net).fetchall()
        assert found == connection.sql(f"{HOPS} ORDER BY ALL").fetchall()
        assert len(found) > 100


@pytest.mark.slow
@pytest.mark.spark
def test_a_pipeline_survives_an_executor(tmp_path):
    """Its sources are read by executors; its state is the driver's."""
    code = "from tests.spark.test_executors import main; main()"
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]


def main():
    """Runs a pipeline over a folder of JSON lines that changes, and kills an executor after the first run."""
    from crown.spark import pipeline
    from spark_jobs import local_session

    folder, rng, edges = Path(sys.argv[1]), random.Random(1), []
    (folder / "g").mkdir()
    spark = local_session("pipeline", memory="1g", conf=settings(2))
    made = pipeline(spark, folder / "pipeline")
    made.source("g", lambda: spark.read.schema("src long, dst long").json(str(folder / "g")))
    made.view("hops", HOPS)
    for number in range(4):
        edges = edges[20:] + [(rng.randrange(20), rng.randrange(20)) for _ in range(120)]
        lines = [json.dumps({"src": src, "dst": dst}) + "\n" for src, dst in edges]
        for part in range(3):
            (folder / "g" / f"{part}.json").write_text("".join(lines[part::3]))
        assert made.run().version == number + 1
        with duckdb.connect() as connection:
            connection.register("g", pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]}))
            connection.register("hops", DeltaTable(folder / "pipeline" / "tables" / "hops").to_pyarrow_table())
            found = connection.sql("SELECT a, c, n FROM hops ORDER BY ALL").fetchall()
            assert found == connection.sql(f"{HOPS} ORDER BY ALL").fetchall()
            assert len(found) > 100
        if number == 0:
            jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
            executors = [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if is_executor(file)]
            mine = [process for process in executors if parent_of(process) == jvm]
            assert len(mine) == 2
            os.kill(mine[0], signal.SIGKILL)
    spark.stop()


def is_executor(file):
    """Returns True for the command line of an executor; the process may be gone."""
    with suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in file.read_bytes()
    return False


def kill_an_executor(scratch):
    """Kills the executor whose worker has cell 0; returns False if the worker is gone."""
    (lock,) = scratch.glob("*/*/crown/0/lock")
    with suppress(OSError, ValueError):
        executor = parent_of(parent_of(int(lock.read_text())))
        if is_executor(Path(f"/proc/{executor}/cmdline")):
            os.kill(executor, signal.SIGKILL)
            return True
    return False
