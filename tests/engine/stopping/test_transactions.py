"""What stopped a batch and left something behind: each case was a wrong answer, a raw error or a dead process once."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.errors import ChangeError, ConcurrentChangeError, MemoryBudgetError, MissingDeleteError
from crown.results.head import OutputHead
from crown.store.memory import MappedFile

TWO = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
JOIN_PROJECT = "SELECT DISTINCT R.a, S.c FROM R, S WHERE R.b = S.b"
FULL = "SELECT DISTINCT R.a, R.b, S.c FROM R, S WHERE R.b = S.b"
GRAPH = {"G": {"x": "int64", "y": "int64"}}
TRIANGLE = "SELECT DISTINCT a.x, a.y, b.y AS z FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
SQUARE = (
    "SELECT DISTINCT a.x, a.y, b.y AS z, c.y AS w FROM G a, G b, G c, G d "
    "WHERE a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = a.x"
)


def _product(n: int, m: int) -> dict[str, pa.Table]:
    return {
        "R": pa.table({"a": np.arange(n), "b": np.zeros(n, np.int64)}),
        "S": pa.table({"b": np.zeros(m, np.int64), "c": np.arange(m)}),
    }


def _clique(n: int) -> dict[str, pa.Table]:
    x, y = np.divmod(np.arange(n * n), n)
    return {"G": pa.table({"x": x, "y": y})}


def test_a_constant_output_is_compared_by_value_in_membership_tests() -> None:
    orders = {"o": {"columns": {"id": "int64", "status": "string"}, "key": ["id"]}}
    view = crown.view("SELECT id, status FROM o WHERE status = 'paid'", orders)
    view.apply({"o": [{"id": 1, "status": "paid"}, {"id": 2, "status": "open"}]})
    assert (1, "paid") in view
    assert (1, "open") not in view
    assert (1, "never seen") not in view
    assert (1, None) not in view


def test_a_computed_output_is_compared_by_value_in_membership_tests() -> None:
    view = crown.view(
        "SELECT DISTINCT a, CONCAT(name, '!') AS loud, name FROM R", {"R": {"a": "int64", "name": "string"}}
    )
    view.apply({"R": [{"a": 1, "name": "x"}]})
    assert (1, "x!", "x") in view
    assert (1, "unknown", "x") not in view


def test_results_of_a_counted_view_do_not_share_the_buffer_that_is_used_again() -> None:
    view = crown.view(JOIN_PROJECT, TWO)
    view.update(_product(300, 400))
    table = view.to_table()
    assert table.num_rows == 120_000
    assert len(set(zip(table["a"].to_pylist(), table["c"].to_pylist(), strict=True))) == 120_000


def test_an_error_while_an_output_is_evaluated_undoes_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    view = crown.view("SELECT DISTINCT a + b AS s FROM R", {"R": {"a": "int64", "b": "int64"}})
    view._engine.pipeline = None  # a native call has evaluators of its own
    with monkeypatch.context() as patch:
        patch.setattr(OutputHead, "codes", lambda self, block: (_ for _ in ()).throw(pa.ArrowInvalid("overflow")))
        with pytest.raises(pa.ArrowInvalid):
            view.apply({"R": [{"a": 5, "b": 5}, {"a": 7, "b": 1}]})
    assert view.count() == 0
    assert view.apply({"R": [{"a": 5, "b": 5, "_weight": -1}]}).num_rows == 0
    assert view.apply({"R": [{"a": 5, "b": 5}]}).to_pylist() == [{"s": 10, "_weight": 1}]
    view.check_invariants()


@pytest.mark.parametrize(
    ("query", "schema", "large", "small"),
    [
        (JOIN_PROJECT, TWO, _product(300, 300), _product(3, 3)),
        (FULL, TWO, _product(20_000, 3), _product(3, 3)),
        (TRIANGLE, GRAPH, _clique(120), _clique(4)),
        (SQUARE, GRAPH, _clique(60), _clique(3)),
    ],
    ids=["support counts", "tree", "triangle bag", "generic bag"],
)
def test_the_budget_counts_everything_and_a_refused_batch_leaves_nothing(
    query: str, schema: dict[str, dict[str, str]], large: dict[str, pa.Table], small: dict[str, pa.Table]
) -> None:
    view = crown.view(query, schema, memory_budget=256 << 10)
    view.apply(small)
    before, bytes_before = view.to_table(), view.stats()["live_bytes"]
    for _ in range(2):
        with pytest.raises(MemoryBudgetError, match="it was undone"):
            view.apply(large)
        assert view.to_table().num_rows == before.num_rows == view.count()
        assert view.stats()["live_bytes"] <= 2 * bytes_before
        view.check_invariants()
    gone = {name: table.append_column("_weight", pa.array([-1] * len(table))) for name, table in small.items()}
    view.apply(gone)
    assert view.count() == 0


def test_threads_share_one_budget_and_undo_what_one_of_them_refused() -> None:
    view = crown.view(FULL, TWO, threads=2, memory_budget=1 << 20)
    view.apply(_product(10, 3))
    for _ in range(2):
        with pytest.raises(MemoryBudgetError, match="it was undone"):
            view.apply(_product(60_000, 3))
        assert view.count() == 30
        view.check_invariants()
    assert view.apply({"R": [{"a": 77, "b": 0}]}).num_rows == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_the_values_of_a_refused_batch_leave_the_dictionary(threads: int) -> None:
    schema = {"R": {"a": "int64", "name": "string"}}
    view = crown.view("SELECT DISTINCT a, name FROM R", schema, threads=threads, memory_budget=1 << 20)
    for batch in range(5):
        rows = pa.table({"a": np.arange(30_000), "name": [f"name number {batch} of {i}" for i in range(30_000)]})
        with pytest.raises(MemoryBudgetError):
            view.apply({"R": rows})
        assert view.apply({"R": [{"a": batch, "name": f"name {batch} alone"}]}).num_rows == 1
    assert view.stats()["dictionary"] == 5
    view.check_invariants()


def test_a_refused_batch_whose_reader_left_early_does_not_lock_the_view() -> None:
    view = crown.view(FULL, TWO, memory_budget=256 << 10)
    batches = view.apply_batches(_product(20_000, 3))
    with pytest.raises(MemoryBudgetError, match="it was undone"):
        batches.close()
    assert view.count() == 0
    assert view.apply(_product(2, 2)).num_rows == 4


def test_a_reader_that_forgets_its_iterator_has_the_batch_applied() -> None:
    view = crown.view(JOIN_PROJECT, TWO)
    next(iter(view.apply_batches(_product(20, 20))), None)
    gc.collect()
    assert view.count() == 400
    view.check_invariants()


def test_a_view_is_busy_until_its_deltas_are_read() -> None:
    view = crown.view(FULL, TWO)
    batches = view.apply_batches(_product(300, 300))
    with pytest.raises(ConcurrentChangeError, match="exhaust or close"):
        view.count()
    batches.close()
    assert view.count() == 90_000


def test_a_full_disk_under_a_mapped_state_is_an_error_and_the_view_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = crown.view(FULL, TWO, path=tmp_path / "state")
    view.apply(_product(10, 3))
    with monkeypatch.context() as patch:

        def full(self: MappedFile, start: int, words: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(MappedFile, "reserve", full)
        with pytest.raises(MemoryBudgetError, match="the disk has no room"):
            view.apply(_product(200_000, 3))
        assert view.count() == 30
        view.check_invariants()
        with pytest.raises(MemoryBudgetError, match="the disk has no room for the state file"):
            crown.view(FULL, TWO, path=tmp_path / "other")
    assert view.apply(_product(200_000, 3)).num_rows == 3 * (200_000 - 10)


def test_no_page_of_a_mapped_state_is_used_before_the_disk_has_a_block_for_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    view = crown.view(TRIANGLE, GRAPH, path=path)
    view.apply(_clique(50))
    assert path.stat().st_blocks * 512 >= view.stats()["reserved_bytes"]


def test_on_missing_raise_looks_at_all_columns_of_a_row() -> None:
    view = crown.view("SELECT DISTINCT uid FROM o", {"o": {"id": "int64", "uid": "int64"}}, on_missing="raise")
    view.update({"o": [{"id": 1, "uid": 7}]})
    with pytest.raises(MissingDeleteError, match="'id': 2, 'uid': 7"):
        view.update({"o": [{"id": 2, "uid": 7, "_weight": -1}]})
    assert view.to_table().to_pylist() == [{"uid": 7}]
    view.update({"o": [{"id": 1, "uid": 7, "_weight": -1}]})
    assert not view.count()


def test_rows_are_quarantined_only_if_their_batch_is_applied(tmp_path: Path) -> None:
    view = crown.view(FULL, TWO, memory_budget=256 << 10, on_bad_row="quarantine", quarantine=tmp_path / "bad")
    bad = [{"a": "not a number", "b": 0}]
    with pytest.raises(MemoryBudgetError):
        view.apply({"R": [*bad, *({"a": i, "b": 0} for i in range(20_000))]})
    assert not (tmp_path / "bad").exists()
    view.apply({"R": bad})
    assert view.stats()["quarantined"] == 1
    assert len(list((tmp_path / "bad").iterdir())) == 1


def test_a_batch_whose_bad_rows_cannot_be_kept_is_undone(tmp_path: Path) -> None:
    view = crown.view(FULL, TWO, on_bad_row="quarantine", quarantine=tmp_path / "bad")
    (tmp_path / "bad").write_text("in the way")
    with pytest.raises(ChangeError, match="cannot take them"):
        view.apply({"R": [{"a": "no", "b": 0}, {"a": 1, "b": 1}], "S": [{"b": 1, "c": 1}]})
    assert view.count() == 0
    assert view.stats()["batches"] == 0
    view.check_invariants()
