"""A tuple that several aliases of a self-join read is stored once, and each alias still sees exactly what it should."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import crown
import plans
from crown.errors import MemoryBudgetError
from plans.programs.stored_relations import stored_relations
from tests.engine.comparison import SideBySide
from tests.engine.made import join_stats
from tests.marks import seeds

GRAPH = {"G": {"src": "int64", "dst": "int64"}}
THREE_HOPS = (
    "SELECT DISTINCT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d FROM G g1, G g2, G g3 "
    "WHERE g1.dst = g2.src AND g2.dst = g3.src"
)
QUERIES = {  # query -> aliases of each source
    THREE_HOPS: [{"g1", "g2", "g3"}],
    THREE_HOPS + " AND g3.dst > 2": [{"g1", "g2"}, {"g3"}],
    THREE_HOPS + " AND g1.src > 1 AND g3.src > 1": [{"g1", "g3"}, {"g2"}],
    "SELECT DISTINCT x.src AS a, y.src AS b FROM G x, G y WHERE x.dst = y.dst": [{"x", "y"}],
    "SELECT DISTINCT x.src AS a, x.dst AS b FROM G x, G y WHERE x.dst = y.src": [{"x"}, {"y"}],
    "SELECT DISTINCT x.src AS a, y.dst AS b, z.dst AS c FROM G x, G y, G z WHERE x.src = y.dst AND y.src = z.src": [
        {"x"},
        {"y", "z"},
    ],
}


@pytest.mark.parametrize("query", QUERIES)
def test_which_aliases_share(query: str) -> None:
    plan = plans.plan(query, GRAPH)
    found = [{plan.nodes[alias.node].name for alias in source.aliases} for source in stored_relations(plan)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, QUERIES[query]))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_an_alias_leaves_out_the_tuples_whose_nulls_it_joins_on(query: str, seed: int) -> None:
    """Some aliases read a tuple, others do not; copies are inserted and deleted; everything in the end goes."""
    source = random.Random(seed)
    sides = SideBySide(plans.plan(query, GRAPH), GRAPH, query)
    present: list[tuple[int | None, int | None]] = []
    results = 0
    for _ in range(25):
        source.shuffle(present)
        gone = [present.pop() for _ in range(source.randrange(min(len(present), 4) + 1))]
        fresh = [
            (source.choice([None, 1, 2, 3, 4]), source.choice([None, 1, 2, 3, 4])) for _ in range(source.randrange(5))
        ]
        present += fresh
        sides.step({"G": [*((row, -1) for row in gone), *((row, 1) for row in fresh)]})
        results = max(results, len(sides.current))
    assert results > 2
    sides.step_by_removal()


def test_a_change_is_looked_up_once_and_stored_once() -> None:
    edges = pa.table({"src": range(1_000), "dst": range(1, 1_001)})
    shared = crown.view(THREE_HOPS, GRAPH)
    apart = crown.view(
        THREE_HOPS.replace("G g1, G g2, G g3", "G1 g1, G2 g2, G3 g3"), {f"G{i}": GRAPH["G"] for i in (1, 2, 3)}
    )
    shared.apply({"G": edges})
    apart.apply({"G1": edges, "G2": edges, "G3": edges})
    one, three = join_stats(shared), join_stats(apart)
    assert one["rows"] == three["rows"] == {"g1": 1_000, "g2": 1_000, "g3": 1_000}
    assert (one["r_updates"], three["r_updates"]) == (1_000, 3_000)
    words = 2 * (2 + 1)  # two more copies of the values, and two more slots
    assert three["live_bytes"] - one["live_bytes"] >= 1_000 * 8 * words
    assert shared.count() == apart.count() == 998


def test_a_batch_over_the_budget_leaves_no_alias_behind() -> None:
    view = crown.view(THREE_HOPS, GRAPH, memory_budget=1 << 18)
    view.apply({"G": pa.table({"src": range(100), "dst": range(1, 101)})})
    before = join_stats(view)
    with pytest.raises(MemoryBudgetError):
        view.apply({"G": pa.table({"src": range(100, 100_000), "dst": range(101, 100_001), "_weight": [1] * 99_900})})
    view.check_invariants()
    assert join_stats(view)["rows"] == before["rows"]
    assert view.count() == 98
