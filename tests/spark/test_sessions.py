"""GROUP BY session_window(...): crown's own reader keeps what Spark computes from the same rows, after every batch."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import crown
import plans
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of
from tests.marks import slow

pytestmark = pytest.mark.spark

QUERY = (
    "SELECT k, session_window.start AS s, session_window.end AS e, COUNT(*) AS n, SUM(x) AS t FROM clicks "
    "GROUP BY k, session_window(ts, '10 seconds')"
)
NOON = datetime(2024, 2, 29, 12)


def test_sessions_are_those_of_spark(spark) -> None:
    rng = random.Random(5)
    view = crown.view(QUERY, {"clicks": {"k": "int64", "ts": "timestamp_ntz", "x": "int64"}})
    rows: list[tuple[int | None, datetime | None, int | None]] = []
    for _ in range(4):
        gone = rng.sample(rows, len(rows) // 3)
        for row in gone:
            rows.remove(row)
        at = [None, *(NOON + timedelta(seconds=rng.choice([1, 5, 10]) * i) for i in range(14))]
        fresh = [(rng.choice([1, 2, None]), rng.choice(at), rng.choice([1, -4, None])) for _ in range(16)]
        rows += fresh
        names = ("k", "ts", "x", "_weight")
        changes = [*((*row, -1) for row in gone), *((*row, 1) for row in fresh)]
        view.update({"clicks": [dict(zip(names, change, strict=True)) for change in changes]})
        spark.createDataFrame(rows, "k long, ts timestamp_ntz, x long").createOrReplaceTempView("clicks")
        wanted = Counter(tuple(row) for row in spark.sql(QUERY).collect())
        assert Counter(tuple(row.values()) for row in view.to_table().to_pylist()) == wanted
        view.check_invariants()


BY_TIME = [
    QUERY,
    "SELECT session_window.start AS s, MAX(x) AS m FROM clicks GROUP BY session_window(ts, '10 seconds')",
    "SELECT k + 1 AS j, session_window, COUNT(x) AS n FROM clicks GROUP BY k + 1, session_window(ts, '10 seconds')",
    "SELECT w.end AS e, COUNT(*) AS n FROM (SELECT *, session_window(ts, '5 seconds') AS w FROM clicks) GROUP BY w",
]


@pytest.mark.parametrize("zone", ["timestamp", slow("timestamp_ntz")])
def test_sessions_that_spark_reads_are_those_that_it_has(spark, zone: str) -> None:
    rng = random.Random(6)
    schema = {"clicks": {"k": "int64", "ts": zone, "x": "int64"}}
    views = [crown.view(plans.program(relation_of(spark, query, Schema.of(schema)), schema)) for query in BY_TIME]
    rows: list[tuple[int | None, datetime | None, int | None]] = []
    for _ in range(3):
        gone = rng.sample(rows, len(rows) // 3)
        for row in gone:
            rows.remove(row)
        noon = NOON.replace(tzinfo=UTC if zone == "timestamp" else None)
        at = [None, *(noon + timedelta(seconds=rng.choice([1, 5, 10]) * i) for i in range(14))]
        fresh = [(rng.choice([1, 2, None]), rng.choice(at), rng.choice([1, -4, None])) for _ in range(16)]
        rows += fresh
        names = ("k", "ts", "x", "_weight")
        changes = [*((*row, -1) for row in gone), *((*row, 1) for row in fresh)]
        spark.createDataFrame(rows, f"k long, ts {zone}, x long").createOrReplaceTempView("clicks")
        for query, view in zip(BY_TIME, views, strict=True):
            view.update({"clicks": [dict(zip(names, change, strict=True)) for change in changes]})
            assert _bag(view.to_table()) == _bag(spark.sql(query).toArrow()), query
            view.check_invariants()


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(_plain(row)) for row in table.to_pylist())


def _plain(value: object) -> object:
    """A row whose times have no zone, as Spark gives them in Python."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
