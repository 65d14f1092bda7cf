"""Two executors, each a process of its own: results are those of DuckDB, and cells are attached, not rebuilt."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, y.dst c FROM g x, g y WHERE x.dst = y.src"
BATCHES = 8


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("placement", ["pinned", "anywhere"])
def test_on_two_executors_every_cell_goes_on_where_it_was(tmp_path, placement):
    """The executors of one host attach the same live engine, so a cell may wander between them."""
    told = subprocess.run(
        [sys.executable, "-c", "from tests.spark.test_cluster import main; main()", str(tmp_path), placement],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    for cell in ("0", "1"):
        (folder,) = tmp_path.glob(f"state/crown/*/crown/{cell}")
        notes = [json.loads((folder / f"{batch}.json").read_text()) for batch in range(BATCHES)]
        assert [note["restored"] for note in notes] == [0] + [-1] * (BATCHES - 1)


def main() -> None:
    """Runs the stream on a cluster in this process."""
    from spark_jobs import local_session

    folder, placement = Path(sys.argv[1]), sys.argv[2]
    rng, files, oracle, sink = random.Random(3), ChangeFiles(folder / "in", GRAPH), oracle_of(GRAPH, HOPS), Result()
    changes = [
        {"g": [(rng.randrange(30), rng.randrange(30), rng.choice((1, 1, -1))) for _ in range(80)]}
        for _ in range(BATCHES)
    ]
    for batch in changes:
        files.add(batch)
    conf = {"spark.master": "local-cluster[2,1,1024]", "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    spark = local_session("two executors", memory="1g", conf=conf)
    run(spark, HOPS, files, folder / "state", sink=sink, schema=GRAPH, cells=2, placement=placement)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
    spark.stop()
