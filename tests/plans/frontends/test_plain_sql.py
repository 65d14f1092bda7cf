"""SQL as people write it: what has no effect on a maintained result is read, with a warning where it may be missed."""

from __future__ import annotations

import warnings

import pytest

from plans import PlanError, QueryWarning, program
from tests.marks import every
from tests.oracles import duck
from tests.plans.expressions.evaluator import results
from tests.plans.lowering.program_queries import TABLES
from tests.plans.lowering.test_programs import DATABASES, rounded


def means(query: str, oracle: str) -> None:
    """Checks that a query has the rows that DuckDB gives for another text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        made = program(query, TABLES)
    for database in DATABASES:
        assert rounded(results(made, database)) == rounded(duck.results(oracle, database)), query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b FROM r ORDER BY a",
        "SELECT a, b + 1 AS c FROM r ORDER BY c DESC, r.b",
        "SELECT a, COUNT(*) AS n FROM r GROUP BY a ORDER BY SUM(b)",
        "SELECT a FROM r UNION SELECT b FROM s ORDER BY 1",
        "(SELECT DISTINCT a FROM r) ORDER BY a",
    ],
)
def test_order_by_alone_is_read_with_a_warning(query: str) -> None:
    with pytest.warns(QueryWarning, match="ORDER BY without LIMIT has no effect"):
        program(query, TABLES)
    means(query, query)


def test_limit_all_is_no_limit() -> None:
    means("SELECT a FROM r LIMIT ALL", "SELECT a FROM r")
    means(
        "SELECT a FROM r ORDER BY a NULLS FIRST LIMIT ALL OFFSET 2", "SELECT a FROM r ORDER BY a NULLS FIRST OFFSET 2"
    )
    with pytest.raises(PlanError, match="LIMIT takes only a number of rows"):
        program("SELECT a FROM r ORDER BY a LIMIT 10 PERCENT", TABLES)


def test_order_by_in_a_derived_table_is_read_without_a_warning() -> None:
    query = (
        "WITH q AS (SELECT a, b FROM r ORDER BY b) SELECT q.a, p.c FROM q JOIN (SELECT * FROM s ORDER BY c) p USING (b)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program(query, TABLES)
    means(query, query)


def test_order_by_alone_names_what_there_is() -> None:
    with pytest.raises(PlanError, match="unknown column nope"):
        program("SELECT a FROM r ORDER BY nope", TABLES)


@pytest.mark.parametrize(
    ("query", "word", "oracle"),
    [
        ("SELECT b, a FROM r LIMIT 3", "LIMIT", "ORDER BY b NULLS FIRST, a NULLS FIRST LIMIT 3"),
        ("SELECT b, a FROM r LIMIT 2 OFFSET 1", "LIMIT", "ORDER BY b NULLS FIRST, a NULLS FIRST LIMIT 2 OFFSET 1"),
        ("SELECT b, a FROM r OFFSET 2", "OFFSET", "ORDER BY b NULLS FIRST, a NULLS FIRST OFFSET 2"),
        ("SELECT b, a FROM r FETCH FIRST 3 ROWS ONLY", "FETCH", "ORDER BY b NULLS FIRST, a NULLS FIRST LIMIT 3"),
    ],
)
def test_rows_without_an_order_are_ordered_by_all_columns(query: str, word: str, oracle: str) -> None:
    with pytest.warns(QueryWarning, match=f"{word} without ORDER BY keeps the first rows"):
        program(query, TABLES)
    means(query, f"SELECT b, a FROM r {oracle}")


@every(
    [
        "SELECT a, NULL AS x FROM r UNION ALL SELECT b, c FROM s",
        "SELECT NULL AS x, a FROM r UNION SELECT NULL, NULL FROM r UNION ALL SELECT d, k FROM t",
        "SELECT a, COALESCE(x, b) AS x FROM (SELECT a, b, NULL AS x FROM r) q",
        "SELECT a, COUNT(*) AS n, NULL AS x FROM r GROUP BY a UNION ALL SELECT b, 1, c FROM s",
        "SELECT a FROM r WHERE NULL",
        "SELECT a, SUM(b) AS s, a + 1 AS c FROM r GROUP BY ALL",
        "SELECT SUM(b) AS s FROM r GROUP BY ALL",
        "SELECT DISTINCT (a) FROM r ORDER BY a NULLS FIRST LIMIT 2",
    ]
)
def test_a_value_without_a_type_has_that_of_its_context(query: str) -> None:
    means(query, query)


def test_a_column_that_is_null_everywhere_has_no_type() -> None:
    for query in ("SELECT a, NULL AS x FROM r", "SELECT NULL AS x FROM r UNION SELECT NULL FROM r"):
        with pytest.raises(PlanError, match="output column x is NULL without a type"):
            program(query, TABLES)


def test_columns_of_one_name_are_numbered() -> None:
    query = "SELECT x.a, y.a, x.b, x.a FROM r x JOIN r y ON x.b = y.b"
    made = program(query, TABLES)
    assert [out.name for out in made.output] == ["a", "a_2", "b", "a_3"]
    means(query, query)


@every(
    [
        ("SELECT b, c FROM r RIGHT SEMI JOIN s USING (b)", "SELECT b, c FROM s SEMI JOIN r USING (b)"),
        (
            "SELECT c FROM r RIGHT SEMI JOIN s ON r.b = s.b AND a > 1",
            "SELECT c FROM s SEMI JOIN r ON r.b = s.b AND a > 1",
        ),
        ("SELECT * FROM r NATURAL RIGHT ANTI JOIN s", "SELECT * FROM s ANTI JOIN r USING (b)"),
        (
            "SELECT k, c FROM r JOIN u USING (a) RIGHT ANTI JOIN s ON r.b < s.b JOIN t ON s.b = t.k",
            "SELECT k, c FROM (SELECT * FROM s ANTI JOIN (r JOIN u USING (a)) ON r.b < s.b) q JOIN t ON q.b = t.k",
        ),
    ]
)
def test_a_join_that_asks_of_its_right_side_keeps_that(query: str, oracle: str) -> None:
    means(query, oracle)


@every(
    [
        ("SELECT c FROM s WHERE c LIKE ANY ('p%', 'q')", "SELECT c FROM s WHERE c LIKE 'p%' OR c LIKE 'q'"),
        ("SELECT c FROM s WHERE c NOT LIKE ALL ('p%', 'q')", "SELECT c FROM s WHERE c NOT LIKE 'p%' AND c <> 'q'"),
        ("SELECT c FROM s WHERE c NOT LIKE ANY ('p', 'q')", "SELECT c FROM s WHERE c <> 'p' OR c <> 'q'"),
        ("SELECT c FROM s WHERE NOT c LIKE ANY ('p', 'q')", "SELECT c FROM s WHERE NOT (c = 'p' OR c = 'q')"),
        ("SELECT a FROM r WHERE b >= ALL (a, 1)", "SELECT a FROM r WHERE b >= a AND b >= 1"),
        ("SELECT a FROM r WHERE b = ANY (ARRAY(1, a))", "SELECT a FROM r WHERE b = 1 OR b = a"),
        ("SELECT a FROM r WHERE b <> ALL (ARRAY(1, a))", "SELECT a FROM r WHERE b <> 1 AND b <> a"),
        ("SELECT a FROM r WHERE b = ANY (SELECT b FROM s)", "SELECT a FROM r WHERE b IN (SELECT b FROM s)"),
        ("SELECT a FROM r WHERE b <> ALL (SELECT b FROM s)", "SELECT a FROM r WHERE b NOT IN (SELECT b FROM s)"),
        ("SELECT a, b = SOME (SELECT b FROM s) AS x FROM r", "SELECT a, b IN (SELECT b FROM s) AS x FROM r"),
        ("SELECT TRY_CAST('' AS BIGINT) AS x, a FROM r", "SELECT CAST(NULL AS BIGINT) AS x, a FROM r"),
    ]
)
def test_comparisons_with_any_and_all_are_spelled_out(query: str, oracle: str) -> None:
    means(query, oracle)
