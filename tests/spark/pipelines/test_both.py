"""The same project on Spark and in one process: the tables are equal after each run. Oracle: DuckDB."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import crown
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline
from tests.projects.shop import SQL, WANTED, Shop
from tests.spark.pipelines.shop import table


def test_a_project_has_the_same_tables_on_spark_and_in_one_process(spark, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 11)
    for _ in range(3):
        with crown.database(shop.folder) as db:
            db.run()
            db.write_tables()
        shop.check()
        pipeline = Pipeline.of(spark, Project.of(shop.folder))
        assert {step.how for step in pipeline.plan()} == {"incremental"}
        pipeline.run()
        for view in WANTED.keys() - {"clicked"}:
            assert table(tmp_path / "p" / "storage" / "tables" / view) == shop.wanted(view), view
        stored = spark.read.parquet(str(tmp_path / "p" / "storage" / "streams" / "clicked" / "rows"))
        assert sorted(map(tuple, stored.collect())) == sorted(shop.wanted("clicked").elements())
        for source in ("sales", "shops", "clicks"):
            shop.add(source)
        next((shop.folder / "data" / "sales").iterdir()).unlink()


TEXTS = """n,said
1,"x ""q"" y"
2,"one, two"
3,"line
end"
4,""
5,
6,back\\slash
7,"ends in \\"
8,'x'
9, NULL
"""


@pytest.mark.parametrize("stream", [False, True])
def test_texts_of_csv_files_are_the_same_on_spark_and_in_one_process(spark, tmp_path: Path, stream: bool) -> None:
    kind, read = ("STREAMING TABLE", "STREAM(notes)") if stream else ("MATERIALIZED VIEW", "notes")
    texts = {
        "spark-pipeline.yml": "name: p\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\nconfiguration:\n"
        f'  crown.source.notes: "csv:{tmp_path}/notes?columns=n BIGINT, said STRING"\n',
        "views.sql": f"CREATE {kind} kept AS SELECT * FROM {read};\n"
        "CREATE MATERIALIZED VIEW v AS SELECT n, said FROM kept;\n",
    }
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1.csv").write_text(TEXTS)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with crown.database(tmp_path) as db:
        db.run()
        wanted = Counter(tuple(row.values()) for row in db["v"])
    assert wanted.keys() >= {(1, 'x "q" y'), (3, "line\nend"), (4, ""), (5, None)}
    Pipeline.of(spark, Project.of(tmp_path)).run()
    assert table(tmp_path / "storage" / "tables" / "v") == wanted


def test_a_source_that_only_a_stream_reads_is_not_in_the_state(spark, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "p", 3)
    report = Pipeline.of(spark, Project.of(shop.folder)).run()
    assert report.read.keys() == {"sales", "shops", "clicked"}
    shop.define(SQL + "CREATE MATERIALIZED VIEW n_clicks AS SELECT COUNT(*) AS n FROM clicks;")
    report = Pipeline.of(spark, Project.of(shop.folder)).run()
    assert report.read["clicks"][1] == "read in full"
    assert report.read["sales"] == (0, "no new file")
    assert table(tmp_path / "p" / "storage" / "tables" / "n_clicks") == Counter({(len(shop.clicks),): 1})


def test_a_file_that_cannot_be_read_is_named(spark, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1.csv").write_text("n\n1\n")
    (tmp_path / "notes" / "2.csv").write_text("n\nx\n")
    pipeline = crown.spark.pipeline(spark, tmp_path / "state")
    pipeline.source("notes", f"csv:{tmp_path}/notes?columns=n BIGINT")
    pipeline.view("v", "SELECT n FROM notes")
    with pytest.raises(
        crown.errors.ProjectError, match=rf"source notes: {tmp_path}/notes/2.csv: row 1: column 'n': 'x'"
    ):
        pipeline.run()
