"""Every scalar expression of the list, by our evaluation and by Spark, value by value and type by type.

Spark evaluates each expression inside `TryEval`, which gives NULL where the expression stops with an error: that is the
planner's policy. One job for all of them.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from plans.expressions.build import call, col, lit
from plans.expressions.sqltext import spark_sql
from spark_jobs.dispatch.placed import _same_in_spark
from spark_jobs.dispatch.shuffle import _translated
from spark_jobs.ingest.types import spark_type
from tests.plans.expressions.expression_cases import ROWS, cases, columns, expression

CASES = cases()
UTC = [case[:2] for case in CASES if case[2]]
PAIRS = [case[:2] for case in CASES if not case[2]]
RESERVED = -(2**63)
_ANSI_ONLY = {
    *("CAST(wide AS STRING)", "CAST(frac AS STRING)", "CAST(frac AS INT)"),
    *("'7' & num", "DECODE(str, 'a', num)"),  # of other types there
    "TRANSFORM(deep, x -> SIZE(x))",  # of NULL it is -1
}
_LATER = {"FLOOR(dbl)", "CEIL(dbl)", "SPLIT_PART(str, 'a', num2)"}
"""What Spark before 4.3 answers where it should stop with an error, or the other way round."""
_LIBRARY = {
    *(
        "exp",
        "ln",
        "log",
        "log2",
        "log10",
        "power",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
    ),
    *("asinh", "acosh", "atanh", "cot", "sec", "csc", "cbrt", "expm1", "log1p", "degrees", "radians", "atan2", "hypot"),
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    file = tmp_path_factory.mktemp("expressions") / "t.parquet"
    pq.write_table(pa.table(columns()), file)
    return spark.read.parquet(str(file)).coalesce(1)


def _answers(spark: SparkSession, frame: DataFrame, texts: list[str]) -> DataFrame:
    """A column per text, NULL instead of an error."""
    parser, package = spark._jsparkSession.sessionState().sqlParser(), spark._jvm.org.apache.spark.sql
    evaluated, as_column = package.catalyst.expressions.TryEval, package.classic.ExpressionUtils.column
    made = []
    for number, text in enumerate(texts):
        column = as_column(evaluated(parser.parseExpression(text)))
        made.append(column.alias(f"c{number}"))
    wanted = spark._sc._jvm.PythonUtils.toSeq(made)
    return DataFrame(frame._jdf.select(wanted), spark)


def _plain(array: pa.ChunkedArray) -> list[object]:
    """Values that compare with `==`: dates and times as numbers, since Python's leave out some years."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    values = array.to_pylist()
    if pa.types.is_map(array.type):  # whose entries are in the order of their keys here
        return [None if value is None else sorted(value) for value in values]
    return values


def _same(one: object, two: object, digits: bool = True) -> bool:
    """`digits`: the last one counts, which two libraries' powers and logarithms need not share."""
    if isinstance(one, float) and isinstance(two, float):
        if not digits and math.isclose(one, two, rel_tol=1e-14):
            return True
        return one == two or (math.isnan(one) and math.isnan(two))
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return one == two and type(one) is type(two)


def _compared(answers: DataFrame, pairs: list[tuple[str, str]], lenient: bool = False) -> list[str]:
    """What differs; `lenient`: a NULL of ours may be anything."""
    table, wrong = answers.toArrow(), []
    for (text, _), theirs, field in zip(pairs, table.columns, answers.schema.fields, strict=True):
        expr = expression(text)
        ours = expr.evaluate(columns())
        if spark_type(expr.type).simpleString() != field.dataType.simpleString():  # which parts are never NULL aside
            wrong.append(f"{text}: {expr.type} here, {field.dataType.simpleString()} in Spark")
        digits = not _LIBRARY & {node.op for node in expr.postorder()}
        for row, (one, two) in enumerate(zip(_plain(ours), _plain(theirs), strict=True)):
            two = None if two == RESERVED and expr.type == "int64" else two
            if not (_same(one, two, digits) or (lenient and one is None)):
                values = {name: str(columns()[name].slice(row, 1)) for name in expr.columns}
                wrong.append(f"{text}: {one!r} here, {two!r} in Spark, for {values}")
                break
    return wrong


