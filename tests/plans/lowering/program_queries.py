"""Queries that are more than one join, over four small tables, for comparison with DuckDB.

r(a, b), s(b, c): duplicates and NULLs; t(k, v, d): k is its key; u(a, x): an int32 and a float.
"""

from __future__ import annotations

from functools import cache

from plans import Program, program
from tests.plans.lowering.recursive_queries import RECURSIVE
from tests.plans.lowering.window_queries import ORDERED, WINDOWS

TABLES: dict[str, object] = {
    "r": {"a": "int64", "b": "int64"},
    "s": {"b": "int64", "c": "string"},
    "t": {"columns": {"k": "int64", "v": "int64", "d": "decimal(10,2)"}, "key": ["k"]},
    "u": {"a": "int32", "x": "float64"},
}

BAGS = """
SELECT a, b FROM r
SELECT a FROM r
SELECT a + b AS c FROM r WHERE b > 0
SELECT r.a FROM r JOIN s ON r.b = s.b
SELECT r.a, s.c FROM r JOIN s USING (b)
SELECT x.a, y.a AS c FROM r x, r y WHERE x.b = y.b
SELECT x.a FROM r x, r y WHERE x.b = y.b
SELECT x.a FROM r x, r y
SELECT r.a FROM r, s WHERE r.b = s.b AND s.c = 'p'
SELECT r.a FROM r, s WHERE r.b < s.b
SELECT r.a FROM r JOIN t ON r.b = t.k WHERE t.v > 1
SELECT t.k, r.a FROM t JOIN r ON r.b = t.k
SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a
SELECT x.a FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a
SELECT x.a, x.b, y.b AS c FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a
SELECT x.a, x.b + y.b AS c FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a WHERE x.b < y.b + 2
SELECT x.a, x.b, y.b AS c, z.b AS d FROM r x, r y, r z, r w WHERE x.b = y.a AND y.b = z.a AND z.b = w.a AND w.b = x.a
SELECT x.*, z.*, k, v FROM r x, r y, r z, r w, t WHERE x.b = y.a AND y.b = z.a AND z.b = w.a AND w.b = x.a AND z.a = k
SELECT r.a FROM r WHERE b IN (SELECT b FROM s)
SELECT r.a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.c <> 'p')
SELECT r.a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b < r.b)
SELECT r.a FROM r WHERE EXISTS (SELECT * FROM s)
SELECT r.a FROM r SEMI JOIN s ON r.b = s.b
SELECT r.a FROM r WHERE b IN (SELECT b FROM s WHERE c IN (SELECT c FROM s WHERE b = 1))
SELECT t1.a FROM (SELECT DISTINCT a, b FROM r) t1
SELECT t1.a, s.c FROM (SELECT DISTINCT a, b FROM r) t1 JOIN s ON t1.b = s.b
SELECT t1.a FROM (SELECT DISTINCT a, b + 1 AS b1 FROM r) t1 JOIN s ON t1.b1 = s.b
SELECT t1.a FROM (SELECT DISTINCT a, b FROM r WHERE b IN (SELECT b FROM s)) t1
SELECT t1.a FROM (SELECT DISTINCT a, b FROM r) t1 WHERE EXISTS (SELECT * FROM s WHERE s.b = t1.b)
SELECT t1.a, t2.b FROM (SELECT DISTINCT a, b FROM r) t1, (SELECT DISTINCT b FROM s) t2 WHERE t1.b = t2.b
SELECT r.a FROM r WHERE a + b IN (SELECT b FROM s)
SELECT r.a FROM r, u WHERE r.a = u.a AND EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.b <> u.a)
SELECT x.b, x.c FROM s x, s y WHERE x.b IS NOT DISTINCT FROM y.b
"""

