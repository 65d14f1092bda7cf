"""Several relations in one stream: splits a topic with the changes of many tables into one frame per relation.

    topic → records → (its table is "orders") → orders
                    → (its table is "items")  → items

All frames share one source in Spark. It is asked once per micro-batch how far to read, and its offsets are one entry of
the checkpoint, so the records of one micro-batch of the topic are in the same micro-batch of every relation. Spark
reads the records once per relation.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from plans.errors import QueryWarning, levels_to_caller
from plans.files.delimited import UNREADABLE
from plans.schema import Schema, Table
from spark_jobs.errors import SourceError
from spark_jobs.ingest.debezium import enveloped
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.sources import envelopes
from spark_jobs.ingest.text_files import members, parsed_lines

RAISE, IGNORE = "raise", "ignore"
SOURCE = "source.table"
"""The field in which Debezium stores the table of a record."""
_PARTITION, _OFFSET = "partition", "offset"
"""Columns of Spark's source for Kafka: the position of a record in its topic."""


def split(
    frame: DataFrame,
    into: Mapping[str, str | Sequence[str]] | Sequence[str],
    *,
    by: str | Column | None = None,
    schema: Any = None,
    value: str = "value",
    others: str = RAISE,
) -> dict[str, DataFrame]:
    """Returns a change frame per relation, from one frame with the changes of all of them.

    ``maintain``, ``bulk_load`` and ``write_deltas`` accept the result. All frames share one source in Spark, so a
    micro-batch has the same records for every relation, and a checkpoint has one position.

    - ``into``: the table of each relation: ``{"orders": "shop.orders"}``, several names for shards; or a list of
      relations whose tables have the same names.
    - ``by``: the column that contains the table's name, or an expression; ``"source.table"`` reads within a struct.
      Default: Debezium's ``source.table``. A plain column is left out of the frames.
    - ``schema``: declared relations. If given, the column ``value`` has Debezium's envelopes as JSON texts, with or
      without a ``payload`` around them (a Kafka topic as it is), and each relation's columns are extracted from them. A
      ``sequence`` that the records do not contain is a column of ``frame``, such as Kafka's ``offset``.
    - ``others``: records of another table, or of none, are bad rows of the first relation (``"raise"``), which stop the
      stream or go to its quarantine; or they are dropped (``"ignore"``). Tombstones contain no change and are dropped.

    Warns of relations in a topic that have no key: a topic may repeat a record, which then counts twice.

    Raises :class:`SourceError`. O(1); Spark reads and parses every record once per relation.
    """
    tables = {name: [given] if isinstance(given, str) else list(given) for name, given in _pairs(into)}
    _check(tables, others)
    declared = Schema.of(schema) if schema is not None else None
    if declared is not None and (unknown := [name for name in tables if name not in declared]):
        raise SourceError(f"relation {unknown[0]!r} is not declared: schema= has {', '.join(declared)}")
    if declared is not None:
        used = [declared[name] for name in tables]
        _check_positions(frame, used)
        rows, table, silent = _texts(frame, value, by, used)
    else:
        rows, table, silent = _columns(frame, by)
    known = reduce(Column.__or__, [table.isin(names) for names in tables.values()])
    foreign = ~F.coalesce(known, F.lit(False)) & ~silent
    found = {}
    for number, (name, names) in enumerate(tables.items()):
        mine = table.isin(names)
        piece = rows.filter(mine | foreign if others == RAISE and number == 0 else mine)
        if others == RAISE and number == 0:
            reasons = [F.col(UNREADABLE)] if UNREADABLE in rows.columns else []
            why = F.when(foreign, _foreign(table, tables))
            piece = piece.withColumn(UNREADABLE, F.coalesce(*reasons, why))
        if declared is not None:
            found[name] = envelopes(piece, declared[name], True)
        else:
            found[name] = piece.drop(by) if isinstance(by, str) and by in frame.columns else piece
    return found


def _pairs(into: Mapping[str, str | Sequence[str]] | Sequence[str]) -> list[tuple[str, str | Sequence[str]]]:
    if isinstance(into, str):
        raise SourceError(f"into={into!r}: give the relations as a list, or as a mapping from relation to table")
    return list(into.items()) if isinstance(into, Mapping) else [(name, name) for name in into]


