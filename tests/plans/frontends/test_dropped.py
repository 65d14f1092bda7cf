"""What the parser would take in and forget is refused; names mean what they mean in Spark."""

from __future__ import annotations

import pytest

import crown
from plans import PlanError, program
from tests.marks import every

SCHEMA = {
    "r": {"a": "int64", "b": "int64", "d": "date", "t": "timestamp_ntz", "p": "bool"},
    "s": {"b": "int64", "c": "int64"},
}


def refused(query: str) -> str:
    """The sentence."""
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA)
    return caught.value.message


@every(
    [
        ("DATE(t, 'UTC')", "DATE has too many arguments"),
        ("TIMESTAMP_NTZ(t, 'Europe/Berlin')", "TIMESTAMP_NTZ has too many arguments"),
        ("BOOLEAN(p, 1)", "BOOLEAN has too many arguments"),
        ("MOD(a, 2, 3)", "MOD takes 2 arguments, not 3"),
        ("DIV(a, 2, 3)", "DIV has too many arguments"),
        ("PERCENTILE(a, 0.5, 2)", "PERCENTILE has too many arguments"),
        ("PERCENTILE_APPROX(a, 0.5, 9, 2)", "PERCENTILE_APPROX with WEIGHT is not supported"),
        ("PERCENTILE_APPROX(a, 0.5, b)", "the accuracy of PERCENTILE_APPROX must be a constant number"),
        (
            "APPROX_COUNT_DISTINCT(a, b)",
            "the accuracy of APPROX_COUNT_DISTINCT must be a constant number",
        ),
        ("EXPLODE(ARRAY(a), ARRAY(b))", "EXPLODE has too many arguments"),
        ("BITMAP_COUNT(a, b)", "BITMAP_COUNT has too many arguments"),
        ("ABS(a, 1)", "ABS takes 1 argument, not 2"),
        ("ABS()", "ABS takes 1 argument, not 0"),
        ("NVL(a, b, 1)", "NVL takes 2 arguments, not 3"),
        ("POSITION('a', 'b', 1, 2)", "POSITION takes 2 to 3 arguments, not 4"),
        ("IF(p, 1)", "IF needs another argument"),
        ("CEIL(a TO WEEK)", "CEIL with TO is not supported"),
        ("FLOOR(a TO DAY)", "FLOOR with TO is not supported"),
        ("AND(a)", "SQL: something is missing near ')'"),
        ("COUNT()", "COUNT needs another argument"),
        ("MEAN()", "MEAN needs another argument"),
        ("CORR(a)", "SQL: something is missing near ')'"),
        ("CORR(a, b, p)", "CORR with a third argument is not supported"),
        ("REGR_SLOPE(a)", "REGR_SLOPE needs another argument"),
        ("COUNT(* EXCEPT (a))", "COUNT(*) with EXCEPT is not supported"),
        ("+", "SQL: there is no value after +"),
        ("MAP(a)", "MAP takes 2 or more arguments, not 1"),
    ]
)
def test_arguments_of_a_call(call: str, message: str) -> None:
    assert refused(f"SELECT {call} AS v FROM r") == message
    assert refused(f"SELECT x.v FROM (SELECT {call} AS v FROM r) AS x") == message


