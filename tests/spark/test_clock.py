"""Streams of queries that read the clock: its time is a relation whose changes the user gives."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from plans.schema import Schema
from plans.time.windows import CLOCK
from spark_jobs import maintain
from spark_jobs.errors import SourceError
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, rows_of, run

pytestmark = pytest.mark.spark

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {"r": {"a": "int64", "at": "timestamp"}, "s": {"a": "int64", "b": "int64"}}
QUERY = "SELECT r.a, s.b FROM r JOIN s ON r.a = s.a WHERE r.at > NOW() - INTERVAL '1' HOUR"


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_rows_leave_when_the_clock_has_passed_them_though_a_batch_is_read_twice_and_state_is_lost(
    spark, tmp_path, cells
):
    declared = Schema.of({**SCHEMA, CLOCK.name: CLOCK})
    files, sink = ChangeFiles(tmp_path / "in", declared), Result()
    r, s, wanted = [], [], []

    def twice(frame, number):
        first = rows_of(frame)
        assert rows_of(frame) == first
        sink.deltas[number] = first

    for number in range(3):
        now = NOON + timedelta(minutes=40 * number)
        r += [(a, now - timedelta(minutes=10 * a)) for a in range(4)]
        s += [(a, 10 * a + number) for a in range(4)]
        batch = {"r": [(*row, 1) for row in r[-4:]], "s": [(*row, 1) for row in s[-4:]]}
        files.add({**batch, CLOCK.name: [(0, now, 1)]})
        run(spark, QUERY, files, tmp_path / "state", consume=twice, schema=declared, cells=cells)
        wanted = Counter((a, b) for a, at in r if at > now - timedelta(hours=1) for c, b in s if a == c)
        assert sink.state() == wanted, number
        if number == 1:
            shutil.rmtree(tmp_path / "state" / "scratch", ignore_errors=True)


def test_a_stream_without_a_clock_says_where_its_time_comes_from(spark, tmp_path):
    frame = spark.createDataFrame([], "a long, at timestamp")
    with pytest.raises(SourceError, match=r"the query reads the clock .*'rate'"):
        maintain(spark, "SELECT a FROM r WHERE at > NOW()", {"r": frame}, checkpoint=str(tmp_path / "state"))
