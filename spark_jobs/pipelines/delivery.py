"""Delivers the rows of a pipeline's views: each version exactly once to every sink of a view.

A view has a Delta table in the folder ``tables`` of the pipeline, unless it is temporary, and the further places that
were given for it. Each place has a first version, at which it receives all rows of the view. Later it receives the
changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from crown.databases import Database
from crown.ingest.tables.columns import WEIGHT
from crown.projects.changes import with_weights
from crown.store.arrow_buffers import words
from plans.schema import Table
from plans.types import arrow_type
from spark_jobs.errors import BrokenChainError, CheckpointError, ForeignRowsError, SourceError
from spark_jobs.pipelines.definitions.analysis import Analysis
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.storage.local import LocalFolder
from spark_jobs.tables.places import Place, place_at
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.net import net_of

Function = Callable[[DataFrame, int], None]
"""A function that receives the changes of a view, with ``_weight``, and their version."""
Since = Mapping[str, Mapping[str, int]]
"""By view and place, the version with which the place has begun."""
OWN = "table"
"""The place that is the view's own table."""
_WRITERS = 4
"""The number of places that are written at a time."""


class Delivery:
    """The places of the views of one pipeline, whose own tables are in ``folder``."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._filling = folder.parent / "crown" / "tables"
        self._places: dict[str, dict[str, Place | Function]] = {}

    def add(self, view: str, into: str | Function | Sequence[str | Function]) -> None:
        """Gives a view further places. Raises SourceError for a place that is not valid, or that has another view's
        rows."""
        given = [into] if isinstance(into, str) or callable(into) else into
        if not isinstance(given, (list, tuple)):
            raise SourceError(f"view {view}: into={into!r:.100}: give a place, a function, or a list of them")
        mine = self._places.setdefault(view.lower(), {})
        for one in given:
            place = one if callable(one) else place_at(one)
            table = _table(place)
            if self._folder.resolve() in (Path(table).resolve(), *Path(table).resolve().parents):
                raise SourceError(
                    f"view {view}: {table} is in the folder of the pipeline's own tables: give another one"
                )
            if any(_table(known) == table for places in self._places.values() for known in places.values()):
                raise SourceError(f"view {view}: a view already writes to {table}; give this view a place of its own")
            mine[_called(place)] = place

    def follow(self, other: Delivery) -> None:
        """Takes over the places of another delivery of the same pipeline."""
        self._places = other._places

    def since(
        self, analysis: Analysis, note: Mapping[str, Any], version: int, changing: Collection[str]
    ) -> dict[str, dict[str, int]]:
        """Returns for each view with places the first version of each place, if the next version is ``version``.

        ``changing``: views that are about to be replaced, and keep their places until then. Raises SourceError if a
        changed view has a place with rows of the old view that cannot be deleted.
        """
        found: dict[str, dict[str, int]] = {}
        for view in analysis.views:
            name = view.definition.name
            same = note["views"].get(name) == view.digest
            before = note["since"].get(name, {})
            if name in changing:
                found |= {name: dict(before)} if before else {}
                continue
            places = [] if view.definition.temporary else [OWN]
            places += self._places.get(name.lower(), {})
            stale = [place for place in places if place in before and place != OWN]
            if stale and not same:
                raise SourceError(
                    f"the view {name} has a new definition, and {stale[0]} has the rows of the old one: give the new "
                    "one another place"
                )
            if places:
                found[name] = {place: before.get(place, version) if same else version for place in places}
        return found

    def demand_keys(self, database: Database, since: Since) -> None:
        """Raises SourceError for a place that needs a key of its view if none is known."""
        for name, begun in since.items():
            for called, place in self._places.get(name.lower(), {}).items():
                if called in begun and isinstance(place, Place) and place.needs_key:
                    table = database.schema[name]
                    if place.keys is None and _keys(table) is None:
                        raise SourceError(
                            f"the rows of {name} have no key, which {place.name} needs: name its columns with ?key=a,b"
                        )

    def demand_newest(self, note: Mapping[str, Any], forgotten: Collection[str]) -> None:
        """Raises CheckpointError if a table has a later version than the state, which would take its next version for
        one that the table has. ``forgotten``: views whose tables are replaced."""
        for name, places in note["since"].items():
            if OWN in places and name not in forgotten:
                newest = DeltaResult(LocalFolder(self._folder / name)).newest(_stream(note, name, places[OWN]))
                if newest > note["version"] - places[OWN]:
                    raise CheckpointError(
                        f"the table of the view {name} has version {newest + places[OWN]}, and the state of the "
                        f"pipeline only version {note['version']}, because it was restored from a copy: restore the "
                        "folders crown and tables from the same copy, or compute everything again with "
                        "crown pipelines full-refresh"
                    )
                return  # the other tables have its version

    def deliver(
        self, database: Database, note: Mapping[str, Any], deltas: list[dict[str, pa.Table]], aside: bool = False
    ) -> dict[str, tuple[int, int]]:
        """Brings every place to the version of ``note``, once. Returns the numbers of rows that were inserted into and
        deleted from each view. A place that was removed since is not written.

        ``aside``: the views' own tables are filled in a second folder. The next version without ``aside`` replaces the
        current tables by them.
        """
        with ThreadPoolExecutor(_WRITERS) as pool:
            written = {
                (name, place): pool.submit(self._write, database, name, place, note, deltas, aside)
                for name, places in note["since"].items()
                for place in places
                if place == OWN or place in self._places.get(name.lower(), {})
            }
        changed = {}
        for (name, place), future in written.items():
            counts = future.result()
            if name not in changed or note["since"][name][place] < note["version"]:
                changed[name] = counts
        return changed

    def forget(self, note: Mapping[str, Any], filling: Mapping[str, Any]) -> None:
        """Deletes the tables of all views except those of a version, and those that are being filled in a second
        folder."""
        kept = {
            *(self._folder / name for name, places in note["since"].items() if OWN in places),
            *(self._aside(filling, name) for name in filling["since"]),
        }
        for folder in (*self._folder.glob("*"), *self._filling.glob("*")):
            if folder not in kept and folder.is_dir():  # a file there is another program's
                shutil.rmtree(folder)

    def _aside(self, note: Mapping[str, Any], name: str) -> Path:
        """Returns the folder in which the own table of a view is filled, for one definition and one first version."""
        return self._filling / f"{name}-{note['since'][name][OWN]}-{note['views'].get(name)}"

    def _replace(self, name: str, filled: Path) -> None:
        """Replaces the table of a view by a table that was filled in a second folder."""
        own, old = self._folder / name, self._filling / f"{name}-old"
        self._folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(old, ignore_errors=True)
        if own.exists():
            own.rename(old)
        filled.rename(own)
        shutil.rmtree(old, ignore_errors=True)

    def _write(
        self,
        database: Database,
        name: str,
        place: str,
        note: Mapping[str, Any],
        deltas: list[dict[str, pa.Table]],
        aside: bool,
    ) -> tuple[int, int]:
        since = note["since"][name][place]
        batch = note["version"] - since
        rows = _content(database, name, deltas if batch else None)
        stream, keys = _stream(note, name, since), _keys(database.schema[name])
        if place == OWN:
            filled, own = self._aside(note, name), self._folder / name
            if batch == 0:  # begun by a run that died
                shutil.rmtree(filled, ignore_errors=True)
            elif filled.exists() and not aside:
                self._replace(name, filled)
            into = filled if aside or batch == 0 else own
            into.mkdir(parents=True, exist_ok=True)
            try:
                DeltaResult(LocalFolder(into)).apply(stream, batch, net_of(rows, keys, batch))
                if batch == 0 and not aside:
                    self._replace(name, filled)
            except (ForeignRowsError, BrokenChainError):
                raise ForeignRowsError(
                    f"the table of the view {name} does not hold the rows that version {note['version'] - 1} left in "
                    "it, because another program has changed it: "
                    f"crown pipelines full-refresh --view {name} writes it again"
                ) from None
        else:
            at = self._places[name.lower()][place]
            if isinstance(at, Place):
                at.target().apply(stream, batch, net_of(rows, keys if at.keys is None else at.keys, batch))
            else:
                at(self._session.spark.createDataFrame(rows), note["version"])
        weights = np.concatenate([np.empty(0, np.int64), *map(words, rows[WEIGHT].chunks)])
        return int(weights[weights > 0].sum()), int(-weights[weights < 0].sum())


def _stream(note: Mapping[str, Any], name: str, since: int) -> str:
    """Returns the name under which the places of a view record the versions that they have."""
    return f"{note['id']}/{name}/{since}"


def _called(place: Place | Function) -> str:
    if isinstance(place, Place):
        return place.name
    return f"function {getattr(place, '__module__', '')}.{getattr(place, '__qualname__', type(place).__name__)}"


def _table(place: Place | Function) -> str:
    return place.table if isinstance(place, Place) else _called(place)


def _keys(table: Table) -> list[str] | None:
    """Returns a unique key of the rows of a view; None if rows may repeat."""
    return list(table.key) or ([column.name for column in table.columns] if table.distinct else None)


def _content(database: Database, name: str, deltas: list[dict[str, pa.Table]] | None) -> pa.Table:
    """Returns the changes of a view, or with None all of its rows."""
    if deltas is None:
        return with_weights(database[name].to_table(), 1) if name in database else database.table(name)
    table = database.schema[name]
    schema = pa.schema([*((c.name, arrow_type(c.type)) for c in table.columns), (WEIGHT, pa.int64())])
    parts = [found[name].select(schema.names).cast(schema) for found in deltas if name in found]
    return pa.concat_tables(parts) if parts else pa.Table.from_batches([], schema)
