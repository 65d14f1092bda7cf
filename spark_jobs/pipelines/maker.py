"""``Maker``: makes the versions of a pipeline, from changes of sources and definitions, from the rows of an earlier
version, or by dropping views."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.durable.database import DurableDatabase
from crown.projects.changes import difference, unweighted, with_weights
from crown.projects.specification import INCREMENTAL, STRICT
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.background import Background, finished, without
from spark_jobs.pipelines.definitions.analysis import Analysis, Analyzed, active
from spark_jobs.pipelines.definitions.project import Definition
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.delivery import Delivery
from spark_jobs.pipelines.inputs.sources import arrow_of
from spark_jobs.pipelines.reports import Report
from spark_jobs.pipelines.state import PipelineState, versions
from spark_jobs.pipelines.vitals import Record
from spark_jobs.queries.catalyst import clone

_NOTHING: dict[str, Any] = {
    "version": 0,
    "positions": {},
    "since": {},
    "views": {},
    "whole": True,  # False: a later batch of this version has the views that Spark computes, or a run all views
    "behind": [],  # views that Spark computes, and that a refresh of other views has not updated
}


class Maker:
    """Makes the versions of one pipeline, and writes them to the places of its views."""

    def __init__(self, path: Path, session: Session, state: PipelineState, delivery: Delivery) -> None:
        self._path = path
        self._session = session
        self._state = state
        self._delivery = delivery
        self._background = Background(delivery)

    @property
    def is_filling(self) -> bool:
        """Returns True while views are computed in the background."""
        return bool(self._background.names)

    def end(self) -> None:
        """Stops the computation of views in the background."""
        self._background.end()

    # -- from changes --------------------------------------------------------------------------------------------------

    def make(
        self,
        analysis: Analysis,
        again: Callable[[], Analysis],
        database: DurableDatabase,
        forgotten: Collection[str],
        selected: Collection[str] | None,
        report: Report,
        in_background: bool,
    ) -> Analysis:
        """Makes the next version if something has changed. Returns the analysis of the definitions.

        ``again`` analyzes the definitions, if the given analysis was read from a file. ``forgotten``: views that are
        computed again from all rows. ``selected``: the views and sources to update; None for all. ``in_background``:
        new views may be computed in the background.
        """
        note: Mapping[str, Any] = {**_NOTHING, **(database.note or {"id": uuid.uuid4().hex})}
        note = without(note, forgotten)
        version = note["version"] + 1
        with report.phase("read"):
            rows, positions, lost = self._read(analysis, database, note["positions"], selected, report)
        before, full = note, analysis
        filled: Mapping[str, int] = {}
        if in_background:
            analysis, note, filled = self._background.next_views(full, database, note, again)
        adopted = note is not before
        views = {v.definition.name: v.digest for v in analysis.views}
        if views != note["views"] and any(view.relation is None for view in analysis.views):
            with report.phase("analyze"):
                full = analysis = again()  # the state is older than the stored analysis
            views = {v.definition.name: v.digest for v in analysis.views}
        since = self._delivery.since(analysis, note, version, self._background.names)
        computed, behind = _to_compute(analysis, note, selected)
        late = any(view.definition.name in note["behind"] for view in computed) or not note["whole"]
        late = late or lost  # a version has the position, so that the next run need not read the table whole again
        if not (rows or late) and views == before["views"] and since == before["since"]:
            report.version = note["version"]
            if not in_background:
                self._shorten(database, report, False, in_background)
            return full
        report.version = version
        with report.phase("apply"):
            _register(analysis, database, note)
            self._delivery.demand_keys(database, since)
            note = {**note, "version": version, "positions": positions, "since": since, "views": views}
            note |= {"behind": behind}
            batches, deltas = [rows], [database.apply(rows, note={**note, "whole": not computed})]
            for name, delta in self._computed(analysis, database, computed, report):
                whole = name == computed[-1].definition.name
                batches.append({name: delta})
                deltas.append({name: delta, **database.apply({name: delta}, note={**note, "whole": whole})})
        self._background.follow(version, batches)
        self._deliver(database, note, deltas, report)
        for name, count in filled.items():
            inserted, deleted = report.changed[name]
            report.changed[name] = count + inserted - deleted, 0
        report.begun = [name for name, digest in views.items() if before["views"].get(name) != digest]
        changed = bool(report.begun) or len(views) < len(before["views"])
        now = changed and not adopted  # after an adoption, the other views would wait for the snapshot
        self._shorten(database, report, now, in_background)
        return full

    def _read(
        self,
        analysis: Analysis,
        database: DurableDatabase,
        positions: Mapping[str, Any],
        selected: Collection[str] | None,
        report: Report,
    ) -> tuple[dict[str, pa.Table], dict[str, Any], bool]:
        """Returns the changes of the sources, their new positions, and whether the history of a source was lost.

        Skips sources that are static or not ``selected``, unless they have never been read."""
        rows, after, lost = {}, dict(positions), False
        for name, source in analysis.sources.items():
            if name in positions and (source.static or (selected is not None and name not in selected)):
                continue
            known = partial(database.table, source.table.name)
            found = source.changes(positions.get(name), known)
            lost = lost or found.lost
            strict = analysis.strict(name) if found.lost else None
            if strict is not None:
                raise SourceError(
                    f"source {name}: versions that were not read yet were removed, and the policy of the view {strict} "
                    f"is {STRICT}: run once under the policy {INCREMENTAL}, which compares the whole table"
                )
            report.read[name] = found.rows.num_rows, found.how
            after[name] = found.position
            if found.rows.num_rows:
                rows[source.table.name] = found.rows
        return rows, after, lost

    def _computed(
        self, analysis: Analysis, database: DurableDatabase, views: list[Analyzed], report: Report
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yields the changes of the views that Spark computes. Each view follows the views that it reads."""
        if not views:
            return
        live = clone(self._session.spark)
        needed = {name for view in views for name in view.reads}
        for name, source in analysis.sources.items():
            if name in needed and source.given is not None:
                known = source.table.name
                rows = (
                    unweighted(database.table(known)) if source.is_in_state else arrow_of(source.read(), source.table)
                )
                live.createDataFrame(rows).createOrReplaceTempView(source.table.name)
        for view in analysis.views:
            name, query = view.definition.name, view.definition.query
            if view in views:
                begun = time.monotonic()
                with active(live):
                    rows = arrow_of(live.sql(query) if isinstance(query, str) else query(), view.table)
                report.computed[name] = time.monotonic() - begun
                yield name, difference(with_weights(rows, 1), database.table(name))
            elif name.lower() in needed:
                rows = database[name].to_table()
            if name.lower() in needed:
                live.createDataFrame(rows).createOrReplaceTempView(name)

    # -- from the state ------------------------------------------------------------------------------------------------

    def restore(self, version: int) -> Report:
        """Makes a version with the rows of an earlier one; see ``Pipeline.restore``."""

        def demand(database: DurableDatabase) -> None:
            known = versions(database.history())
            if version not in known:
                raise SourceError(
                    f"version {version} cannot be restored: the state keeps these versions: "
                    f"{', '.join(map(str, sorted(known)))}. Give one of them; a larger keep keeps more versions from "
                    "then on"
                )

        with self._opened("there is no version to restore", demand) as (database, report):
            ends, note = versions(database.history()), database.note
            with report.phase("read"):
                before = database.as_of(ends[version][0])
                names = [table.name for table in database.tables]
                rows = {name: difference(before.table(name), database.table(name)) for name in names}
            report.version = note["version"] + 1
            report.read = {name: (found.num_rows, f"version {version}") for name, found in rows.items()}
            then = {**_NOTHING, **ends[version][1]}
            note = {**note, "version": report.version, "whole": True}
            note |= {part: then[part] for part in ("positions", "behind")}
            with report.phase("apply"):
                deltas = {**rows, **database.apply(rows, note=note)}
            self._deliver(database, note, [deltas], report)
        return report

    def drop(self, views: Sequence[str], definitions: Sequence[Definition]) -> Report:
        """Makes a version without views; see ``Pipeline.drop``."""
        if not views:
            raise SourceError("drop needs names of views: name views whose definitions were deleted")
        defined = {definition.name.lower(): definition.place for definition in definitions}
        for name in views:
            if name.lower() in defined:
                raise SourceError(
                    f"{defined[name.lower()]}: the view {name} is still defined, and the next run would create it "
                    "again: delete its definition first"
                )

        def demand(database: DurableDatabase) -> None:
            known = {name.lower(): name for name in database.note["views"]}
            strange = next((name for name in views if name.lower() not in known), None)
            if strange is not None:
                raise SourceError(f"the state has no view called {strange}; it has: {', '.join(known.values())}")

        with self._opened("there is no view to drop", demand) as (database, report):
            note, selected = database.note, {name.lower() for name in views}
            dropped = {name for name in note["views"] if name.lower() in selected}
            report.version = note["version"] + 1
            kept = {part: {n: of for n, of in note[part].items() if n not in dropped} for part in ("views", "since")}
            note = {**note, **kept, "version": report.version}
            with report.phase("apply"):
                database.define({}, drop=[name for name in reversed(database.views) if name in dropped])
                deltas = database.apply({}, note=note)
            self._deliver(database, note, [deltas], report)
        return report

    @contextmanager
    def _opened(
        self, lacking: str, demand: Callable[[DurableDatabase], None]
    ) -> Iterator[tuple[DurableDatabase, Report]]:
        """Opens the state to make a version without reading sources, and records the outcome.

        ``demand`` raises for arguments that the state does not have, which is no failure of the pipeline.
        """
        begun, report, record = time.monotonic(), Report(), Record(self._path)
        never = SourceError(f"{lacking}: this pipeline has not run yet")
        with ExitStack() as held:
            held.enter_context(self._state.alone())
            if self._state.current() is None:
                raise never
            with record.failures():
                database, redone = held.enter_context(self._state.opened(None))
                self.finish(database, redone)
            if not database.note:
                raise never
            demand(database)
            with record.failures():
                report.phases["open"] = time.monotonic() - begun
                yield database, report
                report.seconds = time.monotonic() - begun
                record.ran(report, None, database)

    # -- the places ----------------------------------------------------------------------------------------------------

    def finish(
        self, database: DurableDatabase, redone: list[dict[str, pa.Table]], forgotten: Collection[str] = ()
    ) -> None:
        """Finishes an interrupted run: makes the version of the views that it adopted, and writes its version to the
        places, except for ``forgotten`` views, which are computed again."""
        adopted = finished(database)
        redone = redone if adopted is None else [*redone, adopted]
        note = database.note
        if note and note["version"] != self._state.committed():
            since = {name: places for name, places in note["since"].items() if name not in forgotten}
            self._delivery.deliver(database, {**note, "since": since}, redone)
            self._commit(database)
        if note:
            self._delivery.demand_newest(note, forgotten)

    def _deliver(
        self,
        database: DurableDatabase,
        note: Mapping[str, Any],
        deltas: list[dict[str, pa.Table]],
        report: Report,
    ) -> None:
        """Writes a version to the places of all views, and reports the counts of rows."""
        with report.phase("write"):
            self._state.adopt(database)
            report.changed = self._delivery.deliver(database, note, deltas)
            self._commit(database)

    def _commit(self, database: DurableDatabase) -> None:
        """Records that all places have the version of the state, and deletes the tables of dropped views."""
        self._delivery.forget(database.note, self._background.note)
        self._state.commit(database.note["version"], database.batches)

    def _shorten(self, database: DurableDatabase, report: Report, now: bool, stays: bool) -> None:
        with report.phase("snapshot"):
            self._state.shorten(database, now, stays)


def _to_compute(
    analysis: Analysis, note: Mapping[str, Any], selected: Collection[str] | None
) -> tuple[list[Analyzed], list[str]]:
    """Returns the views that Spark computes for the next version, and the names of those that it does not update: they
    are not ``selected``, and have rows."""
    computed, behind = [], []
    for view in analysis.views:
        name = view.definition.name
        if view.refused is None:
            continue
        if selected is None or name.lower() in selected or note["views"].get(name) != view.digest:
            computed.append(view)
        else:
            behind.append(name)
    return computed, behind


def _register(analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any]) -> None:
    """Drops the views that were deleted or changed, and registers those that are new or changed."""
    digests = {v.definition.name: v.digest for v in analysis.views}
    stale = [name for name in reversed(database.views) if digests.get(name) != note["views"].get(name)]
    kept = set(database.views).difference(stale)
    fresh = {
        view.definition.name: view.relation
        for view in analysis.views
        if view.refused is None and view.definition.name not in kept and view.relation is not None
    }
    others = [name for name in (*fresh, *stale) if digests.get(name) != note["views"].get(name)]  # not after a rebuild
    database.define(fresh, drop=stale, note=without(note, others) if note["version"] else None)
