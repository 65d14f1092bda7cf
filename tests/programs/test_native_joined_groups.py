"""Groups over joins whose batches are one native call: each beside an engine that takes them step by step."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from crown.errors import AmplifiedWarning, ChangeError, MemoryBudgetError, MissingDeleteError
from crown.programs.kernels import pipeline as kernels
from crown.stages.kernels.groups import batch as group_batch
from tests.marks import by_turns, seeds, turns
from tests.programs.stepwise import Stepwise, bag
from tests.programs.test_native_joins import EDGES, TABLES, batch_of, edges, little_room, small_buffers

FROM = "FROM r, s WHERE r.b = s.b"
QUERIES = {
    "sums by a key of the join": (f"SELECT r.b, k, COUNT(*) n, SUM(v) AS s, SUM(c) AS t {FROM} GROUP BY 1, 2", TABLES),
    "sums by another key": (f"SELECT k, c, SUM(v) AS s, SUM(d) t, COUNT(d) n {FROM} AND v > 1 GROUP BY k, c", TABLES),
    "products": (f"SELECT k, SUM(v * c) AS s, AVG(c) AS a {FROM} GROUP BY k", TABLES),
    "counts": (f"SELECT k, COUNT(*) AS n {FROM} GROUP BY k", TABLES),
    "ends": (f"SELECT k, MIN(c) AS low, MAX(c) AS high, COUNT(*) AS n {FROM} GROUP BY k", TABLES),
    "distinct values": (f"SELECT r.b, COUNT(DISTINCT c) AS n, MAX(k) AS m {FROM} GROUP BY r.b", TABLES),
    "one group": (f"SELECT COUNT(*) AS n, SUM(k) AS s {FROM}", TABLES),
    "hops": ("SELECT a.src, COUNT(*) AS n FROM g a, g b, g c WHERE a.dst = b.src AND b.dst = c.src GROUP BY 1", EDGES),
    "hops, all of them": ("SELECT COUNT(*) AS n FROM g a, g b WHERE a.dst = b.src", EDGES),
}  # fmt: skip
COUNTS = "SELECT src, COUNT(*) AS n, SUM(c) AS s FROM g, h WHERE dst = b GROUP BY src"
WIDER = {**EDGES, "h": {"b": "int64", "c": "int64"}}


@pytest.mark.parametrize(("kind", "on_missing"), by_turns(QUERIES, ("ignore", "trust", "raise")))
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_batches_are_those_of_an_engine_that_takes_them_step_by_step(seed: int, kind: str, on_missing: str) -> None:
    query, tables = QUERIES[kind]
    random = Random(f"{seed} {kind} {on_missing}")
    both = Stepwise(query, tables, on_missing=on_missing)
    for number in turns(11, 20):
        if batch := batch_of(both, tables, random, on_missing == "ignore"):
            if number % 3 == 1:
                both.aborted(batch, read=number % 2)
            both.apply(batch, deltas=number % 6 != 5, dicts=random.random() < 0.3)
    both.is_duckdbs()
    if on_missing != "ignore":
        assert both.results[group_batch.DONE]
    both.apply({table: changes for table, changes in both.database.everything(-1).items() if changes})


def test_a_full_buffer_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While rows come or go, and while sums are published."""
    small_buffers(monkeypatch, 120)
    both = Stepwise(COUNTS, WIDER)
    both.apply({"g": [((i, i % 2), 1) for i in range(200)], "h": [((0, 2), 1)]})
    for weight in (1, -1, 3, -3):
        both.apply({"h": [((0, 2), weight), ((1, 3), 1)]})
    both.apply({"g": [((1, 1), -1), ((7, 0), 1)], "h": [((0, 2), -1), ((1, 3), -4)]})
    assert both.results[kernels.JOIN_STOPPED] >= 5, both.results
    both.is_duckdbs()


