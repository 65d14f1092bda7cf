"""Rejects Delta tables with features that the package ``deltalake`` ignores or reads incorrectly.

Delta's own connector writes such tables, on demand or, in some environments, by default. Without this check they
silently yield NULLs, or deleted rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as fs

from spark_jobs.errors import ANEW, SourceError
from spark_jobs.storage.address import masked

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MODE, _PHYSICAL = "delta.columnMapping.mode", "delta.columnMapping.physicalName"
_VECTORS, _LEFT_BEHIND = "deletionVectors", "checkpointProtection"
_WITHOUT = "set delta.enableDeletionVectors = false and run REORG TABLE ... APPLY (PURGE)"


def refuse_mapped(table: DeltaTable, where: str) -> None:
    """Raises :class:`SourceError` if the files of a table store its columns under other names (column mapping).

    ``deltalake`` reads and writes files by the names of the columns: it would read NULLs there, and other readers would
    read NULLs in its files.
    """
    mode = table.metadata().configuration.get(_MODE, "none")
    if mode == "none":
        return
    renamed = [name for name, physical in _names(json.loads(table.schema().to_json())) if name != physical]
    if mode == "id" or renamed:
        column = renamed[0] if renamed else table.schema().fields[0].name
        raise SourceError(
            f"the Delta table {masked(where)} maps its columns ({_MODE} = {mode}), so its files have {column!r} under "
            "another name, and the package deltalake does not find it: use a table without column mapping, or Delta's "
            "own connector"
        )


def refuse_vectors(table: DeltaTable, where: str) -> None:
    """Raises :class:`SourceError` if the files of a table contain rows that deletion vectors delete."""
    if _VECTORS not in (table.protocol().reader_features or ()):
        return
    if any(one.num_rows for one in pa.RecordBatchReader.from_stream(table.deletion_vectors())):
        raise SourceError(
            f"rows of the Delta table {masked(where)} are deleted by deletion vectors, and its files still have them: "
            f"{_WITHOUT} on it, or read it with Delta's own connector"
        )


def may_have_vectors(table: DeltaTable) -> bool:
    """Returns True if this version of a table, or an earlier one, may have deletion vectors."""
    protocol = table.protocol()
    return bool({_VECTORS, _LEFT_BEHIND} & {*(protocol.reader_features or ()), *(protocol.writer_features or ())})


def refuse_vectors_among_changes(table: DeltaTable, where: str, first: int, last: int) -> None:
    """Raises :class:`SourceError` if the change feed of these versions would be read incorrectly.

    A version without change files adds and removes files, minus the rows that deletion vectors delete. ``deltalake``
    handles a file whose vector changes, but reads all rows of a file that is added or removed. O(commits), and nothing
    for tables that never had deletion vectors.
    """
    if not may_have_vectors(table):
        return
    from deltalake.fs import DeltaStorageHandler

    files = fs.PyFileSystem(DeltaStorageHandler(where))
    for version in range(first, last + 1):
        try:
            with files.open_input_file(f"_delta_log/{version:020d}.json") as opened:
                log = opened.read()
        except FileNotFoundError:  # deltalake reports it, too
            continue
        if b'"deletionVector"' in log and _changes_whole_files(log):
            raise SourceError(
                f"version {version} of the Delta table {masked(where)} adds or removes files with deletion vectors "
                "and has no change files (a RESTORE, an overwrite, or a delete of everything, for example), so the "
                f"package deltalake would read rows that are deleted: read it with Delta's own connector; or "
                f"{_WITHOUT} on the table, and {ANEW}"
            )


def _changes_whole_files(log: bytes) -> bool:
    """Returns True if a commit without change files adds or removes, permanently, a file with a deletion vector."""
    actions: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines() if line.strip()]
    if any("cdc" in action for action in actions):
        return False
    added = {action["add"]["path"] for action in actions if "add" in action}
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    changed = [action.get("add") or action.get("remove") or {} for action in actions]
    files = [file for file in changed if file.get("dataChange") and file["path"] not in added & removed]
    return any(file.get("deletionVector") for file in files)


def _names(of: Any) -> Iterator[tuple[str, str]]:
    """Yields the names of fields, including fields of structs, with their names in files."""
    if isinstance(of, Mapping):
        for field in of.get("fields", ()):
            yield field["name"], field.get("metadata", {}).get(_PHYSICAL, field["name"])
            yield from _names(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            yield from _names(of.get(part))
