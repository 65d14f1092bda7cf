"""The same project on Spark and in one process: the tables are equal after each run. Oracle: DuckDB."""

from __future__ import annotations

from pathlib import Path

import crown
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline
from tests.projects.shop import WANTED, Shop
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
