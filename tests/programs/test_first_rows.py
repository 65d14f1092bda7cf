"""Forms that keep the first rows of an order, after every batch with deletes: engine = DuckDB."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from plans import PlanError, QueryWarning, program
from tests.marks import every
from tests.programs.streamed import SCHEMA, check

Q = "(SELECT DISTINCT id, a, b FROM r)"
CASES = (
    ("tsql", f"SELECT TOP 3 id, b FROM {Q} AS q ORDER BY b DESC, id, a",
     f"SELECT id, b FROM {Q} ORDER BY b DESC NULLS LAST, id, a NULLS FIRST LIMIT 3"),
    ("tsql", "SELECT DISTINCT TOP (2) a FROM r ORDER BY a", "SELECT DISTINCT a FROM r ORDER BY a NULLS FIRST LIMIT 2"),
    ("tsql", "SELECT TOP 1 a, COUNT(*) AS n FROM r GROUP BY a ORDER BY 2 DESC, a",
     "SELECT a, COUNT(*) FROM r GROUP BY a ORDER BY 2 DESC, a NULLS FIRST LIMIT 1"),
    ("redshift", f"SELECT TOP 2 id, a FROM {Q} AS q WHERE b IS NOT NULL ORDER BY id, a, b",
     f"SELECT id, a FROM {Q} WHERE b IS NOT NULL ORDER BY id, a, b LIMIT 2"),
    ("tsql", "SELECT TOP 2 WITH TIES id, -b AS b FROM r ORDER BY b",
     "SELECT id, -b FROM r QUALIFY RANK() OVER (ORDER BY -b NULLS FIRST) <= 2"),
    ("tsql", "SELECT TOP (1) WITH TIES a, COUNT(*) AS n FROM r GROUP BY a ORDER BY n DESC",
     "SELECT a, COUNT(*) AS n FROM r GROUP BY a QUALIFY RANK() OVER (ORDER BY n DESC) <= 1"),
    ("postgres", "SELECT id, a FROM r ORDER BY a DESC NULLS LAST FETCH FIRST 2 ROWS WITH TIES",
     "SELECT id, a FROM r QUALIFY RANK() OVER (ORDER BY a DESC NULLS LAST) <= 2"),
    ("postgres", f"SELECT a FROM {Q} AS q ORDER BY a NULLS LAST OFFSET 1 ROWS FETCH NEXT 2 ROWS WITH TIES",
     f"SELECT a FROM {Q} QUALIFY ROW_NUMBER() OVER (ORDER BY a NULLS LAST) > 1 AND RANK() OVER (ORDER BY a NULLS LAST) "
     "<= 3"),
    ("clickhouse", f"SELECT id, b AS z FROM {Q} AS q ORDER BY z DESC, id, a LIMIT 2 BY a",
     f"SELECT id, b FROM {Q} QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST, id) <= 2"),
    ("clickhouse", f"SELECT id, b FROM {Q} AS q ORDER BY b, id, a LIMIT 1, 2 BY a",
     f"SELECT id, b FROM {Q} QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS LAST, id) BETWEEN 2 AND 3"),
    ("oracle", "SELECT id FROM r WHERE ROWNUM <= 3 AND id > 0",
     "SELECT id FROM r WHERE id > 0 ORDER BY id LIMIT 3"),
    ("oracle", f"SELECT * FROM (SELECT id, a FROM {Q} q ORDER BY a DESC, id, b) q WHERE 3 > ROWNUM",
     f"SELECT id, a FROM {Q} ORDER BY a DESC NULLS FIRST, id, b NULLS LAST LIMIT 2"),
    ("oracle", "SELECT COUNT(*) AS n FROM (SELECT id FROM r WHERE ROWNUM = 1) q", "SELECT LEAST(COUNT(*), 1) FROM r"),
)  # fmt: skip


@pytest.mark.parametrize(("dialect", "query", "oracle"), CASES)
def test_the_first_rows_are_those_of_duckdb_after_every_batch(dialect: str, query: str, oracle: str) -> None:
    given = pytest.warns(QueryWarning) if "ROWNUM" in query and "ORDER BY" not in query else nullcontext()
    with given:
        check(dialect, query, oracle, 1)


@every(
    [
        ("spark", "SELECT id FROM r LIMIT 5 ORDER BY id", "ORDER BY must be before LIMIT"),
        ("tsql", "SELECT TOP 2 WITH TIES id FROM r", "WITH TIES needs an ORDER BY"),
        ("tsql", "SELECT DISTINCT TOP 2 WITH TIES id FROM r ORDER BY id", "WITH TIES together with DISTINCT"),
        ("clickhouse", "SELECT id FROM r QUALIFY RANK() OVER (ORDER BY a) = 1 LIMIT 2 BY a", "LIMIT BY together with"),
        ("tsql", "SELECT TOP 2 PERCENT id FROM r ORDER BY id", "TOP takes only a number of rows"),
        ("oracle", "SELECT ROWNUM AS n, id FROM r", "ROWNUM of this form is not supported"),
        ("oracle", "SELECT id FROM r WHERE ROWNUM <= 3 ORDER BY id", "ROWNUM together with GROUP BY, ORDER BY"),
        ("oracle", "SELECT * FROM (SELECT id FROM r ORDER BY id) q WHERE id > 1 AND ROWNUM < 3",
         "other conditions together with ROWNUM over a query with ORDER BY"),
    ]
)  # fmt: skip
def test_orders_that_keep_nothing_certain_are_refused(dialect: str, query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA, dialect=dialect)
    assert caught.value.message.startswith(message)
    assert caught.value.position is not None
