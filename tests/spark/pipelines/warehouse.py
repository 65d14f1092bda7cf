"""A warehouse of twelve Delta tables with thirty views over them, changed at random. Oracle: DuckDB, from scratch.

``Warehouse`` is in a folder and can be gone on with by another process. It changes rows and columns of tables and
definitions of views, runs commands of the pipeline, and compares every table of a view after each.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from bench.cases import retail
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.pipeline import Pipeline

LINES = 240
KEEP = 3
COMMANDS = {
    "run": 0.65,
    "restore": 0.1,
    "watch": 0.07,
    "refresh": 0.06,
    "full-refresh --view": 0.05,
    "drop": 0.04,
    "full-refresh": 0.03,
}
"""The commands that change something, and how often each is drawn."""
Rows = Counter[tuple[Any, ...]]
MORE = {  # views that come, become others and go
    "few": (
        "SELECT store, COUNT(*) AS n FROM orders GROUP BY store HAVING COUNT(*) < 3",
        "SELECT store, MAX(day) AS day FROM orders GROUP BY store",
    ),
    "cheap": (
        "SELECT product, list FROM products WHERE 50 > list",
        "SELECT c.product, b.amount FROM catalogue c JOIN by_product b ON c.product = b.product WHERE 80 > c.list",
    ),
}


class Warehouse:
    """The tables, the project and what is known of its versions, in a folder; at first all is made."""

    def __init__(self, spark, folder: Path, seed: int) -> None:
        self.spark, self.folder, self.rng = spark, folder, random.Random(seed)
        self._memory = folder / "memory.json"
        if not self._memory.exists():
            (folder / "data").mkdir(parents=True)
            for name, table in retail.loaded(LINES).items():
                write_deltalake(self._at(name), table)
            self.versions: dict[str, dict[str, int]] = {}
            self.more: dict[str, int] = {}
            self.kept: dict[str, str] = {}  # the views that the newest run had, by their queries
            self._specify()
        else:
            known = json.loads(self._memory.read_text())
            self.versions, self.more, self.kept = known["versions"], known["more"], known["kept"]

    def _at(self, name: str) -> Path:
        return self.folder / "data" / name

    def _remember(self) -> None:
        self._memory.write_text(json.dumps({"versions": self.versions, "more": self.more, "kept": self.kept}))

    def _specify(self) -> None:
        """Writes the project: its specification and views."""
        sources = "".join(
            f"  crown.source.{at.name}: delta:data/{at.name}\n" for at in (self.folder / "data").iterdir()
        )
        text = (
            f"name: retail\nstorage: storage\nlibraries: [{{glob: {{include: views.sql}}}}]\nconfiguration:\n{sources}"
        )
        (self.folder / "spark-pipeline.yml").write_text(f'{text}  crown.keep: "{KEEP}"\n')
        (self.folder / "views.sql").write_text(
            "".join(f"CREATE MATERIALIZED VIEW {name} AS\n{query};\n" for name, query in self.views().items())
        )
        self._remember()

    def views(self) -> dict[str, str]:
        """The views that there are now, each behind what it reads."""
        return {**retail.VIEWS, **{name: MORE[name][which] for name, which in self.more.items()}}

    def pipeline(self) -> Pipeline:
        return Pipeline.of(self.spark, Project.of(self.folder))

    # Changes
    # ------------------------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Changes some tables, and now and then a column or a view."""
        for name in self.rng.sample(sorted(retail.loaded(LINES)), self.rng.randrange(1, 5)):
            self._change_rows(name)
        chance = self.rng.random()
        if chance < 0.05:
            table = DeltaTable(self._at(self.rng.choice(["orders", "lines", "stores"])))
            table.alter.add_columns([Field(f"more{table.version()}", PrimitiveType("integer"))])
        elif chance < 0.25:
            name = self.rng.choice(sorted(MORE))
            if name in self.more and self.rng.random() < 0.4:
                del self.more[name]
            else:
                self.more[name] = 1 - self.more.get(name, self.rng.randrange(2))
            self._specify()

    def _change_rows(self, name: str) -> None:
        table = DeltaTable(self._at(name))
        rows = table.to_pyarrow_table()
        count, key = rows.num_rows, rows.column_names[0]
        some = rows.take([self.rng.randrange(count) for _ in range(min(count, 3))]) if count else rows
        what = self.rng.random()
        if what < 0.4:  # rows that are like others, but in one column
            at = self.rng.randrange(rows.num_columns)
            other = rows.column(at).take([self.rng.randrange(count) for _ in range(len(some))]) if count else some[at]
            write_deltalake(self._at(name), some.set_column(at, some.schema.field(at), other), mode="append")
        elif what < 0.7 and count:
            table.delete(f"{key} = {some[key][0].as_py()}")
        elif what < 0.85 and count:  # a column of some rows is another one's
            table.merge(
                some.group_by(some.column_names).aggregate([]), f"t.{key} = s.{key}", "s", "t"
            ).when_matched_delete().execute()
            write_deltalake(self._at(name), some, mode="append")
        elif what < 0.95:
            table.optimize.compact()
        else:
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    # Commands and what must hold behind them
    # ------------------------------------------------------------------------------------------------------------------

    def command(self, which: str | None = None) -> str:
        """Runs a command, mostly ``run``, and compares; returns which one it was. ``which``: the one to run."""
        (name,) = [which] if which is not None else self.rng.choices(list(COMMANDS), list(COMMANDS.values()))
        pipeline = self.pipeline()
        history = pipeline.status().get("history", [])
        known = [version for version in history if str(version) in self.versions]
        if name == "restore" and known:
            version = self.rng.choice(known)
            restored = pipeline.restore(version).version
            self.versions[str(restored)] = self.versions[str(version)]
            self._remember()
            self.check(self.versions[str(version)])  # the definitions stay as they are
        elif name == "refresh":
            report = pipeline.refresh(self.rng.choice(sorted(self.views())))
            self._ran(report.version, tuple(report.read))
        elif name == "drop" and set(self.more).intersection(self.kept):
            gone = self.rng.choice(sorted(set(self.more).intersection(self.kept)))
            del self.more[gone]
            self._specify()
            version, at = self.pipeline().drop(gone).version, self._newest()
            self.versions[str(version)] = at
            del self.kept[gone]
            self._remember()
            self.check(at)
        elif name == "full-refresh --view":
            self._ran(pipeline.full_refresh(self.rng.choice(sorted(self.views()))).version)
        elif name == "full-refresh":
            self.versions.clear()
            self._remember()
            self._ran(pipeline.full_refresh().version)
        elif name == "watch":
            with_rounds = pipeline.watch(0.0)
            next(with_rounds)
            while pipeline._maker.is_filling:
                next(with_rounds)
            for _ in range(3):
                self._ran(next(with_rounds).version)
                self._change_rows(self.rng.choice(["lines", "customers", "orders"]))
            self._ran(next(with_rounds).version)
            with_rounds.close()
        else:
            self.run()
            return "run"
        return name

    def run(self) -> None:
        self._ran(self.pipeline().run().version)

    def _newest(self) -> dict[str, int]:
        """The versions of the tables that the newest version of the pipeline has read."""
        return self.versions[max(self.versions, key=int)] if self.versions else {}

    def _ran(self, version: int, read: Collection[str] | None = None) -> None:
        """Compares behind a run that has read these tables, or all."""
        before = self._newest()
        now = {at.name: DeltaTable(at).version() for at in (self.folder / "data").iterdir()}
        now = {name: at if read is None or name in read else before[name] for name, at in now.items()}
        self.versions[str(version)], self.kept = now, self.views()
        self._remember()
        self.check(now)

    def check(self, at: dict[str, int]) -> None:
        """Compares every table of a view with what DuckDB computes over the tables at these versions."""
        with duckdb.connect() as connection:
            for name, version in at.items():
                connection.register(name, self._rows(name, version))
            for name, query in self.kept.items():
                connection.execute(f"CREATE TABLE {name} AS {_for_duckdb(query)}")
                expected = Counter(_plain(row) for row in connection.execute(f"FROM {name}").fetchall())
                found = in_table(self.folder / "storage" / "tables" / name)
                assert found == expected, f"{name}: {found - expected} too much, {expected - found} too little"
        tables = {folder.name for folder in (self.folder / "storage" / "tables").iterdir()}
        assert tables == set(self.kept)

    def _rows(self, name: str, version: int) -> pa.Table:
        kept = self.folder / "kept" / f"{name}-{version}.arrow"  # VACUUM takes old versions away
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            rows = DeltaTable(self._at(name), version=version).to_pyarrow_table()
            with pa.OSFile(str(kept), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
        return pa.ipc.open_file(str(kept)).read_all()


@cache
def _for_duckdb(query: str) -> str:
    (text,) = sqlglot.transpile(query, read="spark", write="duckdb")
    return text


def in_table(folder: Path) -> Rows:
    """The rows of a view's table, as often as its column _count says."""
    found: Rows = Counter()
    for row in DeltaTable(folder).to_pyarrow_table().to_pylist():
        copies = row.pop("_count", 1)
        found[_plain(tuple(row.values()))] += copies
    return found


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row in which a day is midnight, whatever it was: Spark's date_trunc gives a time, DuckDB's a day."""
    return tuple(
        dt.datetime(v.year, v.month, v.day)
        if isinstance(v, dt.date) and not isinstance(v, dt.datetime)
        else v.replace(tzinfo=None)
        if isinstance(v, dt.datetime)
        else v
        for v in row
    )
