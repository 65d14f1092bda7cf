"""A table of deltas as a Delta table: a transaction per micro-batch, which contains its stream and batch.

The log of the table stores the newest transaction of every application (here: of every stream), in the same commit that
adds the files. So a batch is in the table once, however often it is executed, and two drivers that commit the same
batch cannot both succeed. Needs the package ``deltalake``; no JVM is used.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from crown.errors import needs
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.storage.address import in_a_line
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.objects import ObjectFolder
from spark_jobs.storage.opening import Options, folder_at
from spark_jobs.tables.deltas.commits import OURS, attempts, beaten, entries, foreign, place
from spark_jobs.tables.deltas.parts import Part, schema_of
from spark_jobs.tables.results.hidden import refuse_mapped, refuse_vectors

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema

_ATTEMPT = "crown.attempt"
_LOOKED_AT = 20  # number of newest commits that are searched for a commit that was just made


def require() -> None:
    """Raises ``MissingPackageError`` without ``deltalake``."""
    with needs("a Delta table"):
        import deltalake  # noqa: F401


class DeltaLog:
    """The log of the Delta table in ``folder``. See ``spark_jobs.tables.deltas.commits.Log``.

    ``stream``: the writer, ``<stream id>/<operator>``. A table with rows of another writer is refused; an empty table
    with the same columns is accepted.
    """

    def __init__(self, folder: Folder | Path, stream: str) -> None:
        self._folder = folder = folder_at(folder)
        self._stream = stream
        self._table = opened(folder)
        if self._table is None:
            begun = {name for name, _ in attempts(folder)}  # a driver may have died before its first commit
            if strange := sorted(entries(folder) - OURS - begun):
                raise foreign(folder, f"other files ({strange[0]}, for example), but no Delta table")
        elif self.newest() < 0 and self._table.file_uris():
            raise foreign(folder, "a Delta table with rows that this stream has not written")

    def newest(self) -> int:
        """Returns the batch of the stream's newest transaction."""
        return _newest(self._table, self._stream)

    def holds(self, file: str) -> bool:
        """Returns True if the file is in the newest version of the table. O(files)."""
        return self._table is not None and holds(self._table, file)

    def commit(self, batch: int, parts: Sequence[Part]) -> None:
        """Adds the files of a batch in one transaction; the first one creates the table."""
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import AddAction, create_table_with_add_actions

        schema = self._shape(parts)
        files = [part.file for part in parts]
        place(self._folder, files)
        now = int(time.time() * 1000)
        actions = [AddAction(part.file, part.bytes, {}, now, True, part.stats) for part in parts]
        mine = uuid.uuid4().hex
        properties = by_batch(self._stream, batch, {_ATTEMPT: mine})
        try:
            if self._table is None:
                create_table_with_add_actions(
                    str(self._folder),
                    schema,
                    actions,
                    "error",
                    name="deltas",
                    storage_options=options_of(self._folder),
                    commit_properties=properties,
                )
                self._table = opened(self._folder)
            else:
                self._table.create_write_transaction([*actions], "append", schema, commit_properties=properties)
                self._table.update_incremental()
        except (DeltaError, OSError) as error:
            if self._is_committed(mine):
                return
            if _beaten(error):  # otherwise the commit may have succeeded; the next start removes uncommitted files
                self._folder.delete(files)
            raise uncommitted(self._folder, batch, error) from None

    def _is_committed(self, attempt: str) -> bool:
        """Returns True if a commit that reported a failure is in the log.

        A store's response may get lost, and the repeated request then finds the result of the first.
        """
        table = opened(self._folder)
        if table is None or all(commit.get(_ATTEMPT) != attempt for commit in table.history(_LOOKED_AT)):
            return False
        self._table = table
        return True

    def _shape(self, parts: Sequence[Part]) -> Schema:
        """Returns the table's columns; for a new table, the columns of the files. Raises :class:`SourceError` if they
        differ.
        """
        from deltalake import Schema

        wanted = Schema.from_arrow(schema_of(self._folder, parts[0])) if parts else None
        if self._table is None:
            if wanted is None:
                raise SourceError(f"the Delta table {self._folder} cannot be created: no cell has reported its columns")
            return wanted
        found = self._table.schema()
        if wanted is not None and _columns(found) != _columns(wanted):
            raise SourceError(
                f"the Delta table {self._folder} has the columns {_line(found)}, but the deltas have {_line(wanted)}: "
                "give another folder"
            )
        return found


