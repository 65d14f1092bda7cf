"""A query as Spark reads it: its analyzed plan, which `plans.frontends.catalyst` turns into the query algebra.

Spark's analyzer resolves names, types, casts and views. Of Spark's optimizer only the rules run that make joins of
correlated subqueries: no rule looks at data, at statistics or at the clock.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from plans.errors import PlanError
from plans.frontends.catalyst.relations import parse
from plans.queries.algebra import Relation
from plans.schema import Schema
from spark_jobs.ingest.types import spark_type, type_of_spark

_RULES = (
    "PullupCorrelatedPredicates",
    "RewriteCorrelatedScalarSubquery",
    "RewritePredicateSubquery",
    "RewriteLateralSubquery",
)
_TEXT = "a DataFrame of {}"
_DEPTH = 20  # of subqueries within one another


def relation_of(spark: SparkSession, query: str | DataFrame, schema: Schema) -> Relation:
    """Returns the relation of the algebra that Spark makes of a query over the relations of ``schema``.

    ``query``: SQL, or a DataFrame over temporary views that are called as the relations. PlanError where Spark refuses
    the query, and for what is not maintained.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise PlanError(
            "Spark Connect does not show how it reads a query",
            hint="give the query as SQL text, or use a classic session",
        )
    frame = query if isinstance(query, DataFrame) else _frame(spark, query, schema)
    text = query if isinstance(query, str) else _TEXT.format(", ".join(frame.columns))
    try:
        execution: Any = frame._jdf.queryExecution()
        nodes = json.loads(_joined(spark, execution.analyzed()).toJSON())
    except (AnalysisException, ParseException) as error:
        raise PlanError(_said(error)) from None
    relation = parse(nodes, schema, text, str(_jvm(spark).java.util.TimeZone.getDefault().getID()))
    for field, column in zip(frame.schema.fields, relation.columns, strict=True):
        if type_of_spark(field.dataType) != column.type:
            raise PlanError(
                f"column {field.name} is {type_of_spark(field.dataType)} on Spark and {column.type} here",
                hint="cast it in the query",
            )
    return relation


def _joined(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Returns a plan whose correlated subqueries are joins: the rules run until they change nothing, since a subquery
    may hold another one."""
    optimizer = _jvm(spark).org.apache.spark.sql.catalyst.optimizer
    rules = [getattr(getattr(optimizer, f"{rule}$"), "MODULE$") for rule in _RULES]
    for _ in range(_DEPTH):
        before = plan
        for rule in rules:
            plan = rule.apply(plan)
        if plan.fastEquals(before):
            break
    return plan


def _frame(spark: SparkSession, text: str, schema: Schema) -> DataFrame:
    """Returns the DataFrame of a query over empty relations, in a session of its own."""
    apart = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name in schema:
        fields = [
            T.StructField(column.name, spark_type(column.type), not schema[name].required(column.name))
            for column in schema[name].columns
        ]
        # Rows of an RDD, which no rule knows to be none.
        empty = apart.createDataFrame(spark.sparkContext.emptyRDD(), T.StructType(fields))
        empty.createOrReplaceTempView(name)
    try:
        return apart.sql(text)
    except (AnalysisException, ParseException) as error:
        raise PlanError(_said(error)) from None


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _said(error: AnalysisException | ParseException) -> str:
    """Returns what Spark says, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = " ".join(line for line in lines if line and not line.startswith(("==", "'", "+-", ":-")))
    return f"Spark refuses the query: {message}"
