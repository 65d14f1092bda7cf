"""Delta tables as sources: their change data feed as a stream, and a load that hands over to it. Oracle: DuckDB."""

from __future__ import annotations

import pathlib
import random
import re
import shutil
from collections import Counter

import pyarrow as pa
import pytest

from spark_jobs import bulk_load, delta_changes, delta_table, handover, maintain
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.feeds import delta
from spark_jobs.feeds.delta_files import FilesSource
from spark_jobs.feeds.delta_source import BATCHES_END, ChangesReader, Versions, columns, opened
from spark_jobs.feeds.handover import DeltaFeed
from tests.marks import slow
from tests.spark.streams import Result, oracle_of, rows_of

deltalake = pytest.importorskip("deltalake")

SALES = {"sales": {"id": "int64", "shop": "string", "amount": "int64"}}
SQL = "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop"


class Sales:
    """A Delta table that is written to in every way there is; the oracle is given what it holds afterwards."""

    def __init__(self, folder, seed=1, feed="true", **options):
        self.path, self.rng, self.oracle = str(folder), random.Random(seed), oracle_of(SALES, SQL)
        self.write([(1, "a", 5), (2, "b", 7)], configuration={"delta.enableChangeDataFeed": feed}, **options)

    def write(self, rows, **options):
        names = list(SALES["sales"])
        table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
        deltalake.write_deltalake(self.path, table, **options)
        self.check()

    def check(self):
        """Tells the oracle what the table holds."""
        held = deltalake.DeltaTable(self.path).to_pyarrow_table().to_pylist()
        rows = Counter((row["id"], row["shop"], row["amount"]) for row in held)
        change = rows.copy()
        change.subtract(self.oracle.database.rows["sales"])
        self.oracle.apply({"sales": [(row, n) for row, n in change.items() if n]})

    def any(self):
        """One more version, by a random operation."""
        rng, table = self.rng, deltalake.DeltaTable(self.path)
        kind = rng.choice(("append", "append", "update", "delete", "merge", "overwrite", "compact"))
        rows = [(rng.randrange(20), rng.choice("abc"), rng.randrange(9)) for _ in range(3)]
        if kind in ("append", "overwrite"):
            self.write(rows, mode=kind)
        elif kind == "update":
            table.update(updates={"amount": "amount + 1"}, predicate=f"id % 3 = {rng.randrange(3)}")
        elif kind == "delete":
            table.delete(f"id % 4 = {rng.randrange(4)}")
        elif kind == "merge":
            new = pa.table({"id": [row[0] for row in rows[:1]], "shop": ["c"], "amount": [1]})
            merge = table.merge(new, "t.id = s.id", source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            table.optimize.compact()
        self.check()

    @property
    def version(self):
        return deltalake.DeltaTable(self.path).version()


def go(spark, deltas, folder, sink):
    stream = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(folder))
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    done = {p.batchId: p.sources[0].endOffset for p in query.recentProgress if p.numInputRows}
    return {batch: int(re.findall(r"version\W+(\d+)", end)[0]) for batch, end in done.items()}  # JSON from Spark 4.2 on


def by_cells(deltas):
    """Whether the cells read the files, and Spark none."""
    plan = deltas._jdf.queryExecution().toString()
    return not any(name in plan for name in ("crown_delta_changes", "crown_delta_table", "_change_type"))


