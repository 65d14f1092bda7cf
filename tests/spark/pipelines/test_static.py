"""Static sources: they are read once, and again when that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import crown
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.pipeline import Pipeline
from tests.spark.pipelines.shop import table


def test_a_static_source_is_read_again_when_told(spark, tmp_path: Path) -> None:
    rows: dict[str, list[int]] = {"r": [1, 1, 2], "s": [1, 2]}
    views = {
        "pairs": "SELECT r.k FROM r JOIN s ON r.k = s.k",
        "bits": "SELECT k, BIT_OR(k) OVER (ORDER BY k) AS bits FROM r WHERE rand() < 2",  # by Spark
    }

    def frame(name: str) -> Callable[[], DataFrame]:
        return lambda: spark.createDataFrame([(k,) for k in rows[name]], "k long")

    def pipeline() -> Pipeline:
        made = crown.spark.pipeline(spark, tmp_path / "state")
        for name in rows:
            made.source(name, frame(name), static=name == "r")
        for name, query in views.items():
            made.view(name, query)
        return made

    def check(r: list[int], s: list[int]) -> None:
        pairs = Counter((k,) for k in r for other in s if k == other)
        assert table(tmp_path / "state" / "tables" / "pairs") == pairs
        found = table(tmp_path / "state" / "tables" / "bits")
        assert Counter(row[0] for row in found.elements()) == Counter(r)

    pipeline().run()
    check([1, 1, 2], [1, 2])
    rows |= {"r": [1, 3], "s": [1, 2, 3]}
    assert set(pipeline().run().read) == {"s"}
    check([1, 1, 2], [1, 2, 3])
    assert set(pipeline().refresh("pairs").read) == {"s"}
    report = pipeline().refresh(sources=["R"])
    assert (set(report.read), list(report.computed)) == ({"r"}, ["bits"])
    check([1, 3], [1, 2, 3])
    rows["r"] = [2]
    pipeline().full_refresh()
    check([2], [1, 2, 3])
    with pytest.raises(SourceError, match="no view reads a source called nothing; they read: r, s"):
        pipeline().refresh(sources=["nothing"])
    with pytest.raises(SourceError, match="every run reads new rows of a stream: leave out static=True"):
        pipeline().source("t", spark.readStream.schema("k long").json(str(tmp_path)), static=True)
