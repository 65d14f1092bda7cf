"""Sources that a text names: Iceberg, databases, folders. Oracle: the table's own rows, after every change."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import crown
from crown.projects.changes import changes_of_versions, schema_of
from plans.schema import Column, Table
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_versions import DeltaVersions
from spark_jobs.feeds.iceberg_versions import IcebergVersions
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.inputs import sources
from spark_jobs.pipelines.inputs.declared import declared_source, versions_of
from tests.spark.pipelines.shop import table
from tests.spark.pipelines.test_sources import counted

QUERY = "SELECT s, COUNT(*) AS n, SUM(k) AS k FROM r GROUP BY s"


@pytest.fixture
def iceberg(iceberg_catalog: Any):
    """A table of Iceberg in a catalog of pyiceberg's, in SQLite."""
    return iceberg_catalog.create_table("shop.r", pa.schema([("k", pa.int64()), ("s", pa.string())]))


class Rows:
    """An Iceberg table that changes, and what is known of it."""

    table = Table("r", (Column("k", "int64"), Column("s", "string")))

    def __init__(self, made: Any) -> None:
        self.made, self.rng = made, random.Random(5)
        self.known: Counter[tuple[object, ...]] = Counter()
        self.position: Any = None

    def drawn(self, count: int) -> pa.Table:
        ks = [self.rng.randrange(9) for _ in range(count)]
        return pa.table(
            {"k": pa.array(ks), "s": pa.array([self.rng.choice(["a", "b", None]) for _ in ks], pa.string())}
        )

    def change(self) -> None:
        chance = self.rng.random()
        if chance < 0.5:
            self.made.append(self.drawn(4))
        elif chance < 0.8:
            self.made.delete(f"k = {self.rng.randrange(9)}")
        else:
            self.made.overwrite(self.drawn(5))

    def read(self) -> str:
        found = changes_of_versions(versions_of("iceberg:here.shop.r"), self.table, self.position, self.before)
        self.position = found.position
        self.known.update(counted(found.rows))
        truth = counted(self.made.refresh().scan(selected_fields=("k", "s")).to_arrow())
        assert {row: n for row, n in self.known.items() if n} == truth, found.how
        return found.how

    def before(self) -> pa.Table:
        rows = [row for row, n in self.known.items() for _ in range(n)]
        schema = schema_of(self.table)
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        return sources.with_weights(pa.table(columns, schema=schema), 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_iceberg_table_is_read_by_its_snapshots(iceberg: Any) -> None:
    rows = Rows(iceberg)
    assert rows.read() == "read in full"
    assert rows.read() == "no new version"
    ways = set()
    for number in range(12):
        for _ in range(rows.rng.randrange(1, 3)):
            rows.change()
        if number == 6:
            with iceberg.update_schema() as update:
                from pyiceberg.types import LongType

                update.add_column("more", LongType())
        ways.add(rows.read())
    assert all("files added" in way or way == "no new version" for way in ways), ways
    first = rows.position["version"]
    rows.change()
    iceberg.append(rows.drawn(1))
    assert versions_of("iceberg:here.shop.r").lag(first)["versions"] >= 1
    iceberg.maintenance.expire_snapshots().by_id(first).commit()
    assert rows.read() == "read in full and compared"


def test_views_of_an_iceberg_table_are_kept(spark, tmp_path: Path, iceberg: Any) -> None:
    made = crown.spark.pipeline(spark, tmp_path / "state")
    made.source("r", "iceberg:here.shop.r")
    made.view("v", QUERY)
    made.view("w", "SELECT s, BIT_OR(n) OVER (ORDER BY s) AS bits FROM v WHERE rand() < 2")
    iceberg.append(pa.table({"k": [1, 2, 3], "s": ["a", "b", "a"]}))
    made.run()
    iceberg.append(pa.table({"k": [4], "s": ["b"]}))
    assert made.status()["sources"]["r"]["behind"]["versions"] == 1
    assert made.run().read["r"] == (1, "1 files added, 0 removed")
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 2, 4), ("b", 2, 6)])
    for name, said in (
        ("here.shop.none", "cannot be read"),
        ("here.r", "write iceberg:CATALOG"),
        ("no.shop.r", "cannot"),
    ):
        with pytest.raises(SourceError, match=said):
            declared_source(Session.of(spark), "r", f"iceberg:{name}").read()


def test_columns_of_a_table_with_versions_cost_no_read_of_it(spark, tmp_path: Path, iceberg: Any, monkeypatch) -> None:
    deltalake.write_deltalake(tmp_path / "d", pa.table({"k": [1]}))

    def read(*_: object) -> None:
        raise AssertionError("the rows are read")

    for of in (DeltaVersions, IcebergVersions):
        monkeypatch.setattr(of, "frame", read)
    made = crown.spark.pipeline(spark, tmp_path / "p")
    made.source("t", "iceberg:here.shop.r")
    made.source("d", f"delta:{tmp_path / 'd'}")
    made.view("v", "SELECT t.k FROM t JOIN d ON t.k = d.k")
    assert [step.how for step in made.plan()] == ["incremental"]


