"""count() of a program reads a number that every batch keeps: no row is looked at, and it is right after everything."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import crown
from crown.errors import ChangeError, CrownError
from crown.kernels.memory.arena import H_ROWS
from crown.programs.program import ProgramEngine
from crown.programs.result import StageReader

SCHEMA = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}
QUERIES = [
    "SELECT a, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY a HAVING COUNT(*) > 1",
    "SELECT SUM(b) AS t FROM r",
    "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT a FROM r UNION ALL SELECT c AS a FROM s WHERE c > 2",
    "SELECT a FROM r UNION SELECT c AS a FROM s",
    "SELECT a FROM r EXCEPT ALL SELECT c AS a FROM s",
    "SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b",
    "SELECT a, b FROM r ORDER BY b DESC, a LIMIT 3",
]
BATCHES: list[dict[str, Any]] = [
    {"r": [(1, 1), (1, 2), (2, 2), (3, 9), (3, 9)], "s": [(1, 1), (2, 3), (2, 3)]},
    {"r": [{"a": 1, "b": 1, "_weight": -1}, {"a": 3, "b": 9, "_weight": -1}], "s": [(2, 5)]},
    {"r": [{"a": 7, "b": 7, "_weight": -3}]},
    {"s": [{"b": 2, "c": 3, "_weight": -2}], "r": [(4, 2)]},
]


def nobody_reads(_: StageReader) -> Any:
    raise AssertionError("rows are counted")


@pytest.mark.parametrize("query", QUERIES)
def test_the_count_is_kept_by_every_batch_and_reads_no_row(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = crown.view(query, SCHEMA)
    assert view.count() == 0
    for batch in BATCHES:
        view.update(batch)
        wanted = view.to_table().num_rows
        with monkeypatch.context() as patch:
            patch.setattr(StageReader, "rows", nobody_reads)
            assert view.count() == len(view) == wanted
        view.check_invariants()


def test_a_refused_batch_leaves_the_count_as_it_was() -> None:
    view = crown.view("SELECT a, SUM(b) AS t FROM r GROUP BY a", SCHEMA)
    view.update({"r": [(1, 2**62), (2, 5)]})
    with pytest.raises(ChangeError, match="the sum is no int64"):
        view.update({"r": [(1, 2**62), (3, 1)]})
    assert view.count() == view.to_table().num_rows == 2
    view.check_invariants()


@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[3]])
def test_a_loaded_view_knows_or_counts_once(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = crown.view(query, SCHEMA)
    view.update(BATCHES[0])
    view.save(tmp_path / "view")
    again = crown.load(tmp_path / "view")
    assert again.count() == view.count() == view.to_table().num_rows
    again.update({"r": [(1, 5), (8, 8), (8, 8)]})
    wanted = again.to_table().num_rows
    monkeypatch.setattr(StageReader, "rows", nobody_reads)
    assert again.count() == wanted


def test_a_number_that_is_not_known_is_counted_once_and_a_wrong_one_is_found() -> None:
    view = crown.view(QUERIES[0], SCHEMA)
    view.update({"r": BATCHES[0]["r"]})
    engine = view._engine
    assert isinstance(engine, ProgramEngine)
    arena = engine.stages[-1].parts[0]
    arena[H_ROWS] = 0  # as in a state of an older release
    assert view.count() == view.to_table().num_rows == 2
    arena[H_ROWS] += 1
    with pytest.raises(AssertionError, match="differs from the count"):
        view.check_invariants()


def test_views_of_a_database_know_their_counts_when_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    db = crown.database(SCHEMA)
    db.view("groups", QUERIES[0])
    db.apply({"r": BATCHES[0]["r"], "s": BATCHES[0]["s"]})
    db.view("either", QUERIES[3])
    db.view("both", QUERIES[2])
    db.apply(BATCHES[1])
    wanted = {name: sum(int(n) for n in pc.fill_null(t["_weight"], 0).to_pylist()) if "_weight" in t.column_names
              else t.num_rows for name in ("groups", "either", "both") for t in [db[name].to_table()]}  # fmt: skip
    db.check_invariants()
    monkeypatch.setattr(StageReader, "rows", nobody_reads)
    assert {name: db[name].count() for name in wanted} == wanted


@pytest.mark.parametrize(("copies", "rows"), [(1_900_000_000, 3_610_000_000_000_000_000), (2_100_000_000, None)])
def test_a_view_and_a_view_of_a_database_count_as_far_as_each_other(copies: int, rows: int | None) -> None:
    query, tables = "SELECT a, b FROM r, s", {"r": {"a": "int64"}, "s": {"b": "int64"}}
    alone, database = crown.view(query, tables), crown.database(tables)
    together = database.view("pairs", query)
    for changed in (alone, database):
        changed.update({"r": [{"a": 1, "_weight": copies}], "s": [{"b": 1, "_weight": copies}]})
    for view in (alone, together):
        with nullcontext() if rows else pytest.raises(CrownError, match="more than 4e18 rows"):
            assert view.count() == rows
