"""Change conventions, recognized by a frame's columns or named by ``change=``, converted to ``_weight``.

Recognized without ``change=``: ``_change_type`` (Spark's CHANGES, Delta, Iceberg) and ``_row_kind``, unless the schema
declares such a column; and Debezium's envelopes (``op`` with structs ``before`` and ``after``). Any other column with
codes or weights must be named: ``change="op"``. A column that looks like one, and is not named, is an error
(``crown.ingest.tables.columns.doubtful``), because every row would be an insert.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from crown.ingest.conventions import code_column
from crown.ingest.envelopes import counted_twice
from crown.ingest.tables.columns import WEIGHT, doubtful
from plans.program import Program
from plans.programs.reads import occurrences
from plans.schema import BESIDE_CHANGES, Schema, Table
from spark_jobs.errors import SourceError
from spark_jobs.ingest.append_only import check_plans
from spark_jobs.ingest.debezium import enveloped, unwrapped
from spark_jobs.ingest.names import quoted

DEBEZIUM = "debezium"


def normal(changes: Mapping[str, DataFrame], change: str | None, declared: Schema) -> dict[str, DataFrame]:
    """Returns the change frames with ``_weight`` as the only column that says whether a row is inserted or deleted.

    ``change``: a column with weights or change codes, or ``"debezium"``; None recognizes known columns by their names.
    A frame without such a column is all inserts. Raises :class:`SourceError` if the column does not exist, if there are
    two such columns, or if a frame is not a change stream (``spark_jobs.ingest.append_only``). Frames that are in this
    form already are returned unchanged.
    """
    check_plans(changes)
    return {name: _normal(name, frame, change, declared) for name, frame in changes.items()}


def _normal(relation: str, frame: DataFrame, change: str | None, declared: Schema) -> DataFrame:
    table = declared.get(relation)
    own = {column.name.lower() for column in table.columns} if table is not None else set()
    names = {name.lower(): name for name in frame.columns}
    if change == DEBEZIUM and DEBEZIUM not in names:
        if not enveloped(frame.schema):
            raise SourceError(
                f"relation {relation!r}: an envelope of Debezium has columns op (text), before and after (structs), "
                f"but the input has {', '.join(frame.columns)}: parse it (from_json), or name another change column"
            )
        return _unwrapped(frame, table)
    if change is None:
        if WEIGHT not in frame.columns and enveloped(frame.schema) and not own & {"op", "before", "after"}:
            return _unwrapped(frame, table)
        found = None if WEIGHT in frame.columns else code_column(frame.columns, own)
        if found is None:
            return frame
    else:
        found = names.get(change.lower())
        if found is None:
            raise SourceError(
                f"relation {relation!r}: the input has no change column {change!r}: it has {', '.join(frame.columns)}"
            )
        if found.lower() == WEIGHT:
            return frame.withColumnRenamed(found, WEIGHT)
        if WEIGHT in names:
            raise SourceError(
                f"relation {relation!r}: the input has {names[WEIGHT]!r} and {found!r}, which both say whether a row "
                "is inserted or deleted: leave one out"
            )
    beside = [name for name in frame.columns if name in {found, *BESIDE_CHANGES} and name.lower() not in own]
    return frame.withColumn(WEIGHT, F.col(quoted(found))).drop(*beside)


def _unwrapped(frame: DataFrame, table: Table | None) -> DataFrame:
    """Returns the rows of envelopes. Raises :class:`SourceError` if the table is declared without duplicates but not
    enforced: a sender of envelopes repeats some of them after a fault.
    """
    if table is not None and (wrong := counted_twice(table)):
        raise SourceError(wrong)
    return unwrapped(frame, table)


def check_names(plan: Program, changes: Mapping[str, DataFrame], declared: Schema) -> None:
    """Raises :class:`SourceError` if a frame of an undeclared relation has a column that may be meant for weights.

    A column that the query reads is a column of the relation, whatever its name.
    """
    atoms = occurrences(plan)
    for name, frame in changes.items():
        if name in declared:
            continue  # its columns are checked together with its rows
        read = {
            column.lower()
            for atom in atoms
            if atom.relation.lower() == name.lower()
            for column in (*atom.columns, *(atom.predicate.columns if atom.predicate is not None else ()))
        }
        wrong = doubtful(frame.columns, read)
        if wrong is not None:
            raise SourceError(f"relation {name!r}: {wrong}")