def _check(tables: Mapping[str, Sequence[str]], others: str) -> None:
    if not tables:
        raise SourceError("into= names no relation: give the relations that the stream is to be split into")
    if others not in (RAISE, IGNORE):
        raise SourceError(f'others={others!r}: give "raise" or "ignore"')
    of: dict[str, str] = {}
    for name, names in tables.items():
        if not names:
            raise SourceError(f"into= names no table for relation {name!r}")
        for table in names:
            if table in of:
                raise SourceError(f"table {table!r} has two relations, {of[table]!r} and {name!r}: give it one")
            of[table] = name


def _check_positions(frame: DataFrame, tables: Sequence[Table]) -> None:
    """Warns of tables in a topic whose records have no key. Raises :class:`SourceError` for tombstones that are dropped
    by offsets.
    """
    if not {_PARTITION, _OFFSET} <= set(frame.columns):
        return
    for table in tables:
        if table.tombstones is not None and (table.sequence or "").lower() == _OFFSET:
            raise SourceError(
                f"relation {table.name!r} removes tombstones by Kafka's offset, but each partition of a topic has its "
                "own offsets: give a sequence that orders the whole table (Debezium's ts_ns), or leave tombstones out"
            )
        if not (table.key or table.distinct):
            warnings.warn(
                f"relation {table.name!r} has no key, but a topic may deliver a record again, which would count twice: "
                f"declare the key, upserts and the sequence, as in {table.name}(id int64 key, ..., {_OFFSET} int64 "
                "sequence) upserts",
                QueryWarning,
                stacklevel=levels_to_caller(),
            )


def _texts(
    frame: DataFrame, value: str, by: str | Column | None, tables: Sequence[Table]
) -> tuple[DataFrame, Column, Column]:
    """Returns the records of a column of JSON texts, parsed into their members; the table of each record; and a
    condition for tombstones.

    The columns of the frame that are sequences of ``tables`` are kept.
    """
    if value not in frame.columns:
        raise SourceError(
            f"the stream has no column {value!r} with JSON texts: it has {', '.join(frame.columns)}; name it with "
            "value=, or leave out schema= if the records are parsed already"
        )
    columns = [] if by is None else [_table_column(frame, by).cast("string").alias("_table")]
    sequences = {(table.sequence or "").lower() for table in tables}
    columns += [F.col(quoted(name)) for name in frame.columns if name.lower() in sequences and name != value]
    rows = parsed_lines(frame.select(F.col(quoted(value)).cast("string").alias("value"), *columns))
    if by is None:
        fields = F.col("fields")
        around = members(fields["payload"])
        inner = F.when(F.map_contains_key("fields", "payload"), around).otherwise(fields)
        rows = rows.withColumn("_table", F.get_json_object(inner["source"], "$.table"))
    tombstone = (F.trim("value") == "null") | F.coalesce(
        F.map_contains_key("fields", "payload") & F.col("fields")["payload"].isNull(), F.lit(False)
    )
    return rows, F.col("_table"), tombstone


def _columns(frame: DataFrame, by: str | Column | None) -> tuple[DataFrame, Column, Column]:
    """Returns the records unchanged; the table of each record; and a condition for tombstones."""
    envelope = enveloped(frame.schema)
    if by is None:
        source = next((field.dataType for field in frame.schema.fields if field.name == "source"), None)
        if not isinstance(source, T.StructType) or "table" not in source.names:
            raise SourceError(
                f"the stream does not name the table of a record: it has {', '.join(frame.columns)}, and no struct "
                "source with a field table; name the column with by="
            )
    table = _table_column(frame, SOURCE if by is None else by)
    if not envelope:
        return frame, table, F.lit(False)
    return frame, table, F.col("op").isNull() & F.col("before").isNull() & F.col("after").isNull()


def _table_column(frame: DataFrame, by: str | Column) -> Column:
    """Returns the expression for the name of the table. Raises :class:`SourceError` if the frame has no such column."""
    table = F.col(quoted(by) if by in frame.columns else by) if isinstance(by, str) else by
    try:
        type_ = frame.select(table.alias("table")).schema[0].dataType
    except PySparkException:
        raise SourceError(f"by={by!r} is not a column of the stream: it has {', '.join(frame.columns)}") from None
    if not isinstance(type_, T.StringType):
        raise SourceError(f"by={by!r} is of type {type_.simpleString()}: give a text, the name of a table")
    return table


def _foreign(table: Column, tables: Mapping[str, Sequence[str]]) -> Column:
    known = ", ".join(name for names in tables.values() for name in names)
    shown = F.coalesce(F.concat(F.lit("of table '"), F.substring(table, 1, 100), F.lit("'")), F.lit("without a table"))
    return F.concat(F.lit("the record is "), shown, F.lit(f"; the stream is split into {known}"))
