"""``crown top``: how the cells of a running job are doing, again and again; also as a file of metrics."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from spark_jobs.commands.state import operators
from spark_jobs.errors import SparkJobError
from spark_jobs.folders import local_folder
from spark_jobs.job.vitals import behind, prometheus, vitals, written
from spark_jobs.storage.opening import folder_at

HELP = "show how the cells of a running Spark job are doing, from its checkpoint"
TELLS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("checkpoint", help="the job's checkpoint, its state, or an operator's folder: a path or URI")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="how often to look (2)")
    parser.add_argument("--once", action="store_true", help="look once, and end")
    parser.add_argument("--json", action="store_true", help="a line of JSON per cell and look")
    parser.add_argument(
        "--prometheus", metavar="FILE", help="also write the numbers to this file, in Prometheus' text format"
    )


def run(args: argparse.Namespace) -> int:
    """Shows the cells until interrupted, or once."""
    if args.every <= 0:
        raise SparkJobError(f"--every {args.every:g}: give a number of seconds above 0")
    seen: list[str] = []
    while True:
        lines, cells = [], []
        checkpoint = folder_at(args.checkpoint)
        for folder in operators(checkpoint):
            found = vitals(folder)
            cells += found
            if args.json:
                lines += [json.dumps({"folder": str(folder), **asdict(cell)}) for cell in found]
                continue
            lines += [f"{folder}", *([f"  {said}"] if (said := behind(folder, checkpoint)) else [])]
            lines += [f"  {cell.line()}" for cell in found] or ["  no cell has a batch yet"]
        if args.prometheus is not None:
            written(local_folder(args.prometheus, "--prometheus"), prometheus(cells))
        if lines != seen:
            print("\n".join(lines), flush=True)
            seen = lines
        if args.once:
            return 0
        time.sleep(args.every)
