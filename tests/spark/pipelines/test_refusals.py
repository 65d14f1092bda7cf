"""What a pipeline refuses before it does anything, and what it says of a view that Spark computes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import crown
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline
from tests.spark.pipelines.shop import table


@pytest.mark.parametrize("name", ["", "../x", "a.b", None])
def test_a_name_that_is_none_is_refused(spark, tmp_path: Path, name: Any) -> None:
    with pytest.raises(SourceError, match="is not a name of a view"):
        crown.spark.pipeline(spark, tmp_path).view(name, "SELECT 1 AS x")


def test_a_place_among_the_tables_of_the_pipeline_is_refused(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path / "p")
    for name in ("v", "w", "x/.."):
        with pytest.raises(SourceError, match="folder of the pipeline's own tables"):
            made.view("v", "SELECT 1 AS x", into=str(tmp_path / "p" / "tables" / name))


def test_a_source_that_the_catalog_does_not_take_is_refused(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path)
    made.source("r", "no.such.table.at.all")
    made.view("v", "SELECT * FROM r")
    with pytest.raises(SourceError, match="source r cannot be read"):
        made.run()


def test_a_run_after_one_that_was_refused_takes_other_columns(spark, tmp_path: Path) -> None:
    refused = crown.spark.pipeline(spark, tmp_path)
    refused.source("r", lambda: spark.range(3))
    refused.view("bag", "SELECT id % 2 AS x FROM r", into="kafka://127.0.0.1:1/t")
    with pytest.raises(SourceError, match="have no key, which kafka"):
        refused.run()
    made = crown.spark.pipeline(spark, tmp_path)
    made.source("r", lambda: spark.range(3).selectExpr("id", "id + 1 AS n"))
    made.view("bag", "SELECT n FROM r")
    report = made.run()
    assert (report.version, report.changed) == (1, {"bag": (3, 0)})
    assert made.run().version == 1


def test_a_run_says_what_spark_took_for_a_view(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path)
    made.source("r", lambda: spark.range(3))
    made.view("kept", "SELECT id FROM r")
    made.view("computed", "SELECT id, rand() < 2 AS always FROM r")
    report = made.run()
    assert list(report.computed) == ["computed"]
    assert 0 < report.computed["computed"] <= report.seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "CREATE MATERIALIZED VIEW a AS SELECT * FROM b; CREATE MATERIALIZED VIEW b AS SELECT * FROM a",
            "reads itself",
        ),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT * FROM nowhere",
            "a.sql:1: a: there is no table or view nowhere: .*crown.source.nowhere",
        ),
        ("CREATE MATERIALIZED VIEW `a b` AS SELECT 1 AS x", "a.sql:1: 'a b' is not a name of a view"),
        (
            "CREATE MATERIALIZED VIEW a AS SELECT 1 AS x; CREATE MATERIALIZED VIEW A AS SELECT 2 AS x",
            "two views called",
        ),
        ("CREATE STREAMING TABLE a AS SELECT * FROM STREAM(b)", "a.sql:1: a: there is no table or view b"),
        ("CREATE STREAMING TABLE a AS SELECT 1 AS x", "the streaming table a is not defined by a stream"),
        (
            "CREATE STREAMING TABLE a; CREATE FLOW f AS INSERT INTO a BY NAME SELECT 1 AS x",
            "is not defined by a stream",
        ),
        (
            "CREATE FLOW f AS INSERT INTO a BY NAME SELECT * FROM STREAM b",
            "the flow f writes to a, which is not a table of the project",
        ),
        (
            "CREATE STREAMING TABLE a; CREATE FLOW f AS AUTO CDC INTO a FROM STREAM(b) KEYS (k) SEQUENCE BY v "
            "STORED AS SCD TYPE 2",
            "a.sql:1: the flow f stores SCD type 2, a history of each key",
        ),
        ("\nDROP TABLE x", "a.sql:2: a project has CREATE MATERIALIZED VIEW"),
        ("CREATE MATERIALIZED VIEW a AS SELEC 1", "a.sql:1"),
    ],
)
def test_a_project_that_cannot_be_run_is_refused_with_the_place(spark, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: s\nlibraries: [{glob: {include: a.sql}}]\n")
    (tmp_path / "a.sql").write_text(text)
    with pytest.raises(crown.CrownError, match=said):
        Pipeline.of(spark, Project.of(tmp_path)).plan()


def test_a_definition_that_asks_a_session_from_outside_of_it_is_refused_with_what_to_do(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path)
    made.view("one", "SELECT 1 AS x")
    made.view("two", lambda: spark.table("one"))
    with pytest.raises(SourceError, match=r"view two: one is not in the session .*SparkSession\.active\(\) in the"):
        made.plan()


@pytest.mark.parametrize("session", ["spark", "SparkSession.active()", "SparkSession.builder.getOrCreate()"])
def test_a_session_that_a_file_of_a_project_keeps_has_views_and_sources(spark, tmp_path: Path, session: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: p\nstorage: s\nlibraries: [{glob: {include: v/**}}]\nconfiguration: {crown.source.r: parquet:r}\n"
    )
    (tmp_path / "v").mkdir()
    spark.range(3).write.parquet(str(tmp_path / "r"))
    (tmp_path / "v" / "a.sql").write_text("CREATE MATERIALIZED VIEW one AS SELECT id + 1 AS x FROM r")
    (tmp_path / "v" / "b.py").write_text(
        "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\n"
        f"outer = {session}\nouter.conf.get('spark.sql.session.timeZone')\n"
        "@dp.materialized_view\ndef two():\n    return outer.table('one').join(outer.table('r').where('id = 1'))\n"
        "@dp.materialized_view\ndef three():\n    return outer.sql('SELECT x, rand() < 2 AS y FROM two')\n"
    )
    Pipeline.of(spark, Project.of(tmp_path)).run()
    assert table(tmp_path / "s" / "tables" / "three") == Counter((x, True) for x in (1, 2, 3))
    assert SparkSession.active() is not None
    assert type(SparkSession.active()) is SparkSession


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = y", r"a\.py: NameError: name 'y' is not defined"),
        ("@dp.materialized_view\ndef v():\n    return {}['x']\n", r"a\.py:2: v: KeyError: 'x'"),
    ],
)
def test_what_a_file_or_function_of_a_project_raises_is_said_in_a_line(
    spark, tmp_path: Path, code: str, said: str
) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: s\nlibraries: [{glob: {include: a.py}}]\n")
    (tmp_path / "a.py").write_text(f"from pyspark import pipelines as dp\n{code}")
    with pytest.raises(SourceError, match=said):
        Pipeline.of(spark, Project.of(tmp_path)).plan()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("storage: s", "lacks the field name"),
        ("name: p\nstorage: s\ncolour: red", "unknown field colour"),
        ("name: p\nstorage: s3://b/p", "local folder"),
        ("name: p\nstorage: s\nlibraries: [a.sql]", "write libraries:"),
        (": :", "is not YAML"),
    ],
)
def test_a_specification_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(text)
    with pytest.raises(crown.ProjectError, match=said):
        Project.of(tmp_path)
    with pytest.raises(crown.ProjectError, match=r"has neither spark-pipeline\.yml nor dbt_project\.yml"):
        Project.of(tmp_path / "..")


def test_a_view_that_cannot_be_maintained_is_refused_if_that_is_wanted(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path / "state", refresh="incremental")
    made.source("r", lambda: spark.range(3))
    made.view("v", "SELECT id, BIT_OR(id) OVER (ORDER BY id) AS k FROM r WHERE rand() < 2")
    with pytest.raises(crown.PlanError, match=r"view v cannot be maintained: "):
        made.run()
    assert not (tmp_path / "state").exists()
