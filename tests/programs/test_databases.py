"""Databases of views over views, after every batch: every view = DuckDB, whenever it was registered."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from weakref import ref

import pytest

import crown
from crown.errors import ChangeError, ConcurrentChangeError, CrownError, MissingDeleteError, SnapshotError
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from plans import PlanError, parse
from plans.program import Program
from plans.programs.stages import JoinStage, LinearStage
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, to_arrow
from tests.oracles.expectation import difference, net
from tests.programs.test_programs import bag

Row = tuple[Any, ...]
SCHEMA = {"r": {"k": "int64", "y": "int64"}, "S": {"k": "int64", "y": "int64"}}
SHAPES = (
    "SELECT k, y FROM {a} WHERE y > 1",
    "SELECT p.k, q.y FROM {a} p JOIN {b} q ON p.y = q.k",
    "SELECT k, COUNT(*) AS y FROM {a} GROUP BY k",
    "SELECT k, MIN(y) AS y FROM {a} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT p.k, q.y FROM {a} p LEFT JOIN {b} q ON p.k = q.k",
    "SELECT k, y FROM {a} EXCEPT SELECT k, y FROM {b}",
    "SELECT k, y FROM {a} UNION ALL SELECT y, k FROM {b}",
    "SELECT DISTINCT k, y FROM {a}",
    "SELECT k, y FROM {a} WHERE NOT EXISTS (SELECT 1 FROM {b} q WHERE q.y = {a}.k)",
    "SELECT COUNT(*) AS k, MAX(y) AS y FROM {a}",
    "SELECT k, y FROM {a} ORDER BY y DESC NULLS LAST, k NULLS FIRST LIMIT 3",
    "SELECT k, y FROM {a} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY y NULLS FIRST) <= 2",
    "SELECT k + 1 AS k, y FROM {a} WHERE k IN (SELECT y FROM {b})",
)


class Mirror:
    """A database, and what DuckDB says of its views."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.db = crown.database(SCHEMA)
        self.tables = Database(SCHEMA)
        self.texts: dict[str, str] = {}
        self.results: dict[str, Counter[Row]] = {}

    def register(self) -> None:
        names = [*SCHEMA, *list(self.texts)[-3:]]
        name = f"v{self.random.randrange(1000)}"
        if name in self.texts:
            return
        a, b = self.random.choice(names), self.random.choice(names)
        text = self.random.choice(SHAPES).format(a=a, b=b)
        self.db.view(name, text)
        self.texts[name] = text
        if self.db.stats()["batches"]:
            self.results[name] = self.wanted(name)
        else:
            self.results[name] = Counter()  # what the first batch brings of it is a delta

    def drop(self) -> None:
        name = self.random.choice(list(self.texts))
        readers = [r.name for r in self.db.program.results or () if name in r.reads]
        if readers:
            with pytest.raises(PlanError, match=f"the view {name} is read by {readers[0]}"):
                self.db.drop(name)
            return
        self.db.drop(name.upper())
        del self.texts[name], self.results[name]

    def wanted(self, name: str) -> Counter[Row]:
        ctes = ", ".join(f"{known} AS ({text})" for known, text in self.texts.items())
        return duck.results(f"WITH {ctes} SELECT * FROM {name}", self.tables)

    def batch(self) -> dict[str, list[tuple[Row, int]]]:
        batch = {}
        for table in SCHEMA:
            present = sorted(self.tables.rows[table], key=repr)
            changes = [(row, -1) for row in self.random.sample(present, min(len(present), self.random.randint(0, 3)))]
            values = (None, 0, 1, 2, 3)
            drawn = [(self.random.choice(values), self.random.choice(values)) for _ in range(5)]
            batch[table] = changes + [(row, 1) for row in drawn[:3]] + [(row, -1) for row in drawn[3:]]
        return batch

    def apply(self, batch: dict[str, list[tuple[Row, int]]]) -> None:
        deltas = self.db.apply({name: to_arrow(self.tables.schema, name, rows) for name, rows in batch.items()})
        self.tables.apply(batch)
        assert list(deltas) == list(self.db.views) == list(self.texts)
        for name, delta in deltas.items():
            now = self.wanted(name)
            assert net([delta]) == difference(now, self.results[name]), self.texts[name]
            self.results[name] = now
        self.verify()

    def verify(self) -> None:
        self.db.check_invariants()
        for name, result in self.results.items():
            view = self.db[name]
            assert bag(view.to_table()) == result, self.texts[name]
            assert view.count() == sum(result.values())
            for row in list(result)[:2]:
                assert view.multiplicity(row) == result[row]


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_views_over_views_are_those_of_duckdb(seed: int, tmp_path: Path) -> None:
    mirror = Mirror(seed)
    for _ in range(mirror.random.randint(0, 4)):
        mirror.register()
    for turn in range(8):
        mirror.apply(mirror.batch())
        if turn % 3 == 1:
            mirror.register()
            mirror.verify()
        if turn == 4 and mirror.texts:
            mirror.drop()
            mirror.verify()
        if turn == 6:
            mirror.db.save(tmp_path / "saved")
            mirror.db = crown.load_database(tmp_path / "saved")
            mirror.verify()
    mirror.apply(mirror.tables.everything(-1))
    for part in mirror.db.stats()["rows"].values():
        assert part == 0


