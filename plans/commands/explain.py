"""`crown explain`: how a query would be maintained, for people."""

from __future__ import annotations

import argparse

from plans.commands.declare import add_query_arguments
from plans.commands.plan import add_choice, planned, write
from plans.show.explain import mermaid, text, to_json
from plans.show.picture import html, svg

HELP = "show how a query is maintained: class, tree, views, bounds"
FORMATS = {"text": text, "json": to_json, "mermaid": mermaid, "html": html, "svg": svg}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_query_arguments(parser)
    add_choice(parser)
    parser.add_argument(
        "--format", choices=list(FORMATS), default="text", help="text (default), json, mermaid, html, svg"
    )
    parser.add_argument("--cells", type=int, metavar="N", help="show how the rows are copied to N HyperCube cells")
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file instead of the screen")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; exit code 0."""
    made = planned(args)
    shown = text(made, cells=args.cells) if args.format == "text" else FORMATS[args.format](made)
    write(shown, args.output)
    return 0
