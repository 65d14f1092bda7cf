"""Pipelines: after random changes of the sources, every table of a view holds what Spark computes from scratch.

Oracles: the same definitions, run over the same tables by DuckDB, and once by Spark. A run may die at every step of its
commit.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.dataset import dataset

import crown
from crown.durable.database import DurableDatabase
from crown.errors import CrownError
from plans.expressions.functions import user
from plans.search.groups import Group
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.analysis import recalled
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.project import Project
from spark_jobs.pipelines.reports import group_lines
from spark_jobs.pipelines.sessions import Session
from spark_jobs.pipelines.state import PipelineState
from spark_jobs.tables.merge import DeltaResult
from tests.marks import slow
from tests.oracles import duck

SQL = """
CREATE MATERIALIZED VIEW big AS SELECT * FROM totals WHERE total > 10; -- before what it reads
CREATE MATERIALIZED VIEW totals COMMENT 'by shop' AS
SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop;
CREATE MATERIALIZED VIEW ranks AS SELECT shop, RANK() OVER (ORDER BY total DESC, shop) AS k FROM totals;
CREATE MATERIALIZED VIEW running AS SELECT shop, SUM(total) OVER (ORDER BY shop) AS up_to FROM totals;
CREATE MATERIALIZED VIEW counted AS SELECT shop, BIT_OR(n) OVER (ORDER BY shop) AS bits FROM totals;
CREATE MATERIALIZED VIEW quiet AS
SELECT s.city FROM {shops} s WHERE NOT EXISTS (SELECT 1 FROM {sales} x WHERE x.shop = s.shop);
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

@dp.temporary_view
def named():
    return spark.table("{sales}").join(spark.table("{shops}"), "shop")

@dp.materialized_view(name="by_city")
def cities():
    return SparkSession.active().table("named").groupBy("city").agg(F.sum("amount").alias("amount"))