GROUPS = """
SELECT COUNT(*) AS n FROM r
SELECT COUNT(*) AS n, COUNT(a) AS m, SUM(a) AS s, MIN(a) AS lo, MAX(b) AS hi, AVG(a) AS mean FROM r
SELECT COUNT(*) AS n, SUM(a) FROM r WHERE a > 100
SELECT a, COUNT(*) AS n FROM r GROUP BY a
SELECT a, BOOL_AND(b > 1) AS p, BOOL_OR(b > 1) AS q FROM r GROUP BY a
SELECT v, MAX_BY(COALESCE(d, 0), k) AS m, MIN_BY(k, k) AS l, COUNT(*) AS n FROM t GROUP BY v
SELECT MIN_BY(COALESCE(v, 0), k) FILTER (WHERE d > 0) AS m FROM t
SELECT s.c, MAX_BY(k, k) AS m, SUM(b) AS n FROM s JOIN t ON s.b = t.k GROUP BY s.c
SELECT a, COUNT(*) AS n, SUM(b) AS s, AVG(b) AS m FROM r GROUP BY a
SELECT COUNT(*) AS n FROM r GROUP BY a
SELECT a, b, COUNT(*) AS n FROM r GROUP BY 1, 2
SELECT a + 1 AS c, SUM(b) AS s FROM r GROUP BY a + 1
SELECT a + 1 AS c, SUM(b) AS s FROM r GROUP BY c
SELECT (a + 1) * 2 AS c, SUM(b) + COUNT(*) AS s FROM r GROUP BY a + 1
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING COUNT(*) > 1
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING s > 1
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > 1 OR a IS NULL
SELECT COUNT(*) AS n FROM r HAVING COUNT(*) > 3
SELECT a FROM r GROUP BY a
SELECT a FROM r GROUP BY a, b
SELECT a FROM r GROUP BY a HAVING a > 1
SELECT a, COUNT(DISTINCT b) AS n, SUM(DISTINCT b) AS s, AVG(DISTINCT b) AS m FROM r GROUP BY a
SELECT COUNT(DISTINCT a) AS n, COUNT(DISTINCT b) AS m FROM r
SELECT a, COUNT(*) FILTER (WHERE b > 1) AS n, SUM(b) FILTER (WHERE b > 1) AS s FROM r GROUP BY a
SELECT a, SUM(CASE WHEN b > 1 THEN 1 ELSE 0 END) AS n FROM r GROUP BY a
SELECT a, VAR_POP(b) AS v, VAR_SAMP(b) AS w, STDDEV_POP(b) AS x, STDDEV_SAMP(b) AS y FROM r GROUP BY a
SELECT COVAR_POP(a, b) AS v, COVAR_SAMP(a, b) AS w, REGR_COUNT(a, b) AS n FROM r
SELECT REGR_AVGX(a, b) AS v, REGR_AVGY(a, b) AS w, REGR_SXX(a, b) AS x, REGR_SXY(a, b) AS y FROM r
SELECT REGR_SYY(a, b) AS x, COUNT(*) AS n FROM r
SELECT k, SUM(d) AS s, MIN(d) AS m, AVG(d) AS a FROM t GROUP BY k
SELECT SUM(d) AS s, SUM(v) AS v FROM t
SELECT SUM(x) AS s, MIN(x) AS lo, MAX(x) AS hi, AVG(x) AS m FROM u
SELECT a, SUM(x) AS s FROM u GROUP BY a
SELECT MIN(c) AS lo, MAX(c) AS hi FROM s
SELECT c, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY c
SELECT c, SUM(a) AS x, COUNT(*) AS n FROM r JOIN s ON r.b = s.b WHERE r.a > 0 GROUP BY c
SELECT SUM(r.a * s.b) AS x FROM r JOIN s ON r.b = s.b
SELECT COUNT(*) FILTER (WHERE x.a + y.b IS NULL) AS n, COUNT(x.a + y.b) AS m FROM r x, r y WHERE x.b = y.a
SELECT x.a, SUM(y.b) AS s FROM r x JOIN r y ON x.b = y.a GROUP BY x.a
SELECT x.a, MAX(y.b) AS s FROM r x JOIN r y ON x.b = y.a GROUP BY x.a
SELECT COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a
SELECT x.a, COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a AND z.b = x.a GROUP BY x.a
SELECT a, MAX(b) AS n FROM (SELECT x.*, y.b c FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a) GROUP BY a
SELECT t.k, t.v, COUNT(*) AS n FROM t JOIN r ON r.b = t.k GROUP BY t.k, t.v
SELECT 100 * SUM(a) / (SUM(b) + 1) AS q FROM r
SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY a
SELECT n, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) g GROUP BY n
SELECT g.a, g.n, s.c FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) g JOIN s ON g.a = s.b
SELECT n + 1 AS m FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) g WHERE n > 1
SELECT a FROM r WHERE a IN (SELECT a FROM r GROUP BY a HAVING COUNT(*) > 1)
SELECT DISTINCT a FROM r WHERE a IN (SELECT a FROM r GROUP BY a HAVING COUNT(*) > 1)
SELECT COUNT(*) AS n FROM r WHERE b IN (SELECT b FROM s)
SELECT a, COUNT(*) AS n FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b = r.b) GROUP BY a
WITH g AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a, y.a AS c FROM g x JOIN g y ON x.n = y.n
SELECT a, COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM r) d GROUP BY a
SELECT COUNT(1) AS n, COUNT(CAST(NULL AS INT)) AS m FROM r
SELECT a, COUNT(*) AS n, COUNT(*) + 1 AS m FROM r GROUP BY a HAVING MAX(b) < 3
SELECT CASE WHEN a > 1 THEN 'big' ELSE 'small' END AS size, COUNT(*) AS n FROM r GROUP BY size
"""

