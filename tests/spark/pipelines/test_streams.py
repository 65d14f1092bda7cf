"""Streaming tables: a pipeline reads each row of a stream once, whatever dies. Oracle: the rows that were written."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import types as T

import crown
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.inputs import declared
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.state import PipelineState
from tests.spark.pipelines.shop import Died, connect, dies, table

PYTHON = """
from pyspark import pipelines as dp

@dp.table
def {name}():
    return spark.readStream.schema("k long").json("{folder}")
"""


class Rows:
    """A folder of JSON files, to which rows are added."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.rows = spark, folder, Counter[int]()
        folder.mkdir()

    def add(self, *rows: int) -> None:
        self.rows.update(rows)
        text = "".join(json.dumps({"k": k}) + "\n" for k in rows)
        (self.folder / f"{self.rows.total()}.json").write_text(text)

    def stream(self) -> DataFrame:
        return self.spark.readStream.schema("k long").json(str(self.folder))


@pytest.fixture
def rows(spark, tmp_path: Path) -> Rows:
    made = Rows(spark, tmp_path / "in")
    made.add(1, 1, 2)
    return made


def test_a_run_takes_what_a_stream_has_and_each_row_once(rows: Rows, tmp_path: Path) -> None:
    def pipeline() -> Pipeline:
        made = crown.spark.pipeline(rows.spark, tmp_path / "state")
        made.source("R", rows.stream().where("k > 0"))
        made.view("n", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
        return made

    def check() -> None:
        assert table(tmp_path / "state" / "tables" / "n") == Counter(rows.rows.items())

    assert [step.how for step in pipeline().plan()] == ["incremental"]
    assert not (tmp_path / "state").exists(), "a plan reads nothing"
    assert pipeline().run().read["r"][0] == 3
    check()
    assert pipeline().run().read["r"] == (0, "no new file")
    rows.add(2, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PipelineState, "commit", dies(PipelineState.commit, 0, True))
        with pytest.raises(Died):
            pipeline().run()
    rows.add(3)
    pipeline().run()
    check()
    rows.add(4)
    pipeline().full_refresh()
    check()
    (rows.folder / "3.json").unlink()  # the streaming table keeps its rows
    pipeline().full_refresh()
    check()


def test_a_stream_that_has_nothing_yet_is_empty(rows: Rows, tmp_path: Path) -> None:
    made = crown.spark.pipeline(rows.spark, tmp_path / "state")
    made.source("r", rows.stream().where("k > 5"))
    made.view("v", "SELECT COUNT(*) AS n FROM r")
    made.run()
    assert table(tmp_path / "state" / "tables" / "v") == Counter([(0,)])
    rows.add(7)
    made.run()
    assert table(tmp_path / "state" / "tables" / "v") == Counter([(1,)])


def test_a_column_of_a_stream_that_changes_its_type_is_refused_before_a_row_is_read(rows: Rows, tmp_path: Path) -> None:
    def pipeline(columns: str) -> Pipeline:
        made = crown.spark.pipeline(rows.spark, tmp_path / "state")
        stream = rows.spark.readStream.schema(columns).option("mode", "FAILFAST").json(str(rows.folder))
        made.source("R", stream)
        made.view("n", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
        return made

    pipeline("k int").run()
    rows.add(2, 3)
    with pytest.raises(
        SourceError, match=r"^source R: k was int, and is string now\. .*: declare int, or add a column"
    ):
        pipeline("k string").run()
    (rows.folder / "bad.json").write_text('{"k": 1, "more": "x"}\n')
    with pytest.raises(SourceError, match="source R cannot be read"):
        pipeline("k long, more int").run()  # no row was written, so the declaration can be corrected
    rows.rows.update([1])
    pipeline("k long, more string").run()
    assert table(tmp_path / "state" / "tables" / "n") == Counter(rows.rows.items())
    pipeline("k long").run()
    with pytest.raises(SourceError, match="source R: more was string, and is int now"):
        pipeline("k long, more int").run()
    rows.add(7)
    pipeline("k long").run()
    assert table(tmp_path / "state" / "tables" / "n") == Counter(rows.rows.items())


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("array<int>", "array<bigint>"),
        ("struct<a:int>", "struct<a:bigint,b:string>"),
        ("map<string,float>", "map<string,double>"),
        ("decimal(5,2)", "decimal(30,2)"),
        ("smallint", "int"),
    ],
)
def test_wider_types_are_those_with_which_spark_reads_the_rows(spark, tmp_path: Path, before: str, now: str) -> None:
    old, new = (T.StructType.fromDDL(f"x {type_}")["x"].dataType for type_ in (before, now))
    assert declared._fits(old, old)
    assert declared._fits(old, new)
    assert not declared._fits(new, old) or before.startswith("struct")
    assert not declared._fits(old, T.StringType())
    value = {"a": "array(1)", "s": "named_struct('a', 1)", "m": "map('a', 1)", "d": "1"}.get(before[0], "1")
    value = "1" if before == "smallint" else value
    spark.sql(f"SELECT CAST({value} AS {before}) AS x").write.parquet(str(tmp_path / "rows"))
    assert spark.read.schema(f"x {now}").parquet(str(tmp_path / "rows")).collect()[0].x is not None


