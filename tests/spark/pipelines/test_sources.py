"""What has changed in a source: files that Arrow reads as Spark does, and those that only Spark reads right.

Oracle: Spark's own rows of the table.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from crown.ingest.tables.columns import WEIGHT
from crown.projects.changes import changes_of_versions, files_at, schema_of, with_weights
from crown.results.summed import summed
from plans.schema import Column, Table
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_versions import DeltaVersions
from spark_jobs.ingest.types import supported_table
from spark_jobs.pipelines.inputs import sources
from spark_jobs.pipelines.inputs.sources import ParquetFolder, arrow_of, changes
from tests.marks import slow, turns

COLUMNS = (
    "a BIGINT, b INT, c STRING, d DOUBLE, e DECIMAL(12,3), f DATE, g TIMESTAMP, h BOOLEAN, i BINARY, j TIMESTAMP_NTZ"
)
ROW = (
    "{k}, {k} + 1, 'ä{k}', {k} / 7D, {k} / 3D, DATE '1969-12-30' + {k}, TIMESTAMP '1969-12-31 23:59:58.5' + "
    "make_interval(0,0,0,{k}), {k} % 2 = 0, CAST('x{k}' AS BINARY), TIMESTAMP_NTZ '2020-02-02 00:00:00'"
)
NULLS = ", ".join(["NULL"] * 10)


def counted(rows: pa.Table) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for row in rows.to_pylist():
        weight = row.pop(WEIGHT, 1)
        found[tuple(row.values())] += weight
    return found


class Source:
    """A table of the catalog, and what ``changes`` has said of it until now."""

    def __init__(self, spark, name: str) -> None:
        self.spark, self.name, self.position = spark, name, None
        self.known: Counter[tuple[object, ...]] = Counter()
        self.rows: pa.Table | None = None

    def read(self) -> str:
        self.spark.catalog.refreshTable(self.name)
        frame = self.spark.table(self.name)
        table = supported_table(self.name, frame.schema)
        found = changes(lambda: frame, table, self.position, lambda: self.before(table))
        self.position = found.position
        self.known.update(counted(found.rows))
        truth = arrow_of(frame, table)
        self.rows = truth
        assert {row: n for row, n in self.known.items() if n} == counted(truth)
        return found.how

    def before(self, table) -> pa.Table:
        return with_weights(schema_of(table).empty_table() if self.rows is None else self.rows, 1)


@pytest.fixture
def source(spark, request: pytest.FixtureRequest):
    made = Source(spark, f"t{abs(hash(request.node.nodeid)) % 10**8}")
    yield made
    spark.sql(f"DROP TABLE IF EXISTS {made.name}")


@pytest.fixture
def jobless(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read by jobs of Spark."""
    read: list[str] = []
    original = sources.arrow_of
    monkeypatch.setattr(sources, "arrow_of", lambda frame, table: read.append(table.name) or original(frame, table))
    return read


def test_plain_files_are_read_without_a_job_and_are_what_spark_reads(source: Source, jobless: list[str]) -> None:
    source.spark.sql(f"CREATE TABLE {source.name} ({COLUMNS}) USING parquet")
    assert source.read() == "read in full"
    source.spark.sql(f"INSERT INTO {source.name} VALUES ({ROW.format(k=1)}), ({ROW.format(k=4)}), ({NULLS})")
    assert source.read() == "read in full", "there was no row to compare with"
    source.spark.sql(f"INSERT INTO {source.name} VALUES ({ROW.format(k=1)})")
    assert source.read() == "1 new files"
    assert source.read() == "no new file"
    source.spark.sql(f"INSERT OVERWRITE {source.name} VALUES ({ROW.format(k=1)}), ({ROW.format(k=2)})")
    assert source.read() == "read in full and compared"
    assert source.known.total() == 2
    assert jobless == []


@pytest.mark.parametrize(
    ("create", "insert"),
    [
        ("(a BIGINT, p STRING) USING parquet PARTITIONED BY (p)", "VALUES (1, 'x'), (2, 'y')"),
        ("(a BIGINT, c CHAR(4)) USING parquet", "VALUES (1, 'x'), (2, 'wxyz')"),
        ("(a BIGINT, c STRING) USING csv", "VALUES (1, 'x'), (2, NULL)"),
        ("(a BIGINT, c STRING) USING json", "VALUES (1, 'x'), (2, NULL)"),
        ("(a SMALLINT, c FLOAT) USING parquet", "VALUES (1, 0.5), (2, NULL)"),
    ],
    ids=["partitions", "padded", "csv", "json", "narrow types"],
)
def test_other_files_are_read_by_spark(source: Source, jobless: list[str], create: str, insert: str) -> None:
    source.spark.sql(f"CREATE TABLE {source.name} {create}")
    source.spark.sql(f"INSERT INTO {source.name} {insert}")
    source.read()
    source.spark.sql(f"INSERT INTO {source.name} {insert}")
    source.read()
    assert len(jobless) == 2


