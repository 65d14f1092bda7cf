"""A pipeline whose source and places are tables of a real PostgreSQL. Oracle: PostgreSQL, after every change."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

JAR = Path("/usr/share/java/postgresql.jar")
VIEWS = {
    "totals": "SELECT shop, COUNT(*) AS n, SUM(amount) AS total, MAX(day) AS latest FROM orders GROUP BY shop",
    "kept": "SELECT id, shop, amount, ratio, day, at, paid FROM orders WHERE amount > 50 OR shop IS NULL",
}
KEYS = {"totals": "shop", "kept": "id"}
ROUNDS = 6


class Orders:
    """The table of a shop, which changes by inserts, updates and deletes."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.rng, self.next = connection, random.Random(5), 0
        self.connection.execute("SET TIME ZONE 'UTC'")
        self.connection.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, shop text, amount numeric(10,2), ratio double precision, "
            "day date, at timestamptz, paid boolean, extra int4range)"
        )

    def change(self) -> None:
        for _ in range(20):
            self.next += 1
            values: list[Any] = [self.next, *self.drawn(), "[1,3)"]
            self.connection.execute("INSERT INTO orders VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", values)
        for _ in range(5):
            values = [*self.drawn(), self.rng.randrange(self.next)]
            columns = "shop = %s, amount = %s, ratio = %s, day = %s, at = %s, paid = %s"
            self.connection.execute(f"UPDATE orders SET {columns} WHERE id = %s", values)
            self.connection.execute("DELETE FROM orders WHERE id = %s", [self.rng.randrange(self.next)])

    def drawn(self) -> list[Any]:
        day = f"2024-02-{self.rng.randrange(1, 29):02}"
        shop = self.rng.choice(["a", "b", "ä 'quoted'", "", None])
        amount, ratio = self.rng.randrange(-9999, 9999) / 100, self.rng.choice([0.1, 1e300, -0.0, None])
        return [shop, amount, ratio, day, f"{day} 12:00:00.123456+02", self.rng.choice([True, False, None])]

    def compare(self) -> None:
        for view, text in VIEWS.items():
            for one, other in ((f"({text})", f"TABLE made_{view}"), (f"TABLE made_{view}", f"({text})")):
                assert self.connection.execute(f"{one} EXCEPT ALL ({other})").fetchall() == [], view


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(not JAR.exists(), reason="no driver for Java: on Debian, apt-get install libpostgresql-jdbc-java")
def test_views_of_a_postgresql_table_are_what_postgresql_computes(tmp_path: Path, database: str) -> None:
    server = database.removeprefix("postgresql://crown@")
    into = "".join(f"  crown.into.{view}: {database}?table=made_{view}&key={key}\n" for view, key in KEYS.items())
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: shop\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\n"
        f"configuration:\n  spark.jars: {JAR}\n"
        f"  crown.source.orders: jdbc:postgresql://{server}?user=crown orders?key=id\n{into}"
    )
    views = "".join(f"CREATE MATERIALIZED VIEW {view} AS {text};\n" for view, text in VIEWS.items())
    (tmp_path / "views.sql").write_text(views)
    words = [sys.executable, "-m", "crown", "pipelines", "watch", str(tmp_path), "--every", "0.1", "--json"]
    with psycopg.connect(database, autocommit=True) as connection, open(tmp_path / "said", "w") as said:
        orders = Orders(connection)
        orders.change()
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as process:
            try:
                for _ in range(ROUNDS):
                    assert process.stdout is not None
                    line = process.stdout.readline()
                    assert line, (tmp_path / "said").read_text()[-3000:]
                    assert json.loads(line)["read"]["orders"][0] > 0
                    orders.compare()
                    with connection.transaction():  # the pipeline sees all of it or nothing
                        orders.change()
            finally:
                process.kill()
