"""The engine on every tree in normal form, not only on those that the planner would choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.comparison import SideBySide
from tests.marks import draws
from tests.strategies import batches, loads, normal_plans, removals


def _maintain(data: st.DataObject, max_nodes: int) -> None:
    query, plan = data.draw(normal_plans(max_nodes))
    sides = SideBySide(plan, query.tables, query.sql)
    sides.step(data.draw(loads(query)))
    for _ in range(data.draw(st.integers(1, 3))):
        sides.step(data.draw(removals(sides.database.rows)))
        sides.step(data.draw(batches(query, sides.database.rows)))
    sides.step_by_removal()


@draws(15, 25)
@given(st.data())
def test_any_tree_in_normal_form_is_maintained(data: st.DataObject) -> None:
    _maintain(data, max_nodes=6)


@pytest.mark.slow
@given(st.data())
def test_any_larger_tree_in_normal_form_is_maintained(data: st.DataObject) -> None:
    _maintain(data, max_nodes=9)
