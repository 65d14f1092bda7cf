"""`window()` of Spark: its own plan and the text give the rows that Spark has, after every batch."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

import crown
import plans
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of

COLUMNS = "id bigint, at timestamp, k bigint"
SCHEMA = Schema.of({"t": {"id": "int64", "at": "timestamp", "k": "int64"}})
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
QUERIES = (
    "SELECT window.start, window.end, k, COUNT(*) AS n FROM t GROUP BY window(at, '10 minutes'), k",
    "SELECT window, COUNT(k) AS n FROM t GROUP BY window(at, '10 minutes', '4 minutes', '1 minute')",
    "SELECT window(at, '1 hour').start AS s, id FROM t WHERE k > 0",
)


@pytest.fixture
def utc(spark):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def test_windows_are_those_of_spark_after_every_batch(utc) -> None:
    rng, rows = random.Random(5), list[tuple[int, dt.datetime | None, int | None]]()
    utc.createDataFrame([], COLUMNS).createOrReplaceTempView("t")
    read = [plans.program(relation_of(utc, query, SCHEMA), SCHEMA) for query in QUERIES]
    views = [[crown.view(query, SCHEMA) for query in QUERIES], [crown.view(program) for program in read]]
    for batch in range(2):
        gone = [rows.pop(rng.randrange(len(rows))) for _ in range(len(rows) // 2)]
        seconds = [rng.choice([None, rng.randrange(-5000, 5000)]) for _ in range(10)]
        times = [None if one is None else EPOCH + dt.timedelta(seconds=one) for one in seconds]
        new = [(batch * 10 + number, at, rng.choice([None, 0, 1])) for number, at in enumerate(times)]
        rows += new
        weighted = [*((*row, 1) for row in new), *((*row, -1) for row in gone)]
        changes = [dict(zip(("id", "at", "k", "_weight"), row, strict=True)) for row in weighted]
        utc.createDataFrame(rows, COLUMNS).createOrReplaceTempView("t")
        for place, query in enumerate(QUERIES):
            wanted = Counter(map(repr, (tuple(_plain(v) for v in row) for row in utc.sql(query).collect())))
            for readers in views:
                readers[place].apply({"t": changes})
                assert Counter(map(repr, (tuple(map(_plain, row.values())) for row in readers[place]))) == wanted, query


def _plain(value: object) -> object:
    """A moment as seconds; a struct as its fields."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).timestamp()
    fields = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else None
    return value if fields is None else tuple(map(_plain, fields))