@every(
    [
        ("SELECT * ILIKE 'a%' FROM r", "* ILIKE is not supported"),
        ("SELECT ALL FROM r", "SQL: there is no column after this word"),
        ("SELECT /*+ BROADCAST(r) */ FROM r", "there is no column after SELECT"),
        ("SELECT ALL, a FROM r", "SQL: there is nothing before this comma"),
        ("SELECT a FROM r GROUP BY , a", "SQL: there is nothing before this comma"),
        ("SELECT a FROM r NATURAL JOIN s USING (b)", "NATURAL JOIN with ON or USING is not supported"),
        ("SELECT a FROM r NATURAL JOIN s ON a = c", "NATURAL JOIN with ON or USING is not supported"),
        ("SELECT a FROM r JOIN s USING (b::string)", "USING takes only names of columns"),
        ("SELECT a FROM r WHERE a > 1 LEFT JOIN s ON r.b = s.b", "a join must be before WHERE"),
        ("SELECT a FROM r GROUP BY a SEMI JOIN s ON r.b = s.b", "a join must be before GROUP BY"),
        ("SELECT a FROM r QUALIFY ROW_NUMBER(b) OVER (ORDER BY b) = 1", "ROW_NUMBER() does not take an argument"),
        ("SELECT a FROM r UNION ALL SELECT b FROM s SORT BY a", "UNION with SORT BY is not supported"),
        ("SELECT a FROM r EXCEPT SELECT b FROM s CLUSTER BY a", "EXCEPT with CLUSTER BY is not supported"),
        ("(SELECT a FROM r), (SELECT c FROM s)", "queries in parentheses cannot be joined without a SELECT"),
        (
            "((SELECT a FROM r) JOIN s) UNION SELECT a FROM r",
            "queries in parentheses cannot be joined without a SELECT",
        ),
        ("SELECT a FROM r, JOIN s ON r.b = s.b", "SQL: there is no table after this comma"),
        ("SELECT a FROM r, EXCEPT SELECT b FROM s", "SQL: there is no table after this comma"),
        ("SELECT a FROM r GROUP BY a WHERE a > 1", "WHERE must be before GROUP BY"),
        ("SELECT COUNT(*) AS n FROM r HAVING COUNT(*) > 1 WHERE a > 1", "WHERE must be before HAVING"),
        ("SELECT a FROM r ORDER BY a LIMIT 3 WHERE a > 1", "WHERE must be before ORDER BY"),
        ("SELECT a FROM r LIMIT 3 ORDER BY a", "ORDER BY must be before LIMIT"),
        ("SELECT a FROM r WHERE a IN (SELECT b FROM s LIMIT 1 WHERE b > 1)", "WHERE must be before LIMIT"),
        ("SELECT a FROM r WHERE a BETWEEN 1 3", "SQL: BETWEEN needs AND"),
        ("SELECT CASE WHEN a > 2 b ELSE 0 END AS v FROM r", "SQL: WHEN needs THEN"),
        ("SELECT CASE WHEN a > 2 THEN b AS v FROM r", "SQL: CASE needs END"),
        ("SELECT a FROM r WHERE a IN b", "SQL: IN takes a list or a query in parentheses"),
        ("SELECT a FROM r WHERE a NOT IN EXCEPT (SELECT b FROM s)", "SQL: IN takes a list or a query in parentheses"),
        ("SELECT a FROM r WHERE a NOT IN -- (1, 2)", "SQL: IN takes a list or a query in parentheses"),
        ("SELECT a FROM r GROUP BY DISTINCT ROLLUP (a, a)", "GROUP BY DISTINCT is not supported"),
        (
            "SELECT a FROM r GROUP BY a WITH ROLLUP WITH CUBE",
            "GROUP BY takes one WITH ROLLUP, WITH CUBE or GROUPING SETS after its columns",
        ),
        ("SELECT r.r.* FROM r", "a column has at most one qualifier here"),
        ("SELECT * FROM ROWS FROM (GENERATE_SERIES(1, 3)) AS t(a)", "ROWS in FROM is not supported"),
    ]
)
def test_clauses(query: str, message: str) -> None:
    assert refused(query) == message


@every(
    [
        "SELECT POSITION('a' IN CAST(a AS STRING)) AS v FROM r",
        "SELECT POSITION('a', CAST(a AS STRING), 2) AS v FROM r",
        "SELECT NVL(a, b) AS v, IF(p, a, b) AS w, MOD(a, 2) AS x, DATE(t) AS y FROM r",
        "SELECT COUNT(DISTINCT a) AS n, CORR(a, b) AS c, MEAN(a) AS m FROM r",
        "SELECT * FROM ((SELECT a FROM r) AS x JOIN s ON x.a = s.b)",
        "SELECT ALL a FROM r",
        "SELECT a, b FROM r ORDER BY a OFFSET 1 LIMIT 3",
        "SELECT CASE a WHEN 2 THEN b END AS v, CASE WHEN a = 1 THEN 2 ELSE CASE WHEN b = 1 THEN 3 END END AS w FROM r",
        "SELECT a FROM r WHERE a BETWEEN 1 AND 3 AND b NOT BETWEEN 1 AND 2",
        "SELECT x.a FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM r WHERE a > 1) AS x WHERE n < 3",
    ]
)
def test_what_stays_allowed(query: str) -> None:
    program(query, SCHEMA)


