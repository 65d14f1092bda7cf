"""Row counts and checksums of results, independent of the order of rows and of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.ingest.tables.columns import WEIGHT
from crown.programs.program import ProgramEngine
from spark_jobs.dispatch.hashing import xxhash64


@dataclass(frozen=True)
class Sum:
    """The number of rows of results, and the sum of the hashes of all rows, modulo 2^64."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


def sum_of(engine: ProgramEngine) -> Sum:
    """Returns the sum of an engine's result. O(result)."""
    total, width = Sum(), len(engine.plan.output)
    for batch in engine.results():
        weights = np.ones(batch.num_rows, np.int64)
        if batch.num_columns > width and batch.schema.names[-1] == WEIGHT:
            weights = batch.column(batch.num_columns - 1).to_numpy()
        hashes = xxhash64(batch.columns[:width], batch.num_rows).view(np.uint64)
        total += Sum(int(weights.sum()), int((hashes * weights.view(np.uint64)).sum(dtype=np.uint64)))
    return total