def test_the_feed_of_a_table_is_a_stream_whatever_is_done_to_the_table(spark, tmp_path):
    """Version by version: the result after each is that over the table as it was. Then a restart, all at once."""
    sales, sink, wanted = Sales(tmp_path / "sales"), Result(), {}
    wanted[0] = sales.oracle.result
    for _ in range(3):
        sales.any()
        wanted[sales.version] = sales.oracle.result
    changes = delta_changes(spark, sales.path, versions=1 if BATCHES_END else None)
    deltas = maintain(spark, SQL, {"sales": changes}, checkpoint=str(tmp_path / "state"), cells=2)
    assert by_cells(deltas)
    read = go(spark, deltas, tmp_path / "state", sink)
    assert len(read) >= (3 if BATCHES_END else 1)
    for batch, version in read.items():
        assert sink.state(batch) == wanted[version]
    for _ in range(3):
        sales.any()
    changes = delta_changes(spark, sales.path)  # where it begins is in the checkpoint now
    deltas = maintain(spark, SQL, {"sales": changes}, checkpoint=str(tmp_path / "state"), cells=2)
    assert list(go(spark, deltas, tmp_path / "state", sink).values()) == [sales.version]
    assert sink.state() == sales.oracle.result


def test_a_column_that_the_table_had_not_at_first_is_null_in_its_first_versions(spark, tmp_path):
    path, sink, state = str(tmp_path / "sales"), Result(), str(tmp_path / "state")
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, pa.table({"id": [1, 2, 3], "shop": ["a", "a", "b"]}), configuration=feed)
    grown = pa.table({"id": [4, 5], "shop": ["a", "b"], "amount": [7, 8]})
    deltalake.write_deltalake(path, grown, mode="append", schema_mode="merge")
    deltalake.DeltaTable(path).update({"amount": "9"}, predicate="id = 1")
    deltalake.DeltaTable(path).delete("id = 3")
    deltas = maintain(spark, SQL, {"sales": delta_changes(spark, path)}, checkpoint=state, cells=2)
    assert by_cells(deltas)
    go(spark, deltas, tmp_path / "state", sink)
    assert sink.state() == Counter({("a", 3, 16): 1, ("b", 1, 8): 1})


@pytest.mark.parametrize("partitions", [[], slow(["shop"])])
def test_a_load_hands_over_to_the_stream_without_gap_or_overlap(spark, tmp_path, partitions):
    """The table is written to before, between and after; the load is executed twice, and the second call is later."""
    sales, sink, state = Sales(tmp_path / "sales", seed=2, partition_by=partitions), Result(), str(tmp_path / "state")
    for _ in range(3):
        sales.any()
    begun = handover(spark, {"sales": DeltaFeed(sales.path)}, checkpoint=state)
    assert begun.positions == {"sales": sales.version}
    then = sales.oracle.result
    with pytest.raises(CheckpointError, match="nothing was loaded: run bulk_load with it to the end first"):
        maintain(spark, SQL, begun.changes, checkpoint=state)
    for _ in range(3):
        sales.any()
    for _ in range(2):
        loaded = bulk_load(spark, SQL, begun.tables, checkpoint=state, cells=2)
        assert by_cells(loaded) == (not partitions)
        sink.deltas[-1] = rows_of(loaded)
        assert sink.state() == then
    again = handover(spark, {"sales": DeltaFeed(sales.path)}, checkpoint=state)
    assert again.positions == begun.positions
    go(spark, maintain(spark, SQL, again.changes, checkpoint=state, cells=2), state, sink)
    assert sink.state() == sales.oracle.result
    sales.any()
    assert handover(spark, {"sales": DeltaFeed(sales.path)}, checkpoint=state).positions == begun.positions
    with pytest.raises(CheckpointError, match=r"hands over from sales = .*/sales, and now it is .*/others"):
        handover(spark, {"sales": DeltaFeed(str(tmp_path / "others"))}, checkpoint=state)


def test_before_spark_4_2_a_batch_has_all_versions(spark, tmp_path, monkeypatch):
    sales = Sales(tmp_path / "sales")
    sales.any()
    monkeypatch.setattr(delta, "BATCHES_END", False)
    with pytest.raises(
        SourceError, match=r"versions=1: Spark .* reads all new versions at once; leave versions= out, or"
    ):
        delta_changes(spark, sales.path, versions=1)
    reader = ChangesReader(sales.path, columns(opened(sales.path)), -1, None)
    start = reader.initialOffset()
    assert reader.latestOffset() == {**start, "version": sales.version}
    shutil.rmtree(tmp_path / "sales")
    Sales(tmp_path / "sales")
    with pytest.raises(SourceError, match="is not the table that the stream has read up to version -1"):
        reader.partitions(start, reader.latestOffset())


