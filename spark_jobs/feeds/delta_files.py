"""The files of a Delta table's version, or of its changes, for cells that read them.

A version of a table with change data feed has change files, whose column ``_change_type`` says whether a row was
inserted or deleted. A version without change files adds and removes whole files. Delta's log lists both; ``deltalake``
does not read their rows. Rows of a version that lacks a column of the table have NULL there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql import types as T
from typing_extensions import override

from spark_jobs.errors import ANEW, SourceError
from spark_jobs.feeds.delta_source import ChangesReader, ChangesSource, TableSource, Versions, delta_errors, opened
from spark_jobs.storage.address import masked
from spark_jobs.tables.results.hidden import may_have_vectors

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

COLUMNS, FILE, SIGN = "columns", "file", "sign"
CODED = 0
"""The sign of a change file, whose rows have codes of their own. Other files have the sign 1 or -1 for all their
rows.
"""


def files_of(spark: SparkSession, source: str, options: Any, read: list[str]) -> DataFrame | None:
    """Returns the names of the files that a frame over a Delta table reads, as a frame; None if the cells cannot read
    these files.

    ``source``: the name of its data source; ``options``: its options; ``read``: the columns that are read of the files.
    """
    if source not in (ChangesSource.name(), TableSource.name()):
        return None
    where, after, most, version = (options.get(key) for key in ("table", "after", "versions", "version"))
    table = opened(where, None if version is None else int(version)) if "://" not in where else None
    if table is None or not _plain(table):
        return None
    if source == TableSource.name():
        names = pa.array([unquote(urlsplit(uri).path) for uri in table.file_uris()], pa.string())
        return spark.createDataFrame(pa.table({FILE: names}))
    spark.dataSource.register(FilesSource)
    given = {"table": where, "after": after, "versions": most, COLUMNS: json.dumps(read)}
    return (
        spark.readStream.format(FilesSource.name()).options(**{k: v for k, v in given.items() if v is not None}).load()
    )


def _plain(table: DeltaTable) -> bool:
    """Returns True if the files of a table contain all columns of its rows, and only rows that exist."""
    return not may_have_vectors(table) and not table.metadata().partition_columns


class FilesSource(ChangesSource):
    """The files that versions have changed. Options as for the feed, and ``columns``: JSON of the columns that are
    read.
    """

    @override
    @classmethod
    def name(cls) -> str:
        return "crown_delta_files"

    @override
    def schema(self) -> T.StructType:
        return T.StructType().add(FILE, T.StringType()).add(SIGN, T.LongType())

    @override
    def streamReader(self, schema: T.StructType) -> datasource.DataSourceStreamReader:
        most = self.options.get("versions")
        where, after = self.options["table"], int(self.options["after"])
        return _FilesReader(
            where, schema, after, None if most is None else int(most), json.loads(self.options[COLUMNS])
        )


class _FilesReader(ChangesReader):
    def __init__(self, table: str, schema: T.StructType, after: int, most: int | None, read: list[str]) -> None:
        super().__init__(table, schema, after, most)
        self._read = read

    @override
    def read(self, partition: Versions) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        with delta_errors(self._table):
            table = opened(self._table)
            if not _plain(table):
                raise SourceError(
                    f"the Delta table {masked(self._table)} has partitions or deletion vectors, but had none when the "
                    "stream was built: start it again"
                )
            named = {field.name.lower() for field in table.schema().fields}
            lacking = next((name for name in self._read if name.lower() not in named), None)
            if lacking is not None:
                raise SourceError(
                    f"the Delta table {masked(self._table)} has no column {lacking!r} any more, but had one when the "
                    "stream was built: build the stream again"
                )
            found: list[tuple[str, int]] = []
            for version in range(partition.first, partition.last + 1):
                found += self._of_version(version)
        names, signs = pa.array([name for name, _ in found], pa.string()), pa.array([s for _, s in found], pa.int64())
        yield pa.RecordBatch.from_arrays([names, signs], names=[FILE, SIGN])

    def _of_version(self, version: int) -> Iterator[tuple[str, int]]:
        log = Path(self._table) / "_delta_log" / f"{version:020d}.json"
        actions: list[dict[str, Any]] = [json.loads(line) for line in log.read_bytes().splitlines() if line.strip()]
        coded = [action["cdc"] for action in actions if "cdc" in action]
        for file in coded:
            yield self._file(version, file), CODED
        for kind, sign in (("remove", -1), ("add", 1)):
            for file in [] if coded else [action[kind] for action in actions if kind in action]:
                if file.get("dataChange"):
                    yield self._file(version, file), sign

    def _file(self, version: int, file: dict[str, Any]) -> str:
        where = urlsplit(file["path"])
        if file.get("partitionValues") or file.get("deletionVector") or where.scheme not in ("", "file"):
            raise SourceError(
                f"version {version} of the Delta table {masked(self._table)} has files of partitions, with deletion "
                "vectors or outside of its folder, which the cells cannot read: "
                f"load the table (delta_table), and {ANEW}"
            )
        return str(Path(self._table).absolute() / unquote(where.path))
