"""Deleted keys that are forgotten: what is left of them has a bound, and no older change brings one back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import crown
from crown.errors import MemoryBudgetError
from crown.programs.base_rows import base_rows
from crown.programs.program import ProgramEngine
from plans import PlanError, Schema, Table, program
from plans.commands.declare import table_of
from plans.program import Program
from tests.marks import turns
from tests.oracles.upserts import Twin, schema
from tests.programs.results import added, rows_of_engine
from tests.programs.test_upserts import COUNTED, GROUPED, JOINED, QUERIES, ROWS, begun_again


def bounded(behind: Any, **more: Any) -> dict[str, Any]:
    given = schema("seq")
    return {**given, "o": {**given["o"], "tombstones": behind, **more}}


@pytest.mark.parametrize(("query", "behind"), [(query, (1, 7, 25)[number % 3]) for number, query in enumerate(QUERIES)])
def test_after_every_batch_the_view_is_the_table_and_what_is_kept_is_what_is_near(query: str, behind: int) -> None:
    twin = Twin(len(query) + behind, True, behind, keys=14)
    view = crown.view(query, bounded(behind))
    result: Counter[Any] = Counter()
    if " p " in query:
        added(result, view.apply({"p": [{"v": v, "w": i} for i, v in enumerate("abc")]}))
    late = 0
    for number in turns(12, 14):
        batch = twin.batch(twin.random.randrange(12))
        late += twin.apply(batch)
        added(result, view.apply({"o": batch}))
        assert result == twin.result(query), number
        assert view.stats()["tombstones"]["o"] == twin.tombstones()
        view.check_invariants()
    assert view.stats()["late"]["o"] == late > 0


def test_if_no_change_comes_that_late_forgetting_changes_nothing() -> None:
    """Changes come at most 30 behind the greatest; what is kept for 30 is enough."""
    twin = Twin(1, True, keys=20)
    forgetting, remembering = crown.view(ROWS, bounded(31)), crown.view(ROWS, schema("seq"))
    for _ in turns(30, 60):
        batch = twin.batch(10)
        assert forgetting.apply({"o": batch}).to_pylist() == remembering.apply({"o": batch}).to_pylist()
    few, many = (view.stats()["tombstones"]["o"] for view in (forgetting, remembering))
    assert few <= many
    assert forgetting.stats()["late"] == remembering.stats()["late"]


def test_a_batch_that_is_undone_and_applied_again_forgets_the_same() -> None:
    twin, made = Twin(5, True, 9, keys=12), program(GROUPED, bounded(9))
    engine, once = ProgramEngine.create(made), ProgramEngine.create(made)
    for number in turns(12, 30):
        batch = {"o": twin.batch(8)} if number % 4 else {"p": [{"v": "a", "w": number}]}
        again = []
        for _ in range(2):
            again.append(Counter(map(str, (r for b in engine.run(engine.prepare(batch)) for r in b.to_pylist()))))
            before = engine.stats()
            engine.compact()
            engine.undo(batch)
            engine.check_invariants()
        list(engine.run(engine.prepare(batch)))
        list(once.run(once.prepare(batch)))
        assert again[0] == again[1]
        for name in ("rows", "missing_deletes", "late", "tombstones"):
            assert engine.stats()[name] == before[name] == once.stats()[name], name
        engine.check_invariants()
        assert rows_of_engine(engine) == rows_of_engine(once)
        assert {n: t.sort_by("id").to_pylist() for n, t in base_rows(engine).items() if n == "o"} == {
            n: t.sort_by("id").to_pylist() for n, t in base_rows(once).items() if n == "o"
        }


def test_a_view_that_is_saved_and_one_whose_journal_is_replayed_forget_the_same(tmp_path: Path) -> None:
    twin = Twin(8, True, 6, keys=12)
    for late, view, opened in begun_again(tmp_path, bounded(6), twin, 14):
        assert opened.stats()["tombstones"]["o"] == twin.tombstones()
        assert view.stats()["tombstones"]["o"] == twin.tombstones()
        assert view.stats()["late"]["o"] == late
    assert late > 0


def test_a_table_whose_keys_are_all_new_and_all_deleted_does_not_grow() -> None:
    sizes: dict[str, list[int]] = {}
    for name, given in (("forgets", bounded(2_000)), ("remembers", schema("seq"))):
        view = crown.view(COUNTED, given)
        for number in range(0, 24_000, 1_000):
            rows = [{"id": i, "v": "a", "n": 1, "seq": i} for i in range(number, number + 1_000)]
            view.update({"o": rows})
            view.update({"o": [{"id": row["id"], "seq": row["seq"], "_weight": -1} for row in rows]})
            sizes.setdefault(name, []).append(view.stats()["live_bytes"])
        assert view.stats()["tombstones"]["o"] == (2_000 if name == "forgets" else 24_000)
        view.check_invariants()
    assert sizes["forgets"][-1] <= max(sizes["forgets"][:6]), sizes["forgets"]
    assert sizes["remembers"][-1] > 3 * sizes["forgets"][-1]


def test_a_batch_for_which_there_is_no_memory_leaves_no_trace() -> None:
    view = crown.view(ROWS, bounded(50), memory_budget="1 MiB")
    rows = [{"id": i, "v": "a", "n": 1, "seq": i} for i in range(60)]
    view.update({"o": rows})
    view.update({"o": [{"id": row["id"], "seq": row["seq"], "_weight": -1} for row in rows]})
    before = view.stats()["tombstones"], view.stats()["late"]
    gone = {"id": range(100_000), "v": [None] * 100_000, "n": [0] * 100_000, "seq": range(10, 100_010)}
    with pytest.raises(MemoryBudgetError):
        view.apply({"o": {**gone, "v": [f"x{i}" for i in range(100_000)]}})
    with pytest.raises(MemoryBudgetError):
        view.apply({"o": {**gone, "seq": [100] * 100_000, "_weight": [-1] * 100_000}})
    assert (view.stats()["tombstones"], view.stats()["late"]) == before
    view.check_invariants()
    assert view.apply({"o": [{"id": 1, "v": "b", "n": 1, "seq": 1}]}).num_rows == 0
    assert view.stats()["late"]["o"] == 1


def test_how_long_is_said_in_units_of_the_sequence() -> None:
    def made(kind: str, behind: Any) -> Table:
        columns = {"id": "int64", "seq": kind}
        given = {"columns": columns, "key": ["id"], "upserts": True, "sequence": "seq", "tombstones": behind}
        return Schema.of({"t": given})["t"]

    assert (made("int64", 1000).tombstones, made("int64", " 1000 ").kept_behind) == ("1000", 1000)
    assert (made("timestamp", "60 minutes").tombstones, made("timestamp", "1 hour").kept_behind) == (
        "1 hour",
        3_600_000_000,
    )
    assert made("date", "1 week").kept_behind == 7
    for kind, behind, said in (
        ("int64", "7 days", "is int64"),
        ("int64", 0, "is int64"),
        ("timestamp", 1000, "is timestamp"),
        ("date", "1 hour", "is date"),
        ("timestamp", "1 month", "is timestamp"),
    ):
        with pytest.raises(PlanError, match=said):
            made(kind, behind)
    with pytest.raises(PlanError, match="declares tombstones, but no sequence"):
        Schema.of({"t": {"columns": {"id": "int64"}, "key": ["id"], "upserts": True, "tombstones": 5}})
    text = "o(id int64 key, v string, seq timestamp sequence) upserts tombstones 1 day 12 hours"
    assert table_of(text).tombstones == "36 hours"


def test_explain_says_it_and_it_is_part_of_the_state() -> None:
    without, near, far = (program(JOINED, given) for given in (schema("seq"), bounded(5), bounded(6)))
    assert len({without.fingerprint, near.fingerprint, far.fingerprint}) == 3
    assert Program.from_json(near.to_json()) == near
    assert "until it is 5 below the greatest sequence" in crown.view(near).explain()
