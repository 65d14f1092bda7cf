"""ClickHouse's own words, and the k first values of groups, after every batch with deletes: engine = DuckDB."""

from __future__ import annotations

import pytest

from plans import PlanError, program
from tests.marks import every
from tests.programs.streamed import SCHEMA, check

CASES = (
    ("clickhouse", "SELECT a, uniqExact(s) AS u, sumIf(b, id > 1) AS t, countIf(s = 'a') AS c, argMax(id * 10, id) AS "
     "m, "
     "quantile(0.3)(b) AS q, quantiles(0.25, 0.5)(b) AS qs, uniqIf(s, b > 0) AS v, maxIf(d, id < 3) AS x FROM r GROUP "
     "BY a",
     "SELECT a, COUNT(DISTINCT s), SUM(b) FILTER (WHERE id > 1), COUNT(*) FILTER (WHERE s = 'a'), MAX(id) * 10, "
     "QUANTILE_CONT(b, 0.3), QUANTILE_CONT(b, [0.25, 0.5]), COUNT(DISTINCT s) FILTER (WHERE b > 0), MAX(d) FILTER "
     "(WHERE "
     "id < 3) FROM r GROUP BY a"),
    ("clickhouse", "SELECT a, groupArray(id) AS l, groupUniqArray(id) AS u, stddevPop(id) AS sd, groupBitOr(id) AS o, "
     "uniq(id, b) AS n, quantileIf(0.5)(id, id > 0) AS h FROM r PREWHERE id < 3 GROUP BY a",
     "SELECT a, LIST(id ORDER BY id), LIST(DISTINCT id ORDER BY id), STDDEV_POP(id), BIT_OR(id), COUNT(DISTINCT (id, "
     "b)) "
     "FILTER (WHERE b IS NOT NULL), QUANTILE_CONT(id, 0.5) FILTER (WHERE id > 0) FROM r WHERE id < 3 GROUP BY a"),
    ("clickhouse", "SELECT toYYYYMM(at) AS m, toYYYYMMDD(d) AS y, toStartOfFiveMinutes(at) AS f, "
     "toStartOfInterval(at, INTERVAL "
     "90 SECOND) AS i, toDate(at) AS t, multiIf(a > 1, 'x', a > 0, 'y', 'z') AS c, toString(id) AS s, "
     "toStartOfHour(at) AS "
     "h, toMonday(at) AS w, toStartOfWeek(at) AS v, toInt64OrNull(s) AS n, notEmpty(s) AS e, has(tags, 'a') AS b FROM "
     "r "
     "PREWHERE id > 0 WHERE at IS NOT NULL AND tags IS NOT NULL",
     "SELECT YEAR(r.at) * 100 + MONTH(r.at), YEAR(d) * 10000 + MONTH(d) * 100 + DAY(d), TIME_BUCKET(INTERVAL 5 "
     "MINUTE, r.at), TIME_BUCKET(INTERVAL 90 SECOND, r.at), r.at::DATE, CASE WHEN a > 1 THEN 'x' WHEN a > 0 THEN 'y' "
     "ELSE 'z' END, id::TEXT, DATE_TRUNC('hour', r.at), DATE_TRUNC('week', r.at)::DATE, (DATE_TRUNC('week', r.at + "
     "INTERVAL 1 DAY) - INTERVAL 1 DAY)::DATE, TRY_CAST(s AS BIGINT), s <> '', CASE WHEN LIST_CONTAINS(tags, 'a') "
     "THEN TRUE WHEN LIST_COUNT(tags) < LEN(tags) THEN NULL ELSE FALSE END FROM r WHERE id > 0 AND r.at IS NOT NULL "
     "AND tags IS NOT NULL"),
    ("clickhouse", "SELECT a, groupArray(3)(b) AS l, groupArrayIf(2)(s, id > 0) AS m FROM r GROUP BY a",
     "SELECT a, COALESCE(LIST(b ORDER BY b) FILTER (WHERE b IS NOT NULL), [])[:3], COALESCE(LIST(s ORDER BY s) FILTER "
     "(WHERE s IS NOT NULL AND id > 0), [])[:2] FROM r GROUP BY a"),
    ("clickhouse", "SELECT id, arrayJoin(nums) AS x FROM r", "SELECT id, UNNEST(nums) FROM r"),
    ("duckdb", "SELECT a, ARG_MAX(id * 10, id, 2) AS m, MAX(id, 2) AS n, MIN(b, 3) FILTER (WHERE id > 1) AS k, "
     "ARG_MIN(b, b, "
     "2) AS l FROM r GROUP BY a", ""),
    ("duckdb", "SELECT a, ARG_MAX(NULLIF(id, 3), id) AS m, MIN_BY(NULLIF(id, 0), id) FILTER (WHERE b > 0) AS n, "
     "COUNT() AS c FROM r GROUP BY a", ""),
    ("duckdb", "SELECT id, ARG_MAX(NULLIF(id, 3), id) OVER (PARTITION BY a) AS m FROM r",
     "SELECT id, m FROM r JOIN (SELECT a, ARG_MAX(NULLIF(id, 3), id) AS m FROM r GROUP BY a) AS q "
     "ON r.a IS NOT DISTINCT FROM q.a"),
    ("clickhouse", "SELECT a, argMax(nullIf(id, 3), id) AS m, argMinIf(nullIf(id, 0), id, b > 0) AS n, count() AS c, "
     "sum(intDiv(b, 2)) AS d FROM r GROUP BY a",
     "SELECT a, ARG_MAX(NULLIF(id, 3), id), ARG_MIN(NULLIF(id, 0), id) FILTER (WHERE b > 0), COUNT(*), SUM(b // 2) "
     "FROM r GROUP BY a"),
    ("trino", "SELECT a, MAX_BY(NULLIF(id, 3), id) AS m FROM r GROUP BY a",
     "SELECT a, NULLIF(MAX(id), 3) FROM r GROUP BY a"),
    ("trino", "SELECT a, MAX_BY(id, id, 2) AS m, MIN(s, 2) AS n FROM r GROUP BY a",
     "SELECT a, ARG_MAX(id, id, 2), MIN(s, 2) FROM r GROUP BY a"),
    ("spark", "SELECT a, MAX_BY(id, id, 2) AS m FROM r GROUP BY a", "SELECT a, ARG_MAX(id, id, 2) FROM r GROUP BY a"),
)  # fmt: skip