def test_what_views_share_is_one_stage_and_applied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    db = crown.database(SCHEMA)
    db.view("pairs", "SELECT p.k, q.y FROM r p JOIN S q ON p.y = q.k")
    db.view("totals", "SELECT k, SUM(y) AS total FROM pairs GROUP BY k")
    db.view("counts", "SELECT k, COUNT(*) AS n FROM (SELECT p.k, q.y FROM r p JOIN S q ON p.y = q.k) AS t GROUP BY k")
    db.view("again", "SELECT k, SUM(y) AS total FROM pairs GROUP BY k")
    calls: list[object] = []
    for kind in (Join, Groups):
        original = kind.apply

        def counted(self: Any, nets: Any, original: Any = original) -> Any:
            calls.append(self)
            return original(self, nets)

        monkeypatch.setattr(kind, "apply", counted)
    deltas = db.apply({"r": {"k": [1, 2], "y": [5, 5]}, "S": {"k": [5], "y": [7]}})
    assert len(calls) == len(set(map(id, calls))) == sum(1 for _ in db.program.stages)
    assert db.program.stages.count(db.program.stages[0]) == 1
    stage = {result.name: result.stage for result in db.program.results or ()}
    assert stage["totals"] == stage["again"] != stage["counts"]
    assert deltas["totals"].to_pylist() == deltas["again"].to_pylist()


def test_a_refused_batch_changes_no_view() -> None:
    db = crown.database(SCHEMA, on_missing="raise")
    db.view("rows", "SELECT k, y FROM r")
    db.view("totals", "SELECT k, SUM(y) AS total FROM rows GROUP BY k")
    db.update({"r": {"k": [1], "y": [2**62]}})
    before = {name: db[name].to_table() for name in db}
    for batch, error in (
        ({"r": {"k": [1, 2], "y": [2**62, 1]}}, ChangeError),  # the last stage refuses: the sum leaves its type
        ({"S": {"k": [4], "y": [4]}, "r": [{"k": 3, "y": 3, "_weight": -1}]}, MissingDeleteError),
        ({"nowhere": {"k": [1]}}, ChangeError),
    ):
        with pytest.raises(error):
            db.apply(batch)
        assert {name: db[name].to_table() for name in db} == before
        assert db.stats()["rows"] == {"r": 1, "S": 0}
        db.check_invariants()
    assert db.apply({"r": {"k": [1], "y": [1]}})["totals"].num_rows == 2


