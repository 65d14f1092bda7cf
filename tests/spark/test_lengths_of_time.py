"""Lengths of time on Spark: columns of streams, keys of cells, deltas; through Spark's own plan."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

import crown
from plans import PlanError
from plans.lowering.lower import lower
from plans.schema import Schema
from spark_jobs import maintain
from spark_jobs.catalyst import relation_of

pytestmark = pytest.mark.spark

SCHEMA = {"r": {"id": "int64", "d": "interval day to second", "at": "timestamp_ntz", "m": "interval year to month"}}
SQL = "SELECT d, COUNT(*) AS n, SUM(d) AS s, AVG(at - TIMESTAMP_NTZ '2026-01-01 00:00:00') AS a FROM r GROUP BY d"
ROWS = [
    {"id": i, "d": dt.timedelta(seconds=i % 3), "at": dt.datetime(2026, 1, 1, 0, 0, i), "m": None} for i in range(9)
]


@pytest.mark.parametrize("cells", [1, 2])
def test_lengths_of_time_go_through_cells(spark, cells: int) -> None:
    frame = spark.createDataFrame(
        [(row["id"], row["d"], row["at"]) for row in ROWS], "id BIGINT, d INTERVAL DAY TO SECOND, at TIMESTAMP_NTZ"
    )
    found = maintain(spark, SQL, {"r": frame}, cells=cells)
    assert found.schema["s"].dataType.simpleString() == "interval day to second"
    view = crown.view(SQL, schema=SCHEMA)
    view.update({"r": ROWS})
    assert Counter(tuple(row)[:-1] for row in found.collect()) == Counter(tuple(row.values()) for row in view)


def test_months_are_refused_where_pyspark_does_not_carry_them(spark) -> None:
    frame = spark.sql("SELECT 1L AS id, INTERVAL '1-2' YEAR TO MONTH AS m")
    for query, changes in (
        ("SELECT m FROM r", frame),
        ("SELECT id * INTERVAL '1' MONTH AS m FROM r", frame.select("id")),
    ):
        with pytest.raises(PlanError, match="cannot go between Spark and Python") as refused:
            maintain(spark, query, {"r": changes})
        assert "12 * EXTRACT(YEAR FROM m)" in str(refused.value)
    made = maintain(
        spark, "SELECT id FROM r WHERE id * INTERVAL '1' MONTH < INTERVAL '2' YEAR", {"r": frame.select("id")}
    )
    assert [tuple(row) for row in made.collect()] == [(1, 1)]


READ = (
    "SELECT id, at - TIMESTAMP_NTZ '2026-01-01 00:00:00' AS a, d * 2 AS b, d / 3 AS c, -d AS e FROM r",
    "SELECT id, m + INTERVAL '1' YEAR AS a, m * 2 AS b, m / 3 AS c, at + d AS e, at - m AS f FROM r",
    "SELECT d, SUM(d) AS s, AVG(m) AS a, MIN(m) AS l FROM r GROUP BY d HAVING SUM(d) > INTERVAL '1' SECOND",
    "SELECT id, SUM(d) OVER (ORDER BY id) AS s, AVG(d) OVER (PARTITION BY m) AS a FROM r",
    "SELECT id, SUM(id) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1-1' YEAR TO MONTH PRECEDING AND CURRENT ROW) AS s, "
    "COUNT(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS n FROM r",
    "SELECT MEDIAN(d) AS a, PERCENTILE(m, 0.3) AS b, PERCENTILE_APPROX(d, 0.5) AS c FROM r",
    "SELECT id, EXTRACT(MINUTE FROM d) AS a, EXTRACT(YEAR FROM m) AS b, CAST(d AS STRING) AS c FROM r",
    "SELECT id, make_dt_interval(1, 2, 3, 4.5) AS a, make_ym_interval(1, 2) AS b FROM r WHERE d > INTERVAL 1 SECOND",
)


def test_spark_and_the_own_reader_read_the_same(spark) -> None:
    rows = [{**row, "m": f"{row['id'] % 2}-{row['id']}"} for row in ROWS]
    for query in READ:
        theirs = crown.view(lower(relation_of(spark, query, Schema.of(SCHEMA))))
        ours = crown.view(query, schema=SCHEMA)
        for view in (ours, theirs):
            view.update({"r": rows})
        found, wanted = (Counter(tuple(map(str, row.values())) for row in view) for view in (theirs, ours))
        assert found == wanted, query
