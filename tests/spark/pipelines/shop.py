"""A project of views over two tables that change, and processes that end in the midst of it."""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from duckdb import DuckDBPyConnection
from pyarrow.dataset import dataset

from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline
from tests.oracles import duck

connect = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs pip install 'pyspark[connect]'")
"""``create_auto_cdc_flow`` of PySpark imports Spark Connect."""
SQL = """
CREATE MATERIALIZED VIEW big AS SELECT * FROM totals WHERE total > 10; -- before what it reads
CREATE MATERIALIZED VIEW totals COMMENT 'by shop' AS
SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop;
CREATE MATERIALIZED VIEW ranks AS SELECT shop, RANK() OVER (ORDER BY total DESC, shop) AS k FROM totals;
CREATE MATERIALIZED VIEW running AS SELECT shop, SUM(total) OVER (ORDER BY shop) AS up_to FROM totals;
CREATE MATERIALIZED VIEW counted AS SELECT shop, BIT_OR(n) OVER (ORDER BY shop) AS bits FROM totals WHERE rand() < 2;
CREATE MATERIALIZED VIEW quiet AS
SELECT s.city FROM {shops} s WHERE NOT EXISTS (SELECT 1 FROM {sales} x WHERE x.shop = s.shop);
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

@dp.temporary_view
def named():
    return spark.table("{sales}").join(spark.table("{shops}"), "shop")

@dp.materialized_view(name="by_city")
def cities():
    return SparkSession.active().table("named").groupBy("city").agg(F.sum("amount").alias("amount"))
"""
BY_CITY = """
CREATE MATERIALIZED VIEW by_city AS
SELECT city, SUM(amount) AS amount FROM {sales} JOIN {shops} USING (shop) GROUP BY city;
"""
"""What the functions mean, in SQL."""
RECOMPUTED = {
    "totals": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop",
    "big": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM {sales} GROUP BY shop HAVING total > 10",
    "ranks": "SELECT shop, RANK() OVER (ORDER BY total DESC, shop) AS k "
    "FROM (SELECT shop, SUM(amount) AS total FROM {sales} GROUP BY shop)",
    "running": "SELECT shop, SUM(total) OVER (ORDER BY shop) AS up_to "
    "FROM (SELECT shop, SUM(amount) AS total FROM {sales} GROUP BY shop)",
    "counted": "SELECT shop, BIT_OR(n) OVER (ORDER BY shop) AS bits "
    "FROM (SELECT shop, COUNT(*) AS n FROM {sales} GROUP BY shop)",
    "quiet": "SELECT s.city FROM {shops} s WHERE NOT EXISTS (SELECT 1 FROM {sales} x WHERE x.shop = s.shop)",
    "by_city": "SELECT city, SUM(amount) AS amount FROM {sales} JOIN {shops} USING (shop) GROUP BY city",
}
SHOPS = "abcde"
CREATE = "CREATE MATERIALIZED VIEW"


class Shop:
    """A project in a folder, and two tables of the catalog that change."""

    def __init__(self, spark, folder: Path, name: str) -> None:
        self.spark = spark
        self.names = {"sales": f"sales_{name}", "shops": f"shops_{name}"}
        self.folder = folder
        (folder / "transformations").mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(
            "name: shop\nstorage: storage\nlibraries: [{glob: {include: transformations/**}}]\n"
        )
        self.define("a.sql", SQL)
        self.define("b.py", PYTHON)
        self.columns = {
            "sales": {"shop": pa.string(), "amount": pa.int64()},
            "shops": dict.fromkeys(("shop", "city"), pa.string()),
        }
        self.written = 0
        spark.sql(f"CREATE TABLE {self.names['sales']} (shop STRING, amount BIGINT) USING parquet")
        spark.sql(f"CREATE TABLE {self.names['shops']} (shop STRING, city STRING) USING parquet")

    def define(self, file: str, text: str) -> None:
        for name, table in self.names.items():
            text = text.replace(f"{{{name}}}", table)
        (self.folder / "transformations" / file).write_text(text)

    def change(self, source: random.Random) -> None:
        """Adds sales, and perhaps replaces the shops."""
        self._write("sales", [(source.choice(SHOPS), source.randrange(-5, 20)) for _ in range(4)])
        if source.random() < 0.6:
            kept = source.sample(SHOPS, source.randrange(1, 5))
            for file in self._place("shops").glob("*.parquet"):
                file.unlink()
            self._write("shops", [(shop, source.choice("XYZ")) for shop in kept])

    def _write(self, name: str, rows: list[tuple[object, ...]]) -> None:
        """Adds a file to a table, as a process without Spark does: a job of Spark takes ten times as long."""
        columns, self.written = self.columns[name], self.written + 1
        made = [dict(zip(columns, row, strict=False)) for row in rows]
        pq.write_table(
            pa.Table.from_pylist(made, pa.schema([*columns.items()])), self._place(name) / f"{self.written}.parquet"
        )
        self.spark.catalog.refreshTable(self.names[name])

    def add_column(self, name: str) -> None:
        """Gives the shops another column."""
        self.spark.sql(f"ALTER TABLE {self.names['shops']} ADD COLUMN {name} INT")
        self.columns["shops"][name] = pa.int32()

    def _place(self, name: str) -> Path:
        """The folder of a table of Spark's."""
        return Path(self.spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / self.names[name]

    def pipeline(self) -> Pipeline:
        return Pipeline.of(self.spark, Project.of(self.folder))

    def check(self) -> None:
        with self.holding() as cursor:
            self.compare(lambda text: cursor.execute(text).fetchall())

    def holding(self) -> AbstractContextManager[DuckDBPyConnection]:
        """A cursor of DuckDB that reads the tables."""
        return duck.holding({table: self._rows(name) for name, table in self.names.items()})

    def compare(self, computed: Callable[[str], Iterable[Iterable[object]]]) -> None:
        """Compares every table of a view with the rows that ``computed`` has of its query."""
        for view, text in RECOMPUTED.items():
            wanted = Counter(map(tuple, computed(text.format(**self.names))))
            assert table(self.folder / "storage" / "tables" / view) == wanted, view

    def _rows(self, name: str) -> pa.Table:
        """The rows of a table of Spark's, from its files."""
        schema = pa.schema([*self.columns[name].items()])
        return dataset(sorted(map(str, self._place(name).glob("*.parquet"))), schema=schema).to_table()


def table(folder: Path) -> Counter[tuple[object, ...]]:
    """The rows of a Delta table, as often as its column _count says."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in DeltaTable(str(folder)).to_pyarrow_table().to_pylist():
        copies = row.pop("_count", 1)
        found[tuple(row.values())] += copies
    return found


@pytest.fixture
def shop(spark, tmp_path: Path, request: pytest.FixtureRequest):
    name = f"t{abs(hash(request.node.nodeid)) % 10**8}"
    made = Shop(spark, tmp_path / "project", name)
    yield made
    for known in made.names.values():
        spark.sql(f"DROP TABLE {known}")


class Died(BaseException):
    """The process is gone."""


def dies(function, calls: int, before: bool = False):
    """The function, which ends the process at its call number ``calls``."""
    made = []

    def wrapped(*args, **kwargs):
        made.append(1)
        last = len(made) > calls
        if last and before:
            raise Died
        result = function(*args, **kwargs)
        if last:
            raise Died
        return result

    return wrapped
