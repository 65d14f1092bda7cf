"""A stream whose Python workers have a limit of address space, as ``spark.executor.pyspark.memory`` sets it.

In a process of its own: a session has one limit, and the workers of the others have none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

JOB = """
import resource, sys
from pathlib import Path
import crown
from crown.commands.main import main

spark = crown.spark.local_session(cores=2, memory="1g", conf={"spark.executor.pyspark.memory": "2g"})
print(spark.range(1, numPartitions=1).rdd.map(lambda _: resource.getrlimit(resource.RLIMIT_AS)[0]).first())
words = ["--schema", "r(a int64, b int64, c string)", "--schema", "s(b int64, d int64)", "--cells", "2"]
words += ["--input", "r=in/r", "--input", "s=in/s", "--output", "out", "--checkpoint", "state", "--verify"]
query = "SELECT r.c, COUNT(*) AS n, SUM(s.d) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.c"
for wave in sorted(Path("waves").iterdir()):
    for name in ("r", "s"):
        (wave / name).rename(f"in/{name}/{wave.name}.jsonl")
    print("ended with", main(["submit", query, *words]))
"""


def write_waves(folder: Path, waves: int) -> None:
    """Writes files of inserts, and of deletes of what is there, for both relations."""
    random, rows = Random(7), dict[str, list[dict[str, object]]](r=[], s=[])
    for wave in range(waves):
        (folder / "waves" / str(wave)).mkdir(parents=True)
        for name, there in rows.items():
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)
            gone = [there.pop(random.randrange(len(there))) for _ in range(min(len(there), 150))]
            keys = [random.randrange(200) for _ in range(500)]
            come: list[dict[str, object]] = [{"b": key, "d": random.randrange(50)} for key in keys]
            if name == "r":
                come = [{"a": i, "b": key, "c": f"text {i % 9}"} for i, key in enumerate(keys)]
            there += come
            lines = [{**row, "_weight": weight} for weight, part in ((1, come), (-1, gone)) for row in part]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / "waves" / str(wave) / name).write_text(text)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Spark limits the address space of workers on Linux")
def test_a_stream_of_limited_workers_is_what_spark_recomputes(tmp_path: Path) -> None:
    write_waves(tmp_path, 3)
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = done.stdout.splitlines()
    assert told[0] == str(2 << 30), "the workers have the limit"
    assert [line for line in told if line.startswith("ended")] == 3 * ["ended with 0"], done.stdout
    assert told.count("equal") == 3
