"""The result of a SQL text, from scratch, by DuckDB over the current base tables."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb

from tests.oracles.database import Database, Row, canonical


def results(sql: str, database: Database) -> Counter[Row]:
    """The rows that ``sql`` returns, with their multiplicities."""
    with _connection().cursor() as cursor:
        for name in database.schema:
            cursor.register(name, database.arrow(name))
        table = cursor.sql(sql).to_arrow_table()
        for name in database.schema:
            cursor.unregister(name)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Counter(canonical(rows))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