def test_a_table_of_a_database_is_compared(spark, tmp_path: Path) -> None:
    url = "jdbc:derby:memory:given;create=true"  # Derby comes with Spark
    (tmp_path / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    text = "name: p\nstorage: storage\nlibraries: [{glob: {include: v.sql}}]\nconfiguration:\n  crown.source.r: "
    (tmp_path / "spark-pipeline.yml").write_text(f"{text}{url} R\n")
    rng, rows = random.Random(2), [(1, "a"), (2, "b")]

    def pipeline():
        from spark_jobs.pipelines.pipeline import Pipeline

        return Pipeline.of(spark, Project.of(tmp_path))

    with pytest.raises(SourceError, match=r"source r cannot be read \(.*'R' does not exist.*\): fix that"):
        pipeline().run()
    for _ in range(2):
        spark.createDataFrame(rows, "k long, s string").write.jdbc(url, "R", "overwrite")
        found = pipeline().run()
        sums = {s: (s, sum(1 for _, t in rows if t == s), sum(k for k, t in rows if t == s)) for _, s in rows}
        assert table(tmp_path / "storage" / "tables" / "v") == Counter(sums.values())
        rows = [row for row in rows if rng.random() < 0.6] + [(rng.randrange(9), rng.choice("abc"))]
    assert found.read["r"][1] == "read in full and compared"
    kept = (tmp_path / "storage" / "crown" / "analysis.json").read_text()
    assert "derby" not in kept, "an address may have a password"
    assert "derby" not in str(pipeline().status())
    with pytest.raises(SourceError, match="write jdbc:URL TABLE"):
        declared_source(Session.of(spark), "r", "jdbc:derby:memory:given")


def test_a_table_of_a_database_with_a_key_has_rows_that_need_no_count(spark, tmp_path: Path) -> None:
    url, rng, rows = "jdbc:derby:memory:keyed;create=true", random.Random(4), {1: "a", 2: "b"}

    def write(found: list[tuple[int, str]]) -> None:
        spark.createDataFrame(found, "k long, s string").write.jdbc(url, "R", "overwrite")

    write(list(rows.items()))
    made = crown.spark.pipeline(spark, tmp_path / "state")
    made.source("r", f"{url} R?key=K")
    made.view("kept", "SELECT k, s FROM r WHERE s <> 'c'")
    made.view("sums", QUERY)
    for _ in range(2):
        made.run()
        wanted = Counter((k, s) for k, s in rows.items() if s != "c")
        assert table(tmp_path / "state" / "tables" / "kept") == wanted
        for k in rng.sample(range(9), 4):
            rows[k] = rng.choice("abc")
        for k in rng.sample(sorted(rows), 2):
            del rows[k]
        write(list(rows.items()))
    names = deltalake.DeltaTable(tmp_path / "state" / "tables" / "kept").schema().fields
    assert [field.name for field in names] == ["k", "s"]
    write([*rows.items(), (7, "x"), (7, "y")])
    with pytest.raises(
        crown.ProjectError, match=r"source r: \d of its rows have k = 7, and \?key= says that no two share it"
    ):
        made.run()
    assert table(tmp_path / "state" / "tables" / "kept") == wanted, "nothing has changed"
    made.source("r", f"{url} R?key=id")
    with pytest.raises(SourceError, match="its key names 'id', but it has: k, s"):
        made.run()
    with pytest.raises(SourceError, match="source r: it names its key twice"):
        made.source("r", f"{url} R?key=k&key=s")
    with pytest.raises(SourceError, match="source r: its key has a column without a name; name its columns"):
        made.source("r", f"{url} R?key=")
    with pytest.raises(SourceError, match="source r: its key names 'K' twice; name each column once"):
        made.source("r", f"{url} R?key=k,K")
    made.source("r", f"{url} R")  # the state begins anew with rows that can repeat
    made.run()
    assert table(tmp_path / "state" / "tables" / "kept").total() == sum(s != "c" for s in rows.values()) + 2


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_folder_is_read_from_its_new_files(spark, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "r"

    def add(*rows: tuple[int, str]) -> None:
        spark.createDataFrame(rows, "k long, s string").coalesce(1).write.format(kind).mode("append").save(str(folder))

    add((1, "a"))
    made = crown.spark.pipeline(spark, tmp_path / "state")
    made.source("r", f"{kind}:{folder}")
    made.view("v", QUERY)
    made.run()
    add((2, "b"), (3, "a"))
    assert made.run().read["r"] == (2, "1 new files")
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 2, 4), ("b", 1, 2)])
    min(folder.glob(f"*.{kind}"), key=lambda file: file.stat().st_mtime_ns).unlink()
    assert made.run().read["r"] == (1, "read in full and compared")
    assert table(tmp_path / "state" / "tables" / "v") == Counter([("a", 1, 3), ("b", 1, 2)])
    (folder / f"x.{kind}").write_bytes(b"no file of that kind, as one is that is being copied")
    said = rf"(the rows of r|source r cannot be read) \(.*x\.{kind}.*\): fix that"  # of ORC, any file says the columns
    with pytest.raises(SourceError, match=said) as failed:
        made.run()
    assert "\n" not in str(failed.value)
    assert "\tat " not in made.status()["error"]["said"]
    with pytest.raises(SourceError, match="source r cannot be read"):
        declared_source(Session.of(spark), "r", f"{kind}:{tmp_path / 'none'}").read()


def test_what_is_no_source_is_said(spark) -> None:
    for given in (7, None):
        with pytest.raises(SourceError, match="give a table, a DataFrame or a function"):
            declared_source(Session.of(spark), "r", given)  # type: ignore[arg-type]
    assert declared_source(Session.of(spark), "r", "db.r").digest is None
