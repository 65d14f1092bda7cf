"""`crown explain`: shows how a query would be maintained."""

from __future__ import annotations

import argparse
from pathlib import Path

from plans.commands.declare import add_query_arguments
from plans.commands.plan import add_choice, planned, write
from plans.errors import PlanError
from plans.programs.wiring import wiring
from plans.show import programs
from plans.show.forms import FORMS

HELP = "show how a query is maintained: verdict, stages, class, tree, views, bounds"
SUFFIXES = {".txt": "text", ".json": "json", ".mmd": "mermaid", ".html": "html", ".htm": "html", ".svg": "svg"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    add_choice(parser)
    parser.add_argument(
        "--format",
        choices=[*FORMS],
        help="text, json, mermaid, html, svg; the default is the format of --output's suffix, or text",
    )
    parser.add_argument("--cells", type=int, metavar="N", help="show how the rows are copied to N cells")
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="write to a file instead of the screen, in the format of its suffix: .txt .json .mmd .html .svg",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(args: argparse.Namespace) -> int:
    """Prints the explanation; exit code 0."""
    form = args.format or _by_suffix(args.output)
    made = planned(args)
    if args.cells is not None:
        if form != "text":
            raise PlanError(f"--cells applies to the format text, not to {form}")
        shown = programs.text(made, cells=args.cells)
    else:
        shown = FORMS[form](made, wiring(made))
    write(shown, args.output)
    return 0


def _by_suffix(path: str | None) -> str:
    """Returns the output format for a file's suffix. Raises PlanError for an unknown suffix."""
    suffix = Path(path).suffix.lower() if path else ""
    if suffix and suffix not in SUFFIXES:
        raise PlanError(
            f"--output {path}: the suffix {suffix} is not supported",
            hint=f"use {', '.join(SUFFIXES)}, or give --format",
        )
    return SUFFIXES[suffix] if suffix else "text"
