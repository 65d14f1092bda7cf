"""Regular expressions of other dialects: options, groups in replacements, all matches or the first, as they say it."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest

import crown
from plans import PlanError, plan
from tests.marks import every

TEXTS = ("abcabc", "xay", "", None, "b\n", "aé𝔸bab", "AB Ab", "foo\nbar", "a.b.c", "12-34-56", "$1", "\\\\1")
DUCKDB = (
    *(f"regexp_replace(s, {given})" for given in (
        r"'(a)(b)', '\2\1', 'g'", r"'(a)(b)', '\2\1'", r"'b', '[\0]'", r"'[ab]', '$1\\', 'g'", "'a', 'X', 'gi'",
        "'a', 'X', 'i'", "'b$', 'X'", r"'^\s*', '>'", "'x*', '-'", r"'(a|b)', '\10', 'g'", "'a', ''", "'[$]', 'x'",
        r"'\$', 'x'", "'A', 'x', 'ic'", "'A', 'x', 'ci'",
        "'(?i)A', '-', 'g'", "'o.b', '-', 's'", "'o.b', '-'", "'(a$|b)', '-'",
    )),
    "regexp_matches(s, 'b$')", "regexp_matches(s, '^ab', 'i')", "regexp_matches(s, '[a-]$')", "s ~ 'a.*'",
    "regexp_full_match(s, 'a.*')", "regexp_full_match(s, 'AB|ab.*', 'i')", "regexp_full_match(s, '(?i)ab ab$')",
    "s SIMILAR TO 'a'", "s SIMILAR TO 'a.*'", "NOT s SIMILAR TO '[a-z]*'",
    "regexp_extract(s, 'a(.)', 1)", "regexp_extract(s, 'A(.)', 1, 'i')", "regexp_extract(s, 'b.')",
    "regexp_extract_all(s, 'a.')", "regexp_extract_all(s, 'A(.)', 1, 'i')", r"regexp_extract_all(s, '\d+')",
    "regexp_split_to_array(s, 'b')", r"regexp_split_to_array(s, '\.')", "string_split_regex(s, '[ab]')",
)  # fmt: skip
OTHERS = {
    ("postgres", r"regexp_replace(s, '(a)(b)', '\2\1')"): "ba-AB",
    ("postgres", r"regexp_replace(s, 'b.a', '[\&]', 'gi')"): "a[b-A]B",
    ("postgres", "regexp_replace(s, 'a', 'x', 1, 0, 'i')"): "xb-xB",
    ("postgres", "s ~* 'B-a'"): True,
    ("postgres", "regexp_like(s, 'B', 'c')"): True,
    ("postgres", "regexp_count(s, 'a', 1, 'i')"): 2,
    ("postgres", "regexp_substr(s, 'x')"): None,
    ("postgres", "s SIMILAR TO '(a|x)_-%'"): True,
    ("postgres", "s SIMILAR TO 'ab-A.'"): False,
    ("redshift", "regexp_replace(s, '([a-z])', '$1$1')"): "aabb-AB",
    ("redshift", "regexp_replace(s, 'A', 'x', 1, 'i')"): "xb-xB",
    ("snowflake", r"regexp_replace(s, '(a)(b)', '\\2\\1')"): "ba-AB",
    ("snowflake", "regexp_replace(s, '[a-z]', 'x', 1, 1)"): "xb-AB",
    ("snowflake", "regexp_replace(s, '[A-Z]', '', 1, 0, 'i')"): "-",
    ("snowflake", "regexp_like(s, 'ab')"): False,
    ("snowflake", "s rlike 'AB-.*' OR rlike(s, 'AB-.*', 'i')"): True,
    ("snowflake", "regexp_substr(s, '[a-z]', 1, 2)"): "b",
    ("snowflake", "regexp_substr(s, '([a-z])-', 1, 1, 'e')"): "b",
    ("snowflake", "regexp_substr(s, 'z')"): None,
    ("snowflake", "regexp_instr(s, '-')"): 3,
    ("postgres", "regexp_match(s, 'B.', 'i')"): ["b-"],
    ("postgres", r"regexp_match(s, '(\w)[(-](?:A)(.)')"): ["b", "B"],
    ("postgres", "(regexp_match(s, '([a-z]+)-(.)'))[2]"): "A",
    ("postgres", r"regexp_match(s, 'x(\()')"): None,
    ("postgres", "regexp_match(s, '(x|a)b-(?:A|(?:z)?)(.)')"): ["a", "B"],
    ("snowflake", "regexp_count(s, 'B', 1, 'i')"): 2,
    ("bigquery", r"REGEXP_REPLACE(s, r'(\w)-', r'\1+')"): "ab+AB",
    ("bigquery", "REGEXP_EXTRACT(s, 'b-(.)')"): "A",
    ("bigquery", "REGEXP_EXTRACT(s, 'x')"): None,
    ("bigquery", "REGEXP_EXTRACT_ALL(s, '[ab]')"): ["a", "b"],
    ("bigquery", "REGEXP_INSTR(s, 'A')"): 4,
    ("trino", "regexp_replace(s, '(a)(b)', '$2$1')"): "ba-AB",
    ("trino", "regexp_extract(s, 'x')"): None,
    ("trino", "regexp_extract_all(s, '([a-z])', 1)"): ["a", "b"],
    ("oracle", r"REGEXP_REPLACE(s, '(a)(b)', '\2\1', 1, 1)"): "ba-AB",
    ("oracle", "REGEXP_SUBSTR(s, '[^-]+', 1, 2)"): "AB",
    ("mysql", "REGEXP_INSTR(s, 'A')"): 4,
    ("spark", "REGEXP_REPLACE(s, '[ab]', 'x')"): "xx-AB",
}
REFUSED = {
    ("duckdb", "regexp_replace(s, 'a', 'b', 'm')"): "the option 'm' of a regular expression is not supported",
    ("duckdb", "regexp_matches(s, 'a', s)"): "the options of a regular expression must be constant",
    ("duckdb", "regexp_extract(s, '(a)', ['x'])"): "REGEXP_EXTRACT with names of groups is not supported",
    ("duckdb", r"regexp_replace(s, 'a', '\d')"):
        "REGEXP_REPLACE: the replacement '\\\\d' has a backslash that is not followed by a group",
    ("snowflake", "regexp_replace(s, 'a', 'b', 2)"): "a regular expression always starts at the first character",
    ("snowflake", "regexp_replace(s, 'a', 'b', 1, 3)"): "REGEXP_REPLACE replaces either all matches or the first one",
    ("snowflake", "regexp_instr(s, 'a', 1, 2)"): "REGEXP_INSTR supports only the position of the first match",
    ("postgres", "s SIMILAR TO s"): "SIMILAR TO takes a constant pattern",
    ("postgres", "regexp_match(s, s)"): "REGEXP_MATCH takes a constant pattern",
    **{
        ("postgres", f"regexp_match(s, '{pattern}')"):
            "REGEXP_MATCH of a pattern with an optional group is not supported"
        for pattern in ("(a)|b", "x(?:a|(b))", "(a)?b", "(?:(a)b)*", "((a)|b)")
    },
    ("spark", "REGEXP_EXTRACT_ALL(s, 'a*', 0)"):
        "REGEXP_EXTRACT_ALL: the pattern 'a*' may match no character, which Spark counts in another way",
}  # fmt: skip


def _found(dialect: str, calls: Sequence[str], texts: Sequence[str | None]) -> dict[str, list[object]]:
    """Returns the values of each call, one per text."""
    outputs = ", ".join(f"{call} AS v{i}" for i, call in enumerate(calls))
    view = crown.view(f"SELECT s, {outputs} FROM t", {"t": {"s": "string"}}, dialect=dialect)
    view.update({"t": [{"s": text} for text in texts]})
    found = {row["s"]: row for row in view}
    return {call: [found[text][f"v{i}"] for text in texts] for i, call in enumerate(calls)}


def test_a_regular_expression_of_duckdb_matches_what_duckdb_says() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT UNNEST(?) AS s", [list(TEXTS)])
        rows = {row[0]: row[1:] for row in connection.sql(f"SELECT s, {', '.join(DUCKDB)} FROM t").fetchall()}
    wanted = {call: [rows[text][i] for text in TEXTS] for i, call in enumerate(DUCKDB)}
    assert _found("duckdb", DUCKDB, TEXTS) == wanted


@every({dialect for dialect, _ in OTHERS})
def test_a_regular_expression_means_what_its_dialect_says(dialect: str) -> None:
    wanted = {call: [value, None] for (name, call), value in OTHERS.items() if name == dialect}
    assert _found(dialect, list(wanted), ("ab-AB", None)) == wanted


@every(REFUSED)
def test_what_is_not_read_of_a_regular_expression_is_refused_at_its_place(dialect: str, call: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT DISTINCT {call} AS v FROM t", {"t": {"s": "string"}}, dialect=dialect)
    assert caught.value.message == REFUSED[dialect, call]
    assert caught.value.position is not None


def test_a_text_that_holds_the_sign_between_matches_is_split_by_another_one() -> None:
    sign, call = chr(0xF0000), "REGEXP_EXTRACT_ALL(s, '[^a]', 0)"
    assert _found("spark", [call], (f"a{sign}ab", "ac")) == {call: [[sign, "b"], ["c"]]}