COUNTS = """
SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a
SELECT COUNT(*) + 1 AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a AND x.a < x.b HAVING n > 2
SELECT COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a JOIN r z ON z.a = x.a AND z.b = y.b
SELECT COUNT(*) AS n FROM r x, s y, s z WHERE x.b = y.b AND y.c = z.c AND z.b = x.a
SELECT 7 AS seven, 'x' AS x FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a
SELECT COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM r) x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a
SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b IS NOT DISTINCT FROM y.a AND y.b = z.a AND z.b = x.a
"""

SETS = """
SELECT a FROM r UNION SELECT b FROM s
SELECT a FROM r UNION ALL SELECT b FROM s
SELECT a FROM r EXCEPT SELECT b FROM s
SELECT a FROM r EXCEPT ALL SELECT b FROM s
SELECT a FROM r INTERSECT SELECT b FROM s
SELECT a FROM r INTERSECT ALL SELECT b FROM s
SELECT a, b FROM r UNION ALL SELECT b, a FROM r
SELECT a FROM r UNION SELECT b FROM s UNION ALL SELECT k FROM t
SELECT a FROM r UNION ALL SELECT b FROM s EXCEPT SELECT k FROM t
SELECT a FROM r UNION ALL (SELECT b FROM s EXCEPT ALL SELECT k FROM t)
(SELECT a FROM r UNION SELECT b FROM s) INTERSECT ALL (SELECT k FROM t UNION ALL SELECT a FROM r)
SELECT a FROM r UNION SELECT b FROM s INTERSECT SELECT k FROM t
SELECT a FROM r EXCEPT SELECT b FROM s INTERSECT SELECT k FROM t UNION ALL SELECT b FROM r INTERSECT ALL SELECT b FROM s
SELECT a FROM r UNION ALL SELECT b FROM s INTERSECT ALL SELECT k FROM t ORDER BY a NULLS LAST LIMIT 3
SELECT a FROM u UNION ALL SELECT a FROM r
SELECT a FROM r EXCEPT ALL SELECT b FROM s EXCEPT ALL SELECT k FROM t EXCEPT ALL SELECT b FROM r
SELECT a FROM r EXCEPT SELECT k FROM t EXCEPT SELECT a FROM u
SELECT a FROM r INTERSECT ALL SELECT b FROM r INTERSECT ALL SELECT b FROM s
SELECT a FROM r UNION SELECT b FROM s UNION SELECT k FROM t UNION ALL SELECT a FROM u UNION ALL SELECT b FROM r
SELECT a FROM r UNION ALL SELECT b FROM s EXCEPT ALL SELECT k FROM t EXCEPT ALL SELECT a FROM r UNION SELECT v FROM t
SELECT d FROM t UNION SELECT CAST(a AS DECIMAL(12,4)) FROM r
SELECT DISTINCT a FROM r UNION ALL SELECT DISTINCT b FROM s
SELECT r.a FROM r JOIN s ON r.b = s.b UNION ALL SELECT k FROM t
SELECT r.a FROM r JOIN s ON r.b = s.b EXCEPT ALL SELECT k FROM t
SELECT a, COUNT(*) AS n FROM r GROUP BY a UNION ALL SELECT k, v FROM t
SELECT a FROM r WHERE b > 1 UNION SELECT a FROM r WHERE b < 1
SELECT a, COUNT(*) AS n FROM (SELECT a FROM r UNION ALL SELECT b FROM s) x GROUP BY a
SELECT x.a, t.v FROM (SELECT a FROM r UNION SELECT b FROM s) x JOIN t ON x.a = t.k
SELECT a FROM r WHERE a IN (SELECT b FROM s UNION SELECT k FROM t)
SELECT DISTINCT a FROM r WHERE EXISTS (SELECT a FROM r EXCEPT SELECT b FROM s)
WITH x AS (SELECT a FROM r EXCEPT SELECT b FROM s) SELECT COUNT(*) AS n FROM x
SELECT a FROM (SELECT a FROM r UNION ALL SELECT b FROM s) x WHERE a > 1
SELECT DISTINCT a FROM (SELECT a FROM r UNION ALL SELECT b FROM s) x
"""

