"""A project of materialized views after a night: ``crown pipelines`` beside ``spark-pipelines run``, which recomputes.

Both read the same Parquet tables, by their folders or a catalog, and write tables of their own. The time of a run is
that of its process, from start to end. ``crown pipelines watch`` does not end: its time is from the moment the files
exist until it reports that the views are updated, after a first run that is not counted. After each night the tables of
both are compared, row by row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases import retail
from bench.subjects.peers.foreign import scratch
from bench.subjects.subject import Progress

SHARES = (0.001, 0.01, 0.1)
_COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled once, as in an installation."""
_PEER = ("grpc", "grpc_status", "google.rpc")
_TABLES = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from spark_jobs.session import local_session
spark = local_session(conf=dict(pair.split("=", 1) for pair in sys.argv[2:]))
for folder in sorted(Path(sys.argv[1]).iterdir()):
    spark.catalog.createTable(folder.name, path=str(folder), source="parquet")
"""


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *pipelines*: ``first`` and ``nights`` have the seconds of each engine."""
    lines = spec["arguments"]["lines"]
    with scratch() as where:
        folder = Path(where)
        tables = retail.loaded(lines)
        warehouse = _Warehouse(folder, tables)
        ours, peer = _Ours(folder, warehouse), _Peer(folder, warehouse) if _installed() else None
        first = {"run": _seconds(ours.run), "recompute": _seconds(peer.run) if peer else None}
        nights, steps, bad = [], 2 * len(SHARES), []
        for number, share in enumerate(SHARES, 1):
            rows = warehouse.night(share, number)
            night = {"share": share, "rows": rows, "run": _seconds(ours.run)}
            if peer is not None:
                night["recompute"] = _seconds(peer.run)
                bad += _different(ours, peer)
            nights.append(night)
            progress(number, steps)
        with ours.watching() as watched:
            watched.seconds(lambda: warehouse.night(SHARES[0], len(SHARES) + 1))
            for number, night in enumerate(nights, len(SHARES) + 2):
                night["watch"] = watched.seconds(lambda at=number, of=night: warehouse.night(of["share"], at))
                progress(number - 1, steps)
        if peer is not None:
            peer.run()
            bad += _different(ours, peer)
    checked = {"status": "passed", "compared": len(retail.VIEWS)} if peer else {"status": "unchecked"}
    return {
        "status": "wrong" if bad else "ok",
        **({"reason": f"other rows than Spark in {', '.join(sorted(set(bad)))}"} if bad else {}),
        "check": {"status": "failed"} if bad else checked,
        "data": f"{len(tables)} tables, {lines:,} lines of orders, {len(retail.VIEWS)} views",
        "of": sum(table.num_rows for table in tables.values()),
        "first": first,
        "nights": nights,
    }


def _installed() -> bool:
    """Returns True if ``spark-pipelines`` can run: it needs Spark Connect."""
    return all(find_spec(name.partition(".")[0]) is not None for name in _PEER)


def _seconds(run: Any) -> float:
    begun = time.monotonic()
    run()
    return time.monotonic() - begun


class _Warehouse:
    """The tables, a folder of Parquet files each."""

    def __init__(self, folder: Path, tables: retail.Tables) -> None:
        self.folder, self._tables = folder / "data", dict(tables)
        for name, table in tables.items():
            self._write(name, "0", table)

    def _write(self, name: str, file: str, table: pa.Table) -> None:
        path = self.folder / name / f"{file}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"_{path.name}")  # not yet part of the table
        pq.write_table(table, made)
        os.replace(made, path)

    def night(self, share: float, number: int) -> int:
        """Changes the tables; returns the number of new or changed rows."""
        added, anew = retail.changed(self._tables, share, number)
        for name, rows in added.items():
            self._write(name, str(number), rows)
            self._tables[name] = pa.concat_tables([self._tables[name], rows])
        for name, table in anew.items():
            self._write(name, "0", table)
            self._tables[name] = table
        changed = sum(max(round(share * table.num_rows), 1) for table in anew.values())
        return changed + sum(rows.num_rows for rows in added.values())


