"""Runs for which no session is started, and what Python reads of files in Spark's place.

Oracles: DuckDB, and the files and columns that Spark finds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from argparse import Namespace
from contextlib import closing
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import crown
from crown.durable.opening import open_database
from plans.errors import PlanError
from plans.schema import Schema
from spark_jobs.commands import pipelines
from spark_jobs.commands.pipelines import Reading
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.ingest.types import supported_table
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.inputs import sources
from spark_jobs.pipelines.inputs.declared import declared_source
from spark_jobs.pipelines.inputs.sources import ParquetFolder
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.reports import Report
from spark_jobs.pipelines.state import PipelineState
from tests.marks import slow
from tests.oracles import duck
from tests.spark.pipelines.test_sources import COLUMNS, ROW

VIEWS = """CREATE MATERIALIZED VIEW totals AS SELECT s, COUNT(*) AS n, SUM(k) AS k FROM orders GROUP BY s;
-- what is read from files
CREATE MATERIALIZED VIEW named AS SELECT t.s, n, label FROM totals t JOIN labels l ON t.s = l.s;
"""


class Shop:
    """A project over a Delta table and a folder of Parquet files, and how often it has asked for a session."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.rng = spark, folder, random.Random(3)
        self.asked = 0
        self.settings: dict[str, str] = {}
        (folder / "views.sql").write_text(VIEWS)
        (folder / "spark-pipeline.yml").write_text(
            "name: shop\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\nconfiguration:\n"
            "  crown.source.orders: delta:orders\n  crown.source.labels: parquet:labels\n"
        )
        (folder / "labels").mkdir()
        self.label("a")
        self.order()

    def order(self) -> None:
        ks = [self.rng.randrange(9) for _ in range(5)]
        made = pa.table({"k": ks, "s": [self.rng.choice("abc") for _ in ks]})
        write_deltalake(self.folder / "orders", made, mode="append")

    def label(self, s: str, **more: object) -> None:
        made = pa.table({"s": [s], "label": [s * 2], **{name: [value] for name, value in more.items()}})
        pq.write_table(made, self.folder / "labels" / f"{s}.parquet")

    def _start(self):
        self.asked += 1
        return self.spark

    def run(self) -> int:
        """Runs; returns how many sessions that has started."""
        before = self.asked
        self.pipeline().run()
        self.check()
        return self.asked - before

    def pipeline(self, refresh: str = "auto") -> Pipeline:
        """Returns a pipeline whose session is started when it is asked for."""
        return Pipeline.of(Session.later(self._start, self.settings, None), Project.of(self.folder), refresh)

    def check(self) -> None:
        totals = "SELECT s, COUNT(*) AS n, SUM(k) AS k FROM orders GROUP BY s"
        named = f"SELECT t.s, n, label FROM ({totals}) t JOIN labels l ON t.s = l.s"
        files = [pq.read_table(file, columns=["s", "label"]) for file in (self.folder / "labels").rglob("*.parquet")]
        held = {"orders": DeltaTable(self.folder / "orders").to_pyarrow_table(), "labels": pa.concat_tables(files)}
        with duck.holding(held) as cursor:
            for name, query in (("totals", totals), ("named", named)):
                made = DeltaTable(self.folder / "storage" / "tables" / name).to_pyarrow_table()
                rows = [tuple(row.values())[:3] for row in made.to_pylist() for _ in range(row.get("_count", 1))]
                assert sorted(rows) == sorted(cursor.execute(query).fetchall())


