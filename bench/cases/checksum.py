"""One number for a set of rows, computed alike from codes, from Arrow batches and in SQL.

A row's columns become integers (a date its days since 1970, a string its length, NULL zero), then
``h = (sum of (column mod p) * factor) mod p`` and the row counts ``h * h mod p``. Rows add up, so the checksum of a
result can be followed through its deltas. It finds wrong, missing and surplus rows, not malice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.plan import Plan

PRIME = 2147483629  # below 2^31, so that every product below fits 63 bits
FACTORS = (1, 65599, 131071, 24036583, 6972593, 859433, 1257787, 3021377, 43112609, 16785407)


def factors(width: int) -> np.ndarray:
    """Returns the factors of the first ``width`` columns."""
    return np.array([FACTORS[i % len(FACTORS)] for i in range(max(width, 1))], np.int64)


def of_batch(batch: pa.RecordBatch | pa.Table, columns: int) -> np.ndarray:
    """Returns the checksum of every row (int64[n]) over the first ``columns`` columns. O(n)."""
    total = np.zeros(batch.num_rows, np.int64)
    for column, factor in zip(batch.columns[:columns], factors(columns).tolist(), strict=True):
        total += (_integers(column) % PRIME) * factor
    total %= PRIME
    return total * total % PRIME


def sql(select: str, plan: Plan) -> str:
    """Returns SQL that returns count and checksum of the query ``select``, whose outputs are those of ``plan``."""
    terms = []
    for output, factor in zip(plan.output, factors(len(plan.output)).tolist(), strict=True):
        name = f'"{output.name}"'
        if output.type == "date":
            name = f"date_diff('day', DATE '1970-01-01', {name})"
        elif output.type == "string":
            name = f"length({name})"
        terms.append(f"(CAST(coalesce({name}, 0) AS BIGINT) % {PRIME}) * {factor}")
    return (
        f"SELECT count(*), CAST(coalesce(sum(h * h % {PRIME}), 0) AS BIGINT) "
        f"FROM (SELECT ({' + '.join(terms)}) % {PRIME} AS h FROM ({select}))"
    )


def _integers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(column.type):
        column = pc.utf8_length(column)
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64()).fill_null(0).to_numpy()
