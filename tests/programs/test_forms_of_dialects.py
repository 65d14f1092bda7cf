"""Statement forms and functions that dialects have for themselves, after every batch with deletes: engine = DuckDB."""

from __future__ import annotations

import pytest

from plans import PlanError, program
from tests.marks import seeds
from tests.programs.streamed import SCHEMA, check


def levels(count: int, distinct: str = "DISTINCT ") -> str:
    """CTEs each of which joins the one before it with itself."""
    steps = ["q0 AS (SELECT a, b FROM r)"]
    for i in range(count):
        steps.append(f"q{i + 1} AS (SELECT {distinct}x.a, y.b FROM q{i} AS x JOIN q{i} AS y ON x.b = y.a)")
    return f"WITH {', '.join(steps)} SELECT a, b FROM q{count}"


DUCKDB = (
    levels(4),
    "SELECT a + 1 AS z, z * 2 AS y, y - z AS x FROM r",
    "SELECT a + 1 AS z, z * 2 AS y, id FROM r WHERE z > 1 AND y < 6",
    "SELECT a + 1 AS a, a * 2 AS y FROM r",
    "SELECT s, SUM(b) AS total, total + COUNT(*) AS more FROM r GROUP BY s HAVING more > 1",
    "SELECT a + 1 AS z, z * 2 AS y, COUNT(*) AS n FROM r GROUP BY ALL",
    "SELECT x, COUNT(r.id) AS n FROM UNNEST([0, 1, 7]) AS q(x) LEFT JOIN r ON r.a = q.x GROUP BY x",
    "SELECT q.range, v FROM range(3) AS q JOIN u ON u.a = q.range",
    "SELECT x::DATE AS day, COUNT(id) AS n FROM range(DATE '2022-12-30', DATE '2023-01-03', INTERVAL 1 DAY) AS g(x) "
    "LEFT JOIN r ON r.d = x::DATE GROUP BY ALL",
    "WITH days AS (SELECT unnest(generate_series(DATE '2022-12-31', DATE '2023-01-02', INTERVAL 1 DAY))::DATE AS day) "
    "SELECT day, id FROM days LEFT JOIN r ON r.d = day",
    "SELECT id, unnest(nums) * 2 + a AS x FROM r",
    "SELECT *, unnest(nums) AS x FROM r",
    "SELECT * EXCLUDE (s), unnest(nums) + 1 AS a2 FROM r",
    "SELECT a + 1 AS y, unnest(tags) AS a FROM r",
    "SELECT x, COUNT(*) AS n FROM (SELECT *, unnest(nums) AS x FROM r) AS q GROUP BY x",
    "SELECT a, MAX({'b': b, 's': s}).s AS x, MIN({'b': b, 's': s}).b AS y FROM r GROUP BY a",
    "SELECT unnest(tags) AS t, COUNT(*) AS n, SUM(a) AS x FROM r GROUP BY t",
    "SELECT a, unnest(nums) AS x, COUNT(*) AS n FROM r GROUP BY 2, a",
    "SELECT id, ARRAY(SELECT x FROM UNNEST(tags) AS q(x) ORDER BY x DESC NULLS LAST LIMIT 2) AS two, (SELECT "
    "string_agg(x, '/' ORDER BY x DESC) FROM UNNEST(tags) AS q(x) WHERE x <> 'b') AS s, (SELECT list(x ORDER BY x DESC "
    "NULLS FIRST) FROM UNNEST(nums) AS q(x)) AS l, EXISTS (SELECT x FROM UNNEST(nums) AS q(x) WHERE x > 1 LIMIT 3) "
    "AS e FROM r",
    "SELECT id, s->'a' AS x, s->'$.a.b' AS y, s->'a'->'b'->>1 AS z, s->'a'->'b'->1 AS w, CAST(s AS JSON)->>'$.a' AS v "
    "FROM r WHERE s LIKE '{%'",
    "SELECT id, string_split(s, '-') AS l, str_split(s, '.')[1] AS f, str_split(s, '\": ') AS q FROM r",
    "SELECT id, r.at AT TIME ZONE 'America/New_York' > TIMESTAMPTZ '2024-01-01 00:00:00+00' AS z, "
    "(r.at AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Asia/Tokyo' AS w FROM r",
    "SELECT time_bucket(INTERVAL '7' HOUR, r.at) AS t, COUNT(*) AS n FROM r GROUP BY ALL",
    "SELECT id, time_bucket(INTERVAL '5' MONTH, d) AS m, time_bucket(INTERVAL '3' DAY, d) AS w, time_bucket(INTERVAL "
    "'2' MONTH, r.at, TIMESTAMP '2019-04-17 10:00:00') AS o, time_bucket(INTERVAL '11' MINUTE, r.at, INTERVAL '3' "
    "SECOND) AS f FROM r",
    "SELECT a, b FROM r UNION BY NAME SELECT v AS b, a FROM u",
    "SELECT a, b, s FROM r UNION ALL BY NAME SELECT v AS C, A FROM u UNION ALL BY NAME (SELECT b FROM r UNION SELECT v "
    "FROM u)",
    "(SELECT a, COUNT(*) AS n FROM r GROUP BY a UNION ALL BY NAME SELECT 1.5 AS x, v AS n FROM u) EXCEPT ALL "
    "SELECT 1, 2, 3",
    "SELECT id, v, s FROM r JOIN u ON r.a % 3 = u.v",
    "SELECT r.b, COUNT(*) AS n, SUM(u.v) AS t FROM r, u WHERE ABS(r.b) = ABS(u.a) GROUP BY r.b",
    "SELECT id, v FROM r LEFT JOIN u ON r.a + r.b = u.v - 1",
    "SELECT x.id, x.n, u.v FROM (SELECT r.id, (SELECT COUNT(*) FROM u WHERE u.a = r.a) AS n FROM r) AS x JOIN u ON u.v "
    "= x.n",
    "SELECT r.id, y.v FROM r LEFT JOIN u AS x ON r.a = x.a JOIN u AS y ON COALESCE(x.v, 0) = y.a",
    "SELECT y.v, COUNT(*) AS n FROM r FULL JOIN u AS x ON r.b = x.a, u AS y WHERE COALESCE(x.v, r.b, 1) = y.a GROUP "
    "BY y.v",
    "SELECT id FROM r WHERE a < ANY (SELECT x.v FROM u AS x JOIN u AS y ON x.a = y.a WHERE CAST(y.v AS DOUBLE) IS "
    "NOT NULL)",
    "SELECT r.id, x.v, y.a AS z FROM r, u AS x FULL JOIN u AS y ON x.v = y.a, u WHERE u.a = r.a",
    "SELECT r.id, a, y.v FROM (SELECT id FROM r) AS r, u AS x JOIN u AS y USING (a)",
    "SELECT r.id, q.n FROM r, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.a < r.a) AS q, u WHERE CAST(q.n AS DOUBLE) "
    "= CAST(u.v AS DOUBLE)",
    "SELECT r.id, q.k FROM r LEFT JOIN (WITH RECURSIVE w(k) AS (SELECT a FROM u UNION SELECT u.v FROM w JOIN u ON u.a "
    "= w.k) SELECT k FROM w) AS q ON r.a = q.k",
    "SELECT DISTINCT q.b, y.v FROM r, u AS x, (SELECT DISTINCT a + 1 AS c, b FROM r) AS q, u AS y WHERE r.a * 2 = x.v "
    "AND x.a + 1 = q.c AND COALESCE(q.b, 0) = y.v",
    "SELECT 2 AS x, upper('b') AS y, MAX(a) AS z, COUNT(*) AS n FROM r WHERE b > 1 GROUP BY ALL",
    "SELECT 2 AS x, s, MAX(a) AS z FROM r WHERE b > 1 GROUP BY ALL",
    "SELECT n, m FROM (SELECT a, a FROM r UNION ALL SELECT v, 1 FROM u EXCEPT SELECT 0, 0 FROM u) AS q(n, m)",
    "WITH q(n, m) AS (SELECT a, a FROM r UNION SELECT v, 1 FROM u) SELECT n, COUNT(*) AS c FROM q GROUP BY n",
    "SELECT id FROM r WHERE EXISTS (SELECT * FROM u WHERE LENGTH(r.s) = u.v + 1)",
    "SELECT id, q.t, q.n FROM r, LATERAL (SELECT upper(UNNEST(r.tags)) AS t, r.a + 1 AS n) AS q",
    "SELECT id, q.t FROM r LEFT JOIN LATERAL (SELECT UNNEST(tags) AS t) AS q ON TRUE",
    "SELECT q.d::DATE AS d, COUNT(*) AS n FROM r, LATERAL (SELECT UNNEST(generate_series(r.d, r.d + INTERVAL 2 DAY, "
    "INTERVAL 1 DAY)) AS d) AS q GROUP BY ALL",
    "SELECT id, COLUMNS('^[ab]$') + 1 FROM r",
    "SELECT s, MAX(COLUMNS(['a', 'b'])), COUNT(*) AS n FROM r GROUP BY s",
    "SELECT a, LEN(LIST({'x': b, 'y': s})) AS n, LIST_CONTAINS(LIST(nums), [0]) AS c, LIST(tags) IS NULL AS z FROM r "
    "GROUP BY a",
    "SELECT COLUMNS('^(i|a)(d?)$') AS 'x_\\1\\2', s FROM r WHERE COLUMNS('^[ab]$') >= 0",
    "SELECT COLUMNS(lambda c: c = 'a' OR c LIKE '_')::VARCHAR FROM r",
    "SELECT COUNT(COLUMNS(* EXCLUDE (nums, tags))), MIN(COLUMNS(r.* EXCLUDE (nums, tags))) FROM r JOIN u ON r.a = u.a",
    "SELECT * LIKE '_' FROM r",
    "SELECT * NOT LIKE '_' FROM r",
    "PIVOT r ON a IN (0, 1) USING SUM(b) GROUP BY s",
    "PIVOT (SELECT s, a, b FROM r) ON a IN (0, 1) USING COUNT(*) AS n, MAX(b)",
    "SELECT * FROM (PIVOT (SELECT s, a, b FROM r) ON a IN (0, 1)) AS q WHERE q.s IS NOT NULL",
    "WITH q AS (PIVOT r ON s IN ('a', 'z') USING SUM(b) GROUP BY d) SELECT d, q.a FROM q",
    "SELECT * FROM (SELECT s, a, b FROM r) PIVOT (COUNT(*) FOR a IN (0, 1))",
    "UNPIVOT (SELECT id, a, b FROM r) ON a, b INTO NAME what VALUE v",
    "UNPIVOT (SELECT id, a, b FROM r) ON COLUMNS(* EXCLUDE (id))",
    "SELECT id, CAST('2024-02-29 10:00:00' AS TIMESTAMP) > r.at AS later FROM r",
    "SELECT a, FIRST(s ORDER BY id, s, b) AS f, LAST(b ORDER BY id NULLS FIRST, s, b DESC) AS l, ANY_VALUE(s ORDER BY "
    "id DESC, s) FILTER (WHERE b > 0) AS v FROM r GROUP BY a",
    "SELECT id, q.n, q.m + 1 AS m FROM r, LATERAL (SELECT COUNT(*) AS n, MAX(x) AS m FROM UNNEST(r.nums) AS u(x) "
    "WHERE x > r.a) AS q",
    "SELECT id, q.* FROM r LEFT JOIN LATERAL (SELECT x, x * 2 + r.a AS y FROM UNNEST(r.nums) AS u(x) WHERE x > 1) AS q "
    "ON TRUE",
    "SELECT a, COUNT(DISTINCT (b, s)) AS n, COUNT((b, s)) AS m FROM r GROUP BY a",
    "SELECT s, BIT_XOR(DISTINCT b) AS x, BIT_AND(DISTINCT b) AS y, BIT_XOR(b) AS z FROM r GROUP BY s",
    "SELECT s, VAR_POP(DISTINCT b) AS x, VAR_SAMP(DISTINCT b / 7) AS y, STDDEV(DISTINCT b) AS z, VAR_POP(b) AS w, "
    "STDDEV_POP(DISTINCT b) FILTER (WHERE a > 0) AS v FROM r GROUP BY s",
    "SELECT v, STDDEV_SAMP(DISTINCT b) AS x, SUM(DISTINCT id) AS y, COUNT(*) AS n FROM r JOIN u USING (a) GROUP BY v",
    "SELECT id, JULIAN(r.at) AS x, JULIAN(d) AS y, EXTRACT(JULIAN FROM r.at) AS z, DATE_PART('julian', d) AS w FROM r",
    "SELECT id, b::DOUBLE % (a - 1)::DOUBLE AS x, b // 2 AS y, b::DOUBLE // 2 AS z, SIGN(b - 1) AS w, "
    "SIGN('nan'::DOUBLE) + b AS v, 'inf'::DOUBLE % b AS u FROM r",
    "SELECT id, b, LAG(b) OVER (ORDER BY id, b) AS p, b - p AS diff FROM (SELECT DISTINCT id, b FROM r) AS q "
    "WHERE b IS NOT NULL QUALIFY diff IS NOT NULL",
    "SELECT id, b, LAG(b) OVER w AS p, RANK() OVER w AS n, NTILE(2) OVER w AS h, SUM(b) OVER w AS t FROM (SELECT "
    "DISTINCT id, b FROM r) AS q WINDOW w AS (ORDER BY id, b ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)",
)
OTHERS: tuple[tuple[str, str, str], ...] = (
    ("bigquery", "SELECT id, s IN UNNEST(tags) AS x, a NOT IN UNNEST([0, 7]) AS y FROM r",
     "SELECT id, s IN (SELECT UNNEST(tags)), a NOT IN (0, 7) FROM r"),
    ("bigquery", "SELECT a, ANY_VALUE(id * 10 HAVING MAX id) AS x, ANY_VALUE(b HAVING MIN b) AS y FROM r GROUP BY a",
     "SELECT a, MAX(id) * 10, MIN(b) FROM r GROUP BY a"),
    ("snowflake", "SELECT id, b, RATIO_TO_REPORT(b + 1) OVER (PARTITION BY a) AS x FROM r",
     "SELECT id, b, (b + 1) / NULLIF(SUM(b + 1) OVER (PARTITION BY a), 0) FROM r"),
    ("bigquery", "SELECT a, ARRAY_AGG(s ORDER BY id DESC, s LIMIT 2) AS l FROM r GROUP BY a",
     "SELECT a, list_slice(list(s ORDER BY id DESC, s NULLS FIRST), 1, 2) FROM r GROUP BY a"),
    ("bigquery", "SELECT a, ARRAY_AGG(b ORDER BY id DESC, b LIMIT 1)[OFFSET(0)] AS l FROM r GROUP BY a",
     "SELECT a, list(b ORDER BY id DESC, b NULLS FIRST)[1] FROM r GROUP BY a"),
    ("postgres", "SELECT a, ROUND(SUM(n) / SUM(m), 3)::float8 AS x, ROUND(SUM(SUM(n)) OVER () / 7, 3)::float8 AS y "
     "FROM (SELECT a, b, COUNT(*) AS n, COUNT(*) + 1 AS m FROM r GROUP BY a, b) t GROUP BY a",
     "SELECT a, ROUND(SUM(n) / SUM(m), 3), ROUND(SUM(SUM(n)) OVER () / 7, 3) "
     "FROM (SELECT a, b, COUNT(*) AS n, COUNT(*) + 1 AS m FROM r GROUP BY a, b) t GROUP BY a"),
    ("bigquery", "SELECT a, ARRAY_AGG(b IGNORE NULLS ORDER BY id, b) AS l, "
     "ARRAY_LENGTH(ARRAY_AGG(DISTINCT s IGNORE NULLS)) AS n FROM r GROUP BY a",
     "SELECT a, list(b ORDER BY id, b) FILTER (b IS NOT NULL), nullif(count(DISTINCT s), 0) FROM r GROUP BY a"),
    ("bigquery", "SELECT a, ARRAY_AGG(s IGNORE NULLS ORDER BY id, s LIMIT 1)[SAFE_OFFSET(0)] AS l FROM r GROUP BY a",
     "SELECT a, (list(s ORDER BY id, s) FILTER (WHERE s IS NOT NULL))[1] FROM r GROUP BY a"),
    ("bigquery", "SELECT a, ARRAY_AGG(STRUCT(s, b) ORDER BY id, s, b LIMIT 1)[OFFSET(0)].b AS l FROM r GROUP BY a",
     "SELECT a, list(b ORDER BY id, s NULLS FIRST, b NULLS FIRST)[1] FROM r GROUP BY a"),
    ("bigquery", "SELECT a, STRING_AGG(DISTINCT s, '|' ORDER BY s LIMIT 2) AS l FROM r GROUP BY a",
     "SELECT a, array_to_string(list_slice(list(DISTINCT s ORDER BY s) FILTER (WHERE s IS NOT NULL), 1, 2), '|') "
     "FROM r GROUP BY a"),
    ("postgres", "SELECT g::date AS day, COUNT(id) AS n FROM generate_series('2022-12-31'::timestamp, "
     "'2023-01-02'::timestamp, '1 day'::interval) AS g LEFT JOIN r ON r.d = g::date GROUP BY 1",
     "SELECT g::date AS day, COUNT(id) AS n FROM generate_series(TIMESTAMP '2022-12-31', TIMESTAMP '2023-01-02', "
     "INTERVAL 1 DAY) AS t(g) LEFT JOIN r ON r.d = g::date GROUP BY 1"),
    ("postgres", "SELECT x, i, id FROM UNNEST(ARRAY['b', 'a']) WITH ORDINALITY AS q(x, i) JOIN r ON r.s = x",
     "SELECT x, i, id FROM (VALUES ('b', 1), ('a', 2)) AS q(x, i) JOIN r ON r.s = x"),
    ("postgres", "SELECT id, g FROM r CROSS JOIN LATERAL generate_series(1, a) AS g",
     "SELECT id, UNNEST(generate_series(1, a)) FROM r"),
    ("bigquery", "SELECT x, COUNT(id) AS n FROM UNNEST(GENERATE_DATE_ARRAY('2022-12-31', '2023-01-02')) AS x "
     "LEFT JOIN r ON r.d = x GROUP BY x",
     "SELECT x::DATE, COUNT(id) FROM generate_series(DATE '2022-12-31', DATE '2023-01-02', INTERVAL 1 DAY) AS t(x) "
     "LEFT JOIN r ON r.d = x::DATE GROUP BY 1"),
    ("spark", "SELECT q.id, COUNT(r.a) AS n FROM RANGE(1, 4) AS q LEFT JOIN r ON r.id = q.id GROUP BY q.id",
     "SELECT x, COUNT(r.a) FROM range(1, 4) AS q(x) LEFT JOIN r ON r.id = q.x GROUP BY x"),
    ("spark", "SELECT x, id FROM EXPLODE(ARRAY(1, 2)) AS q(x) JOIN r ON r.a = x",
     "SELECT x, id FROM (VALUES (1), (2)) AS q(x) JOIN r ON r.a = x"),
    ("postgres", "SELECT id, s::jsonb #>> '{a,b,1}' AS x, jsonb_extract_path(s::jsonb, 'a', 'b', '1') AS y, "
     "s::json->'a'->'b'->>0 AS z FROM r WHERE s LIKE '{%'",
     "SELECT id, s->'$.a.b[1]'->>'$', s->'$.a.b[1]', s->>'$.a.b[0]' FROM r WHERE s LIKE '{%'"),
    ("snowflake", "SELECT s, COUNT_IF(b > 0) AS n, SUM(TO_NUMBER(b::string, 10, 2)) AS t FROM r GROUP BY s",
     "SELECT s, COUNT(*) FILTER (WHERE b > 0), SUM(b::DECIMAL(10, 2)) FROM r GROUP BY s"),
    ("snowflake", "SELECT id, f.value::INT AS v FROM r, TABLE(FLATTEN(OUTER => TRUE, INPUT => nums)) f",
     "SELECT id, x FROM r LEFT JOIN LATERAL (SELECT UNNEST(r.nums) AS x) AS q ON TRUE"),
    ("snowflake", "SELECT id, f.value AS v FROM r, LATERAL FLATTEN(PARSE_JSON(s), PATH => 'a.b', RECURSIVE => FALSE) f",
     "SELECT id, UNNEST([s->>'$.a.b[0]', s->>'$.a.b[1]']) FROM r WHERE s LIKE '{%'"),
    ("snowflake", "SELECT id, f.value AS v, f.index AS i FROM r, LATERAL FLATTEN(input => PARSE_JSON(s):a.b) f",
     "SELECT id, x, i - 1 FROM (SELECT id, UNNEST([s->>'$.a.b[0]', s->>'$.a.b[1]']) AS x, UNNEST([1, 2]) AS i FROM r "
     "WHERE s LIKE '{%')"),
    ("snowflake", "SELECT id, IS_NULL_VALUE(PARSE_JSON(x):a) AS n FROM (SELECT id, CASE a WHEN 0 THEN '{\"a\": null}' "
     "WHEN 1 THEN '{\"a\": \"null\"}' ELSE s END AS x FROM r) AS q",
     "SELECT id, CASE WHEN a = 0 THEN TRUE WHEN a = 1 OR s LIKE '{%' THEN FALSE END FROM r"),
    ("tsql", "SELECT id, CHOOSE(a, s, 'x', NULL, 'y') AS v, CHOOSE(a + 1, b, 2.5) AS w FROM r",
     "SELECT id, CASE a WHEN 1 THEN s WHEN 2 THEN 'x' END, CASE a WHEN 0 THEN b::DECIMAL(21, 1) WHEN 1 THEN 2.5 END "
     "FROM r"),
    ("snowflake", "SELECT a, COUNT(*) AS n FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY NULL) AS k FROM r) AS q "
     "WHERE k > 0 GROUP BY a", "SELECT a, COUNT(*) FROM r GROUP BY a"),
    ("snowflake", "SELECT id, '2024-02-29 10:00:00'::timestamp > r.at AS later FROM r",
     "SELECT id, TIMESTAMP '2024-02-29 10:00:00' > r.at FROM r"),
    ("spark", "SELECT NAMED_STRUCT('x', a, 'y', s) AS p, p.x + 1 AS x FROM r", "SELECT {'x': a, 'y': s}, a + 1 FROM r"),
    ("spark", "SELECT a AS k, (SELECT MAX(v) FROM u WHERE u.a = r.a) AS m, m + k AS t FROM r",
     "SELECT a, (SELECT MAX(v) FROM u WHERE u.a = r.a) AS m, (SELECT MAX(v) FROM u WHERE u.a = r.a) + a FROM r"),
    ("redshift", "SELECT id, NVL(a, b, 0) AS x FROM r", "SELECT id, COALESCE(a, b, 0) FROM r"),
    ("databricks", "SELECT a + 1 AS z, z * 2 AS y FROM r WHERE a > 0", "SELECT a + 1, (a + 1) * 2 FROM r WHERE a > 0"),
    ("snowflake", "SELECT a + 1 AS z, s FROM r WHERE z > 1 QUALIFY ROW_NUMBER() OVER (PARTITION BY z ORDER BY id) = 1",
     "SELECT a + 1, s FROM r WHERE a + 1 > 1 QUALIFY ROW_NUMBER() OVER "
     "(PARTITION BY a ORDER BY id, a, s NULLS FIRST) = 1"),
    ("tsql", "SELECT r.id, q.v FROM r OUTER APPLY (SELECT TOP 1 v FROM u WHERE u.a = r.a ORDER BY v DESC) AS q",
     "SELECT r.id, (SELECT MAX(v) FROM u WHERE u.a = r.a) FROM r"),
    ("oracle", "SELECT r.id, q.v, q.n FROM r OUTER APPLY (SELECT v, COUNT(*) AS n FROM u WHERE u.a = r.a GROUP BY v) q",
     "SELECT r.id, q.v, q.n FROM r LEFT JOIN (SELECT a, v, COUNT(*) AS n FROM u GROUP BY ALL) AS q ON q.a = r.a"),
    ("postgres", "SELECT r.id, q.k, q.x FROM r CROSS JOIN LATERAL (VALUES ('a', r.a), ('b', r.b + 1)) AS q(k, x) "
     "WHERE q.x IS NOT NULL", "SELECT id, 'a', a FROM r WHERE a IS NOT NULL UNION ALL SELECT id, 'b', b + 1 FROM r "
     "WHERE b IS NOT NULL"),
    ("tsql", "SELECT r.id, q.x FROM r CROSS APPLY (VALUES (r.a), (r.b)) AS q(x)",
     "SELECT id, a FROM r UNION ALL SELECT id, b FROM r"),
    ("spark", "SELECT r.id, col1, col2 FROM r, LATERAL (VALUES ('a', r.a), ('b', r.b)) AS q",
     "SELECT id, 'a', a FROM r UNION ALL SELECT id, 'b', b FROM r"),
    ("postgres", "SELECT id, (SELECT MAX(x) FROM (VALUES (a), (b), (1)) AS q(x)) AS m, (SELECT COUNT(DISTINCT x) FROM "
     "(VALUES (r.a), (r.b)) AS q(x)) AS n FROM r", "SELECT id, GREATEST(a, b, 1), (a IS NOT NULL)::INT + (b IS NOT "
     "NULL AND b IS DISTINCT FROM a)::INT FROM r"),
    ("postgres", "WITH q AS (VALUES (1, 'x'), (2, 'y')) SELECT id, column2 FROM q JOIN r ON r.a = column1",
     "SELECT id, CASE a WHEN 1 THEN 'x' ELSE 'y' END FROM r WHERE a IN (1, 2)"),
    ("snowflake", "SELECT id, q.column2 FROM r JOIN (VALUES (1, 'x'), (2, 'y')) AS q ON r.a = q.column1",
     "SELECT id, CASE a WHEN 1 THEN 'x' ELSE 'y' END FROM r WHERE a IN (1, 2)"),
    ("duckdb", "SELECT id, col1 FROM (VALUES (1, 'x'), (2, 'y')) JOIN r ON r.a = col0",
     "SELECT id, CASE a WHEN 1 THEN 'x' ELSE 'y' END FROM r WHERE a IN (1, 2)"),
    ("postgres", "SELECT id FROM r WHERE NOT EXISTS (SELECT FROM u WHERE u.a = r.a)",
     "SELECT id FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a)"),
    ("spark", "SELECT a, MAX_BY(b, STRUCT(s, id)) AS x, MIN_BY(s, NAMED_STRUCT('b', b, 'q', STRUCT(id, s))) AS y FROM "
     "r GROUP BY a", "SELECT a, list(b ORDER BY s DESC NULLS LAST, id DESC, b NULLS FIRST)[1], list(s ORDER BY b NULLS "
     "FIRST, id, s NULLS FIRST)[1] FROM r GROUP BY a"),
    ("duckdb", "SELECT a, arg_max(b, (s, id)) AS x, arg_min(id, {'b': b, 's': s}) AS y FROM r GROUP BY a",
     "SELECT a, list(b ORDER BY s DESC NULLS FIRST, id DESC, b) FILTER (b IS NOT NULL)[1], list(id ORDER BY b NULLS "
     "LAST, s NULLS LAST, id)[1] FROM r GROUP BY a"),
    ("duckdb", "SELECT a, list_sort(list({'s': s, 'b': b, 'id': id})) AS x, list_reverse_sort(list({'s': s, 'b': b})) "
     "AS y FROM r GROUP BY a", ""),
    ("spark", "SELECT a, TRANSFORM(ARRAY_SORT(COLLECT_LIST(STRUCT(s, id, b))), x -> x.b) AS l FROM r GROUP BY a",
     "SELECT a, list(b ORDER BY s NULLS FIRST, id, b NULLS FIRST) FROM r GROUP BY a"),
    ("postgres", "SELECT id, s COLLATE \"C\" < 'b' AS x, to_timestamp(floor(extract(epoch from r.at) / 900) * 900) AS "
     "t FROM r", "SELECT id, s < 'b', to_timestamp(floor(epoch(r.at) / 900) * 900) FROM r"),
    ("snowflake", "SELECT a, LISTAGG(s, '/') WITHIN GROUP (ORDER BY s) AS l, ARRAY_SIZE(PARSE_JSON(MAX(s)):a.b) AS n "
     "FROM r GROUP BY a", "SELECT a, COALESCE(string_agg(s, '/' ORDER BY s), ''), CASE WHEN MAX(s) LIKE '{%' THEN 2 "
     "END FROM r GROUP BY a"),
    *((dialect, f"SELECT x.id, y.id AS i, {compared} AS c FROM r AS x JOIN r AS y ON x.id < y.id", oracle and "SELECT "
       f"x.id, y.id AS i, {oracle} AS c FROM r AS x JOIN r AS y ON x.id < y.id") for dialect, compared, oracle in (
        ("duckdb", "(x.a, x.s) = (y.a, y.s)", ""), ("duckdb", "(x.a, x.s) <> (y.a, y.s)", ""),
        ("duckdb", "(x.a, x.s, x.b) < (y.a, y.s, y.b)", ""), ("duckdb", "(x.a, x.s) >= (y.a, y.s)", ""),
        ("spark", "(x.a, x.s) = (y.a, y.s)", "(x.a, x.s) = (y.a, y.s)"),
        ("spark", "(x.a, x.s, x.b) <= (y.a, y.s, y.b)", "(x.a IS NOT NULL, x.a, x.s IS NOT NULL, x.s, x.b IS NOT NULL, "
         "x.b) <= (y.a IS NOT NULL, y.a, y.s IS NOT NULL, y.s, y.b IS NOT NULL, y.b)"),
        ("postgres", "(x.a, x.s) = (y.a, y.s)", "x.a = y.a AND x.s = y.s"),
        ("mysql", "(x.a, x.s) <> (y.a, y.s)", "x.a <> y.a OR x.s <> y.s"),
        ("postgres", "(x.a, x.s, x.b) > (y.a, y.s, y.b)",
         "x.a > y.a OR (x.a = y.a AND (x.s > y.s OR (x.s = y.s AND x.b > y.b)))"),
        ("postgres", "(x.a, x.s) <= (y.a, y.s)", "x.a < y.a OR (x.a = y.a AND x.s <= y.s)"),
        ("postgres", "(x.a, x.s) IS DISTINCT FROM (y.a, y.s)", "(x.a, x.s) <> (y.a, y.s)"),
        ("snowflake", "(x.a, x.s) IS NOT DISTINCT FROM (y.a, y.s)", "(x.a, x.s) = (y.a, y.s)"))),
    ("snowflake", "SELECT id, GREATEST_IGNORE_NULLS(a, b) AS g, LEAST_IGNORE_NULLS(a, b) AS l FROM r",
     "SELECT id, GREATEST(a, b), LEAST(a, b) FROM r"),
    ("duckdb", "SELECT s, SUM(p) AS n, SUM(q OR p) FILTER (p IS NOT NULL) AS m FROM (SELECT s, a > b AS p, b = 1 AS q "
     "FROM r) GROUP BY s", ""),
    ("mysql", "SELECT id, SUM(p) OVER (PARTITION BY s) AS n FROM (SELECT id, s, a > b AS p FROM r) AS q",
     "SELECT id, SUM((a > b)::INT) OVER (PARTITION BY s) FROM r"),
    ("duckdb", "SELECT id, (SELECT SUM(x > 1) FROM UNNEST(nums) AS q(x)) AS n FROM r", ""),
    ("oracle",
     "SELECT r.id, x.v, y.v AS w FROM r, u x, u y WHERE r.a = x.a(+) AND x.v(+) > 0 AND y.a(+) = x.v AND r.id < 3",
     "SELECT r.id, x.v, y.v FROM r LEFT JOIN u AS x ON r.a = x.a AND x.v > 0 LEFT JOIN u AS y ON y.a = x.v WHERE r.id "
     "< 3"),
    ("tsql", "SELECT r.id, x.v, y.a FROM r, u AS x RIGHT JOIN u AS y ON x.v = y.a WHERE r.id < 3",
     "SELECT r.id, x.v, y.a FROM r CROSS JOIN (u AS x RIGHT JOIN u AS y ON x.v = y.a) WHERE r.id < 3"),
    ("redshift", "SELECT u.v, COUNT(r.id) AS n FROM r, u WHERE r.a(+) = u.a GROUP BY u.v",
     "SELECT u.v, COUNT(r.id) FROM u LEFT JOIN r ON r.a = u.a GROUP BY u.v"),
    ("oracle", "SELECT s, MAX(b) KEEP (DENSE_RANK FIRST ORDER BY a DESC NULLS LAST) AS f, MIN(b) KEEP (DENSE_RANK LAST "
     "ORDER BY id, a NULLS FIRST) AS l FROM r GROUP BY s",
     "SELECT s, MAX(b) FILTER (n = 1), MIN(b) FILTER (m = 1) FROM (SELECT s, b, DENSE_RANK() OVER (PARTITION BY s "
     "ORDER BY a DESC NULLS LAST) AS n, DENSE_RANK() OVER (PARTITION BY s ORDER BY id DESC, a DESC NULLS LAST) AS m "
     "FROM r) GROUP BY s"),
    ("tsql", "SELECT id, CAST(a AS FLOAT) / 2 AS x FROM r", "SELECT id, a / 2 FROM r"),
    ("tsql", "SELECT s, AVG(a) AS x, AVG(DISTINCT b) AS y, AVG(a * 1.0) AS z FROM r GROUP BY s",
     "SELECT s, CAST(TRUNC(AVG(a)) AS BIGINT), CAST(TRUNC(AVG(DISTINCT b)) AS BIGINT), AVG(a) FROM r GROUP BY s"),
    ("redshift", "SELECT id, AVG(b) OVER (PARTITION BY s) AS x, AVG(b) OVER (ORDER BY id ROWS 2 PRECEDING) AS y FROM r",
     "SELECT id, CAST(TRUNC(AVG(b) OVER (PARTITION BY s)) AS BIGINT), CAST(TRUNC(AVG(b) OVER (ORDER BY id ROWS 2 "
     "PRECEDING)) AS BIGINT) FROM r"),
    ("tsql", "SELECT id, m = (SELECT MAX(v) FROM u), CAST(REPLICATE(s, 40) AS VARCHAR) AS x, CONVERT(NVARCHAR, "
     "REPLICATE(s, 40)) AS y, CAST(b AS NVARCHAR) AS z, s COLLATE Latin1_General_BIN2 AS w, NULL AS n FROM r",
     "SELECT id, (SELECT MAX(v) FROM u), LEFT(REPEAT(s, 40), 30), LEFT(REPEAT(s, 40), 30), b::VARCHAR, s, NULL::INT "
     "FROM r"),
    ("fabric", "SELECT s, AVG(b) AS x FROM r GROUP BY s",
     "SELECT s, CAST(TRUNC(AVG(b)) AS BIGINT) FROM r GROUP BY s"),
    ("dune", "SELECT id, CAST(b / 2.0 AS BIGINT) AS x, GREATEST(a, b) AS y FROM r WHERE 0x61 = CAST(s AS VARBINARY)",
     "SELECT id, CAST(TRUNC(b / 2 + SIGN(b) * 0.5) AS BIGINT), IF(a IS NULL OR b IS NULL, NULL, GREATEST(a, b)) FROM r "
     "WHERE s = 'a'"),
    ("postgres", "SELECT s, LAST(a, b) AS x, FIRST(a, id) AS y FROM (SELECT DISTINCT * FROM r WHERE b IS NOT NULL) AS "
     "q GROUP BY s",
     "SELECT s, ARG_MAX_NULL(a, (b, -COALESCE(a, -99))), ARG_MIN_NULL(a, (id, COALESCE(a, -99))) FROM (SELECT DISTINCT "
     "* FROM r WHERE b IS NOT NULL) GROUP BY s"),
    ("postgres", "SELECT id, MAKE_TIMESTAMPTZ(2024, 3, 31, 12, 0, 0, 'Europe/Berlin') - INTERVAL '12 hours' AS t FROM "
     "r",
     "SELECT id, TIMESTAMPTZ '2024-03-30 22:00:00+00' FROM r"),
    ("postgres", "SELECT id, date_trunc('month', r.at) + INTERVAL '1 month - 1 day' AS e, r.at - INTERVAL '- 2 hours' "
     "AS h FROM r", "SELECT id, last_day(r.at)::TIMESTAMP, r.at + INTERVAL 2 HOUR FROM r"),
    ("postgres", "SELECT id, x LIKE '%\\_a' AS p, x NOT LIKE '%\\__%' ESCAPE '\\' AS q FROM (SELECT id, s || '_' || s "
     "AS x FROM r) AS q",
     "SELECT id, suffix(x, '_a'), NOT regexp_matches(x, '_.') FROM (SELECT id, s || '_' || s AS x FROM r)"),
    ("postgres", "SELECT id, ((s)::jsonb ->> 'a'::text) AS x, ((s)::json #>> '{a,b,1}'::text[]) AS y, to_char(r.at, "
     "'YYYY-MM'::text) AS z, date_part('year'::text, d) AS w, \"position\"(s, 'b'::text) AS p FROM r WHERE (s ~~ "
     "'{%'::text)",
     "SELECT id, s->>'$.a', s->>'$.a.b[1]', strftime(r.at, '%Y-%m'), year(d), instr(s, 'b') FROM r WHERE s LIKE '{%'"),
    ("postgres", "SELECT s, string_agg((id)::text, ','::text ORDER BY id) AS x, percentile_cont((0.5)::double "
     "precision) WITHIN GROUP (ORDER BY ((b)::double precision)) AS y FROM ONLY r GROUP BY s",
     "SELECT s, string_agg(id::VARCHAR, ',' ORDER BY id), median(b) FROM r GROUP BY s"),
    ("postgres", "SELECT id, \"position\"(s, 'b'::text) AS p, POSITION(('b'::text) IN (s)) AS q, (s)::bpchar AS c FROM "
     "r",
     "SELECT id, instr(s, 'b'), instr(s, 'b'), s FROM r"),
    ("postgres", "SELECT id, r.at - '1 day 01:30:00'::interval AS x, r.at + INTERVAL '-00:00:01.5' AS y, d + "
     "'10:00'::interval AS z FROM r",
     "SELECT id, r.at - INTERVAL 1530 MINUTE, r.at - INTERVAL 1500 MILLISECOND, d + INTERVAL 10 HOUR FROM r"),
    ("postgres", "SELECT a, b AS z, GROUPING(r.a) AS x, GROUPING(z, A) AS y, COUNT(*) AS n FROM r GROUP BY ROLLUP (a, "
     "2)", "SELECT a, b, GROUPING(a), GROUPING(b, a), COUNT(*) FROM r GROUP BY ROLLUP (a, b)"),
    ("postgres", "SELECT a, b, GROUPING(a) AS x, GROUPING((b + 1)) AS y FROM r GROUP BY GROUPING SETS ((a), (r.a, b), "
     "(b, (b + 1)), ())",
     "SELECT a, b, GROUPING(a), GROUPING(b + 1) FROM r GROUP BY GROUPING SETS ((a), (a, b), (b, b + 1), ())"),
    ("postgres", "SELECT id FROM r WHERE (a, b) = (SELECT MAX(u.a), MIN(v) FROM u WHERE u.a >= r.a) OR (a, 1) <> "
     "(SELECT MIN(v), COUNT(*) FROM u)",
     "SELECT id FROM r WHERE (a = (SELECT MAX(u.a) FROM u WHERE u.a >= r.a) AND b = (SELECT MIN(v) FROM u WHERE u.a >= "
     "r.a)) OR a <> (SELECT MIN(v) FROM u) OR 1 <> (SELECT COUNT(*) FROM u)"),
    ("flink", "SELECT s, LISTAGG(s) AS l, AVG(a) AS m, AVG(DISTINCT b) AS d, SUM(b) / COUNT(*) AS q FROM r GROUP BY s",
     "SELECT s, string_agg(s, ',' ORDER BY s), trunc(avg(a))::BIGINT, trunc(avg(DISTINCT b))::BIGINT, SUM(b)::BIGINT "
     "// COUNT(*) FROM r GROUP BY s"),
    ("tsql", "SELECT s, [0] AS x, [2] AS y FROM (SELECT s, a, b FROM r) AS q PIVOT (SUM(b) FOR a IN ([0], [2])) AS p",
     "SELECT s, SUM(b) FILTER (a = 0), SUM(b) FILTER (a = 2) FROM r GROUP BY s"),
    ("tsql", "SELECT a, [b] AS x, y FROM (SELECT s, a, id FROM r) AS q PIVOT (COUNT(id) FOR s IN ([b], y)) AS p",
     "SELECT a, COUNT(id) FILTER (s = 'b'), COUNT(id) FILTER (s = 'y') FROM r GROUP BY a"),
    ("tsql", "SELECT r.id, u.v FROM r WITH (NOLOCK) LEFT JOIN u WITH (NOLOCK, INDEX(i)) ON r.a = u.a",
     "SELECT r.id, u.v FROM r LEFT JOIN u ON r.a = u.a"),
    ("snowflake", "SELECT id, TIME_SLICE(r.at, 15, 'MINUTE', 'END') AS t FROM r",
     "SELECT id, time_bucket(INTERVAL 15 MINUTE, r.at) + INTERVAL 15 MINUTE FROM r"),
)  # fmt: skip


