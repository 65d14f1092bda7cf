"""``crown run PROJECT``: updates the views of a pipeline project in this process."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crown.commands.terminal import waiting
from crown.errors import ProjectError
from crown.projects.specification import is_project
from plans.commands.declare import repeated

_ALLOWED = {"query", "source", "json", "quiet"}
"""The arguments of ``crown run`` that a project takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a run of a project."""
    repeated(parser, "--source", "NAME", "of a project: read this static source again")


def is_named(args: argparse.Namespace) -> bool:
    """Returns True if the query argument names a project. Raises ProjectError if options for queries and for projects
    are mixed."""
    found = Path(args.query)
    if not _is_path(args.query) or not (found.is_dir() or is_project(found)):
        if args.source:
            raise ProjectError("--source is for projects: name a folder with spark-pipeline.yml")
        return False
    for name, action in args.defaults.items():
        if name not in _ALLOWED and getattr(args, name, action.default) != action.default:
            raise ProjectError(f"crown run of a project takes no {action.option_strings[0]}: leave it out")
    return True


def run(args: argparse.Namespace) -> int:
    """Runs a project and writes the tables of its views. Returns exit code 0."""
    from crown.projects.database import open_project  # only a project needs it

    with waiting(f"crown run {args.query}"), open_project(Path(args.query)) as database:
        report = database.run(sources=args.source)
        folder = database.write_tables()
    if args.json:
        print(json.dumps({**vars(report), "tables": str(folder)}))
    elif not args.quiet:
        print("\n".join(report.lines()))
        print(f"tables in {folder}")
    return 0


def _is_path(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text) < 1000
