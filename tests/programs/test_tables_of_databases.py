"""Tables are added to databases that hold data, and dropped from them; kept databases have them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import crown

SCHEMA: dict[str, Any] = {
    "r": {"a": "int64", "s": "string"},
    "u": {"columns": {"k": "int64", "x": "int64", "at": "int64"}, "key": ["k"], "upserts": True, "sequence": "at"},
    "w": {"a": "int64", "at": "int64"},
}
WINDOWS = {"w": crown.ttl("at", 10)}


def filled(db: Any) -> Any:
    db.view("sums", "SELECT s, SUM(a) AS n FROM r GROUP BY s")
    db.view("total", "SELECT COUNT(*) AS n FROM r")
    db.view("keyed", "SELECT k, x FROM u")
    db.view("recent", "SELECT a FROM w")
    db.insert("r", [(1, "a"), (2, "a"), (2, "a"), (3, "b")])
    db.upsert("u", [(1, 10, 5), (2, 20, 5)])
    db.delete("u", [{"k": 2, "at": 6}])
    db.insert("w", [(1, 100), (2, 105)])
    return db


def shown(db: Any) -> dict[str, list[str]]:
    return {name: sorted(map(str, db[name])) for name in db}


@pytest.mark.parametrize("on_missing", ["ignore", "raise"])
def test_a_table_is_added_and_every_view_is_as_before(on_missing: str) -> None:
    db = filled(crown.database(SCHEMA, windows=WINDOWS, on_missing=on_missing))
    before, batches = shown(db), db.stats()["batches"]
    db.create_table("T", {"columns": {"id": int, "s": str}, "key": ["id"], "enforced": True})
    assert [table.name for table in db.tables] == ["r", "u", "w", "T"]
    assert (shown(db), db.stats()["batches"]) == (before, batches)
    assert set(db.stats()["missing_deletes"].values()) == {0}
    db.view("joined", "SELECT t.id, r.a FROM t JOIN r ON t.s = r.s")
    assert db.insert("t", [(1, "b")])["joined"].to_pylist() == [{"id": 1, "a": 3, "_weight": 1}]
    db.upsert("u", [(1, 9, 4), (2, 9, 5)])
    assert list(db["keyed"]) == [{"k": 1, "x": 10}], "what is older than the newest change of a key is left out still"
    db.insert("w", [(3, 94), (4, 110)])
    assert sorted(row["a"] for row in db["recent"]) == [2, 4], "the watermark is where it was"
    db.delete("r", [(2, "a")])
    assert {"s": "a", "n": 3} in list(db["sums"])
    db.check_invariants()


def test_a_table_that_no_view_reads_is_dropped_with_its_rows() -> None:
    db = filled(crown.database(SCHEMA, windows=WINDOWS))
    with pytest.raises(crown.PlanError, match=r"the table R is read by sums, total\nhint: drop total first"):
        db.drop_table("R")
    db.drop("recent")
    db.drop_table("W")
    assert [table.name for table in db.tables] == ["r", "u"]
    db.create_table("w", {"b": "string"})
    assert db.table("w").num_rows == 0
    for name in ("sums", "total", "keyed"):
        db.drop(name)
    db.drop_table("r")
    db.drop_table("u")
    with pytest.raises(crown.PlanError, match="w is the last table"):
        db.drop_table("w")


@pytest.mark.parametrize(
    ("name", "columns", "said"),
    [
        ("R", {"a": "int64"}, "there is a table called R already"),
        ("sums", {"a": "int64"}, "there is a view called sums already"),
        ("n", {"a": "no"}, "type 'no' is not supported"),
        ("n", 5, "a mapping of columns to types"),
        ("", {"a": "int64"}, "is not the name of a table"),
    ],
)
def test_a_table_that_cannot_be_added_changes_nothing(name: str, columns: Any, said: str) -> None:
    db = filled(crown.database(SCHEMA, windows=WINDOWS))
    before = shown(db)
    with pytest.raises(crown.CrownError, match=said):
        db.create_table(name, columns)
    with pytest.raises(crown.PlanError, match="there is no table called nothing"):
        db.drop_table("nothing")
    assert shown(db) == before


def test_rows_in_a_window_by_arrival_cannot_be_had_and_that_is_said() -> None:
    db = crown.database({"r": {"a": "int64"}}, windows={"r": crown.last_rows(2)})
    db.update({"r": {"a": [1, 2, 3]}})
    with pytest.raises(crown.PlanError, match="the table r has a window of the last rows") as found:
        db.table("r")
    assert "register a view" in str(found.value)
    assert sorted(row["a"] for row in db.view("all_of_it", "SELECT a FROM r")) == [2, 3]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_kept_database_has_its_tables_again(snapshot: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with crown.open_database(folder, {"r": SCHEMA["r"]}) as db:
        db.view("total", "SELECT COUNT(*) AS n FROM r")
        db.insert("r", [(1, "a")])
        db.create_table("t", {"id": int})
        db.create_table("gone", {"id": int})
        db.insert("t", [(7,)])
        db.drop_table("gone")
        db.view("seven", "SELECT id FROM t")
        if snapshot:
            db.snapshot()
        db.insert("t", [(8,)])
        before, batches = shown(db), db.batches
    with crown.open_database(folder) as again:
        assert (shown(again), again.batches) == (before, batches)
        assert [table.name for table in again.tables] == ["r", "t"]
        again.insert("r", [(2, "b")])
        again.check_invariants()
    with pytest.raises(crown.QueryChangedError, match="has a database with other tables"):
        crown.open_database(folder, {"r": SCHEMA["r"]})
    with crown.open_database(folder, {"r": SCHEMA["r"], "t": {"id": int}}) as again:
        assert list(again["total"]) == [{"n": 2}]
