"""``crown top``: the health of a job, a pipeline or a folder of ``crown.open``, as lines, JSON or metrics."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crown.analysis.prometheus import written
from crown.durable import vitals as durable
from spark_jobs.errors import CheckpointError, SparkJobError
from spark_jobs.folders import local_folder
from spark_jobs.pipelines import vitals as pipelines
from spark_jobs.storage.address import address

HELP = "show how a running Spark job, a pipeline, or a durable view or database is doing"
REPORTS_PROGRESS = True

_OF_A_JOB = ("meta.json", "current.json", "crown", "*/*/meta.json")
"""Files that identify an operator's folder, a state that was recut, a checkpoint, and a state."""
Look = tuple[list[str], list[dict[str, Any]], Iterator[str]]
"""Lines for people, the same data as objects, and as lines for Prometheus."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "folder",
        metavar="CHECKPOINT|FOLDER",
        help="a job's checkpoint, its state, or an operator's folder: a path or URI; the storage of a pipeline; or "
        "the folder of crown.open",
    )
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="seconds between two readings (2)")
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument("--json", action="store_true", help="print a line of JSON per cell, or folder, and reading")
    parser.add_argument(
        "--prometheus", metavar="FILE", help="also write the numbers to this file, in Prometheus' text format"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the health repeatedly until interrupted, or once with ``--once``."""
    if args.every <= 0:
        raise SparkJobError(f"--every {args.every:g}: give a number of seconds above 0")
    kept = Path(args.folder)
    if pipelines.is_pipeline(kept):
        look = _pipeline(kept)
    else:
        look = _durable(kept) if durable.is_kept(kept) else _job(args.folder)
    seen: list[str] = []
    while True:
        lines, objects, metrics = look()
        if args.json:
            lines = list(map(json.dumps, objects))
        if args.prometheus is not None:
            written(local_folder(args.prometheus, "--prometheus"), metrics)
        if lines != seen:
            print("\n".join(lines), flush=True)
            seen = lines
        if args.once:
            return 0
        time.sleep(args.every)


def _durable(folder: Path) -> Callable[[], Look]:
    watch = durable.Watch(folder)

    def look() -> Look:
        found = watch.look()
        return [f"{folder}  {found.query}", f"  {found.line()}"], [asdict(found)], durable.prometheus([found])

    return look


def _pipeline(folder: Path) -> Callable[[], Look]:
    def look() -> Look:
        found = pipelines.vitals(folder)
        lines = [f"  {line}" for line in pipelines.lines(found)]
        return [f"{folder}", *lines], [dict(found)], pipelines.prometheus(found)

    return look


def _job(checkpoint: str) -> Callable[[], Look]:
    place = address(checkpoint, "checkpoint")
    if isinstance(place, Path) and not any(any(place.glob(name)) for name in _OF_A_JOB):
        raise CheckpointError(  # this check works without the packages of Spark
            f"{place} holds no view, database, pipeline or stream: give the folder of crown.open or "
            "crown.open_database, the storage of a pipeline that has run, or the checkpoint of a job"
        )
    from spark_jobs.commands.state import operators
    from spark_jobs.job import vitals as jobs
    from spark_jobs.storage.opening import folder_at

    def look() -> Look:
        shown: list[str] = []
        objects: list[dict[str, Any]] = []
        cells = []
        place = folder_at(checkpoint)
        for folder in operators(place):
            found = jobs.vitals(folder)
            cells += found
            objects += [{"folder": str(folder), **asdict(cell)} for cell in found]
            shown += [f"{folder}", *([f"  {line}"] if (line := jobs.checkpoint_line(folder, place)) else [])]
            shown += [f"  {cell.line()}" for cell in found] or ["  no cell has a batch yet"]
            shown += [f"  {line}"] if (line := jobs.balance(found)) else []
        return shown, objects, jobs.prometheus(cells)

    return look
