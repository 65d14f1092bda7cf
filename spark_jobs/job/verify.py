"""Compares the maintained result with a recompute by Spark.

The maintained result is the sum of the written delta stream. The expected result is the query, run by Spark SQL over
the net contents of the inputs, as far as they were applied: without files that arrived later, without quarantined rows,
and with deletes that remove existing rows only. The comparison is by the number of rows and the sum of their 64-bit
hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from plans.expressions.sqltext import spark_sql
from plans.plan import Plan
from plans.program import Program
from plans.programs.reads import functions_of, occurrences, used
from spark_jobs.dispatch.envelope import WEIGHT
from spark_jobs.errors import SparkJobError
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.rows import check
from spark_jobs.ingest.sources import FILE
from spark_jobs.ingest.types import spark_type
from spark_jobs.queries.catalyst import clone, register, unlogged
from spark_jobs.storage.address import in_a_line

BATCH = "_batch"


@dataclass(frozen=True)
class Digest:
    """A result in two numbers: the number of rows, and the sum of their hashes (of the values in column order, without
    names).
    """

    rows: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, checksum {self.checksum}"


def digest(result: DataFrame) -> Digest:
    """Returns the number of a DataFrame's rows and their checksum."""
    hashed = F.xxhash64(*(F.col(quoted(name)) for name in result.columns)).cast("decimal(38,0)")
    row = result.agg(F.count(F.lit(1)).alias("n"), F.sum(hashed).alias("sum")).collect()[0]
    return Digest(int(row["n"]), int(row["sum"] or 0))


def accumulated(deltas: DataFrame, columns: Sequence[str], bag: bool = False) -> DataFrame:
    """Returns the sum of a delta stream, each row repeated as often as its weight.

    Raises :class:`SparkJobError` if the weight of a row is below 0 or, unless the result is a ``bag``, above 1.
    """
    total = deltas.groupBy(*(F.col(quoted(name)) for name in columns)).agg(F.sum(WEIGHT).alias(WEIGHT))
    strange = total.filter((F.col(WEIGHT) < 0) | (F.col(WEIGHT) > (2**62 if bag else 1))).limit(1).collect()
    if strange:
        raise SparkJobError(f"the delta stream adds up to weight {strange[0][WEIGHT]} for {strange[0].asDict()}")
    return _repeated(total)


def _repeated(counted: DataFrame) -> DataFrame:
    """Returns every row as often as its weight, without the weight."""
    copies = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col(WEIGHT))).alias(WEIGHT)
    others = [F.col(quoted(name)) for name in counted.columns if name != WEIGHT]
    return counted.filter(F.col(WEIGHT) > 0).select(*others, copies).drop(WEIGHT)


def applied(frame: DataFrame, order: Mapping[str, int]) -> DataFrame:
    """Returns the rows of the files in ``order``, with the number of their batch as ``_batch``; see ``source_log``."""
    numbers = frame.sparkSession.createDataFrame(list(order.items()), f"{FILE} string, {BATCH} long")
    return frame.join(F.broadcast(numbers), FILE).drop(FILE)


def demand_readable(spark: SparkSession, program: Program, dialect: str) -> None:
    """Raises :class:`SparkJobError` if Spark's SQL cannot recompute a program."""
    functions = functions_of(program)
    if functions:
        raise SparkJobError(
            f"--verify recomputes with Spark's SQL, and this query calls {functions[0].name}, which Spark does not "
            "know: leave --verify out"
        )
    if program.plan is not None:
        return
    if program.windows:
        raise SparkJobError("--verify recomputes over all rows, and this query has a window, which drops rows")
    if ":-" in program.query or "-[" in program.query:
        raise SparkJobError("--verify recomputes a query of several stages by its SQL text: write it in SQL")
    if dialect != "spark":
        raise SparkJobError(
            f"--verify recomputes a query of several stages by its text in Spark's SQL, and this one is in {dialect}: "
            "leave --verify out"
        )
    apart = clone(spark)
    try:
        with unlogged():
            for table in program.tables:
                register(apart, table)
            apart.sql(program.query)
    except PySparkException as error:
        raise SparkJobError(
            f"--verify recomputes with Spark's SQL, which does not read this query ({in_a_line(error)[:200]}): leave "
            "--verify out"
        ) from None