CASES = [*(("duckdb", query, "") for query in DUCKDB), *OTHERS]


@pytest.mark.parametrize("seed", seeds(1, 9))
@pytest.mark.parametrize(("dialect", "query", "oracle"), CASES)
def test_the_result_is_that_of_duckdb_after_every_batch(dialect: str, query: str, oracle: str, seed: int) -> None:
    check(dialect, query, oracle, seed)


@pytest.mark.parametrize(
    ("condition", "stages"),
    [("r.a % 3 = u.v", 2), ("r.a % 3 = u.v + 1", 3), ("r.a = u.a AND r.b % 3 = u.v", 1), ("r.a < u.v", 2)],
)
def test_computed_values_are_keys_where_nothing_else_ties_two_tables(condition: str, stages: int) -> None:
    assert len(program(f"SELECT id, v FROM r JOIN u ON {condition}", SCHEMA).stages) == stages


def test_a_join_that_is_read_several_times_is_kept_before_its_relations_double_too_often() -> None:
    """1024 relations if it were flattened, of which 60 are possible."""
    for distinct in ("", "DISTINCT "):
        made = program(levels(10, distinct), SCHEMA)
        assert [note for note in made.notes if "so it is a separate stage" in note] == [
            f"q{level} joins 8 relations and is read 2 times, so it is a separate stage" for level in (9, 6, 3)
        ]
        assert not [note for note in program(levels(3, distinct), SCHEMA).notes if "so it is a separate stage" in note]