OUTER = """
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b
SELECT r.a, r.b, s.b AS sb, s.c FROM r LEFT JOIN s ON r.b = s.b
SELECT r.a, s.c FROM r LEFT JOIN s USING (b)
SELECT b, a, c FROM r LEFT JOIN s USING (b)
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND s.c = 'p'
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND r.a > 1
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND r.a > 1 AND s.c = 'p' AND r.b < 3
SELECT x.a, s.c FROM r x JOIN r y ON x.b = y.a LEFT JOIN s ON y.b = s.b AND x.a > 1
SELECT r.a FROM r ANTI JOIN s ON r.b = s.b AND r.a > 1
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND r.a = s.b AND r.a IS NOT NULL
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b IS NOT DISTINCT FROM s.b AND r.a > 1
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b < s.b
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND r.a <> s.b
SELECT r.a, s.c FROM r LEFT JOIN s ON TRUE
SELECT r.a, s.c FROM r LEFT JOIN s ON s.c = 'p'
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b + 1 = s.b
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b + 1
SELECT r.a, s.c FROM r LEFT JOIN s ON r.a + r.b = s.b
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b WHERE s.c IS NULL
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b WHERE r.a > 1 AND s.c = 'p'
SELECT r.a, t.v FROM r LEFT JOIN t ON r.b = t.k
SELECT t.k, r.a FROM t LEFT JOIN r ON r.b = t.k
SELECT DISTINCT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b
SELECT r.a, s.c, t.v FROM r LEFT JOIN s ON r.b = s.b LEFT JOIN t ON r.a = t.k
SELECT r.a, s.c, t.v FROM r LEFT JOIN s ON r.b = s.b LEFT JOIN t ON s.b = t.k
SELECT r.a, s.c, t.v FROM r LEFT JOIN s ON r.b = s.b JOIN t ON r.a = t.k
SELECT r.a, s.c, t.v FROM r JOIN t ON r.a = t.k LEFT JOIN s ON r.b = s.b AND t.v = s.b
SELECT r.a, x.c, x.v FROM r LEFT JOIN (SELECT s.b, s.c, t.v FROM s JOIN t ON s.b = t.k) x ON r.b = x.b
SELECT r.a, s.c, t.v FROM r LEFT JOIN (s JOIN t ON s.b = t.k) ON r.b = s.b
SELECT r.a, x.n FROM r LEFT JOIN (SELECT b, COUNT(*) AS n FROM s GROUP BY b) x ON r.b = x.b
SELECT r.a, s.c FROM r RIGHT JOIN s ON r.b = s.b
SELECT b, a, c FROM r RIGHT JOIN s USING (b)
SELECT x.a, s.c FROM r x JOIN r y ON x.b = y.a RIGHT JOIN s ON y.b = s.b
SELECT r.a, s.c FROM r FULL JOIN s ON r.b = s.b
SELECT b, a, c FROM r FULL JOIN s USING (b)
SELECT r.a, s.c FROM r FULL JOIN s ON r.b = s.b AND r.a > 1
SELECT r.a, s.c, t.v FROM r FULL JOIN s ON r.b = s.b FULL JOIN t ON s.b = t.k
SELECT r.a, COUNT(s.b) AS n FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a
SELECT r.a, COUNT(*) AS n, SUM(t.v) AS s FROM r LEFT JOIN t ON r.b = t.k GROUP BY r.a
SELECT n, COUNT(*) AS m FROM (SELECT t.k, COUNT(r.a) AS n FROM t LEFT JOIN r ON t.k = r.b GROUP BY t.k) x GROUP BY n
SELECT r.a FROM r ANTI JOIN s ON r.b = s.b
SELECT r.a FROM r ANTI JOIN s ON r.b = s.b AND s.c = 'p'
SELECT r.a, u.x FROM r LEFT JOIN u ON r.a = u.a
SELECT u.x, r.b FROM u LEFT JOIN r ON r.a = u.a
SELECT r.a, u.x FROM r LEFT JOIN u ON r.a = u.x
SELECT s.c, y.c AS d FROM s LEFT JOIN s y ON s.b IS NOT DISTINCT FROM y.b
SELECT x.a, y.b FROM r x LEFT JOIN r y ON x.a = y.a AND x.b = y.b
SELECT r.a FROM r LEFT JOIN s ON r.b = s.b WHERE r.b IN (SELECT k FROM t)
"""

