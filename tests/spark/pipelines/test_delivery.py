"""Several places per view: after every round, and after a run that died, each has the rows of the view once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import crown
from crown.commands.main import main
from crown.durable.database import DurableDatabase
from spark_jobs.errors import ForeignRowsError, SourceError
from spark_jobs.feeds.iceberg_versions import IcebergVersions
from spark_jobs.pipelines.delivery import Delivery
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.state import PipelineState
from spark_jobs.tables.results.iceberg import IcebergResult
from spark_jobs.tables.results.kafka import KafkaResult
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.postgres import PostgresResult
from tests.marks import slow
from tests.spark.pipelines.shop import Died, dies, table
from tests.spark.tables.test_kafka_results import rows as in_kafka

QUERY = "SELECT k, COUNT(*) AS n, SUM(x) AS x FROM r GROUP BY k"


class Places:
    """A pipeline of one view with its own table and further places, over rows that change."""

    def __init__(self, spark, folder: Path, into: list[str]) -> None:
        self.spark, self.folder, self.rng, self.into = spark, folder, random.Random(3), into
        self.rows: list[tuple[int, int]] = []
        self.taken: dict[int, Counter[tuple[Any, ...]]] = {}
        self.change()

    def take(self, frame, version: int) -> None:
        """A place that is a function; it may be called again with the rows of a version."""
        rows = Counter({tuple(row)[:-1]: row["_weight"] for row in frame.collect()})
        assert self.taken.setdefault(version, rows) == rows

    def pipeline(self, query: str = QUERY) -> Pipeline:
        made = crown.spark.pipeline(self.spark, self.folder / "state")
        made.source("r", f"delta:{self.folder / 'r'}")
        made.view("v", query, into=[*self.into, self.take])
        return made

    def change(self) -> None:
        self.rows = [row for row in self.rows if self.rng.random() < 0.7]
        self.rows += [(self.rng.randrange(4), self.rng.randrange(9)) for _ in range(3)]
        ks, xs = zip(*self.rows, strict=True)
        write_deltalake(self.folder / "r", pa.table({"k": ks, "x": xs}), mode="overwrite")

    def expected(self) -> Counter[tuple[Any, ...]]:
        sums: dict[int, tuple[int, int]] = {}
        for k, x in self.rows:
            n, total = sums.get(k, (0, 0))
            sums[k] = n + 1, total + x
        return Counter((k, n, total) for k, (n, total) in sums.items())

    def check(self) -> None:
        expected = self.expected()
        assert table(self.folder / "state" / "tables" / "v") == expected
        summed: Counter[tuple[Any, ...]] = Counter()
        for rows in self.taken.values():
            for row, weight in rows.items():
                summed[row] += weight
        assert {row: n for row, n in summed.items() if n} == expected
        for place in self.into:
            assert self.read(place) == expected, place

    def read(self, place: str) -> Counter[tuple[Any, ...]]:
        if place.startswith("kafka://"):
            address, _, topic = place.removeprefix("kafka://").partition("/")
            return in_kafka(address, topic.partition("?")[0])
        if place.startswith("iceberg:"):
            rows = IcebergVersions(place.removeprefix("iceberg:").partition("?")[0]).frame(self.spark)
            return Counter(tuple(row) for row in rows.select("k", "n", "x").collect())
        if place.startswith("postgresql://"):
            address, _, name = place.partition("?table=")
            with psycopg.connect(address) as connection:
                return Counter(connection.execute(f'SELECT k, n, x FROM "{name}"').fetchall())
        return table(Path(place))


@pytest.fixture
def places(spark, tmp_path: Path, database: str) -> Places:
    return Places(spark, tmp_path, [f"{database}?table={tmp_path.name}", str(tmp_path / "elsewhere")])


STEPS = [
    (DurableDatabase, "apply"),
    (PostgresResult, "apply"),
    (DeltaResult, "apply"),
    (Delivery, "deliver"),
    (PipelineState, "commit"),
]


CASES = [
    (*step, before) if before == (step in STEPS[:2]) else slow(*step, before)
    for step in STEPS
    for before in (True, False)
]


@pytest.mark.parametrize(("of", "name", "before"), CASES)
def test_every_place_has_each_version_once_whateverdies(
    places: Places, monkeypatch, of, name: str, before: bool
) -> None:
    for first in (True, False):  # of the pipeline, too
        with monkeypatch.context() as patch:
            patch.setattr(of, name, dies(getattr(of, name), 0, before))
            with pytest.raises(Died):
                places.pipeline().run()
        if not first:
            places.change()
        places.pipeline().run()
        places.check()
        places.change()


def test_a_place_that_is_added_begins_with_all_rows_and_one_that_is_given_up_stays(places: Places) -> None:
    second = places.into.pop()
    places.pipeline().run()
    places.change()
    places.pipeline().run()
    places.into.append(second)
    assert places.pipeline().run().version == 3, "with no other change"
    assert places.read(second) == places.expected()
    places.change()
    report = places.pipeline().run()
    assert places.read(second) == places.expected()
    given_up, before = places.into.pop(0), places.expected()
    assert sum(report.changed["v"]) < 8, "the changes are told, not all rows"
    places.change()
    places.pipeline().run()
    assert places.read(given_up) == before
    places.into.append(given_up)
    with pytest.raises(ForeignRowsError, match="holds the result of the stream"):
        places.pipeline().run()


def test_what_a_place_cannot_be_is_said_before_anything_is_changed(places: Places, spark) -> None:
    places.pipeline().run()
    with pytest.raises(
        SourceError, match=r"the view v has a new definition, and postgresql://.* has the rows of the old"
    ):
        places.pipeline("SELECT k, COUNT(*) AS n, MAX(x) AS x FROM r GROUP BY k").run()
    places.pipeline().run()
    places.check()
    made = places.pipeline()
    for into, said in (
        (places.into[0], "a view already writes to postgresql://"),
        (f"{places.into[0]}&key=a", "a view already writes to postgresql://"),
        (["iceberg:a.b.c", "iceberg:a.b.c?key=a"], "a view already writes to iceberg:a.b.c"),
        (["kafka://h/t?key=a", "kafka://h/t?key=b"], "a view already writes to kafka://h/t"),
        ([str(places.folder / "t"), str(places.folder / "x" / ".." / "t")], "a view already writes to .*/t"),
        (7, "give a place, a function, or a list of them"),
        ("postgresql://host/database", "a database needs table="),
    ):
        with pytest.raises(SourceError, match=said):
            made.view("w", "SELECT 1 AS a FROM r", into=into)
    other = crown.spark.pipeline(spark, places.folder / "other")
    other.source("r", lambda: spark.createDataFrame(places.rows, "k long, x long"))
    other.view("bag", "SELECT x FROM r", into="kafka://127.0.0.1:1/t")
    with pytest.raises(SourceError, match=r"the rows of bag have no key, which kafka://127.0.0.1:1/t needs"):
        other.run()
    assert not list((places.folder / "other").glob("tables/*"))


@pytest.mark.slow
def test_a_topic_is_one_of_the_places(places: Places, kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places.into.append(f"kafka://{kafka}/places?key=k")
    places.pipeline().run()
    places.check()
    for step in ("_open", "_produce", "_send", "apply"):
        for before in (True, False):
            places.change()
            with monkeypatch.context() as patch:
                patch.setattr(KafkaResult, step, dies(getattr(KafkaResult, step), 0, before))
                with pytest.raises(Died):
                    places.pipeline().run()
            places.pipeline().run()
            places.check()


def test_an_iceberg_table_is_one_of_the_places(places: Places, iceberg_catalog, monkeypatch) -> None:
    places.into[:] = ["iceberg:here.shop.v?key=k"]
    places.pipeline().run()
    places.check()
    for step, before in (("_opened", False), ("_commit", True), ("_commit", False)):
        places.change()
        with monkeypatch.context() as patch:
            patch.setattr(IcebergResult, step, dies(getattr(IcebergResult, step), 0, before))
            with pytest.raises(Died):
                places.pipeline().run()
        places.pipeline().run()
        places.check()
    iceberg_catalog.load_table("shop.v").delete("k >= 0")
    places.change()
    with pytest.raises(ForeignRowsError, match="does not fit what is in"):
        places.pipeline().run()
    for name in ("here.v", "here.shop.v?table=x"):
        with pytest.raises(SourceError, match="write iceberg:CATALOG"):
            places.pipeline().view("w", QUERY, into=f"iceberg:{name}")


def test_a_project_says_where_its_views_go(spark, tmp_path: Path, database: str, capsys) -> None:
    text = "name: p\nstorage: storage\nlibraries: [{glob: {include: v.sql}}]\nconfiguration:\n"
    text += f"  crown.source.r: delta:r\n  crown.into.V: {database}?table=of_a_project copy\n"
    (tmp_path / "spark-pipeline.yml").write_text(text)
    (tmp_path / "v.sql").write_text(f"CREATE TEMPORARY VIEW v AS {QUERY}")
    write_deltalake(tmp_path / "r", pa.table({"k": [1, 1], "x": [2, 3]}))
    assert main(["pipelines", "run", str(tmp_path)]) == 0
    assert table(tmp_path / "copy") == Counter([(1, 2, 5)])
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT k, n, x FROM of_a_project").fetchall() == [(1, 2, 5)]
    assert not (tmp_path / "storage" / "tables" / "v").exists(), "it is temporary"
    (tmp_path / "spark-pipeline.yml").write_text(text.replace("into.V", "into.w"))
    assert main(["pipelines", "run", str(tmp_path)]) == 2
    assert "there is no view called w" in capsys.readouterr().err