def test_a_column_that_older_files_lack_is_read_by_spark(source: Source, jobless: list[str]) -> None:
    source.spark.sql(f"CREATE TABLE {source.name} (a BIGINT) USING parquet")
    source.spark.sql(f"INSERT INTO {source.name} VALUES (1)")
    source.spark.sql(f"ALTER TABLE {source.name} ADD COLUMN b STRING DEFAULT 'none'")
    source.spark.sql(f"INSERT INTO {source.name} VALUES (2, 'x')")
    source.read()
    assert jobless == [source.name]
    assert source.known == Counter([(1, "none"), (2, "x")])


class Growing:
    """A folder to which another process adds a file, just before and just after Spark lists its files."""

    def __init__(self, spark, folder: Path, kind: str) -> None:
        self.spark, self.folder, self.kind, self.files = spark, folder, kind, 0
        folder.mkdir()
        self.add()

    def add(self) -> None:
        self.files += 1
        arrow = pa.table({"a": pa.array([self.files], pa.int64() if self.files == 1 else pa.int32())})
        writer = {"parquet": pq, "orc": orc}[self.kind]
        writer.write_table(arrow, self.folder / f"{self.files}.{self.kind}")

    def read(self):
        self.add()
        frame = self.spark.read.format(self.kind).schema("a BIGINT").load(str(self.folder))
        self.add()
        return frame


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_that_is_added_while_a_folder_is_read_is_read_once(spark, tmp_path: Path, kind: str) -> None:
    growing = Growing(spark, tmp_path / "rows", kind)
    folder = ParquetFolder(str(growing.folder)) if kind == "parquet" else None
    table, position, rows = Table("t", (Column("a", "int64"),)), None, pa.table({"a": pa.array([], pa.int64())})
    known = rows.append_column(WEIGHT, pa.array([], pa.int64()))
    growing.add()
    for _ in range(3):
        found = changes(growing.read, table, position, lambda known=known: known, folder)
        position = found.position
        known = summed(pa.concat_tables([known, found.rows]))
        files = [int(name.rpartition("/")[2].partition(".")[0]) for name in files_at(position)]
        assert counted(known) == {(file,): 1 for file in files}
        (growing.folder / f"{min(files)}.{kind}").unlink()  # so that all of it is read again


def test_old_calendars_are_read_by_spark(source: Source, jobless: list[str], tmp_path: Path) -> None:
    source.spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    source.spark.sql(f"CREATE TABLE {source.name} (f DATE) USING parquet")
    source.spark.sql(f"INSERT INTO {source.name} VALUES (DATE '1200-01-01')")
    source.spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    source.read()
    assert jobless == [source.name]


class Sales:
    """A Delta table that changes in every way, and what ``changes_of_versions`` has said of it until now."""

    table = Table("sales", (Column("k", "int64"), Column("s", "string"), Column("n", "int32")))

    def __init__(self, folder: Path, feed: bool, partitions: list[str]) -> None:
        self.path, self.rng = str(folder / "sales"), random.Random(f"{feed}{partitions}")
        configuration = {"delta.enableChangeDataFeed": str(feed).lower()}
        self.options: dict[str, Any] = {"partition_by": partitions, "configuration": configuration}
        self.known: Counter[tuple[object, ...]] = Counter()
        self.position: Any = None
        self.append()

    def drawn(self, rows: int) -> pa.Table:
        ks = [self.rng.randrange(9) for _ in range(rows)]
        texts = [self.rng.choice(["a", "b", None]) for _ in ks]
        return pa.table({"k": pa.array(ks), "s": pa.array(texts, pa.string()), "n": pa.array(ks, pa.int32())})

    def append(self) -> None:
        deltalake.write_deltalake(self.path, self.drawn(6), mode="append", **self.options)

    def change(self) -> None:
        table, k = deltalake.DeltaTable(self.path), self.rng.randrange(9)
        what = self.rng.randrange(6)
        if what < 2:
            self.append()
        elif what == 2:
            table.delete(f"k = {k}")
        elif what == 3:
            table.update({"n": "n + 1"}, predicate=f"k = {k}")
        elif what == 4:
            table.optimize.compact()
        else:
            deltalake.write_deltalake(self.path, self.drawn(4), mode="overwrite")

    def read(self) -> str:
        found = changes_of_versions(DeltaVersions(self.path), self.table, self.position, self.before)
        self.position = found.position
        self.known.update(counted(found.rows))
        truth = counted(deltalake.DeltaTable(self.path).to_pyarrow_table(columns=["k", "s", "n"]))
        assert {row: n for row, n in self.known.items() if n} == truth, found.how
        return found.how

    def before(self) -> pa.Table:
        rows = [row for row, n in self.known.items() for _ in range(n)]
        schema = schema_of(self.table)
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        return with_weights(pa.table(columns, schema=schema), 1)


