"""Flows of streaming tables: several that append, and AUTO CDC. Oracle: the rows that were written, and a dict."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.state import PipelineState
from tests.spark.pipelines.shop import Died, connect, dies, table

SPECIFICATION = "name: p\nstorage: s\nlibraries: [{glob: {include: v/**}}]\n"
IN_PYTHON = """
from pyspark import pipelines as dp

dp.create_streaming_table("both")

@dp.append_flow(target="both")
def left():
    return spark.readStream.schema("k long, x string").json("{folder}/a")

@dp.append_flow(target="both", name="right")
def other():
    return spark.readStream.schema("x string, k long").json("{folder}/b")
"""
FEED = """
from pyspark import pipelines as dp

@dp.temporary_view
def feed():
    return spark.readStream.schema("k long, v long, op string, at long").json("{folder}/a")
"""
CDC = {
    "python": """
from pyspark.sql import functions as F
dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(
    target="latest", source="feed", keys=[F.col("k")], sequence_by="at", apply_as_deletes=F.expr("op = 'd'"),
    except_column_list=["op", "at"],
)
""",
    "sql": "CREATE STREAMING TABLE latest; CREATE FLOW f AS AUTO CDC INTO latest FROM STREAM(feed) KEYS (k) "
    "APPLY AS DELETE WHEN op = 'd' SEQUENCE BY at COLUMNS * EXCEPT (op, at) STORED AS SCD TYPE 1;",
}
SUM = "CREATE MATERIALIZED VIEW n AS SELECT SUM(v) AS v FROM latest;"


def write(folder: Path, rows: list[dict[str, object]]) -> None:
    folder.mkdir(exist_ok=True)
    number = len(list(folder.iterdir()))
    (folder / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def project_in(folder: Path, python: str, sql: str) -> None:
    (folder / "v").mkdir()
    (folder / "spark-pipeline.yml").write_text(SPECIFICATION)
    (folder / "v" / "a.py").write_text(python.replace("{folder}", str(folder)))
    (folder / "v" / "b.sql").write_text(sql)


def test_two_flows_write_one_streaming_table(spark, tmp_path: Path) -> None:
    project_in(tmp_path, IN_PYTHON, "CREATE MATERIALIZED VIEW n AS SELECT k, x, COUNT(*) AS n FROM both GROUP BY k, x")
    wanted: Counter[tuple[object, ...]] = Counter()
    for number in range(2):
        for folder in ("a", "b"):
            write(tmp_path / folder, [{"k": number, "x": folder}, {"k": 0, "x": "both"}])
            wanted.update([(number, folder), (0, "both")])
        if number == 1:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(PipelineState, "commit", dies(PipelineState.commit, 0, True))
                with pytest.raises(Died):
                    Pipeline.of(spark, Project.of(tmp_path)).run()
        report = Pipeline.of(spark, Project.of(tmp_path)).run()
        assert "whole" not in report.read["both"][1] or number == 0
        assert table(tmp_path / "s" / "tables" / "n") == Counter({(*row, n): 1 for row, n in wanted.items()})


@pytest.mark.parametrize("how", [pytest.param("python", marks=connect), "sql"])
def test_an_auto_cdc_flow_keeps_the_newest_row_of_each_key(spark, tmp_path: Path, how: str) -> None:
    python, sql = (FEED + CDC[how], SUM) if how == "python" else (FEED, CDC[how] + SUM)
    project_in(tmp_path, python, sql)
    rng, order = random.Random(4), list(range(20))
    newest: dict[int, tuple[int, int, str]] = {}
    rng.shuffle(order)  # changes come out of order
    for batch in range(2):
        rows = [(rng.randrange(5), rng.randrange(100), rng.choice("uud"), at) for at in order[10 * batch :][:10]]
        write(tmp_path / "a", [dict(zip(("k", "v", "op", "at"), row, strict=True)) for row in rows])
        for k, v, op, at in rows:
            newest[k] = max(newest.get(k, (-1, 0, "d")), (at, v, op))
        pipeline = Pipeline.of(spark, Project.of(tmp_path))
        assert {step.how for step in pipeline.plan()} == {"incremental"}
        pipeline.run()
        left = Counter((k, v) for k, (_, v, op) in newest.items() if op != "d")
        assert table(tmp_path / "s" / "tables" / "latest") == left