def by_batch(stream: str, batch: int, more: Mapping[str, str] | None = None) -> CommitProperties:
    """Returns the properties of a commit: its stream and batch."""
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(stream, batch)], custom_metadata=dict(more or {}))


def uncommitted(folder: Folder, batch: int, error: Exception) -> CheckpointError:
    """Returns the error for a batch that could not be committed to a Delta table."""
    if _beaten(error):
        return beaten(folder, batch)
    return CheckpointError(
        f"batch {batch} cannot be committed to the Delta table {folder} ({_reason(folder, error)}): fix that, and "
        "start the stream again"
    )


def _reason(folder: Folder, error: Exception) -> str:
    """Returns the reason of an error of deltalake, in a line without credentials."""
    if isinstance(folder, ObjectFolder):
        return folder.bucket.reason(error)
    return in_a_line(error)


def options_of(folder: Folder) -> dict[str, str] | None:
    """Returns deltalake's options for the storage of a folder."""
    return folder.bucket.delta_options() if isinstance(folder, ObjectFolder) else None


def _beaten(error: Exception) -> bool:
    """Returns True if a commit failed because another process has committed that batch."""
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError) and "oncurrent transaction" in str(error)


def opened(folder: Folder) -> DeltaTable | None:
    """Returns the Delta table in a folder; None if there is none. Raises :class:`SourceError` if it cannot be read."""
    require()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    options = options_of(folder)
    try:
        if not DeltaTable.is_deltatable(str(folder), options):
            return None
        found = DeltaTable(str(folder), storage_options=options)
    except (DeltaError, OSError) as error:
        raise SourceError(f"the Delta table {folder} cannot be read ({_reason(folder, error)})") from None
    refuse_mapped(found, str(folder))
    return found


def holds(table: DeltaTable, file: str) -> bool:
    """Returns True if the version of a table that was read contains a file. O(files)."""
    return any(uri.endswith(f"/{file}") for uri in table.file_uris())


def newest_batch(folder: Folder | Path, stream: str) -> int:
    """Returns the newest batch of a stream in a Delta table; −1 if there is none."""
    return _newest(opened(folder_at(folder)), stream)


def back(folder: Folder, stream: str, batch: int) -> Callable[[], None]:
    """Returns a function that restores a table of deltas to the version that ends with a batch, in one transaction.

    O(versions since). Raises :class:`CheckpointError` if the table no longer has that version.
    """
    from deltalake.exceptions import DeltaError

    version = _version_of(opened(folder), stream, batch)
    if version is None:
        raise CheckpointError(
            f"the Delta table {folder} has no version that ends with batch {batch}: older versions were removed from "
            "its log. Give a later batch"
        )

    def restored() -> None:
        table = opened(folder)
        assert table is not None, "it has been read"
        try:
            table.restore(version, commit_properties=by_batch(stream, batch))
        except (DeltaError, OSError) as error:
            raise CheckpointError(
                f"the Delta table {folder} cannot go back to version {version} ({_reason(folder, error)}): fix that, "
                "and run this again"
            ) from None

    return restored


def _version_of(table: DeltaTable | None, stream: str, batch: int) -> int | None:
    """Returns the newest version that ends with a batch; None if the log has none."""
    from deltalake.exceptions import DeltaError

    assert table is not None, "it has batches of the stream"
    for version in range(table.version(), -1, -1):
        try:
            table.load_as_version(version)
        except (DeltaError, OSError):
            return None
        if _newest(table, stream) == batch:
            return version
    return None


def _newest(table: DeltaTable | None, stream: str) -> int:
    found = table.transaction_version(stream) if table is not None else None
    return -1 if found is None else int(found)


def table_files(path: Folder | Path | str, storage_options: Options | None = None) -> list[str]:
    """Returns the files of the newest version of a Delta table: paths, or URIs of an object store.

    ``storage_options``: options of obstore. Raises :class:`SourceError` if there is no table.
    """
    folder = folder_at(path, "path", storage_options)
    table = opened(folder)
    if table is None:
        raise SourceError(f"{folder} is not a Delta table: give the folder that write_deltas writes to")
    refuse_vectors(table, str(folder))
    return [unquote(uri.removeprefix("file://")) for uri in table.file_uris()]


def _columns(schema: Schema) -> list[tuple[str, str]]:
    """Returns names and types, without nullability."""
    return [(field.name, str(field.type)) for field in schema.fields]


def _line(schema: Schema) -> str:
    return ", ".join(f"{field.name} {getattr(field.type, 'type', field.type)}" for field in schema.fields)
