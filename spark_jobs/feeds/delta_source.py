"""Delta tables as data sources of Spark without Delta's jar; ``spark_jobs.feeds.delta`` registers them.

The package ``deltalake`` reads the table and its change data feed in Spark's Python processes, and rows go to Spark as
Arrow. Offsets are versions of the table, so a micro-batch that is executed again reads the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from typing_extensions import override

from crown.errors import needs
from crown.ingest.conventions import CODES
from spark_jobs.errors import ANEW, SourceError
from spark_jobs.feeds.delta_rows import DataFile, data_files
from spark_jobs.storage.address import in_a_line, masked
from spark_jobs.tables.results.hidden import refuse_mapped, refuse_vectors_among_changes

if TYPE_CHECKING:
    from deltalake import DeltaTable

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _AvailableNow

    BATCHES_END = True  # a source may choose the end of a micro-batch, given its start
except ImportError:  # before Spark 4.2, where such a trigger takes one micro-batch
    BATCHES_END = False

    class _AvailableNow: ...  # type: ignore[no-redef]


CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
PARTITIONS = 8
"""The greatest number of tasks that read the versions of one micro-batch."""
_FEED = "delta.enableChangeDataFeed"


@contextmanager
def delta_errors(table: str) -> Iterator[None]:
    """Turns the errors of deltalake into a :class:`SourceError` of one sentence."""
    with needs("a Delta table"):
        from deltalake.exceptions import DeltaError, TableNotFoundError
    try:
        yield
    except TableNotFoundError:
        raise SourceError(f"{masked(table)} is not a Delta table: give the folder, or URI, of one") from None
    except (DeltaError, OSError, pa.ArrowException, ValueError) as error:
        reason = in_a_line(error)[:300].rstrip(". ")
        raise SourceError(
            f"the Delta table {masked(table)} cannot be read ({reason}): fix that; if versions that were not read yet "
            f"have been removed (VACUUM, log retention), {ANEW}"
        ) from None


def opened(table: str, version: int | None = None) -> DeltaTable:
    """Returns the table at a version, or at its newest version. Raises :class:`SourceError` if it cannot be read."""
    with delta_errors(table):
        from deltalake import DeltaTable

        found = DeltaTable(table)
        if version is not None:
            newest = found.version()
            if not 0 <= version <= newest:
                raise SourceError(f"the Delta table {masked(table)} has no version {version}: the newest is {newest}")
            found = DeltaTable(table, version=version)
    refuse_mapped(found, table)
    return found


def has_feed(table: DeltaTable) -> bool:
    """Returns True if the table writes a change data feed."""
    return str(table.metadata().configuration.get(_FEED)).lower() == "true"


def columns(table: DeltaTable) -> T.StructType:
    """Returns the columns of a table as Spark types. Delta stores them in Spark's JSON format."""
    return T.StructType.fromJson(json.loads(table.schema().to_json()))


class Versions(datasource.InputPartition):
    """The versions from ``first`` to ``last``, both included."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class Files(datasource.InputPartition):
    """Some files of a version of the table, by their numbers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = list(numbers)


class ChangesSource(datasource.DataSource):
    """``table``: its address; ``after``: the version after which the feed begins; ``versions``: maximum per batch."""

    @override
    @classmethod
    def name(cls) -> str:
        return "crown_delta_changes"

    @override
    def schema(self) -> T.StructType:
        found = columns(opened(self.options["table"]))
        return found.add(CHANGE_TYPE, T.StringType()).add(COMMIT_VERSION, T.LongType())

    @override
    def streamReader(self, schema: T.StructType) -> datasource.DataSourceStreamReader:
        most = self.options.get("versions")
        return ChangesReader(
            self.options["table"], schema, int(self.options["after"]), int(most) if most is not None else None
        )


