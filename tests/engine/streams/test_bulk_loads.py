"""Bulk loads: what many insertions at once leave is what they leave one by one, in fewer steps and no more memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crown
from crown.engine.load.kernels.edges import TASK
from crown.engine.load.loader import Loader, aliases_of, tasks_of
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from plans.plan import Plan
from tests.engine.comparison import SideBySide
from tests.engine.made import join_of, join_stats, state_of
from tests.engine.views import Cells, Kernel
from tests.marks import draws
from tests.oracles.database import Batch, Database, Row, to_arrow
from tests.strategies import batches, loads, normal_plans, removals

NEVER = 1 << 60
EDGES = {"g": {"a": "int64", "b": "int64"}}
HOPS = "Q(a, b, c, d) :- g(a, b), g(b, c), g(c, d)."
COUNTS = "SELECT x.a, COUNT(*) AS n, SUM(y.b) AS s FROM g x, g y WHERE x.b = y.a GROUP BY x.a"
PAIRS = "SELECT x.a, y.b FROM g x, g y WHERE x.b = y.a"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """However few they are, insertions enter in bulk, three at a time."""
    monkeypatch.setattr(Loader, "min_tuples", 1)
    monkeypatch.setattr(Loader, "chunk_tuples", 3)
    return monkeypatch


class Loads(Kernel):
    """The product, where it loads in bulk; it does fewer P-updates."""

    def work(self) -> dict[str, int] | None:
        return None


class LoadsInCells(Cells):
    """The same in three cells: a row is not for every alias there."""


_FEW = settings(draws(15, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FEW
@given(st.data())
def test_any_tree_in_normal_form_is_loaded(always: pytest.MonkeyPatch, data: st.DataObject) -> None:
    query, plan = data.draw(normal_plans(6))
    sides = SideBySide(plan, query.tables, query.sql)
    sides.views = [make(plan) for make in (Loads, LoadsInCells) if make.takes(plan)]
    first = data.draw(loads(query))
    step = sides.step if data.draw(st.booleans()) else sides.step_without_deltas
    step(first)
    sides.step_without_deltas(data.draw(loads(query)))
    for _ in range(data.draw(st.integers(1, 2))):
        sides.step(data.draw(removals(sides.database.rows)))
        sides.step_without_deltas(data.draw(batches(query, sides.database.rows)))
        sides.step(data.draw(batches(query, sides.database.rows)))
    sides.step_by_removal()
    sides.step(first)


@_FEW
@given(st.data())
def test_bags_and_their_counts_are_loaded(always: pytest.MonkeyPatch, data: st.DataObject) -> None:
    query, _ = data.draw(normal_plans(5))
    text = query.sql.replace("SELECT DISTINCT", "SELECT")
    bulk, single = crown.view(text, query.tables), crown.view(text, query.tables)
    database = Database(query.tables)

    def step(batch: Batch, deltas: bool) -> None:
        database.apply(batch)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items()}
        found = []
        for view, least in ((bulk, 1), (single, NEVER)):
            always.setattr(Loader, "min_tuples", least)
            if deltas:
                found.append(bag(view.apply(changes)))
            else:
                view.update(changes)
            view.check_invariants()
        assert not deltas or found[0] == found[1]
        assert bag(bulk.to_table()) == bag(single.to_table())

    step(data.draw(loads(query)), data.draw(st.booleans()))
    step(data.draw(loads(query)), False)
    step(data.draw(batches(query, database.rows)), False)
    step(database.everything(-1), True)
    step(data.draw(loads(query)), True)


def bag(table: pa.Table) -> Counter[Row]:
    """The rows of a table, however often each is there; NaN is like NaN."""
    return Counter(tuple(map(repr, row.values())) for row in table.to_pylist())


def edges(n: int, keys: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"a": rng.integers(0, keys, n), "b": rng.integers(0, keys, n)})


def capacities(view: crown.View) -> list[int]:
    """The slots of every table of the tree."""
    (state,) = join_of(view).states
    return [int(state.arena[table_at(t) + A.T_CAPACITY]) for t in range(state.compiled.tables)]


@pytest.mark.parametrize("keys", [200, 9_000, 40_000])
def test_a_load_makes_every_table_once_and_of_the_right_size(keys: int) -> None:
    view = crown.view(HOPS, EDGES)
    arena = join_of(view).states[0].arena
    top = int(arena[A.H_TOP])
    pairs = np.random.default_rng(1).choice(keys**2, 40_000, replace=False) if keys == 200 else None
    given_ = edges(40_000, keys) if pairs is None else pa.table({"a": pairs // keys, "b": pairs % keys})
    view.update({"g": given_})
    for t, capacity in enumerate(capacities(view)):
        count = int(arena[table_at(t) + A.T_COUNT])
        assert capacity == 8 or 3 * capacity < 8 * 1.2 * count, f"table {t} has {capacity} slots for {count} records"
    outgrown = 1.2 if keys == 200 else 1.05  # the list of a hub doubles, from block to block of the load
    assert int(arena[A.H_TOP]) - top <= outgrown * (int(arena[A.H_LIVE]) - top)


def test_a_load_counts_no_parent_up() -> None:
    view = crown.view(HOPS, EDGES)
    view.update({"g": edges(20_000, 10_000)})
    stats = join_stats(view)
    assert (stats["r_updates"], stats["p_updates"]) == (20_000, 0)
    view.update({"g": edges(20_000, 20_000, 2)})
    assert join_stats(view)["p_updates"] <= 2 * 20_000, "a row of the first load once for each of its two children"
    single = crown.view(HOPS, EDGES)
    for row in (edges(20_000, 10_000).slice(0, 5_000), edges(20_000, 10_000).slice(5_000)):
        single.update({"g": row.slice(0, 10_000)})
    assert join_stats(single)["p_updates"] > 1_000, "one by one they are counted up"


FOUR = "Q(a, b, c, d, e) :- g(a, b), g(b, c), g(c, d), g(d, e)."
STARS = "Q(a, b, c, d) :- g(a, b), g(a, c), g(a, d)."


@pytest.mark.parametrize(
    ("query", "passes"), [(HOPS, 3), (FOUR, 4), (STARS, 1), (PAIRS.replace("SELECT", "SELECT DISTINCT"), 2)]
)
def test_edges_with_the_same_look_up_are_loaded_together(query: str, passes: int) -> None:
    state = join_of(crown.view(query, EDGES)).states[0]
    *words, home = tasks_of(state.compiled, _alias(state.plan)).tolist()
    tasks = list(zip(*[iter(words)] * TASK, strict=True))
    looks = {number: look for look, _, _, number in tasks if look >= 0}
    assert len(looks) == passes
    assert list(looks.values()).count(home) >= passes / 2


@_FEW
@given(st.data())
def test_what_is_below_an_edge_is_loaded_before_the_edge(data: st.DataObject) -> None:
    _, plan = data.draw(normal_plans(6))
    state = state_of(plan)
    compiled = state.compiled
    for node in (i for i, one in enumerate(plan.nodes) if one.kind == "input"):
        aliases = aliases_of(compiled, node)
        *words, _ = tasks_of(compiled, node).tolist()
        passes = {
            (aliases[alias], child): number for _, alias, child, number in zip(*[iter(words)] * TASK, strict=True)
        }
        assert set(passes) == {(i, j) for i in aliases for j in range(-1, len(compiled.children[i]))}
        for (parent, j), number in passes.items():
            if j < 0:
                assert all(passes[parent, c] <= number for c in range(len(compiled.children[parent])))
                continue
            below = [compiled.children[parent][j]]
            for i in below:
                below += compiled.children[i]
            assert all(passes[i, -1] < number for i in below if i in aliases)


def _alias(plan: Plan) -> int:
    return next(i for i, node in enumerate(plan.nodes) if node.kind == "input")


def test_a_load_of_equal_rows_makes_few_records() -> None:
    view = crown.view("SELECT DISTINCT a FROM g", {"g": {"a": "int64"}})
    view.update({"g": {"a": np.arange(1_000_000) % 100}})
    assert view.stats()["reserved_bytes"] < 2 << 20
    view.check_invariants()


@pytest.mark.parametrize("query", [HOPS, COUNTS, PAIRS])
@pytest.mark.filterwarnings("ignore::crown.errors.AmplifiedWarning")
def test_the_first_batch_gives_the_deltas_that_it_gives_row_by_row(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {"g": edges(20_000, 15_000)}
    bulk, single = crown.view(query, EDGES), crown.view(query, EDGES)
    found = bulk.apply(batch)
    monkeypatch.setattr(Loader, "min_tuples", NEVER)
    expected = single.apply(batch)
    columns = [(name, "ascending") for name in found.column_names]
    assert found.num_rows > 1_000
    assert found.sort_by(columns).equals(expected.sort_by(columns))
    assert bulk.apply({"g": edges(10, 15_000, 3)}).num_rows == single.apply({"g": edges(10, 15_000, 3)}).num_rows


def test_a_load_beyond_the_budget_is_refused_and_rolled_back() -> None:
    view = crown.view(HOPS, EDGES, memory_budget="2 MiB")
    view.update({"g": edges(2_000, 1_000)})
    before = view.count()
    with pytest.raises(crown.MemoryBudgetError):
        view.update({"g": edges(100_000, 50_000, 2)})
    assert view.count() == before
    assert view.stats()["live_bytes"] <= 2 << 20


def test_too_many_copies_of_a_row_refuse_the_whole_load(always: pytest.MonkeyPatch) -> None:
    always.setattr(Loader, "chunk_tuples", 100)
    view = crown.view(PAIRS, EDGES)
    view.update({"g": [{"a": 1, "b": 2, "_weight": 2**31 - 2}, {"a": 2, "b": 3, "_weight": 1}]})
    more = [{"a": 7, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 8, "b": 3}]
    with pytest.raises(crown.ChangeError, match="copies"):
        view.update({"g": more})
    view.check_invariants()
    assert view.to_table(weighted=True).to_pylist() == [{"a": 1, "b": 3, "_weight": 2**31 - 2}]
    view.update({"g": more[:2]})
    assert view.multiplicity({"a": 1, "b": 3}) == 2**31 - 1


def test_a_mapped_file_is_loaded_like_memory(tmp_path: object) -> None:
    view = crown.view(HOPS, EDGES, path=f"{tmp_path}/state.bin")
    other = crown.view(HOPS, EDGES)
    for seed in range(3):
        view.update({"g": edges(20_000, 20_000, seed)})
        other.update({"g": edges(20_000, 20_000, seed)})
    assert view.count() == other.count()