def test_a_view_that_data_do_not_fit_is_not_registered() -> None:
    db = crown.database({"r": {"k": "int64", "x": "int64"}})
    db.view("rows", "SELECT k FROM r")
    db.update({"r": {"k": [1, 2], "x": [2**62, 2**62]}})
    with pytest.raises(ChangeError, match="the sum is no int64"):
        db.view("totals", "SELECT SUM(x) AS total FROM r")
    assert db.views == ("rows",)
    assert db.apply({"r": {"k": [2], "x": [1]}})["rows"].num_rows == 1


def test_ctrl_c_while_a_view_is_filled_leaves_the_database_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    db = crown.database(SCHEMA)
    db.view("rows", "SELECT k FROM r")
    db.update({"r": {"k": list(range(50_000)), "y": list(range(50_000))}})
    original, calls = Groups.apply, []

    def interrupted(self: Any, nets: Any) -> Any:
        calls.append(len(nets[0]))
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(self, nets)

    monkeypatch.setattr(Groups, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.view("sums", "SELECT k, SUM(y) AS s FROM r GROUP BY k")
    assert calls[0] == 0
    assert len(calls) == 2, "the rest is not filled in"
    assert db.views == ("rows",)
    assert db.apply({"r": {"k": [1], "y": [1]}})["rows"].num_rows == 1
    monkeypatch.undo()
    assert db.view("sums", "SELECT k, SUM(y) AS s FROM r GROUP BY k").count() == 50_000


def test_a_check_stops_a_fork_also_within_a_join() -> None:
    db = crown.database(SCHEMA)
    db.update({"r": {"k": list(range(50_000)), "y": [1] * 50_000}})
    calls, ends = [0], [1 << 30]

    def check() -> None:
        calls[0] += 1
        if calls[0] >= ends[0]:
            raise CrownError("it is not wanted any more")

    fork = db.fork(check=check)
    fork.view("pairs", "SELECT r.k, S.k AS other FROM r JOIN S ON r.y = S.y")
    calls[0] = 0
    assert fork.apply({"S": [(5, 1)]})["pairs"].num_rows == 50_000
    assert calls[0] > 2, "a delta that fills the buffer several times"
    calls[0], ends[0] = 0, calls[0]
    with pytest.raises(CrownError, match="not wanted"):
        fork.apply({"S": [(6, 1)]})
    ends[0] = 1 << 30
    assert fork["pairs"].count() == 50_000
    fork.check_invariants()
    calls[0], ends[0] = 0, 3
    with pytest.raises(CrownError, match="not wanted"):
        fork.view("counts", "SELECT y, COUNT(*) AS n FROM r GROUP BY y")
    assert fork.views == ("pairs",)


def test_views_that_are_defined_in_one_step_are_those_defined_one_by_one() -> None:
    queries = {
        "a": "SELECT k, SUM(y) AS t FROM r GROUP BY k",
        "b": "SELECT k FROM a WHERE t > 1",
        "c": "SELECT y FROM r",
    }
    one, two = crown.database(SCHEMA), crown.database(SCHEMA)
    rows = {"r": {"k": [1, 1, 2], "y": [1, 2, 1]}}
    for db in (one, two):
        db.view("old", "SELECT k FROM r WHERE y = 1")
        db.update(rows)
    one.define({**queries, "d": lambda schema: parse("SELECT COUNT(*) AS n FROM b", schema)}, drop=["old"])
    two.drop("old")
    for name, query in {**queries, "d": "SELECT COUNT(*) AS n FROM b"}.items():
        two.view(name, query)
    assert one.views == two.views
    for name in one:
        assert bag(one[name].to_table()) == bag(two[name].to_table())
    with pytest.raises(PlanError, match="called b already"):
        one.define({"e": "SELECT k FROM r", "b": "SELECT k FROM r"}, drop=["d"])
    assert one.views == two.views, "all or nothing"
    one.update({"r": {"k": [7], "y": [9]}})
    assert {"k": 7} in one["b"].to_table().to_pylist()
    one.check_invariants()


def test_a_dropped_view_frees_its_stages_and_no_others() -> None:
    db = crown.database(SCHEMA)
    db.update({"r": {"k": list(range(1000)), "y": list(range(1000))}, "S": {"k": [1], "y": [1]}})
    small = db.stats()["live_bytes"]
    db.view("a", "SELECT p.k, q.y FROM r p JOIN S q ON p.y = q.k")
    shared = db.stats()["live_bytes"]
    db.view("b", "SELECT k, SUM(y) AS t FROM a GROUP BY k")
    handle = db.view("c", "SELECT k, MAX(y) AS t, COUNT(*) AS n FROM r GROUP BY k")
    with pytest.raises(PlanError, match="the view a is read by b"):
        db.drop("a")
    db.drop("c")
    db.drop("b")
    assert db.stats()["live_bytes"] == shared
    assert db["a"].count() == 1
    db.drop("a")
    assert db.stats()["live_bytes"] == small
    assert all(stage == LinearStage(()) for stage in db.program.stages)
    with pytest.raises(CrownError, match="the view c has been dropped"):
        handle.count()
    db.view("c", "SELECT k, y FROM r WHERE k > 997")
    assert handle.count() == 2
    assert "c" in db
    assert len(db) == 1


@pytest.mark.parametrize("query", ["SELECT k, SUM(y) AS s FROM r GROUP BY k", "SELECT k, y FROM r WHERE y > 0"])
def test_an_iteration_from_before_a_view_was_registered_ends_with_the_next_change(query: str) -> None:
    """The view that is iterated and the one that goes on share their memory."""
    db = crown.database(SCHEMA)
    db.view("rows", query)
    db.update({"r": {"k": list(range(100_000)), "y": [1] * 100_000}})
    begun = [iter(db["rows"]) for _ in range(2)]
    for each in begun:
        next(each)
    db.view("counts", "SELECT y, COUNT(*) AS n FROM r GROUP BY y")
    assert sum(1 for _ in begun[0]) == 99_999, "nothing has changed"
    db.apply({"r": {"k": [1], "y": [1], "_weight": [-1]}})
    with pytest.raises(ConcurrentChangeError, match="has changed since this iteration began"):
        list(begun[1])


def test_what_stays_is_not_copied_and_what_goes_is_freed() -> None:
    db = crown.database(SCHEMA)
    db.view("counts", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
    db.view("pairs", "SELECT r.k, S.y FROM r JOIN S ON r.y = S.k")
    db.update({"r": [(k, k % 5) for k in range(50)], "S": [(k, k) for k in range(5)]})
    before = db._engine.memory.parts
    db.view("large", "SELECT k FROM counts WHERE n > 1")
    db.view("ends", "SELECT MAX(k) AS k FROM r")
    parts = db._engine.memory.parts
    assert all(one is other for one, other in zip(before, parts, strict=False))
    gone = [ref(part) for part in parts[len(before) :]]
    del parts
    assert gone
    db.drop("ends")
    gc.collect()
    assert [part() for part in gone] == [None] * len(gone)
    with pytest.raises(ChangeError, match="the sum is no int64"):
        db.view("huge", "SELECT SUM(k + 4611686018427387904) AS s FROM r")
    assert all(one is other for one, other in zip(before, db._engine.memory.parts, strict=True))
    db.update({"r": [(7, 1)]})
    db.check_invariants()


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        ("r", "SELECT k FROM S", "there is a table called r already"),
        ("A", "SELECT k FROM S", "there is a view called A already"),
        ("new", "SELECT k FROM new", "the view new reads itself"),
        ("new", "SELECT k FROM later", "unknown table later"),
        ("#3", "SELECT k FROM r", "must not be called #3"),
        ("", "SELECT k FROM r", "the name of a view is a text"),
    ],
)
def test_names_that_cannot_be(name: str, query: str, message: str) -> None:
    db = crown.database(SCHEMA)
    db.view("a", "SELECT k FROM r")
    with pytest.raises(PlanError, match=message):
        db.view(name, query)
    assert db.views == ("a",)


