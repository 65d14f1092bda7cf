"""`crown plan`: the plan of a query, as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plans.declare import add_query_arguments, query_text, rates_of, schema_of
from plans.explain import to_json
from plans.planner import plan

HELP = "plan a query and print the plan as JSON"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_query_arguments(parser)
    parser.add_argument("--tree", help="choose this tree, written as EXPLAIN lists it, instead of the best")
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file instead of the screen")


def run(args: argparse.Namespace) -> int:
    """Print the plan; exit code 0."""
    made = plan(
        query_text(args.query),
        schema_of(args.schema),
        rates=rates_of(args.rate),
        dialect=args.dialect,
        tree=args.tree,
    )
    write(to_json(made), args.output)
    return 0


def write(text: str, path: str | None) -> None:
    """To the file, or to the screen."""
    if path:
        Path(path).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
