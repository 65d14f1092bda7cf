"""Health of a pipeline, read without locks and without Spark.

Every run records its result in ``crown/vitals.json``, whether it succeeded or not. The file shows the knowledge of the
newest runs. The process that has the state open, and the number of unread versions of tables, are looked up when they
are read.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crown.analysis.prometheus import STATE_BYTES, Metric, Sample, rendered
from crown.durable.files import holder, write_durably
from crown.errors import CrownError
from spark_jobs.errors import CheckpointError
from spark_jobs.pipelines.reports import Report
from spark_jobs.pipelines.state import damage, restorable
from spark_jobs.storage.address import in_a_line

if TYPE_CHECKING:
    from crown.durable.database import DurableDatabase
    from spark_jobs.pipelines.definitions.analysis import Analysis

Vitals = Mapping[str, Any]
"""The fields that ``Record`` writes, and ``process`` (0 if no process has the state open); ``Pipeline.status``
describes them."""


_FILE = "vitals.json"


class Record:
    """The record of a pipeline's runs in its folder ``crown``."""

    def __init__(self, pipeline: Path) -> None:
        self._folder = pipeline / "crown"
        self._file = self._folder / _FILE

    def read(self) -> dict[str, Any]:
        """Returns the record; {} before the first run. Raises CheckpointError if the file is damaged."""
        try:
            return dict(json.loads(self._file.read_bytes()))
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError):
            raise CheckpointError(f"{self._file} is damaged: delete it, and run the pipeline again") from None

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Records an error that ends a run."""
        try:
            yield
        except Exception as error:
            self.failed(error)
            raise

    def ran(self, report: Report, analysis: Analysis | None, database: DurableDatabase) -> None:
        """Records a run that succeeded. ``analysis`` None: the run has not read the sources, which may not exist any
        more."""
        sources, reads = None, {name: tuple[str, ...]() for name in database.note["since"]}
        if analysis is not None:
            given = {name: source.given for name, source in analysis.sources.items()}
            sources = {
                name: of.text if of is not None and of.versions is not None else None for name, of in given.items()
            }
            reads = {view.definition.name: view.reads for view in analysis.views if view.definition.name in reads}
        size = int(database.stats()["live_bytes"])
        self.succeeded(report, sources, database.note["positions"], reads, partial(_rows, database), size)

    def succeeded(
        self,
        report: Report,
        sources: Mapping[str, str | None] | None,
        positions: Mapping[str, Any],
        views: Mapping[str, tuple[str, ...]],
        rows_of: Callable[[str], int],
        size: int,
    ) -> None:
        """Records a run that succeeded.

        ``sources``: their tables with versions, if they have any; None: the run has not read them. ``positions``: the
        position up to which each was read; ``views``: what each reads; ``rows_of`` counts the rows of a view, and is
        called only if the record does not have the number; ``size``: bytes of the state.
        """
        before, at = self.read(), time.time()
        follows = before.get("version") == report.version - 1
        same = before.get("version") == report.version
        known = before.get("views", {}) if follows or same else {}
        moved = {name.lower(): sum(counts) for name, counts in report.changed.items()}
        moved |= {name: rows for name, (rows, _) in report.read.items()}
        found = {}
        for name, reads in views.items():
            inserted, deleted = report.changed.get(name, (0, 0))
            was = known.get(name)
            restarted = name in report.begun  # the report does not have the rows that it had before
            found[name] = {
                "rows": rows_of(name) if was is None or restarted else was["rows"] + inserted - deleted,
                "read": sum(moved.get(read, 0) for read in reads),
                "inserted": inserted,
                "deleted": deleted,
                "inserted_total": (was or {}).get("inserted_total", 0) + inserted,
                "deleted_total": (was or {}).get("deleted_total", 0) + deleted,
            }
        read, known = {}, before.get("sources", {})
        for name, text in ({n: one.get("table") for n, one in known.items()} if sources is None else sources).items():
            rows, how = report.read.get(name, (0, "not read"))
            was = known.get(name, {})
            unread = sources is None or name not in report.read
            read[name] = {"at": was["at"] if unread else at, "rows": rows, "how": how}
            read[name]["rows_total"] = was.get("rows_total", 0) + rows
            version = (positions.get(name) or {}).get("version")
            if text is not None and version is not None:  # a static source may have been read at another place
                read[name] |= {"table": text, "version": version}
        newest = {"at": at, "seconds": report.seconds, "phases": report.phases}
        runs = {"succeeded": before.get("runs", {}).get("succeeded", 0) + 1, "failed": _failed(before)}
        self._write(
            {"version": report.version, "bytes": size, "runs": runs, "success": newest, "error": before.get("error")}
            | {"sources": read, "views": found}
            | {"quarantined": before.get("quarantined", {}) if sources is None else report.quarantined}
        )

    def failed(self, error: Exception) -> None:
        """Records a run that has failed; not if there is no state, because the first run was rejected."""
        if not self._folder.exists():
            return
        with contextlib.suppress(CheckpointError, OSError):  # the run has an error to tell already
            before = self.read()
            runs = {"succeeded": before.get("runs", {}).get("succeeded", 0), "failed": _failed(before) + 1}
            failure = {"at": time.time(), "said": in_a_line(error)}
            self._write(
                {"version": 0, "success": None, "sources": {}, "views": {}, **before, "runs": runs, "error": failure}
            )

    def _write(self, given: Mapping[str, Any]) -> None:
        write_durably(self._file, json.dumps(given).encode())


def _rows(database: DurableDatabase, name: str) -> int:
    """Returns the number of rows of a view. O(state) for a join, else O(1)."""
    return int(database[name].count()) if name in database else database.table(name).num_rows


def _failed(before: Mapping[str, Any]) -> int:
    return int(before.get("runs", {}).get("failed", 0))


def is_pipeline(folder: Path) -> bool:
    """Returns True for the folder of a pipeline that has run."""
    return (folder / "crown" / _FILE).is_file()


def vitals(folder: Path) -> Vitals:
    """Returns the health of the pipeline in a folder; {} before its first run.

    For a table of Delta or Iceberg with versions that were not read yet, ``behind`` has their number, and for how many
    seconds the oldest of them has waited. A table that cannot be read has no such entry.
    """
    found = Record(folder).read()
    if not found:
        return {}
    for source in found["sources"].values():
        if source.get("table") is not None:
            from spark_jobs.pipelines.inputs.declared import versions_of

            with contextlib.suppress(CrownError):
                source["behind"] = dict(versions_of(source["table"]).lag(source["version"]))
    return {"folder": str(folder), **found, "process": holder(folder / "crown" / "state")}


def status(folder: Path, verify: bool = False) -> Vitals:
    """Returns ``vitals``, and in ``history`` the versions that can be restored. O(bytes of the log).

    ``verify``: ``damaged`` has the faults of the files of the state. O(state).
    """
    found = vitals(folder)
    if not found:
        return {}
    damaged = damage(folder) if verify else None
    history = [] if damaged else restorable(folder)
    return {**found, "history": history, **({} if damaged is None else {"damaged": damaged})}


def rows_so_far(found: Vitals) -> dict[str, int]:
    """Returns by source and by view the numbers of rows that were inserted and deleted in all runs."""
    views = found.get("views", {}).items()
    changed = {name: view["inserted_total"] + view["deleted_total"] for name, view in views}
    return {**changed, **{name: source["rows_total"] for name, source in found.get("sources", {}).items()}}


def failing(found: Vitals) -> bool:
    """Returns True if the newest run has failed."""
    error, success = found["error"], found["success"]
    return error is not None and (success is None or error["at"] > success["at"])


def lines(found: Vitals) -> Iterator[str]:
    """Yields lines for people."""
    if not found:
        yield "no run yet"
        return
    history = found.get("history")
    back = ""
    if history:
        span = f"version {history[0]}" if len(history) == 1 else f"versions {history[0]} to {history[-1]}"
        back = f", can be restored to {span}"
    opened = f"open in process {found['process']}" if found["process"] else "open in no process"
    yield f"version {found['version']}, {found.get('bytes', 0)} bytes of state{back}, {opened}"
    damaged = found.get("damaged")
    if damaged is not None:
        remedy = ": crown pipelines run --verify continues with the intact part"
        yield "the state is intact" if not damaged else f"the state is damaged: {'; '.join(damaged)}{remedy}"
    success = found["success"]
    if success is not None:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in success["phases"].items())
        yield f"last success {_when(success['at'])} in {success['seconds']:.2f} s ({phases})"
    if found["error"] is not None:
        now = "the newest run failed" if failing(found) else "last error"
        yield f"{now} {_when(found['error']['at'])}: {found['error']['said']}"
    for name, source in found["sources"].items():
        behind = source.get("behind", {}).get("versions")
        late = f", {behind} versions behind" if behind else ""
        yield f"source {name}  {source['rows']} changes, {source['how']}, read {_when(source['at'])}{late}"
    for name, rows in found.get("quarantined", {}).items():
        yield f"source {name}  {rows} {'row is' if rows == 1 else 'rows are'} in the quarantine"
    for name, view in found["views"].items():
        yield f"view {name}  {view['rows']} rows  +{view['inserted']} -{view['deleted']}"


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _metric(name: str, kind: str, meaning: str) -> Metric:
    return Metric(f"crown_pipeline_{name}", kind, meaning)


_UP = _metric("up", "gauge", "1 if a process has the state open")
_FAILED = _metric("failed", "gauge", "1 if the newest run failed")
_VERSION = _metric("version", "gauge", "Version of the views and their tables")
_RUNS = _metric("runs_total", "counter", "Runs, by how they ended")
_SUCCESS = _metric("last_success_timestamp_seconds", "gauge", "End of the newest run that succeeded")
_ERROR = _metric("last_error_timestamp_seconds", "gauge", "End of the newest run that failed")
_SECONDS = _metric("run_seconds", "gauge", "Duration of the newest run that succeeded")
_PHASES = _metric("phase_seconds", "gauge", "Duration of a phase of it")
_BY_SOURCE = (
    (_metric("source_rows", "gauge", "Changes of a source that the newest run read"), "rows"),
    (_metric("source_rows_total", "counter", "Changes of a source that were read"), "rows_total"),
    (_metric("source_read_timestamp_seconds", "gauge", "Time up to which a source was read completely"), "at"),
)
_BEHIND = (
    (_metric("source_versions_behind", "gauge", "Versions of a table that were not read yet"), "versions"),
    (_metric("source_lag_seconds", "gauge", "How long the oldest of these versions has waited"), "seconds"),
)
_QUARANTINED = _metric("quarantined_rows", "gauge", "Rows of a source that are in the quarantine")
_BY_VIEW = (
    (_metric("view_rows", "gauge", "Rows of a view"), "rows"),
    (_metric("view_read_rows", "gauge", "Changes that a view read in the newest run"), "read"),
)
_CHANGED = _metric("view_changed_rows", "gauge", "Rows of a view that the newest run changed")
_CHANGED_TOTAL = _metric("view_changed_rows_total", "counter", "Rows of a view that were changed")


METRICS = (
    *(_UP, _FAILED, _VERSION, _RUNS, _SUCCESS, _SECONDS, _PHASES, STATE_BYTES, _ERROR),
    *(metric for metric, _ in (*_BY_SOURCE, *_BEHIND, *_BY_VIEW)),
    *(_QUARANTINED, _CHANGED, _CHANGED_TOTAL),
)
"""All metrics of a pipeline."""


def prometheus(found: Vitals) -> Iterator[str]:
    """Yields the lines of Prometheus' text format; none before the first run."""
    for metric, numbers in samples(found):
        yield from rendered(metric, numbers)


