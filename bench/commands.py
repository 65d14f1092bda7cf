"""The subcommand ``crown bench``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from bench.cases.datasets import VARIABLE, data_of, has_graph
from bench.cases.workloads import WORKLOADS
from bench.harness import machine
from bench.harness.compare import compare
from bench.harness.results import ResultsError, read, read_file
from bench.harness.sections.catalogue import SECTIONS
from bench.report.text import line_of, span, times
from bench.subjects.catalogue import ENGINES
from crown.errors import CrownError

HELP = "measure this engine, other algorithms and other engines side by side, and draw the report"
REPORTS_PROGRESS = True
FOLDER = Path("out") / "bench"


class MissingExtraError(CrownError):
    """A package that only the benchmarks need is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"bench needs the package {name}; install the extra: pip install 'crown-ivm[bench]'")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares ``run``, ``report`` and ``compare``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|report|compare")
    run = actions.add_parser("run", help="measure; results go to JSON files, one per section")
    scale = run.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="seconds instead of minutes; numbers mean little")
    scale.add_argument("--full", action="store_true", help="whole streams and up to 10^7 live rows; takes long")
    run.add_argument("--section", nargs="+", choices=("all", *SECTIONS), help="only these sections; all by default")
    run.add_argument("--resume", action="store_true", help="keep the cells that the last day's files in --out have")
    run.add_argument("--workload", nargs="+", choices=WORKLOADS, metavar="NAME", help=f"of {', '.join(WORKLOADS)}")
    run.add_argument("--engine", nargs="+", choices=ENGINES, metavar="NAME", help=f"of {', '.join(ENGINES)}")
    run.add_argument(
        "--data",
        help="a SNAP edge list, or a folder with one (and an LDBC SNB data set); 'generated' (default) and 'rmat' make "
        f"a graph of the same shape; the variable {VARIABLE} does the same",
    )
    for action in (
        run,
        actions.add_parser("report", help="draw the HTML page and the markdown tables from the results"),
    ):
        action.add_argument("--out", type=Path, default=FOLDER, help="folder of the results (%(default)s)")
        action.add_argument("--markdown", type=Path, help="also write the tables to this file")
        action.add_argument("--charts", type=Path, help="also write every chart as an SVG file into this folder")
    run.add_argument("--json", action="store_true", help="print every cell as a line of JSON")
    both = actions.add_parser("compare", help="lay two files of results side by side: faster, slower, the same")
    both.add_argument("before", type=Path, help="a JSON file of one section")
    both.add_argument("after", type=Path, help="another of the same section and scale")
    both.add_argument(
        "again", type=Path, nargs="*", help="more such pairs, of runs by turns: a verdict is what every pair has"
    )
    both.add_argument("--json", action="store_true", help="print every row as a line of JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the action. Returns 1 if an engine of this project failed its check, or a row of a comparison is slower."""
    if args.action == "compare":
        return _compare(args)
    if args.action == "report":
        return _report(args, sys.stdout)
    try:
        from bench.harness.run import cells_of, run_section, seconds_left
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "tqdm") from None
    scale = "quick" if args.quick else "full" if args.full else "normal"
    data = data_of(args.data)
    told = sys.stderr if args.json else sys.stdout
    print(machine.line(machine.machine()), file=told)
    if data is not None and not has_graph(data):
        print(f"{data}: no edge list in there; the graph workloads run on a generated graph", file=told)
    started, wrong = time.monotonic(), []

    def wanted(cell: dict[str, Any]) -> bool:
        chosen = not args.workload or cell["workload"] in args.workload
        return chosen and (not args.engine or cell["engine"] in args.engine)

    def say(cell: dict[str, Any]) -> None:
        print(json.dumps(cell, default=str) if args.json else line_of(cell), flush=True)
        if ENGINES[cell["engine"]].kind == "ours" and cell["status"] in ("wrong", "failed"):
            wrong.append(cell)

    names = SECTIONS if not args.section or "all" in args.section else args.section
    sections = {name: cells for name in names if (cells := cells_of(name, scale, wanted))}
    measured = 0
    for name in list(sections):
        cells = sections.pop(name)
        path = run_section(name, cells, data, args.out, say, args.resume)
        measured += len(cells)
        took = time.monotonic() - started
        left = seconds_left(sections, args.out, took / measured) / 60
        print(f"  -> {path}; {took / 60:.0f} min, about {left:.0f} min left", file=told, flush=True)
    _report(args, told)
    print(f"{time.monotonic() - started:.0f} s", file=told)
    for cell in wrong:
        print(f"crown: {cell['workload']}, mode {cell['mode']}: {cell['reason']}", file=sys.stderr)
    return 1 if wrong else 0


def _compare(args: argparse.Namespace) -> int:
    files = [args.before, args.after, *args.again]
    if len(files) % 2:
        raise ResultsError(
            f"{files[-1]} has no file to be compared with; give files in pairs: before, after, before, after"
        )
    rounds = [(read_file(old), read_file(new)) for old, new in zip(files[::2], files[1::2], strict=True)]
    rows, alone = compare(rounds)
    for row in rows:
        shown = (
            f"{row.verdict:8} {times(row.before, row.after):>7}  {row.title}: {span(row.before)} -> {span(row.after)}"
        )
        print(json.dumps(asdict(row)) if args.json else shown)
    told = sys.stderr if args.json else sys.stdout
    print(f"{len(rows)} rows; the median and, in brackets, the range of updates/s over the repeats", file=told)
    if alone:
        print(f"{alone} rows are not in every file, and not compared", file=told)
    return int(any(row.verdict == "slower" for row in rows))


def _report(args: argparse.Namespace, told: TextIO) -> int:
    try:
        from bench.report import report
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "matplotlib") from None
    found = read(args.out)
    page = args.out / "report.html"
    text = report.html(found)
    page.write_text(text, encoding="utf-8")
    print(f"  -> {page}", file=told)
    if args.charts:
        print(f"  -> {len(report.save_charts(text, args.charts))} charts in {args.charts}", file=told)
    if args.markdown:
        chart = report.front(found)
        if chart:
            args.markdown.with_suffix(".svg").write_text(chart, encoding="utf-8")
        page = report.markdown(found, args.markdown.with_suffix(".svg").name if chart else "")
        args.markdown.write_text(page, encoding="utf-8")
        print(f"  -> {args.markdown}", file=told)
    return 0
