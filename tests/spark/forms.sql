SELECT a + 1 AS z, z * 2 AS y, y - z AS x FROM r
SELECT a, SUM(b) AS s, s + COUNT(*) AS t FROM r GROUP BY a
SELECT a AS k, (SELECT MAX(v) FROM t WHERE t.k = r.a) AS m, m + k AS w FROM r
SELECT x, b FROM EXPLODE(ARRAY(1, 2)) AS q(x) JOIN r ON r.a = x
SELECT q.id, COUNT(r.a) AS n FROM RANGE(1, 4) AS q LEFT JOIN r ON r.a = q.id GROUP BY q.id
SELECT * EXCEPT (b) FROM s
SELECT r.* EXCEPT (a), s.c FROM r JOIN s ON r.b = s.b
SELECT id, x FROM n LATERAL VIEW EXPLODE(tags) q AS x
SELECT id, i, x FROM n LATERAL VIEW OUTER POSEXPLODE(tags) q AS i, x WHERE x > 0 OR x IS NULL
SELECT id, EXPLODE_OUTER(tags) AS x FROM n
SELECT n.id, q.x FROM n, LATERAL EXPLODE(n.tags) AS q(x)
SELECT n.id, q.m FROM n LEFT JOIN LATERAL (SELECT MAX(k) AS m FROM t WHERE t.v = n.id) q
SELECT * FROM (SELECT a, b FROM r) PIVOT (SUM(b) AS s, COUNT(*) AS n FOR a IN (0, 1 AS one))
SELECT * FROM (SELECT c, b FROM s) PIVOT (MAX(b) FOR c IN ('p', 'q', 'ü'))
SELECT * FROM (SELECT k, v, k + 1 AS w FROM t) UNPIVOT (x FOR name IN (v, w AS other))
SELECT * FROM (SELECT k, v, k + 1 AS w FROM t) UNPIVOT INCLUDE NULLS (x FOR name IN (v, w))
SELECT a, SORT_ARRAY(COLLECT_LIST(b)) AS l, SORT_ARRAY(COLLECT_SET(b)) AS s, SIZE(ARRAY_AGG(b)) AS n FROM r GROUP BY a
SELECT id, REDUCE(tags, 0L, (acc, x) -> acc + COALESCE(x, 0L)) AS s, AGGREGATE(tags, 0L, (acc, x) -> acc + x, acc -> acc * 2) AS d FROM n
SELECT id, TRANSFORM(tags, x -> x + id) AS t, FILTER(tags, x -> x > 1) AS f, EXISTS(tags, x -> x = 2) AS e, FORALL(tags, x -> x > 0) AS g FROM n
SELECT id, TRANSFORM(tags, (x, i) -> x * i) AS t FROM n
SELECT session_window(at, '1 hour').start AS w, COUNT(*) AS n FROM e GROUP BY session_window(at, '1 hour')
SELECT session_window.start AS w, session_window.end AS e, flag, COUNT(*) AS n FROM e GROUP BY session_window(at, '2 hours'), flag
SELECT window(at, '1 hour').start AS w, COUNT(*) AS n FROM e GROUP BY window(at, '1 hour')
SELECT window.start AS w, window.end AS x, SUM(id) AS n FROM e GROUP BY window(at, '2 hours', '1 hour')
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b < r.b)
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b >= r.b AND s.c <> 'p')
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b <> r.b)
WITH q0 AS (SELECT a, b FROM r), q1 AS (SELECT DISTINCT x.a, y.b FROM q0 x JOIN q0 y ON x.b = y.a), q2 AS (SELECT DISTINCT x.a, y.b FROM q1 x JOIN q1 y ON x.b = y.a) SELECT DISTINCT x.a, y.b FROM q2 x JOIN q2 y ON x.b = y.a
SELECT NAMED_STRUCT('x', a, 'y', b) AS p, p.x + 1 AS x FROM r
SELECT box.* FROM n
SELECT box.m, COUNT(*) AS c FROM n GROUP BY box.m
SELECT id, STRUCT(id, box.s) AS t, ARRAY(id, box.m) AS l, MAP('a', id) AS m FROM n
SELECT box, COUNT(*) AS c FROM n GROUP BY box
SELECT tags, COUNT(*) AS c FROM n GROUP BY tags
SELECT a, b, SUM(1) AS n, GROUPING(a) AS g, GROUPING_ID(a, b) AS i FROM r GROUP BY ROLLUP (a, b)
SELECT a, b, COUNT(*) AS n, GROUPING_ID() AS i FROM r GROUP BY GROUPING SETS ((a), (b), ())
SELECT a, b, COUNT(*) AS n FROM r GROUP BY a, b WITH CUBE
SELECT STACK(2, 'a', a, 'b', b) AS (name, v) FROM r
SELECT id, JSON_TUPLE('{"a":1,"b":"x"}', 'a', 'b') AS (x, y) FROM n
SELECT id, GET_JSON_OBJECT(box.s, '$.a') AS x, TO_JSON(box) AS j, FROM_JSON('{"a":1}', 'a INT').a AS i FROM n
SELECT a FROM r WHERE (a, b) IN (SELECT k, v FROM t)
SELECT a FROM r WHERE (a, b) NOT IN (SELECT k, v FROM t WHERE v IS NOT NULL)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s)
SELECT a, a IN (SELECT b FROM s WHERE b IS NOT NULL) AS x FROM r
FROM r |> WHERE a > 1 |> SELECT a, b + 1 AS c
FROM r |> AGGREGATE SUM(b) AS s GROUP BY a |> WHERE s > 2
FROM r SELECT a, b WHERE a > 1
SELECT * FROM r NATURAL JOIN s
SELECT * FROM r JOIN s USING (b)
SELECT * FROM r FULL JOIN s USING (b)
SELECT * FROM r LEFT SEMI JOIN s ON r.b = s.b
SELECT * FROM r ANTI JOIN s ON r.b = s.b AND s.c = 'p'
SELECT * FROM r RIGHT JOIN t ON r.a = t.k AND t.v > 1
SELECT * FROM r MINUS SELECT k, v FROM t
SELECT a FROM r INTERSECT ALL SELECT b FROM s
SELECT a FROM r EXCEPT ALL SELECT b FROM s
SELECT a FROM r UNION SELECT x FROM u
SELECT a, x FROM u UNION ALL SELECT a, b FROM r
SELECT TRY_ADD(a, b) AS x, TRY_DIVIDE(a, b) AS y, TRY_SUBTRACT(a, b) AS z, TRY_MULTIPLY(a, b) AS w, TRY_MOD(a, b) AS v FROM r
SELECT DATEADD(MONTH, 1, day) AS a, TIMESTAMPDIFF(HOUR, TIMESTAMP_NTZ '2024-01-01 00:00:00', at) AS b, DATE_DIFF(DAY, day, DATE '2024-03-01') AS c FROM e
SELECT EXTRACT(YEAR FROM day) AS a, EXTRACT(QUARTER FROM at) AS b, DATE_PART('week', day) AS c, EXTRACT(DOW FROM day) AS d, EXTRACT(SECOND FROM at) AS f FROM e
SELECT at + INTERVAL '1' DAY AS a, day + INTERVAL 1 MONTH AS b, at - TIMESTAMP_NTZ '2024-01-01 00:00:00' AS c, day - DATE '2024-01-01' AS d, MAKE_DATE(2024, 1, 31) AS f FROM e
SELECT DATE_TRUNC('week', at) AS a, TRUNC(day, 'MM') AS b, DATE_FORMAT(at, 'yyyy-MM-dd HH:mm') AS c, LAST_DAY(day) AS d, NEXT_DAY(day, 'MON') AS f FROM e
SELECT UNIX_TIMESTAMP(at) AS a, TO_UNIX_TIMESTAMP(at) AS b, FROM_UNIXTIME(id) AS c, UNIX_DATE(day) AS d, DATE_FROM_UNIX_DATE(id) AS f FROM e
SELECT DECODE(a, 1, 'x', 2, 'y', 'z') AS d, NVL2(a, b, 0) AS n, IFNULL(a, b) AS i, IF(a > 1, 'p', 'q') AS f, NULLIF(a, b) AS l, COALESCE(a, b, 7) AS c, ZEROIFNULL(a) AS z, NULLIFZERO(b) AS y FROM r
SELECT c, ASCII(c) AS a, CHR(65) AS b, HEX(c) AS d, BASE64(ENCODE(c, 'UTF-8')) AS f, SHA2(c, 256) AS g, CRC32(c) AS h, LEVENSHTEIN(c, 'p') AS i, FORMAT_STRING('%s-%d', c, b) AS j FROM s
SELECT PERCENTILE(b, 0.5) AS a, PERCENTILE_APPROX(b, ARRAY(0.25, 0.5)) AS p, MEDIAN(b) AS m, MODE(a) AS o FROM r
SELECT a, STDDEV(b) AS s, VAR_POP(b) AS v, CORR(a, b) AS c, COVAR_SAMP(a, b) AS d, REGR_SLOPE(a, b) AS f FROM r GROUP BY a
SELECT MAX_BY(c, b) AS m, MIN_BY(c, b) AS n, ANY_VALUE(b) IS NULL AS o FROM s WHERE c = 'p'
SELECT a, COUNT(DISTINCT b) AS n, SUM(DISTINCT b) AS s, COUNT(*) FILTER (WHERE b > 1) AS f, COUNT_IF(b > 1) AS c FROM r GROUP BY a HAVING COUNT(*) > 1
SELECT a FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(k) FROM t)
SELECT CASE WHEN EXISTS (SELECT 1 FROM s WHERE s.b = r.b) THEN 'y' ELSE 'n' END AS x, a FROM r
SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM r QUALIFY n = 1
SELECT a, b, SUM(b) OVER (ORDER BY a NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM r
SELECT id, at, COUNT(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS n FROM e
SELECT at, day, flag, COUNT(*) AS n FROM e GROUP BY ALL ORDER BY ALL
SELECT a, b FROM r ORDER BY a NULLS LAST, b NULLS LAST LIMIT 2 OFFSET 1
SELECT DISTINCT a, b FROM r ORDER BY b DESC NULLS LAST, a NULLS LAST LIMIT 3
SELECT a <=> b AS x, a != b AS y, NOT a = b AS z, a BETWEEN b AND 3 AS w, a DIV 2 AS v, -a % 2 AS m, a & 1 AS bit, a | b AS o, ~a AS inv, a ^ b AS xo FROM r
SELECT x, FLOOR(x) AS f, CEIL(x) AS c, ROUND(x, 1) AS r, SIGN(x) AS s, SQRT(ABS(x)) AS q, ISNAN(x) AS n, GREATEST(x, 1.0) AS g, LEAST(a, 1) AS l, CAST(x AS STRING) AS t FROM u
SELECT id, tags[0] AS a, ELEMENT_AT(tags, 1) AS b, SIZE(tags) AS c, ARRAY_CONTAINS(tags, 1) AS d, ARRAY_DISTINCT(tags) AS f, ARRAY_MAX(tags) AS g, SORT_ARRAY(tags, FALSE) AS h, ARRAY_POSITION(tags, 2) AS i, SLICE(tags, 1, 1) AS j, FLATTEN(ARRAY(tags, tags)) AS k, ARRAY_UNION(tags, ARRAY(9L)) AS l, ARRAY_EXCEPT(tags, ARRAY(1L)) AS m, REVERSE(tags) AS o, ARRAY_REMOVE(tags, 1L) AS p, ARRAY_COMPACT(tags) AS q, SEQUENCE(1, 3) AS s FROM n WHERE SIZE(tags) > 0
SELECT MAP_KEYS(m) AS k, MAP_VALUES(m) AS v, m['a'] AS x, MAP_CONTAINS_KEY(m, 'b') AS y, SIZE(m) AS z FROM (SELECT MAP('a', a, 'b', b) AS m FROM r)
SELECT id, MAP_FILTER(MAP('a', id), (k, v) -> v > 1) AS f, TRANSFORM_VALUES(MAP('a', id), (k, v) -> v + 1) AS t, MAP_FROM_ARRAYS(ARRAY('a'), ARRAY(id)) AS g, MAP_ENTRIES(MAP('a', id)) AS h FROM n
SELECT TIMESTAMP '2024-01-01 00:00:00' > CAST(at AS TIMESTAMP) AS x, CAST(at AS STRING) AS y, CAST(day AS TIMESTAMP) AS z, CAST(id AS STRING) || 'x' AS w FROM e
SELECT typeof(a) AS t, a::STRING AS s, b :: DOUBLE AS d FROM r
SELECT a, LAG(b, 1, 0) OVER w AS l, LEAD(b) OVER w AS m, FIRST_VALUE(b) OVER w AS f, NTILE(2) OVER w AS n, CUME_DIST() OVER w AS c FROM r WINDOW w AS (PARTITION BY a ORDER BY b NULLS FIRST)
SELECT id, BOOL_AND(flag) OVER (PARTITION BY day) AS x, MAX(at) OVER (PARTITION BY flag) AS y FROM e
SELECT s.c, v.* FROM s JOIN VALUES (1, 'one'), (2, 'two') AS v(n, w) ON s.b = v.n
SELECT a, x.n FROM r, (SELECT COUNT(*) AS n FROM s) x
SELECT a, COLLECT_LIST(STRUCT(b)) IS NULL AS n, LISTAGG(CAST(b AS STRING), ',') WITHIN GROUP (ORDER BY b) AS l FROM r GROUP BY a
SELECT /*+ BROADCAST(s) */ r.a FROM r JOIN s ON r.b = s.b
WITH q(x, y) AS (SELECT a, b FROM r) SELECT x, SUM(y) AS s FROM q GROUP BY 1
SELECT id, TIMESTAMP_SECONDS(id) AS a, TO_TIMESTAMP('2024-01-01') AS b, CONVERT_TIMEZONE('UTC', 'Europe/Berlin', at) AS c, FROM_UTC_TIMESTAMP(CAST(at AS TIMESTAMP), 'Asia/Tokyo') AS d FROM e
SELECT (SELECT COUNT(*) FROM s WHERE s.b = r.b) AS n, (SELECT MAX(c) FROM s) AS m FROM r
SELECT c, COUNT(*) AS n FROM s GROUP BY c HAVING n > 1
SELECT UPPER(c) AS u, COUNT(*) AS n FROM s GROUP BY u
SELECT a % 2 = 0 AS even, SUM(b) AS s FROM r GROUP BY a % 2 = 0
SELECT at - INTERVAL '1 2:03' DAY TO MINUTE AS x, INTERVAL '2' HOUR * id AS y FROM e
SELECT a, BIT_XOR(b) AS x, BOOL_OR(b > 1) AS y, SOME(b > 2) AS z, EVERY(b > 0) AS w FROM r GROUP BY a
SELECT CAST(c AS INT) AS i FROM s WHERE c RLIKE '^[0-9]+$'
SELECT a, GROUPING(a) AS g FROM r GROUP BY CUBE (a) HAVING GROUPING(a) = 0
SELECT SUM(x) AS s, AVG(x) AS m, MAX(x) AS h FROM u
SELECT TRY_AVG(a) AS x, TRY_SUM(b) AS y FROM r
SELECT WIDTH_BUCKET(x, 0.0D, 3.0D, 3) AS a, BROUND(x, 0) AS b, HYPOT(a, 1) AS c, LOG(2, a + 1) AS d, CBRT(x) AS e, RINT(x) AS f, FACTORIAL(a) AS g, CONV('10', 10, 2) AS h, PMOD(a, 2) AS i FROM u
SELECT NANVL(x, 0D) AS a, x IN (1D, 2D) AS b, x = CAST('NaN' AS DOUBLE) AS c, a + x AS d, a * 1.5 AS f, CAST(a AS DECIMAL(10, 2)) AS g FROM u
SELECT INLINE(ARRAY(STRUCT(a, b), STRUCT(b AS a, a AS b))) FROM r
SELECT TRY_CAST(c AS BIGINT) AS x, TRY_CAST('1' AS INT) AS w FROM s
SELECT DATE_ADD(day, 1) AS a, DATE_SUB(day, 3) AS b, MONTHS_BETWEEN(day, DATE '2024-01-01') AS c, ADD_MONTHS(day, 1) AS d, DATEDIFF(day, DATE '2024-01-01') AS f FROM e
SELECT c, c RLIKE '^[0-9]+$' AS z, c ILIKE 'P' AS w, REGEXP_REPLACE(c, '[a-z]', '_') AS v FROM s
SELECT c, CONCAT_WS('-', c, 'x', NULL) AS a, SUBSTRING_INDEX(c, '0', 1) AS b, SPLIT(c, '0') AS d, SPLIT_PART(c, '1', 2) AS f, INITCAP(c) AS g, OVERLAY(c PLACING '_' FROM 1 FOR 1) AS h FROM s
SELECT d, ROUND(d, 1) AS r, d * d AS m, d / 3 AS q, d + k AS p, CAST(d AS INT) AS i, FLOOR(d) AS f, ABS(d) AS a FROM t
SELECT id, ZIP_WITH(tags, tags, (x, y) -> x + y) AS w, ARRAY_SORT(ARRAY_COMPACT(tags), (x, y) -> CAST(y - x AS INT)) AS s FROM n
SELECT LEFT(c, 1) AS a, RIGHT(c, 1) AS b, POSITION('p' IN c) AS d, CHAR_LENGTH(c) AS g, BIT_LENGTH(c) AS h, TRIM(LEADING 'p' FROM c) AS i, BTRIM(c, 'p') AS j, CONTAINS(c, 'p') AS k, STARTSWITH(c, '1') AS l FROM s
SELECT x.id, r.b FROM RANGE(3, 0, -1) x LEFT JOIN r ON r.a = x.id
SELECT b, MAX(STRUCT(a, b)) AS m, MIN(STRUCT(a, b)).a AS n FROM r GROUP BY b
