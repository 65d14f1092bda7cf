"""All implementations and all oracles side by side, compared after every batch.

    kernel   ``crown.view``, in one piece and in three cells
    twin     ``tests.models``: the same algorithm, readable
    brute    nested loops over the plan's relations, from scratch
    DuckDB   the SQL text, from scratch

After a batch: every implementation's delta is the difference of the results before and after; its full enumeration,
its count and its membership test agree with the result; and its invariants hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import plans
from plans.errors import PlanError
from plans.plan import Plan
from plans.program import program_of
from plans.programs.wiring import used_columns
from tests.engine.views import IMPLEMENTATIONS, Kernel, Twin
from tests.oracles.database import Batch, Database, Row
from tests.oracles.expectation import Expectation, by_duckdb, by_nested_loops
from tests.strategies import Query


def planned(text: str, query: Query) -> Plan | None:
    """The plan of a random query; None if its predicates contradict each other, which the planner rightly refuses."""
    try:
        return plans.plan(text, query.tables)
    except PlanError as error:
        if "never holds" in str(error):
            return None
        raise


class SideBySide:
    """One plan, maintained by every implementation; ``sql`` is what DuckDB runs (None: it does not take part)."""

    def __init__(self, plan: Plan, tables: Mapping[str, object], sql: str | None = None) -> None:
        self.plan = plan
        answers = [by_nested_loops(plan)]
        if sql is not None:
            answers.append(by_duckdb(sql, boolean=not plan.output))
        self.expectation = Expectation(tables, *answers)
        self.views: list[Twin | Kernel] = [make(plan) for make in IMPLEMENTATIONS if make.takes(plan)]
        read = used_columns(program_of(plan), False)
        self._read = {
            name: [column in {one.name for one in read.get(name.lower(), ())} for column in self.database.columns(name)]
            for name in self.database.schema
        }

    @property
    def database(self) -> Database:
        """The base tables."""
        return self.expectation.database

    @property
    def current(self) -> set[Row]:
        """The result now."""
        return set(self.expectation.result)

    def step(self, batch: Batch) -> Counter[Row]:
        """Apply one batch everywhere and compare everything; returns the delta."""
        effective, delta = self._advance(batch)
        for view in self.views:
            given = effective if isinstance(view, Twin) else batch
            assert view.apply(given) == delta, f"delta of {type(view).__name__} after {batch}"
        self.compare()
        return delta

    def step_without_deltas(self, batch: Batch) -> None:
        """Apply one batch everywhere without asking for its delta, and compare the rest."""
        effective, _ = self._advance(batch)
        for view in self.views:
            view.load(effective if isinstance(view, Twin) else batch)
        self.compare(invariants=False)  # the live views are put off, too

    def _advance(self, batch: Batch) -> tuple[Batch, Counter[Row]]:
        """Change the base tables; returns what takes place of the batch, and its delta.

        Rows that differ in columns that nothing reads are one row, so the base tables have NULL there.
        """
        seen = {name: [(self._seen(name, row), weight) for row, weight in rows] for name, rows in batch.items()}
        return self.database.without_absent_deletes(seen), self.expectation.apply(seen)

    def _seen(self, relation: str, row: Row) -> Row:
        return tuple(value if there else None for value, there in zip(row, self._read[relation], strict=True))

    def save_and_load(self) -> None:
        """Write every view to a file, go on with what comes back."""
        for view in self.views:
            view.save_and_load()
        self.compare()

    def compare(self, invariants: bool = True) -> None:
        """The state of every implementation against the current result, without a change."""
        for view in self.views:
            name = type(view).__name__
            if invariants:
                view.check()
            assert view.work() in (None, self.views[0].work()), f"{name} does other work than the first implementation"
            results = view.results()
            assert set(results) == self.current, f"results of {name}"
            assert len(results) == len(self.current), f"{name} enumerates a result twice"
            assert view.count() == len(self.current), f"count of {name}"
            for row in sorted(self.current, key=repr)[:5]:
                assert view.contains(row), f"{name} does not know its result {row}"

    def step_by_removal(self) -> None:
        """Delete everything, and see that nothing is left anywhere."""
        self.step(self.database.everything(-1))
        assert not self.current
        for view in self.views:
            assert view.is_empty(), f"{type(view).__name__} keeps something of an empty database"
