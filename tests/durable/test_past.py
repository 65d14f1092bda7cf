"""What a folder keeps can be had as it was after any batch that its snapshots and its log reach."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import crown

SCHEMA = {"r": {"a": "int64", "b": "string"}, "s": {"b": "string", "c": "int64"}}
QUERIES = {
    "joined": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "counted": "SELECT b, COUNT(*) AS n, MAX(a) AS most FROM r GROUP BY b",
    "padded": "SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b",
}


def _batch(source: random.Random) -> dict[str, Any]:
    rows = [{"a": source.randrange(4), "b": source.choice("xyz"), "_weight": source.choice([1, 1, -1])} for _ in "1234"]
    others = [{"b": source.choice("xyz"), "c": source.randrange(3), "_weight": source.choice([1, -1])} for _ in "12"]
    return {"r": rows, "s": others}


def _rows(found: Any) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in found)


@pytest.mark.parametrize("query", QUERIES.values())
@pytest.mark.parametrize("snapshot_bytes", [1, 1 << 30])
def test_a_view_can_be_had_as_it_was_after_any_batch(query: str, snapshot_bytes: int, tmp_path: Path) -> None:
    source = random.Random(len(query) + snapshot_bytes)
    options: Any = {"keep": 100, "snapshot_bytes": snapshot_bytes, "on_missing": "ignore"}
    with crown.open(query, tmp_path / "view", SCHEMA, **options) as view:
        after = [_rows(view)]
        for _ in range(12):
            view.update(_batch(source))
            after.append(_rows(view))
        for batch, wanted in enumerate(after):
            past = view.as_of(batch)
            assert _rows(past) == wanted, batch
            past.check_invariants()
        past.update(_batch(source))
        assert _rows(view) == after[-1], "a past view is one of its own"
    with crown.open(None, tmp_path / "view", keep=100) as view:
        assert [_rows(view.as_of(batch)) for batch in range(13)] == after


def test_a_database_can_be_had_as_it_was_with_the_views_of_that_time(tmp_path: Path) -> None:
    source = random.Random(7)
    with crown.open_database(tmp_path / "db", SCHEMA, keep=100, snapshot_bytes=1, on_missing="ignore") as db:
        after: dict[int, tuple[list[int], dict[str, Counter[str]]]] = {}
        for i, (name, query) in enumerate(QUERIES.items()):
            db.view(name, query)
            for j in range(3):
                db.apply(_batch(source), note=[i, j])
                after[db.batches] = [i, j], {name: _rows(db[name]) for name in db.views}
        notes = dict(db.history())
        for batch, (note, wanted) in after.items():
            past = db.as_of(batch)
            assert {name: _rows(past[name]) for name in past.views} == wanted
            assert notes[batch] == note


def test_how_far_a_folder_goes_back_is_said(tmp_path: Path) -> None:
    with crown.open(QUERIES["counted"], tmp_path / "view", SCHEMA, keep=0) as view:
        view.update({"r": [(1, "x")]})
        view.update({"r": [(2, "x")]})
        assert view.as_of(1).get({"b": "x"}) == {"b": "x", "n": 1, "most": 1}
        with pytest.raises(crown.CrownError, match=r"batch 3: .* has had 2 batches; give 0 to 2"):
            view.as_of(3)
        with pytest.raises(crown.CrownError, match="batch must be a whole number"):
            view.as_of(-1)
        view.snapshot()
        with pytest.raises(crown.CrownError, match=r"keeps is 2, so batch 1 cannot be read; with a larger keep="):
            view.as_of(1)
        assert view.as_of(2).get({"b": "x"}) == {"b": "x", "n": 2, "most": 2}


def test_a_log_that_is_gone_is_said(tmp_path: Path) -> None:
    with crown.open(QUERIES["counted"], tmp_path / "view", SCHEMA, keep=100, snapshot_bytes=1) as view:
        for i in range(4):
            view.update({"r": [(i, "x")]})
            view.snapshot()
        (tmp_path / "view" / "1.snapshot").unlink()
        assert view.as_of(1).count() == 1, "from the log before"
        (tmp_path / "view" / "0.log").unlink()
        with pytest.raises(crown.CrownError, match="keeps is 2, so batch 1 cannot be read"):
            view.as_of(1)
        (tmp_path / "view" / "3.snapshot").unlink()
        (tmp_path / "view" / "2.log").unlink()
        with pytest.raises(crown.DamagedStateError, match=r"2\.log is missing"):
            view.as_of(3)


def test_the_batch_of_the_oldest_snapshot_has_its_note(tmp_path: Path) -> None:
    with crown.open_database(tmp_path / "db", {"r": {"a": "int64"}}, keep=1) as db:
        for i in range(4):
            db.apply({"r": [(i,)]}, note=i)
            db.snapshot()
        assert db.history() == [(3, 2), (4, 3)]
        assert [db.as_of(batch).table("r").num_rows for batch, _ in db.history()] == [3, 4]


def test_a_snapshot_of_another_view_is_not_taken_for_the_past(tmp_path: Path) -> None:
    for name in ("view", "other"):
        with crown.open(QUERIES["counted"], tmp_path / name, SCHEMA, keep=100) as view:
            for i in range(2):
                view.update({"r": [(len(name) + i, "x")]})
                view.snapshot()
    (tmp_path / "other" / "1.snapshot").replace(tmp_path / "view" / "1.snapshot")
    view = crown.open(None, tmp_path / "view", keep=100)
    with view, pytest.raises(crown.SnapshotError, match=r"1\.snapshot is not the snapshot of batch 1 of this view"):
        view.as_of(1)
