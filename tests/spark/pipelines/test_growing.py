"""Views that are added while a pipeline runs: the others go on, and all tables are right. Oracle: DuckDB."""

from __future__ import annotations

import random
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from crown.databases import Database
from crown.durable.database import DurableDatabase
from crown.errors import CrownError
from crown.programs.database_engine import DatabaseEngine
from spark_jobs.pipelines.background import BackgroundBuild
from spark_jobs.pipelines.delivery import Delivery
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.reports import Report
from tests.marks import slow
from tests.oracles import duck
from tests.spark.pipelines.shop import table

TOTALS = {"totals": "SELECT s, COUNT(*) AS n, SUM(k) AS k FROM orders GROUP BY s"}
ADDED = {
    "pairs": "SELECT a.s, b.k FROM orders a JOIN orders b ON a.k = b.k",
    "large": "SELECT s FROM totals WHERE k > 20",
}


class Orders:
    """A Delta table, in which rows come and go, and pipelines over it."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.rng = spark, folder, random.Random(5)
        self.rows: list[tuple[int, str]] = []
        self.change()

    def change(self) -> None:
        self.rows = [row for row in self.rows if self.rng.random() < 0.8]
        self.rows += [(self.rng.randrange(6), self.rng.choice("abc")) for _ in range(5)]
        self.held = pa.table({"k": [k for k, _ in self.rows], "s": [s for _, s in self.rows]})
        write_deltalake(self.folder / "orders", self.held, mode="overwrite")

    def pipeline(self, views: dict[str, str]) -> Pipeline:
        made = Pipeline(self.spark, self.folder / "state")
        made.source("orders", f"delta:{self.folder / 'orders'}")
        for name, query in views.items():
            made.view(name, query)
        return made

    def check(self, views: dict[str, str]) -> None:
        with duck.holding({"orders": self.held}) as cursor:
            for name, query in views.items():
                text = query.replace("FROM totals", f"FROM ({TOTALS['totals']})")
                wanted = Counter(cursor.execute(text).fetchall())
                assert table(self.folder / "state" / "tables" / name) == wanted, name


@pytest.fixture
def orders(spark, tmp_path: Path) -> Orders:
    made = Orders(spark, tmp_path)
    made.pipeline(TOTALS).run()
    return made


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Event:
    """What the registration of views in a fork waits for."""
    found, define = Event(), Database.define

    def waiting(self: Database, *args: object, **more: object) -> None:
        assert isinstance(self, DurableDatabase) or found.wait(60)
        define(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "define", waiting)
    return found


def test_the_others_go_on_while_views_are_computed_and_then_all_do(
    orders: Orders, gate: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = orders.pipeline(TOTALS | ADDED).watch(0.0)
    for version in range(2, 5):
        orders.change()
        report = next(rounds)
        assert (report.version, set(report.changed)) == (version, {"totals"})
        orders.check(TOTALS)
    gate.set()
    while "pairs" not in report.changed:
        orders.change()
        report = next(rounds)
        orders.check(TOTALS)
    for _ in range(2):
        orders.check(TOTALS | ADDED)
        orders.change()
        assert set(next(rounds).changed) == {"totals", "pairs", "large"}
    rounds.close()
    orders.change()
    monkeypatch.setattr(DatabaseEngine, "_insert_net", None)  # a process that opens the state fills nothing again
    orders.pipeline(TOTALS | ADDED).run()
    orders.check(TOTALS | ADDED)


CHANGED = {"totals": "SELECT s, COUNT(*) + 1 AS n, SUM(k) + 10 AS k FROM orders GROUP BY s", "large": ADDED["large"]}


def test_readers_have_the_old_view_until_the_changed_one_is_filled(orders: Orders, gate: Event) -> None:
    old = TOTALS | {"large": ADDED["large"]}  # which begins with the version in which it is changed
    gate.set()
    orders.pipeline(old).run()
    gate.clear()
    with closing(orders.pipeline(CHANGED | {"pairs": ADDED["pairs"]}).watch(0.0)) as rounds:
        for _ in range(3):
            orders.change()
            assert set(next(rounds).changed) == {"totals", "large"}
            orders.check(TOTALS)
        gate.set()
        report = Report()
        while "pairs" not in report.changed:
            orders.check(TOTALS)
            orders.change()
            report = next(rounds)
        for _ in range(2):
            now = {"totals": CHANGED["totals"], "pairs": ADDED["pairs"]}
            orders.check(now | {"large": f"SELECT s FROM ({CHANGED['totals']}) WHERE k > 20"})
            orders.change()
            assert set(next(rounds).changed) == {"totals", "large", "pairs"}
    tables = {name: DeltaTable(orders.folder / "state" / "tables" / name).count() for name in ("totals", "large")}
    assert report.changed["totals"] == (tables["totals"], 0)
    known = orders.pipeline(CHANGED | {"pairs": ADDED["pairs"]}).status()["views"]
    assert {name: known[name]["rows"] for name in tables} == tables
    assert not list((orders.folder / "state" / "crown" / "tables").iterdir())


@pytest.mark.parametrize(
    ("step", "again"),
    [
        slow("fill", "new"), slow("adopt", "old"), slow("deliver", "new"), ("rename", "old"),
        slow("fill", "old"), slow("adopt", "new"), slow("deliver", "old"), slow("rename", "new"),
    ],
)  # fmt: skip
def test_a_process_that_ends_before_the_tables_are_swapped_is_followed_by_one_with_either_definition(
    orders: Orders, step: str, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt, filled, ended = Database.adopt, BackgroundBuild._deliver, Event()

    def to_the_end() -> None:
        with closing(orders.pipeline(CHANGED).watch(0.0)) as rounds:
            for _ in rounds:
                orders.change()

    def ending(*args: object) -> None:
        if step == "adopt":
            adopt(*args)  # type: ignore[arg-type]
        if step == "fill":
            filled(*args)  # type: ignore[arg-type]
        if step == "rename":
            name, table = args[1:]
            (args[0]._folder / name).rename(table.with_name(f"{name}-old"))  # type: ignore[attr-defined,union-attr]
        ended.set()
        raise CrownError("the process ends")

    with monkeypatch.context() as patch:
        home, name = {
            "fill": (BackgroundBuild, "_deliver"),
            "adopt": (Database, "adopt"),
            "deliver": (Delivery, "_replace"),
            "rename": (Delivery, "_replace"),
        }[step]
        patch.setattr(home, name, ending)
        with pytest.raises(CrownError, match="the process ends"):
            to_the_end()
    assert ended.is_set()
    views = TOTALS | {"large": ADDED["large"]} if again == "old" else CHANGED
    for _ in range(2):
        orders.change()
        orders.pipeline(views).run()
        text = views["totals"]
        orders.check({"totals": text, "large": f"SELECT s FROM ({text}) WHERE k > 20"})


@pytest.mark.parametrize("how", [slow("run"), slow("watch"), "restore"])
def test_a_swap_that_dies_is_finished_without_filling_the_views_again(
    orders: Orders, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt = DurableDatabase.adopt
    with monkeypatch.context() as patch:

        def ending(*args: object, **more: object) -> None:
            adopt(*args, **more)  # type: ignore[arg-type]
            raise CrownError("the process ends")

        patch.setattr(DurableDatabase, "adopt", ending)
        with (
            pytest.raises(CrownError, match="the process ends"),
            closing(orders.pipeline(CHANGED).watch(0.0)) as rounds,
        ):
            for _ in rounds:
                pass

    def refused(*args: object, **more: object) -> None:
        raise AssertionError("the views are filled again")

    monkeypatch.setattr(BackgroundBuild, "__init__", refused)
    pipeline, text = orders.pipeline(CHANGED), CHANGED["totals"]
    wanted = {"totals": text, "large": f"SELECT s FROM ({text}) WHERE k > 20"}
    if how == "restore":
        pipeline.restore(1)
        orders.check(wanted)
    orders.change()
    with closing(pipeline.watch(0.0)) as rounds:
        report = next(rounds) if how == "watch" else None
    if report is None:
        report = pipeline.run()
    assert not report.begun, "the version before had them"
    orders.check(wanted)


@pytest.mark.parametrize("step", [slow("fill"), slow("adopt"), "deliver"])
def test_a_process_that_ends_meanwhile_leaves_what_the_next_one_goes_on_with(
    orders: Orders, gate: Event, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = orders.pipeline(TOTALS | ADDED).watch(0.0)
    next(rounds)
    gate.set()
    if step != "fill":
        adopt, deliver, adopted = Database.adopt, Delivery.deliver, Event()

        def adopting(self: Database, fork: Database) -> None:
            adopt(self, fork)
            adopted.set()
            if step == "adopt":
                raise CrownError("the process ends")

        def delivering(self: Delivery, *args: object) -> object:
            if adopted.is_set():
                raise CrownError("the process ends")
            return deliver(self, *args)  # type: ignore[arg-type]

        def to_the_end() -> None:
            while True:
                orders.change()
                next(rounds)

        with monkeypatch.context() as patch:
            patch.setattr(Database, "adopt", adopting)
            patch.setattr(Delivery, "deliver", delivering)
            with pytest.raises(CrownError, match="the process ends"):
                to_the_end()
    rounds.close()
    for _ in range(2):
        orders.change()
        orders.pipeline(TOTALS | ADDED).run()
        orders.check(TOTALS | ADDED)


@pytest.mark.parametrize("why", [slow("it is closed"), "a definition has changed"])
def test_a_computation_that_is_not_wanted_any_more_is_stopped(
    orders: Orders, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = DatabaseEngine._fill

    def endless(self: DatabaseEngine, fresh: list[int]) -> None:
        while threading.current_thread() is not threading.main_thread():
            self.uninterrupted.check()
        fill(self, fresh)

    monkeypatch.setattr(DatabaseEngine, "_fill", endless)
    made, least = orders.pipeline(TOTALS), [0]
    made.view("some", lambda: SparkSession.active().table("orders").where(f"k > {least[0]}"))
    made.run()
    made.view("pairs", ADDED["pairs"])
    with closing(made.watch(0.0)) as rounds:
        next(rounds)
        if why == "a definition has changed":
            least[0] = 3
            assert {"pairs", "some"} <= set(next(rounds).changed)
    made.run()
    orders.check(TOTALS | {"pairs": ADDED["pairs"], "some": f"SELECT * FROM orders WHERE k > {least[0]}"})


def test_what_stops_the_computation_of_views_ends_the_pipeline(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    define = Database.define

    def refusing(self: Database, *args: object, **more: object) -> None:
        if not isinstance(self, DurableDatabase):
            raise CrownError("no room")
        define(self, *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Database, "define", refusing)
        with pytest.raises(CrownError, match="no room"):
            list(orders.pipeline(TOTALS | ADDED).watch(0.0))
    orders.pipeline(TOTALS | ADDED).run()
    orders.check(TOTALS | ADDED)


def test_a_process_that_ends_before_the_version_is_written_is_followed_by_one_that_watches(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The views are registered in the state then, and no version has them."""
    apply = DurableDatabase.apply

    def ending(self: DurableDatabase, *args: object, **more: object) -> object:
        if "pairs" in self.views:
            raise CrownError("the process ends")
        return apply(self, *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(DurableDatabase, "apply", ending)
        with pytest.raises(CrownError, match="the process ends"):
            orders.pipeline(TOTALS | ADDED).run()
    report = _until_shown(orders, orders.pipeline(TOTALS | ADDED), "pairs")
    assert {"totals", "pairs"} <= set(report.changed)
    orders.check(TOTALS | ADDED)


@pytest.mark.parametrize("late", [slow("SELECT s, k FROM orders WHERE k > 1"), "SELECT s, k FROM pairs WHERE k > 1"])
def test_a_view_that_is_added_while_others_are_computed_comes_after_them(
    orders: Orders, gate: Event, late: str
) -> None:
    made = orders.pipeline(TOTALS | {"pairs": ADDED["pairs"]})
    with closing(made.watch(0.0)) as rounds:
        next(rounds)
        made.view("late", late)
        orders.change()
        assert set(next(rounds).changed) == {"totals"}
        gate.set()
        changed: set[str] = set()
        while "late" not in changed:
            orders.change()
            changed = set(next(rounds).changed)
            orders.check(TOTALS)
    assert changed == {"totals", "pairs", "late"}
    text = late.replace("FROM pairs", f"FROM ({ADDED['pairs']})")
    orders.check(TOTALS | {"pairs": ADDED["pairs"], "late": text})


@pytest.mark.slow  # a computation that is not wanted any more is given up above
def test_a_view_that_changes_while_others_are_computed_is_the_new_one(
    orders: Orders, gate: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a definition in Python returns may change at any time. What is computed beside is given up then."""
    least, end = [0], BackgroundBuild.end

    def ending(self: BackgroundBuild) -> None:
        gate.set()
        end(self)

    monkeypatch.setattr(BackgroundBuild, "end", ending)
    made = orders.pipeline(TOTALS)
    made.view("some", lambda: SparkSession.active().table("orders").where(f"k > {least[0]}"))
    made.run()
    made.view("pairs", ADDED["pairs"])
    with closing(made.watch(0.0)) as rounds:
        next(rounds)
        least[0] = 3
        next(rounds)
        gate.set()
        for _ in range(2):
            orders.change()
            next(rounds)
    orders.check(TOTALS | {"pairs": ADDED["pairs"], "some": "SELECT * FROM orders WHERE k > 3"})


def _until_shown(orders: Orders, made: Pipeline, name: str) -> Report:
    """Returns the report of the first run that has changes of a view."""
    with closing(made.watch(0.0)) as rounds:
        for report in rounds:
            if name in report.changed:
                return report
            orders.change()
    raise AssertionError("a watch does not end")
