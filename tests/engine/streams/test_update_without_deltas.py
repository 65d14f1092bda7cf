"""``View.update``: a batch whose deltas nobody wants, for plans of every kind, and what comes after it."""

from __future__ import annotations

import pytest

import crown
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


def test_a_group_that_loses_its_rows_meanwhile_may_have_had_live_parents() -> None:
    """Its bundle stays for another edge; when deltas are asked for, nothing is left of them."""
    tables = {"r": {"k": "int64", "v": "int64", "b": "int64"}}
    where = "a.k = b.v AND b.k = c.v AND b.b = 1 AND c.b = 2 AND a.b = 0"
    view = crown.view(f"SELECT DISTINCT a.k, b.k AS l, a.v FROM r a, r b, r c WHERE {where}", tables)
    rows = [(0, 0, 1), (0, 1, 0), (0, 0, 2)]
    assert view.apply({"r": rows}).num_rows == 1
    view.update({"r": [(*row, -1) for row in rows[:2]]})
    view.check_invariants()
    assert not view.apply({"r": rows[:1]}).num_rows
    assert view.apply({"r": rows[1:2]}).num_rows == 1
    view.check_invariants()
