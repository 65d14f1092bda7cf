"""A view whose batches are native calls, beside one that takes them step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from itertools import cycle
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.engine.delivery import is_open
from crown.errors import CrownError, MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.programs.pipelines import pipeline as pipelines
from crown.stages.joins.core import Join
from tests.oracles import duck
from tests.oracles.database import Database, to_arrow

Changes = list[tuple[tuple[Any, ...], int]]
WORK = {
    "live_bytes", "dictionary", "blocks", "emitted", "live_flips", "max_delay", "p_updates", "r_updates", "s_updates",
    "steps", "touched", "touched_above",
}  # fmt: skip
"""What a view says of the work that it has done, and of the memory that this has taken."""
_UNTOUCHED, _GUARD_WORDS = 0x5AFE_C0DE_5AFE_C0DE, 1 << 10


class Stepwise:
    """A view that takes its batches in one call, and one that takes them step by step."""

    def __init__(self, query: str, tables: dict[str, Any], **options: Any) -> None:
        self.query = query
        self.view, self.other = (crown.view(query, tables, **options) for _ in range(2))
        pipeline = self.view._engine.pipeline
        assert pipeline is not None
        self.other._engine.pipeline = None
        self.database = Database(tables)
        self.results: Counter[int] = Counter()
        self.apart = {"reserved_bytes"}  # of what both say of themselves
        self.ways = cycle(("apply", "read", "apply", "closed"))  # in which the call delivers
        if any(part in query for part in ("MIN(", "MAX(", "DISTINCT ")):
            self.apart.add("live_bytes")  # a call stores values that are inserted and deleted in one batch
        run, opened, exact = pipeline.run, pipeline.open, cycle((True, False))
        self._beyond = np.empty(0, np.int64)  # words beyond the memory of a batch

        def noted(*arguments: Any) -> int:
            result = run(*arguments)
            self.results[result] += 1
            assert (self._beyond == _UNTOUCHED).all(), "the call has written beyond its memory"
            return result

        def with_exact_room(*arguments: Any) -> None:
            """Every other batch has memory for its own rows only, and words beyond it that are looked at."""
            self._beyond = self._beyond[:0]
            if not next(exact):
                opened(*arguments)
                return
            pipeline._room, pipeline._memory = [0] * len(pipeline._room), np.empty(0, np.int64)
            with patch.object(pipelines, "_ROWS_OF_ROOM", 1):
                opened(*arguments)
            words = len(pipeline._memory)
            guarded = np.full(words + _GUARD_WORDS, _UNTOUCHED, np.int64)
            pipeline._memory, self._beyond = guarded[:words], guarded[words:]

        pipeline.run, pipeline.open = noted, with_exact_room

    def given(self, changes: Changes | Mapping[str, Changes]) -> dict[str, pa.Table]:
        """Returns a batch of the only table, or of several."""
        by_table = changes if isinstance(changes, Mapping) else dict.fromkeys(self.database.schema, changes)
        return {name: to_arrow(self.database.schema, name, of) for name, of in by_table.items()}

    def apply(
        self, changes: Changes | Mapping[str, Changes], deltas: bool = True, dicts: bool = False, **wanted: Any
    ) -> None:
        """Applies a batch to both, and compares all that there is; ``dicts``: it is a list of them.

        The view with the call delivers at once, or in batches that are read, or not.
        """
        batch: dict[str, Any] = self.given(changes)
        if dicts:
            batch = {name: table.to_pylist() for name, table in batch.items()}
        way = "apply" if not wanted.keys() <= {"consolidate"} else next(self.ways)
        if deltas and way == "closed":
            self.view.apply_batches(batch, **wanted).close()
            self.other.apply(batch, **wanted)
        elif deltas:
            if way == "apply":
                found = self.view.apply(batch, **wanted)
            else:
                found = pa.Table.from_batches(self.view.apply_batches(batch, **wanted), self.view.delta_schema)
            assert bag(found) == bag(self.other.apply(batch, **wanted))
        else:
            self.view.update(batch)
            self.other.update(batch)
        self.database.apply(changes if isinstance(changes, Mapping) else dict.fromkeys(batch, changes))
        self.compare()

    def aborted(self, changes: Mapping[str, Changes], read: int) -> None:
        """Aborts a batch in both after some parts of its deltas are read, and compares all but the work."""
        batch = self.given(changes)
        self.apart |= WORK  # also where the first view refuses the batch, which the other does not get then
        for view in (self.view, self.other):
            delivery = view.apply_batches(batch)
            for _ in range(read):
                next(delivery, None)
            if is_open(delivery._batches):
                delivery.abort()
            else:  # it has no more deltas, and stands
                view._engine.undo({name: rows for name, rows in batch.items() if name not in view._unread})
        self.compare()

    def refused(self, batch: Any, error: type[CrownError]) -> str:
        """Applies a batch that both refuse in the same words; returns these."""
        said = []
        for view in (self.view, self.other):
            with pytest.raises(error) as raised:
                view.apply(batch if isinstance(batch, dict) else dict.fromkeys(self.database.schema, batch))
            said.append(str(raised.value))
        assert said[0] == said[1]
        self.compare()
        return said[0]

    def table(self) -> Counter[str]:
        """Returns the result, which both have."""
        found, other = (bag(view.to_table()) for view in (self.view, self.other))
        assert found == other
        return found

    def compare(self) -> None:
        """Compares what both hold, and count, and DuckDB's result."""
        for view in (self.view, self.other):
            view.check_invariants()
        self.table()
        first, second = (view.stats() for view in (self.view, self.other))
        assert _without(first, self.apart) == _without(second, self.apart)
        budget = self.view._engine.memory.budget
        if budget.fixed:  # then the allowance of a part is never written again
            assert all(part[A.H_BUDGET] == budget.words for part in self.view._engine.memory.parts)
        of = [view._engine.tallies for view in (self.view, self.other)]
        for number in range(len(first["stages"])):
            assert of[0].known(number) == of[1].known(number)
            stage = self.view._engine.stages[number]
            if stage.parts and not isinstance(stage, Join) and not self.apart >= WORK:  # a join counts by itself
                assert of[0].work[number][13:20].tolist() == of[1].work[number][13:20].tolist()

    def is_duckdbs(self) -> None:
        """Compares the result with DuckDB's."""
        expected = rounded(duck.results(self.query, self.database))
        for view in (self.view, self.other):
            rows = view.to_table().to_pylist()
            assert (
                rounded(Counter(tuple(row.values()) for row in rows for _ in range(row.pop("_weight", 1)))) == expected
            )


