"""The one oracle that every test of maintenance follows: base tables, the result over them from scratch, its changes.

A test makes an ``Expectation``, hands every batch to it and to what it tests, and compares: the delta with what
``apply`` returns, the result with ``result``. Rows are Python tuples, bags are counters of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from plans.plan import Plan
from tests.oracles import brute_force, duck
from tests.oracles.database import Batch, Database, Row, canonical, to_arrow

Answer = Callable[[Database], Counter[Row]]
Copies = tuple[Mapping[str, Counter[Row]], Counter[Row]]


def by_nested_loops(plan: Plan) -> Answer:
    """Returns the plan's distinct results by nested loops, each once."""
    return lambda database: Counter(dict.fromkeys(brute_force.results(plan, database), 1))


def by_duckdb(sql: str, boolean: bool = False) -> Answer:
    """Returns what DuckDB answers to ``sql``. A ``boolean`` query has the empty row as its only result."""

    def answer(database: Database) -> Counter[Row]:
        found = duck.results(sql, database)
        return Counter({(): 1} if found else {}) if boolean else found

    return answer


def remembered(answer: Answer) -> Answer:
    """Returns the same answer, which is computed once for the same rows, as long as there are few of them."""
    known: dict[object, Counter[Row]] = {}

    def again(database: Database) -> Counter[Row]:
        rows = tuple(frozenset(counts.items()) for counts in database.rows.values())
        if rows not in known:
            if len(known) == 100:
                known.clear()
            known[rows] = answer(database)
        return known[rows].copy()

    return again


class Expectation:
    """Base tables and what the result over them is, by every answer there is; the answers agree."""

    def __init__(self, tables: Mapping[str, object], *answers: Answer) -> None:
        self.database = Database(tables)
        self._answers = answers
        self.result = self._recomputed()

    def _recomputed(self) -> Counter[Row]:
        first, *others = (answer(self.database) for answer in self._answers)
        assert all(other == first for other in others), "the oracles differ"
        return first

    def apply(self, batch: Batch) -> Counter[Row]:
        """Changes the base tables; returns the net change of the result."""
        before = self.result
        self.database.apply(batch)
        self.result = self._recomputed()
        return difference(self.result, before)

    def arrow(self, batch: Batch) -> dict[str, pa.Table]:
        """Returns the batch as change tables."""
        return {name: to_arrow(self.database.schema, name, changes) for name, changes in batch.items()}

    def copies(self) -> Copies:
        """Returns a copy of the base tables and of the result, for ``go_back``."""
        return {name: counts.copy() for name, counts in self.database.rows.items()}, self.result.copy()

    def go_back(self, copies: Copies) -> None:
        """Makes the base tables and the result what they were when ``copies`` was made."""
        rows, result = copies
        self.database.rows = {name: counts.copy() for name, counts in rows.items()}
        self.result = result.copy()


def difference(after: Counter[Row], before: Counter[Row]) -> Counter[Row]:
    """Returns the net change from ``before`` to ``after``, without rows that did not change."""
    change = after.copy()
    change.subtract(before)
    return Counter({row: weight for row, weight in change.items() if weight})


def rows(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Returns the rows of an Arrow table or batch, canonical."""
    if not table.num_columns:
        return [()] * table.num_rows
    return canonical(zip(*(column.to_pylist() for column in table.columns), strict=True))


def net(deltas: Iterable[pa.Table | pa.RecordBatch]) -> Counter[Row]:
    """Returns the summed weights by row of delta tables or batches, whose last column is ``_weight``."""
    total: Counter[Row] = Counter()
    for part in deltas:
        assert part.schema.names[-1] == "_weight"
        for *row, weight in zip(*(column.to_pylist() for column in part.columns), strict=True):
            total[canonical([tuple(row)])[0]] += weight
    return Counter({row: weight for row, weight in total.items() if weight})
