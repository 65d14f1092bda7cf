"""Leaves of which a join keeps sums alone: what they hold, what a delete finds, and what stays when rows go."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import crown
from crown.analysis.hot import groups
from crown.errors import ChangeError, MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.kernels.memory import geometry as at
from crown.programs.program import ProgramEngine
from crown.stages.joins.core import Join
from plans import program
from tests.oracles.database import Database, Row
from tests.programs.driver import Driver
from tests.programs.test_programs import apply, result_of

SCHEMA = {"f": {"k": "string", "x": "int64"}, "d": {"k": "string", "name": "string"}}
QUERY = "SELECT d.name, SUM(f.x) AS s, COUNT(*) AS n FROM f JOIN d ON f.k = d.k GROUP BY d.name"
QUERIES = {
    QUERY: {"f"},
    "SELECT COUNT(*) AS n FROM f, d": {"f", "d"},
    "SELECT d.name, AVG(f.x) AS a FROM f JOIN d ON f.k = d.k WHERE f.x > 0 GROUP BY d.name HAVING COUNT(*) > 1": {"f"},
    "SELECT f.k, MAX(d.name) AS m, SUM(f.x) AS s FROM f JOIN d USING (k) GROUP BY f.k": {"f"},
    "SELECT COUNT(*) AS n FROM f JOIN f g ON f.k = g.k": set(),  # one record is both
}


def joins_of(engine: ProgramEngine) -> list[Join]:
    return [stage for stage in engine.stages if isinstance(stage, Join)]


def summed_in(engine: ProgramEngine) -> set[str]:
    """The relations of which some join keeps no rows."""
    states = [state for join in joins_of(engine) for state in join.states]
    return {state.plan.nodes[i].relation.lower() for state in states for i in state.compiled.summed}


def batch_of(random: Random, database: Database, absent: bool) -> dict[str, list[tuple[Row, int]]]:
    batch = {}
    for name in random.sample("df", random.randint(1, 2)):
        present = sorted(database.rows[name].elements(), key=repr)
        changes = [(row, -1) for row in random.sample(present, min(len(present), random.randint(0, 6)))]
        others = (-3, 0, 5, None) if name == "f" else ("p", "q", None)
        for _ in range(random.randint(0, 8)):
            row = (random.choice(("a", "b", "c", None)), random.choice(others))
            changes.append((row, random.choice((1, 2, -2)) if absent else random.choice((1, 2))))
        batch[name] = changes
    return batch


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
@pytest.mark.parametrize("query", QUERIES)
def test_sums_are_those_of_duckdb_and_nothing_is_left(query: str, on_missing: str, tmp_path: Any) -> None:
    """Also of states that were rolled back, saved and loaded; strings that only keys name survive a sweep."""
    driver = Driver(query, program(query, SCHEMA), SCHEMA, on_missing=on_missing)
    assert summed_in(driver.engine) == QUERIES[query]
    absent = on_missing == "ignore" and "SELECT COUNT(*)" not in query  # that query reads no whole rows
    random = Random(query)
    for turn in range(11):
        driver.step(batch_of(random, driver.database, absent), again=turn in (4, 7), saved=tmp_path / "state")
    driver.remove_everything()
    for join in joins_of(driver.engine):
        assert join.stats()["groups"] == dict.fromkeys(join.stats()["groups"], 0)


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_many_rows_of_a_key_take_a_join_no_more_than_one(on_missing: str) -> None:
    engine = ProgramEngine.create(program(QUERY, SCHEMA), on_missing=on_missing)
    (state,) = (state for join in joins_of(engine) for state in join.states)
    apply(engine, {"d": [{"k": "a", "name": "p"}], "f": [{"k": "a", "x": 1}]})
    held, all_held = int(state.arena[A.H_LIVE]), engine.stats()["live_bytes"]
    apply(engine, {"f": [{"k": "a", "x": x} for x in range(2, 5000)]})
    assert state.arena[A.H_LIVE] == held
    assert (engine.stats()["live_bytes"] > all_held) == (on_missing == "ignore"), "the base tables know the rows"
    assert result_of(engine) == {("p", sum(range(5000)), 4999): 1}


def test_explain_says_of_which_leaves_there_are_sums() -> None:
    view = crown.view(QUERY, SCHEMA)
    view.update({"d": [{"k": "a", "name": "p"}], "f": [{"k": "a", "x": x} for x in range(3)]})
    said = view.explain(analyze=True)
    assert "hot key   k='a': 1 row of d, 3 of f" in said
    assert [line.split()[:2] for line in said.splitlines() if line.startswith("  f ")] == [["f", "sums"]]


def test_a_delete_that_its_key_cannot_give_is_counted_and_takes_nothing() -> None:
    view = crown.view(QUERY, SCHEMA, on_missing="trust")
    view.update({"d": [{"k": "a", "name": "p"}], "f": [{"k": "a", "x": 1}]})
    gone = [{"k": "a", "x": 1, "_weight": -2}, {"k": "b", "x": 1, "_weight": -1}]
    assert view.apply({"f": gone}).num_rows == 0
    assert view.stats()["stages"][0]["missing_deletes"]["f"] == 3
    view.check_invariants()


def test_a_key_that_would_count_more_rows_than_63_bits_is_refused_before_it_does() -> None:
    engine = ProgramEngine.create(program(QUERY, SCHEMA), on_missing="trust")
    apply(engine, {"f": [{"k": "a", "x": 1}]})
    (state,) = (state for join in joins_of(engine) for state in join.states)
    (node,) = state.compiled.summed
    (group,) = groups(state, node)
    count = at.published(int(group), 1)
    state.arena[count] = 2**63 - 3
    apply(engine, {"f": [{"k": "a", "x": 1, "_weight": 2}]})
    with pytest.raises(ChangeError, match="a key more rows than 63 bits count"):
        apply(engine, {"f": [{"k": "b", "x": 1}, {"k": "a", "x": 1}]})
    assert state.arena[count] == 2**63 - 1
    assert len(groups(state, node)) == 1, "the key that fitted has gone again"


def test_strings_that_only_keys_name_survive_a_sweep() -> None:
    engine = ProgramEngine.create(program(QUERY, SCHEMA), on_missing="trust")
    apply(engine, {"f": [{"k": "a long key of f alone", "x": 1}, {"k": "one that goes", "x": 1}]})
    apply(engine, {"f": [{"k": "one that goes", "x": 1, "_weight": -1}]})
    assert engine.compact() == 1
    apply(engine, {"f": [{"k": "another, in its place", "x": 5}]})
    apply(engine, {"d": [{"k": "a long key of f alone", "name": "p"}]})
    assert result_of(engine) == {("p", 1, 1): 1}
    engine.check_invariants()


@pytest.mark.usefixtures("impatient")
def test_a_budget_that_is_used_up_to_the_word_refuses_the_batch_and_does_not_wait() -> None:
    view = crown.view(QUERY, SCHEMA)
    view.apply({"f": [("a", 1), ("b", 2)], "d": [("a", "p")]})
    before, limits = view.to_table(), view._engine.memory.budget  # type: ignore[union-attr]
    refused = []
    for room in range(-4, 60):
        limits.change(limits.used + room)
        try:
            view.apply({"f": [("c", 3), ("d", 4)]})
        except MemoryBudgetError:
            refused.append(room)
        else:
            limits.change(1 << 28)
            view.apply({"f": [("c", 3, -1), ("d", 4, -1)]})
    assert 10 < len(refused) < 60, "it depends on the room"
    limits.change(1 << 28)
    assert view.to_table() == before
    view.check_invariants()