def test_a_stream_that_does_not_only_append_is_refused(rows: Rows, tmp_path: Path) -> None:
    made = crown.spark.pipeline(rows.spark, tmp_path / "state")
    made.source("r", rows.stream().groupBy("k").count())
    made.view("v", "SELECT * FROM r")
    with pytest.raises(SourceError, match=r"source r cannot be read \(.*[Aa]ppend"):
        made.run()


def test_streaming_tables_of_a_project_are_sources_of_its_views(rows: Rows, tmp_path: Path) -> None:
    spark = rows.spark
    (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: s\nlibraries: [{glob: {include: v/**}}]\n")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "a.py").write_text(PYTHON.format(name="one", folder=rows.folder))
    spark.sql("CREATE TABLE of_streams (k BIGINT) USING parquet")
    try:
        (tmp_path / "v" / "b.sql").write_text(
            "CREATE STREAMING TABLE two AS SELECT k + 1 AS k FROM STREAM(of_streams);"
            "CREATE MATERIALIZED VIEW pairs AS SELECT one.k, two.k AS l FROM one JOIN two ON one.k = two.k;"
        )
        for k in (1, 2, 1):
            spark.sql(f"INSERT INTO of_streams VALUES ({k})")
            rows.add(k)
            Pipeline.of(spark, Project.of(tmp_path)).run()
            more = Counter(row.k + 1 for row in spark.table("of_streams").collect())
            wanted = Counter({(k, k): n * more[k] for k, n in rows.rows.items() if more[k]})
            assert table(tmp_path / "s" / "tables" / "pairs") == wanted
    finally:
        spark.sql("DROP TABLE of_streams")
    (tmp_path / "v" / "b.sql").write_text("CREATE MATERIALIZED VIEW ONE AS SELECT 1 AS x")
    with pytest.raises(SourceError, match="there are two views called"):
        Pipeline.of(spark, Project.of(tmp_path))


class Folder:
    """A project with a streaming table of a folder of JSON files, which is in the project or elsewhere."""

    def __init__(self, spark, folder: Path, files: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, files
        files.mkdir(parents=True)
        folder.mkdir(exist_ok=True)
        where = files.relative_to(folder) if files.is_relative_to(folder) else files
        (folder / "spark-pipeline.yml").write_text(
            "name: p\nstorage: storage\nlibraries: [{glob: {include: v.sql}}]\nconfiguration:\n"
            f'  crown.source.r: "json:{where}?columns=k BIGINT"\n'
        )
        (folder / "v.sql").write_text(
            "CREATE STREAMING TABLE t AS SELECT k FROM STREAM(r);"
            "CREATE MATERIALIZED VIEW n AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
        )

    def add(self, k: int, days: int = 0) -> None:
        file = self.files / f"{k}.json"
        file.write_text(json.dumps({"k": k}))
        os.utime(file, ns=(time.time_ns() - days * 86_400 * 10**9,) * 2)

    def run(self, folder: Path | None = None) -> Counter:
        where = self.folder if folder is None else folder
        Pipeline.of(self.spark, Project.of(where)).run()
        return table(where / "storage" / "tables" / "n")


def test_a_file_counts_however_old_it_is(spark, tmp_path: Path) -> None:
    made = Folder(spark, tmp_path / "p", tmp_path / "in")
    made.add(1)
    made.run()
    made.add(2, days=400)
    assert made.run() == Counter([(1, 1), (2, 1)])


def test_a_project_that_was_copied_or_moved_has_all_rows_of_its_streams(spark, tmp_path: Path) -> None:
    made = Folder(spark, tmp_path / "p", tmp_path / "in")
    made.add(1)
    made.run()
    shutil.copytree(tmp_path / "p", tmp_path / "copy")
    made.add(2)
    assert made.run() == Counter([(1, 1), (2, 1)])
    assert made.run(tmp_path / "copy") == Counter([(1, 1), (2, 1)])
    (tmp_path / "p").rename(tmp_path / "moved")
    made.add(3)
    assert made.run(tmp_path / "moved") == made.run(tmp_path / "copy") == Counter([(1, 1), (2, 1), (3, 1)])


def test_a_stream_whose_files_were_moved_says_how_to_go_on(spark, tmp_path: Path) -> None:
    made = Folder(spark, tmp_path / "p", tmp_path / "p" / "in")
    made.add(1)
    made.run()
    moved = (tmp_path / "p").rename(tmp_path / "moved")
    said = (
        rf"of {tmp_path}/p/in, and now reads {tmp_path}/moved/in: name the old folder, or delete the folder streams/t "
    )
    with pytest.raises(SourceError, match=said):
        made.run(moved)
    shutil.rmtree(moved / "storage" / "streams" / "t")
    assert made.run(moved) == Counter([(1, 1)])


def test_a_file_that_a_stream_cannot_read_is_named(spark, tmp_path: Path) -> None:
    made = Folder(spark, tmp_path / "p", tmp_path / "in")
    made.add(1)
    (tmp_path / "in" / "2.json").write_text('{"k": "x"}')
    with pytest.raises(SourceError, match=rf"^source r: {tmp_path}/in/2.json: row 1: column 'k': 'x' does not"):
        made.run()
    made.add(2)
    assert made.run() == Counter([(1, 1), (2, 1)])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("dp.create_sink('s', 'noop')", r"a\.py:2: s is a sink: write the rows .* with crown\.into\.VIEW"),
        (
            "@dp.append_flow(target='t')\ndef f(): pass",
            r"a\.py:2: the flow f writes to t, which is not a table of the project",
        ),
        ("dp.create_streaming_table('t')", "the streaming table t has no flow"),
        (
            "dp.create_streaming_table('t')\n@dp.append_flow(target='t')\n"
            "def f(): return spark.readStream.format('rate').load().select('value')\n@dp.append_flow(target='t')\n"
            "def g(): return spark.readStream.format('rate').load().select('timestamp')",
            "the flows of the streaming table t have other columns",
        ),
        pytest.param(
            "dp.create_streaming_table('t')\n@dp.append_flow(target='t')\ndef f(): pass\n"
            "dp.create_auto_cdc_flow('t', 's', ['k'], 'v', name='g')",
            "t has another flow, and an AUTO CDC flow is the only one of its table",
            marks=connect,
        ),
        pytest.param(
            "dp.create_streaming_table('t')\ndp.create_auto_cdc_flow('t', 's', ['k'], 'v', stored_as_scd_type=2)",
            "the flow t stores SCD type 2, a history of each key: store type 1",
            marks=connect,
        ),
        pytest.param(
            "from pyspark.sql.functions import col\n"
            "dp.create_streaming_table('t')\ndp.create_auto_cdc_flow('t', 's', ['k'], col('v') + 1)",
            r"an AUTO CDC flow has the expression .*: write it as a text of SQL, or with expr\(\)",
            marks=connect,
        ),
        ("@dp.table\ndef t(): return spark.range(3)", "the streaming table t is not defined by a stream"),
    ],
)
def test_flows_that_a_pipeline_does_not_have_are_refused(spark, tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: s\nlibraries: [{glob: {include: a.py}}]\n")
    (tmp_path / "a.py").write_text(f"from pyspark import pipelines as dp\n{code}")
    with pytest.raises(crown.CrownError, match=said):
        Pipeline.of(spark, Project.of(tmp_path)).plan()


def test_rows_that_are_deleted_from_the_files_of_a_stream_are_nowhere_after_a_full_refresh(
    spark, tmp_path: Path
) -> None:
    made = Folder(spark, tmp_path / "p", tmp_path / "p" / "in")
    name = "A long name of a person"
    (made.folder / "spark-pipeline.yml").write_text(
        (made.folder / "spark-pipeline.yml").read_text().replace("k BIGINT", "k STRING")
    )
    (made.files / "1.json").write_text(json.dumps({"k": name}) + "\n" + json.dumps({"k": "another"}))
    assert made.run() == Counter([(name, 1), ("another", 1)])
    (made.files / "1.json").write_text(json.dumps({"k": "another"}))
    for file in (made.folder / "storage" / "streams" / "t" / "rows").glob("*.parquet"):
        rows = pq.read_table(file)
        pq.write_table(rows.filter(pc.not_equal(rows["k"], name)), file)
        file.with_name(f".{file.name}.crc").unlink()
    assert made.run() == Counter([("another", 1)])
    Pipeline.of(spark, Project.of(made.folder)).full_refresh()
    assert made.run() == Counter([("another", 1)])
    for file in made.folder.rglob("*"):
        assert file.is_dir() or name.encode() not in file.read_bytes(), file
        assert file.suffix != ".parquet" or name not in str(pq.read_table(file).to_pydict()), file
