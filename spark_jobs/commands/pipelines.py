"""``crown pipelines``: keeps the materialized views of a project of Declarative Pipelines or dbt up to date."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Thread

from pyspark.sql import SparkSession

from crown.analysis.prometheus import written
from crown.projects.specification import AUTO, FULL, POLICIES, is_project
from plans.commands.declare import repeated
from spark_jobs.errors import SourceError
from spark_jobs.folders import local_folder
from spark_jobs.pipelines.definitions.dbt import manifest_of, project_of
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.reports import Report, group_lines
from spark_jobs.pipelines.vitals import lines, prometheus, status, vitals
from spark_jobs.session import quietly, session_of_command

HELP = (
    "keep the materialized views of a project of Declarative Pipelines or dbt up to date: plan, run, refresh, watch, "
    "status, drop, restore, full-refresh"
)
_WHAT = {
    "plan": "show how each view would be maintained; nothing is written",
    "run": "read what has changed in the sources, and bring every view and its table up to date",
    "refresh": "run for some views (--view): read the sources that they need, and no others; or for sources (--source)",
    "watch": "run again and again, with the state kept open, until Ctrl-C",
    "status": "show how the pipeline is doing, without Spark, also while another process watches it",
    "drop": "drop views (--view) whose definitions were deleted, with their tables; no source is read",
    "restore": "bring sources, views and tables back to what they were after an earlier version (--to)",
    "full-refresh": "compute everything again, into a new state and new tables",
}
_OF_VIEWS = ("refresh", "drop", "full-refresh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("action", choices=list(_WHAT), help="; ".join(f"{k}: {v}" for k, v in _WHAT.items()))
    parser.add_argument("project", nargs="?", default=".", help="the folder with spark-pipeline.yml or dbt_project.yml")
    parser.add_argument(
        "--refresh",
        choices=POLICIES,
        default=AUTO,
        help="the policy of views that have none of their own. auto: Spark recomputes views that cannot be "
        "maintained; incremental: such views are an error; incremental_strict: a table whose history was "
        "removed is an error, too; full: Spark recomputes every view",
    )
    parser.add_argument(
        "--every", type=_seconds, default=10.0, metavar="SECONDS", help="watch: how long to wait between two runs (10)"
    )
    repeated(
        parser,
        "--view",
        "NAME",
        "refresh: this view, and what it reads; drop: this view; full-refresh: only this view, and what reads "
        "it; can be repeated",
    )
    repeated(parser, "--source", "NAME", "refresh: read this source, also if it is static; can be repeated")
    parser.add_argument(
        "--to", type=int, metavar="VERSION", help="restore: the version; status shows those that can be restored"
    )
    parser.add_argument(
        "--cells",
        type=int,
        metavar="N",
        help="plan: also show how the views would be cut into N cells, and how many rows a host would get",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read the whole state and compare its checksums: status shows what is damaged, the other actions "
        "continue with the intact part, or fail",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object, for programs")
    parser.add_argument(
        "--prometheus",
        metavar="FILE",
        help="also write the numbers of the pipeline to this file, in Prometheus' text format: at the end, also of a "
        "run that fails, and watch after every run",
    )


def run(args: argparse.Namespace) -> int:
    """Plans, runs or shows a pipeline."""
    if (args.action == "restore") != (args.to is not None):
        raise SourceError("crown pipelines restore takes --to VERSION, and no other action does")
    if args.view and args.action not in _OF_VIEWS:
        raise SourceError(f"crown pipelines {args.action} takes no --view: {', '.join(_OF_VIEWS)} do")
    if args.source and args.action != "refresh":
        raise SourceError(f"crown pipelines {args.action} takes no --source: refresh does")
    if not (args.view or args.source) and args.action in _OF_VIEWS[:2]:
        raise SourceError(f"crown pipelines {args.action} takes --view NAME, once or more often")
    if args.cells is not None and args.action != "plan":
        raise SourceError("crown pipelines plan takes --cells N, and no other action does")
    project = _project_at(Path(args.project))
    try:
        if args.action == "status":
            return _show_status(project, args)
        _act(project, args)
    finally:
        _print_status(project, args)
    return 0


def _act(project: Project, args: argparse.Namespace) -> None:
    session = Session.later(partial(_started, project), project.settings, project.database)
    if args.action == "watch":
        return _watch(session, project, args)
    pipeline = Pipeline.of(session, project, args.refresh, args.verify)
    if args.action == "plan":
        return _show_plan(pipeline, args)
    does: dict[str, Callable[[], Report]] = {
        "run": pipeline.run,
        "refresh": partial(pipeline.refresh, *args.view, sources=args.source),
        "drop": partial(pipeline.drop, *args.view),
        "full-refresh": partial(pipeline.full_refresh, *args.view),
        "restore": partial(pipeline.restore, args.to),
    }
    return _show_report(does[args.action](), args.json)


def _started(project: Project) -> SparkSession:
    with quietly():
        spark = session_of_command(f"crown pipelines {project.name}", conf=project.settings)
    if project.database:
        spark.catalog.setCurrentDatabase(project.database)
    return spark


def _print_status(project: Project, args: argparse.Namespace) -> None:
    """Writes the file for Prometheus."""
    if args.prometheus is not None:
        written(local_folder(args.prometheus, "--prometheus"), prometheus(vitals(project.storage)))


def _project_at(path: Path) -> Project:
    """Returns the project of Declarative Pipelines or of dbt in a folder, or of its specification or manifest."""
    manifest = None if is_project(path) else manifest_of(path)
    return Project.of(path) if manifest is None else project_of(manifest)


def _watch(session: Session, project: Project, args: argparse.Namespace) -> None:
    """Runs until Ctrl-C. When files of the project change, the project is read again while the current views stay in
    use.
    """
    with suppress(KeyboardInterrupt):
        while True:
            pipeline, storage = Pipeline.of(session, project, args.refresh, args.verify), project.storage
            reading: Reading | None = None
            quarantined: dict[str, int] = {}
            with closing(pipeline.watch(args.every)) as rounds:
                for report in rounds:
                    _print_status(project, args)
                    if report.changed or report.quarantined != quarantined:
                        quarantined = report.quarantined
                        _show_report(report, args.json)
                        sys.stdout.flush()
                    if reading is None and not project.is_current():
                        project = _project_at(project.file)
                        if project.storage != storage:
                            break
                        reading = Reading(session, project, args.refresh)
                    if reading is not None and reading.done:
                        pipeline.follow(reading.result())
                        reading = None


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give 0 or more")
    return found


def _show_plan(pipeline: Pipeline, args: argparse.Namespace) -> None:
    steps = pipeline.plan()
    found = None if args.cells is None else pipeline.groups(args.cells)
    if args.json:
        views = [vars(step) for step in steps]
        print(json.dumps(views if found is None else {"views": views, **found.to_json()}))
        return
    width = max(len(step.name) for step in steps)
    for step in steps:
        why = f"  {step.why}" if step.how == FULL else ""
        print(f"{step.name:{width}}  {step.how:11}  reads {', '.join(step.reads)}{why}")
    for line in () if found is None else group_lines(found):
        print(line)


def _show_status(project: Project, args: argparse.Namespace) -> int:
    """Shows how a pipeline is doing; 1 if files of its state are damaged."""
    found = status(project.storage, args.verify)
    print(json.dumps(found) if args.json else "\n".join(lines(found)))
    return 1 if found.get("damaged") else 0


def _show_report(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(vars(report)))
        return
    print("\n".join(report.lines()))


class Reading:
    """Reads a project, and starts Spark if it is needed for that."""

    def __init__(self, session: Session, project: Project, refresh: str) -> None:
        self._found: Pipeline | Exception | None = None
        self._given = session, project, refresh
        self._thread = Thread(target=self._read, name="crown-reading", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Returns True when the project has been read, or reading it has failed."""
        return not self._thread.is_alive()

    def result(self) -> Pipeline:
        """Returns the pipeline of the project, which is analyzed. Raises the error if reading the project has
        failed."""
        self._thread.join()
        if not isinstance(self._found, Pipeline):
            raise self._found or RuntimeError("the thread has ended")
        return self._found

    def _read(self) -> None:
        try:
            found = Pipeline.of(*self._given)
            found.analyze()
            self._found = found
        except Exception as error:
            self._found = error