SUBQUERIES = """
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s)
SELECT DISTINCT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.c = 'p')
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.b <> r.a)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b < r.b)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s JOIN t ON s.b = t.k WHERE s.b = r.b)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s JOIN t ON s.b = t.k WHERE s.b = r.b AND t.v > r.a)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b) AND NOT EXISTS (SELECT * FROM t WHERE t.k = r.a)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND NOT EXISTS (SELECT * FROM t WHERE t.k = s.b))
SELECT a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b = r.b AND NOT EXISTS (SELECT * FROM t WHERE t.k = s.b))
SELECT x.a FROM r x, r y WHERE x.b = y.a AND NOT EXISTS (SELECT * FROM s WHERE s.b = x.a AND s.b = y.b)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s WHERE b IS NOT NULL)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s WHERE c = 'p')
SELECT DISTINCT a FROM r WHERE a NOT IN (SELECT k FROM t)
SELECT a FROM r WHERE a + b NOT IN (SELECT b FROM s)
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s GROUP BY b HAVING COUNT(*) > 1)
SELECT a, COUNT(*) AS n FROM r WHERE a NOT IN (SELECT k FROM t) GROUP BY a
SELECT a FROM r WHERE a > 1 OR EXISTS (SELECT * FROM s WHERE s.b = r.b)
SELECT a FROM r WHERE a > 1 OR NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)
SELECT a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b = r.b) OR EXISTS (SELECT * FROM t WHERE t.k = r.a AND t.v > r.b)
SELECT a, EXISTS (SELECT * FROM s WHERE s.b = r.b) AS found FROM r
SELECT a, EXISTS (SELECT * FROM s) AS found FROM r
SELECT a, EXISTS (SELECT * FROM s WHERE s.b < r.b) AS found FROM r
SELECT a, CASE WHEN EXISTS (SELECT * FROM s WHERE s.b = r.b) THEN 'yes' ELSE 'no' END AS found FROM r
SELECT a FROM r WHERE a > 1 OR b IN (SELECT b FROM s)
SELECT a, b IN (SELECT b FROM s) AS found FROM r
SELECT a, b NOT IN (SELECT b FROM s) AS found FROM r
SELECT a, b IN (SELECT b FROM s WHERE c = 'p') AS found FROM r
SELECT a, a IN (SELECT s.b FROM s WHERE s.b >= r.b) AS found FROM r
SELECT a, a NOT IN (SELECT t.v FROM t WHERE t.k = r.b) AS found FROM r
SELECT a FROM r WHERE b > 1 OR a IN (SELECT x.b FROM s x JOIN t ON x.b = t.k WHERE t.v = r.b)
SELECT a, (SELECT MAX(b) FROM s) AS m FROM r
SELECT a FROM r WHERE b > (SELECT AVG(b) FROM s)
SELECT DISTINCT a FROM r WHERE b = (SELECT MAX(b) FROM r)
SELECT a, (SELECT COUNT(*) FROM s WHERE s.b = r.b) AS n FROM r
SELECT a, (SELECT SUM(s.b) + COUNT(*) FROM s WHERE s.b = r.b) AS n FROM r
SELECT a FROM r WHERE b >= (SELECT AVG(y.b) FROM r y WHERE y.a = r.a)
SELECT a FROM r WHERE (SELECT COUNT(*) FROM s WHERE s.b = r.b) = 0
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM s)
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING a IN (SELECT b FROM s)
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING NOT EXISTS (SELECT * FROM s WHERE s.b = a)
SELECT a, SUM(b) + (SELECT COUNT(*) FROM t) AS s FROM r GROUP BY a
SELECT SUM(CASE WHEN EXISTS (SELECT * FROM s WHERE s.b = r.b) THEN 1 ELSE 0 END) AS n FROM r
WITH m AS (SELECT a, SUM(b) AS s FROM r GROUP BY a) SELECT a, s FROM m WHERE s = (SELECT MAX(s) FROM m)
SELECT a FROM r WHERE b IN (SELECT s.b FROM s LEFT JOIN t ON s.b = t.k WHERE t.v IS NULL)
SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = s.b AND x > r.a))
SELECT a FROM r WHERE b IN (SELECT b FROM s x WHERE NOT EXISTS (SELECT 1 FROM s y WHERE y.c = x.c AND y.b > 1))
SELECT a FROM r WHERE b IN (SELECT b FROM s x WHERE x.c = 'p' OR EXISTS (SELECT 1 FROM t WHERE k = x.b))
SELECT a FROM r WHERE EXISTS (SELECT * FROM s x WHERE x.b = r.b AND x.b > (SELECT AVG(y.b) FROM s y WHERE y.c = x.c))
SELECT d.a FROM (SELECT DISTINCT a, b FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)) d
SELECT d.a FROM (SELECT DISTINCT a, b FROM r) d WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = d.b)
SELECT d.a, EXISTS (SELECT * FROM s WHERE s.b = d.b) AS found FROM (SELECT DISTINCT a, b FROM r) d
SELECT d.a, (SELECT COUNT(*) FROM s WHERE s.b = d.b) AS n FROM (SELECT DISTINCT a, b FROM r) d
SELECT d.a, d.n FROM (SELECT DISTINCT a, (SELECT COUNT(*) FROM s WHERE s.b = r.b) AS n FROM r) d
SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE c NOT IN (SELECT c FROM s WHERE b = 1))
SELECT a FROM r WHERE b IN (SELECT x.b FROM s x WHERE x.b NOT IN (SELECT k FROM t))
SELECT a FROM r WHERE a NOT IN (SELECT s.b FROM s WHERE s.b > r.b)
SELECT a FROM r WHERE a NOT IN (SELECT k FROM t WHERE t.v = r.b)
SELECT a FROM r WHERE a NOT IN (SELECT x.b FROM s x JOIN t ON x.b = t.k WHERE t.v = r.b)
SELECT a, (SELECT v FROM t WHERE k = 2) AS v FROM r
SELECT a, (SELECT v + 1 FROM t WHERE t.k = r.b) AS v FROM r
SELECT a, (SELECT COALESCE(v, 7) FROM t WHERE t.k = r.b AND t.v > r.a) AS v FROM r
SELECT a FROM r WHERE b > (SELECT v FROM t WHERE k = 1)
SELECT a FROM r WHERE b < (SELECT v FROM t WHERE t.k = r.a) OR a IS NULL
WITH m AS (SELECT MAX(b) AS m FROM s) SELECT a FROM r WHERE b = (SELECT m FROM m)
WITH m AS (SELECT MAX(b) AS m FROM s) SELECT a FROM r WHERE b = (SELECT m FROM m WHERE m > 1)
SELECT a FROM r WHERE b = (SELECT MAX(b) FROM s WHERE c = 'p' GROUP BY c)
SELECT a, (SELECT DISTINCT 5 FROM s) AS x FROM r
SELECT a, (SELECT b FROM s ORDER BY b NULLS FIRST, c NULLS FIRST LIMIT 1) AS x FROM r
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > (SELECT v FROM t WHERE k = 1)
SELECT a, (SELECT x.v FROM t x JOIN t y ON x.k = y.v WHERE y.k = r.b) AS v FROM r
"""

