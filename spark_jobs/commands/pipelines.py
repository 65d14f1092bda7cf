"""``crown pipelines``: keeps the materialized views of a project of Spark's Declarative Pipelines up to date."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from spark_jobs.pipelines.pipeline import FULL, Pipeline, Report
from spark_jobs.pipelines.project import Project
from spark_jobs.session import local_session, quietly

HELP = "keep the materialized views of a Declarative Pipelines project up to date: plan, run, status, full-refresh"
_WHAT = {
    "plan": "show how each view would be kept; nothing is written",
    "run": "read what has changed in the sources, and bring every view and its table up to date",
    "status": "show version, views and sources of the state",
    "full-refresh": "forget the state and the tables, and compute everything again",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("action", choices=list(_WHAT), help="; ".join(f"{k}: {v}" for k, v in _WHAT.items()))
    parser.add_argument("project", nargs="?", default=".", help="the folder with spark-pipeline.yml, or the file")
    parser.add_argument(
        "--refresh",
        choices=["auto", "incremental"],
        default="auto",
        help="auto: Spark computes views anew that cannot be maintained; incremental: they are an error",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object, for programs")


def run(args: argparse.Namespace) -> int:
    """Plans, runs or shows a pipeline."""
    project = Project.of(Path(args.project))
    with quietly():
        spark = local_session(f"crown pipelines {project.name}", conf=dict(project.configuration))
    try:
        if project.database:
            spark.catalog.setCurrentDatabase(project.database)
        pipeline = Pipeline.of(spark, project, args.refresh)
        if args.action == "plan":
            _show_plan(pipeline, args.json)
        elif args.action == "status":
            found = pipeline.status()
            print(json.dumps(found) if args.json else _status(found))
        else:
            report = pipeline.run() if args.action == "run" else pipeline.full_refresh()
            _show_report(report, args.json)
    finally:
        spark.stop()
    return 0


def _show_plan(pipeline: Pipeline, as_json: bool) -> None:
    steps = pipeline.plan()
    if as_json:
        print(json.dumps([vars(step) for step in steps]))
        return
    width = max(len(step.name) for step in steps)
    for step in steps:
        why = f"  {step.why}" if step.how == FULL else ""
        print(f"{step.name:{width}}  {step.how:11}  reads {', '.join(step.reads)}{why}")


def _status(found: dict[str, object]) -> str:
    if not found:
        return "no run yet"
    views = found["views"]
    assert isinstance(views, dict), "views are counted by name"
    lines = [f"version {found['version']}, {found['bytes']} bytes of state"]
    return "\n".join([*lines, *(f"{name}  {rows} rows" for name, rows in views.items())])


def _show_report(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(vars(report)))
        return
    for name, (rows, how) in report.read.items():
        print(f"source {name}  {rows} changes  {how}")
    for name, (inserted, deleted) in report.changed.items():
        print(f"view {name}  +{inserted} -{deleted}")
    print(f"version {report.version} in {report.seconds:.1f} s")