def test_values_and_types_are_those_of_spark_in_ansi_mode_whatever_its_zone(spark, frame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    later = tuple(map(int, spark.version.split(".")[:2])) >= (4, 3)
    pairs = PAIRS if later else [pair for pair in PAIRS if pair[0] not in _LATER]
    answers = _answers(spark, frame, [theirs for _, theirs in pairs])
    assert not (wrong := _compared(answers, pairs)), "\n".join(wrong)
    assert len(pairs) > 400


def test_days_and_times_of_instants_are_those_of_spark_in_utc(spark, frame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    answers = _answers(spark, frame, [theirs for _, theirs in UTC])
    assert not (wrong := _compared(answers, UTC)), "\n".join(wrong)


def test_spark_reads_every_text_that_is_written_for_it(spark) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()
    for ours, _, _ in CASES:
        parser.parseExpression(spark_sql(expression(ours)))


def test_a_pattern_of_like_means_the_same_with_any_escape_and_stops_nothing(spark) -> None:
    """Here a pattern that ends with its escape character, or has it before another one, is NULL; in Spark, an error."""
    spark.conf.set("spark.sql.ansi.enabled", "true")
    patterns: list[str | None] = [None, "", "a", "_", "%", "a%"]
    for e in "\\!'^":
        patterns += [f"a{e}{after}" for after in ("", e, "%", "_", "b", f"{e}%", f"%{e}", f"{e}{e}b")]
    rows = [(text, pattern) for text in (*patterns, "ab", "ba") for pattern in patterns]
    given = {name: pa.array(values) for name, values in zip("vp", zip(*rows, strict=True), strict=True)}
    value, pattern = col("v", "string"), col("p", "string")
    likes = [call("like_of", value, pattern, lit(escape)) for escape in ("\\", "!", "'", "^", "")]
    table = spark.createDataFrame(rows, "v string, p string").selectExpr(*map(spark_sql, likes)).toArrow()
    for like, theirs in zip(likes, table.columns, strict=True):
        assert like.evaluate(given, len(rows)).to_pylist() == theirs.to_pylist(), str(like)


@pytest.mark.slow
def test_the_text_that_is_written_for_spark_means_the_same(spark, frame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    mine = [(ours, spark_sql(expression(ours))) for ours, theirs, _ in CASES if ours == theirs]
    answers = _answers(spark, frame, [text for _, text in mine])
    assert not (wrong := _compared(answers, mine)), "\n".join(wrong)


@pytest.mark.slow
def test_without_ansi_spark_differs_only_where_ansi_would_stop(spark, frame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    alike = [pair for pair in PAIRS if pair[0] not in _ANSI_ONLY]
    answers = _answers(spark, frame, [theirs for _, theirs in alike])
    assert not (wrong := _compared(answers, alike, lenient=True)), "\n".join(wrong)


def test_conditions_that_spark_tests_first_mean_the_same_and_never_stop_it(spark, frame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    texts = [ours for ours, _, _ in CASES] + [
        "CAST(big AS INT) = 5",
        "CAST(big AS INT) IS NULL",
        "CAST(big AS INT) IN (7, num2)",
    ]
    pushed = {text: expr for text in texts if (expr := expression(text)).type == "bool" and _same_in_spark(expr)}
    assert len(pushed) > 50
    columns_of = {name.lower(): frame[name] for name in columns()}
    translated = [_translated(expr, columns_of).alias(f"c{i}") for i, expr in enumerate(pushed.values())]
    table = frame.select(*translated).toArrow()
    for (text, expr), theirs in zip(pushed.items(), table.columns, strict=True):
        assert expr.evaluate(columns(), ROWS).to_pylist() == theirs.to_pylist(), text
