"""Long chains and deep nesting, planned, written, read and evaluated from deep inside a program."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from typing import TypeVar

import pytest

import crown
from plans import Plan, PlanError, parse, plan
from plans.expressions.build import call, col, lit
from plans.show import explain
from plans.stack import MAX_NESTING
from spark_jobs.dispatch.placed import _same_in_spark
from tests.marks import every

view_of = crown.view  # loads what it needs: more of the stack than is left below, where Numba is among it
SCHEMA = {"g": {"a": "int64", "b": "int64"}}
_T = TypeVar("_T")


def far_down(build: Callable[[], _T]) -> _T:
    """`build()`, with a fifth of Python's stack left."""

    def down(levels: int) -> _T:
        return build() if levels == 0 else down(levels - 1)

    depth = 0
    while True:
        try:
            sys._getframe(depth)
        except ValueError:
            break
        depth += 1
    return down(sys.getrecursionlimit() * 4 // 5 - depth)


def _where(condition: str) -> str:
    return f"SELECT DISTINCT a FROM g WHERE {condition}"


N = 400  # twice as many as there are levels left below
CHAINS = {
    "OR": _where(" OR ".join(f"(a = {i} AND b > {i})" for i in range(N))),
    "AND": _where(" AND ".join(f"a <> {i}" for i in range(2, N))),
    "NOT AND": _where("NOT (" + " AND ".join(f"a <> {i}" for i in range(N)) + ")"),
    "+": f"SELECT DISTINCT {' + '.join(['a'] * N)} AS s FROM g",
    "||": f"SELECT DISTINCT {' || '.join(['CAST(a AS STRING)'] * N)} AS s FROM g",
    "IN": _where(f"a IN ({', '.join(map(str, range(N)))})"),
    "IN with columns": _where(f"a IN ({', '.join(f'b + {i}' for i in range(-N, N))})"),
    "CASE": f"SELECT DISTINCT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(N))} END AS s FROM g",
    "or in Datalog": f"Q(a) :- g(a, b), {' or '.join(f'a = {i}' for i in range(N))}.",
    "+ in Datalog": f"Q(a) :- g(a, b), 0 < {' + '.join(['a'] * N)}.",
}
D = 300
NESTS = {
    "parentheses": _where("(" * D + "a = 1" + ")" * D),
    "chain in parentheses": _where("(" * D + "a = 1" + "".join(f" OR a = {i})" for i in range(D))),
    "NOT": _where("NOT " * D + "a = 1"),
    "functions": f"SELECT DISTINCT {'ABS(' * D}a{')' * D} AS x FROM g",
    "CASE": f"SELECT DISTINCT {'CASE WHEN a = 2 THEN 1 ELSE ' * D}a{' END' * D} AS x FROM g",
    "subqueries": f"SELECT DISTINCT a FROM {'(SELECT a, b FROM ' * D}g{') t' * D}",
    "WITH": f"WITH t0 AS (SELECT a FROM g){''.join(f', t{i} AS (SELECT a FROM t{i - 1})' for i in range(1, D))} "
    f"SELECT DISTINCT a FROM t{D - 1}",
    "parentheses in Datalog": f"Q(a) :- g(a, b), {'(' * D}a = 1{')' * D}.",
    "not in Datalog": f"Q(a) :- g(a, b), {'not ' * D}a = 1.",
}


@pytest.mark.parametrize("query", [*CHAINS.values(), *NESTS.values()], ids=[*CHAINS, *(f"nested {n}" for n in NESTS)])
def test_it_is_planned_and_maintained_from_deep_inside_a_program(query: str) -> None:
    made = far_down(lambda: plan(query, SCHEMA))
    text = far_down(lambda: json.dumps(made.to_json()))
    again = far_down(lambda: Plan.from_json(text))
    assert again == made
    assert hash(again.nodes) == hash(made.nodes)
    assert again.fingerprint == made.fingerprint
    assert far_down(lambda: explain.text(again)).startswith("query")
    assert pickle.loads(far_down(lambda: pickle.dumps(made))) == made
    view = far_down(lambda: view_of(again))
    delta = far_down(lambda: view.apply({"g": [{"a": 1, "b": 2}]}))
    assert delta.num_rows == 1


@every(
    [
        (_where("(" * 5000 + "a = 1" + ")" * 5000), "("),
        (_where("NOT " * 5000 + "a = 1"), "NOT"),
        (f"SELECT DISTINCT {'ABS(' * 5000}a{')' * 5000} AS x FROM g", "ABS"),
        (f"SELECT DISTINCT {'- ' * 5000}a AS x FROM g", "-"),
        (f"Q(a) :- g(a, b), {'(' * 5000}a = 1{')' * 5000}.", "("),
        (f"Q(a) :- g(a, b), a = {'- ' * 5000}1.", "-"),
    ]
)
def test_an_absurd_depth_is_refused_with_its_place(query: str, place: str) -> None:
    with pytest.raises(PlanError, match=f"too deeply here: more than {MAX_NESTING} levels") as caught:
        far_down(lambda: plan(query, SCHEMA))
    position = caught.value.position
    assert position is not None
    assert query[position.column - 1 :].startswith(place)
    assert len(str(caught.value)) < 1000, "of a long line, the part that matters is shown"


STEPS = " ".join(f"p{i}(a) :- p{i - 1}(a), g(a, _)." for i in range(1, 200))


@every([f"p0(a) :- g(a, _). {STEPS}", f"p0(a) :- g(a, _). {STEPS} p0(a) :- p199(a). ?- p150(a)."])
def test_many_predicates_are_planned_and_maintained_from_deep_inside_a_program(rules: str) -> None:
    view = far_down(lambda: view_of(rules, SCHEMA))
    delta = far_down(lambda: view.apply({"g": [{"a": 1, "b": 2}]}))
    assert delta.num_rows == 1


def test_too_many_queries_in_with_are_refused() -> None:
    names = [f"t{i} AS (SELECT a FROM g)" for i in range(MAX_NESTING + 1)]
    with pytest.raises(PlanError, match="WITH names more than"):
        plan(f"WITH {', '.join(names)} SELECT DISTINCT a FROM t0", SCHEMA)


def test_the_fingerprint_of_a_chain_is_that_of_its_tree() -> None:
    parts = [call("eq", col("a", "int64"), lit(i, "int64")) for i in range(3)]
    tree = call("or", call("or", parts[0], parts[1]), parts[2])
    made = plan(_where("a = 0 OR a = 1 OR a = 2"), SCHEMA)
    assert made.nodes[0].predicate == tree
    assert made.fingerprint == "d0a38284f13147ba76ee1d51825f5e5006768e939a05ff582eec213fdb65a8f0"
    assert str(tree) == "a = 0 OR a = 1 OR a = 2"
    nested = call("or", parts[0], call("or", parts[1], parts[2]))
    assert str(nested) == "a = 0 OR (a = 1 OR a = 2)"
    assert nested != tree


def test_parsing_alone_needs_no_stack_either() -> None:
    assert far_down(lambda: parse(NESTS["functions"], SCHEMA)).outputs[0][1].depth == D + 1


def test_spark_is_not_given_what_its_optimizer_would_recurse_into() -> None:
    short, long = (plan(_where(" OR ".join(f"a = {i}" for i in range(n))), SCHEMA).nodes[0].predicate for n in (5, N))
    assert short is not None
    assert long is not None
    assert _same_in_spark(short)
    assert not _same_in_spark(long)