def refusals(both: Stepwise, more: Changes, rooms: range) -> int:
    """Inserts rows with each room that is left in the budget of the view, and deletes them if they fit.

    Each time the view has its rows of before. Returns how often the rows are refused.
    """
    before, view, refused = bag(both.view.to_table()), both.view, 0
    budget = view._engine.memory.budget
    for room in rooms:
        with budget.limited(budget.used + room):
            try:
                view.apply(both.given(more))
            except MemoryBudgetError:
                refused += 1
            else:
                view.apply(both.given([(row, -1) for row, _ in more]))
        view.check_invariants()
        assert bag(view.to_table()) == before
    return refused


def _without(stats: Any, names: Set[str]) -> Any:
    """Returns the stats of a view without these."""
    if isinstance(stats, dict):
        return {name: _without(of, names) for name, of in stats.items() if name not in names}
    return [_without(of, names) for of in stats] if isinstance(stats, list) else stats


def bag(table: pa.Table) -> Counter[str]:
    """Returns the rows of a table, in any order; NaN is NaN."""
    return Counter(map(repr, table.to_pylist()))


def rounded(rows: Counter[Any]) -> Counter[Any]:
    """Returns rows with doubles to nine digits."""
    found: Counter[Any] = Counter()
    for row, n in rows.items():
        found[tuple(f"{value:.9g}" if isinstance(value, float) else value for value in row)] += n
    return found
