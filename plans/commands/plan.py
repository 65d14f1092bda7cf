"""`crown plan`: the plan of a query, as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plans.commands.declare import add_query_arguments, asking, completed, query_text, rates_of, repeated, schema_of
from plans.errors import PlanError
from plans.files.rows import RowsFile
from plans.planner import plan, program
from plans.program import Program
from plans.search.rates import sample_rates
from plans.show.programs import to_json

HELP = "plan a query and print the plan as JSON"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    add_choice(parser)
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file instead of the screen")
    parser.add_argument("--json", action="store_true", help="no effect: the output is JSON with or without it")


def run(args: argparse.Namespace) -> int:
    """Prints the plan; exit code 0."""
    made = planned(args)
    write(to_json(made), args.output)
    return 0


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Adds the options that affect the choice of the tree."""
    repeated(
        parser,
        "--sample",
        "NAME=FILE",
        "estimate the rates of a relation's aliases from a sample of its changes, a file in a format of crown run",
    )
    parser.add_argument("--tree", help="use this tree instead of the best one, in the notation of EXPLAIN")


def planned(args: argparse.Namespace) -> Program:
    """Returns the program for the arguments."""
    query = query_text(args.query)
    schema = completed(query, schema_of(args.schema))
    paths: dict[str, str] = {}
    for text in args.sample:
        name, equals, paths[name] = text.partition("=")
        if not equals:
            raise PlanError(f"--sample {text!r}: write NAME=FILE")
    rates = rates_of(args.rate)
    with asking(schema):
        if paths:
            first = plan(query, schema, dialect=args.dialect)
            samples = {name: RowsFile(Path(path)).rows(first.table(name)) for name, path in paths.items()}
            rates = {**sample_rates(first, samples), **rates}
        return program(query, schema, rates=rates, dialect=args.dialect, tree=args.tree)


def write(text: str, path: str | None) -> None:
    """Writes a text to the file, or to the standard output."""
    if path:
        Path(path).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