class ChangesReader(datasource.DataSourceStreamReader, _AvailableNow):
    """Reads the feed. An offset is the last version that was read, and the identity of the table."""

    def __init__(self, table: str, schema: T.StructType, after: int, most: int | None) -> None:
        self._table, self._schema, self._after, self._most = table, schema, after, most
        self._target: int | None = None

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"version": self._after, "table": str(opened(self._table).metadata().id)}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Returns the newest position. Raises :class:`SourceError` if the table was replaced by another one.

        Spark before 4.2 does not pass the start of the batch; then ``partitions`` makes the check.
        """
        found = opened(self._table)
        newest: dict[str, Any] = {"version": int(found.version()), "table": str(found.metadata().id)}
        if start is None:
            return newest
        self._refuse_another(start, newest)
        ends = [newest["version"] if self._target is None else max(self._target, start["version"])]
        if self._most is not None:
            ends.append(start["version"] + self._most)
        return {**start, "version": min(ends)}

    def _refuse_another(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        if end["table"] != start["table"] or end["version"] < start["version"]:
            raise SourceError(
                f"the Delta table {masked(self._table)} is not the table that the stream has read up to version "
                f"{start['version']}: restore that table, or {ANEW}"
            )

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = int(opened(self._table).version())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Versions]:
        """Returns the parts of a batch. Raises :class:`SourceError` if the table was replaced by another one."""
        self._refuse_another(start, end)
        first, count = start["version"] + 1, end["version"] - start["version"]
        parts = min(count, PARTITIONS)
        cuts = [first + count * part // parts for part in range(parts)] + [first + count] if parts else []
        return [Versions(one, two - 1) for one, two in pairwise(cuts)]

    @override
    def read(self, partition: Versions) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        with delta_errors(self._table):
            table = opened(self._table)
            refuse_vectors_among_changes(table, self._table, partition.first, partition.last)
            feed = table.load_cdf(starting_version=partition.first, ending_version=partition.last)
            schema = to_arrow_schema(self._schema)
            yield from fitted(pa.RecordBatchReader.from_stream(feed), schema, self._table)


class TableSource(datasource.DataSource):
    """``table``: its address; ``version``: the version that is read."""

    @override
    @classmethod
    def name(cls) -> str:
        return "crown_delta_table"

    @override
    def schema(self) -> T.StructType:
        return columns(opened(self.options["table"], int(self.options["version"])))

    @override
    def reader(self, schema: T.StructType) -> datasource.DataSourceReader:
        return TableReader(self.options["table"], schema, int(self.options["version"]))


class TableReader(datasource.DataSourceReader):
    """Reads a version of a table, one file per task."""

    def __init__(self, table: str, schema: T.StructType, version: int) -> None:
        self._table, self._schema, self._version = table, schema, version

    @override
    def partitions(self) -> Sequence[Files]:
        return [Files([number]) for number in range(len(self._files()))] or [Files([])]

    @override
    def read(self, partition: Files) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        with delta_errors(self._table):
            schema = to_arrow_schema(self._schema)
            for number, file in enumerate(self._files() if partition.numbers else ()):
                if number in partition.numbers:
                    yield from fitted(file.batches(schema), schema, self._table)

    def _files(self) -> list[DataFile]:
        with delta_errors(self._table):
            return data_files(opened(self._table, self._version))


def weights_of(codes: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Returns the weights of the codes of a change data feed. Raises :class:`SourceError` for an unknown code."""
    whole = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    found = whole.dictionary_encode()
    words = found.dictionary.to_pylist()
    strange = next((word for word in words if word not in CODES), None)
    if strange is not None or found.null_count:
        raise SourceError(
            f"a change file of a Delta table has the unknown code {strange!r} in {CHANGE_TYPE}: write the table again"
        )
    return np.array([CODES[word] for word in words], np.int64)[found.indices.to_numpy()]


def fitted(batches: Any, schema: pa.Schema, table: str) -> Iterator[pa.RecordBatch]:
    """Yields the columns of ``schema`` of every batch, with its types. Raises :class:`SourceError` for a missing
    column.
    """
    for batch in batches:
        for name in schema.names:
            if name not in batch.schema.names:
                raise SourceError(
                    f"the Delta table {masked(table)} has no column {name!r} in a version that is read, but had one "
                    "when the stream was built: build the stream again"
                )
        arrays = [batch.column(field.name).cast(field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
