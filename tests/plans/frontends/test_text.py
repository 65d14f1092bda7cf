"""The syntax tree as every release of sqlglot that is allowed should give it."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from plans.frontends.sql.text.parse import _intersect_first


def _leaning(text: str, *operators: type[exp.SetOperation]) -> exp.Expression:
    """Returns a chain of set operations in the order of the text; the last operand has ORDER BY and LIMIT."""
    first, *others = map(sqlglot.parse_one, text.split())
    for operator, other in zip(operators, others, strict=True):
        first = operator(this=first, expression=other, distinct=True)
    return first.order_by("1", copy=False).limit(3, copy=False)


@pytest.mark.parametrize(
    ("operators", "bound"),
    [
        ((exp.Union, exp.Intersect), "(a UNION (b INTERSECT c))"),
        ((exp.Intersect, exp.Union, exp.Intersect), "((a INTERSECT b) UNION (c INTERSECT d))"),
        ((exp.Except, exp.Intersect, exp.Intersect, exp.Union), "((a EXCEPT ((b INTERSECT c) INTERSECT d)) UNION e)"),
        ((exp.Union, exp.Except), "((a UNION b) EXCEPT c)"),
        ((exp.Intersect, exp.Intersect), "((a INTERSECT b) INTERSECT c)"),
    ],
)
def test_intersect_binds_tighter(operators: tuple[type[exp.SetOperation], ...], bound: str) -> None:
    def shown(node: exp.Expression) -> str:
        if not isinstance(node, exp.SetOperation):
            return node.sql()
        return f"({shown(node.this)} {type(node).__name__.upper()} {shown(node.expression)})"

    whole = _intersect_first(_leaning(" ".join("abcde"[: len(operators) + 1]), *operators))
    assert shown(whole) == bound
    assert whole.sql().endswith(" ORDER BY 1 LIMIT 3")
    assert sum(node.args.get("limit") is not None for node in whole.walk()) == 1


def test_what_is_in_parentheses_stays() -> None:
    given = exp.Intersect(this=sqlglot.parse_one("(SELECT 1 UNION SELECT 2)"), expression=sqlglot.parse_one("SELECT 3"))
    assert _intersect_first(given) is given
    assert isinstance(given.this, exp.Subquery)
