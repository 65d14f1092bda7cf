"""Asks Spark for the analyzed plan of a query, which `plans.frontends.catalyst` turns into the query algebra.

Spark's analyzer resolves names, types, casts and views. Two kinds of optimizer rules run after it: those that turn
correlated subqueries into joins, and, where rows are numbered, the rule that drops unread columns. None of them reads
data, statistics or the clock.

User-defined functions (``crown.function``, ``crown.aggregate``) are registered with the session. Spark's analyzer then
knows their names and types, its plan names them, and the front-end finds them by these names. Views that Spark computes
call them, too.

A query may be that of a checkpoint in another spelling; the stream then continues with the checkpoint's plan. A plan's
fingerprint contains variables and aliases, because the layout of state depends on them. A query that only renames them,
or reorders its atoms, has another fingerprint and the same result. So the stored query is planned again. If its plan
has the stored fingerprint, and the two plans are isomorphic, the stored plan is used.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.functions import arrow_udf

from plans.errors import PlanError, QueryWarning
from plans.expressions.columns import intervals
from plans.expressions.functions.user import NAMED, UserAggregate, UserFunction
from plans.frontends.catalyst.relations import parse
from plans.frontends.catalyst.tree import tables_of, views_of
from plans.program import Program
from plans.queries.algebra import Relation
from plans.schema import Schema, Table
from plans.theory.isomorphism import difference, isomorphic
from plans.types import arrow_type
from spark_jobs.errors import ANEW, PlanChangedError, SparkJobError
from spark_jobs.ingest.types import spark_type, type_of_spark
from spark_jobs.log.meta import read_meta
from spark_jobs.queries.plan_values import filled
from spark_jobs.storage.folder import Folder


def register_functions(spark: SparkSession) -> None:
    """Registers the functions of this process with a session, except functions that return months, which PySpark does
    not support.
    """
    for own in NAMED.values():
        if "months" not in _gives(own):
            call = _aggregate(own) if isinstance(own, UserAggregate) else _scalar(own)
            spark.udf.register(own.name, arrow_udf(call, spark_type(_gives(own))))  # type: ignore[call-overload]


def not_carried(name: str) -> PlanError | None:
    """Returns the error for a query that calls a function which PySpark does not support; None if it does, or if the
    function is unknown.
    """
    own = NAMED.get(name.upper())
    if own is None or "months" not in _gives(own):
        return None
    message = f"function {own.name!r} returns {_gives(own)}, which PySpark does not support"
    return PlanError(message, hint="return a number of months")


def _gives(own: UserFunction | UserAggregate) -> str:
    """Returns the type of the result."""
    return own.finish.gives if isinstance(own, UserAggregate) else own.gives


def _scalar(own: UserFunction) -> Callable[..., pa.Array]:
    def call(*arrays: pa.Array) -> pa.Array:
        return _values(own, arrays)

    return call


def _aggregate(own: UserAggregate) -> Callable[..., Any]:
    def call(*arrays: pa.Array) -> Any:
        lifted = _values(own.lift, arrays)
        lifted = lifted.filter(pc.is_valid(lifted))
        sums = [pa.array([_sum(pc.struct_field(lifted, field.name))]) for field in lifted.type]
        return _values(own.finish, [*sums, pa.array([len(lifted)])])[0].as_py()

    return call


def _sum(values: pa.Array) -> Any:
    """Returns the sum of values. The sum of doubles is exact and rounded once, as in views."""
    known = values.drop_null()
    if not pa.types.is_floating(values.type) or len(known) == 0 or not pc.all(pc.is_finite(known)).as_py():
        return pc.sum(known).as_py()
    try:
        return math.fsum(known.to_numpy())
    except OverflowError:  # of a partial sum, or of the result
        total = sum(map(Fraction, known.to_pylist()))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _values(own: UserFunction, arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns the values of rows as an Arrow array."""
    given = [
        intervals.carried(array.cast(arrow_type(type_)), type_) for array, type_ in zip(arrays, own.takes, strict=True)
    ]
    return intervals.restored(own.evaluate(*given), own.gives)


