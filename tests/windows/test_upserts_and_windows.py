"""One relation updated by key and another within a window, in one query: after every batch what DuckDB has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import MissingDeleteError
from crown.programs.program import ProgramEngine
from plans import PlanError, Schema, program
from plans.schema import Table
from plans.time.windows import Window
from tests.marks import turns
from tests.models.window import WindowReference
from tests.oracles.upserts import PARTS, Twin, schema
from tests.programs.results import added, rows_of, rows_of_engine

QUERIES = (
    "SELECT o.id, p.w FROM o JOIN p ON o.v = p.v",
    "SELECT p.v, COUNT(*) AS c, MAX(o.n) AS m, SUM(p.w) AS s FROM o JOIN p ON o.v = p.v GROUP BY p.v",
    "SELECT p.v, p.w, o.id FROM p LEFT JOIN o ON o.v = p.v",
    "SELECT p.v, COUNT(*) AS c, MAX(o.n) AS m FROM o JOIN p ON o.v = p.v GROUP BY p.v",  # which w leaves decides
)
WINDOWS: dict[str, Window] = {
    "arrival": crown.last_rows(5),
    "count": crown.last_rows(4, by="w"),
    "time": crown.ttl("w", 6, lateness=1),
}


class Both(Twin):
    """DuckDB's table ``o`` by key, and in ``p`` the rows that are within their window."""

    def __init__(self, seed: int, ordered: bool, window: Window) -> None:
        super().__init__(seed, ordered)
        self.now, self.rows = 0, Random(seed)
        self.within = WindowReference(window, Table("p", Schema.of({"p": PARTS})["p"].columns).columns)
        self.duck.execute("DELETE FROM p")

    def parts(self) -> list[tuple[tuple[Any, ...], int]]:
        self.now += 2
        come = [(self.rows.choice("abc"), self.now - self.rows.choice((0, 0, 1, 9))) for _ in range(3)]
        here = [row for _, row in self.within.copies]
        return [(row, 1) for row in come] + [(row, -1) for row in self.rows.sample(here, min(len(here), 1))]

    def take(self, orders: list[dict[str, Any]], parts: list[tuple[tuple[Any, ...], int]]) -> int:
        late = self.apply(orders)
        self.within.apply(parts)
        self.duck.execute("DELETE FROM p")
        for _, row in self.within.copies:
            self.duck.execute("INSERT INTO p VALUES (?, ?)", row)
        return late

    def next(self) -> tuple[dict[str, Any], int]:
        """A batch, and how many of its changes by key are too old."""
        orders, parts = self.batch(self.random.randrange(8)), self.parts()
        late = self.take(orders, parts)
        return {"o": orders, "p": [{"v": v, "w": w, "_weight": n} for (v, w), n in parts]}, late


def declared(window: Window) -> Window:
    (found,) = program(QUERIES[0], schema(), windows={"p": window}).windows
    return found


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("query", QUERIES)
def test_after_every_batch_the_view_is_what_duckdb_has(query: str, kind: str) -> None:
    window = WINDOWS[kind]
    twin, late = Both(len(query), True, declared(window)), 0
    view = crown.view(query, schema("seq"), windows={"p": window})
    result: Counter[tuple[Any, ...]] = Counter()
    for number in turns(12, 20):
        batch, too_old = twin.next()
        late += too_old
        added(result, view.apply(batch))
        assert result == twin.result(query) == rows_of(view), number
        view.check_invariants()
    told = view.stats()
    assert told["late"] == {"o": late}
    assert late > 0
    assert told["windows"]["p"]["expired"] == twin.within.expired > 0
    assert told["rows"]["p"] == len(twin.within.copies)
    if kind == "time":
        assert told["windows"]["p"]["late"] == twin.within.late > 0
    else:
        assert "late" not in told["windows"]["p"]


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_batch_that_is_undone_and_applied_again_gives_the_same_rows(kind: str) -> None:
    made = program(QUERIES[1], schema("seq"), windows={"p": WINDOWS[kind]})
    twin, engine = Both(3, True, declared(WINDOWS[kind])), ProgramEngine.create(made)
    for _ in range(12):
        batch, _ = twin.next()
        again = []
        for _ in range(2):
            deltas = [row for part in engine.run(engine.prepare(batch)) for row in part.to_pylist()]
            again.append(Counter(map(str, deltas)))
            before = engine.stats()
            engine.compact()
            engine.undo(batch)
        list(engine.run(engine.prepare(batch)))
        assert again[0] == again[1]
        for name in ("rows", "missing_deletes", "late", "tombstones", "windows"):
            assert engine.stats()[name] == before[name], name
        engine.check_invariants()
        assert sum(rows_of_engine(engine).values()) == sum(twin.result(QUERIES[1]).values())


def test_a_batch_that_one_of_the_two_refuses_leaves_both_as_they_were() -> None:
    view = crown.view(QUERIES[0], schema("seq"), windows={"p": crown.last_rows(2)}, on_missing="raise")
    view.update({"p": [{"v": "a", "w": 1}, {"v": "a", "w": 2}], "o": [{"id": 1, "v": "a", "n": 0, "seq": 1}]})
    rows, told = rows_of(view), view.stats()
    moved = {"id": 1, "v": "b", "n": 0, "seq": 2, "_weight": 1}
    for batch in (
        {"o": [moved], "p": [{"v": "b", "w": 9, "_weight": -1}]},
        {"p": [{"v": "b", "w": 9}], "o": [moved, {"id": 7, "seq": 3, "_weight": -1}]},
    ):
        with pytest.raises(MissingDeleteError):
            view.apply(batch)
        assert rows_of(view) == rows
        assert {name: view.stats()[name] for name in ("rows", "windows", "late")} == {
            name: told[name] for name in ("rows", "windows", "late")
        }
        view.check_invariants()
    view.apply({"p": [{"v": "b", "w": 9}], "o": [moved]})
    assert rows_of(view) == Counter({(1, 9): 1})


def test_a_folder_a_saved_view_and_a_database_have_both_again(tmp_path: Path) -> None:
    window, query = WINDOWS["time"], QUERIES[0]
    twin, view = Both(11, True, declared(window)), crown.view(query, schema("seq"), windows={"p": window})
    db = crown.database(schema("seq"), windows={"p": window})
    db.view("first", query)
    crown.open(query, tmp_path / "folder", schema("seq"), windows={"p": window}).close()
    for number in range(8):
        batch, _ = twin.next()
        view.update(batch)
        view.save(tmp_path / "view")
        view = crown.load(tmp_path / "view")
        db.apply(batch)
        with crown.open(None, tmp_path / "folder") as opened:
            opened.update(batch)
            if number == 4:
                opened.snapshot()
            wanted = twin.result(query)
            assert rows_of(opened) == rows_of(view) == rows_of(db["first"]) == wanted
    db.view("second", query)
    assert rows_of(db["second"]) == twin.result(query)


@pytest.mark.parametrize("window", WINDOWS.values())
def test_a_relation_with_a_window_and_upserts_is_refused_in_one_sentence(window: Window) -> None:
    given = {"o": {**schema("seq")["o"], "columns": {"id": "int64", "w": "int64", "seq": "int64"}}}
    wanted = "relation o has a window and upserts, but the row of a key stays until a change of the key"
    for plan_it in (
        lambda: crown.view("SELECT id FROM o", given, windows={"O": window}),
        lambda: crown.database(given, windows={"o": window}),
        lambda: program("SELECT id FROM o", given, windows={"o": window}),
    ):
        with pytest.raises(PlanError, match=wanted) as refused:
            plan_it()
        assert "leave the window out, or declare the table without upserts" in str(refused.value)
