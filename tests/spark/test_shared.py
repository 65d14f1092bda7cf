"""The checks of the session that all tests share notice what a test leaves."""

from __future__ import annotations

import pytest

from tests.spark.shared import content, difference, restored

ZONE, MINE = "spark.sql.session.timeZone", "spark.sql.crossJoin.enabled"


def test_settings_views_and_functions_of_a_test_are_taken_back(spark) -> None:
    spark.range(1).createOrReplaceTempView("of_all")
    before, zone = content(spark), spark.conf.get(ZONE)
    with restored(spark):
        spark.conf.set(ZONE, "Asia/Kolkata")
        spark.conf.set(MINE, "false")
        spark.range(2).createOrReplaceTempView("of_a_test")
        spark.udf.register("of_a_test", lambda x: x)
        assert len(difference(before, content(spark))) == 5
    assert difference(before, content(spark)) == []
    assert spark.conf.get(ZONE) == zone


def test_what_is_not_taken_back_is_named(spark) -> None:
    before = content(spark)
    spark.sql("CREATE DATABASE of_a_test")
    spark.sql("USE of_a_test")
    spark.range(1).createGlobalTempView("global_of_a_test")
    stream = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        left = difference(before, content(spark))
    finally:
        stream.stop()
        spark.catalog.dropGlobalTempView("global_of_a_test")
        spark.sql("USE default")
        spark.sql("DROP DATABASE of_a_test")
    assert len(left) == 5, left  # the view, the database, those that were and are current, the stream
    assert difference(before, content(spark)) == []


@pytest.mark.parametrize("last", [False, True])
def test_what_a_test_sets_the_next_one_does_not_find(spark, last: bool) -> None:
    assert spark.conf.get(MINE, None) != "false"
    assert not spark.catalog.tableExists("only_one")
    spark.conf.set(MINE, "false")
    spark.range(1).createTempView("only_one")