def samples(found: Vitals) -> Iterator[tuple[Metric, Iterable[Sample]]]:
    """Yields the numbers of each metric; none before the first run."""
    if not found:
        return
    of = {"folder": found["folder"]}
    success, error = found["success"], found["error"]
    yield _UP, [(of, int(found["process"] > 0))]
    yield _FAILED, [(of, int(failing(found)))]
    yield _VERSION, [(of, found["version"])]
    yield _RUNS, [({**of, "ended": how}, count) for how, count in found["runs"].items()]
    if success is not None:
        yield _SUCCESS, [(of, success["at"])]
        yield _SECONDS, [(of, success["seconds"])]
        yield _PHASES, [({**of, "phase": name}, took) for name, took in success["phases"].items()]
        yield STATE_BYTES, [(of, found["bytes"])]
    if error is not None:
        yield _ERROR, [(of, error["at"])]
    sources, views = found["sources"], found["views"]
    behind = {name: one["behind"] for name, one in sources.items() if "behind" in one}
    for label, named, fields in (
        ("source", sources, _BY_SOURCE),
        ("source", behind, _BEHIND),
        ("view", views, _BY_VIEW),
    ):
        for metric, field in fields if named else ():
            yield metric, [({**of, label: name}, one[field]) for name, one in named.items()]
    quarantined = found.get("quarantined", {})
    if sources or quarantined:
        rows = {**dict.fromkeys(sources, 0), **quarantined}
        yield _QUARANTINED, [({**of, "source": name}, count) for name, count in rows.items()]
    for metric, ending in ((_CHANGED, ""), (_CHANGED_TOTAL, "_total")):
        yield (
            metric,
            [
                ({**of, "view": name, "change": change}, view[change + ending])
                for name, view in views.items()
                for change in ("inserted", "deleted")
            ],
        )
