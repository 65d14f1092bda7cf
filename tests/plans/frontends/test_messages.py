"""Refusals say what the user wrote, where exactly, and what to do: read as a stranger would."""

from __future__ import annotations

import pytest

from plans import PlanError, QueryWarning, plan, program
from plans.expressions.build import call, lit
from tests.marks import every

SCHEMA = {
    "G": {"columns": {"src": "int64", "dst": "int64"}, "distinct": True},
    "P": {"columns": {"id": "int64", "name": "string", "born": "date", "at": "timestamp"}, "key": ["id"]},
    "T": {"id": "int64", "tags": "array<string>", "p": "struct<a:int64>"},
}
JOIN = "SELECT DISTINCT x.src FROM G x {} G y ON x.dst = y.src"


def refused(query: str) -> tuple[str, str, str]:
    """The sentence, the underlined text, the hint."""
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA)
    error = caught.value
    assert error.__cause__ is None
    assert error.position is not None, error
    line = query.split("\n")[error.position.line - 1]
    return error.message, line[error.position.column - 1 :][: error.position.length], error.hint


FUNCTIONS = (
    "HISTOGRAM_NUMERIC(id, 5)", "TO_NUMBER(name, '99')",
    "SENTENCES(name)", "xpath(name, 'a')", "my_udf(id)", "db.my_udf(id)", "UNIX_TIMESTAMP()",
)  # fmt: skip


@every(FUNCTIONS)
def test_a_function_is_called_as_the_user_calls_it(call: str) -> None:
    message, place, _ = refused(f"SELECT DISTINCT {call} AS v FROM P")
    word = call.split("(")[0].upper()
    assert message in (f"{word} is not supported", f"the aggregate {word} is not supported")
    assert place == call


@every(
    [
        ("name SIMILAR TO 'a'", "SIMILAR TO"),
        ("name LIKE ANY (SELECT name FROM P)", "LIKE ANY"),
        ("name LIKE SOME (SELECT name FROM P)", "LIKE SOME"),
        ("id > SOME (SELECT src, dst FROM G)", "> SOME"),
        ("at AT TIME ZONE 'UTC'", "AT TIME ZONE"),
    ]
)
def test_an_operator_is_called_as_the_user_writes_it(text: str, word: str) -> None:
    message, place, hint = refused(f"SELECT DISTINCT {text} AS v FROM P")
    assert message == f"{word} is not supported"
    assert place == text
    assert hint


@pytest.mark.parametrize(
    "words",
    [
        "FULL SEMI JOIN", "asof right join", "ASOF FULL JOIN", "STRAIGHT_JOIN",
    ],
)  # fmt: skip
def test_a_join_is_underlined_in_full_and_no_further(words: str) -> None:
    message, place, _ = refused(JOIN.format(words))
    assert message == f"{words.upper()} is not supported"
    assert place == words


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("CLUSTER BY src", "CLUSTER BY"),
        ("FOR UPDATE", "FOR UPDATE"),
        ("VERSION AS OF 3", "VERSION AS OF"),
    ],
)
def test_a_clause_is_named_and_found(rest: str, words: str) -> None:
    message, place, _ = refused(f"SELECT DISTINCT src FROM G {rest}")
    assert words in message
    assert place == words


@every(
    [
        ("MINUS SELECT dst FROM G ORDER BY src", "ORDER BY"),
        ("UNION ALL SELECT dst FROM G LIMIT 4", "LIMIT"),
        ("FETCH FIRST 5 ROWS ONLY", "FETCH"),
        ("OFFSET 5", "OFFSET"),
        ("WHERE dst IN (SELECT id FROM P LIMIT 3)", "LIMIT"),
        ("WHERE 'LIMIT 3' = 'a' LIMIT 3", "LIMIT"),
    ]
)
def test_a_warning_names_and_finds_its_clause(rest: str, words: str) -> None:
    query = f"SELECT DISTINCT src FROM G {rest}"
    with pytest.warns(QueryWarning) as caught:
        program(query, SCHEMA)
    (said,) = caught
    message, _, marks, *_ = str(said.message).split("\n")
    assert message.startswith(f"{words} without")
    assert marks.removeprefix("  | ") == " " * query.rindex(words) + "^" * len(words)


