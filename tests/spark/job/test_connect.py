"""A session of Spark Connect, whose driver is another process. Oracle: the result written out by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import cluster

ROOT = Path(__file__).parents[3]
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

from crown.spark import maintain

spark, folder = SparkSession.builder.remote("local[2]").getOrCreate(), sys.argv[1]
QUERY = "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b"


def read(reader, name, columns):
    return reader.schema(f"{columns}, _weight long").json(f"{folder}/{name}")


def result(started):
    started.trigger(availableNow=True).start().awaitTermination()


def stream():
    changes = {"r": read(spark.readStream, "r", "a long, b long"), "s": read(spark.readStream, "s", "b long, c long")}
    deltas = maintain(spark, QUERY, changes, checkpoint=f"{folder}/state", cells=2)
    return deltas.writeStream.option("checkpointLocation", f"{folder}/state")


def written():
    rows = spark.read.parquet(f"{folder}/out").groupBy("a", "c").sum("_weight").collect()
    return sorted([a, c, n] for a, c, n in map(tuple, rows) if n)


tables = {"r": read(spark.read, "r", "a long, b long"), "s": read(spark.read, "s", "b long, c long")}
said = [sorted([a, c, n] for a, c, n in map(tuple, maintain(spark, QUERY, tables).collect()))]
result(stream().format("parquet").option("path", f"{folder}/out"))
said.append(written())
with open(f"{folder}/r/2.json", "w") as file:
    file.write(json.dumps({"a": 0, "b": 0, "_weight": -1}))
try:
    result(stream().foreachBatch(lambda frame, number: frame.write.mode("append").parquet(f"{folder}/out")))
except Exception as error:
    said.append("With Spark Connect, no thread of foreachBatch knows it" in str(error))
result(stream().format("parquet").option("path", f"{folder}/out"))
said.append(written())
print("said", json.dumps(said))
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs pip install 'pyspark[connect]'")
def test_a_stream_is_maintained_through_spark_connect(tmp_path: Path) -> None:
    """A batch that foreachBatch reads is refused, and not lost: the day Spark tells its number there, docs/spark.md has
    to change."""
    for name, rows in {
        "r": [{"a": a, "b": a % 3, "_weight": 1} for a in range(4)],
        "s": [{"b": 0, "c": 7, "_weight": 1}],
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text("\n".join(map(json.dumps, rows)))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", CLIENT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, env=environment)
    (said,) = [line for line in done.stdout.splitlines() if "said [" in line] or [done.stderr[-3000:]]
    both = [[0, 7, 1], [3, 7, 1]]
    assert json.loads(said[said.index("said ") + 5 :]) == [both, both, True, [[3, 7, 1]]]


class Settings:
    """A session that has settings and nothing else."""

    def __init__(self, **values: str) -> None:
        self.conf = {f"spark.{name}": value for name, value in values.items()}


Settings.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(("master", "cores"), [("local[3]", 3), ("local[5,2]", 5)])
def test_cores_and_master_are_known_without_a_driver_in_this_process(master: str, cores: int) -> None:
    session = Settings(master=master)
    assert cluster.remote(session)
    assert (cluster.master(session), cluster.cores(session)) == (master, cores)
