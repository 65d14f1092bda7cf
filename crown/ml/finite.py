"""Finds the row of a batch with a NaN or an infinity, which sums reject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import CrownError
from crown.ingest.changes import CheckedBatch
from crown.programs.program import ProgramEngine
from crown.stages.groups.aggregates import NotFinite


def not_finite(engine: ProgramEngine, changes: Mapping[str, Any], why: BaseException | None) -> str | None:
    """Returns the sentence that names the first row of a refused batch with such a value, given the reason of the
    refusal.

    A column with the name that the model uses takes precedence. Returns None if no value of the batch is one: an
    expression made it, or the changes were a stream that can be read only once. Cost: that of checking the batch again.
    """
    if not isinstance(why, NotFinite):
        return None
    try:
        checked = engine.prepare(changes, strict=False).checked
    except CrownError:
        return None
    found = [
        (column.lower() != why.column.lower(), relation, column, row, value)
        for relation, batch in checked.items()
        for column, row, value in _values(batch)
    ]
    if not found:
        return None
    _, relation, column, row, value = min(found, key=lambda one: one[0])
    return (
        f"relation {relation!r}, row {row}: {column} is {value}, and a regression takes finite numbers; "
        "leave such rows out with WHERE"
    )


def _values(batch: CheckedBatch) -> list[tuple[str, int, float]]:
    """Returns the first value that is not finite in each column of doubles, with its row in the original batch."""
    there = np.delete(np.arange(len(batch.weights) + len(batch.bad)), sorted(batch.bad))
    found = []
    for name, column in batch.columns.items():
        if pa.types.is_floating(column.type):
            at = pc.index(pc.is_finite(column), False).as_py()
            if at >= 0:
                found.append((name, int(there[at]), column[at].as_py()))
    return found
