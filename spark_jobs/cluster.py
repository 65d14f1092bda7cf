"""Facts about a session's cluster, read without its JVM, which a Spark Connect session does not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def master(spark: SparkSession) -> str:
    """Returns the address of the master, such as ``local[2]``."""
    return str(_setting(spark, "spark.master") or "unknown")


def application(spark: SparkSession) -> str:
    """Returns the identifier of the application, which no other application of this master has."""
    return str(_setting(spark, "spark.app.id") or "unknown")


def cores(spark: SparkSession) -> int:
    """Returns the default parallelism, which is the number of tasks that run at once. May run a job on a Spark Connect
    session.
    """
    if not remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    configured = _setting(spark, "spark.default.parallelism")
    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master(spark))
    if configured is not None or found is not None:
        return int(configured if configured is not None else found.group(1))  # type: ignore[union-attr]
    return int(spark.range(1_000_000).select(F.spark_partition_id()).distinct().count())


def remote(spark: object) -> bool:
    """Returns True for a session of Spark Connect, where the driver is another process, possibly on another host."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _setting(spark: SparkSession, key: str) -> str | None:
    try:
        return spark.conf.get(key)
    except PySparkException:  # Spark Connect has no default for an unset setting
        return None
