"""``Growing``: views that are added to a pipeline while it runs, computed beside it.

A fork of the database registers them in a thread of its own, writes all their rows into their own tables, and then
follows the pipeline, version by version. When it has caught up, the pipeline goes on with the fork. Until then no
version has these views, so a process that dies begins with them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from crown.durable.database import DurableDatabase
from spark_jobs.pipelines.analysis import Analysis, Analyzed
from spark_jobs.pipelines.delivery import OWN, Delivery

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
        self._stream = note["id"]
        self._since = {view.definition.name: {OWN: note["version"]} for view in views if not view.definition.temporary}
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
        """Has the database go on with the fork; returns the note with the views."""
        self._join()
        database.adopt(self._fork)
        return {**note, "views": {**note["views"], **self.digests}, "since": {**note["since"], **self._since}}

    def end(self) -> None:
        """Gives up: ends the thread where it can be stopped."""
        self._given_up.set()
        self._join()

    def _join(self) -> None:
        self._given.put(None)
        self._thread.join()

    def _run(self, version: int) -> None:
        try:
            self._fork.define(self._relations)
            self._deliver(version, [])
            self._fork.snapshot()  # while the others go on: a process that opens the state later need not fill them
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
        note = {"id": self._stream, "version": version, "since": self._since}
        self._delivery.deliver(self._fork, note, deltas)
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

    def shown(
        self, analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any], again: Callable[[], Analysis]
    ) -> tuple[Analysis, Mapping[str, Any]]:
        """Returns the views that the next version has, and the note that it goes on from: without those that are
        computed beside, until they have caught up. ``note``: that of the newest version; ``again`` analyzes the views
        where an analysis was read from a file.
        """
        if self._growing is None and _only_added(analysis, note):
            full = again() if any(view.relation is None for view in analysis.views) else analysis
            added = tuple(view for view in full.views if view.definition.name not in note["views"])
            unknown = [name for name in reversed(database.views) if name not in note["views"]]
            database.define({}, drop=unknown)  # a process that died had registered them, and no version has them
            self._growing = Growing(database, note, added, self._delivery)
        growing = self._growing
        if growing is None:
            return analysis, note
        expected = {**note["views"], **growing.digests}
        found = {view.definition.name: view.digest for view in analysis.views}
        if any(found.get(name) != digest for name, digest in expected.items()):
            self.end()  # another definition by now
            return analysis, note
        later = [name for name in found if name not in expected]  # it is their turn when these are there
        if not growing.caught_up(note["version"]):
            return analysis.without({*growing.digests, *later}), note
        self._growing = None
        return analysis.without(later), growing.adopted(database, note)

    def follow(self, version: int, batches: Batches) -> None:
        """Has the views take a version of the pipeline."""
        if self._growing is not None:
            self._growing.follow(version, batches)

    def end(self) -> None:
        """Gives up what is computed."""
        if self._growing is not None:
            self._growing.end()
            self._growing = None


def _only_added(analysis: Analysis, note: Mapping[str, Any]) -> bool:
    """Returns True if there are new views that can be maintained, and nothing else has changed since the last
    version."""
    if not (note["version"] and note["whole"]):
        return False
    known = {view.definition.name: view.digest for view in analysis.views}
    added = [view for view in analysis.views if view.definition.name not in note["views"]]
    same = all(known.get(name) == digest for name, digest in note["views"].items())
    return same and bool(added) and all(view.refused is None for view in added)
