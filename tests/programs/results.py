"""Results and deltas of views as bags of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from crown.programs.program import ProgramEngine
from tests.oracles.database import Row


def rows_of(view: Any) -> Counter[Row]:
    """Returns the rows of a view, which are the same with weights and without."""
    found = Counter(tuple(row.values()) for row in view.to_table().to_pylist())
    weighted = [(row.pop("_weight"), tuple(row.values())) for row in view.to_table(weighted=True).to_pylist()]
    assert found == {values: weight for weight, values in weighted}
    assert len(weighted) == len(found)
    return found


def rows_of_engine(engine: ProgramEngine) -> Counter[str]:
    return Counter(str(row) for batch in engine.results() for row in batch.to_pylist())


def added(result: Counter[Row], deltas: Any) -> None:
    """Adds deltas to a result; no row of it is ever there less than not at all."""
    for row in deltas.to_pylist():
        weight = row.pop("_weight")
        result[tuple(row.values())] += weight
        assert result[tuple(row.values())] >= 0
    for row in [row for row, n in result.items() if n == 0]:
        del result[row]
