"""Payloads of every tree in normal form: counts and sums are those of nested loops, after every batch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from plans.payload import COUNTED, EXISTS, INDICATOR, Payload
from plans.plan import Plan
from tests.engine.payload_driver import Driver
from tests.oracles import payloads
from tests.oracles.database import Batch, Database
from tests.strategies import batches, loads, normal_plans, removals


@st.composite
def payloads_of(draw: st.DrawFn, plan: Plan) -> Payload:
    """A random payload of the plan: kinds of nodes, and up to three sums beside the count."""
    kinds = [INDICATOR] * len(plan.nodes)
    for i in reversed(range(len(plan.nodes))):
        below = [kinds[c] for c in plan.children(i)]
        virtual = plan.nodes[i].kind == "virtual"
        if not plan.nodes[i].free and all(kind == EXISTS for kind in below):
            filters = virtual or draw(st.integers(0, 3)) == 0
            kinds[i] = EXISTS if filters else COUNTED
        if kinds[i] != EXISTS and not virtual:
            kinds[i] = draw(st.sampled_from([COUNTED, COUNTED, COUNTED, INDICATOR]))
    factors = [
        (i, a) for i, node in enumerate(plan.nodes) if not node.free and kinds[i] != EXISTS for a in node.attributes
    ]
    terms = []
    if factors:
        one_per_node = st.lists(st.sampled_from(factors), min_size=1, max_size=3, unique_by=lambda factor: factor[0])
        terms = draw(st.lists(one_per_node.map(frozenset), max_size=3, unique=True))
    return Payload(tuple(kinds), (frozenset(), *terms))


class Sides:
    """The kernels and the definition, side by side."""

    def __init__(self, plan: Plan, payload: Payload, database: Database, rows: int) -> None:
        self.database = database
        self.plan, self.payload = plan, payload
        self.driver = Driver(plan, payload, rows)
        self.before: payloads.Valued = {}

    def step(self, batch: Batch) -> None:
        """Apply a batch to both and compare."""
        batch = self.database.without_absent_deletes(batch)
        self.database.apply(batch)
        after = payloads.results(self.plan, self.payload, self.database)
        delta = self.driver.apply(batch)
        assert delta == difference(after, self.before)
        assert self.driver.results() == after
        self.driver.check()
        self.before = after

    def undo(self, batch: Batch) -> None:
        """Take a batch back and apply it again: nothing has changed."""
        batch = self.database.without_absent_deletes(batch)
        there = self.driver.apply(batch)
        back = self.driver.apply({name: [(row, -weight) for row, weight in rows] for name, rows in batch.items()})
        assert back == {row: tuple(-v for v in values) for row, values in there.items()}
        self.driver.check()
        assert self.driver.results() == self.before


def difference(after: payloads.Valued, before: payloads.Valued) -> payloads.Valued:
    found = {}
    for row in {**after, **before}:
        zeros = (0,) * len(after.get(row) or before[row])
        change = tuple(a - b for a, b in zip(after.get(row, zeros), before.get(row, zeros), strict=True))
        if any(change):
            found[row] = change
    return found


def maintain(data: st.DataObject, max_nodes: int) -> None:
    query, plan = data.draw(normal_plans(max_nodes))
    payload = data.draw(payloads_of(plan))
    sides = Sides(plan, payload, Database(query.tables), data.draw(st.sampled_from([1, 3, 64])))
    sides.step(data.draw(loads(query)))
    for _ in range(data.draw(st.integers(1, 3))):
        sides.undo(data.draw(batches(query, sides.database.rows)))
        sides.step(data.draw(removals(sides.database.rows)))
        sides.step(data.draw(batches(query, sides.database.rows)))
    everything = sides.database.everything(-1)
    sides.step(everything)
    assert sides.driver.is_empty()


@settings(max_examples=100)
@given(st.data())
def test_counts_and_sums_are_maintained_on_any_tree_in_normal_form(data: st.DataObject) -> None:
    maintain(data, max_nodes=6)
