"""Refusals of recursions and of queries that read each other say what to write instead, and where."""

from __future__ import annotations

import pytest

from plans import PlanError, plan, program
from tests.marks import every
from tests.plans.frontends.test_messages import SCHEMA, refused


@every(
    [
        (
            "SELECT t.src FROM t",
            "t reads itself, and is not a UNION",
            "write WITH RECURSIVE name AS (first rows UNION ",
        ),
        (
            "SELECT src, SUM(dst) FROM (SELECT src, dst FROM G UNION SELECT t.src, 1 FROM t) GROUP BY src",
            "t reads itself, and is not a UNION",
            "write WITH RECURSIVE name AS (first rows UNION ALL SELECT ... FROM name JOIN ...); MIN or MAX ",
        ),
        (
            "SELECT src, 0 AS d FROM G UNION SELECT src, MIN(d) FROM t GROUP BY src",
            "t reads itself in a query that is more than a join",
            "group the whole recursion: t AS (SELECT key, MIN(value) FROM (first rows UNION ALL steps) GROUP BY key)",
        ),
        ("SELECT src FROM t UNION SELECT dst FROM t", "every branch of t reads t", "begin with rows that do not"),
        (
            "SELECT src FROM G UNION SELECT src, 1 FROM t",
            "this step has 2 columns, but t has 1",
            "select the same number",
        ),
        (
            "SELECT src FROM G UNION SELECT dst FROM G WHERE src IN (SELECT src FROM t)",
            "t tests whether it has a row itself",
            "join t, so that each row of it gives rows;",
        ),
        (
            "SELECT src FROM G UNION SELECT dst FROM t RIGHT JOIN G USING (src)",
            "t tests whether it has a row itself",
            "join t, so that each row of it gives rows;",
        ),
        (
            "SELECT src FROM G UNION ALL SELECT DISTINCT dst FROM t JOIN G USING (src)",
            "t has UNION ALL and a step with DISTINCT",
            "write UNION instead of UNION ALL",
        ),
        (
            "SELECT src FROM G UNION (SELECT dst FROM t JOIN G USING (src) ORDER BY 1 LIMIT 9)",
            "t reads itself in a query that is more than a join",
            "a step joins rows and selects from them;",
        ),
        (
            "SELECT src FROM G UNION SELECT 'a' FROM t",
            "column src has the type string here",
            "write CAST(... AS int64)",
        ),
    ]
)
def test_a_recursion_is_refused_with_what_to_write(body: str, sentence: str, hint: str) -> None:
    found = refused(f"WITH RECURSIVE t AS ({body}) SELECT src FROM t")
    assert found[0].startswith(sentence)
    assert found[2].startswith(hint)


NULLS = "t has MIN, and GREATEST and LEAST ignore a value that is NULL; add the condition d IS NOT NULL"
FOLLOWS = "t has MIN, and a new d may get worse when d gets better"
CONDITION = "t has MIN, and a condition may hold for a row and not for one with a better d"


@every(
    [
        ("dst, d + 1", "", ""),
        ("dst, d - src", "d < 5 AND src < 9", ""),
        ("dst, 2 * d", "d + 1 <= src AND 9 > d", ""),
        ("dst, CAST(GREATEST(d, src) AS INT)", "d IS NOT NULL", ""),
        ("dst, CAST(GREATEST(d, src) AS INT)", "", NULLS),
        ("dst, src - d", "", FOLLOWS),
        ("dst, -1 * d", "", FOLLOWS),
        ("dst, d * d", "", FOLLOWS),
        ("dst, d % 3", "", FOLLOWS),
        ("dst, CASE WHEN d > 3 THEN 0 ELSE d END", "", FOLLOWS),
        ("d, 0", "", "t has MIN, and column n depends on d"),
        ("dst, 0", "d > 4", CONDITION),
        ("dst, 0", "d = 4", CONDITION),
        ("dst, 0", "src < d", CONDITION),
        ("dst, 0", "d IS NULL", CONDITION),
        ("dst, 0", "d < 4 OR d > 9", CONDITION),
    ]
)
def test_min_and_max_of_a_recursion_need_steps_that_keep_the_order(outputs: str, where: str, sentence: str) -> None:
    def query(function: str, sign: str) -> str:
        turned = where.translate(str.maketrans("<>", "><")) if sign else where
        union = f"SELECT src, 0 FROM G UNION SELECT {outputs} FROM t JOIN G ON n = src{turned and ' WHERE ' + turned}"
        return f"WITH RECURSIVE t (n, d) USING KEY (n, {function}(d)) AS ({union}) SELECT n FROM t"

    for text, said in ((query("min", ""), sentence), (query("max", "-"), sentence.replace("MIN", "MAX"))):
        if said:
            assert refused(text)[0] == said
        else:
            assert program(text, SCHEMA).stages


