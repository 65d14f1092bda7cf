"""Pipelines: after random changes of the sources, every table of a view holds what Spark computes from scratch.

Oracles: the same definitions, run over the same tables by DuckDB, and once by Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import crown
from crown.errors import CrownError, ProjectError
from plans.expressions.functions import user
from plans.search.cells.groups import Group, Groups
from spark_jobs.pipelines import state
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.definitions.stored import stored_analysis
from spark_jobs.pipelines.delivery import Delivery
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.reports import group_lines
from tests.spark.pipelines.shop import BY_CITY, CREATE, Shop, table


def test_every_table_holds_what_spark_computes_from_scratch(shop: Shop) -> None:
    source, came = random.Random(1), Counter[str]()
    for _ in range(2):
        shop.change(source)
        came.update({name: rows for name, (rows, _) in shop.pipeline().run().read.items()})
        shop.check()
    shop.compare(lambda text: shop.spark.sql(text).collect())
    report = shop.pipeline().run()
    assert not report.changed, "nothing has changed"
    assert {how for _, how in report.read.values()} == {"no new file"}
    how = {step.name: step.how for step in shop.pipeline().plan()}
    assert how.pop("counted") == "full"
    assert set(how.values()) == {"incremental"}
    groups = shop.pipeline().groups(4).groups
    assert sorted(name for group in groups for name in group.results) == sorted(how), "each is in one group"
    assert all(group.arriving >= sum(came[name] for name in group.ways) > 0 for group in groups), "those of all runs"


@pytest.mark.parametrize(("arriving", "said"), [(2, "0.5 of 2 rows (25%)"), (4e6, "1,000,000 of 4,000,000 rows (25%)")])
def test_a_part_of_few_rows_is_not_shown_as_none(arriving: float, said: str) -> None:
    group = Group(("v",), (), {"r": frozenset([("k",)])}, 4, arriving / 4, arriving, arriving)
    assert any(f"a cell gets {said}" in line for line in group_lines(Groups((group,), arriving / 4, arriving)))


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
CREATE MATERIALIZED VIEW totals AS SELECT shop, SUM(amount) AS total FROM {sales} GROUP BY shop;
CREATE MATERIALIZED VIEW called AS SELECT shop, summed(doubled(amount)) AS s FROM {sales} GROUP BY shop;
CREATE MATERIALIZED VIEW refused AS
SELECT shop, BIT_OR(doubled(total)) OVER (ORDER BY shop) AS bits FROM totals WHERE rand() < 2;
"""


def test_views_call_functions_that_a_file_of_the_project_registers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(view: str, query: str) -> None:
        with shop.holding() as cursor:
            wanted = Counter(cursor.execute(query.format(**shop.names)).fetchall())
        assert table(shop.folder / "storage" / "tables" / view) == wanted

    source = random.Random(4)
    (shop.folder / "transformations" / "b.py").unlink()
    shop.define("functions.py", CALLED.replace("{factor}", "2"))
    shop.define("a.sql", OF_FUNCTIONS)
    twice = "SELECT shop, SUM(2 * amount) + COUNT(amount) FROM {sales} GROUP BY shop"
    totals = "SELECT shop, 2 * SUM(amount) AS t FROM {sales} GROUP BY shop"
    for _ in range(2):
        shop.change(source)
        shop.pipeline().run()
        check("called", twice)
        check("refused", f"SELECT shop, BIT_OR(t::BIGINT) OVER (ORDER BY shop) FROM ({totals})")
    assert {step.name: step.how for step in shop.pipeline().plan()}["called"] == "incremental"
    assert not shop.pipeline().run().changed
    shop.define("functions.py", CALLED.replace("{factor}", "3"))
    shop.pipeline().run()
    check("called", twice.replace("2 *", "3 *"))
    shop.define("functions.py", CALLED.replace("{factor}", "2"))
    monkeypatch.setattr(user, "_KNOWN", {})  # as in another process
    with pytest.raises(CrownError, match=r"differs from the one with which the state was created.*A full refresh"):
        shop.pipeline().run()
    shop.pipeline().full_refresh()
    check("called", twice)


def test_new_files_are_found_whatever_they_are_called(spark, tmp_path: Path) -> None:
    folder = tmp_path / "é% d"
    spark.sql(f"CREATE TABLE odd_names (a BIGINT, p STRING) USING parquet PARTITIONED BY (p) LOCATION '{folder}'")
    try:
        made = crown.spark.pipeline(spark, tmp_path / "state")
        made.view("n", "SELECT p, SUM(a) AS a FROM odd_names GROUP BY p")
        for i, part in enumerate(("x y", "ü%20/=", "z")):
            spark.sql(f"INSERT INTO odd_names VALUES ({i}, '{part}')")
            report = made.run()
            assert report.read["odd_names"] == (1, "read in full" if i == 0 else "1 new files")
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
    assert made.run().read["r"] == (3, "read in full and compared")
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 1), ("c", 1)])
    assert made.status()["views"]["v"]["rows"] == 2
    made.full_refresh()
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 1), ("c", 1)])


def test_a_watched_pipeline_takes_what_changes_and_reads_its_state_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    original = state.reopened_database
    monkeypatch.setattr(
        state, "reopened_database", lambda *given, **more: opened.append(given) or original(*given, **more)
    )
    source = random.Random(4)
    (shop.folder / "transformations" / "b.py").unlink()
    shop.define("b.sql", BY_CITY)
    shop.change(source)
    rounds = shop.pipeline().watch(0.0)
    assert next(rounds).changed
    shop.change(source)
    assert next(rounds).changed
    shop.check()
    assert not next(rounds).changed
    assert len(opened) == 1
    shop.add_column("size")
    shop.change(source)
    assert next(rounds).changed
    shop.check()
    assert len(opened) == 3, "a source has another column: the state is opened, and another one is filled from it"
    rounds.close()
    assert not shop.pipeline().run().changed, "the state was let go"