def recomputed(program: Program, frames: Mapping[str, DataFrame], *, clamped: bool) -> DataFrame:
    """Returns the result of Spark SQL for the program's own text, over the net contents of the change tables
    ``frames``.

    ``frames``: results of ``applied``. ``clamped``: some delete found fewer copies than it was to remove, so the
    contents are computed batch by batch. Columns that the program does not read are NULL. One join of distinct rows is
    recomputed by its plan, if its predicates mean the same in Spark SQL. ``demand_readable`` must accept the program.
    """
    if program.plan is not None:
        return _recomputed(program, program.plan, frames, clamped=clamped)
    spark = next(iter(frames.values())).sparkSession
    for table in program.tables:
        typed = _typed(program, table.name, frames)
        read = [name for name in typed.columns if name not in (WEIGHT, BATCH)]
        net = _repeated(_net(typed, [F.col(quoted(name)) for name in read], clamped))
        columns = [
            F.col(quoted(column.name))
            if column.name in read
            else F.lit(None).cast(spark_type(column.type)).alias(column.name)
            for column in table.columns
        ]
        net.select(*columns).createOrReplaceTempView(table.name)
    return spark.sql(program.query)


def _recomputed(program: Program, plan: Plan, frames: Mapping[str, DataFrame], *, clamped: bool) -> DataFrame:
    """Returns a plan's query by Spark SQL's joins, over the net contents of the change tables."""
    parts: list[DataFrame] = []
    bound: dict[str, Column] = {}
    conditions: list[Column] = []
    for atom in occurrences(plan):
        typed = _typed(program, atom.relation, frames)
        read = [name for name in typed.columns if name not in (WEIGHT, BATCH)]
        net = _net(typed, [F.col(quoted(name)) for name in read], clamped)
        if atom.predicate is not None:
            net = net.filter(F.expr(spark_sql(atom.predicate)))
        renamed = [
            F.col(quoted(c)).alias(f"{atom.name}.{a}") for c, a in zip(atom.columns, atom.attributes, strict=True)
        ]
        parts.append(net.filter(F.col(WEIGHT) > 0).select(*renamed))
        for attribute in atom.attributes:
            here = F.col(quoted(f"{atom.name}.{attribute}"))
            if attribute in bound:
                same = (
                    bound[attribute].eqNullSafe(here)
                    if plan.attributes[attribute].null_safe
                    else bound[attribute] == here
                )
                conditions.append(same)
            bound.setdefault(attribute, here)
    joined = reduce(DataFrame.crossJoin, parts)
    if conditions:
        joined = joined.filter(reduce(Column.__and__, conditions))
    result = joined.select(*(value.alias(attribute) for attribute, value in bound.items()))
    for predicate in plan.residual:
        result = result.filter(F.expr(spark_sql(predicate)))
    return result.select(*(F.expr(spark_sql(output.expr)).alias(output.name) for output in plan.output)).distinct()


def _typed(plan: Program, relation: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Returns the good rows of a relation's changes: the columns read, in the planner's types, weight and batch."""
    table = plan.table(relation)
    frame = next(frame for name, frame in frames.items() if name.lower() == table.name.lower())
    rows = check(frame, table, [column.name for column in used(table, occurrences(plan))])
    good = rows.frame if rows.bad is None else rows.frame.filter(~F.coalesce(rows.bad, F.lit(False)))
    return good.select(
        *(value.alias(name) for name, value in rows.columns.items()), rows.weight.alias(WEIGHT), F.col(BATCH)
    )


def _net(changes: DataFrame, key: list[Column], clamped: bool) -> DataFrame:
    """Returns the number of copies of each row after all batches.

    A batch removes existing copies only: n ← max(0, n + w). The result is the sum of all w, minus the smallest partial
    sum if that is negative.
    """
    total = F.sum(WEIGHT).alias(WEIGHT)
    if not clamped:
        return changes.groupBy(*key).agg(total)
    so_far = F.sum(WEIGHT).over(Window.partitionBy(*key).orderBy(BATCH)).alias("so_far")
    sums = changes.groupBy(*key, F.col(BATCH)).agg(total).select(*key, BATCH, so_far)
    copies = F.max_by("so_far", BATCH) - F.least(F.lit(0), F.min("so_far"))
    return sums.groupBy(*key).agg(copies.alias(WEIGHT))