CONSTANTS = """
SELECT COUNT(*) AS n FROM r WHERE 1 = 2
SELECT a FROM r WHERE 1 = 2
SELECT r.a, s.c FROM r JOIN s ON r.b = s.b AND 1 = 2
SELECT a FROM r WHERE 1 = 2 OR a > 1
SELECT a FROM r WHERE 1 = 1 AND a > 1
SELECT a FROM r WHERE 1 = 2 UNION ALL SELECT b FROM s
SELECT a FROM r EXCEPT SELECT b FROM s WHERE NULL = 1
SELECT a FROM r INTERSECT ALL SELECT b FROM s WHERE FALSE
SELECT r.a, q.c FROM r LEFT JOIN (SELECT b, c FROM s WHERE 1 = 2) q ON r.b = q.b
SELECT r.a, q.c FROM (SELECT b, c FROM s WHERE 1 = 2) q FULL JOIN r ON r.b = q.b
SELECT r.a, s.c FROM r LEFT JOIN s ON 1 = 2
SELECT r.a FROM r FULL JOIN s ON FALSE
SELECT a FROM r WHERE a NOT IN (SELECT b FROM s WHERE 1 = 2)
SELECT a FROM r WHERE a IN (SELECT b FROM s WHERE 1 = 2)
SELECT a, a IN (SELECT b FROM s WHERE 1 = 2) AS f, a NOT IN (SELECT b FROM s WHERE 1 = 2) AS g FROM r
SELECT a FROM r WHERE EXISTS (SELECT * FROM s WHERE 1 = 2)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND 1 = 2)
SELECT a, (SELECT MAX(b) FROM s WHERE 1 = 2) AS m, (SELECT COUNT(*) FROM s WHERE s.b = r.b AND 1 = 2) AS n FROM r
SELECT a, SUM(b) AS s FROM r WHERE 1 = 2 GROUP BY a
SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING 1 = 2
SELECT COUNT(*) AS n FROM r HAVING 1 = 2
SELECT c, SUM(a) AS x, COUNT(*) AS n FROM r JOIN s ON r.b = s.b WHERE 1 = 2 GROUP BY c
SELECT SUM(r.a * s.b) AS x, COUNT(*) AS n FROM r JOIN s ON r.b = s.b WHERE 1 = 2
SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a AND 1 = 2
SELECT d.a FROM (SELECT DISTINCT a, b FROM r WHERE 1 = 2) d JOIN s ON d.b = s.b
SELECT COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM r WHERE 1 = 2) d
SELECT t.k, r.a FROM t JOIN r ON r.b = t.k WHERE t.k = 1 AND r.b > 2
"""