def test_an_analysis_is_used_again_until_something_has_changed_that_it_depends_on(shop: Shop, spark) -> None:
    (shop.folder / "transformations" / "b.py").unlink()
    source = random.Random(5)
    shop.change(source)
    file = shop.folder / "storage" / "crown" / "analysis.json"
    shop.pipeline().run()

    def used(session: SparkSession = spark) -> bool:
        project = Project.of(shop.folder)
        project.load(Session.of(session), {})
        return stored_analysis(Session.of(session), project.definitions, {}, file) is not None

    assert used()
    apart = spark.newSession()
    assert used(apart)
    apart.conf.set("spark.sql.crossJoin.enabled", "false")
    assert not used(apart), "other settings"
    apart.conf.unset("spark.sql.crossJoin.enabled")
    apart.udf.register("own_function", lambda x: x)
    assert not used(apart), "a function whose body is not known"
    shop.define("c.sql", f"{CREATE} more AS SELECT shop, n + 1 AS n FROM totals")
    assert not used(), "another view"
    shop.pipeline().run()
    assert used()
    shop.add_column("size")
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
    with pytest.raises(ProjectError, match="write the kind of the table, a colon and where it is"):
        Pipeline.of(spark, Project.of(tmp_path))


def test_views_that_do_not_read_a_column_keep_their_tables_when_it_comes_changes_and_goes(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, state = partial(write_deltalake, tmp_path / "r"), tmp_path / "state"

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    def made() -> Pipeline:
        found = crown.spark.pipeline(spark, state, keep=5)
        found.source("r", f"delta:{tmp_path / 'r'}")
        found.view("n", "SELECT k, COUNT(*) AS n FROM r GROUP BY k", into=str(tmp_path / "published"))
        found.view("every", "SELECT * FROM r")
        found.view("bits", "SELECT *, BIT_OR(k) OVER (ORDER BY k) AS bits FROM r WHERE rand() < 2")
        return found

    def rows(view: str) -> Counter[tuple[object, ...]]:
        return table(state / "tables" / view)

    write(pa.table({"k": [1, 2, 2]}))
    made().run()
    kept = DeltaTable(state / "tables" / "n").metadata().id
    for number, given in enumerate(({"k": [2], "more": ["x"]}, {"k": [3], "more": [4]}, {"k": [1, 1]})):
        if number:
            write(
                pa.table({"k": [1, 2, 2, 2]} | ({"more": [1, 2, 3, 4]} if number == 1 else {})),
                mode="overwrite",
                schema_mode="overwrite",
            )
        write(pa.table(given), mode="append", schema_mode="merge")
        found = made()
        if number == 1:
            with monkeypatch.context() as patch:
                patch.setattr(Delivery, "demand_keys", stopped)
                with pytest.raises(KeyboardInterrupt):
                    found.run()
        report = found.run()
        assert report.read["r"][1] == "read in full and compared"
        truth = DeltaTable(tmp_path / "r").to_pyarrow_table()
        counted = Counter((k, n) for k, n in Counter(truth["k"].to_pylist()).items())
        assert rows("n") == table(tmp_path / "published") == counted
        assert rows("every") == Counter(tuple(row.values()) for row in truth.to_pylist())
        assert sum(rows("bits").values()) == truth.num_rows
        assert DeltaTable(state / "tables" / "n").metadata().id == kept
        assert found.status()["history"] == [report.version], "a new history"
        assert report.changed["n"][0] <= 2


def test_a_run_that_fails_keeps_the_history(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s").mkdir()
    state, file = tmp_path / "state", tmp_path / "s" / "1.csv"

    def made(columns: str) -> Pipeline:
        found = crown.spark.pipeline(spark, state, keep=5)
        found.source("r", f"csv:{tmp_path / 's'}?columns={columns}")
        found.view("n", "SELECT (SELECT k FROM r) AS n FROM r")
        return found

    file.write_text("k\n1\n")
    made("k INT").run()
    file.write_text("k\n2\n")
    made("k INT").run()

    def refused(found: Pipeline, error: type[Exception], said: str, fresh: bool = False) -> None:
        with pytest.raises(error, match=said):
            found.full_refresh() if fresh else found.run()
        assert found.status()["history"] == [1, 2]
        assert table(state / "tables" / "n") == Counter([(2,)])
        assert sorted(path.name for path in (state / "crown").glob("state*")) == ["state"]

    file.write_text("k,more\n1,x\n")
    for fresh in (False, True):
        refused(made("k INT, more INT"), ProjectError, "'x' does not fit", fresh)
    file.write_text("k,more\n1,x\n2,x\n")
    for fresh in (False, True):
        refused(made("k INT, more STRING"), crown.errors.SeveralRowsError, "rows", fresh)
    found = made("k INT, more STRING")
    assert found.restore(1).changed == {"n": (1, 1)}
    file.write_text("k,more\n5,x\n")
    with monkeypatch.context() as patch:
        patch.setattr(Delivery, "deliver", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            found.run()  # the version stands, and the next run writes it to the tables
    assert found.run().version == 4
    assert table(state / "tables" / "n") == Counter([(5,)])
    assert found.status()["history"] == [4], "a new history"
    file.write_text("k,more\n1,x\n")
    assert found.full_refresh().version == 1
    assert table(state / "tables" / "n") == Counter([(1,)])
