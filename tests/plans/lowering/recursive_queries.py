"""Recursive queries over the tables of `program_queries`, and what DuckDB is asked for those that read each other."""

from __future__ import annotations

from tests.oracles import duck

P = "WITH RECURSIVE p AS (SELECT a, b FROM r UNION SELECT p.a, r.b FROM p JOIN r ON p.b = r.a)"
N = "WITH RECURSIVE p (n) AS (SELECT k FROM t WHERE v > 0 UNION SELECT r.b FROM p, r WHERE p.n = r.a)"
D = "WITH RECURSIVE p (n, d) USING KEY (n, min(d)) AS (SELECT k, 0 FROM t UNION SELECT b, d + 1 FROM p, r WHERE n = a)"
E = (
    "WITH RECURSIVE even (a, b) AS (SELECT odd.a, r.b FROM odd JOIN r ON odd.b = r.a UNION SELECT k, v FROM t), "
    "odd (a, b) AS (SELECT a, b FROM r UNION SELECT even.a, r.b FROM even JOIN r ON even.b = r.a)"
)
M = (
    "WITH RECURSIVE n (a) AS (SELECT k FROM t WHERE v > 0 UNION SELECT r.b FROM c JOIN r ON c.b = r.a), c (c, b) AS "
    "(SELECT DISTINCT s.c, s.b FROM n JOIN s ON n.a = s.b)"
)
RECURSIVE = f"""
{P} SELECT a, b FROM p
{P} SELECT a, COUNT(*) AS n, MAX(b) AS m FROM p GROUP BY a
{P} SELECT x.a, y.b FROM p x JOIN p y ON x.b = y.a
{P} SELECT a, b FROM p WHERE NOT EXISTS (SELECT * FROM r WHERE r.a = p.b)
{N} SELECT n FROM p
{N} SELECT k, v FROM t WHERE k NOT IN (SELECT n FROM p)
{N}, q AS (SELECT n FROM p WHERE n > 1 UNION SELECT s.b FROM q JOIN s ON s.b > q.n) SELECT n, COUNT(*) AS c FROM q GROUP BY n
SELECT x.a, x.b, s.c FROM ({P} SELECT a, b FROM p) x JOIN s ON x.b = s.b
WITH RECURSIVE p AS (SELECT a, b FROM r WHERE a = 1 UNION SELECT DISTINCT r.a, r.b FROM p JOIN r ON p.b = r.a) SELECT * FROM p
WITH RECURSIVE p AS (SELECT a, b FROM r UNION SELECT p.a, t.v FROM p LEFT JOIN t ON p.b = t.k) SELECT a, b FROM p
WITH RECURSIVE p AS (SELECT a, b FROM r UNION SELECT p.b, p.a FROM p WHERE p.a > 1) SELECT a, b FROM p
WITH RECURSIVE p AS (SELECT a FROM r UNION SELECT a + 1 FROM p WHERE a < 6) SELECT a FROM p
WITH RECURSIVE p AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a UNION SELECT r.b, p.n FROM p JOIN r ON p.a = r.a) SELECT a, n FROM p
WITH RECURSIVE p AS (SELECT a, b FROM r UNION SELECT p.a, r.b FROM p JOIN r ON p.b = r.a WHERE NOT EXISTS (SELECT * FROM s WHERE s.b = r.b)) SELECT a, b FROM p
WITH RECURSIVE p AS (SELECT a, b FROM r UNION SELECT p.a, q.m FROM p JOIN (SELECT a, MAX(b) AS m FROM r GROUP BY a) q ON p.b = q.a) SELECT a, b FROM p
WITH RECURSIVE p AS (SELECT a, b, 1 AS d FROM r UNION SELECT p.a, r.b, p.d + 1 FROM p JOIN r ON p.b = r.a WHERE p.d < 4) SELECT a, b, MIN(d) AS d FROM p GROUP BY a, b
WITH RECURSIVE p AS (SELECT a, b, 1 AS d FROM r UNION ALL SELECT p.a, r.b, p.d + 1 FROM p JOIN r ON p.b = r.a WHERE p.d < 3) SELECT a, b, d FROM p
WITH RECURSIVE p AS (SELECT k, v, d FROM t WHERE v = 0 UNION ALL SELECT t.k, t.v, CAST(p.d + t.d AS DECIMAL(10, 2)) FROM p JOIN t ON p.k = t.v AND t.k > p.k) SELECT k, d FROM p
WITH RECURSIVE p AS (SELECT b, c, 1 AS d FROM s UNION ALL SELECT r.b, p.c || '/' || s.c, p.d + 1 FROM p JOIN r ON r.a = p.b JOIN s ON s.b = r.b WHERE p.d < 2) SELECT b, c, d FROM p
WITH RECURSIVE p AS (SELECT a, x FROM u UNION ALL SELECT p.a + 1, p.x * 2 FROM p WHERE p.a < 3) SELECT a, SUM(x) AS x, COUNT(*) AS n FROM p GROUP BY a
{E} SELECT a, b FROM even
{E} SELECT even.a, COUNT(*) AS n FROM even JOIN odd ON even.b = odd.a GROUP BY even.a
{M} SELECT c, b FROM c
{M} SELECT n.a, c.c FROM n LEFT JOIN c ON n.a = c.b
{D} SELECT n, d FROM p
{D} SELECT d, COUNT(*) AS n FROM p GROUP BY d
WITH RECURSIVE p (n, d, via) USING KEY (n, min(d), min_by(via, d)) AS (SELECT k, 0, k FROM t UNION SELECT b, d + 1, n FROM p, r WHERE n = a) SELECT p.n, p.d, q.d AS before FROM p JOIN p q ON q.n = p.via
SELECT t.k, t.v, p.d FROM t LEFT JOIN ({D} SELECT n, d FROM p) p ON p.n = t.v
WITH RECURSIVE p (a, b, d) USING KEY (a, b, min(d)) AS (SELECT a, b, 1 FROM r UNION SELECT p.a, r.b, p.d + ABS(r.a) FROM p JOIN r ON p.b = r.a) SELECT a, b, d FROM p
WITH RECURSIVE p (n, d) USING KEY (n, min(d)) AS (SELECT a, a FROM r UNION SELECT e.b, p.d FROM p JOIN (SELECT a, b FROM r UNION SELECT b, a FROM r) e ON p.n = e.a) SELECT n, d FROM p
WITH RECURSIVE p (d, n) USING KEY (max(d), n) AS (SELECT v, k FROM t UNION SELECT LEAST(p.d, r.a), r.b FROM p JOIN r ON p.n = r.a WHERE p.d IS NOT NULL) SELECT n, d FROM p
WITH RECURSIVE p (n, d) USING KEY (n, max(d)) AS (SELECT b, c FROM s UNION SELECT r.b, p.d FROM p JOIN r ON p.n = r.a WHERE p.d > 'a') SELECT n, d FROM p
"""  # noqa: E501 - one query per line

duck.MEANINGS |= {  # of queries that read each other
    query: meaning + query[len(given) :]
    for query in RECURSIVE.strip().splitlines()
    for given, meaning in (
        (
            E,
            "WITH RECURSIVE p (n, a, b) AS ((SELECT 1, a, b FROM r UNION SELECT 0, k, v FROM t) UNION SELECT 1 - p.n, "
            "p.a, r.b FROM p JOIN r ON p.b = r.a), even AS (SELECT a, b FROM p WHERE n = 0), odd AS (SELECT a, b FROM "
            "p WHERE n = 1)",
        ),
        (
            M,
            "WITH RECURSIVE p (n, b, c) AS (SELECT 0, k, CAST(NULL AS VARCHAR) FROM t WHERE v > 0 UNION (SELECT 1, "
            "s.b, s.c FROM p JOIN s ON p.b = s.b WHERE p.n = 0 UNION ALL SELECT 0, r.b, NULL FROM p JOIN r ON p.b "
            "= r.a WHERE p.n = 1)), n AS (SELECT b AS a FROM p WHERE n = 0), c AS (SELECT c, b FROM p WHERE n = 1)",
        ),
    )
    if query.startswith(given)
}
