"""Lengths of time on Spark: columns of streams, keys of cells, deltas; through Spark's own plan."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

import crown
from plans import program
from plans.lowering.lower import lower
from plans.schema import Schema
from spark_jobs import maintain, read_view
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.queries.catalyst import relation_of
from spark_jobs.tables.deltas.shape import delta_schema
from tests.marks import slow
from tests.spark.streams import ChangeFiles

pytestmark = pytest.mark.spark

SCHEMA = {"r": {"id": "int64", "d": "interval day to second", "at": "timestamp_ntz", "m": "interval year to month"}}
SQL = "SELECT d, COUNT(*) AS n, SUM(d) AS s, AVG(at - TIMESTAMP_NTZ '2026-01-01 00:00:00') AS a FROM r GROUP BY d"
ROWS = [
    {"id": i, "d": dt.timedelta(seconds=i % 3), "at": dt.datetime(2026, 1, 1, 0, 0, i), "m": None} for i in range(9)
]


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_lengths_of_time_go_through_cells(spark, cells: int) -> None:
    frame = spark.createDataFrame(
        [(row["id"], row["d"], row["at"]) for row in ROWS], "id BIGINT, d INTERVAL DAY TO SECOND, at TIMESTAMP_NTZ"
    )
    found = maintain(spark, SQL, {"r": frame}, cells=cells)
    assert found.schema["s"].dataType.simpleString() == "interval day to second"
    view = crown.view(SQL, schema=SCHEMA)
    view.update({"r": ROWS})
    assert Counter(tuple(row)[:-1] for row in found.collect()) == Counter(tuple(row.values()) for row in view)


MONTHS = "SELECT m, COUNT(*) AS n, SUM(m) AS s, MAX(id * INTERVAL '1' MONTH) AS x FROM r GROUP BY m"


@pytest.mark.parametrize("cells", [slow(1), slow(2)])  # the stream of months below has two
def test_months_go_through_cells_as_numbers(spark, cells: int) -> None:
    frame = spark.sql("SELECT id, IF(id = 7, NULL, make_ym_interval(-1, INT(id % 5))) AS m FROM RANGE(9)")
    found = maintain(spark, MONTHS, {"r": frame}, cells=cells)
    kinds = [found.schema[name].dataType.simpleString() for name in ("m", "n", "s", "x")]
    assert kinds == ["interval year to month", "bigint", "interval year to month", "interval year to month"]
    found.createOrReplaceTempView("found")
    frame.createOrReplaceTempView("r")
    texts = ", ".join(f"CAST({name} AS STRING) AS {name}" for name in ("m", "n", "s", "x"))
    made, wanted = (spark.sql(f"SELECT {texts} FROM {one}").collect() for one in ("found", f"({MONTHS})"))
    assert Counter(made) == Counter(wanted)


def test_months_are_keys_of_joins_of_totals_and_of_changes(spark) -> None:
    frame = spark.sql("SELECT id, make_ym_interval(0, INT(id % 3)) AS m FROM RANGE(9)")
    texts = spark.sql("SELECT id, CAST(CAST(make_ym_interval(1, 1) AS STRING) AS STRING) AS m FROM RANGE(2)")
    schema = {"r": {"id": "int64", "m": "months"}, "u": {"id": "int64", "m": "months"}}
    joined = maintain(spark, "SELECT r.m, u.id FROM r JOIN u ON r.m = u.m", {"r": frame, "u": frame}, cells=2)
    assert joined.selectExpr("SUM(_weight)").collect()[0][0] == 27
    total = maintain(spark, "SELECT SUM(m) AS s FROM r", {"r": frame}, cells=2)
    assert total.selectExpr("CAST(s AS STRING)").collect()[0][0] == "INTERVAL '0-9' YEAR TO MONTH"
    read = maintain(spark, "SELECT m FROM r", {"r": texts}, schema={"r": schema["r"]})
    assert read.selectExpr("CAST(m AS STRING)").collect()[0][0] == "INTERVAL '1-1' YEAR TO MONTH"
    changes = maintain(spark, "SELECT id, m FROM r", {"r": frame}, emit="debezium", key=["m"])
    assert {row[0] for row in changes.selectExpr("CAST(after.m AS STRING)").collect()} == {
        f"INTERVAL '0-{i}' YEAR TO MONTH" for i in range(3)
    }
    with pytest.raises(SourceError, match="a column of type bigint cannot be read as months: cast it first"):
        maintain(spark, "SELECT m FROM r", {"r": frame.selectExpr("id", "id AS m")}, schema={"r": schema["r"]})


def test_a_stream_of_months_goes_on_where_it_stopped(spark, tmp_path) -> None:
    files, sink, there = ChangeFiles(tmp_path / "in", {"r": {"id": "int64", "n": "int32"}}), Counter(), Counter()
    query = "SELECT m, SUM(m) AS s, COUNT(*) AS n FROM r GROUP BY m"

    def consume(deltas, batch: int) -> None:
        for *row, weight in deltas.selectExpr(*MONTHS_AS_TEXT, "n", "_weight").collect():
            sink[tuple(row)] += weight

    for batch in ([(1, 5, 1), (2, 17, 1), (3, None, 1)], [(1, 5, -1), (4, 17, 1)], [(2, 17, -1), (5, 5, 2)]):
        files.add({"r": batch})
        there.update({(key, n): weight for key, n, weight in batch})
        months = files.frames(spark)["r"].selectExpr("id", "make_ym_interval(0, n) AS m", "_weight")
        deltas = maintain(spark, query, {"r": months}, checkpoint=str(tmp_path / "state"), cells=2)
        writer = deltas.writeStream.foreachBatch(consume).option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start().awaitTermination()
        groups: Counter[int | None] = Counter()
        for (_, n), weight in there.items():
            groups[n] += weight
        wanted = {(_year_to_month(n), _year_to_month(n and n * count), count) for n, count in groups.items() if count}
        assert {row for row, weight in sink.items() if weight} == wanted
        shown = read_view(spark, str(tmp_path / "state")).selectExpr(*MONTHS_AS_TEXT, "n").collect()
        assert {tuple(row) for row in shown} == wanted
    with pytest.raises(SparkJobError, match=r"select 12 \* EXTRACT\(YEAR FROM m\) \+ EXTRACT\(MONTH FROM m\) instead"):
        delta_schema(program(query, {"r": {"m": "months"}}))


MONTHS_AS_TEXT = ("CAST(m AS STRING) AS m", "CAST(s AS STRING) AS s")


def _year_to_month(months: int | None) -> str | None:
    return None if months is None else f"INTERVAL '{months // 12}-{months % 12}' YEAR TO MONTH"


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