@every(
    [
        ("SELECT src, dst FROM G GROUP BY src", "column dst is neither in GROUP BY nor inside an aggregate", "dst"),
        ("SELECT GROUPING(dst) FROM G GROUP BY CUBE (src)", "the argument of GROUPING is not in GROUP BY", "dst"),
        (
            "SELECT src FROM G GROUP BY ROLLUP (src), dst + dst, ROLLUP (COUNT(*))",
            "the aggregate COUNT is not allowed in GROUP BY",
            "COUNT(*)",
        ),
        (
            f"SELECT src FROM G GROUP BY CUBE ({', '.join(f'src + {i}' for i in range(7))})",
            "128 groupings in one query are too many",
            "",
        ),
        (
            "SELECT src, dst FROM G GROUP BY ROLLUP (src)",
            "column dst is neither in GROUP BY nor inside an aggregate",
            "dst",
        ),
        ("SELECT src, SUM(name) FROM G, P GROUP BY src", "SUM needs a number, not string", "SUM(name)"),
        ("SELECT src FROM G GROUP BY 2", "GROUP BY 2: there is no such output column", "2"),
        ("SELECT src FROM G GROUP BY COUNT(*)", "GROUP BY an aggregate is not possible", "COUNT(*)"),
        ("SELECT src FROM G GROUP BY src HAVING MAX(dst)", "a condition is expected, not a value of type int64", ""),
        ("SELECT *, COUNT(*) FROM G", "* together with aggregates or GROUP BY is not supported", "*"),
        ("SELECT src FROM G JOIN P ON COUNT(*) = id", "the aggregate COUNT is not allowed in ON", "COUNT(*)"),
    ]
)
def test_what_a_group_cannot_have_is_said_with_its_place(query: str, said: str, where: str) -> None:
    message, place, _ = refused(query)
    assert message == said
    assert where in place


@every(
    [
        ("SUM(id) OVER (ORDER BY id ROWS 3)", "a frame counts its rows PRECEDING or FOLLOWING", "3"),
        (
            "SUM(id) OVER (ORDER BY at RANGE INTERVAL '1 month 2 days' PRECEDING)",
            "RANGE takes months, or days and times, but not both",
            "INTERVAL '1 month 2 days'",
        ),
        (
            "SUM(id) OVER (ORDER BY at RANGE INTERVAL '-1' MONTH PRECEDING)",
            "a distance of RANGE must not be negative",
            "INTERVAL '-1' MONTH",
        ),
        ("TUMBLE_START(at, '10 minuts')", "TUMBLE_START takes the length of a window, not '10 minuts'", None),
        ("TUMBLE_START(at, id)", "TUMBLE_START takes the length of a window as a constant", None),
        ("INTERVAL '1' HUR", "an INTERVAL cannot be 1 HUR long", None),
        ("WINDOW_TIME(at)", "WINDOW_TIME takes the window in GROUP BY", None),
        ("window.begin", "unknown table or alias window", None),
        ("GROUPING(id)", "GROUPING without several groupings is not supported", None),
    ]
)
def test_what_lacks_a_part_of_the_query_is_shown_with_what_to_write(text: str, said: str, marked: str | None) -> None:
    message, place, hint = refused(f"SELECT {text} AS v FROM P")
    assert message == said
    assert place == (marked or text)
    assert hint


@pytest.mark.parametrize("text", ["DATE '2024-02-30'", "CAST('2024-02-30' AS DATE)", "DATE '2024-13-01'"])
def test_a_day_that_is_none_is_called_so(text: str) -> None:
    message, place, _ = refused(f"SELECT DISTINCT id FROM P WHERE born > {text}")
    assert "does not exist" in message
    assert place == text


