"""Sources of a project that this process reads: folders of files, and tables that keep versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ProjectError, needs
from crown.ingest.tables.columns import WEIGHT
from crown.projects.changes import (
    Changed,
    Files,
    Versions,
    at_files,
    changes_of_versions,
    compared,
    files_at,
    nothing,
    with_weights,
)
from crown.projects.locations import CSV, JSON, PARQUET, VERSIONS, Location
from crown.projects.quarantine import Quarantine
from crown.projects.reader import FileReader
from crown.projects.specification import stamp
from plans.errors import PlanError
from plans.files.rows import RowsFile
from plans.schema import Column, Table
from plans.types import type_of_arrow

_GROUP = "crown.versions"
"""The entry points of the readers of tables that keep versions, by kind."""


class Rows(Protocol):
    """The rows of a source."""

    @property
    def table(self) -> Table:
        """Returns the relation, with the columns that have a type."""
        ...

    def changes(self, position: Any, known: Callable[[], pa.Table]) -> Changed:
        """Returns the changes since ``position``, a JSON value. ``known`` returns the rows that the state has."""
        ...


@dataclass(frozen=True)
class Source:
    """A source. ``static``: it is read once, and again on request; ``stream``: its rows are only inserted."""

    rows: Rows
    static: bool
    stream: bool

    def changes(self, position: Any, known: Callable[[], pa.Table]) -> Changed:
        """Returns the changes since ``position``. Raises ProjectError if rows of a stream were deleted."""
        if not self.stream:
            return self.rows.changes(position, known)
        if isinstance(self.rows, Folder):
            return self.rows.appended(position)
        found = self.rows.changes(position, known)
        if found.lost or pc.any(pc.less(found.rows[WEIGHT], 0)).as_py():
            raise ProjectError(
                f"source {self.rows.table.name}: its rows were updated or deleted, and a stream only appends: read it "
                "in a materialized view, without STREAM"
            )
        return found


def source(name: str, location: Location, static: bool, stream: bool, quarantine: Quarantine | None = None) -> Source:
    """Returns the source at a location. ``quarantine``: where rows of files go that cannot be used. Raises ProjectError
    for a kind that only Spark can read, and for files without columns."""
    if location.kind in VERSIONS:
        return Source(_Versioned(name, location), static, stream)
    if location.kind in (PARQUET, CSV, JSON) and "://" not in location.where:
        return Source(Folder(name, location, quarantine), static, stream)
    raise ProjectError(
        f"source {name}: crown run reads local folders of parquet, csv and json files, and tables of delta and "
        f"iceberg; {location.kind}:{location.where} is read by crown pipelines run"
    )


class _Versioned:
    """A table of Delta or Iceberg. The packages that read it are those of jobs on Spark; no session is started."""

    def __init__(self, name: str, location: Location) -> None:
        with needs(f"the source {name}"):
            point = next(iter(entry_points(group=_GROUP, name=location.kind)), None)
            if point is None:
                raise ProjectError(
                    f"source {name}: no reader of {location.kind} is installed: install crown-ivm[spark] again"
                )
            self._versions: Versions = point.load()(location.where)
        self.table = self._versions.table(name)

    def changes(self, position: Any, known: Callable[[], pa.Table]) -> Changed:
        return changes_of_versions(self._versions, self.table, position, known)


class Folder:
    """A folder of files of one format, or one file. A position has the files that were read, with their stamps."""

    def __init__(self, name: str, location: Location, quarantine: Quarantine | None) -> None:
        self._name = name
        self._path = Path(location.where)
        self.table = location.table(name) or self._columns()
        self._reader = FileReader(self.table, location.kind, quarantine)

    def changes(self, position: Any, known: Callable[[], pa.Table]) -> Changed:
        """Returns the rows of new files if files were only added. Otherwise compares the rows of all files with the
        state."""
        at, before = self._files(), files_at(position)
        if self._reader.quarantine is not None:
            self._reader.quarantine.keep(at)
        if position is not None and all(at.get(name) == known_at for name, known_at in before.items()):
            return self._read(at.keys() - before.keys(), at)
        return compared(self._rows(at), self.table, at_files(at), known)

    def appended(self, position: Any) -> Changed:
        """Returns the rows of files with new names."""
        before = files_at(position)
        at = {**self._files(), **before}
        return self._read(at.keys() - before.keys(), at)

    def _read(self, names: Collection[str], at: Files) -> Changed:
        how = f"{len(names)} new files" if names else "no new file"
        return Changed(with_weights(self._rows(names), 1), at_files(at), how)

    def _files(self) -> Files:
        """Returns size and time of the data files by name. Files whose names begin with a dot or ``_`` are ignored.

        A folder may have many files: there is one call of the system for each.
        """
        where, found = f"source {self._name}: {self._path}", {}
        try:
            if not self._path.is_dir():
                at = stamp(self._path)
                if at is None:
                    raise ProjectError(f"{where} does not exist; name a folder of files")
                return {self._path.name: list(at)}
            with os.scandir(self._path) as entries:
                for entry in entries:
                    if entry.name[0] in "._":
                        continue
                    if entry.is_dir():
                        raise ProjectError(f"{where} has a folder in it, {entry.name}; name a folder of files")
                    with suppress(FileNotFoundError):  # it was deleted meanwhile
                        now = entry.stat()
                        found[entry.name] = [now.st_size, now.st_mtime_ns]
        except OSError as error:
            raise ProjectError(f"{where} cannot be read: {error.strerror}") from None
        return found

    def _rows(self, names: Collection[str]) -> pa.Table:
        inside = self._path.is_dir()
        parts = [self._reader.read(self._path / name if inside else self._path, name) for name in sorted(names)]
        return pa.concat_tables(parts) if parts else nothing(self.table)

    def _columns(self) -> Table:
        """Returns the relation with those columns of the first file that have a supported type."""
        files = self._files()
        if not files:
            raise ProjectError(
                f"source {self._name}: {self._path} has no file from which to read its columns; put one there"
            )
        first = min(files)
        found = RowsFile(self._path / first if self._path.is_dir() else self._path).columns()
        columns = []
        for field in found:
            try:
                columns.append(Column(field.name, type_of_arrow(field.type)))
            except PlanError:
                continue  # a query that reads it says so
        return Table(self._name, tuple(columns))