WRITTEN = """
SELECT r.a, v.n FROM r JOIN (VALUES (1, 'x'), (2, 'y'), (2, NULL)) AS v(k, n) ON r.a = v.k
SELECT r.a, v.n FROM r LEFT JOIN (VALUES (1, 'x'), (NULL, 'y')) AS v(k, n) ON r.a = v.k
WITH k AS (SELECT 2 AS most) SELECT a FROM r, k WHERE b < most
SELECT a FROM r UNION ALL SELECT 7
SELECT a, x FROM r CROSS JOIN (SELECT 1 AS x UNION ALL SELECT 2) k
SELECT a FROM r WHERE a IN (SELECT 1 UNION ALL SELECT 3)
SELECT n, COUNT(a) AS m FROM (VALUES (1), (2), (3)) AS v(n) LEFT JOIN r ON r.a = v.n GROUP BY n
SELECT DISTINCT ON (a) a, b FROM r ORDER BY a, b DESC NULLS LAST
SELECT DISTINCT ON (a) b FROM r ORDER BY a NULLS FIRST, b NULLS FIRST
SELECT DISTINCT ON (a) a, b, COUNT(*) AS n FROM r GROUP BY a, b ORDER BY a, b NULLS FIRST
SELECT * FROM s PIVOT (COUNT(b) FOR c IN ('p', 'q')) WHERE FALSE
SELECT * FROM r PIVOT (SUM(a) FOR b IN (1, 2))
SELECT * FROM (SELECT r.a, s.c, r.b FROM r JOIN s USING (b)) PIVOT (MAX(b) FOR c IN ('p' AS pp, 'q'))
SELECT * FROM (SELECT a, b, a + b AS c FROM r) PIVOT (SUM(c) AS s, MIN(c) AS m FOR b IN (0, 3))
SELECT * FROM r UNPIVOT (v FOR n IN (a, b))
SELECT * FROM r UNPIVOT INCLUDE NULLS (v FOR n IN (a, b))
SELECT k, n, v FROM (SELECT k, v AS w, k + 1 AS x FROM t) UNPIVOT (v FOR n IN (w, x)) WHERE v > 1
SELECT a FROM r WHERE (a, b) NOT IN (SELECT a, b FROM r WHERE a > 1)
SELECT a, b FROM r WHERE (a, b) NOT IN (SELECT b, b FROM s WHERE c = 'p')
SELECT k FROM t WHERE (k, v) NOT IN (SELECT a, b FROM r)
SELECT k FROM t WHERE (k, k) NOT IN (SELECT k, k FROM t WHERE v = 1)
"""


def lines(block: str) -> list[str]:
    """Returns the queries of a block."""
    return [line for line in block.strip().splitlines() if line]