def test_misuse_is_one_sentence(tmp_path: Path) -> None:
    db = crown.database(SCHEMA)
    with pytest.raises(PlanError, match="there is no view called a"):
        db.drop("a")
    with pytest.raises(PlanError, match="there is no view called a"):
        db["a"]
    with pytest.raises(CrownError, match="it stores its rows"):
        crown.database(SCHEMA, on_missing="trust")
    with pytest.raises(PlanError, match="a database needs tables"):
        crown.database({})
    with pytest.raises(CrownError, match="several named results"):
        crown.view(db.program)
    db.save(tmp_path / "database")
    crown.view("SELECT k FROM r UNION SELECT k FROM S", SCHEMA).save(tmp_path / "view")
    with pytest.raises(SnapshotError, match="load_database"):
        crown.load(tmp_path / "database")
    with pytest.raises(SnapshotError, match=r"crown.load\(path\)"):
        crown.load_database(tmp_path / "view")
    assert Program.from_json(db.program.to_json()) == db.program


def test_bad_rows_of_a_batch_can_be_set_aside(tmp_path: Path) -> None:
    db = crown.database(SCHEMA, on_bad_row="quarantine", quarantine=tmp_path / "bad")
    db.view("a", "SELECT k FROM r")
    deltas = db.apply({"r": [{"k": 1, "y": 1}, {"k": "no number", "y": 1}]})
    assert deltas["a"].to_pylist() == [{"k": 1, "_weight": 1}]
    assert db.stats()["quarantined"] == 1


