"""``BackgroundBuild``: computes views that are added or changed while a pipeline runs, in a thread of their own.

A fork of the database registers the views in the thread, writes all their rows into new tables, and then applies each
version of the pipeline. When the fork has caught up, the pipeline adopts it, and the new tables replace those of the
changed views. Until then no version has the added views, and the changed views keep their old definitions. If the
process dies before the adoption, the next process starts the build again; if it dies after, the next process makes the
version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from crown.durable.database import DurableDatabase
from spark_jobs.pipelines.definitions.analysis import Analysis, Analyzed
from spark_jobs.pipelines.delivery import OWN, Delivery

_ADOPTED = "adopted"
"""The field of the note of a database that has adopted a fork: the entries of its views in the next version."""
Batches = list[dict[str, pa.Table]]
"""The batches that make a version."""


class BackgroundBuild:
    """Views that are computed in the background, from the pipeline's newest version on."""

    def __init__(
        self, database: DurableDatabase, note: Mapping[str, Any], views: tuple[Analyzed, ...], delivery: Delivery
    ) -> None:
        self.digests = {view.definition.name: view.digest for view in views}
        self._relations = {view.definition.name: view.relation for view in views if view.relation is not None}
        self._delivery = delivery
        since = {view.definition.name: {OWN: note["version"]} for view in views if not view.definition.temporary}
        self.note = {"id": note["id"], "since": since, "views": self.digests}
        self.rows = dict.fromkeys(since, 0)
        self._changed = [name for name in reversed(database.views) if name in self.digests]
        self._version = -1
        self._queue: SimpleQueue[tuple[int, Batches] | None] = SimpleQueue()
        self._abandoned = Event()
        self._error: Exception | None = None
        self._fork = database.fork(check=partial(_check_abandoned, self._abandoned))
        self._thread = Thread(target=self._run, args=(note["version"],), name="crown-background", daemon=True)
        self._thread.start()

    def follow(self, version: int, batches: Batches) -> None:
        """Queues a version of the pipeline, which the thread applies to the views."""
        self._queue.put((version, batches))

    def caught_up(self, version: int) -> bool:
        """Returns True if the views have this version. Raises the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error
        return self._version == version

    def adopted(self, database: DurableDatabase, note: Mapping[str, Any]) -> dict[str, Any]:
        """Replaces the database with the fork; returns the note with the views.

        The log stores with the fork that the next version has the views: see ``finished``.
        """
        self._join()
        found = {"views": {**note["views"], **self.digests}, "since": {**note["since"], **self.note["since"]}}
        database.adopt(self._fork, note={**note, _ADOPTED: found})
        return {**note, **found}

    def end(self) -> None:
        """Abandons the build, and waits until the thread has stopped."""
        self._abandoned.set()
        self._join()

    def _join(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self, version: int) -> None:
        try:
            self._fork.define(self._relations, drop=self._changed)
            self._deliver(version, [])
            if not self._changed:  # otherwise a process that opens it before the adoption would have the changed views
                self._fork.snapshot()  # so that a process that opens the state later need not fill the views
            while (given := self._queue.get()) is not None:
                version, batches = given
                self._deliver(version, [{**rows, **self._fork.apply(rows)} for rows in batches])
        except _AbandonedError:
            pass
        except Exception as error:
            self._error = error

    def _deliver(self, version: int, deltas: Batches) -> None:
        """Brings the tables of the views to a version. The first call writes all rows."""
        _check_abandoned(self._abandoned)
        note = {**self.note, "version": version}
        for name, (inserted, deleted) in self._delivery.deliver(self._fork, note, deltas, True).items():
            self.rows[name] += inserted - deleted
        self._version = version


class _AbandonedError(Exception):
    """The build was abandoned."""


def _check_abandoned(abandoned: Event) -> None:
    if abandoned.is_set():
        raise _AbandonedError


class Background:
    """The views that a pipeline is computing in the background: none, or those of one ``BackgroundBuild``."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._build: BackgroundBuild | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the views that are being computed."""
        return () if self._build is None else tuple(self._build.digests)

    @property
    def note(self) -> Mapping[str, Any]:
        """Returns the entries of these views in the note of a version."""
        return {"since": {}, "views": {}} if self._build is None else self._build.note

    def next_views(
        self, analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any], again: Callable[[], Analysis]
    ) -> tuple[Analysis, Mapping[str, Any], Mapping[str, int]]:
        """Starts, continues or adopts a build. Returns the views of the next version, the note that it is based on, and
        the row counts of the adopted tables.

        The next version has the old definitions of views whose build has not caught up. ``note``: that of the newest
        version. ``again`` analyzes the definitions, if the given analysis was read from a file.
        """
        if self._build is None and _fits_background(analysis, database, note):
            full = again() if any(view.relation is None for view in analysis.views) else analysis
            added = tuple(view for view in full.views if _is_new(view, note))
            unknown = [name for name in reversed(database.views) if name not in note["views"]]
            database.define({}, drop=unknown)  # a process that died registered them, and no version has them
            self._build = BackgroundBuild(database, note, added, self._delivery)
        build = self._build
        if build is None:
            return analysis, note, {}
        expected = {**note["views"], **build.digests}
        found = {view.definition.name: view.digest for view in analysis.views}
        if any(found.get(name) != digest for name, digest in expected.items()):
            self.end()  # a definition has changed since
            return analysis, note, {}
        if not build.caught_up(note["version"]):
            return analysis.at(note["views"]), note, {}
        self._build = None
        note = build.adopted(database, note)
        return analysis.at(note["views"]), note, build.rows  # views that were added since are built next

    def follow(self, version: int, batches: Batches) -> None:
        """Queues a version of the pipeline for the build, if there is one."""
        if self._build is not None:
            self._build.follow(version, batches)

    def end(self) -> None:
        """Abandons the build, if there is one."""
        if self._build is not None:
            self._build.end()
            self._build = None


def finished(database: DurableDatabase) -> dict[str, pa.Table] | None:
    """Makes the version of views that a process adopted before it died. Returns its deltas, or None if there are no
    such views. Their tables already have the version before."""
    note = dict(database.note or {})
    found = note.pop(_ADOPTED, None)
    if found is None:
        return None
    return database.apply({}, note={**note, **found, "version": note["version"] + 1})


def without(note: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns the note without the digests of these views, which the state has with other definitions. If the process
    dies before the next version, the views are computed again, also with unchanged definitions."""
    return {**note, "views": {name: digest for name, digest in note["views"].items() if name not in names}}


def _fits_background(analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any]) -> bool:
    """Returns True if there are new or changed views that can be built in the background.

    All of them must be maintainable and be written only to their own tables. No view may have been dropped since the
    last version, and the database must have the views of that version."""
    kept = {view.definition.name for view in analysis.views if view.refused is None}.intersection(note["views"])
    if not (note["version"] and note["whole"] and kept <= set(database.views)):
        return False
    new = [view for view in analysis.views if _is_new(view, note)]
    dropped = set(note["views"]).difference(view.definition.name for view in analysis.views)
    elsewhere = any(set(note["since"].get(view.definition.name, ())) - {OWN} for view in new)
    return bool(new) and not dropped and not elsewhere and all(view.refused is None for view in new)


def _is_new(view: Analyzed, note: Mapping[str, Any]) -> bool:
    return bool(note["views"].get(view.definition.name) != view.digest)
