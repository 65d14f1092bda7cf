"""docs/expressions.md is current: it lists what the planner takes and Spark is asked, and says what is refused."""

from __future__ import annotations

import re

from plans.expressions.build import ARITHMETIC, COMPARISONS, FUNCTIONS, Expr
from plans.expressions.names import NAMES
from plans.frontends.sql.scalars.scalar import _BINARY
from tests.plans.expression_page import PAGE, filled
from tests.plans.expressions.expression_cases import expression, pairs
from tests.plans.limits import entries

TEXT = PAGE.read_text(encoding="utf-8")


def _operators(expr: Expr) -> set[str]:
    return {expr.op}.union(*map(_operators, expr.args))


def test_the_page_is_current() -> None:
    assert filled(TEXT) == TEXT, "run python -m tests.plans.expression_page, read the diff"
    assert len(list(entries(TEXT))) > 20


def test_every_operator_has_an_expression_that_spark_is_asked() -> None:
    used = set().union(*(_operators(expression(ours)) for ours, _ in pairs()))
    known = {*COMPARISONS, *ARITHMETIC, *FUNCTIONS, *_BINARY.values()}
    known |= {"neg", "abs", "not", "isnull", "in", "like", "case", "cast", "col", "literal"}
    assert used == known - {
        *("with_places", "outer"),  # of what makes rows: tests/programs/test_unnest.py
    }


def test_every_name_of_a_function_is_used_in_an_expression_that_spark_is_asked() -> None:
    used = {word.upper() for ours, _ in pairs() for word in re.findall(r"(\w+)\(", ours)}
    assert set(NAMES) - used == set()


def test_every_entry_of_a_name_is_meant_by_some_call() -> None:
    hidden = {
        (name, entry.name)
        for name, found in NAMES.items()
        for number, entry in enumerate(found)
        if not any(
            entry.kinds(count) is not None and all(one.kinds(count) is None for one in found[:number])
            for count in range(20)
        )
    }
    assert hidden == set(), "an entry before it takes as many arguments: one of both is never used"


def test_the_page_of_limits_leads_to_the_list() -> None:
    assert "expressions.md" in PAGE.with_name("limits.md").read_text(encoding="utf-8")