@pytest.fixture
def shop(spark, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_a_run_starts_no_session_for_changes_of_rows(shop: Shop) -> None:
    assert shop.run() == 1
    for label in ("b", "c"):
        shop.order()
        shop.label(label)
        assert shop.run() == 0
    (shop.folder / "labels" / "b.parquet").unlink()  # the folder is read in full and compared
    shop.order()
    assert shop.run() == 0
    assert shop.run() == 0, "nothing has changed"


def test_a_plan_starts_no_session_for_definitions_that_a_run_has_analyzed(shop: Shop) -> None:
    steps = shop.pipeline().plan()
    shop.run()
    begun = shop.asked
    assert shop.pipeline().plan() == steps
    assert shop.asked == begun
    _define(shop)
    assert [step.name for step in shop.pipeline().plan()] == ["totals", "named"]
    assert shop.asked == begun + 1


def test_a_view_that_spark_computes_is_an_error_later_too_where_all_are_to_be_maintained(shop: Shop) -> None:
    random = "CREATE MATERIALIZED VIEW picked AS SELECT s FROM orders WHERE rand(3) < 2;"
    (shop.folder / "views.sql").write_text(VIEWS + random)
    shop.run()
    begun = shop.asked
    with pytest.raises(PlanError, match=r"views\.sql:4: the view picked cannot be maintained"):
        shop.pipeline("incremental").run()
    with pytest.raises(PlanError, match="the view picked cannot be maintained"):
        shop.pipeline("incremental").plan()
    assert shop.asked == begun


def _define(shop: Shop) -> None:
    (shop.folder / "views.sql").write_text(VIEWS.replace("COUNT(*) AS n, SUM(k) AS k", "COUNT(*) AS n, SUM(k) AS k "))


def _set(shop: Shop) -> None:
    shop.settings["spark.sql.ansi.enabled"] = "false"


def _add_a_column(shop: Shop) -> None:
    shop.label("a", size=1)


def _make_a_partition(shop: Shop) -> None:
    for file in (shop.folder / "labels").iterdir():
        (shop.folder / "labels" / "p=1").mkdir(exist_ok=True)
        file.rename(shop.folder / "labels" / "p=1" / file.name)


def _comment(shop: Shop) -> None:
    (shop.folder / "views.sql").write_text(VIEWS.replace("VIEW totals", "VIEW /* all */ totals"))


def test_a_run_starts_a_session_once_for_what_only_spark_can_tell(shop: Shop) -> None:
    shop.run()
    for change in (_comment, _define, _set, _add_a_column):
        change(shop)
        assert [shop.run(), shop.run()] == [1, 0], change.__name__
    _make_a_partition(shop)
    assert shop.run() == 1


def test_columns_that_spark_merges_of_all_files_of_a_folder_are_left_to_spark(shop: Shop) -> None:
    merged = "spark.sql.parquet.mergeSchema"
    shop.settings[merged] = "true"
    shop.spark.conf.set(merged, "true")
    shop.run()
    shop.label("b", size=1)  # a column of the folder, which its first file lacks
    assert shop.run() == 1


def test_a_path_without_a_scheme_is_read_by_python_only_where_it_is_one_of_this_host(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(settings: dict[str, str]) -> ParquetFolder | None:
        session = Session.later(lambda: pytest.fail("a session was started"), settings, None)
        return declared_source(session, "labels", "parquet:labels").folder

    assert folder({}) is not None
    assert folder({"spark.hadoop.fs.defaultFS": "hdfs://lake"}) is None
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(tmp_path))
            assert folder({}) is not None, "there is no core-site.xml yet"
            (tmp_path / "core-site.xml").write_text("<property><name>fs.defaultFS</name><value>s3a://lake</value>")
            assert folder({}) is None
        (tmp_path / "core-site.xml").unlink()
    assert declared_source(Session.of(spark), "labels", "parquet:labels").folder is not None
    hadoop = spark._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://lake")
    try:
        assert declared_source(Session.of(spark), "labels", "parquet:labels").folder is None
    finally:
        hadoop.set("fs.defaultFS", before)


def test_two_processes_cannot_run_one_pipeline_and_the_second_says_so(shop: Shop) -> None:
    shop.run()
    with open_database(shop.folder / "storage" / "crown" / "state"):
        for _ in range(2):
            with pytest.raises(CheckpointError, match=rf"process {os.getpid()} runs or watches this pipeline already"):
                shop.run()
    shop.order()
    assert shop.run() == 0


@pytest.mark.parametrize("command", ["run", slow("full_refresh"), slow("restore")])
def test_a_pipeline_that_is_watched_is_not_touched_by_another_process(spark, tmp_path: Path, command: str) -> None:
    def pipeline() -> Pipeline:
        made = crown.spark.pipeline(spark, tmp_path / "state")
        made.source("r", f"parquet:{tmp_path / 'r'}")
        made.view("v", "SELECT a % 2 AS k, COUNT(*) AS n FROM r GROUP BY a % 2")
        return made

    def add(number: int) -> None:
        (tmp_path / "r").mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": [number]}), tmp_path / "r" / f"{number}.parquet")

    add(0)
    with closing(pipeline().watch(every=0)) as rounds:
        next(rounds)
        before = sorted(str(file) for file in (tmp_path / "state").rglob("*"))
        other = pipeline()
        calls = {"run": other.run, "full_refresh": other.full_refresh, "restore": lambda: other.restore(1)}
        with pytest.raises(CheckpointError, match=rf"process {os.getpid()} runs or watches this pipeline already"):
            calls[command]()
        assert {*before} <= {str(file) for file in (tmp_path / "state").rglob("*")}
        status = other.status()
        assert (status["runs"], status["error"]) == ({"succeeded": 1, "failed": 0}, None)
        add(1)
        assert next(rounds).changed == {"v": (1, 0)}
    assert pipeline().full_refresh().changed == {"v": (2, 0)}


def test_a_project_that_has_changed_is_read_while_its_views_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command: the state stays open, and no run waits for Spark."""
    gate, analyze, opened, reports = Event(), Pipeline.analyze, PipelineState.opened, list[Report]()
    opens = [0]

    def waiting(self: Pipeline) -> None:
        assert gate.wait(60)
        analyze(self)

    def counted(self: PipelineState, schema: Schema | None):
        opens[0] += 1
        return opened(self, schema)

    def shown(report: Report, as_json: bool) -> None:
        reports.append(report)
        shop.check()
        if "late" in report.changed:
            raise KeyboardInterrupt
        if len(reports) == 1:
            late = "CREATE MATERIALIZED VIEW late AS SELECT s, MAX(k) AS k FROM orders GROUP BY s;"
            (shop.folder / "views.sql").write_text(VIEWS + late)
        if len(reports) == 4:
            gate.set()
        shop.order()

    shop.pipeline().run()
    shop.order()
    monkeypatch.setattr(Pipeline, "analyze", waiting)
    monkeypatch.setattr(PipelineState, "opened", counted)
    monkeypatch.setattr(pipelines, "_show_report", shown)
    session = Session.later(shop._start, shop.settings, None)
    args = Namespace(refresh="auto", verify=False, every=0.0, json=False, prometheus=None)
    pipelines._watch(session, Project.of(shop.folder), args)
    assert len(reports) > 4, "they do not wait"
    assert opens == [1]
    made = DeltaTable(shop.folder / "storage" / "tables" / "late").to_pyarrow_table()
    orders = DeltaTable(shop.folder / "orders").to_pyarrow_table()
    wanted = orders.group_by("s").aggregate([("k", "max")])
    assert sorted(made.select(["s", "k"]).to_pylist(), key=str) == sorted(
        [{"s": row["s"], "k": row["k_max"]} for row in wanted.to_pylist()], key=str
    )


def test_what_is_wrong_with_a_project_that_has_changed_ends_the_watch(shop: Shop) -> None:
    shop.pipeline().run()
    made = Project.of(shop.folder)
    (shop.folder / "views.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT nothing FROM orders")
    reading = Reading(Session.later(shop._start, shop.settings, None), made, "auto")
    with pytest.raises(SourceError, match="nothing"):
        reading.result()
    assert reading.done


def test_a_folder_has_the_columns_and_files_that_spark_finds(spark, tmp_path: Path) -> None:
    by_spark, by_arrow = tmp_path / "spark", tmp_path / "arrow"
    spark.sql(f"SELECT * FROM VALUES ({ROW.format(k=1)}), ({ROW.format(k=2)})").write.parquet(str(by_spark))
    by_arrow.mkdir()
    rows = pa.concat_tables([pq.read_table(file) for file in by_spark.glob("*.parquet")])
    fields = [f.with_type(pa.timestamp("us", f.type.tz)) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    rows = rows.cast(pa.schema(fields))
    for name in ("2", "10"):
        pq.write_table(rows.replace_schema_metadata(None), by_arrow / f"{name}.parquet")
    pq.write_table(pa.table({"other": [1]}), by_arrow / "3.parquet")
    for folder in (by_spark, by_arrow):
        frame, found = spark.read.parquet(str(folder)), ParquetFolder(str(folder))
        columns = found.columns()
        assert columns is not None
        assert supported_table("t", columns) == supported_table("t", frame.schema)
        assert len(supported_table("t", columns).columns) == len(COLUMNS.split(", "))
        assert found.files() == sources._files(frame)


def test_files_that_spark_does_not_see_are_no_files_of_a_folder(spark, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    names = ("1.parquet", "_2.parquet", ".3.parquet", "4.parquet._COPYING_", "_5=6.parquet", "_SUCCESS")
    for name in ("_temporary/7.parquet", *names):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(pa.table({"a": [1]}), folder / name)
    found = ParquetFolder(str(folder)).files()
    assert found == sources._files(spark.read.parquet(str(folder)))
    assert found is not None
    assert sorted(name.rpartition("/")[2] for name in found) == ["1.parquet", "_5=6.parquet"]
    (folder / "_p=1").mkdir()
    assert ParquetFolder(str(folder)).files() is None, "a partition"


def test_what_is_no_plain_folder_is_left_to_spark(spark, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS a, 2 AS p").write.partitionBy("p").parquet(str(tmp_path / "parts"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "summed").mkdir()
    pq.write_metadata(pa.schema([("a", pa.int64())]), tmp_path / "summed" / "_common_metadata")
    (tmp_path / "strange ").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "strange " / "1.parquet")
    (tmp_path / "fine").mkdir()
    pq.write_table(pa.table({"a": pa.array([1], pa.timestamp("ns"))}), tmp_path / "fine" / "1.parquet")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "1.parquet").write_text("a")
    for name in ("parts", "empty", "summed", "strange ", "fine", "text", "none"):
        assert ParquetFolder(str(tmp_path / name)).columns() is None, name
    for name in ("parts", "summed", "strange ", "none"):
        assert ParquetFolder(str(tmp_path / name)).files() is None, name


_PLAIN = """
import sys
from crown.commands.main import main
assert main(["pipelines", "run", sys.argv[1]]) == 0
print(*sorted({"pandas", "numba", "sqlglot", "pyarrow.dataset"} & set(sys.modules)))
"""


def test_a_run_over_files_loads_no_pandas_and_no_parser(shop: Shop) -> None:
    specification = shop.folder / "spark-pipeline.yml"
    specification.write_text(specification.read_text().replace("  crown.source.orders: delta:orders\n", ""))
    (shop.folder / "views.sql").write_text(
        "CREATE MATERIALIZED VIEW sizes AS SELECT label, COUNT(*) AS n FROM labels GROUP BY label;"
        "CREATE MATERIALIZED VIEW numbers AS SELECT LENGTH(label) AS k, COUNT(*) AS n FROM labels GROUP BY 1"
    )
    shop.pipeline().run()
    shop.label("b")
    done = subprocess.run([sys.executable, "-c", _PLAIN, shop.folder], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert {"view sizes  +1 -0", "view numbers  +1 -1"} <= {*lines}
    assert set(lines[-1].split()) <= {"numba"}, "which is loaded where no library of kernels was built"
