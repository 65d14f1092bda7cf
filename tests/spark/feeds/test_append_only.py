"""Frames that are no change streams: refused with what to do. Those that are append-only, or read once, are taken."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs import bulk_load, maintain
from spark_jobs.errors import SourceError
from tests.spark.streams import Result, rows_of

pytestmark = pytest.mark.spark

COUNTED = "SELECT a, n FROM r"
JOINED = "SELECT x.k FROM x JOIN y ON x.k = y.k"


@pytest.fixture
def rows(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"a": 1, "t": "2026-01-01T00:00:00"}\n' * 3)
    return spark.readStream.schema("a long, t timestamp").json(str(tmp_path / "in"))


def give_none(_key, _rows, _state):
    yield from ()


def refused(frames, query, tmp_path):
    with pytest.raises(SourceError) as error:
        maintain(frames[next(iter(frames))].sparkSession, query, frames, checkpoint=str(tmp_path / "state"))
    assert not (tmp_path / "state").exists(), "a start that is refused leaves nothing behind"
    return str(error.value)


def test_a_streaming_aggregation_is_refused_whatever_stands_above_it(rows, tmp_path):
    counts = rows.groupBy("a").agg(F.count("*").alias("n"))
    late = rows.withWatermark("t", "1 minute").groupBy(F.window("t", "1 minute"), "a").agg(F.count("*").alias("n"))
    for frame in (counts, counts.filter("n > 1").withColumn("n", F.col("n") + 1), late.select("a", "n")):
        said = refused({"r": frame}, COUNTED, tmp_path)
        assert "relation 'r': the frame is a streaming aggregation" in said
        assert "let the query have the GROUP BY or DISTINCT" in said
    rows.createOrReplaceTempView("rows_of_a_test")
    once = rows.sparkSession.sql("SELECT DISTINCT a FROM rows_of_a_test")
    assert "streaming aggregation" in refused({"r": once}, "SELECT a FROM r", tmp_path)


def test_a_function_with_state_is_taken_in_append_mode_only(rows, tmp_path):
    def made(mode):
        return rows.groupBy("a").applyInPandasWithState(give_none, "a long, n long", "n long", mode, "NoTimeout")

    assert 'in output mode "append"' in refused({"r": made("update")}, COUNTED, tmp_path)
    assert maintain(rows.sparkSession, COUNTED, {"r": made("append")}, checkpoint=str(tmp_path / "state")).isStreaming


def test_a_source_that_gives_rewritten_rows_again_is_refused(spark, rows, tmp_path):
    again = spark.readStream.schema("a long, n long").option("IgnoreChanges", "true").json(str(tmp_path / "in"))
    assert "readChangeFeed=true" in refused({"r": again}, COUNTED, tmp_path)


def test_what_only_appends_is_taken(spark, rows, tmp_path):
    """Joins with tables that are aggregated, rows told apart, and joins of streams give each row once."""
    sums = spark.createDataFrame([(1, 5), (1, 6)], "a long, v long").groupBy("a").agg(F.sum("v").alias("n"))
    sink, state = Result(), str(tmp_path / "state")
    deltas = maintain(spark, COUNTED, {"r": rows.dropDuplicates(["a"]).join(sums, "a")}, checkpoint=state)
    writer = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", state)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sink.state() == Counter({(1, 11): 1})


def drawn_of(rows):
    """Frames with an expression that gives other values each time."""
    nothing = F.udf(lambda _: None, T.StringType()).asNondeterministic()
    for drawn in (F.rand(), F.rand(5), F.uuid(), F.randn(), F.monotonically_increasing_id(), nothing("a")):
        yield rows.withColumn("k", drawn)
    yield rows.filter(F.rand() < 0.5).withColumn("k", F.col("a"))


def test_a_frame_that_gives_other_values_each_time_is_not_read_for_two_relations(spark, rows, tmp_path):
    for frame in drawn_of(rows):
        other = frame.filter("a > 0").select("k", F.lit(1).alias("one"))
        said = refused({"x": frame, "y": other}, JOINED, tmp_path)
        assert "relations 'x' and 'y' are made of one frame with" in said
        assert "not deterministic" in said
    rows.createOrReplaceTempView("rows_of_a_test")
    spark.sql("CREATE OR REPLACE TEMP VIEW drawn_in_a_test AS SELECT *, rand() AS k FROM rows_of_a_test")
    said = refused({name: spark.table("drawn_in_a_test") for name in "xy"}, JOINED, tmp_path)
    assert "the view `drawn_in_a_test`" in said


def test_batch_tables_are_looked_at_in_the_same_way_unless_spark_keeps_them(spark, tmp_path):
    frame = spark.range(20).select(F.uuid().alias("k"))
    with pytest.raises(SourceError, match="one frame with uuid"):
        maintain(spark, JOINED, {"x": frame, "y": frame})
    with pytest.raises(SourceError, match="one frame with uuid"):
        bulk_load(spark, JOINED, {"x": frame, "y": frame}, checkpoint=str(tmp_path / "state"))
    kept = frame.persist()
    assert sum(rows_of(maintain(spark, JOINED, {"x": kept, "y": kept})).values()) == 20
    kept.unpersist()


def test_relations_that_draw_for_themselves_are_taken(spark, rows, tmp_path):
    one, other = (rows.withColumn("k", F.rand()) for _ in range(2))
    assert maintain(spark, JOINED, {"x": one, "y": other}, checkpoint=str(tmp_path / "a")).isStreaming
    itself = "SELECT x.k FROM r x JOIN r y ON x.k = y.k"
    assert maintain(spark, itself, {"r": one}, checkpoint=str(tmp_path / "b")).isStreaming
