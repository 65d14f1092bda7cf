"""The state machine of test_maintenance with cyclic queries: their bags are maintained by modules of their own.

The twin has no such modules; where a plan has a bag, the kernel stands against nested loops and DuckDB alone.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.engine.streams.test_maintenance import Maintenance
from tests.strategies import Query, queries


class CyclicMaintenance(Maintenance):
    """Queries around a triangle, a square, a bow-tie and other cycles."""

    @initialize(query=queries(any_output=True, cyclic=True), datalog=st.booleans(), data=st.data())
    def start(self, query: Query, datalog: bool, data: st.DataObject) -> None:
        self.begin(query, datalog, data)


TestCyclicMaintenance = CyclicMaintenance.TestCase
TestCyclicMaintenance.settings = settings(max_examples=8, stateful_step_count=8)


@pytest.mark.slow
class TestCyclicCampaign(CyclicMaintenance.TestCase):
    """The same machine, as long as the profile says."""

    settings = settings(stateful_step_count=25)