"""
RECOMPUTED = {
    "totals": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop",
    "big": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop HAVING total > 10",
    "ranks": "SELECT shop, RANK() OVER (ORDER BY total DESC, shop) AS k "
    "FROM (SELECT shop, SUM(amount) AS total FROM {sales} GROUP BY shop)",
    "running": "SELECT shop, SUM(total) OVER (ORDER BY shop) AS up_to "
    "FROM (SELECT shop, SUM(amount) AS total FROM {sales} GROUP BY shop)",
    "counted": "SELECT shop, BIT_OR(n) OVER (ORDER BY shop) AS bits "
    "FROM (SELECT shop, COUNT(*) AS n FROM {sales} GROUP BY shop)",
    "quiet": "SELECT s.city FROM {shops} s WHERE NOT EXISTS (SELECT 1 FROM {sales} x WHERE x.shop = s.shop)",
    "by_city": "SELECT city, SUM(amount) AS amount FROM {sales} JOIN {shops} USING (shop) GROUP BY city",
}
SHOPS = "abcde"
CREATE = "CREATE MATERIALIZED VIEW"


class Shop:
    """A project in a folder, and two tables of the catalog that change."""

    def __init__(self, spark, folder: Path, name: str) -> None:
        self.spark = spark
        self.names = {"sales": f"sales_{name}", "shops": f"shops_{name}"}
        self.folder = folder
        (folder / "transformations").mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(
            "name: shop\nstorage: storage\nlibraries: [{glob: {include: transformations/**}}]\n"
        )
        self.define("a.sql", SQL)
        self.define("b.py", PYTHON)
        spark.sql(f"CREATE TABLE {self.names['sales']} (shop STRING, amount BIGINT) USING parquet")
        spark.sql(f"CREATE TABLE {self.names['shops']} (shop STRING, city STRING) USING parquet")

    def define(self, file: str, text: str) -> None:
        for name, table in self.names.items():
            text = text.replace(f"{{{name}}}", table)
        (self.folder / "transformations" / file).write_text(text)

    def change(self, source: random.Random, columns: int = 2) -> None:
        rows = ", ".join(f"('{source.choice(SHOPS)}', {source.randrange(-5, 20)})" for _ in range(4))
        self.spark.sql(f"INSERT INTO {self.names['sales']} VALUES {rows}")
        if source.random() < 0.6:
            kept = source.sample(SHOPS, source.randrange(1, 5))
            more = ", NULL" * (columns - 2)
            rows = ", ".join(f"('{shop}', '{source.choice('XYZ')}'{more})" for shop in kept)
            self.spark.sql(f"INSERT OVERWRITE {self.names['shops']} VALUES {rows}")

    def pipeline(self) -> Pipeline:
        return Pipeline.of(self.spark, Project.of(self.folder))

    def check(self) -> None:
        with duck.holding({table: self.rows(table) for table in self.names.values()}) as cursor:
            self.compare(lambda text: cursor.execute(text).fetchall())

    def compare(self, computed: Callable[[str], Iterable[Iterable[object]]]) -> None:
        """Compares every table of a view with the rows that ``computed`` has of its query."""
        for view, text in RECOMPUTED.items():
            wanted = Counter(map(tuple, computed(text.format(**self.names))))
            assert table(self.folder / "storage" / "tables" / view) == wanted, view

    def rows(self, table: str) -> pa.Table:
        """The rows of a table of Spark's, from its files."""
        folder = Path(self.spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / table
        schema = pa.schema([("shop", pa.string()), ("amount", pa.int64()), ("city", pa.string())])
        read = schema.remove(2 if table == self.names["sales"] else 1)
        return dataset(sorted(map(str, folder.glob("*.parquet"))), schema=read).to_table()


def table(folder: Path) -> Counter[tuple[object, ...]]:
    """The rows of a Delta table, as often as its column _count says."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in DeltaTable(str(folder)).to_pyarrow_table().to_pylist():
        copies = row.pop("_count", 1)
        found[tuple(row.values())] += copies
    return found


@pytest.fixture
def shop(spark, tmp_path: Path, request: pytest.FixtureRequest):
    name = f"t{abs(hash(request.node.nodeid)) % 10**8}"
    made = Shop(spark, tmp_path / "project", name)
    yield made
    for known in made.names.values():
        spark.sql(f"DROP TABLE {known}")


def test_every_table_holds_what_spark_computes_from_scratch(shop: Shop) -> None:
    source, came = random.Random(1), Counter[str]()
    for _ in range(3):
        shop.change(source)
        came.update({name: rows for name, (rows, _) in shop.pipeline().run().read.items()})
        shop.compare(lambda text: shop.spark.sql(text).collect())
    report = shop.pipeline().run()
    assert not report.changed, "nothing has changed"
    assert {how for _, how in report.read.values()} == {"no new file"}
    how = {step.name: step.how for step in shop.pipeline().plan()}
    assert how.pop("counted") == "full"
    assert set(how.values()) == {"incremental"}
    groups = shop.pipeline().groups(4)
    assert sorted(name for group in groups for name in group.results) == sorted(how), "each is in one group"
    assert all(group.arriving >= sum(came[name] for name in group.ways) > 0 for group in groups), "those of all runs"


@pytest.mark.parametrize(("arriving", "said"), [(2, "0.5 of 2 rows (25%)"), (4e6, "1,000,000 of 4,000,000 rows (25%)")])
def test_a_part_of_few_rows_is_not_shown_as_none(arriving: float, said: str) -> None:
    group = Group(("v",), (), {"r": frozenset([("k",)])}, 4, arriving / 4, arriving, arriving)
    assert any(f"a cell gets {said}" in line for line in group_lines([group]))


def test_views_and_sources_are_added_changed_and_dropped_on_a_running_state(shop: Shop, spark) -> None:
    source = random.Random(2)
    shop.change(source)
    shop.pipeline().run()
    shop.define("c.sql", "CREATE MATERIALIZED VIEW towns AS SELECT city, COUNT(*) AS n FROM {shops} GROUP BY city")
    shop.change(source)
    report = shop.pipeline().run()
    assert "towns" in report.changed
    shop.check()
    spark.sql("CREATE TABLE rates_of_towns (city STRING, rate INT) USING parquet")
    try:
        spark.sql("INSERT INTO rates_of_towns VALUES ('X', 2), ('Y', 3), ('Z', 4)")
        shop.define("c.sql", "CREATE MATERIALIZED VIEW towns AS SELECT city, rate FROM rates_of_towns WHERE rate > 2")
        report = shop.pipeline().run()
        assert report.changed["towns"] == (2, 0)
        assert table(shop.folder / "storage" / "tables" / "towns") == Counter([("Y", 3), ("Z", 4)])
        shop.check()
        (shop.folder / "transformations" / "c.sql").unlink()
        shop.change(source)
        shop.pipeline().run()
        assert not (shop.folder / "storage" / "tables" / "towns").exists()
        shop.check()
    finally:
        spark.sql("DROP TABLE rates_of_towns")


CALLED = """
import pyarrow as pa
import pyarrow.compute as pc

import crown

crown.function("doubled", lambda x: pc.multiply(x, {factor}), arguments=["int64"], result="int64")
crown.aggregate("summed", lambda x: pa.StructArray.from_arrays([x], ["s"]), lambda s, n: pc.add(s, n),
                arguments=["int64"], sums={"s": "int64"}, result="int64")
"""
OF_FUNCTIONS = """
CREATE MATERIALIZED VIEW called AS SELECT shop, summed(doubled(amount)) AS s FROM {sales} GROUP BY shop;
CREATE MATERIALIZED VIEW refused AS SELECT shop, BIT_OR(doubled(total)) OVER (ORDER BY shop) AS bits FROM totals;
"""


def test_views_call_functions_that_a_file_of_the_project_registers(
    shop: Shop, spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(4)
    shop.define("functions.py", CALLED.replace("{factor}", "2"))
    shop.define("c.sql", OF_FUNCTIONS)
    for _ in range(2):
        shop.change(source)
        shop.pipeline().run()
        sums = spark.sql(f"SELECT shop, SUM(2 * amount) + COUNT(amount) FROM {shop.names['sales']} GROUP BY shop")
        assert table(shop.folder / "storage" / "tables" / "called") == Counter(map(tuple, sums.collect()))
        totals = f"SELECT shop, 2 * SUM(amount) AS t FROM {shop.names['sales']} GROUP BY shop"
        bits = spark.sql(f"SELECT shop, BIT_OR(t) OVER (ORDER BY shop) FROM ({totals})")
        assert table(shop.folder / "storage" / "tables" / "refused") == Counter(map(tuple, bits.collect()))
    assert {step.name: step.how for step in shop.pipeline().plan()}["called"] == "incremental"
    assert not shop.pipeline().run().changed
    shop.define("functions.py", CALLED.replace("{factor}", "3"))
    shop.pipeline().run()
    sums = spark.sql(f"SELECT shop, SUM(3 * amount) + COUNT(amount) FROM {shop.names['sales']} GROUP BY shop")
    assert table(shop.folder / "storage" / "tables" / "called") == Counter(map(tuple, sums.collect()))
    shop.define("functions.py", CALLED.replace("{factor}", "2"))
    monkeypatch.setattr(user, "_KNOWN", {})  # as in another process
    with pytest.raises(CrownError, match=r"is not the one that the state was made with.*A full refresh"):
        shop.pipeline().run()
    shop.pipeline().full_refresh()
    sums = spark.sql(f"SELECT shop, SUM(2 * amount) + COUNT(amount) FROM {shop.names['sales']} GROUP BY shop")
    assert table(shop.folder / "storage" / "tables" / "called") == Counter(map(tuple, sums.collect()))


class Died(BaseException):
    """The process is gone."""


STEPS = [
    slow("before the log"),
    "behind the log",
    slow("before the tables"),
    slow("in the tables"),
    slow("before the mark"),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_dies_is_finished_by_the_next(shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    source = random.Random(3)
    shop.change(source)
    shop.pipeline().run()
    shop.change(source)
    with monkeypatch.context() as patch:
        if step == "before the log":
            patch.setattr(DurableDatabase, "apply", _dies(DurableDatabase.apply, 0, before=True))
        elif step == "behind the log":
            patch.setattr(DurableDatabase, "apply", _dies(DurableDatabase.apply, 0))
        elif step == "before the tables":
            patch.setattr(DeltaResult, "apply", _dies(DeltaResult.apply, 0, before=True))
        elif step == "in the tables":
            patch.setattr(DeltaResult, "apply", _dies(DeltaResult.apply, 2))
        else:
            patch.setattr(PipelineState, "commit", _dies(PipelineState.commit, 0, before=True))
        with pytest.raises(Died):
            shop.pipeline().run()
    shop.pipeline().run()
    shop.check()
    shop.change(source)
    shop.pipeline().run()
    shop.check()


def _dies(function, calls: int, before: bool = False):
    """The function, which ends the process at its call number ``calls``."""
    made = []

    def wrapped(*args, **kwargs):
        made.append(1)
        last = len(made) > calls
        if last and before:
            raise Died
        result = function(*args, **kwargs)
        if last:
            raise Died
        return result

    return wrapped


def test_new_files_are_found_whatever_they_are_called(spark, tmp_path: Path) -> None:
    folder = tmp_path / "é% d"
    spark.sql(f"CREATE TABLE odd_names (a BIGINT, p STRING) USING parquet PARTITIONED BY (p) LOCATION '{folder}'")
    try:
        made = crown.spark.pipeline(spark, tmp_path / "state")
        made.view("n", "SELECT p, SUM(a) AS a FROM odd_names GROUP BY p")
        for i, part in enumerate(("x y", "ü%20/=", "z")):
            spark.sql(f"INSERT INTO odd_names VALUES ({i}, '{part}')")
            report = made.run()
            assert report.read["odd_names"] == (1, "read whole" if i == 0 else "1 new files")
        assert table(tmp_path / "state" / "tables" / "n") == Counter([("x y", 0), ("ü%20/=", 1), ("z", 2)])
    finally:
        spark.sql("DROP TABLE odd_names")


def test_sources_that_are_frames_are_compared(spark, tmp_path: Path) -> None:
    rows = [[(1, "a"), (1, "a"), (2, "b")], [(1, "a"), (3, "c")]]
    made = crown.spark.pipeline(spark, tmp_path / "state")
    made.source("r", lambda: spark.createDataFrame(rows[0], "k long, t string"))
    made.view("v", "SELECT t, COUNT(*) AS n FROM r GROUP BY t")
    made.run()
    del rows[0]
    assert made.run().read["r"] == (3, "read whole and compared")
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 1), ("c", 1)])
    assert made.status()["views"]["v"]["rows"] == 2
    made.full_refresh()
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 1), ("c", 1)])


def test_a_watched_pipeline_takes_what_changes_and_reads_its_state_once(
    shop: Shop, spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    original = PipelineState.opened
    monkeypatch.setattr(
        PipelineState, "opened", lambda self, schema: opened.append(self._folder) or original(self, schema)
    )
    source = random.Random(4)
    shop.change(source)
    rounds = shop.pipeline().watch(0.0)
    assert next(rounds).changed
    for _ in range(3):
        shop.change(source)
        assert next(rounds).changed
        shop.check()
        assert not next(rounds).changed
    assert len(opened) == 1
    spark.sql(f"ALTER TABLE {shop.names['shops']} ADD COLUMN size INT")
    shop.change(source, columns=3)
    assert next(rounds).changed
    shop.check()
    assert len(opened) > 1, "a source has another column"
    rounds.close()
    assert not shop.pipeline().run().changed, "the state was let go"


def test_an_analysis_is_used_again_until_something_has_changed_that_it_depends_on(shop: Shop, spark) -> None:
    (shop.folder / "transformations" / "b.py").unlink()
    source = random.Random(5)
    shop.change(source)
    file = shop.folder / "storage" / "crown" / "analysis.json"
    shop.pipeline().run()

    def used() -> bool:
        project = Project.of(shop.folder)
        project.load(Session.of(spark), {})
        return recalled(Session.of(spark), project.definitions, {}, file) is not None

    assert used()
    spark.conf.set("spark.sql.crossJoin.enabled", "false")  # that no other test sets
    assert not used(), "other settings"
    spark.conf.unset("spark.sql.crossJoin.enabled")
    assert used()
    spark.udf.register("own_function", lambda x: x)
    assert not used(), "a function whose body is not known"
    spark.sql("DROP TEMPORARY FUNCTION own_function")
    assert used()
    shop.define("c.sql", f"{CREATE} more AS SELECT shop, n + 1 AS n FROM totals")
    assert not used(), "another view"
    shop.pipeline().run()
    assert used()
    spark.sql(f"ALTER TABLE {shop.names['shops']} ADD COLUMN size INT")
    assert not used(), "another column"
    spark.sql(f"CREATE VIEW big_{shop.names['sales']} AS SELECT * FROM {shop.names['sales']} WHERE amount > 5")
    try:
        shop.define("c.sql", f"{CREATE} more AS SELECT shop FROM big_{shop.names['sales']}")
        shop.pipeline().run()
        assert not used(), "a view of the catalog may become another one"
    finally:
        spark.sql(f"DROP VIEW big_{shop.names['sales']}")


def test_a_project_names_delta_tables_in_its_configuration(spark, tmp_path: Path) -> None:
    write = partial(write_deltalake, tmp_path / "data" / "r")
    (tmp_path / "data").mkdir()
    write(pa.table({"id": [1, 2, 2]}))
    (tmp_path / "views.sql").write_text(f"{CREATE} v AS SELECT id, COUNT(*) AS n FROM R GROUP BY id")
    text = "name: p\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\nconfiguration:\n  crown.source.r: "
    (tmp_path / "spark-pipeline.yml").write_text(f"{text}delta:data/r\n")
    assert Pipeline.of(spark, Project.of(tmp_path)).run().changed == {"v": (2, 0)}
    assert Project.of(tmp_path).settings == {}, "Spark would say that it ignores them"
    write(pa.table({"id": [2, 3]}), mode="append")
    report = Pipeline.of(spark, Project.of(tmp_path)).run()
    assert report.read == {"r": (2, "1 files added, 0 removed")}
    assert table(tmp_path / "storage" / "tables" / "v") == Counter([(1, 1), (2, 3), (3, 1)])
    (tmp_path / "spark-pipeline.yml").write_text(f"{text}data/r\n")
    with pytest.raises(SourceError, match="write the kind of the table, a colon and where it is"):
        Pipeline.of(spark, Project.of(tmp_path))


def _tables(shop: Shop) -> dict[str, Counter[tuple[object, ...]]]:
    return {view: table(shop.folder / "storage" / "tables" / view) for view in RECOMPUTED}


@pytest.mark.parametrize("step", [slow(""), "behind the log", slow("in the tables"), slow("before the mark")])
def test_every_version_in_the_history_can_be_restored(shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    file = shop.folder / "spark-pipeline.yml"
    file.write_text(file.read_text() + "configuration: {crown.keep: 100}\n")
    source = random.Random(6)
    after = {}
    for _ in range(4):
        shop.change(source)
        version = shop.pipeline().run().version
        after[version] = _tables(shop)
    assert shop.pipeline().status()["history"] == sorted(after)
    for wanted in (2, 4, 1):
        with monkeypatch.context() as patch:
            if step == "behind the log":
                patch.setattr(DurableDatabase, "apply", _dies(DurableDatabase.apply, 0))
            elif step == "in the tables":
                patch.setattr(DeltaResult, "apply", _dies(DeltaResult.apply, 2))
            elif step == "before the mark":
                patch.setattr(PipelineState, "commit", _dies(PipelineState.commit, 0, before=True))
            if step:
                with pytest.raises(Died):
                    shop.pipeline().restore(wanted)
            else:
                shop.pipeline().restore(wanted)
        if step:  # the version stands, so what opens the state next finishes it
            latest = shop.pipeline().status()["history"][-1]
            shop.pipeline().restore(latest)
        assert _tables(shop) == after[wanted]
    shop.pipeline().run()
    shop.check()
    shop.change(source)
    shop.pipeline().run()
    shop.check()


def test_a_version_that_cannot_be_restored_is_said(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path / "state", keep=0)
    with pytest.raises(SourceError, match="this pipeline has not run yet"):
        made.restore(1)
    made.source("r", lambda: spark.range(3))
    made.view("v", "SELECT id % 2 AS k, COUNT(*) AS n FROM r GROUP BY id % 2")
    made.run()
    with pytest.raises(SourceError, match="version 7 cannot be restored: the state goes back to these versions: 1"):
        made.restore(7)
    with pytest.raises(crown.CrownError, match="keep must be a whole number"):
        crown.spark.pipeline(spark, tmp_path / "other", keep=-1)


def test_one_view_is_computed_again_with_those_that_read_it(shop: Shop) -> None:
    source = random.Random(8)
    shop.change(source)
    shop.pipeline().run()
    (shop.folder / "storage" / "tables" / "totals" / "_delta_log" / "00000000000000000000.json").unlink()
    before = _inode(shop, "by_city")
    report = shop.pipeline().full_refresh("TOTALS")
    assert set(report.changed) == set(RECOMPUTED)
    assert {name for name, (inserted, _) in report.changed.items() if inserted} <= {*RECOMPUTED} - {"by_city", "quiet"}
    assert _inode(shop, "by_city") == before, "it reads no totals"
    shop.check()
    shop.change(source)
    shop.pipeline().run()
    shop.check()
    with pytest.raises(SourceError, match=r"there is no view called nothing; there are: .*totals"):
        shop.pipeline().full_refresh("nothing")


def _inode(shop: Shop, view: str) -> int:
    return (shop.folder / "storage" / "tables" / view).stat().st_ino


CALLS = [
    ("rename", False),
    slow("rename", True),
    *(slow(name, when) for name in ("unlink", "rmdir") for when in (True, False)),
]


@pytest.mark.parametrize(("name", "before"), CALLS)
def test_a_refresh_and_another_column_are_whole_whatever_dies(
    shop: Shop, spark, monkeypatch: pytest.MonkeyPatch, name: str, before: bool
) -> None:
    source = random.Random(9)
    for _ in range(2):
        shop.change(source)
        shop.pipeline().run()
    with monkeypatch.context() as patch:
        patch.setattr(os, name, _dies(getattr(os, name), 0, before))
        with pytest.raises(Died):
            shop.pipeline().full_refresh()
    shop.change(source)
    shop.pipeline().run()
    shop.check()
    for number in range(2):
        spark.sql(f"ALTER TABLE {shop.names['shops']} ADD COLUMN more{number} INT")
        with monkeypatch.context() as patch:
            patch.setattr(os, name, _dies(getattr(os, name), number, before))
            with pytest.raises(Died):
                shop.pipeline().run()
        shop.change(source, columns=3 + number)
        shop.pipeline().run()
        shop.check()
