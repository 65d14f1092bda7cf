"""Debezium's envelopes as rows with weights: each record has the row before a change, the row after it, or both.

``c`` and ``r`` (a snapshot read) insert the row after, ``d`` deletes the row before, ``u`` does both: so a record
yields up to two rows. In a relation with upserts an update is only the row after it. Tombstones (all NULL, for log
compaction) and messages (``m``) yield no row. Without upserts, an update or delete that lacks the row before it is a
bad row, because the engine needs the row that it deletes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from crown.ingest.envelopes import UNAVAILABLE, WHOLE_ROWS
from crown.ingest.tables.columns import WEIGHT
from plans.files.delimited import UNREADABLE
from plans.schema import Table
from spark_jobs.ingest.names import quoted


def enveloped(schema: T.StructType) -> bool:
    """Returns True if a frame has the columns of envelopes: ``op``, and structs ``before`` and ``after``."""
    types = {field.name: field.dataType for field in schema.fields}
    return (
        isinstance(types.get("op"), T.StringType)
        and isinstance(types.get("before"), T.StructType)
        and isinstance(types.get("after"), T.StructType)
    )


def unwrapped(frame: DataFrame, table: Table | None = None) -> DataFrame:
    """Returns the rows of the envelopes of ``frame``: the columns of ``after``, ``_weight`` and, for a bad row, the
    reason.

    Other columns of the envelope (``source``, ``ts_ms``) are dropped; those of this package (``_file``) are kept. If
    ``table`` has upserts, an update is only the row after it, and a delete needs only the key. A column beside the
    envelope that is the table's sequence is kept.
    """
    upserts = table is not None and table.upserts
    sequence = (table.sequence or "").lower() if table is not None else ""
    fields = _fields(frame, "after")
    before = {field.name.lower(): field.name for field in _fields(frame, "before")}
    kept = [name for name in frame.columns if name.startswith("_") and name not in (WEIGHT, UNREADABLE)]
    beside = [name for name in frame.columns if name.lower() == sequence]
    fields = [field for field in fields if not beside or field.name.lower() != sequence]
    kept += [name for name in beside if name not in kept]
    op = F.lower(F.trim("op"))
    gone, come = op.isin("d") if upserts else op.isin("u", "d"), op.isin("c", "r", "u")
    silent = (op.isNull() & F.col("before").isNull() & F.col("after").isNull()) | (op == "m")
    reasons = [F.col(UNREADABLE)] if UNREADABLE in frame.columns else []
    if reasons:
        silent = silent & F.col(UNREADABLE).isNull()
    reasons += [
        F.when(op.isNull() | ~(gone | come), F.concat(F.lit("unknown op "), _shown(op), F.lit("; use c, r, u or d"))),
        F.when(gone & F.col("before").isNull(), F.lit(f"an update or delete has no row before it: {WHOLE_ROWS}")),
        F.when(come & F.col("after").isNull(), F.lit(f"an insert or update has no row after it: {WHOLE_ROWS}")),
    ]
    texts = [f.name for f in fields if isinstance(f.dataType, T.StringType)]
    reasons += [
        F.when(
            (gone & (F.col(f"before.{quoted(before[name.lower()])}") == UNAVAILABLE))
            | (come & (F.col(f"after.{quoted(name)}") == UNAVAILABLE)),
            F.lit(f"column '{name}' was left out by the source: {WHOLE_ROWS}"),
        )
        for name in texts
        if name.lower() in before
    ]
    why = F.coalesce(*reasons)
    whole = F.concat(why, F.lit(": "), F.substring(F.to_json(F.struct("op", "before", "after")), 1, 300))

    def row(image: str, weight: int, reason: Column) -> Column:
        """Returns one row as a struct. A column that this image lacks is NULL; so are all columns of a bad row."""
        own = {field.name.lower(): field.name for field in fields} if image == "after" else before
        values = [
            (F.col(f"{image}.{quoted(own[f.name.lower()])}") if f.name.lower() in own else F.lit(None))
            .cast(f.dataType)
            .alias(f.name)
            for f in fields
        ]
        return F.struct(*values, F.lit(weight).cast("bigint").alias(WEIGHT), reason.alias(UNREADABLE))

    good = F.lit(None).cast("string")
    rows = (
        F.when(silent, F.slice(F.array(row("after", 1, good)), 1, 0))
        .when(why.isNotNull(), F.array(row("after", 1, whole)))
        .when(op == "d", F.array(row("before", -1, good)))
        .when((op == "u") & F.lit(not upserts), F.array(row("before", -1, good), row("after", 1, good)))
        .otherwise(F.array(row("after", 1, good)))
    )
    return frame.select(F.explode(rows).alias("row"), *map(quoted, kept)).select("row.*", *map(quoted, kept))


def _fields(frame: DataFrame, image: str) -> list[T.StructField]:
    type_ = frame.schema[image].dataType
    return type_.fields if isinstance(type_, T.StructType) else []


def _shown(value: Column) -> Column:
    return F.coalesce(F.concat(F.lit("'"), F.substring(value, 1, 100), F.lit("'")), F.lit("NULL"))
