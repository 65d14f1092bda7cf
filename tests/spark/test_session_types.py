"""What a session is set to, and what its columns are called and made of: same result, or one sentence."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql import functions as F

from plans.errors import PlanError
from spark_jobs import maintain
from spark_jobs.errors import SourceError
from tests.marks import slow
from tests.spark.streams import rows_of

VALUES = "SELECT v, COUNT(*) AS n FROM r GROUP BY v"


def of_texts(spark, texts, type_):
    frame = spark.createDataFrame([(text,) for text in texts], "v string")
    return maintain(spark, VALUES, {"r": frame}, schema={"r": {"v": type_}})


@pytest.mark.parametrize("zone", ["America/New_York", slow("Asia/Kolkata")])
def test_a_time_in_text_is_the_same_instant_whatever_the_zone_of_the_session(spark, zone):
    spark.conf.set("spark.sql.session.timeZone", zone)
    texts = [
        "2024-03-10 02:30:00",
        "2024-03-10T02:30:00.5Z",
        " 2024-03-10 04:30:00+02:00",
        "2024-03-10",
        "+12345-01-01 00:00:00",
    ]
    found = of_texts(spark, texts, "timestamp").select(F.unix_millis("v"), "n", "_weight")
    assert rows_of(found) == {
        (1710037800000, 2): 1,
        (1710037800500, 1): 1,
        (1710028800000, 1): 1,
        (327403382400000, 1): 1,
    }


def test_an_instant_that_is_declared_a_text_is_written_in_utc_whatever_the_zone_of_the_session(spark):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = spark.sql("SELECT timestamp_seconds(v) AS v FROM VALUES (1730611800), (1730615400), (-1), (NULL) t(v)")
    found = maintain(spark, VALUES, {"r": frame}, schema={"r": {"v": "string"}})
    texts = ["2024-11-03 05:30:00", "2024-11-03 06:30:00", "1969-12-31 23:59:59", None]  # the first two: one hour there
    assert rows_of(found) == {(text, 1): 1 for text in texts}


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("timestamp", "12:00:00"),
        ("timestamp", "2024-05-01 12:00:00.1234567Z"),
        ("timestamp_ntz", "2024-05-01 12:00:00+02:00"),
        slow("timestamp_ntz", "2024-05-01 12:00:00.1234567"),
    ],
)
def test_a_time_that_would_lose_a_part_or_take_its_day_from_the_clock_is_a_bad_row(spark, type_, text):
    good = of_texts(spark, ["2024-05-01 12:00:00.123456000", None], type_).select(
        F.date_format("v", "S"), "n", "_weight"
    )
    assert rows_of(good) == {("1", 1): 1, (None, 1): 1}
    with pytest.raises(Exception, match=f"column 'v': '.*' is not a value of type {type_}"):
        of_texts(spark, [text], type_).collect()


def test_a_text_whose_collation_would_be_ignored_is_refused_where_the_query_reads_it(spark):
    frame = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS v, 1L AS k")
    for schema in (None, {"r": {"v": "string"}}):
        with pytest.raises(SourceError, match="UTF8_LCASE cannot be read as string: texts are compared byte by byte"):
            maintain(spark, VALUES, {"r": frame}, schema=schema)
    assert rows_of(maintain(spark, "SELECT k, COUNT(*) AS n FROM r GROUP BY k", {"r": frame})) == {(1, 1): 1}
    assert rows_of(maintain(spark, VALUES, {"r": frame.withColumn("v", F.lower(F.col("v").cast("string")))})) == {
        ("a", 1): 1
    }


@pytest.mark.parametrize("options", [{}, slow({"cells": 2}), {"cells": 2, "emit": "cdc", "key": ["x`y"]}])
def test_a_column_whose_name_has_a_backtick_or_a_dot_is_read_as_any_other(spark, options):
    frame = spark.createDataFrame([(1, 2), (2, 3)], ["x`y", "a.b"])
    sql = "SELECT DISTINCT x.`x``y`, y.`a.b` FROM r x JOIN r y ON x.`a.b` = y.`x``y`"
    (row,) = maintain(spark, sql, {"r": frame}, **options).collect()
    assert tuple(row)[:2] == (1, 3)


@pytest.mark.parametrize("named", [slow("a.b"), "x`y", "A"])
def test_deltas_are_told_in_the_words_of_others_whatever_their_columns_are_called(spark, named):
    frame = spark.createDataFrame([(1, 2), (2, 2)], ["a", "b"])
    sql = f"SELECT a, SUM(b) AS `{named.replace('`', '``')}` FROM r GROUP BY a"
    for emit, tail in (("cdc", ("insert", 0)), ("rowkind", ("+I", 0))):
        rows = maintain(spark, sql, {"r": frame}, emit=emit).collect()
        assert sorted(map(tuple, rows)) == [(1, 2, *tail), (2, 2, *tail)]


def test_envelopes_whose_rows_differ_in_the_case_of_a_name_are_read_in_a_session_that_tells_them_apart(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    frame = spark.sql("SELECT 'u' AS op, named_struct('V', 1L) AS before, named_struct('v', 2L) AS after")
    found = maintain(spark, "SELECT DISTINCT v FROM r", {"r": frame.unionAll(frame.withColumn("op", F.lit("c")))})
    assert rows_of(found) == {(2,): 1}


def test_a_type_that_is_not_supported_is_told_with_its_relation_and_column(spark):
    frame = spark.sql("SELECT DATE '2024-05-01' AS v, MAKE_INTERVAL(1) AS took")
    with pytest.raises(PlanError, match="relation 'r', column 'took': Spark type interval is not supported"):
        maintain(spark, VALUES, {"r": frame})
    found = maintain(spark, VALUES, {"r": frame}, schema={"r": {"v": "date"}})
    assert rows_of(found) == {(datetime.date(2024, 5, 1), 1): 1}
