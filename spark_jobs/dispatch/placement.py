"""Places cells on a cluster: each on the executor that has its live engine.

Spark gives a task after a shuffle to any free executor. With executors on several hosts, a cell would change hosts in
about half of the batches, and replay its log there. So every cell has an *anchor*: a cached row of its own, whose block
stays on one executor, and the rows of the cell are joined with the anchor. Spark runs a task at the preferred location
of its first input that has one, and the anchor is the first input.

The join is a sort-merge join over one key per cell: it passes every row once, and sorts by a key that all rows of a
cell share. (A hash join has its inputs in the other order.) If an executor is lost, Spark recreates its anchors on
another executor, and the cells are restored there.
"""

from __future__ import annotations

import uuid
import warnings

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.errors import levels_to_caller
from spark_jobs import cluster
from spark_jobs.dispatch.envelope import CELL
from spark_jobs.errors import SparkJobError

AUTO, PINNED, ANYWHERE = PLACEMENTS = ("auto", "pinned", "anywhere")
_ANCHOR, _OWNER = "_anchor", "_anchored"


def pins(spark: SparkSession, placement: str) -> bool:
    """Returns True if cells are pinned to their executors: ``"pinned"``, or ``"auto"`` on a cluster.

    Adaptive execution would remove the join, and with it the cells, when a batch has no rows. Raises
    :class:`SparkJobError` for ``"pinned"`` with adaptive execution, and warns for ``"auto"``.
    """
    local = cluster.master(spark).split("[")[0] == "local"
    if placement == ANYWHERE or (placement == AUTO and local):
        return False
    if spark.conf.get("spark.sql.adaptive.enabled") != "true":
        return True
    said = "cells cannot be kept on their executors while spark.sql.adaptive.enabled is true: set it to false"
    if placement == PINNED:
        raise SparkJobError(f'{said}, or give placement="{ANYWHERE}"')
    warnings.warn(
        f'{said}, or give placement="{ANYWHERE}" if all of them are on one host', stacklevel=levels_to_caller()
    )
    return False


def pinned(rows: DataFrame, cells: int) -> DataFrame:
    """Returns ``rows`` partitioned by cell, with a preferred executor for each partition.

    Cost: two small jobs now; per batch a sort of each cell's rows by one key.
    """
    spark = rows.sparkSession
    keys = F.array(*map(F.lit, _keys(spark, cells)))
    owner = F.lit(uuid.uuid4().hex).alias(_OWNER)  # otherwise Spark would share the anchors of all streams
    anchors = spark.range(cells).select(keys[F.col("id").cast("int")].alias(_ANCHOR), owner)
    anchors = anchors.repartition(cells, _ANCHOR).persist()
    anchors.count()  # materializes the anchors, so that each has a location
    sent = rows.withColumn(_ANCHOR, keys[F.col(CELL) % cells]).repartition(cells, _ANCHOR)
    return anchors.hint("merge").join(sent, _ANCHOR).drop(_ANCHOR, _OWNER)


def _keys(spark: SparkSession, cells: int) -> list[int]:
    """Returns a key per cell that Spark's hash partitioning sends to the partition with the cell's number."""
    number = F.col("id").cast("int")
    hashed = spark.range(40 * cells).select(number, F.pmod(F.hash(number), F.lit(cells)))
    found = {partition: key for key, partition in hashed.collect()}
    return [found[cell] for cell in range(cells)]