DEPENDENT = """
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM t WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND t.k = s.b))
SELECT a FROM r WHERE a > 1 OR EXISTS (SELECT * FROM t WHERE k = a AND NOT EXISTS (SELECT * FROM s WHERE s.b < r.b))
SELECT a, b IN (SELECT v FROM t WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.a AND s.b < t.k)) AS x FROM r
SELECT a FROM r WHERE b NOT IN (SELECT v FROM t WHERE k <> a AND NOT EXISTS (SELECT * FROM s WHERE s.b = r.a))
SELECT a, (SELECT MAX(v) FROM t WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.a AND s.b = t.v)) AS x FROM r
SELECT a, (SELECT v FROM t WHERE k = a AND NOT EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.b < t.v)) AS x FROM r
SELECT a, (SELECT MAX(s.b) FROM s WHERE s.b < r.b) AS m FROM r
SELECT a, (SELECT COUNT(*) FROM s WHERE s.b <> r.a AND s.b >= r.b) AS n FROM r
SELECT a, (SELECT SUM(s.b + r.a) FROM s WHERE s.b = r.b) AS n FROM r
SELECT a, (SELECT COUNT(s.b) + r.a FROM s WHERE s.b = r.b) AS n FROM r
SELECT a, (SELECT COUNT(*) FROM s, t WHERE s.b = t.k AND t.v = r.a AND s.b < r.b) AS n FROM r
SELECT r.a, (SELECT MIN(s.b) FROM s WHERE s.b > r.b + t.v) AS m FROM r JOIN t ON r.b = t.k
SELECT a, (SELECT c FROM s WHERE s.b = r.b ORDER BY c NULLS FIRST LIMIT 1) AS c FROM r
SELECT a, (SELECT s.b FROM s WHERE s.b < r.b ORDER BY s.b DESC LIMIT 1) AS m FROM r
SELECT a, (SELECT DISTINCT 1 FROM s WHERE s.b < r.b) AS one FROM r
SELECT a, (SELECT COUNT(*) FROM s WHERE s.b = r.b GROUP BY s.b) AS n FROM r
SELECT a, (SELECT COUNT(*) FROM s WHERE s.b = r.b AND c = 'p' GROUP BY c HAVING COUNT(*) > 1) AS n FROM r
SELECT a FROM r WHERE EXISTS (SELECT c FROM s WHERE s.b = r.b GROUP BY c HAVING COUNT(*) > 1)
SELECT a FROM r WHERE NOT EXISTS (SELECT c FROM s WHERE s.b <= r.b GROUP BY c HAVING COUNT(*) > 1)
SELECT a, EXISTS (SELECT c FROM s WHERE s.b = r.b GROUP BY c HAVING COUNT(*) > 1) AS found FROM r
SELECT a FROM r WHERE a > 1 OR EXISTS (SELECT k FROM t WHERE v < r.b GROUP BY k HAVING COUNT(*) > 0)
SELECT a FROM r WHERE b IN (SELECT MAX(s.b) FROM s WHERE s.b <> r.a GROUP BY c)
SELECT a, (SELECT MAX(s.b) FROM s WHERE s.b <= r.b HAVING COUNT(*) > 1) AS m FROM r
SELECT a, (SELECT COUNT(*) FROM s WHERE s.b = r.a HAVING COUNT(*) < 2) AS n FROM r
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b HAVING COUNT(*) > 1 OR MAX(s.c) = 'q')
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b <= r.b HAVING MAX(s.b) > r.a)
SELECT a FROM r WHERE a IN (SELECT MAX(b) FROM s WHERE s.b <= r.b) OR b NOT IN (SELECT COUNT(*) FROM s WHERE s.b = a)
SELECT a FROM r WHERE (a, b) IN (SELECT MIN(s.b), MAX(s.b) FROM s) OR a NOT IN (SELECT MIN(k) FROM t)
SELECT a FROM r WHERE b IN (SELECT MAX(s.b) FROM s WHERE s.b <= r.b HAVING COUNT(*) > 1)
SELECT r.a, l.m FROM r, LATERAL (SELECT MAX(s.b) AS m FROM s WHERE s.b = r.b HAVING COUNT(*) > 1) l
SELECT r.a, l.m FROM r LEFT JOIN LATERAL (SELECT MAX(c) AS m FROM s WHERE s.b > r.b HAVING COUNT(*) < 3) l ON TRUE
SELECT a, (SELECT COUNT(*) FROM (SELECT DISTINCT c FROM s WHERE s.b = r.b) q) AS n FROM r
SELECT a, (SELECT SUM(q.b) FROM (SELECT s.b FROM s WHERE s.b <= r.b ORDER BY s.b DESC LIMIT 2) q) AS n FROM r
SELECT a, (SELECT MAX(q.c) FROM s JOIN (SELECT b, c FROM s WHERE b <> r.a) q ON q.b = s.b WHERE s.b < r.b) AS n FROM r
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM (SELECT c, COUNT(*) AS n FROM s WHERE s.b = r.b GROUP BY c) q WHERE q.n > 1)
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM t LEFT JOIN (SELECT DISTINCT b FROM s WHERE b < a) q ON q.b = k)
SELECT a FROM r WHERE b IN (SELECT q.k FROM (SELECT k FROM t WHERE v > r.a UNION SELECT b FROM s WHERE b <> r.b) q)
SELECT a, l.c FROM r, LATERAL (SELECT c FROM (SELECT c FROM s WHERE b = r.b UNION SELECT 'z' FROM u WHERE a = r.a) q) l
SELECT COUNT(*) AS k, SUM(n) AS s FROM (SELECT DISTINCT ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) q
SELECT a FROM r WHERE EXISTS (SELECT s.b FROM s LEFT JOIN t ON s.b = t.k WHERE t.v IS NULL AND s.b = r.b)
SELECT a, SUM(b) AS n FROM r GROUP BY a HAVING COUNT(*) > (SELECT COUNT(*) FROM s WHERE s.b = r.a)
SELECT r.a, l.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b) l
SELECT r.a, l.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.b < r.b) l ON TRUE
SELECT r.a, l.c FROM r LEFT JOIN LATERAL (SELECT c, b FROM s WHERE s.b = r.b) l ON l.b > 1
SELECT r.a, l.n FROM r CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM s WHERE s.b = r.b) l
SELECT r.a, l.n, l.m FROM r LEFT JOIN LATERAL (SELECT COUNT(*) AS n, MAX(c) AS m FROM s WHERE s.b > r.b) l ON TRUE
SELECT r.a, l.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b ORDER BY c NULLS FIRST LIMIT 2) l
SELECT r.a, l.m FROM r LEFT JOIN LATERAL (SELECT c, MAX(b) AS m FROM s WHERE s.b <= r.b GROUP BY c) l ON l.m > 1
SELECT r.a, l.d FROM r, LATERAL (SELECT DISTINCT s.b - r.b AS d FROM s WHERE s.b < r.b) AS l
SELECT x.a, l.e FROM r x, LATERAL (SELECT x.a + y.b FROM r y WHERE y.a = x.b) AS l (e) WHERE l.e > 1
SELECT l.c, m.n FROM r, LATERAL (SELECT c FROM s WHERE b = a) l, LATERAL (SELECT COUNT(*) AS n FROM s WHERE c = l.c) m
SELECT a, (SELECT s.c FROM s WHERE s.b = r.b UNION SELECT 'z' FROM u WHERE u.a < 0) IS NULL AS n FROM r WHERE a > 9
"""

BLOCKS = (BAGS, GROUPS, COUNTS, SETS, OUTER, SUBQUERIES, CONSTANTS, WINDOWS, ORDERED, WRITTEN, DEPENDENT, RECURSIVE)
QUERIES = [query for block in BLOCKS for query in lines(block)]


@cache
def planned(query: str) -> Program:
    """Returns the program of one of the queries; a process plans each once, whatever it is asked about it."""
    return program(query, TABLES)
