"""The two traps of deletion, one more of insertion, each on the smallest database that springs it.

1. Two tuples of one group leave in one update. If both are marked first and enumerated later, the first is taken for a
   witness although the group empties in the end, and its results come out twice.
2. A witness is not recognized by the live view before the update: on deletion, both a tuple and the one above it, to
   which its key's departure propagates, have live parents there.
3. Two tuples of one group enter in one update, the first of which opens the group: the second must not be counted again
   by the enumeration that the first one caused.
"""

from __future__ import annotations

from collections import Counter

import pytest

import plans
from tests.engine.comparison import SideBySide

TABLES = {
    "T": {"a": "int64"},
    "R": {"a": "int64", "c": "int64", "d": "int64"},
    "S": {"c": "int64"},
}
# T(a) above R(a,c,d) above S(c): the chain in which R's group of a = 1 holds two tuples that hang on S(7)
CHAIN = "Q(a, c, d) :- T(a), R(a, c, d), S(c)."


@pytest.fixture(params=["planned", "T on top", "R on top", "S on top"])
def sides(request: pytest.FixtureRequest) -> SideBySide:
    """The query over the planner's tree and over the three trees with a fixed root."""
    plan = plans.plan(CHAIN, TABLES)
    if request.param != "planned":
        plan = _rooted(plan, request.param[0])
    return SideBySide(plan, TABLES)


def _rooted(plan: plans.Plan, root: str) -> plans.Plan:
    from dataclasses import replace

    inputs = {node.relation: node for node in plan.nodes if node.kind == "input"}
    chains = {"T": [("T", ""), ("R", "T"), ("S", "R")], "R": [("R", ""), ("T", "R"), ("S", "R")]}
    chains["S"] = [("S", ""), ("R", "S"), ("T", "R")]
    order = [name for name, _ in chains[root]]
    nodes = []
    for name, above in chains[root]:
        key = tuple(a for a in inputs[name].attributes if above and a in inputs[above].attributes)
        parent = order.index(above) if above else -1
        nodes.append(replace(inputs[name], parent=parent, key=key, free=True))
    return replace(plan, nodes=tuple(nodes))


def test_two_tuples_of_one_group_leave_in_one_update(sides: SideBySide) -> None:
    sides.step({"T": [((1,), 1)], "R": [((1, 7, 1), 1), ((1, 7, 2), 1)], "S": [((7,), 1)]})
    assert sides.step({"S": [((7,), -1)]}) == Counter({(1, 7, 1): -1, (1, 7, 2): -1})
    sides.step_by_removal()


def test_two_tuples_of_one_group_enter_in_one_update(sides: SideBySide) -> None:
    sides.step({"T": [((1,), 1)], "R": [((1, 7, 1), 1), ((1, 7, 2), 1)]})
    assert sides.step({"S": [((7,), 1)]}) == Counter({(1, 7, 1): 1, (1, 7, 2): 1})
    sides.step_by_removal()


def test_of_three_tuples_two_leave_and_the_key_stays(sides: SideBySide) -> None:
    sides.step({"T": [((1,), 1)], "R": [((1, 7, 1), 1), ((1, 8, 2), 1), ((1, 7, 3), 1)], "S": [((7,), 1), ((8,), 1)]})
    assert sides.step({"S": [((7,), -1)]}) == Counter({(1, 7, 1): -1, (1, 7, 3): -1})
    assert sides.step({"S": [((7,), 1)]}) == Counter({(1, 7, 1): 1, (1, 7, 3): 1})
    sides.step_by_removal()


@pytest.mark.parametrize("many", [1, 2, 5])
def test_a_key_that_leaves_is_not_a_witness_below_and_above(many: int) -> None:
    tables = {"R1": {"a": "int64", "b": "int64"}, "R2": {"b": "int64", "c": "int64"}}
    sides = SideBySide(plans.plan("Q(a, b, c) :- R1(a, b), R2(b, c).", tables), tables)
    sides.step({"R1": [((1, 1), 1)], "R2": [((1, c), 1) for c in range(many)]})
    assert sides.step({"R1": [((1, 1), -1)]}) == Counter({(1, 1, c): -1 for c in range(many)})
    sides.step_by_removal()


def test_deletion_of_a_row_and_of_its_partners_in_one_batch(sides: SideBySide) -> None:
    rows = {"T": [((1,), 1)], "R": [((1, 7, 1), 1), ((1, 7, 2), 1), ((1, 8, 2), 1)], "S": [((7,), 1), ((8,), 1)]}
    sides.step(rows)
    gone = {"R": [((1, 7, 1), -1)], "S": [((7,), -1)], "T": [((1,), -1)]}
    assert sum(sides.step(gone).values()) == -3
    sides.step_by_removal()
