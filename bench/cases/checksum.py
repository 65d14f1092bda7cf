"""One number for a set of rows, computed in the same way from codes, from Arrow batches and in SQL.

Each column of a row becomes an integer: a date its days since 1970, a timestamp its microseconds, a string its length,
a decimal its digits, a float its thousandths, NULL zero. A decimal with more than six digits after the point is also
zero, because it is a quotient, which other systems return as a float. Then, with
``h = (sum of (column mod p) * factor) mod p``, the checksum of the row is ``h * h mod p``. The checksums of rows are
added, so the checksum of a result can be updated with its deltas. It finds wrong, missing and surplus rows, not malice.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.plan import Output
from plans.types import decimal_parts

PRIME = 2147483629  # less than 2^31, so that every product below fits in 63 bits
MOST_DIGITS = 6
OFFSET = 0.3183  # added to thousandths before truncation: no average of integers is at that edge
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


def sql(select: str, outputs: Sequence[Output]) -> str:
    """Returns SQL that returns count and checksum of the query ``select`` with these ``outputs``."""
    terms = []
    names = [f"v{i}" for i in range(len(outputs))]  # unnamed columns have different names in each database
    for name, output, factor in zip(names, outputs, factors(len(outputs)).tolist(), strict=True):
        parts = decimal_parts(output.type)
        if output.type == "date":
            name = f"date_diff('day', DATE '1970-01-01', {name})"
        elif output.type in ("timestamp", "timestamp_ntz"):
            name = f"epoch_us({name})"
        elif output.type == "string":
            name = f"length({name})"
        elif output.type == "float64":
            name = f"floor({name} * 1000 + {OFFSET})"
        elif parts is not None and parts[1] > MOST_DIGITS:
            name = "0"
        elif parts is not None:
            digits = f"replace(CAST(CAST({name} AS DECIMAL(38, {parts[1]})) AS VARCHAR), '.', '')"
            name = f"CAST({digits} AS HUGEINT) % {PRIME}"
        # SQL's remainder has the sign of the number.
        terms.append(f"((CAST(coalesce({name}, 0) AS BIGINT) % {PRIME} + {PRIME}) % {PRIME}) * {factor}")
    return (
        f"SELECT count(*), CAST(coalesce(sum(h * h % {PRIME}), 0) AS BIGINT) "
        f"FROM (SELECT ({' + '.join(terms)}) % {PRIME} AS h FROM ({select}) AS result({', '.join(names)}))"
    )


def of_integers(row: Sequence[int]) -> int:
    """Returns the checksum of one row of whole numbers."""
    total = sum((value % PRIME) * f for value, f in zip(row, factors(len(row)).tolist(), strict=True)) % PRIME
    return total * total % PRIME


def _integers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(column.type):
        column = pc.utf8_length(column)
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_float64(column.type):
        column = pc.floor(pc.add(pc.multiply(column, 1000.0), OFFSET))
    elif pa.types.is_decimal128(column.type):
        return _digits(column) if column.type.scale <= MOST_DIGITS else np.zeros(len(column), np.int64)
    return column.cast(pa.int64()).fill_null(0).to_numpy()


def _digits(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Returns the digits of decimals as integers, modulo the prime."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = pa.concat_arrays([array.fill_null(pa.scalar(Decimal(0), array.type))])
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2].view(np.uint64), words[1::2]
    return ((high % PRIME) * (2**64 % PRIME) + (low % PRIME).astype(np.int64)) % PRIME