def test_a_database_explains_its_views() -> None:
    db = crown.database(SCHEMA)
    db.view("a", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
    db.view("b", "SELECT n FROM a")
    db.view("c", "SELECT n + 1 AS m FROM a")
    db.drop("b")
    text = db.explain()
    assert "stage 0   group, the view a" in text
    assert "stage 1 " not in text
    assert "stage 2   linear, the view c" in text


def test_a_view_that_comes_late_is_filled_from_the_sums_of_a_join_that_is_there() -> None:
    db = crown.database({"r": {"k": "int64", "x": "int64"}, "t": {"k": "int64", "y": "int64"}})
    joined = "FROM r JOIN t ON r.k = t.k GROUP BY r.k"
    db.view("sums", f"SELECT r.k, SUM(r.x * t.y) AS s, COUNT(*) AS n {joined}")
    random = Random(1)
    r: list[dict[str, int]] = []
    t: list[dict[str, int]] = []
    for late in (False, True, True):
        r += (more := [{"k": random.randrange(4), "x": random.randrange(9)} for _ in range(5)])
        t += (other := [{"k": random.randrange(4), "y": random.randrange(9)} for _ in range(5)])
        db.apply({"r": more, "t": other})
        if late and "large" not in db.views:
            db.view("large", f"SELECT r.k, SUM(r.x * t.y) AS s {joined} HAVING COUNT(*) > 1")
            assert len([stage for stage in db.program.stages if isinstance(stage, JoinStage)]) == 1, "it is shared"
            db.view("total", "SELECT SUM(s) AS s FROM sums")
    sums: dict[int, list[int]] = {}
    for one in r:
        for two in t:
            if one["k"] == two["k"]:
                sums.setdefault(one["k"], []).append(one["x"] * two["y"])
    assert {row["k"]: (row["s"], row["n"]) for row in db["sums"]} == {k: (sum(v), len(v)) for k, v in sums.items()}
    assert {row["k"]: row["s"] for row in db["large"]} == {k: sum(v) for k, v in sums.items() if len(v) > 1}
    assert list(db["total"]) == [{"s": sum(map(sum, sums.values()))}]
    db.check_invariants()
