"""A project of views over folders of files that change; DuckDB computes its views from the same files."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tests.oracles import duck

SPECIFICATION = """
name: shop
storage: storage
libraries: [{glob: {include: transformations/**}}]
configuration:
  crown.source.sales: parquet:data/sales
  crown.source.shops: "csv:data/shops?columns=shop STRING, city STRING"
  crown.source.clicks: "json:data/clicks?columns=shop STRING, n BIGINT"
"""
SQL = """
CREATE MATERIALIZED VIEW big AS SELECT * FROM totals WHERE total > 10; -- before what it reads
CREATE MATERIALIZED VIEW totals COMMENT 'by shop' TBLPROPERTIES ('team' = 'mine') AS
SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop;
CREATE TEMPORARY VIEW named AS SELECT s.amount, t.city FROM sales s JOIN shops t ON s.shop = t.shop;
CREATE MATERIALIZED VIEW by_city AS SELECT city, SUM(amount) AS amount FROM named GROUP BY city;
CREATE STREAMING TABLE clicked AS SELECT shop, n FROM STREAM(clicks) WHERE n > 0;
"""
WANTED = {
    "totals": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop",
    "big": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop HAVING SUM(amount) > 10",
    "by_city": "SELECT city, SUM(amount) AS amount FROM sales JOIN shops USING (shop) GROUP BY city",
    "clicked": "SELECT shop, n FROM clicks WHERE n > 0",
}
SHOPS = "abcde"


class Shop:
    """The project in a folder. ``clicks``: all rows that the stream has ever had."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.random, self._number = folder, random.Random(seed), 0
        self.clicks: list[tuple[str, int]] = []
        for name in ("sales", "shops", "clicks"):
            (folder / "data" / name).mkdir(parents=True)
        (folder / "transformations").mkdir()
        self.specify(SPECIFICATION)
        self.define(SQL)
        for name in ("sales", "shops", "clicks"):
            self.add(name)

    def specify(self, text: str) -> None:
        (self.folder / "spark-pipeline.yml").write_text(text)

    def define(self, text: str) -> None:
        (self.folder / "transformations" / "a.sql").write_text(text)

    def add(self, source: str) -> None:
        """Adds a file to a source."""
        self._number += 1
        self._write(self.folder / "data" / source / f"{self._number}", source)

    def change(self) -> None:
        """Adds, replaces or deletes some files."""
        for source in self.random.sample(("sales", "sales", "shops", "clicks"), 2):
            files = sorted((self.folder / "data" / source).iterdir())
            how = self.random.random()
            if how < 0.5 or len(files) < 2:
                self.add(source)
            elif how < 0.75 and source != "clicks":
                file = self.random.choice(files)
                self._write(file.with_suffix(""), source)
            else:
                self.random.choice(files).unlink()

    def _write(self, file: Path, source: str) -> None:
        rows = [(self.random.choice(SHOPS), self.random.randrange(-3, 9)) for _ in range(self.random.randrange(1, 6))]
        shops, numbers = [shop for shop, _ in rows], [n for _, n in rows]
        if source == "sales":
            pq.write_table(pa.table({"shop": shops, "amount": numbers}), f"{file}.parquet")
        elif source == "shops":
            pacsv.write_csv(pa.table({"shop": shops, "city": [f"c{n}" for n in numbers]}), f"{file}.csv")
        else:
            file.with_suffix(".json").write_text("".join(f'{{"shop": "{shop}", "n": {n}}}\n' for shop, n in rows))
            self.clicks += rows

    def wanted(self, view: str) -> Counter[tuple[object, ...]]:
        data = self.folder / "data"
        sales = pa.concat_tables([pq.read_table(f) for f in (data / "sales").glob("*.parquet")] or [_SALES])
        shops = pa.concat_tables([pacsv.read_csv(f) for f in (data / "shops").glob("*.csv")] or [_SHOPS])
        clicks = pa.table({"shop": [shop for shop, _ in self.clicks], "n": [n for _, n in self.clicks]})
        with duck.holding({"sales": sales, "shops": shops, "clicks": clicks}) as cursor:
            return Counter(cursor.execute(WANTED[view]).fetchall())

    def check(self) -> None:
        """Compares the files of all views with DuckDB's results."""
        tables = self.folder / "storage" / "embedded" / "tables"
        assert {file.stem for file in tables.glob("*.parquet")} == set(WANTED)
        for view in WANTED:
            found = pq.read_table(tables / f"{view}.parquet").to_pylist()
            assert Counter(tuple(row.values()) for row in found) == self.wanted(view), view


_SALES = pa.table({"shop": pa.array([], pa.string()), "amount": pa.array([], pa.int64())})
_SHOPS = pa.table({"city": pa.array([], pa.string()), "shop": pa.array([], pa.string())})