@pytest.mark.parametrize(("feed", "partitions"), [(False, ["s"]), (True, []), slow(False, []), slow(True, ["s"])])
def test_a_delta_table_is_read_by_its_versions(tmp_path: Path, feed: bool, partitions: list[str]) -> None:
    sales = Sales(tmp_path, feed, partitions)
    assert sales.read() == "read in full"
    assert sales.read() == "no new version"
    ways = set()
    for _ in range(10):
        for _ in range(sales.rng.randrange(1, 4)):
            sales.change()
        ways.add(sales.read())
    assert all(("feed" if feed else "added") in way or way == "no new version" for way in ways), ways


def test_a_delta_table_whose_versions_do_not_say_it_is_compared(tmp_path: Path) -> None:
    sales = Sales(tmp_path, False, [])
    sales.read()
    deltalake.write_deltalake(sales.path, sales.drawn(4), mode="overwrite")
    deltalake.DeltaTable(sales.path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert sales.read() == "read in full and compared", "the files are gone"
    deltalake.DeltaTable(sales.path).delete("k < 5")
    deltalake.DeltaTable(sales.path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    deltalake.DeltaTable(sales.path).delete("k > 6")
    assert sales.read(), "the feed begins after the first change"
    sales.append()
    assert sales.read() == "change data feed"
    other = Sales(tmp_path / "other", False, [])
    sales.path = other.path
    assert sales.read() == "read in full and compared", "another table"


class Vectors:
    """A Delta table whose rows deletion vectors take away and give back, and files come and go. Oracle: sets."""

    table = Table("t", (Column("a", "int64"), Column("p", "string")))

    def __init__(self, folder: Path) -> None:
        self.path, self.rng, self.version, self.next = folder / "with vectors", random.Random(8), -1, 0
        self.files: dict[str, tuple[dict[str, Any], range, set[int]]] = {}
        self.known: Counter[tuple[object, ...]] = Counter()
        self.append()
        features = ["deletionVectors"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        self.commit({"protocol": {**protocol, "readerFeatures": features, "writerFeatures": features}})

    def append(self) -> None:
        rows = range(self.next, self.next + self.rng.randrange(1, 40))
        self.next = rows.stop
        columns = {"a": pa.array(rows, pa.int64()), "p": ["x y%" if rows.start % 2 else "b"] * len(rows)}
        made = self.path.parent / f"file {rows.start}"
        deltalake.write_deltalake(made, pa.table(columns), partition_by=["p"])
        log = (made / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        said = [json.loads(line) for line in log]
        (add,) = [action["add"] for action in said if "add" in action]
        shutil.copytree(made, self.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_delta_log"))
        self.files[add["path"]] = (add, rows, set())
        first = self.version < 0
        (self.path / "_delta_log").mkdir(exist_ok=True)
        self.commit(*(action for action in said if "add" in action or (first and "commitInfo" not in action)))

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (self.path / "_delta_log" / f"{self.version:020d}.json").write_text(text)

    def change(self) -> None:
        path = self.rng.choice(list(self.files))
        add, rows, gone = self.files[path]
        remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}
        remove |= {"deletionVector": vector(gone)} if gone else {}
        what = self.rng.randrange(5)
        if what == 0 or len(self.files) == 1:
            self.append()
        elif what == 1:
            del self.files[path]
            self.commit({"remove": remove})
        else:
            left = set(self.rng.sample(range(len(rows)), self.rng.randrange(len(rows) + 1)))
            if left == gone:
                return  # a file with the same vector is the same file
            self.files[path] = add, rows, left
            more = {"deletionVector": vector(left)} if left else {}
            self.commit({"remove": remove}, {"add": {**add, **more}})

    def read(self, position: Any) -> Any:
        nothing = schema_of(self.table).empty_table()
        found = changes_of_versions(DeltaVersions(str(self.path)), self.table, position, lambda: nothing)
        assert "compared" not in found.how
        self.known.update(counted(found.rows))
        truth = Counter(
            (a, "x y%" if rows.start % 2 else "b")
            for _, rows, gone in self.files.values()
            for at, a in enumerate(rows)
            if at not in gone
        )
        assert {row: n for row, n in self.known.items() if n} == truth, found.how
        return found.position


def vector(gone: set[int]) -> dict[str, Any]:
    """A deletion vector in the log: one Roaring bitmap with one list of rows, in base 85."""
    rows = sorted(gone)
    bitmap = struct.pack(f"<IIHHI{len(rows)}H", 12346, 1, 0, len(rows) - 1, 16, *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    whole = data + bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": zmq85(whole),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def zmq85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))


def test_rows_that_deletion_vectors_take_away_and_give_back_are_changes(tmp_path: Path) -> None:
    made = Vectors(tmp_path)
    at = made.read(None)
    for _ in turns(12, 25):
        for _ in range(made.rng.randrange(1, 4)):
            made.change()
        at = made.read(at)


def test_what_is_no_delta_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not a Delta table"):
        changes_of_versions(DeltaVersions(str(tmp_path)), Sales.table, None, lambda: pa.table({}))