def test_no_batch_is_stopped_between_the_call_and_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join is in the midst of it then, and no stage knows how to take it back."""
    small_buffers(monkeypatch, 120)
    both = Stepwise(COUNTS, WIDER)
    both.apply({"g": [((i, i % 2), 1) for i in range(200)]})

    def stopped() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(both.view._engine.uninterrupted, "check", stopped)
        both.apply({"h": [((0, 2), 1), ((1, 3), 1)]})
    assert both.results[kernels.JOIN_STOPPED] == 1
    both.is_duckdbs()


def test_more_rows_of_the_join_than_there_is_room_for_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    little_room(monkeypatch)
    both = Stepwise(COUNTS, WIDER)
    both.apply({"g": [((i, 0), 1) for i in range(100)]})
    both.apply({"h": [((0, 4), 1)]})
    assert both.results[kernels.JOIN_ROWS_PENDING] == 1
    both.apply({"h": [((0, 4), -1)], "g": [((5, 0), -1)]})
    both.is_duckdbs()


def test_a_delete_that_finds_no_row_is_refused_cut_or_counted() -> None:
    for on_missing in ("raise", "ignore", "trust"):
        both = Stepwise(QUERIES["hops"][0], EDGES, on_missing=on_missing)
        both.apply(edges(3))
        absent = [((1_000, 0), -2), ((5, 5), -1), ((0, 7), 1)]
        if on_missing == "raise":
            both.refused(both.given(absent), MissingDeleteError)
        else:
            both.apply(absent)
        assert both.results[kernels.JOIN_ROWS_PENDING if on_missing == "trust" else kernels.STOPPED_AT_GATE] == 1, (
            on_missing,
            both.results,
        )
        both.apply(edges(4))


def test_a_sum_that_leaves_its_type_refuses_the_batch() -> None:
    """The groups that the batch has made are gone, and the join is as it was."""
    query = "SELECT src, SUM(c) AS s FROM g, h WHERE dst = b GROUP BY src"
    both = Stepwise(query, WIDER)
    high = 2**62
    both.apply({"g": [((1, 7), 1), ((2, 5), 1)], "h": [((7, high), 1), ((5, 1), 1)]})
    wrong = both.given({"g": [((3, 5), 1), ((1, 7), 2), ((2, 5), -1)]})
    assert "src=1" in both.refused(wrong, ChangeError)
    assert both.results[group_batch.NO_CODE] == 1
    both.apply({"g": [((3, 5), 1), ((2, 5), -1)]})
    both.is_duckdbs()


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_a_budget_is_one_of_all_stages(on_missing: str) -> None:
    both = Stepwise(COUNTS, WIDER, on_missing=on_missing, memory_budget=300_000)
    both.apply({"g": [((1, 1), 1)], "h": [((i, i), 1) for i in range(40)]})
    before = bag(both.view.to_table())
    batch = {"g": pa.table({"src": range(10, 12_000), "dst": [i % 40 for i in range(10, 12_000)]})}
    for view in (both.view, both.other):
        with pytest.raises(MemoryBudgetError):
            view.apply(batch)
        view.check_invariants()
        assert bag(view.to_table()) == before
    both.apply({"g": [((2, 3), 1), ((1, 1), -1)]})


def test_what_is_raised_when_all_is_done_takes_the_batch_back() -> None:
    both = Stepwise(*QUERIES["sums by another key"])
    both.apply({"r": [((1, 1, 2, Decimal(1)), 1)], "s": [((1, 1, 1.0, None), 1)]})
    more = {"r": [((2, 1, 3, Decimal(1)), 1), ((1, 1, 2, Decimal(1)), -1)]}
    table = both.table()
    for view in (both.view, both.other):
        view.amplified_beyond = 0
        with pytest.raises(AmplifiedWarning):  # a warning is an error in tests
            view.apply(both.given(more))
        view.amplified_beyond = None
    both.compare()
    assert both.table() == table
    both.apply(more)
    both.is_duckdbs()


def test_a_batch_is_undone() -> None:
    both = Stepwise(*QUERIES["hops"])
    both.apply(edges(4))
    table = both.table()
    changes = [*edges(3, 10), *[(row, -1) for row, _ in edges(1)]]
    both.apply(changes)
    for view in (both.view, both.other):
        view._engine.undo(both.given(changes))
    both.compare()
    assert both.table() == table