@every(
    [
        ("SELECT src,, dst FROM G", "there is nothing after this comma", ","),
        ("SELECT src, FROM G", "there is nothing after this comma", ","),
        ("SELECT , src FROM G", "there is nothing before this comma", ","),
        ("SELECT DISTINCT src FROM G,", "there is nothing after this comma", ","),
        ("SELECT DISTINCT src FROM G WHERE src IN (1, 2,)", "there is nothing after this comma", ","),
        ("SELECT DISTINCT COALESCE(src,) AS c FROM G", "there is nothing after this comma", ","),
        ("SELECT DISTINCT src FROM G WHERE src IN ()", "the list of IN is empty", "("),
        ("SELECT FROM G", "there is no column after this word", "SELECT"),
        ("SELECT DISTINCT FROM G", "there is no column after this word", "DISTINCT"),
        ("SELECT DISTINCT src FROM G JOIN P ON", "ON is not complete", "ON"),
        ("SELECT DISTINCT src FROM G JOIN P USING ()", "the list of USING is empty", "("),
        ("SELECT DISTINCT src AS FROM G", "AS is not complete", "AS"),
        ("SELECT DISTINCT src FROM G WHERE src =", "= is not complete", "="),
        ("SELECT DISTINCT src FORM G", "'FORM' is not expected here", "FORM"),
        ("SELECT src FROM G GROUP src", "GROUP needs BY", "GROUP"),
        ("SELECT src FROM G orders ORDER dst LIMIT 1", "ORDER needs BY", "ORDER"),
        ("SELECT SUM(src) OVER (PARTITION dst) AS s FROM G", "PARTITION needs BY", "PARTITION"),
        ("SELECT SUM(src) OVER (PARTITION BY dst ORDER src) AS s FROM G", "ORDER needs BY", "ORDER"),
        ("SELECT src FROM orders x y", "'y' is not expected here", "y"),
        ("SELECT DISTINCT (src FROM G", "expected ')', found 'FROM'", "FROM"),
        ("SELECT DISTINCT id FROM P WHERE name = 'bob", "the text that begins here is not closed", "'"),
        ('SELECT DISTINCT id\nFROM P WHERE name = "bob', "the text that begins here is not closed", '"'),
        ("SELECT DISTINCT `id FROM P", "the name that begins here is not closed", "`"),
        ("SELECT DISTINCT id FROM P /* all", "the comment that begins here is not closed", "/*"),
        ("SELECT DISTINCT CAST(id AS FANCY) AS i FROM P", "expected the name of a type", "FANCY"),
    ]
)
def test_what_is_no_sql_is_refused_at_its_place(query: str, message: str, place: str) -> None:
    found, where, _ = refused(query)
    assert found.startswith(f"SQL: {message}")
    assert where == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT DISTINCT src AS _weight FROM G", "src AS _weight"),
        ("SELECT DISTINCT src AS `_Weight` FROM G", "src AS `_Weight`"),
        ("SELECT DISTINCT * FROM (SELECT src AS _WEIGHT FROM G) t", "*"),
        ("Q(_weight) :- G(_weight, b).", "_weight"),
    ],
)
def test_no_output_is_called_weight(text: str, place: str) -> None:
    message, where, hint = refused(text)
    assert "every delta carries its weight under this name" in message
    assert where == place
    assert "AS" in hint


def test_a_vertex_of_a_motif_is_not_called_weight_either() -> None:
    with pytest.raises(PlanError, match="must not be called _weight"):
        plan("(_weight)-[]->(b)", SCHEMA)


def test_a_subquery_may_have_an_inner_column_called_weight() -> None:
    assert plan("SELECT DISTINCT t._weight AS w FROM (SELECT src AS _weight FROM G) t", SCHEMA).output[0].name == "w"


@pytest.mark.parametrize(
    ("query", "instead"),
    [
        ("EXPLAIN SELECT src FROM G", "write only the SELECT, and call view.explain()"),
        ("SHOW TABLES", "write a SELECT"),
        ("DELETE FROM G", "change rows by batches: view.apply({'t': rows})"),
        (
            "CREATE VIEW v AS SELECT src FROM G",
            "write only the SELECT: a view stores its result, a sink writes its changes",
        ),
        (
            "INSERT INTO R SELECT src FROM G",
            "write only the SELECT: a view stores its result, a sink writes its changes",
        ),
        ("hello", "write a SELECT"),
        ("[]", "write a SELECT"),
    ],
)
def test_what_is_no_query_is_refused_without_a_word_to_the_log(
    query: str, instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    message, _, hint = refused(query)
    assert message.endswith("is not a query that can be maintained")
    assert hint == instead
    assert not caplog.records


@every(
    [
        ("LOWER(name, name)", "LOWER takes 1 argument, not 2"),
        ("LPAD(name)", "LPAD takes 2 to 3 arguments, not 1"),
        ("NULLIF(id)", "NULLIF takes 2 arguments, not 1"),
        ("CONCAT()", "CONCAT takes 1 or more arguments, not 0"),
        ("INSTR(name, 'a', 1, 1)", "INSTR takes 2 arguments, not 4"),
        ("ROUND(id, id)", "ROUND needs a constant instead of P.id"),
        ("LEFT(name, born)", "LEFT needs a whole number, not date"),
        ("DATE_ADD(id, 1)", "DATE_ADD needs a date, not int64"),
        ("name RLIKE 'a(?<=b)'", "the regular expression 'a(?<=b)' has look-behind at its character 2: not supported"),
        (
            "REGEXP_LIKE(name, '*')",
            "the regular expression '*' has a * with nothing before it at its character 1: not supported",
        ),
        ("GET_JSON_OBJECT(name, 'a')", "GET_JSON_OBJECT: 'a' is not a path that is supported"),
    ]
)
def test_a_function_says_what_it_takes(call: str, message: str) -> None:
    found, place, _ = refused(f"SELECT DISTINCT {call} AS v FROM P")
    assert found == message
    assert place in call


@every([
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?<n>a)", "(a)\\1", "a*+", "a++", "a?+", "a{2}+", "[a[b]]",
        "[a&&b]", "[]a]", "[z-a]", "[a", "(a", "a)", "a{", "a{2,1}", "a{1001}", "a**", "^*", "\\Q", "\\G", "\\R",
        "\\p{Greek}", "a$b", "(a$)b", "(?x)a", "a(?i)b", "*", "+a", "\\",
    ])  # fmt: skip