def test_what_cannot_be_read_is_said(spark, tmp_path):
    sales, silent = Sales(tmp_path / "sales"), Sales(tmp_path / "silent", feed="false")
    with pytest.raises(SourceError, match="is not a Delta table: give the folder"):
        delta_table(spark, str(tmp_path / "nothing"))
    with pytest.raises(SourceError, match=r"has no change data feed: set its property delta\.enableChangeDataFeed"):
        delta_changes(spark, silent.path)
    with pytest.raises(SourceError, match=r"after=5: the Delta table .* has versions 0 to 0"):
        delta_changes(spark, sales.path, after=5)
    with pytest.raises(SourceError, match="versions=0: give 1 or more"):
        delta_changes(spark, sales.path, versions=0)
    with pytest.raises(SourceError, match="has no version 3: the newest is 0"):
        delta_table(spark, sales.path, 3)
    with pytest.raises(SourceError, match="no feeds are given"):
        handover(spark, {}, checkpoint=str(tmp_path / "state"))
    assert {tuple(row) for row in delta_table(spark, silent.path).collect()} == {(1, "a", 5), (2, "b", 7)}


def test_another_table_at_the_same_place_is_refused(tmp_path):
    sales = Sales(tmp_path / "sales")
    for _ in range(3):
        sales.any()
    reader = ChangesReader(sales.path, columns(opened(sales.path)), -1, 2)
    start = reader.initialOffset()
    first = reader.latestOffset(start, None)
    assert (start["version"], first["version"]) == (-1, 1)
    assert reader.latestOffset({**start, "version": 3}, None) == {**start, "version": 3}
    parts = reader.partitions({**start, "version": 4}, {**start, "version": 25})
    assert [version for part in parts for version in range(part.first, part.last + 1)] == list(range(5, 26))
    assert len(parts) == 8
    assert reader.partitions(first, first) == []
    shutil.rmtree(tmp_path / "sales")
    Sales(tmp_path / "sales")
    with pytest.raises(SourceError, match="is not the table that the stream has read up to version 1"):
        reader.latestOffset(first, None)


def test_a_table_that_the_cells_cannot_read_any_more_is_refused(tmp_path):
    """What is added to the table once the stream was built: fewer columns, partitions."""
    sales = Sales(tmp_path / "sales")
    sales.any()
    options = {"table": sales.path, "after": "-1", "columns": '["id", "amount"]'}
    source = FilesSource(options)
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()

    def read(versions):
        return [tuple(row.values()) for part in versions for batch in reader.read(part) for row in batch.to_pylist()]

    found = read(reader.partitions(start, reader.latestOffset(start)))
    assert all(pathlib.Path(file).is_file() for file, _ in found)
    assert {sign for _, sign in found} <= {-1, 0, 1}
    narrow = pa.table({"id": [1], "shop": ["a"]})
    deltalake.write_deltalake(sales.path, narrow, mode="overwrite", schema_mode="overwrite")
    end = reader.latestOffset(start)
    with pytest.raises(SourceError, match="has no column 'amount' any more"):
        read(reader.partitions({**start, "version": end["version"] - 1}, end))
    shutil.rmtree(sales.path)
    parts = Sales(tmp_path / "sales", partition_by=["shop"])
    with pytest.raises(SourceError, match="has partitions or deletion vectors, but had none when"):
        read([Versions(0, parts.version)])
    deltalake.write_deltalake(sales.path, narrow, mode="overwrite", schema_mode="overwrite", partition_by=[])
    sales.write([(1, "a", 5)], mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SourceError, match=r"version 0 of the Delta table .* has files of partitions, with deletion"):
        read([Versions(0, parts.version)])
    assert len(read([Versions(parts.version, parts.version)])) == 2
