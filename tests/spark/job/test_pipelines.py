"""A change table of ``maintain`` in a Declarative Pipeline, defined as in docs/howto/pipelines.md. Oracle: DuckDB."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

from spark_jobs import maintain
from tests.spark.streams import ChangeFiles, batch_of, oracle_of

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "pipelines.md"
SALES = {"sales": {"shop": "string", "amount": "int64"}}
SQL = "SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop"
SPEC = "name: crown\nstorage: file://{0}/storage\nlibraries:\n  - glob:\n      include: definitions/**\n"


def definitions():
    """The blocks of the page that define a pipeline."""
    return [
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "import pipelines" in block
    ]


class Pipeline:
    """A pipeline in a folder, with a definition of the page."""

    def __init__(self, folder, definition):
        self.folder = folder
        (folder / "definitions").mkdir(parents=True)  # the change table is beside the folder
        text = definition.replace('"totals_changes")\n', f'"{folder.parent}/totals_changes")\n')
        (folder / "definitions" / "all.py").write_text(text)
        (folder / "spec.yml").write_text(SPEC.format(folder))

    def run(self):
        """Runs it once; returns how it ended, and what it said."""
        home = Path(pyspark.__file__).parent
        command = [home / "bin" / "spark-pipelines", "run", "--spec", self.folder / "spec.yml"]
        command += ["--conf", "spark.ui.enabled=false"]
        found = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        told = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env={**os.environ, **found, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return told.returncode, told.stdout + told.stderr

    def rows(self):
        """The rows of its table ``totals``, which is where Spark puts tables by itself: under the folder it ran in."""
        columns = ds.dataset(self.folder / "spark-warehouse" / "totals", format="parquet").to_table(["shop", "total"])
        return Counter(zip(*(column.to_pylist() for column in columns.columns), strict=True))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs pip install 'pyspark[pipelines]'")
def test_a_pipeline_follows_the_change_table(spark, tmp_path):
    """And AutoCDC names what is in its way: the day it does not, the page has to change."""
    rng, files, oracle = random.Random(1), ChangeFiles(tmp_path / "in", SALES), oracle_of(SALES, SQL)
    by_view, by_key = definitions()
    for number in range(2):  # each pipeline is new: Spark's own catalog forgets its tables with the process
        for _ in range(2):
            batch = {"sales": [(rng.choice("abcd"), rng.randrange(9), rng.choice((1, 1, -1))) for _ in range(9)]}
            files.add(batch)
            oracle.apply(batch_of(batch))
        deltas = maintain(
            spark,
            SQL,
            files.frames(spark),
            checkpoint=str(tmp_path / "state"),
            schema=SALES,
            emit="cdc",
            key=["shop"],
        )
        writer = deltas.writeStream.format("parquet").option("path", str(tmp_path / "totals_changes"))
        writer.option("checkpointLocation", str(tmp_path / "state")).trigger(
            availableNow=True
        ).start().awaitTermination()
        pipeline = Pipeline(tmp_path / f"pipeline{number}", by_view)
        code, said = pipeline.run()
        assert code == 0, said[-3000:]
        assert pipeline.rows() == oracle.result
    code, said = Pipeline(tmp_path / "by key", by_key).run()
    assert code != 0
    assert "[AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE]" in said, said[-3000:]
