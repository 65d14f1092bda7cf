"""`crown explain`: how a query would be maintained, for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from plans.commands.declare import add_query_arguments
from plans.commands.plan import add_choice, planned, write
from plans.errors import PlanError
from plans.plan import Plan
from plans.program import Program
from plans.show import explain, programs
from plans.show.picture import html, svg

HELP = "show how a query is maintained: stages, class, tree, views, bounds"
FORMATS = {"text": programs.text, "json": programs.to_json, "mermaid": programs.mermaid}
PICTURES: dict[str, Callable[[Plan], str]] = {"html": html, "svg": svg}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    add_choice(parser)
    parser.add_argument(
        "--format", choices=[*FORMATS, *PICTURES], default="text", help="text (default), json, mermaid, html, svg"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument("--cells", type=int, metavar="N", help="show how the rows are copied to N HyperCube cells")
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file instead of the screen")


def run(args: argparse.Namespace) -> int:
    """Prints the explanation; exit code 0."""
    made = planned(args)
    if args.format in PICTURES:
        shown = PICTURES[args.format](_one_join(made, "a picture"))
    elif args.format == "text" and args.cells is not None:
        shown = explain.text(_one_join(made, "--cells"), cells=args.cells)
    else:
        shown = FORMATS[args.format](made)
    write(shown, args.output)
    return 0


def _one_join(made: Program, what: str) -> Plan:
    if made.plan is None:
        raise PlanError(f"{what} is for a query that is one join; this one has {len(made.stages)} stages")
    return made.plan
