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
    "needs an order",  # of structs: the plan has the default order of ARRAY_SORT as comparisons
    "TO_NUMBER is not supported",  # what other dialects mean by theirs
)  # fmt: skip


@pytest.mark.parametrize("share", [pytest.param(40, id="a sample"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_an_expression_has_one_value_whoever_reads_it(spark, share: int) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows, chosen, refused = columns(), cases()[::share], 0
    for (text, theirs, _), found in zip(chosen, _read_each(spark, [theirs for _, theirs, _ in chosen]), strict=True):
        if isinstance(found, PlanError):
            assert any(reason in str(found) for reason in REFUSED), f"{theirs}: {found}"
            refused += 1
            continue
        wanted = expression(text)
        if found != wanted:
            own, other = (expr.evaluate(rows, ROWS) for expr in (wanted, found))
            assert own.type == other.type
            assert own.to_string(window=ROWS) == other.to_string(window=ROWS), theirs  # NaN is NaN
    assert refused <= len(chosen) // 15


def _read_each(spark, texts: list[str]) -> list[Expr | PlanError]:
    """What `_read` returns or raises for each text: a query of a hundred texts takes hardly longer."""
    if len(texts) <= 100:
        try:
            return [*_read(spark, *texts)]
        except PlanError as error:
            if len(texts) == 1:
                return [error]
    half = len(texts) // 2
    return [*_read_each(spark, texts[:half]), *_read_each(spark, texts[half:])]


def _read(spark, *texts: str) -> list[Expr]:
    """The expressions that Spark's plan has, over the names of columns."""
    values = ", ".join(f"{text} AS v{number}" for number, text in enumerate(texts))
    outputs = dict(relation_of(spark, f"SELECT row, {values} FROM t", SCHEMA).outputs)
    found = (outputs[f"v{number}"] for number in range(len(texts)))
    known = {name: col(name, type_) for name, type_ in tables()["t"].items()}
    return [substitute(one, lambda name: known[name.rpartition(".")[2]]) for one in found]


@pytest.mark.parametrize("text", ["str {} 'a!%' ESCAPE '!'", "row IN (SELECT row FROM t WHERE str {} 'x' ESCAPE '!')"])
@pytest.mark.parametrize("like", ["LIKE", "ILIKE", "NOT ILIKE"])
def test_like_with_another_escape_is_refused_and_not_misread(spark, like: str, text: str) -> None:
    with pytest.raises(PlanError, match="LIKE with ESCAPE cannot be read from Spark's plan"):
        _read(spark, text.format(like))
    assert _read(spark, f"str {like} 'a%'") == [expression(f"str {like} 'a%'")]


@pytest.mark.parametrize("ansi", [True, False])
def test_the_size_of_null_is_what_the_plan_says(spark, ansi: bool) -> None:
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    (found,) = _read(spark, "SIZE(arr)")
    assert found == expression("SIZE(arr)" if ansi else "COALESCE(SIZE(arr), -1)")
