"""Delta tables whose files hold something else than their rows, as Delta's own connector writes them: refused, never
read wrong. The logs are made by hand here; ``test_connector`` has the connector write them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_jobs import delta_changes, delta_table, maintain, read_deltas
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.feeds.delta_files import files_of
from spark_jobs.feeds.delta_source import ChangesReader, ChangesSource, Versions
from spark_jobs.storage.local import LocalFolder
from spark_jobs.tables.deltas.delta import DeltaLog, table_files
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.net import net_of

deltalake = pytest.importorskip("deltalake")

VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
"""Takes away the rows 3, 4, 7, 11, 18 and 29 of a file: Z85 of the magic number, the count and key of a
Roaring bitmap, and the bitmap."""
FEED = {"delta.enableChangeDataFeed": "true"}


def actions(folder, version):
    """What a commit says."""
    log = folder / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in log.read_text().splitlines()]


def commit(folder, version, *said):
    """Writes a commit."""
    log = folder / "_delta_log" / f"{version:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in said))


@pytest.fixture
def vectors(tmp_path):
    """A table of 30 rows; version 1 deletes six of them by a deletion vector, version 2 writes others over it."""
    folder = tmp_path / "with vectors"
    deltalake.write_deltalake(str(folder), pa.table({"a": list(range(30))}), configuration=FEED)
    (add,) = [action["add"] for action in actions(folder, 0) if "add" in action]
    features = ["deletionVectors", "changeDataFeed"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features[:1],
        "writerFeatures": features,
    }
    gone = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    commit(folder, 1, {"protocol": protocol}, {"remove": gone}, {"add": {**add, "deletionVector": VECTOR}})
    return folder


def overwritten(folder):
    (add,) = [action["add"] for action in actions(folder, 0) if "add" in action]
    gone = {"path": add["path"], "deletionTimestamp": 2, "dataChange": True, "deletionVector": VECTOR}
    commit(folder, 2, {"remove": gone})


def changes(folder, first, last):
    """The rows that a task of a stream reads of versions."""
    schema = ChangesSource({"table": str(folder)}).schema()
    reader = ChangesReader(str(folder), schema, -1, None)
    return pa.Table.from_batches(reader.read(Versions(first, last)))


def test_changes_of_a_file_that_stays_with_a_vector_are_read(vectors):
    assert changes(vectors, 0, 0).num_rows == 30
    found = changes(vectors, 1, 1)
    assert sorted(found["a"].to_pylist()) == [3, 4, 7, 11, 18, 29]
    assert set(found["_change_type"].to_pylist()) == {"delete"}


def test_changes_that_deletion_vectors_make_wrong_are_refused(vectors):
    overwritten(vectors)
    for first in (0, 2):
        with pytest.raises(SourceError, match=r"version 2 of the Delta table .* with deletion vectors") as told:
            changes(vectors, first, 2)
        assert "REORG TABLE" in str(told.value)
        assert "\n" not in str(told.value)
    assert changes(vectors, 0, 1).num_rows == 36


def test_changes_that_are_in_files_of_their_own_are_read_beside_deletion_vectors(vectors):
    import pyarrow.parquet as pq

    rows = pa.table({"a": [3, 4, 7, 11, 18, 29], "_change_type": ["delete"] * 6})
    (vectors / "_change_data").mkdir()
    pq.write_table(rows, vectors / "_change_data" / "cdc-1.parquet")
    size = (vectors / "_change_data" / "cdc-1.parquet").stat().st_size
    said = {"path": "_change_data/cdc-1.parquet", "partitionValues": {}, "size": size, "dataChange": False}
    commit(vectors, 1, *actions(vectors, 1), {"cdc": said})
    found = changes(vectors, 1, 1)
    assert sorted(found["a"].to_pylist()) == [3, 4, 7, 11, 18, 29]


def test_cells_do_not_read_a_table_that_may_have_had_vectors(vectors):
    """The connector leaves the feature ``checkpointProtection`` behind where it takes deletion vectors away."""
    source, options = ChangesSource.name(), {"table": str(vectors), "after": "-1"}
    assert files_of(None, source, options, ["a"]) is None
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}
    commit(vectors, 2, {"protocol": protocol})
    assert files_of(None, source, options, ["a"]) is None


def test_rows_that_deletion_vectors_take_away_do_not_come_back(vectors):
    for read in (table_files, lambda folder: read_deltas(None, str(folder))):
        with pytest.raises(SourceError, match="are deleted by deletion vectors, and its files still have them"):
            read(vectors)
    overwritten(vectors)
    assert table_files(vectors) == []


def test_a_table_is_read_without_the_rows_that_deletion_vectors_take_away(spark, vectors):
    found = delta_table(spark, str(vectors)).collect()
    assert sorted(row.a for row in found) == [a for a in range(30) if a not in (3, 4, 7, 11, 18, 29)]
    assert delta_table(spark, str(vectors), 0).count() == 30


def test_a_table_with_another_feature_is_refused_where_it_is_asked_for_and_not_in_a_worker(vectors):
    features = ["deletionVectors", "clusteredByMoonlight"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(vectors, 2, {"protocol": protocol})
    with pytest.raises(SourceError, match=r"with vectors cannot be read \(.*clusteredByMoonlight"):
        delta_table(None, str(vectors))


@pytest.fixture(params=["name", "id"])
def mapped(request, tmp_path):
    """A table whose files call its column ``n`` otherwise, and ``a`` as it is."""
    folder = tmp_path / "mapped"
    rows = {"a": [1, 2], "col-1": [5, 6], "_weight": [1, 1], "_batch": [0, 0]}
    deltalake.write_deltalake(str(folder), pa.table(rows), configuration=FEED)
    said = actions(folder, 0)
    for action in said:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"]):
                named = {"id": number, "physicalName": field["name"]}
                field["metadata"] = {f"delta.columnMapping.{key}": value for key, value in named.items()}
            schema["fields"][1]["name"] = "n"
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] |= {"delta.columnMapping.mode": request.param}
    commit(folder, 0, *said)
    return folder


def test_a_table_that_maps_its_columns_is_neither_read_nor_written(mapped):
    deltas = pa.table({"a": [3], "n": [1], "_weight": [1]})
    asked = {
        "delta_table": lambda: delta_table(None, str(mapped)),
        "delta_changes": lambda: delta_changes(None, str(mapped)),
        "read_deltas": lambda: read_deltas(None, str(mapped)),
        "write_deltas": lambda: DeltaLog(LocalFolder(mapped), "a-stream/crown"),
        "to_table": lambda: DeltaResult(LocalFolder(mapped)).apply("a-stream", 0, net_of(deltas, ["a"], 0)),
    }
    for what, ask in asked.items():
        with pytest.raises(SourceError, match=r"maps its columns .*'[na]' under another name") as told:
            ask()
        assert "\n" not in str(told.value), what


def test_a_table_whose_columns_are_mapped_to_their_own_names_is_served(mapped):
    said = actions(mapped, 0)
    for action in said:
        if "metaData" in action:
            text = action["metaData"]["schemaString"].replace('"name": "n"', '"name": "col-1"')
            action["metaData"]["schemaString"] = text
            mode = action["metaData"]["configuration"]["delta.columnMapping.mode"]
    commit(mapped, 0, *said)
    if mode == "id":
        with pytest.raises(SourceError, match="maps its columns"):
            table_files(mapped)
    else:
        assert len(table_files(mapped)) == 1


@pytest.mark.spark
def test_a_stream_of_such_a_table_ends_in_the_sentence(spark, vectors, tmp_path):
    from spark_jobs import plain_errors

    overwritten(vectors)
    deltas = maintain(
        spark, "SELECT COUNT(*) AS n FROM t", {"t": delta_changes(spark, str(vectors))}, checkpoint=str(tmp_path / "c")
    )
    writer = deltas.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(SparkJobError, match="version 2 of the Delta table") as told, plain_errors():
        writer.trigger(availableNow=True).start().awaitTermination()
    assert "\n" not in str(told.value)


def test_a_table_whose_types_were_widened_is_refused(tmp_path):
    folder = tmp_path / "widened"
    deltalake.write_deltalake(str(folder), pa.table({"a": pa.array([1, 2], pa.int32())}), configuration=FEED)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["typeWidening"],
        "writerFeatures": ["typeWidening", "changeDataFeed"],
    }
    (meta,) = [action["metaData"] for action in actions(folder, 0) if "metaData" in action]
    field = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    widened = {"type": "struct", "fields": [{**field, "metadata": {"delta.typeChanges": []}}]}
    commit(folder, 1, {"protocol": protocol}, {"metaData": {**meta, "schemaString": json.dumps(widened)}})
    for read in (lambda: delta_table(None, str(folder)), lambda: changes(folder, 0, 1)):
        with pytest.raises((SourceError, SparkJobError), match=r"(?i)widening"):
            read()
