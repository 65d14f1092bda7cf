"""The implementations under test, behind one small interface: plain Python tuples in and out."""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from pathlib import Path

import crown
from plans.plan import Plan
from plans.search.cells.shares import hashable
from tests.engine.made import distinct_rows, join_stats
from tests.models import ReferenceView
from tests.oracles.database import Batch, Row, to_arrow, to_dicts
from tests.oracles.expectation import net, rows


class InTurns(ReferenceView):
    """The twin with the order of the kernel: without deltas, insertions into the deepest relations come first."""

    deltas = True

    def _turns(self, weights, sign):
        if self.deltas or sign < 0:
            return weights
        return sorted(weights, key=lambda one: -max(self._depth(alias.node) for alias in one[0].aliases))

    def _depth(self, node: int) -> int:
        parent = self.plan.nodes[node].parent
        return 0 if parent < 0 else 1 + self._depth(parent)


class Twin:
    """``tests.models``; has no modules for cyclic parts. It is given what takes place, without absent deletes."""

    @staticmethod
    def takes(plan: Plan) -> bool:
        return all(node.bag is None for node in plan.nodes)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.view = InTurns(plan)
        self.schema = {table.name: table for table in plan.tables}

    def apply(self, batch: Batch) -> Counter[Row]:
        return self.view.apply({name: to_dicts(self.schema, name, changes) for name, changes in batch.items()})

    def results(self) -> list[Row]:
        return list(self.view.results())

    def count(self) -> int:
        return self.view.count()

    def contains(self, row: Row) -> bool:
        return self.view.contains(row)

    def check(self) -> None:
        self.view.check_invariants()

    def load(self, batch: Batch) -> None:
        self.view.deltas = False
        self.apply(batch)
        self.view.deltas = True

    def save_and_load(self) -> None:
        self.view = copy.deepcopy(self.view)

    def work(self) -> dict[str, int] | None:
        """What is counted on the way and must not depend on the implementation; None if it does."""
        return {"S": self.view.s_updates, "P": self.view.p_updates}

    def is_empty(self) -> bool:
        return not any(self.view.relation) and not any(self.view.groups) and not any(self.view.counter)


class Kernel:
    """``crown.view``: the product. Every third batch goes through ``apply_batches`` without consolidation."""

    @staticmethod
    def takes(plan: Plan) -> bool:
        return True

    threads = 1

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.view = crown.view(plan, threads=self.threads)
        self.schema = {table.name: table for table in plan.tables}
        self.initial_bytes = self.view.stats()["live_bytes"]
        self.batches = 0

    def apply(self, batch: Batch) -> Counter[Row]:
        self.batches += 1
        changes = {name: to_arrow(self.schema, name, rows) for name, rows in batch.items()}
        loose = self.batches % 3 == 0 and not self.plan.support
        if loose:
            parts = list(self.view.apply_batches(changes, consolidate=False))
        else:
            parts = self.view.apply(changes).to_batches()
        for part in parts:
            assert part.schema.names == [*(output.name for output in self.plan.output), "_weight"]
            assert set(part.column(part.num_columns - 1).to_pylist()) <= {-1, 1}
        total = net(parts)
        if self.plan.consolidated or not loose:
            emitted = sum(part.num_rows for part in parts)
            assert sum(map(abs, total.values())) == emitted, "each changed row comes once"
        return total

    def results(self) -> list[Row]:
        return [row for batch in self.view.results() for row in rows(batch)]

    def count(self) -> int:
        return self.view.count()

    def contains(self, row: Row) -> bool:
        return self.view.contains(row)

    def check(self) -> None:
        self.view.check_invariants()

    def load(self, batch: Batch) -> None:
        """Apply without deltas; the next batch that wants deltas has the live views rebuilt."""
        self.view.update({name: to_arrow(self.schema, name, rows) for name, rows in batch.items()})

    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.view.save(Path(folder) / "view")
            self.view = crown.load(Path(folder) / "view")

    def work(self) -> dict[str, int] | None:
        stats = join_stats(self.view)
        return {"S": stats["s_updates"], "P": stats["p_updates"]}

    def is_empty(self) -> bool:
        self.view.compact()  # dictionary entries go when asked, or when they have doubled
        stats, join = self.view.stats(), join_stats(self.view)
        left = [*stats["rows"].values(), *join["rows"].values(), *join["groups"].values()]
        left += [stats["dictionary"], distinct_rows(self.view)]
        return not any(left) and stats["live_bytes"] == self.initial_bytes


class Cells(Kernel):
    """``crown.view(..., threads=3)``: the same engine, three times, each for its share of the data."""

    threads = 3

    @staticmethod
    def takes(plan: Plan) -> bool:
        return bool(hashable(plan))  # else there is nothing in the output to cut by

    def work(self) -> dict[str, int] | None:
        return None  # rows that several cells need are counted in each


class Factorized(Kernel):
    """``crown.view`` with ``factorized=True``, unfolded: the same kernels, of which products leave as they are."""

    @staticmethod
    def takes(plan: Plan) -> bool:
        try:
            return bool(crown.view(plan).factorized_schema)
        except crown.CrownError:
            return False

    def apply(self, batch: Batch) -> Counter[Row]:
        changes = {name: to_arrow(self.schema, name, rows) for name, rows in batch.items()}
        delta = self.view.apply(changes, factorized=True)
        assert delta.schema.remove(len(delta.schema) - 1).equals(self.view.factorized_schema, check_metadata=True)
        plain = crown.unfold(delta)
        assert plain.schema.equals(self.view.delta_schema)
        total = net([plain])
        assert sum(map(abs, total.values())) == plain.num_rows, "each changed row comes once"
        return total

    def results(self) -> list[Row]:
        return [row for batch in self.view.results(factorized=True) for row in rows(crown.unfold(batch))]


IMPLEMENTATIONS = (Twin, Kernel, Cells, Factorized)
