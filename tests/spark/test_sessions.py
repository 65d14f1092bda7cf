"""GROUP BY session_window(...): crown's own reader keeps what Spark computes from the same rows, after every batch."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest

import crown

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
