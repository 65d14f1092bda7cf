"""Starts a stream from existing tables.

``bulk_load`` runs the query once over batch tables and saves each cell's engine as the snapshot from which a stream
with the same checkpoint starts. The stream then reads only the changes since.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession

from plans.search.cells.exchanges import rounds
from spark_jobs.cell.step import refuse_streams
from spark_jobs.dispatch.chain import applied, strides
from spark_jobs.dispatch.keys import strides_by_key, strides_within
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.ingest.conventions import normal
from spark_jobs.operator import Query, after_keys, default_cells, planned
from spark_jobs.options import LoadOptions, Options


def bulk_load(
    spark: SparkSession,
    query: Query,
    tables: Mapping[str, DataFrame],
    **given: Unpack[LoadOptions],
) -> DataFrame:
    """Returns the query's result over batch ``tables``, as a DataFrame of inserts; computing it fills ``checkpoint``.

    Spark is lazy: the state is complete when an action has read the whole result (write it to the sink that the stream
    will write to). A stream that finds only some cells filled is refused. Options as for ``maintain``, as far as they
    determine the state; ``checkpoint`` is required. Bad rows are errors here: correct the table first. Cost O(tables +
    result), state in the workers' memory while it runs.
    """
    for name, frame in tables.items():
        if frame.isStreaming:
            raise SourceError(
                f"relation {name!r} is a stream: bulk_load() takes batch tables, maintain() takes streams"
            )
    options = Options.of("bulk_load", given, LoadOptions)
    operator = options.place.operator
    tables = normal(tables, options.change, options.schema)
    where, cells = options.place.located(), options.cells.cells
    if where is None:
        raise CheckpointError("bulk_load() needs checkpoint=: the folder where the stream will keep its state")
    refuse_streams(where.root, operator)
    plan = planned(query, tables, options.schema, options.planning)
    program = after_keys(plan)
    made = rounds(program, default_cells(spark, program, options.planning.rates) if cells is None else cells)
    where.claim()
    common: dict[str, Any] = {
        "on_missing": options.checks.missing,
        "root": str(where.root),
        "checkpoint": str(where.checkpoint),
        "options": dict(options.place.storage_options or {}),
        "scratch": None,
        "keep": 0,
        "run": uuid.uuid4().hex,
        "backfill": True,
    }
    before = {
        **strides_by_key(plan, made[0].grid.cells, operator, **common),
        **strides_within(plan, made, operator, **common),
    }
    found = strides(made, operator=operator, query=plan.query, fingerprint=plan.fingerprint, **common)
    return applied(spark, found, tables, before=before)
