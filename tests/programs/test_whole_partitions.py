"""Every aggregate that groups have stands over a whole partition: it is the group's, beside each of its rows."""

from __future__ import annotations

import pytest

from plans import PlanError, program
from tests.marks import every
from tests.programs.streamed import SCHEMA, check

AGGREGATES = (
    "COUNT(*)", "COUNT(b)", "COUNT(DISTINCT s)", "SUM(b + id)", "SUM(DISTINCT b)", "AVG(b)", "AVG(b::DECIMAL(10, 2))",
    "MIN(s)", "MAX(d)", "STDDEV_SAMP(b)", "VAR_POP(b)", "COVAR_SAMP(id, b)", "SKEWNESS(b)",
    "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY b DESC)", "MEDIAN(b)", "QUANTILE_DISC(b, 0.3)",
    "QUANTILE_CONT(b, [0.25, 0.5])", "BOOL_AND(b > 0)", "BOOL_OR(s = 'a')", "BIT_AND(b)", "BIT_OR(b)", "BIT_XOR(b)",
    "STRING_AGG(s, '-' ORDER BY id, s)", "STRING_AGG(DISTINCT s, ',' ORDER BY s)", "LIST(id * 2 ORDER BY b DESC, id)",
    "ARRAY_AGG(id ORDER BY id DESC)", "LIST(DISTINCT b ORDER BY b)", "ARRAY_AGG(DISTINCT s ORDER BY s DESC)",
    "MAX_BY(id * 10, id)", "ARG_MIN(b, b)",
    "SUM(b) FILTER (WHERE id > 1)", "ANY_VALUE(a)", "APPROX_COUNT_DISTINCT(b)",
    "COUNT(*) FILTER (WHERE id IN (SELECT a FROM u))",
)  # fmt: skip


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_aggregate_over_partitions_is_that_of_groups_after_every_batch(aggregate: str) -> None:
    over = f"{aggregate} OVER (PARTITION BY a)"
    groups = f"SELECT a, {aggregate} AS v FROM r GROUP BY a"
    check(
        "duckdb", f"SELECT id, s, {over} AS v FROM r",
        f"SELECT id, s, v FROM r JOIN ({groups}) AS q ON r.a IS NOT DISTINCT FROM q.a", 1,
    )  # fmt: skip


FORMS = (
    ("redshift", "SELECT id, LISTAGG(s, ',') WITHIN GROUP (ORDER BY s) OVER (PARTITION BY a) AS v FROM r",
     "SELECT id, v FROM r JOIN (SELECT a, STRING_AGG(s, ',' ORDER BY s) AS v FROM r GROUP BY a) AS q "
     "ON r.a IS NOT DISTINCT FROM q.a"),
    ("spark", "SELECT id, COLLECT_SET(s) OVER () AS v, MODE(a) OVER (PARTITION BY id) AS m FROM r WHERE a = id",
     "SELECT id, (SELECT LIST(DISTINCT s ORDER BY s) FILTER (WHERE s IS NOT NULL) FROM r WHERE a = id), id FROM r "
     "WHERE a = id"),
    ("duckdb", "SELECT id, LIST(id) OVER (PARTITION BY a ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND "
     "UNBOUNDED FOLLOWING) AS v FROM r", ""),
    ("duckdb", "SELECT a, COUNT(*) AS n, STRING_AGG(s, '-' ORDER BY s) OVER () AS v, MEDIAN(COUNT(*)) OVER () AS m "
     "FROM (SELECT a, s FROM r) AS q GROUP BY a, s", ""),
    ("duckdb", "SELECT id, a + 1 AS z, COUNT(DISTINCT b) OVER (PARTITION BY z) AS n, SUM(b) OVER (ORDER BY id, a, b, s "
     "RANGE UNBOUNDED PRECEDING) AS t FROM (SELECT DISTINCT id, a, b, s FROM r) AS q QUALIFY n > 1",
     "SELECT id, a + 1, n, t FROM (SELECT *, SUM(b) OVER (ORDER BY id, a, b, s RANGE UNBOUNDED PRECEDING) AS t FROM "
     "(SELECT DISTINCT id, a, b, s FROM r)) AS q JOIN (SELECT a AS k, COUNT(DISTINCT b) AS n FROM r GROUP BY a) AS g "
     "ON a IS NOT DISTINCT FROM k WHERE n > 1"),
)  # fmt: skip


@pytest.mark.parametrize(("dialect", "query", "oracle"), FORMS)
def test_forms_of_dialects_and_several_windows(dialect: str, query: str, oracle: str) -> None:
    check(dialect, query, oracle, 1)


@every(
    [
        ("SELECT STRING_AGG(s, b) OVER (PARTITION BY a ORDER BY id) FROM r", "STRING_AGG takes a text between the"),
        ("SELECT SUM(s) OVER (PARTITION BY a) FROM r", "SUM needs a number, not string"),
        ("SELECT SUM(SUM(b) OVER ()) OVER () FROM r", "a window function (OVER) here is not supported"),
    ]
)
def test_what_no_group_has_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA, dialect="duckdb")
    assert caught.value.message.startswith(message)
    assert caught.value.position is not None
