"""Windows of relations, after every batch: engine = twin = DuckDB over the rows that are in.

Streams have late rows, rows of one batch that move the watermark past one another, duplicates, deletes of what is in,
what has expired and what never was; batches are rolled back, refused, saved and loaded.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import BadRowError, ChangeError, LateRowError, MemoryBudgetError, MissingDeleteError, PlanError
from crown.kernels.memory import arena as A
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans import program
from plans.schema import Schema
from plans.time.windows import Window
from tests.marks import by_turns, turns
from tests.models.window import WindowReference
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.programs.test_programs import apply, result_of

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
TABLES = {
    "r": {"k": "int64", "n": "int64", "s": "string"},
    "u": {"k": "int64", "ts": "timestamp", "day": "date"},
}
QUERIES = {
    "join": "SELECT DISTINCT r.k, n, s, ts, day FROM r, u WHERE r.k = u.k",
    "bag": "SELECT r.k, n, s, ts FROM r JOIN u ON r.k = u.k AND day > DATE '2024-01-01'",
    "groups": "SELECT r.k, COUNT(*) AS c, SUM(n) AS t, MIN(s) AS lo, MAX(ts) AS hi, COUNT(DISTINCT day) AS d "
    "FROM r JOIN u ON r.k = u.k GROUP BY r.k",
    "outer": "SELECT r.k, n, s, ts, day FROM r LEFT JOIN u ON r.k = u.k",
    "alone": "SELECT k, n, s FROM r UNION ALL SELECT k, n, s FROM r",
    "total": "SELECT COUNT(*) AS c, MIN(s) AS lo, MAX(n) AS hi, SUM(k) AS t FROM r",
}
WINDOWS: dict[str, dict[str, Window]] = {
    "ttl": {"r": crown.ttl("n", 9, lateness=3), "u": crown.ttl("ts", "40 minutes", lateness="5 minutes")},
    "tumbling": {"r": crown.tumbling("n", 8), "u": crown.tumbling("day", "1 day", lateness="1 day")},
    "sliding": {"r": crown.sliding("n", 12, 5, lateness=2), "u": crown.sliding("ts", "1 hour", "15 minutes")},
    "count": {"r": crown.last_rows(7), "u": crown.last_rows(4)},
    "by": {"r": crown.last_rows(6, by="s"), "u": crown.last_rows(5, by="ts")},
    "one of two": {"r": crown.last_rows(5)},
    "one row": {"r": crown.last_rows(1), "u": crown.ttl("ts", "1 microsecond")},
}


def row_of(random: Random, name: str, now: int) -> Row:
    behind = random.choice((0, 0, 1, 2, 4, 9, 30))
    if name == "r":
        return (random.choice((0, 1, 2, None)), now - behind, random.choice(("p", "q", "zz", f"new{now}")))
    at = START + dt.timedelta(minutes=5 * (now - behind))
    return (random.choice((0, 1, 2)), at, at.date())


def batch_of(random: Random, database: Database, now: int) -> dict[str, list[tuple[Row, int]]]:
    batch = {}
    for name in random.sample("ru", random.randint(1, 2)):
        changes = []
        for i in range(random.choice((0, 1, 3, 6))):
            changes.append((row_of(random, name, now + i), random.choice((1, 1, 1, 2, 3, -1))))
        present = sorted(database.rows[name], key=repr)
        changes += [(row, -random.randint(1, 2)) for row in random.sample(present, min(len(present), 2))]
        changes += random.sample(changes, min(len(changes), 2))
        random.shuffle(changes)
        batch[name] = changes
    return batch


class Twin:
    """Every relation by the readable window, where it has one."""

    def __init__(self, schema: dict[str, Any], windows: tuple[Window, ...]) -> None:
        self.database = Database(schema)
        self.windows = {w.relation: WindowReference(w, self.database.schema[w.relation].columns) for w in windows}
        # For event time also what was ever there, of which a condition says what still is.
        self.history: dict[str, Counter[Row]] = {w.relation: Counter() for w in windows if not w.counts}

    def apply(self, batch: dict[str, list[tuple[Row, int]]]) -> None:
        for name, changes in batch.items():
            if name not in self.windows:
                self.database.apply({name: changes})
                continue
            window = self.windows[name]
            late_before = window.watermark
            window.apply(changes)
            self.database.rows[name] = Counter(row for _, row in window.copies)
            if name in self.history:
                self._remember(name, changes, late_before)
                assert self.alive(name) == self.database.rows[name]

    def _remember(self, name: str, changes: list[tuple[Row, int]], watermark: int | None) -> None:
        kept = self.history[name]
        for row, weight in Database.net(changes).items():
            if watermark is None or self._end(name, row) > watermark:
                kept[row] = max(kept[row] + weight, 0)

    def _end(self, name: str, row: Row) -> int:
        window = self.windows[name]
        at = [column.name for column in self.database.schema[name].columns].index(window.window.by)
        return window.units(row[at]) // window.window.step * window.window.step + window.window.size

    def alive(self, name: str) -> Counter[Row]:
        mark = self.windows[name].watermark
        rows = self.history[name].items()
        return Counter({row: n for row, n in rows if n and (mark is None or self._end(name, row) > mark)})


def compare(engine: ProgramEngine, twin: Twin, query: str, total: Counter[Row]) -> None:
    found = result_of(engine)
    assert Counter({row: n for row, n in total.items() if n}) == found, "deltas are not those of the result"
    assert found == duck.results(query, twin.database), "the result is not that of the rows that are in"
    for name, window in twin.windows.items():
        told = engine.stats()["windows"][name]
        assert (told["rows"], told["expired"]) == (len(window.copies), window.expired)
        if not window.window.counts:
            assert told["late"] == window.late
            mark = engine.base_tables.retained[name].watermark()
            assert (None if mark is None else window.units(mark)) == window.watermark
            assert told["watermark"] in (mark, str(mark))
        assert engine.stats()["missing_deletes"][name] == window.missing


@pytest.mark.parametrize(("windows", "query"), by_turns(WINDOWS, QUERIES, share=2))
def test_a_window_is_a_recompute_over_the_rows_that_are_in(query: str, windows: str, tmp_path: Path) -> None:
    random, sql = Random(f"{query} {windows}"), QUERIES[query]
    read = [table.name for table in program(sql, TABLES).tables]
    made = program(sql, TABLES, windows={name: window for name, window in WINDOWS[windows].items() if name in read})
    schema = {table.name: TABLES[table.name] for table in made.tables}
    engine, twin, total = ProgramEngine.create(made), Twin(TABLES, made.windows), Counter[Row]()
    for turn in turns(9, 14):
        batch = {n: c for n, c in batch_of(random, twin.database, 4 * turn).items() if n in schema}
        changes = {name: to_arrow(twin.database.schema, name, rows) for name, rows in batch.items()}
        before = result_of(engine), engine.stats()["windows"]
        if turn % 5 == 1:
            apply(engine, changes)
            engine.undo(changes)
            assert (result_of(engine), engine.stats()["windows"]) == before
            engine.check_invariants()
        if turn % 5 == 2:
            refuse(engine, changes, before)
        if turn == 6:
            engine.save(tmp_path / "s")
            engine, _ = snapshot.load(tmp_path / "s")
        total.update(apply(engine, changes))
        twin.apply(batch)
        compare(engine, twin, sql, total)
        engine.compact()
    engine.check_invariants()


def refuse(engine: ProgramEngine, changes: dict[str, Any], before: Any) -> None:
    """Stops the batch when all of it has been applied, and looks whether anything of it is left."""

    def stop() -> None:
        raise ChangeError("not this one")

    with pytest.raises(ChangeError, match="not this one"):
        engine.run(engine.prepare(changes), before_commit=stop).to_table(engine.delta_schema)
    assert (result_of(engine), engine.stats()["windows"]) == before
    engine.check_invariants()


EVENTS = {"r": {"k": "int64", "n": "int64"}}
BOTH = "SELECT k, n FROM r"


def events(*times: int, weight: int = 1) -> dict[str, list[dict[str, int]]]:
    return {"r": [{"k": 1, "n": n, "_weight": weight} for n in times]}


def test_rows_leave_without_any_of_their_key_and_by_hand() -> None:
    view = crown.view("SELECT k, COUNT(*) AS c FROM r GROUP BY k", EVENTS, windows={"R": crown.ttl("N", 10)})
    view.apply({"r": [(1, 100), (1, 100), (1, 104)]})
    assert view.apply({"r": [(2, 110)]}).to_pylist() == [
        {"k": 1, "c": 3, "_weight": -1},
        {"k": 1, "c": 1, "_weight": 1},
        {"k": 2, "c": 1, "_weight": 1},
    ]
    assert view.advance("r", 105).num_rows == 0, "a watermark never goes back"
    assert view.advance("r", 114).to_pylist() == [{"k": 1, "c": 1, "_weight": -1}]
    assert view.stats()["windows"]["r"]["watermark"] == 114
    assert view.stats()["batches"] == 4
    assert view.to_table().to_pylist() == [{"k": 2, "c": 1}]


@pytest.mark.parametrize(
    ("relation", "to", "said"),
    [
        ("s", 3, "relation 's' has no window by event time, so no watermark; those that have one are: r"),
        ("r", None, "the watermark cannot be NULL"),
        ("r", "soon", "column 'n': 'soon' does not fit int64"),
        ("r", dt.datetime(2024, 1, 1), "does not fit int64"),
        ("r", 1.5, "column 'n': 1.5 does not fit int64"),
    ],
)
def test_only_a_time_moves_a_watermark(relation: str, to: Any, said: str) -> None:
    tables = {**EVENTS, "s": {"k": "int64"}}
    windows = {"r": crown.ttl("n", 10), "s": crown.last_rows(3)}
    view = crown.view("SELECT r.k, n FROM r, s WHERE r.k = s.k", tables, windows=windows)
    with pytest.raises(ChangeError, match=said):
        view.advance(relation, to)
    with pytest.raises(ChangeError, match="declare one with windows="):
        crown.view(BOTH, EVENTS).advance("r", 3)


def test_late_rows_can_refuse_their_batch_or_go_to_the_quarantine(tmp_path: Path) -> None:
    strict = crown.view(BOTH, EVENTS, windows={"r": crown.ttl("n", 10, late="raise")})
    strict.apply(events(100))
    before = strict.stats()["windows"]
    with pytest.raises(LateRowError, match="relation 'r', row 1: column 'n': 90 is late: the watermark is 100"):
        strict.apply(events(101, 90))
    assert strict.stats()["windows"] == before
    assert strict.count() == 1

    window = crown.ttl("n", 10, late="quarantine")
    view = crown.view(BOTH, EVENTS, windows={"r": window}, on_bad_row="quarantine", quarantine=tmp_path / "q")
    view.apply(events(100))
    view.apply({"r": [{"k": None, "n": None}, {"k": 1, "n": 90}, {"k": 1, "n": 91}]})
    assert view.stats()["quarantined"] == 2, "a row without a time is a bad one"
    assert view.count() == 2
    import pyarrow.dataset as ds

    aside = ds.dataset(tmp_path / "q").to_table().to_pylist()
    assert [(row["row"], row["reason"]) for row in aside] == [
        (0, "column 'n' is NULL, and declared NOT NULL, or the order of a window"),
        (1, "column 'n': 90 is late: the watermark is 100"),
    ]
    with pytest.raises(PlanError, match="but it has no folder: give on_bad_row"):
        crown.view(BOTH, EVENTS, windows={"r": window})


def test_a_delete_of_what_is_not_in_is_missing_and_one_of_what_expired_is_late() -> None:
    view = crown.view(BOTH, EVENTS, windows={"r": crown.ttl("n", 10)}, on_missing="raise")
    view.apply(events(100, 105))
    with pytest.raises(MissingDeleteError, match=r"deletes 1 copy of {'k': 1, 'n': 103}, more than there are"):
        view.apply({"r": [{"k": 1, "n": 120, "_weight": 1}, {"k": 1, "n": 103, "_weight": -1}]})
    assert view.stats()["windows"]["r"]["watermark"] == 105
    view.apply(events(112))
    view.apply(events(100, weight=-1))
    assert view.stats()["windows"]["r"]["late"] == 1
    view.check_invariants()

    counted = crown.view(BOTH, EVENTS, windows={"r": crown.last_rows(2)}, on_missing="raise")
    counted.apply(events(1, 2, 3))
    with pytest.raises(MissingDeleteError, match=r"deletes 1 copy of {'k': 1, 'n': 1}"):
        counted.apply(events(1, weight=-1))
    assert sorted(row["n"] for row in counted.to_table().to_pylist()) == [2, 3]


def test_a_batch_for_which_there_is_no_memory_leaves_no_trace() -> None:
    for window in (crown.ttl("n", 1_000_000), crown.last_rows(10_000_000)):
        made = program("SELECT k, n, s FROM r", TABLES, windows={"r": window})
        engine = ProgramEngine.create(made, memory_budget=3 << 20)
        rows = [((i, i, f"text {i % 7}"), 1) for i in range(2000)]
        schema = Schema.of(TABLES)
        apply(engine, {"r": to_arrow(schema, "r", rows)})
        before = result_of(engine), engine.stats()["windows"]
        many = [((i, i, "x"), 1) for i in range(60_000)]
        with pytest.raises(MemoryBudgetError, match="it was undone"):
            apply(engine, {"r": to_arrow(schema, "r", many)})
        assert (result_of(engine), engine.stats()["windows"]) == before
        engine.check_invariants()
        apply(engine, {"r": to_arrow(schema, "r", [(row, -1) for row, _ in rows])})
        assert engine.result.count() == 0


def test_the_schedule_costs_the_same_per_row_however_many_rows_are_in() -> None:
    """Steps are nodes that were visited: they grow with the logarithm of the rows, and memory stays what it was."""
    costs, words = Counter(), Counter()
    trees = 5  # the shape of a tree is a matter of chance: the mean of several
    for live, _ in product((500, 32_000), range(trees)):
        for name, window in (("ttl", crown.ttl("n", live)), ("count", crown.last_rows(live))):
            engine = ProgramEngine.create(program("SELECT k, n FROM r", EVENTS, windows={"r": window}))
            schema = Schema.of(EVENTS)

            def slide(first: int, rows: int, engine: ProgramEngine = engine, schema: Schema = schema) -> None:
                batch = [((i % 7, i), 1) for i in range(first, first + rows)]
                engine.run(engine.prepare({"r": to_arrow(schema, "r", batch)}), deltas=False).close()

            slide(0, live)
            arena = engine.memory.parts[1]
            steps, before = int(arena[A.H_STEPS]), int(arena[A.H_TOP])
            for turn in range(20):
                slide(live + 100 * turn, 100)
            costs[name, live] += (int(arena[A.H_STEPS]) - steps) / 2000 / trees
            words[name, live] = max(words[name, live], int(arena[A.H_TOP]) - before)
            assert engine.stats()["windows"]["r"]["expired"] == 2000
    for name in ("ttl", "count"):
        assert costs[name, 32_000] < 2.5 * costs[name, 500], costs
        assert words[name, 32_000] < 10_000, words


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ({"q": "ttl"}, "names the relation 'q', which the query does not read; it reads r"),
        ({"r": 5}, "the window of r is 5"),
        ({"r": crown.ttl("z", 3)}, "by z, which is not one of its columns: k, n"),
        ({"r": crown.ttl("n", "3 days")}, "by n, which is int64: give whole numbers"),
        (5, "windows= takes a window per relation"),
    ],
)
def test_a_window_that_does_not_fit_is_one_sentence(windows: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        crown.view(BOTH, EVENTS, windows=windows)


@pytest.mark.parametrize("type_", ["array<int64>", "map<string,int64>", "struct<a:int64>"])
@pytest.mark.parametrize("window", [crown.last_rows(2, by="x"), crown.ttl("x", 3), crown.tumbling("x", 3)])
def test_no_window_is_by_values_without_an_order(type_: str, window: crown.Window) -> None:
    with pytest.raises(PlanError, match=re.escape(f"the window of r is by x, which is {type_}")):
        crown.view("SELECT id FROM r", {"r": {"id": "int64", "x": type_}}, windows={"r": window})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: crown.ttl("at", "3 months"), "'3 months' of the window over at is not a length of time"),
        (lambda: crown.ttl("at", 0), "must be more than 0"),
        (lambda: crown.ttl("at", "1 hour", lateness=3), "the lateness 3 and the window are not of one kind"),
        (lambda: crown.ttl("at", "1 hour", late="keep"), "late='keep' is not supported"),
        (lambda: crown.sliding("at", "1 hour", "2 hours"), "leave out the rows between them"),
        (lambda: crown.sliding("at", "1 hour", 2), "give both as lengths of time"),
        (lambda: crown.last_rows(0), "give a whole number of rows"),
        (lambda: crown.last_rows(3, by=4), "the name of a column is a text"),  # type: ignore[arg-type]
    ],
)
def test_a_window_that_makes_no_sense_is_one_sentence(made: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        made()


def test_a_delete_takes_the_row_that_it_names_though_the_query_does_not_read_what_tells_it_apart() -> None:
    view = crown.view("SELECT k FROM r", EVENTS, windows={"r": crown.last_rows(3)})
    view.update({"r": [(1, 1), (2, 2), (1, 3)]})
    view.update({"r": [{"k": 1, "n": 3, "_weight": -1}]})
    view.update({"r": [(5, 5), (6, 6)]})
    assert sorted(row["k"] for row in view.to_table().to_pylist()) == [2, 5, 6]
    wider = {**EVENTS, "r": {**EVENTS["r"], "z": "int64"}}
    narrow, wide = (program("SELECT k FROM r", given, windows={"r": crown.last_rows(3)}) for given in (EVENTS, wider))
    assert narrow.fingerprint != wide.fingerprint  # the rows within have all columns


def test_a_row_without_a_time_is_a_bad_row() -> None:
    view = crown.view("SELECT k FROM r", EVENTS, windows={"r": crown.ttl("n", 3)})
    with pytest.raises(BadRowError, match="column 'n' is NULL"):
        view.apply({"r": [(1, None)]})


def test_a_durable_view_has_its_windows_again(tmp_path: Path) -> None:
    windows = {"r": crown.ttl("n", 10, lateness=1), "s": crown.last_rows(2)}
    tables = {**EVENTS, "s": {"k": "int64"}}
    query = "SELECT r.k, n FROM r, s WHERE r.k = s.k"
    plain = crown.view(query, tables, windows=windows)
    random = Random(4)
    for turn in range(12):
        with crown.open(query, tmp_path / "v", tables, windows=windows, sync="never", snapshot_bytes="2 KB") as view:
            assert view.to_table().to_pylist() == view.to_table().to_pylist()
            assert view.stats()["windows"] == plain.stats()["windows"]
            for _ in range(3):
                batch = {
                    "r": [(random.randrange(3), 5 * turn - random.choice((0, 3, 20)))],
                    "s": [(random.randrange(3),)],
                }
                wanted = plain.apply(batch).to_pylist()
                assert sorted(map(str, view.apply(batch).to_pylist())) == sorted(map(str, wanted))
            if turn % 3 == 1:
                assert view.advance("r", 5 * turn + 3).to_pylist() == plain.advance("r", 5 * turn + 3).to_pylist()
            view.check_invariants()
    with pytest.raises(crown.QueryChangedError):
        crown.open(query, tmp_path / "v", tables, windows={**windows, "s": crown.last_rows(3)})
    with crown.open(None, tmp_path / "v") as view:
        assert view.stats()["windows"] == plain.stats()["windows"]


def test_windows_hold_with_threads_too() -> None:
    sql, schema = QUERIES["bag"], Schema.of(TABLES)
    views = [crown.view(sql, TABLES, threads=n, windows=WINDOWS["ttl"]) for n in (1, 2)]
    random, database = Random(8), Database(TABLES)
    for turn in range(8):
        batch = batch_of(random, database, 4 * turn)
        found = [
            sorted(map(str, view.apply({n: to_arrow(schema, n, c) for n, c in batch.items()}).to_pylist()))
            for view in views
        ]
        assert found[0] == found[1]
    assert views[0].count() == views[1].count()


def test_all_views_of_a_database_see_the_rows_that_are_in(tmp_path: Path) -> None:
    tables = {**EVENTS, "s": {"k": "int64", "name": "string"}}
    db = crown.database(tables, windows={"r": crown.ttl("n", 10), "s": crown.last_rows(2)})
    db.view("sums", "SELECT k, SUM(n) AS t FROM r GROUP BY k")
    db.apply({"r": [(1, 100), (2, 104)], "s": [(1, "a"), (2, "b"), (2, "c")]})
    db.apply({"r": [(1, 111)]})
    db.view("named", "SELECT name, t FROM s JOIN sums ON s.k = sums.k")
    db.view("rows", "SELECT k, name FROM s")
    assert sorted(row["name"] for row in db["rows"]) == ["b", "c"]
    assert {(row["name"], row["t"]) for row in db["named"]} == {("b", 104), ("c", 104)}
    db.save(tmp_path / "d")
    again = crown.load_database(tmp_path / "d")
    for one in (db, again):
        deltas = one.advance("r", 114)
        assert deltas["sums"].to_pylist() == [{"k": 2, "t": 104, "_weight": -1}]
        assert deltas["named"].num_rows == 2
        assert one.stats()["windows"]["r"]["rows"] == 1
        one.check_invariants()


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        (crown.tumbling("day", "7 days", lateness="1 day"), (7, 7, 1)),
        (crown.sliding("day", "14 days", "7 days"), (14, 7, 0)),
        (crown.ttl("day", "3 days"), (3, 1, 0)),
        (crown.sliding("ts", "1 hour", "15 minutes"), (3_600_000_000, 900_000_000, 0)),
        (crown.tumbling("k", 8, lateness=3), (8, 8, 3)),
    ],
)
def test_a_window_has_the_units_of_its_column(window: Window, wanted: tuple[int, int, int]) -> None:
    """Days of a date, microseconds of a timestamp, numbers of a number; rows leave one by one in steps of one."""
    (found,) = program("SELECT k, ts, day FROM u", TABLES, windows={"u": window}).windows
    assert (found.size, found.step, found.lateness) == wanted
