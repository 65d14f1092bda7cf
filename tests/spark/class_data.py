"""How the JVMs of tests start in half the time: their options, and an archive of their classes made once for all.

A JVM of these tests lives for minutes and sees every query once: what compilers spend on its code is not earned back.
With the quick compiler alone it takes a fifth less of the processor, without generated code another tenth. When it
starts Spark, it reads, checks and links some ten thousand classes, 5 s of the processor; from an archive (class data
sharing) it maps them. ``python -m tests.spark.class_data`` is what is run to make one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The usual manager starts a process per part of a path to ask for links, some twenty per micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    # PySpark otherwise notes for every operation on a column where it was called, and tells the JVM.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Plans are written down for a page that is not served, and are checked again after every step of the optimizer.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
# With the quick compiler alone the JVM has 48 MB for compiled code, and compiles again what it has given up.
_COMMON = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Xlog:cds=off -Xlog:cds+dynamic=off"
_ENOUGH_S = 300


def options() -> str:
    """Options of Java and settings of Spark, as ``SPARK_SUBMIT_OPTS`` takes them.

    A folder of settings would be one of the places of classes, and an archive is for the very same places.
    """
    return " ".join([f"{_COMMON} -XX:SharedArchiveFile={archive()}", *(f"-D{k}={v}" for k, v in _SETTINGS.items())])


def archive() -> Path:
    """The place of the archive for this Java and this Spark. A JVM takes no notice of a file that is not there."""
    import pyspark

    home = Path(pyspark.__file__).parent
    java = os.path.realpath(os.environ.get("JAVA_HOME") or shutil.which("java") or "java")
    key = f"{java} {pyspark.__version__} {home} {(home / 'jars').stat().st_mtime_ns}"
    return ROOT / "out" / "cache" / f"classes-{zlib.crc32(key.encode()):08x}.jsa"


def ensure_archive() -> None:
    """Makes the archive if there is none. Takes some 20 s then, and 160 MB of disk."""
    file = archive()
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        words = [sys.executable, "-m", "tests.spark.class_data"]
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"{_COMMON} -XX:ArchiveClassesAtExit={made}"}
        subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=_ENOUGH_S)
        if made.exists():  # else the JVMs start as ever
            made.replace(file)


def train() -> None:
    """Runs what most tests run, and waits for the JVM to end: it writes the archive of its classes then."""
    from spark_jobs import local_session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = local_session("classes", memory="1g")
        rows = spark.range(100).selectExpr("id AS a", "id % 7 AS b", "CAST(id AS STRING) AS c")
        rows.createOrReplaceTempView("r")
        summed = spark.sql("SELECT r.b, COUNT(*), SUM(r.a), MAX(r.c) FROM r JOIN r AS s ON r.a = s.b GROUP BY r.b")
        summed.collect()
        summed.toArrow()
        spark.createDataFrame([(1, 2.5, "x")], "a BIGINT, b DOUBLE, c STRING").collect()
        for form in ("parquet", "json", "csv"):
            rows.write.format(form).save(str(folder / form))
            spark.read.format(form).schema(rows.schema).load(str(folder / form)).count()
        stream = spark.readStream.schema(rows.schema).parquet(str(folder / "parquet"))
        same = stream.repartition(2, "b").mapInArrow(lambda batches: batches, rows.schema)

        def keep(batch: object, number: int) -> None:
            batch.write.mode("append").parquet(str(folder / "kept"))  # type: ignore[attr-defined]

        started = same.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
        started.trigger(availableNow=True).start().awaitTermination()
        process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        process.stdin.close()  # the JVM ends, and writes
        process.wait(timeout=_ENOUGH_S)


if __name__ == "__main__":
    train()
