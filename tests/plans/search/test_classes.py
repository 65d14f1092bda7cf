"""The classes of joins and the verdicts of programs, each with its witness; the memory is the engine's."""

from __future__ import annotations

import json

import pytest

from crown.engine.compile import compile_plan
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import I_GROUPS, I_WORDS, N_INDEX
from crown.kernels.memory import geometry
from plans import Plan, Program, plan, program
from plans.programs.stages import JoinStage
from plans.search.counted.classes import edges, join_class
from plans.search.indexes import index_of
from plans.show import programs, upkeep
from tests.marks import every
from tests.plans import tpch
from tests.plans.lowering.program_queries import QUERIES, planned
from tests.plans.search.test_touches import LOOSE, SNOW, SNOWFLAKE
from tests.plans.search.test_touches import QUERIES as COUNTED

CLASSES = {
    "star": ("q-hierarchical", "incremental: O(1) per change"),
    "pair": ("layered", "incremental: first order along S -> R"),
    "three hops by the end": ("layered", "incremental: first order along T -> S -> R"),
    "fork": ("layered", "incremental: first order along R -> S -> T"),
}

CYCLE = """FROM lineitem, orders, customer, supplier, nation
WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
AND n_nationkey = c_nationkey"""


def join(made: Program) -> Plan:
    return next(stage.plan for stage in made.stages if isinstance(stage, JoinStage))


@pytest.mark.parametrize("query", CLASSES)
def test_a_counted_join_has_its_class_and_verdict(query: str) -> None:
    made = program(COUNTED[query], LOOSE)
    assert (join_class(join(made)).name, upkeep.verdict(made)) == CLASSES[query]


def test_a_snowflake_with_declared_keys_is_flat() -> None:
    made = program(SNOWFLAKE, SNOW, dialect="ansi")
    found = join_class(join(made))
    assert found.name == "flat"
    assert not any(edge.open for edge in edges(join(made)).values())
    loose = {name: table.get("columns", table) for name, table in SNOW.items()}
    layered = join_class(join(program(SNOWFLAKE, loose, dialect="ansi")))
    assert layered.name == "layered"
    assert layered.witness.startswith(f"edge {layered.path[0]} -> {layered.path[1]} by ")


def test_a_set_is_never_layered() -> None:
    made = program(COUNTED["pair"].replace("SELECT", "SELECT DISTINCT"), LOOSE)
    assert join_class(join(made)).name == "flat"


def test_what_is_enumerated_besides_the_output_is_named() -> None:
    made = program("SELECT R.a, T.b FROM R, S, T WHERE R.b = S.a AND S.b = T.a", LOOSE)
    found = join_class(join(made))
    assert found.name.endswith(", completed")
    assert set(found.completed) == {"R_b", "S_b"}
    assert upkeep.verdict(made) == "incremental: O(λ) per change, and the joined rows that change"


def test_keys_of_a_cycle_are_in_its_bound() -> None:
    made = program(f"SELECT DISTINCT l_linenumber, n_name {CYCLE}", tpch.TABLES)
    assert "O(1) for changes of lineitem" in upkeep.verdict(made)
    assert "O(N) rows by declared keys" in join(made).bounds[0].update
    loose = {name: table["columns"] for name, table in tpch.TABLES.items()}  # type: ignore[index]
    assert join(program(tpch.QUERIES[5], loose)).bounds[0].update.endswith("O(N^2) rows")
    counted = program(f"SELECT l_linenumber, n_name {CYCLE}", tpch.TABLES)
    assert upkeep.verdict(counted).startswith("incremental: O(1) per change"), "they undo it"


def test_an_ordered_aggregate_is_logarithmic() -> None:
    made = program("SELECT a, MIN(b) AS least FROM R GROUP BY a", LOOSE)
    assert upkeep.verdict(made) == "incremental: O(log n) per change, n the values of a group"


@every(QUERIES)
def test_the_verdict_is_in_every_form(query: str) -> None:
    made = planned(query)
    said = upkeep.verdict(made)
    assert said in " ".join(programs.text(made).split())
    explained = json.loads(programs.explained(made))
    assert explained["explained"]["verdict"] == said
    assert len(explained["explained"]["stages"]) == len(made.stages)
    assert Program.from_json(explained) == made


@every(COUNTED)
def test_words_of_rows_and_keys_are_those_of_the_arena(query: str) -> None:
    plan = join(program(COUNTED[query], LOOSE))
    array = compile_plan(plan).array
    for i, node in enumerate(plan.nodes):
        assert upkeep.row_words(plan, i) == len(node.attributes) + geometry.row_words(len(plan.children(i)))
        if i:
            index = int(array[node_at(i) + N_INDEX])
            assert upkeep.key_words(plan, i) == array[index + I_WORDS]
            assert array[index + I_GROUPS] == index_of(plan).count(index_of(plan)[i])


GRAPH = {name: {"a": "int64", "b": "int64"} for name in "GH"}


@pytest.mark.parametrize(
    ("query", "edges"),
    [
        ("Q(a,b,c,d,e) :- G(a,b), G(b,c), G(c,d), G(d,e).", [4]),
        ("Q(a,b,c,d,e) :- G(a,b), G(b,c), G(c,d), H(d,e).", [1, 3]),
        ("Q(a,b,c,d) :- G(a,b), G(b,c), G(d,c).", [1, 1]),
        ("Q(x,a,b,c) :- G(x,a), G(x,b), G(x,c).", [3]),
        ("Q(x,a,b,c) :- G(x,a), G(x,b), H(x,c).", [3]),
    ],
)
def test_edges_between_the_same_columns_have_one_index_and_others_their_own(query: str, edges: list[int]) -> None:
    made = plan(query, GRAPH)
    found = index_of(made)
    assert sorted(found[1:].count(i) for i in set(found[1:])) == edges
    names = [made.nodes[i].name for i in range(1, len(found)) if found[i] == found[-1]]
    assert f"{' and '.join(names)} {upkeep.key_words(made, len(found) - 1)}" in upkeep.of_plan(made).memory
