"""What a sum over a join is made of: products of factors over single relations, each stored once."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import pytest

from crown.store.codec import uses_dictionary
from plans import Program, program
from plans.lowering.groups.monomials import one_word
from plans.payloads.payload import LIMB, MINUS, PLUS, VALID, VALUE, limbs_of
from plans.programs.stages import GroupStage, JoinStage, LinearStage

TABLES: dict[str, object] = {
    "r": {"k": "int64", "a": "int64", "x": "float64", "s": "string", "p": "bool"},
    "t": {"k": "int64", "b": "int64", "y": "float64", "d": "decimal(10,2)", "w": "decimal(30,2)"},
}
FROM = "FROM r JOIN t ON r.k = t.k"


def planned(what: str, more: str = "") -> Program:
    return program(f"SELECT {what} AS v {FROM} {more}", TABLES)


Product = tuple[tuple[str, str], ...]


def terms(made: Program) -> set[Product]:
    """The terms of the payload but the count: attributes, and what of them."""
    (join,) = (stage for stage in made.stages if isinstance(stage, JoinStage) and stage.mode == "payload")
    assert join.plan.payload is not None
    assert len(set(join.plan.payload.terms)) == len(join.plan.payload.terms)
    return {product(*((name, what) for _, name, what in term)) for term in join.plan.payload.terms if term}


def product(*factors: tuple[str, str]) -> Product:
    return tuple(sorted(factors))


def test_a_product_is_one_term_and_its_count_another() -> None:
    found = {product(("a", VALUE), ("b", VALUE)), product(("a", VALID), ("b", VALID))}
    assert terms(planned("SUM(r.a * t.b)")) == found


def test_a_sum_of_two_columns_asks_that_both_are_there() -> None:
    found = {product(("a", VALUE), ("b", VALID)), product(("a", VALID), ("b", VALUE))}
    assert terms(planned("SUM(r.a + t.b)")) == {*found, product(("a", VALID), ("b", VALID))}


def test_aggregates_share_their_terms() -> None:
    alone = terms(planned("COVAR_POP(r.a, t.b)"))
    assert len(alone) == 6
    assert terms(planned("COVAR_POP(r.a, t.b) + REGR_SLOPE(r.a, t.b) + AVG(r.a * t.b)")) == alone


def test_a_double_counts_what_is_not_finite() -> None:
    assert terms(planned("SUM(r.x)")) == {product(("x", what)) for what in (VALUE, VALID, PLUS, MINUS)}


def test_a_condition_is_a_factor() -> None:
    made = planned("COUNT(*) FILTER (WHERE r.p AND t.b > 1)")
    assert len(terms(made)) == 1
    (linear,) = (stage for stage in made.stages if isinstance(stage, LinearStage))
    assert [str(out.expr) for term in linear.terms for out in term.columns][-1] == "b > 1"


def test_an_argument_over_two_relations_that_is_no_product_is_enumerated() -> None:
    for call in ("SUM(r.a % t.b)", "SUM(CASE WHEN r.a < t.b THEN 1 ELSE 0 END)", "SUM(r.a * t.w)"):
        made = planned(call)
        assert [stage.mode for stage in made.stages if isinstance(stage, JoinStage)] == ["bag"], call


def test_what_one_aggregate_enumerates_does_not_keep_others_from_the_tree() -> None:
    made = planned("SUM(r.a * t.b) + MAX(r.a)")
    assert product(("a", VALUE), ("b", VALUE)) in terms(made)
    group = made.stages[-1]
    assert isinstance(group, GroupStage)
    assert not group.feed.columns
    assert [[out.name for out in feed.columns] for feed in group.values] == [["a"]]  # MAX has a feed of its own
    assert planned("SUM(r.k) + MAX(r.k)").stages[0].mode == "bag"  # type: ignore[union-attr]


def test_too_many_terms_are_enumerated() -> None:
    several = " * ".join(["(r.a + t.b)"] * 3)
    assert len(terms(planned(f"SUM({several})"))) > 4
    branches = "".join(f"WHEN r.a = {i} AND t.b = {i} THEN r.a * t.b " for i in range(8))
    assert planned(f"SUM(CASE {branches} END)").stages[0].mode == "bag"  # type: ignore[union-attr]


def test_limbs_are_those_that_the_factors_need() -> None:
    made = planned("SUM(r.a * t.b) + SUM(t.d)")
    group = made.stages[-1]
    assert isinstance(group, GroupStage)
    assert sorted(one.limbs for one in group.join_sums) == [1, 1, 2, 3]


def test_a_program_with_carried_sums_survives_its_json() -> None:
    made = planned("SUM(r.x * t.y)", "GROUP BY r.s")
    assert Program.from_json(made.to_json()) == made
    assert made.fingerprint != planned("SUM(r.x + t.y)", "GROUP BY r.s").fingerprint


@pytest.mark.parametrize(
    "query", ["SELECT a, SUM(x) AS v FROM r GROUP BY a", "SELECT COUNT(*) AS n FROM r JOIN t USING (k)"]
)
def test_groups_without_carried_sums_have_the_json_that_they_had(query: str) -> None:
    group = next(stage for stage in program(query, TABLES).to_json()["stages"] if stage["kind"] == "group")
    assert not {"summed", "carried"} & set(group)


def test_a_value_is_one_word_where_its_code_is_no_entry_of_the_dictionary() -> None:
    types = ["bool", "int32", "int64", "float64", "date", "timestamp", "timestamp_ntz", "string", "binary"]
    types += [f"decimal({digits},{min(digits, 2)})" for digits in range(1, 39)]
    assert [one_word(type_) for type_ in types] == [not uses_dictionary(type_) for type_ in types]


def test_the_limbs_of_a_sum_hold_the_largest_sum_there_can_be() -> None:
    largest = {"bool": 1, "int32": 2**31, "int64": 2**63} | {f"decimal({n},0)": 10**n - 1 for n in range(1, 19)}
    for number in range(4):
        for types in combinations_with_replacement(largest, number):
            limbs = limbs_of([(type_, VALUE) for type_ in types])
            most = (2**63 - 1) * math.prod(largest[type_] for type_ in types)
            assert most < 2 ** (LIMB * limbs - 1), types