def test_a_regular_expression_that_java_and_re2_could_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(PlanError, match="the regular expression"):
        call("regexp_like", lit("text"), lit(pattern))


@every(
    [
        ("SELEC src FROM G", "SELEC", "SELECT"),
        ("SELECT src FORM G", "FORM", "FROM"),
        ("SELECT src FROM G WERE src = 1", "WERE", "WHERE"),
        ("WITH q AS (SELEC src FROM G) SELECT src FROM q", "SELEC", "SELECT"),
        ("SELECT src, SUM(dst) FROM G GRUOP BY src", "GRUOP", "GROUP"),
        ("SELECT x.src FROM G x JION G y ON x.dst = y.src", "JION", "JOIN"),
        ("SELECT DISTNCT src FROM G", "DISTNCT", "DISTINCT"),
        ("SELECT COUTN(src) FROM G", "COUTN(src)", "COUNT"),
        ("SELECT UPPR(name) FROM P", "UPPR(name)", "UPPER"),
        ("SELECT srcc FROM G", "srcc", "src"),
        ("SELECT src FROM GG", "GG", "G"),
    ]
)
def test_a_misspelled_word_is_pointed_at_with_the_word_that_was_meant(query: str, place: str, meant: str) -> None:
    _, found, hint = refused(query)
    assert (found, hint) == (place, f"did you mean {meant}?")


@pytest.mark.parametrize(
    "query", ["SELECT form FROM G WHERE (src = 1", "SELECT order_by FROM G", "SELECT my_udf(src) FROM G"]
)
def test_a_word_that_is_like_no_other_is_not_corrected(query: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA)
    assert "did you mean" not in caught.value.hint


ASOF = "SELECT src, id FROM G ASOF {}JOIN P {}"


