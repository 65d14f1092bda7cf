"""Declared keys change the plan (no support counts, no DISTINCT needed), never the answer."""

from __future__ import annotations

import pytest

import plans
from tests.engine.comparison import SideBySide

KEYED = {
    "R": {"columns": {"a": "int64", "b": "int64"}, "key": ["a"]},
    "S": {"columns": {"b": "int64", "c": "int64"}, "key": ["c"]},
}
ENDS = "SELECT DISTINCT a, c FROM R, S WHERE R.b = S.b"


@pytest.mark.parametrize("keyed", [True, False])
def test_a_join_of_which_only_the_ends_are_output(keyed: bool) -> None:
    tables = KEYED if keyed else {name: table["columns"] for name, table in KEYED.items()}
    plan = plans.plan(ENDS, tables)
    assert "b" in plan.free
    assert plan.added == (() if keyed else ("b",))
    assert plan.support != keyed
    sides = SideBySide(plan, tables, ENDS)
    sides.step({"R": [((a, a % 2), 1) for a in range(5)], "S": [((b, 10 + b), 1) for b in range(3)]})
    for view in sides.views:
        assert view.contains((1, 11))
        assert not view.contains((1, 10))
        assert not view.contains((1, None))
    sides.step({"R": [((1, 1), -1), ((1, 0), 1)]})
    sides.step_by_removal()


@pytest.mark.parametrize(
    "sql", ["SELECT a, S.b AS b, c FROM R, S WHERE R.b = S.b", "SELECT a, c FROM R, S WHERE R.b = S.b"]
)
def test_keys_stand_in_for_distinct(sql: str) -> None:
    sides = SideBySide(plans.plan(sql, KEYED), KEYED, sql)
    sides.step({"R": [((1, 1), 1), ((2, 1), 1), ((3, None), 1)], "S": [((1, 1), 1), ((1, 2), 1), ((None, 3), 1)]})
    assert len(sides.current) == 4
    sides.step({"S": [((1, 1), -1), ((2, 1), 1)]})
    sides.step_by_removal()


def test_without_keys_and_distinct_the_planner_refuses() -> None:
    with pytest.raises(plans.PlanError, match="DISTINCT"):
        plans.plan(ENDS.replace("DISTINCT ", ""), {name: table["columns"] for name, table in KEYED.items()})