@pytest.mark.parametrize(
    ("dialect", "query", "message"),
    [
        ("spark", "SELECT a + 1 AS z FROM r WHERE z > 1", "unknown column z"),
        ("spark", "SELECT z * 2 AS y, a + 1 AS z FROM r", "unknown column z"),
        ("spark", "SELECT a AS z, b AS z, z + 1 AS y FROM r", "z is the name of 2 selected columns"),
        ("duckdb", "SELECT SUM(a) AS z FROM r WHERE z > 1", "the aggregate SUM is not allowed in WHERE"),
        ("spark", "SELECT a AS z, (SELECT MAX(v) FROM u WHERE u.a = z) AS m FROM r", "unknown column z"),
        (
            "bigquery",
            "SELECT ARRAY_AGG(s LIMIT a) AS l FROM r",
            "LIMIT of ARRAY_AGG takes a whole number up to 2147483647",
        ),
        ("duckdb", "SELECT a, b AS A FROM r UNION BY NAME SELECT v FROM u", "two output columns are called A"),
        ("snowflake", "SELECT id FROM r, LATERAL FLATTEN(s, MODE => 'ARRAY')", "FLATTEN with MODE is not supported"),
        ("snowflake", "SELECT RATIO_TO_REPORT(b) FROM r", "RATIO_TO_REPORT is not supported"),
        ("duckdb", "SELECT COLUMNS('zzz') FROM r", "no column has this name"),
        ("duckdb", "SELECT COLUMNS('a') + COLUMNS('b') FROM r", "several COLUMNS in one expression are not supported"),
        (
            "duckdb",
            "SELECT COLUMNS('(') FROM r",
            "COLUMNS: '(' is not a pattern (missing ), unterminated subpattern at position 0)",
        ),
        ("duckdb", "SELECT COLUMNS(lambda c: a = c) FROM r", "COLUMNS tests names, not the column a"),
        ("duckdb", "SELECT COALESCE(*COLUMNS('a')) FROM r", "several COLUMNS in one expression are not supported"),
        ("duckdb", "SELECT COLUMNS(lambda c: c) FROM r", "COLUMNS takes a condition on the name of a column"),
        ("duckdb", "SELECT a[1:2] FROM r", "LIST_SLICE needs an array, not a value of type int64"),
        (
            "duckdb",
            "SELECT unnest(nums) + unnest(nums) FROM r",
            "a SELECT can have only one call that returns several rows",
        ),
        (
            "duckdb",
            "SELECT MAX(unnest(nums)) FROM r",
            "a call that returns several rows cannot be combined with groups",
        ),
        ("duckdb", "PIVOT r ON a USING SUM(b)", "PIVOT without a list of values is not supported"),
        (
            "duckdb",
            "SELECT id FROM UNNEST([r.a]) AS q(x), r",
            "UNNEST without a table before it in FROM is not supported",
        ),
        (
            "postgres",
            "SELECT q.k FROM r, LATERAL (VALUES (1, r.a), (2)) AS q(k)",
            "this row of VALUES has 1 columns, the first one has 2",
        ),
        ("postgres", "SELECT q.k FROM (VALUES (r.id)) AS q(k), r", "VALUES takes constants, not the column id"),
        (
            "spark",
            "SELECT id FROM r WHERE r.at > TIMESTAMP '2024-01-01' - INTERVAL 'about 2 hours'",
            "'about 2 hours' is not an INTERVAL",
        ),
        ("postgres", "SELECT id FROM r WHERE (a, b) < (1, 2, 3)", "a row of values (...) is not supported"),
        (
            "oracle",
            "SELECT r.id FROM r, u WHERE r.a = u.a(+) OR r.b = 1",
            "(+) marks the columns of one table of FROM in a condition without OR",
        ),
        (
            "oracle",
            "SELECT r.id FROM r JOIN u ON r.a = u.a WHERE r.b = u.v(+)",
            "(+) is for conditions in WHERE of tables with commas between them",
        ),
        (
            "oracle",
            "SELECT r.id FROM r, u WHERE r.a(+) = u.a AND r.b = u.v(+)",
            "(+) marks tables that are joined with each other",
        ),
        (
            "oracle",
            "SELECT * FROM r, u WHERE r.a(+) = u.a",
            "* of a table that (+) joins with a later one is not supported",
        ),
        (
            "oracle",
            "SELECT SUM(a) KEEP (DENSE_RANK FIRST ORDER BY b) AS x FROM r",
            "KEEP (DENSE_RANK ...) takes MAX or MIN of one value",
        ),
        ("postgres", "SELECT FROM r", "SQL: there is no column after this word"),
        ("duckdb", "SELECT 0x1F AS x FROM r", "SQL: 0x1F is not a number that is supported"),
        (
            "duckdb",
            "SELECT r.id FROM r, LATERAL (SELECT v FROM u WHERE u.a = r.a) AS q RIGHT JOIN u ON q.v = u.a",
            "a comma before this relation and a RIGHT JOIN after it are not supported",
        ),
        ("trino", "SELECT NULL AS x FROM r", "output column x is NULL without a type"),
        ("postgres", "CREATE VIEW v AS SELECT a FROM r", "CREATE is not a query that can be maintained"),
        (
            "spark",
            "MERGE INTO r USING u ON r.a = u.a WHEN MATCHED THEN DELETE",
            "MERGE is not a query that can be maintained",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(dialect: str, query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA, dialect=dialect)
    assert caught.value.message == message
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("dialect", "query", "instead"),
    [
        ("spark", "SELECT REGEXP_MATCH(s, 'a') AS m FROM r", "write REGEXP_EXTRACT"),
        ("postgres", "SELECT REGEXP_MATCHES(s, 'a') AS m FROM r", "write REGEXP_MATCH"),
        ("postgres", "SELECT REGEXP_MATCH(s, 'a(b)?') AS m FROM r", "write REGEXP_EXTRACT"),
        ("postgres", "SELECT PG_TYPEOF(s) AS m FROM r", "write the name of the type"),
        ("postgres", "SELECT ROW(id, s) AS m FROM r", r"write STRUCT\(a, b\)"),
        ("trino", "SELECT MAP_AGG(id, s) AS m FROM r", r"write MAP_FROM_ENTRIES\(ARRAY_AGG\(STRUCT\(k, v\)\)\)"),
        ("sqlite", "SELECT e.key FROM r, JSON_EACH(s) AS e", r"write UNNEST\(JSON_MEMBERS\(js\)\) AS e\(key, value\)"),
        ("spark", "SELECT e.key FROM r, LATERAL VARIANT_EXPLODE(s) AS e", r"write UNNEST\(JSON_MEMBERS"),
        ("spark", "SELECT key FROM r LATERAL VIEW VARIANT_EXPLODE(s) e AS pos, key, value", r"write UNNEST\(JSON_MEM"),
        ("spark", "SELECT CURRENT_DATE('Asia/Tokyo') AS d FROM r", r"write CAST\(FROM_UTC_TIMESTAMP\(NOW\(\), zone\)"),
        ("tsql", "SELECT at AT TIME ZONE 'Tokyo Standard Time' AS t FROM r", "write FROM_UTC_TIMESTAMP"),
        (
            "spark",
            "SELECT CAST(STRUCT(a, s) AS STRUCT<s: STRING, a: STRING>) AS t FROM r",
            "make the value of its parts",
        ),
        ("sqlite", "SELECT e.key FROM r, JSON_TREE(s) AS e", r"write UNNEST\(JSON_MEMBERS"),
        ("duckdb", "SELECT UNNEST([nums], recursive := true) AS n FROM r", r"write UNNEST\(FLATTEN\(x\)\)"),
        ("duckdb", "SELECT id FROM r WHERE s COLLATE NOCASE = 'a'", r"compare LOWER\(x\) to ignore case"),
        ("tsql", "SELECT id FROM r FOR XML PATH('')", r"write STRING_AGG\(x, ','\)"),
        ("snowflake", "SELECT TYPEOF(PARSE_JSON(s)) AS t FROM r", r"JSON_KIND\(js\) returns the type of JSON"),
    ],
)
def test_a_form_that_is_refused_says_what_to_write_instead(dialect: str, query: str, instead: str) -> None:
    with pytest.raises(PlanError, match=rf"(not supported|too many arguments)(.|\n)*hint: .*{instead}"):
        program(query, SCHEMA, dialect=dialect)
