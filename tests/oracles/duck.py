"""The result of a SQL text, from scratch, by DuckDB over the current base tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import duckdb
import pyarrow as pa

from tests.oracles.database import Database, Row, canonical

_PLAIN = {"BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "HUGEINT", "INTEGER", "TIMESTAMP", "VARCHAR"}
"""Types whose values are the same in Python and by way of Arrow, which takes a quarter longer."""


_CALL = compile("_method(_sql)", __file__, "eval")


MEANINGS: dict[str, str] = {}
"""What queries mean that DuckDB does not read, in SQL that it reads."""


def results(sql: str, database: Database) -> Counter[Row]:
    """The rows that ``sql`` returns, with their multiplicities.

    DuckDB finds the tables among the variables of the code that calls it. To register a table takes as long as to run a
    short query.
    """
    sql = MEANINGS.get(sql, sql)
    names: dict[str, object] = {"_sql": sql}
    for name in database.schema:
        if spellings := re.findall(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE):
            names |= dict.fromkeys(spellings, database.arrow(name))
    with connected() as cursor:
        eval(_CALL, {**names, "_method": cursor.execute})
        if all(str(column[1]).partition("(")[0] in _PLAIN for column in cursor.description or ()):
            return Counter(canonical(cursor.fetchall()))
        cursor.abort()
        table = eval(_CALL, {**names, "_method": cursor.sql}).to_arrow_table()
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return Counter(canonical(rows))


@contextmanager
def holding(tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor that reads these tables where they are: rows that are inserted one by one take ten times as long."""
    with connected() as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        yield cursor


def connected() -> duckdb.DuckDBPyConnection:
    """Returns a connection with temporary tables of its own. Opening a database takes fifty times as long."""
    return _database().cursor()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