@every(
    [
        ("r JOIN s USING (b)", "b a e c"),
        ("r NATURAL JOIN s", "b a e c"),
        ("r FULL JOIN s USING (b)", "b a e c"),
        ("s RIGHT JOIN r USING (b)", "b c a e"),
        ("u JOIN (r JOIN s USING (b)) USING (e)", "e f b a c"),
        ("r JOIN s USING (b) JOIN u USING (e)", "e b a c f"),
        ("r SEMI JOIN s USING (b) JOIN u ON a = f", "b a r_e f u_e"),
        ("v JOIN r USING (b, a)", "b a g e"),
        ("v NATURAL JOIN r", "a b g e"),
    ]
)
def test_columns_that_are_joined_by_come_first(tables: str, columns: str) -> None:
    schema = {name: dict.fromkeys(of.split(), "int64") for name, of in TABLES.items()}
    assert crown.view(f"SELECT * FROM {tables}", schema).to_table().column_names == columns.split()


TABLES = {"r": "a b e", "s": "b c", "u": "f e", "v": "g a b"}


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT a FROM r WHERE b IN (SELECT a FROM s) OR a = 9", [1]),
        ("SELECT a FROM r WHERE b NOT IN (SELECT a FROM s WHERE c > 1)", [2]),
        ("SELECT a FROM r WHERE (b IN (SELECT a + 1 FROM s)) IS NOT TRUE", [None, 1]),
    ],
)
def test_a_subquery_of_in_that_selects_columns_around_it(query: str, rows: list[int | None]) -> None:
    view = crown.view(query, {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}})
    view.update({"r": [(1, 1), (2, 3), (None, 2)], "s": [(1, 2)]})
    assert sorted(view.to_table()["a"].to_pylist(), key=str) == sorted(rows, key=str)
    view.update({"s": [(1, 2, -1)]})
    assert view.count() == (0 if " OR " in query else 3)


@pytest.mark.parametrize(
    ("outputs", "by", "rows"),
    [
        ("'p' AS a, b", "a", [("p", 3), ("p", 4)]),  # the column of the table
        ("a + b AS v, b", "v", [(4, 3), (6, 4)]),  # no table has it
        ("a + 1 AS c, a AS x, b", "c + 0", [(2, 1, 3), (3, 2, 4)]),
    ],
)
def test_a_window_reads_the_columns_of_the_tables_first(outputs: str, by: str, rows: list[tuple[object, ...]]) -> None:
    query = f"SELECT {outputs} FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY b) = 1"
    view = crown.view(query, {"r": {"a": "int64", "b": "int64"}})
    view.update({"r": [(1, 5), (2, 4), (1, 3)]})
    assert sorted(tuple(row.values()) for row in view.to_table().to_pylist()) == rows


@pytest.mark.parametrize("order", ["a % 2, o", "a % 2, o + 0", "a % 2 + 0, o % 9"])
def test_a_hidden_column_is_not_taken_for_one_of_a_table(order: str) -> None:
    view = crown.view(f"SELECT a FROM r ORDER BY {order} LIMIT 1", {"r": {"a": "int64", "o": "int64"}})
    view.update({"r": [(2, 8), (4, 1), (6, 5)]})
    assert view.to_table()["a"].to_pylist() == [4]


def test_a_hidden_column_has_no_number() -> None:
    assert refused("SELECT a FROM r ORDER BY a + b, 2 LIMIT 1") == "ORDER BY 2: there is no such output column"
