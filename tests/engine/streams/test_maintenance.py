"""A state machine: a random query, then random batches; every implementation and every oracle agree after each.

Oracles: nested loops over the plan, DuckDB over the text (tests/oracles). Implementations: tests/engine/views.py.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import plans
from tests.engine.comparison import SideBySide, planned
from tests.oracles.database import canonical
from tests.strategies import VALUES, Query, batches, loads, queries, removals, rows


class Maintenance(RuleBasedStateMachine):
    """One query per run. The rules are the ways in which a batch can differ."""

    sides: SideBySide
    query: Query

    @initialize(query=st.one_of(queries(), queries(any_output=True)), datalog=st.booleans(), data=st.data())
    def start(self, query: Query, datalog: bool, data: st.DataObject) -> None:
        self.begin(query, datalog, data)

    def begin(self, query: Query, datalog: bool, data: st.DataObject) -> None:
        self.query = query
        text = query.datalog if datalog and not query.only_sql else query.sql
        plan = planned(text, query)
        assume(plan is not None)
        self.sides = SideBySide(plan, query.tables, query.sql)
        self.sides.step(data.draw(loads(query)))

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        self.sides.step(data.draw(loads(self.query, 3)))

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        self.sides.step(data.draw(batches(self.query, self.sides.database.rows)))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.sides.step(data.draw(removals(self.sides.database.rows)))

    @rule(data=st.data())
    def one_by_one(self, data: st.DataObject) -> None:
        batch = data.draw(batches(self.query, self.sides.database.rows, 3))
        for relation, changes in batch.items():
            for change in changes:
                self.sides.step({relation: [change]})

    @rule(data=st.data())
    def change_without_deltas(self, data: st.DataObject) -> None:
        self.sides.step_without_deltas(data.draw(batches(self.query, self.sides.database.rows)))

    @rule()
    def save_and_load(self) -> None:
        self.sides.save_and_load()

    @rule()
    def remove_all(self) -> None:
        self.sides.step_by_removal()

    @rule(data=st.data())
    def probe(self, data: st.DataObject) -> None:
        kinds = {output.name: output.type for output in self.sides.plan.output}
        assume(set(kinds.values()) <= set(VALUES))
        row = canonical([data.draw(rows(kinds))])[0]
        for view in self.sides.views:
            assert view.contains(row) == (row in self.sides.current), type(view).__name__


def test_without_deltas_the_deepest_relation_is_inserted_first_and_its_parent_counted_up_by_nobody() -> None:
    tables = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64"}}
    sql = "SELECT DISTINCT r.a FROM r, s WHERE r.b = s.b"
    plan = plans.plan(sql, tables)
    sides = SideBySide(plan, {table.name: tables[table.name] for table in plan.tables}, sql)
    sides.step_without_deltas({"r": [((1, 2), 1), ((3, 2), 1)], "s": [((2,), 1)]})
    assert [view.work() for view in sides.views[:2]] == [{"S": 5, "P": 0}] * 2
    sides.step_by_removal()
    removed = sides.views[0].work()["P"]
    sides.step({"r": [((1, 2), 1), ((3, 2), 1)], "s": [((2,), 1)]})
    assert sides.views[0].work()["P"] > removed, "with deltas, in the order of the plan"


TestMaintenance = Maintenance.TestCase
TestMaintenance.settings = settings(max_examples=18, stateful_step_count=12)


@pytest.mark.slow
class TestCampaign(Maintenance.TestCase):
    """The same machine, as long as the profile says."""

    settings = settings(stateful_step_count=25)
