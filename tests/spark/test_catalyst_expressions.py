"""Scalar expressions by way of Spark's plan have the values that the own reader gives them."""

from __future__ import annotations

import pytest

from plans.errors import PlanError
from plans.expressions.build import col, substitute
from plans.expressions.expr import Expr
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of
from tests.plans.expressions.expression_cases import ROWS, cases, columns, expression, tables

SCHEMA = Schema.of(tables())
REFUSED = (
    "ESCAPE",  # the plan does not say which character it is
    "NULL_IF_RESULT", "ILIKE", "ELEMENT_AT", "SUBTRACT_", "an interval that is no constant",
    "Spark's type",  # arrays, spans of time
    "ARRAY_FILTER",  # which ARRAY_COMPACT is there
    "needs a constant",  # where Spark casts one
    "is reserved",  # the BIGINT that stands for NULL
    "CURRENT_TIME_ZONE",  # of the session: CONVERT_TIMEZONE from it
)  # fmt: skip


@pytest.mark.parametrize("share", [pytest.param(40, id="a sample"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_an_expression_has_one_value_whoever_reads_it(spark, share: int) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows, chosen, refused = columns(), cases()[::share], 0
    for text, theirs, _ in chosen:
        try:
            found = _read(spark, theirs)
        except PlanError as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            refused += 1
            continue
        wanted = expression(text)
        if found != wanted:
            own, other = (expr.evaluate(rows, ROWS) for expr in (wanted, found))
            assert own.type == other.type
            assert own.to_string(window=ROWS) == other.to_string(window=ROWS), theirs  # NaN is NaN
    assert refused <= len(chosen) // 15


def _read(spark, text: str) -> Expr:
    """The expression that Spark's plan has, over the names of columns."""
    outputs = dict(relation_of(spark, f"SELECT row, {text} AS v FROM t", SCHEMA).outputs)
    return substitute(outputs["v"], lambda name: col(name.rpartition(".")[2], tables()["t"][name.rpartition(".")[2]]))


@pytest.mark.parametrize("text", ["str {} 'a!%' ESCAPE '!'", "row IN (SELECT row FROM t WHERE str {} 'x' ESCAPE '!')"])
@pytest.mark.parametrize("like", ["LIKE", "ILIKE", "NOT ILIKE"])
def test_like_with_another_escape_is_refused_and_not_misread(spark, like: str, text: str) -> None:
    with pytest.raises(PlanError, match="LIKE with ESCAPE cannot be read from Spark's plan"):
        _read(spark, text.format(like))
    assert _read(spark, f"str {like} 'a%'") == expression(f"str {like} 'a%'")


@pytest.mark.parametrize("ansi", [True, False])
def test_the_size_of_null_is_what_the_plan_says(spark, ansi: bool) -> None:
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    found = _read(spark, "SIZE(arr)")
    assert found == expression("SIZE(arr)" if ansi else "COALESCE(SIZE(arr), -1)")
