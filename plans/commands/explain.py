"""`crown explain`: how a query would be maintained, for people."""

from __future__ import annotations

import argparse

from plans.commands.plan import write
from plans.declare import add_query_arguments, query_text, rates_of, schema_of
from plans.explain import mermaid, text, to_json
from plans.picture import html, svg
from plans.planner import plan

HELP = "show how a query is maintained: class, tree, views, bounds"
FORMATS = {"text": text, "json": to_json, "mermaid": mermaid, "html": html, "svg": svg}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_query_arguments(parser)
    parser.add_argument("--tree", help="explain this tree, written as the candidates are, instead of the best")
    parser.add_argument(
        "--format", choices=list(FORMATS), default="text", help="text (default), json, mermaid, html, svg"
    )
    parser.add_argument("--cells", type=int, metavar="N", help="show how the rows are copied to N HyperCube cells")
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file instead of the screen")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; exit code 0."""
    made = plan(
        query_text(args.query),
        schema_of(args.schema),
        rates=rates_of(args.rate),
        dialect=args.dialect,
        tree=args.tree,
    )
    shown = text(made, cells=args.cells) if args.format == "text" else FORMATS[args.format](made)
    write(shown, args.output)
    return 0
