"""All sums of products of at most two of 27 variables over a star of six relations: the statistics of a regression."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa

from bench.cases.streams import Stream, timed

KEYS = 1_000  # values of the column that all relations share
WINDOW = 2_000  # live rows of a relation: on average 64 rows of the join per key
OWN = (5, 5, 5, 4, 4, 4)  # variables of each relation
SCHEMA = {f"R{r}": {"k": "int64"} | {f"v{r}{i}": "int32" for i in range(own)} for r, own in enumerate(OWN)}
VARIABLES = tuple(name for columns in SCHEMA.values() for name in columns if name != "k")
SUM = "decimal(38,0)"
_FROM = "FROM R0 " + " ".join(f"JOIN R{r} USING (k)" for r in range(1, len(OWN)))
JOIN = f"SELECT {', '.join(VARIABLES)} {_FROM}"
"""The query of the model."""
SUMS = tuple(
    (f"s{i}", factors)
    for i, factors in enumerate(f for n in (0, 1, 2) for f in combinations_with_replacement(VARIABLES, n))
)
"""The names of all sums, and the variables whose product each adds up; the first sum is the number of rows."""


def _sum(factors: tuple[str, ...]) -> str:
    product = " * ".join(f"CAST({name} AS BIGINT)" for name in factors)
    return f"SUM({product})" if factors else "COUNT(*)"


SQL = f"SELECT {', '.join(f'{_sum(factors)} AS {name}' for name, factors in SUMS)} {_FROM}"


def stream(rows: int, seed: int = 7) -> Stream:
    """Returns a sliding window over ``rows`` rows of each relation, with random keys. The relations take turns."""
    rng = np.random.default_rng(seed)
    tables, born, dies = {}, {}, {}
    window = min(WINDOW, max(rows // 4, 1))
    keys = max(KEYS * window // WINDOW, 1)
    for r, (name, columns) in enumerate(SCHEMA.items()):
        values = {c: pa.array(rng.integers(-100, 100, rows), pa.int32()) for c in columns if c != "k"}
        tables[name] = pa.table({"k": rng.integers(0, keys, rows), **values})
        born[name] = len(SCHEMA) * np.arange(rows) + r
        dies[name] = born[name] + len(SCHEMA) * window
    return timed(f"a star of six, windows of {window:,} rows over {keys:,} keys", tables, born, dies)