class _Project:
    """A project folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        (self.folder / "transformations").mkdir(parents=True)
        views = "".join(f"CREATE MATERIALIZED VIEW {view} AS\n{text};\n" for view, text in retail.VIEWS.items())
        (self.folder / "transformations" / "views.sql").write_text(views)

    def specify(self, more: str = "") -> None:
        """Writes the specification."""
        storage, include = f"file://{self.folder}/storage", "{glob: {include: transformations/**}}"
        text = f"name: retail\nstorage: {storage}\n{more}libraries: [{include}]\n"
        (self.folder / "spark-pipeline.yml").write_text(text)

    def call(self, words: list[str], **environment: str) -> None:
        """Runs a program in the folder; shows its output if it fails."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=os.environ | _COMPILED | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.stderr.write(done.stderr[-4000:])
            raise RuntimeError(f"{Path(words[0]).name} {words[1]} ended with {done.returncode}")


class _Ours(_Project):
    def __init__(self, folder: Path, warehouse: _Warehouse) -> None:
        super().__init__(folder, "crown")
        tables = sorted(warehouse.folder.iterdir())
        sources = "".join(f"  crown.source.{table.name}: parquet:{table}\n" for table in tables)
        self.specify(f"configuration:\n{sources}")
        self._words = [sys.executable, "-m", "crown", "pipelines"]

    def run(self) -> None:
        self.call([*self._words, "run"])

    def watching(self) -> _Watched:
        return _Watched([*self._words, "watch", "--every", "0.1", "--json"], self.folder)

    def table(self, view: str) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(self.folder / "storage" / "tables" / view).to_pyarrow_table()


class _Watched:
    """A process of ``crown pipelines watch``."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._words, self._folder = words, folder

    def __enter__(self) -> _Watched:
        self._process = subprocess.Popen(
            self._words, cwd=self._folder, env=os.environ | _COMPILED, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def seconds(self, change: Any) -> float:
        """Returns the seconds until the views have a change, from the moment its files exist."""
        change()
        begun = time.monotonic()
        assert self._process.stdout is not None
        left = {"customers", "products", "promotions"}  # written last, one after the other: a version may lack some
        while left:
            report = json.loads(self._process.stdout.readline())
            left -= {name for name, (rows, _) in report["read"].items() if rows}
        return time.monotonic() - begun


class _Peer(_Project):
    """Has a catalog, which it needs to run again."""

    def __init__(self, folder: Path, warehouse: _Warehouse) -> None:
        super().__init__(folder, "spark")
        self.specify()
        catalog = f"jdbc:derby:;databaseName={self.folder}/metastore;create=true"
        settings = {
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
        }
        words = [f"{key}={value}" for key, value in settings.items()]
        self.call([sys.executable, "-c", _TABLES, str(warehouse.folder), *words])
        conf = self.folder / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        import pyspark

        home = Path(pyspark.__file__).parent
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(conf),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(home.parent), os.environ.get("PYTHONPATH", "")]),
            "PATH": os.pathsep.join(paths),
        }
        self._words = ["bash", str(home / "bin" / "spark-pipelines"), "run"]

    def run(self) -> None:
        self.call(self._words, **self._environment)

    def files(self, view: str) -> str:
        return str(self.folder / "warehouse" / view / "*.parquet")


def _different(ours: _Ours, peer: _Peer) -> list[str]:
    """Returns the views whose tables are not equal."""
    import duckdb

    found = []
    for view in retail.VIEWS:
        with duckdb.connect() as connection:
            mine = ours.table(view)
            columns = ", ".join(name for name in mine.column_names if name != "_count")
            copies = "_count" if "_count" in mine.column_names else "1"
            connection.register("mine", mine)
            connection.execute(f"CREATE VIEW a AS SELECT {columns}, SUM({copies}) FROM mine GROUP BY ALL")
            theirs = f"read_parquet('{peer.files(view)}')"
            connection.execute(f"CREATE VIEW b AS SELECT {columns}, COUNT(*) FROM {theirs} GROUP BY ALL")
            (count,) = connection.execute(
                "SELECT COUNT(*) FROM ((FROM a EXCEPT FROM b) UNION ALL (FROM b EXCEPT FROM a))"
            ).fetchone() or (0,)
            if count:
                found.append(view)
    return found
