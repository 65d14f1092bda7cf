"""docs/limits.md says what the planner says; every refusal has a place, and none is another library's."""

from __future__ import annotations

import pytest

from plans import PlanError, plan, program
from tests.marks import every
from tests.plans.limits import PAGE, entries, error_of, schema

TEXT = PAGE.read_text(encoding="utf-8")
ENTRIES = list(entries(TEXT))
SCHEMA = schema(TEXT)


@every(ENTRIES)
def test_the_page_has_the_exact_error(query: str, error: str) -> None:
    found = error_of(query, SCHEMA)
    assert found == error, "run python -m tests.plans.limits, read the diff"
    assert "sqlglot" not in found
    assert "<class" not in found


@every([query for query, _ in ENTRIES])
def test_errors_chain_no_foreign_traceback(query: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@every(
    [
        ("SELECT DISTINCT src\nFROM G\nWHERE dts > 3", 3, 7),
        ("SELECT DISTINCT\n  x.src\nFROM G x\nTABLESAMPLE (1 ROWS)", 4, 1),
        ("Q(a) :-\n  G(a, b),\n  H(b).", 3, 3),
        ("Q(a) :-\n  G(a, b), b > 'x'.", 2, 14),
        ("(a)-[]->(b);\n  !(b)-[]->(c)", 2, 3),
        ("SELECT DISTINCT src\nFROM G JOIN P\nON src = name", 3, 4),
    ]
)
def test_errors_point_at_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(PlanError) as caught:
        plan(text, SCHEMA)
    position = caught.value.position
    assert position is not None
    assert (position.line, position.column) == (line, column)
    assert f"(line {line}, column {column})" in str(caught.value)


NONSENSE = """
;
SELECT
Q
Q(
Q() :-
Q(a) :- .
(
()-
[1]
{}
{
SELECT 1
SELECT * FROM
VALUES (1)
SELECT DISTINCT src FROM G; SELECT 1
SELECT DISTINCT 'a FROM G
SELECT DISTINCT `x FROM G
SELECT DISTINCT src FROM (SELECT src FROM G
WITH x AS (SELECT 1) SELECT * FROM x
SELECT DISTINCT src.x FROM G
SELECT DISTINCT G.* EXCEPT (src, dst) FROM G
SELECT DISTINCT src FROM G, LATERAL (SELECT 1) t
SELECT DISTINCT x FROM VALUES (1) AS t(x)
SELECT DISTINCT src + 'a' FROM G
SELECT DISTINCT NOT src FROM G
SELECT DISTINCT src FROM G WHERE src
SELECT DISTINCT src FROM G WHERE dst AND src = 1
SELECT DISTINCT src FROM G WHERE src LIKE 'a'
SELECT DISTINCT src[0] FROM G
SELECT DISTINCT EXTRACT(EPOCHS FROM born) FROM P
SELECT DISTINCT SUBSTRING(name, born) FROM P
SELECT DISTINCT CASE WHEN src = 1 THEN 'a' ELSE 2 END FROM G
SELECT DISTINCT 999999999999999999999999999999999999999 FROM G
SELECT DISTINCT name || ARRAY(src) FROM P, G
Q(a) :- G(a, b), a ? b
Q(a) :- G(a, b) b
Q(a) :- G(a, b), a.
Q(G) :- G(a, b)
Q(a) :- a > 1
(a)-[a]->(b)
(a)-[e]->(b); (b)-[e]->(c)
(a);(b)
(a)-[]->(b);x
"""


@every(["", *NONSENSE.strip().splitlines()])
def test_nonsense_is_a_plan_error(text: str) -> None:
    with pytest.raises(PlanError):
        plan(text, SCHEMA)
