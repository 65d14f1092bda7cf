"""What every operand of an OR asks for is asked for outside of it: the same values, and equalities that join."""

from __future__ import annotations

from functools import reduce
from itertools import product

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from plans import Expr, plan
from plans.expressions.build import call, col, conjoin, factored

NAMES = "abcd"
ROWS = list(product((True, False, None), repeat=len(NAMES)))
COLUMNS = {name: pa.array([row[i] for row in ROWS], pa.bool_()) for i, name in enumerate(NAMES)}
OPERANDS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), min_size=1, max_size=4)


def disjunction(operands: list[list[str]]) -> Expr:
    return reduce(lambda one, two: call("or", one, two), (conjoin([col(n, "bool") for n in o]) for o in operands))


@given(OPERANDS)
def test_the_value_is_the_same_also_with_nulls(operands: list[list[str]]) -> None:
    asked, made = disjunction(operands), factored(disjunction(operands))
    assert made.evaluate(COLUMNS).equals(asked.evaluate(COLUMNS))
    common = set.intersection(*map(set, operands))
    assert common <= {part.value for part in made.conjuncts() if part.op == "col"} or len(operands) == 1


def test_an_operand_that_asks_for_no_more_is_all() -> None:
    assert str(factored(disjunction([["a"], ["a", "b"]]))) == "a"
    assert str(factored(disjunction([["a", "b"], ["c", "a"]]))) == "a AND (b OR c)"
    kept = disjunction([["a", "b"], ["c"]])
    assert factored(kept) is kept


def test_an_equality_in_every_operand_joins() -> None:
    schema = {"r": {"a": "int64", "b": "int64"}, "s": {"a": "int64", "c": "int64"}}
    common = "r.a = s.a AND s.c > 0"
    sql = f"SELECT DISTINCT r.a, r.b, s.c FROM r, s WHERE ({common} AND r.b > 1) OR (s.c < 9 AND {common})"
    made = plan(sql, schema)
    assert not any("Cartesian" in note for note in made.notes)
    assert [str(part) for part in made.residual] == ["b > 1 OR c < 9"]
    filters = {node.relation: str(node.predicate) for node in made.nodes if node.kind == "input"}
    assert filters["s"] == "c > 0"