@pytest.mark.parametrize(("dialect", "query", "oracle"), CASES)
def test_the_result_is_that_of_duckdb_after_every_batch(dialect: str, query: str, oracle: str) -> None:
    check(dialect, query, oracle, 1)


@every(
    [
        ("clickhouse", "SELECT id FROM r FINAL", "FINAL is not supported"),
        ("clickhouse", "SELECT id FROM r ARRAY JOIN tags", "ARRAY JOIN without a name is not supported"),
        ("clickhouse", "SELECT id FROM r ARRAY JOIN tags AS x, nums AS y",
         "ARRAY JOIN of several arrays is not supported"),
        ("clickhouse", "SELECT id FROM r LEFT ARRAY JOIN tags AS x", "LEFT ARRAY JOIN is not supported"),
        ("clickhouse", "SELECT multiIf(a > 1, 'x') FROM r", "multiIf takes conditions and values in turn"),
        ("clickhouse", "SELECT quantileExact(0.5)(b) FROM r", "the aggregate QUANTILEEXACT is not supported"),
        ("flink", "SELECT * FROM r MATCH_RECOGNIZE (PARTITION BY a ORDER BY at MEASURES A.id AS i PATTERN (A B) "
     "DEFINE B AS "
         "B.s = 'x')", "MATCH_RECOGNIZE is not supported"),
        ("snowflake", "SELECT * FROM r MATCH_RECOGNIZE (PARTITION BY a ORDER BY at PATTERN (A B) DEFINE B AS TRUE)",
         "MATCH_RECOGNIZE is not supported"),
        ("duckdb", "SELECT ARG_MAX(a, b, 0) FROM r", "ARG_MAX takes a constant number of values, 1 or more"),
        ("duckdb", "SELECT ARG_MAX(a, b, id) FROM r", "ARG_MAX takes a constant number of values"),
    ]
)  # fmt: skip
def test_what_is_not_built_is_refused(dialect: str, query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA, dialect=dialect)
    assert caught.value.message.startswith(message)
    assert caught.value.position is not None