@every(
    [
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT MAX(src) AS src FROM a)",
            "a reads itself in a query that is more than a join; it reads b",
            "a step joins rows and selects from them;",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT dst AS src FROM G UNION SELECT dst FROM G "
            "WHERE src NOT IN (SELECT src FROM a))",
            "b reads a, which reads b in turn, in a query that is more than a join",
            "a step joins rows and selects from them;",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT dst AS src FROM G UNION SELECT dst FROM G "
            "WHERE src IN (SELECT src FROM a))",
            "b tests whether a, which reads b in turn, has a row",
            "join a, so that each row of it gives rows;",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT src FROM G EXCEPT SELECT src FROM a)",
            "b reads queries that read it, and is not a UNION",
            "write WITH RECURSIVE name AS (first rows UNION ",
        ),
        (
            "a AS (SELECT src FROM b), b AS (SELECT src FROM a)",
            "a reads queries that read it, and is not a UNION",
            "write WITH RECURSIVE name AS (first rows UNION ",
        ),
        (
            "a AS (SELECT DISTINCT src FROM b), b AS (SELECT DISTINCT src FROM a)",
            "every branch of a and b reads one of them",
            "begin with rows that do not",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT src FROM a UNION ALL SELECT dst FROM G)",
            "b has UNION ALL and a has not, and they read each other",
            "write UNION in both",
        ),
        (
            "a AS (SELECT src FROM b UNION ALL SELECT src FROM G), b AS (SELECT x.src FROM a x, a y WHERE "
            "x.src = y.src UNION ALL SELECT src FROM G)",
            "b has UNION ALL and a step that reads the recursion more than once",
            "write UNION instead of UNION ALL",
        ),
        (
            "a AS (SELECT src FROM b UNION SELECT src FROM G), b AS (SELECT 'x' AS src UNION SELECT src FROM a)",
            "column src has the type string here, and int64 in the first rows",
            "write CAST(... AS int64) here",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT src FROM b), b AS (SELECT src, dst FROM G UNION SELECT src FROM a)",
            "this step has 1 columns, but b has 2",
            "select the same number of columns",
        ),
        (
            "a (n, d) USING KEY (n, min(d)) AS (SELECT src, dst FROM G UNION SELECT n, d FROM b), b (n, d) "
            "USING KEY (n, max(d)) AS (SELECT src, dst FROM G UNION SELECT n, d FROM a)",
            "a has MIN of int64 and b has MAX of int64, and they read each other",
            "give them the same function, of values of the same type",
        ),
        (
            "a AS (SELECT src FROM b UNION SELECT src FROM G), b AS (SELECT DISTINCT src, src FROM a)",
            "table b has two columns called src",
            "",
        ),
        (
            "a AS (SELECT src FROM G UNION SELECT id FROM P), P AS (SELECT src AS id FROM G)",
            "a reads P, which is a table and a query that follows in WITH",
            "give the query another name",
        ),
        ("a AS (SELECT src FROM G), a AS (SELECT dst FROM G)", "two queries in WITH are called a", "rename one"),
    ]
)
def test_queries_that_read_each_other_are_refused_with_what_to_write(ctes: str, sentence: str, hint: str) -> None:
    found = refused(f"WITH RECURSIVE {ctes} SELECT * FROM a")
    assert found[0] == sentence
    assert found[2].startswith(hint)


def test_options_of_a_recursion_are_not_dropped() -> None:
    query = (
        "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 9) a (src bigint) AS (SELECT src FROM G) SELECT src FROM a"
    )
    with pytest.raises(PlanError, match="options of MUTUALLY RECURSIVE are not supported"):
        plan(query, SCHEMA, dialect="materialize")


def test_clauses_of_a_recursion_are_not_dropped() -> None:
    step = "SELECT G.dst FROM t JOIN G ON t.src = G.src"
    query = f"WITH RECURSIVE t AS (SELECT src FROM G UNION {step}) CYCLE src SET c USING p SELECT src FROM t"
    assert refused(query)[0] == "SEARCH and CYCLE are not supported"
    named = f"WITH RECURSIVE t (a, b) AS (SELECT src FROM G UNION {step}) SELECT a FROM t"
    assert refused(named)[::2] == ("t has 1 columns, but 2 names are given", "give a name to each column")