_RULES = (
    "BooleanSimplification",  # moves NOT to the subqueries: the rules below take NULL for FALSE under NOT
    "PullupCorrelatedPredicates",
    "RewriteCorrelatedScalarSubquery",
    "RewritePredicateSubquery",
    "RewriteLateralSubquery",
)
_NUMBERED = re.compile(r"\.(AttachDistributedSequence|MonotonicallyIncreasingID)\"")
"""Functions that number rows in Spark's own order. pandas-on-Spark adds such columns, and few queries read them."""
_TEXT = "a DataFrame of {}"
_CATALYST = "org.apache.spark.sql.catalyst."
_DEPTH = 20  # maximal nesting of subqueries


def relation_of(spark: SparkSession, query: str | DataFrame, schema: Schema) -> Relation:
    """Returns the relation of the algebra that Spark makes of a query over the relations of ``schema``.

    ``query``: SQL, or a DataFrame over temporary views that have the names of the relations. Raises PlanError if Spark
    refuses the query, or if the query uses what cannot be maintained.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise PlanError(
            "Spark Connect does not show how it reads a query",
            hint="give the query as SQL text, or use a classic session",
        )
    with unlogged():
        frame = query if isinstance(query, DataFrame) else _frame(spark, query, schema)
    text = query if isinstance(query, str) else _TEXT.format(", ".join(frame.columns))
    try:
        execution: Any = frame._jdf.queryExecution()
        plan = _joined(spark, execution.analyzed())
        if _NUMBERED.search(plan.toJSON()):
            plan = _rule(spark, "ColumnPruning").apply(plan)
        written, zone = plan.toJSON(), str(_jvm(spark).java.util.TimeZone.getDefault().getID())
        _check_escapes(spark, execution.analyzed(), written)
        nodes = filled(plan, json.loads(written), zone)
    except (AnalysisException, ParseException) as error:
        raise PlanError(_message(error)) from None
    relation = parse(nodes, schema, text, zone)
    for field, column in zip(frame.schema.fields, relation.columns, strict=True):
        if type_of_spark(field.dataType) != column.type:
            raise PlanError(
                f"column {field.name} is {type_of_spark(field.dataType)} on Spark and {column.type} here",
                hint="cast it in the query",
            )
    return relation


def _check_escapes(spark: SparkSession, plan: JavaObject, written: str) -> None:
    """Raises PlanError for LIKE and ILIKE with ESCAPE: the plan as JSON leaves the character out."""
    if not re.search(r"expressions\.I?Like\"", written):
        return
    for node in _nodes(spark, plan):
        if node.getClass().getSimpleName() in ("Like", "ILike") and node.escapeChar() != "\\":
            raise PlanError(
                "LIKE with ESCAPE cannot be read from Spark's plan", hint="write a backslash before the character"
            )


def _nodes(spark: SparkSession, top: JavaObject) -> Iterator[JavaObject]:
    """Yields the operators of a plan, the nodes of their expressions, and the operators and nodes of subqueries."""
    gateway: Any = spark.sparkContext._gateway
    waiting = [top]
    while waiting:
        node: Any = waiting.pop()
        yield node
        parts = [node.children()]
        if is_instance_of(gateway, node, f"{_CATALYST}plans.QueryPlan"):
            parts.append(node.expressions())
        elif is_instance_of(gateway, node, f"{_CATALYST}expressions.PlanExpression"):
            waiting.append(node.plan())
        waiting += [part.apply(i) for part in parts for i in range(part.size())]


@contextmanager
def unlogged() -> Iterator[None]:
    """Keeps PySpark from logging a query that is refused in this thread with a JVM stack trace to standard error. A
    refusal is an expected answer here.
    """
    thread = threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # a plain logger of this name would fail in PySpark
    logger.addFilter(is_of_another)
    try:
        yield
    finally:
        logger.removeFilter(is_of_another)


def _joined(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Returns a plan in which correlated subqueries are joins. The rules run until they change nothing, since a
    subquery can contain another one.
    """
    rules = [_rule(spark, name) for name in _RULES]
    for _ in range(_DEPTH):
        before = plan
        for rule in rules:
            plan = rule.apply(plan)
        if plan.fastEquals(before):
            break
    return plan


