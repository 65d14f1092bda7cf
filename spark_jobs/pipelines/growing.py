"""``Growing``: views that are added to a pipeline while it runs, or changed, computed beside it.

A fork of the database registers them in a thread of its own, writes all their rows into tables aside, and then
follows the pipeline, version by version. When it has caught up, the pipeline goes on with the fork, and the tables take
the places of those of the views that were changed. Until then no version has these views, and those that were changed
are what they were. So a process that dies begins with them anew, unless the pipeline has gone on with the fork: then
the next process makes the version.
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
"""In the note of a database that goes on with a fork: what the next version says of its views."""
Batches = list[dict[str, pa.Table]]
"""The batches that make a version."""


class Growing:
    """Views that are computed beside a pipeline, from the version that it has."""

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
        self._given: SimpleQueue[tuple[int, Batches] | None] = SimpleQueue()
        self._given_up = Event()
        self._error: Exception | None = None
        self._fork = database.fork(check=partial(_go_on, self._given_up))
        self._thread = Thread(target=self._run, args=(note["version"],), name="crown-growing", daemon=True)
        self._thread.start()

    def follow(self, version: int, batches: Batches) -> None:
        """Has the views take a version of the pipeline."""
        self._given.put((version, batches))

    def caught_up(self, version: int) -> bool:
        """Returns True if the views are up to a version. Raises what has stopped them."""
        if self._error is not None:
            raise self._error
        return self._version == version

    def adopted(self, database: DurableDatabase, note: Mapping[str, Any]) -> dict[str, Any]:
        """Has the database go on with the fork; returns the note with the views.

        That the next version has them is in the log with the fork: see ``finished``.
        """
        self._join()
        found = {"views": {**note["views"], **self.digests}, "since": {**note["since"], **self.note["since"]}}
        database.adopt(self._fork, note={**note, _ADOPTED: found})
        return {**note, **found}

    def end(self) -> None:
        """Gives up: ends the thread where it can be stopped."""
        self._given_up.set()
        self._join()

    def _join(self) -> None:
        self._given.put(None)
        self._thread.join()

    def _run(self, version: int) -> None:
        try:
            self._fork.define(self._relations, drop=self._changed)
            self._deliver(version, [])
            if not self._changed:  # a process that opens it before it is adopted would have the changed views
                self._fork.snapshot()  # while the others go on: one that opens the state later need not fill them
            while (given := self._given.get()) is not None:
                version, batches = given
                self._deliver(version, [{**rows, **self._fork.apply(rows)} for rows in batches])
        except _GivenUpError:
            pass
        except Exception as error:
            self._error = error

    def _deliver(self, version: int, deltas: Batches) -> None:
        """Brings the tables of the views to a version; the first one has all of their rows."""
        _go_on(self._given_up)
        note = {**self.note, "version": version}
        for name, (inserted, deleted) in self._delivery.deliver(self._fork, note, deltas, True).items():
            self.rows[name] += inserted - deleted
        self._version = version


class _GivenUpError(Exception):
    """What is computed is not wanted any more."""


def _go_on(given_up: Event) -> None:
    if given_up.is_set():
        raise _GivenUpError


class Beside:
    """The views that a pipeline is computing beside the others: none, or those of one ``Growing``."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._growing: Growing | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the views that are computed now."""
        return () if self._growing is None else tuple(self._growing.digests)

    @property
    def note(self) -> Mapping[str, Any]:
        """Returns what the note of a version would say of them."""
        return {"since": {}, "views": {}} if self._growing is None else self._growing.note

    def shown(
        self, analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any], again: Callable[[], Analysis]
    ) -> tuple[Analysis, Mapping[str, Any], Mapping[str, int]]:
        """Returns the views that the next version has, the note that it goes on from, and the rows of the tables that
        it takes over: those that are computed beside are as they were, until they have caught up. ``note``: that of the
        newest version; ``again`` analyzes the views where an analysis was read from a file.
        """
        if self._growing is None and _apart(analysis, database, note):
            full = again() if any(view.relation is None for view in analysis.views) else analysis
            added = tuple(view for view in full.views if _is_new(view, note))
            unknown = [name for name in reversed(database.views) if name not in note["views"]]
            database.define({}, drop=unknown)  # a process that died had registered them, and no version has them
            self._growing = Growing(database, note, added, self._delivery)
        growing = self._growing
        if growing is None:
            return analysis, note, {}
        expected = {**note["views"], **growing.digests}
        found = {view.definition.name: view.digest for view in analysis.views}
        if any(found.get(name) != digest for name, digest in expected.items()):
            self.end()  # another definition by now
            return analysis, note, {}
        if not growing.caught_up(note["version"]):
            return analysis.at(note["views"]), note, {}
        self._growing = None
        note = growing.adopted(database, note)
        return analysis.at(note["views"]), note, growing.rows  # views that came since have their turn next

    def follow(self, version: int, batches: Batches) -> None:
        """Has the views take a version of the pipeline."""
        if self._growing is not None:
            self._growing.follow(version, batches)

    def end(self) -> None:
        """Gives up what is computed."""
        if self._growing is not None:
            self._growing.end()
            self._growing = None


def finished(database: DurableDatabase) -> dict[str, pa.Table] | None:
    """Makes the version of views that a process has adopted before it died; returns its deltas, None if there are no
    such views. Their tables are filled aside, up to the version before."""
    note = dict(database.note or {})
    found = note.pop(_ADOPTED, None)
    if found is None:
        return None
    return database.apply({}, note={**note, **found, "version": note["version"] + 1})


def without(note: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns the note of a version whose views of these names are another ones in the state: if the process dies
    before the next version, they begin anew, whatever their definitions are then."""
    return {**note, "views": {name: digest for name, digest in note["views"].items() if name not in names}}


def _apart(analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any]) -> bool:
    """Returns True if there are new or changed views, all of them can be maintained and need no other place than their
    own tables, and none was dropped since the last version, whose views the database has."""
    kept = {view.definition.name for view in analysis.views if view.refused is None}.intersection(note["views"])
    if not (note["version"] and note["whole"] and kept <= set(database.views)):
        return False
    new = [view for view in analysis.views if _is_new(view, note)]
    dropped = set(note["views"]).difference(view.definition.name for view in analysis.views)
    elsewhere = any(set(note["since"].get(view.definition.name, ())) - {OWN} for view in new)
    return bool(new) and not dropped and not elsewhere and all(view.refused is None for view in new)


def _is_new(view: Analyzed, note: Mapping[str, Any]) -> bool:
    return bool(note["views"].get(view.definition.name) != view.digest)