@every(
    [
        ("SELECT SUM(tags) FROM T", "SUM needs a number, not array<string>", "SUM(tags)", ""),
        ("SELECT ANY_VALUE(p) FROM T", "ANY_VALUE needs an order", "ANY_VALUE(p)", "such as x.a"),
        ("SELECT id FROM T ORDER BY id, tags LIMIT 1", "ORDER BY needs an order", "tags", "x[0], or their text"),
        ("SELECT RANK() OVER (ORDER BY p DESC) FROM T", "ORDER BY needs an order", "p DESC", "or their text, TO_JSON"),
        ("SELECT MODE(id, true) FROM T", "MODE with a second argument is not supported", "MODE(id, true)", ""),
        ("SELECT id FROM T WHERE explode(tags) = 'a'", "EXPLODE is not", "explode(tags)", "LATERAL VIEW explode(tags)"),
        ("SELECT UPPER(inline(tags)) FROM T", "INLINE is not", "inline(tags)", "LATERAL VIEW inline(items)"),
        ("SELECT id FROM T WHERE UNNEST(tags) = 'a'", "UNNEST is not", "UNNEST(tags)", "FROM t, UNNEST(t.tags)"),
        ("SELECT id FROM T WHERE EXISTS (SELECT 1 FROM UNNEST(T.tags) AS u(x), P)", "UNNEST without a table before it",
         "UNNEST(T.tags) AS u(x)", "FROM t, UNNEST(t.tags)"),
        ("SELECT x FROM UNNEST(ARRAY(1, 2)) AS u(x)", "UNNEST without a table before it", "UNNEST(ARRAY(1, 2)) AS u(x)",
         "FROM t, UNNEST(t.tags)"),
        ("SELECT LAG(id) AS v FROM P", "LAG without OVER", "LAG(id)", "write OVER (ORDER BY ...)"),
        ("SELECT ROW_NUMBER() AS v FROM P", "ROW_NUMBER without OVER", "ROW_NUMBER()", "write OVER (ORDER BY ...)"),
        ("SELECT id FROM P WHERE DENSE_RANK() = 1", "DENSE_RANK without OVER", "DENSE_RANK()", "write OVER"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY window(id, '5 minutes')", "WINDOW takes a date or a timestamp",
         "window(id, '5 minutes')", "use CAST"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY window(at)", "WINDOW takes a timestamp, a size, and a slide",
         "window(at)", "write window(at, '10 minutes', '5 minutes', '1 minute')"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY window(at, '5 minutes', '9 minutes')", "WINDOW: a slide that is longer",
         "window(at, '5 minutes', '9 minutes')", "use a slide of at most the size"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY window(at, '1 day', '1 second')", "WINDOW: each row would be in 86400",
         "window(at, '1 day', '1 second')", "use a longer slide: at most 1000 windows per row are supported"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY window(at, '1 day'), window(at, '1 hour')", "two windows of time in one",
         "window(at, '1 hour')", "group by one of them in a subquery, and by the other in the outer query"),
        ("SELECT COUNT(*) AS n FROM P GROUP BY HOP(at, INTERVAL '1' DAY)", "HOP takes a timestamp, the slide",
         "HOP(at, INTERVAL '1' DAY)", "write HOP(at, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)"),
        *((f"SELECT COUNT(*) AS n FROM P GROUP BY {call}(at, {length})", f"{call} takes a length above 0",
           f"{call}(at, {length})", "")
          for call in ("SESSION", "TUMBLE", "WINDOW")
          for length in ("INTERVAL '0' MINUTE", "INTERVAL '-5' MINUTE", "INTERVAL -5 MINUTE", "'-5 minutes'")),
        (ASOF.format("RIGHT ", "ON src >= id"), "ASOF RIGHT JOIN is not", "ASOF RIGHT JOIN", "ASOF LEFT JOIN"),
        (ASOF.format("FULL ", "ON src >= id"), "ASOF FULL JOIN is not", "ASOF FULL JOIN", "ASOF LEFT JOIN"),
        *((ASOF.format("", f"MATCH_CONDITION ({condition}) ON dst = id"), "MATCH_CONDITION takes one comparison by >=",
           condition, "put equalities into ON")
          for condition in ("src = id", "src <> id", "src >= id AND dst = id", "src")),
        ("SELECT ARRAY() AS v FROM T", "output column v has an ARRAY() without a type", "ARRAY() AS v",
         "write CAST(ARRAY() AS ARRAY<INT>)"),
        *((f"SELECT id FROM P WHERE {part} > 0", "an ARRAY() has no type here", part.removesuffix(" + 0"),
           "write CAST(ARRAY() AS ARRAY<INT>)")
          for part in ("SIZE(ARRAY())", "ARRAY()[0] + 0", "REDUCE(ARRAY(), 0, (s, x) -> s)", "ELEMENT_AT(ARRAY(), 1)")),
        ("SELECT COUNT(*) AS n FROM P WHERE FROM_JSON(name, 'a MAP<INT, INT>') IS NULL", "FROM_JSON: the keys of",
         "FROM_JSON(name, 'a MAP<INT, INT>')", "make them STRING, and cast them with TRANSFORM_KEYS"),
    ]
)  # fmt: skip
def test_what_is_written_otherwise_here_is_refused_with_how(query: str, said: str, where: str, hint: str) -> None:
    found, place, advice = refused(query)
    assert (found[: len(said)], place) == (said, where)
    assert hint in advice


def test_only_the_time_of_day_changes_without_input() -> None:
    assert "changes without a change of a table" in refused("SELECT UNIX_TIMESTAMP() AS v FROM P")[2]
    assert plan("SELECT DISTINCT UNIX_TIMESTAMP(at) AS v FROM P", SCHEMA).output[0].type == "int64"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "tsql", "snowflake", "spark"])
def test_an_unknown_type_is_refused_by_its_name_or_its_place(dialect: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT DISTINCT CAST(src AS NOPE) AS x FROM G", SCHEMA, dialect=dialect)
    assert "type NOPE is not supported in a cast" in str(caught.value) or "the name of a type" in str(caught.value)
    assert caught.value.position is not None