def _rule(spark: SparkSession, name: str) -> Any:
    """Returns a rule of Spark's optimizer."""
    return getattr(getattr(_jvm(spark).org.apache.spark.sql.catalyst.optimizer, f"{name}$"), "MODULE$")


@dataclass(frozen=True)
class Leaf:
    """A table or temporary view that a DataFrame reads: its name in lower case, and where it is in the catalog.

    ``name`` is empty for files that are read by their path; ``path`` is for a temporary view.
    """

    name: str
    path: str


def leaves_of(frame: DataFrame) -> tuple[list[Leaf], bool]:
    """Returns the tables and temporary views that a DataFrame reads, subqueries included. The second value is True if
    the plan reads them through views of the catalog.
    """
    execution: Any = frame._jdf.queryExecution()
    nodes = json.loads(execution.analyzed().toJSON())
    return [Leaf(name.lower(), path) for name, path in tables_of(nodes)], views_of(nodes)


def clone(spark: SparkSession) -> SparkSession:
    """Returns a session with the settings, functions and temporary views of another session, and the functions that are
    registered here. Views created in the new session exist only there.
    """
    apart = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    register_functions(apart)
    return apart


def register(spark: SparkSession, table: Table) -> None:
    """Creates a temporary view of a relation, without rows."""
    fields = [T.StructField(c.name, spark_type(c.type), not table.required(c.name)) for c in table.columns]
    # The rows are an RDD, so that no rule can conclude that there are none.
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), T.StructType(fields))
    empty.createOrReplaceTempView(table.name)


def _frame(spark: SparkSession, text: str, schema: Schema) -> DataFrame:
    """Returns the DataFrame of a query over empty relations, in a session of its own."""
    apart = clone(spark)
    for table in schema.values():
        register(apart, table)
    try:
        return apart.sql(text)
    except (AnalysisException, ParseException) as error:
        called = _UNKNOWN.search(str(error))
        raise (not_carried(called[1]) if called else None) or PlanError(_message(error)) from None


_UNKNOWN = re.compile(r"\[UNRESOLVED_ROUTINE\] [^`]*`(\w+)`")
"""Spark's error for a function name that it does not know."""


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _message(error: AnalysisException | ParseException) -> str:
    """Returns Spark's message as one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = " ".join(line for line in lines if line and not line.startswith(("==", "'", "+-", ":-")))
    return f"Spark refuses the query: {message}"


def kept(
    plan: Program,
    state: Folder | None,
    certain: bool,
    planned: Callable[[str, str], Program],
) -> Program:
    """Returns the plan by which ``state`` is laid out, if ``plan`` is the same query; else ``plan``.

    ``state``: the operator's folder, or None; ``certain``: the state belongs to this stream. ``planned(query,
    dialect)`` plans a text. Raises :class:`PlanChangedError` with the difference, if the state is this stream's and of
    another query that can still be planned.
    """
    meta = _meta(state)
    if meta is None or meta["fingerprint"] == plan.fingerprint:
        return plan
    for dialect in ("spark", "ansi"):
        stored = _again(meta["query"], dialect, planned)
        if stored is None or stored.fingerprint != meta["fingerprint"]:
            continue  # its tables are no longer given, or are declared differently
        if isomorphic(stored, plan):
            return stored
        if certain:
            before = f"plan {meta['fingerprint']} ({_line(meta['query'])})"
            now = f"plan {plan.fingerprint} ({_line(plan.query)})"
            raise PlanChangedError(
                f"the state in {state} was written by {before}, but this is {now}: {difference(stored, plan)}. A "
                "changed query needs its own state: go back to this one's query; or give two queries in one stream "
                f"different operator= names; or {ANEW}"
            )
        return plan
    return plan


def _meta(state: Folder | None) -> dict[str, Any] | None:
    """Returns the ``meta.json`` of the state; before the first batch, that of the backfill from which it starts."""
    if state is None:
        return None
    return read_meta(state) or read_meta(state.parent.parent / "backfill" / state.name)


def _again(query: str, dialect: str, planned: Callable[[str, str], Program]) -> Program | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        try:
            return planned(query, dialect)
        except (PlanError, SparkJobError):
            return None


def _line(query: str) -> str:
    return " ".join(query.split())
