"""``View.update``: a batch whose deltas nobody wants, for plans of every kind, and what comes after it."""

from __future__ import annotations

import pytest

import plans
from tests.engine.comparison import SideBySide


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT a, b FROM R",
        "SELECT DISTINCT a > 1 AS large FROM R",
        "SELECT DISTINCT x.a AS a, y.b AS b FROM R AS x, R AS y WHERE x.b = y.a",
        "SELECT DISTINCT x.a AS a FROM R AS x, R AS y, R AS z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    ],
)
def test_update_without_deltas_serves_every_plan(sql: str) -> None:
    tables = {"R": {"a": "int64", "b": "int64"}}
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step_without_deltas({"R": [((a, (a + 1) % 3), 1) for a in range(3)]})
    sides.step({"R": [((1, 1), 1), ((0, 1), -1)]})
    sides.step_without_deltas({"R": [((1, 1), -1), ((0, 1), 1), ((2, 2), 1)]})
    sides.step_without_deltas({"R": [((2, 2), -1)]})
    sides.step_by_removal()
