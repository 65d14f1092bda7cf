"""`crown profile`: profiles a query and its trees on a recorded update log."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from plans.commands.declare import add_query_arguments, asking, completed, query_text, schema_of
from plans.errors import PlanError
from plans.files.unpacked import Place, checked_text, contents
from plans.files.values import parsed
from plans.schema import Schema, Table
from plans.search.logs.profile import profile
from plans.search.logs.updates import Event
from plans.types import arrow_type

HELP = "profile a query on a recorded update log: rates, enclosureness, and the best tree for it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_query_arguments(parser)
    parser.add_argument(
        "--log",
        required=True,
        metavar="FILE.csv",
        help="one update per line, in order: + or -, the relation, its values; an empty field is NULL",
    )
    parser.add_argument("--trees", type=int, default=8, metavar="N", help="compare the N best trees (8)")
    parser.add_argument(
        "--batch", type=int, default=1, metavar="N", help="updates per batch, for plans that count rows (1)"
    )
    parser.add_argument("--json", action="store_true", help="print the profile as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Prints the profile; exit code 0."""
    query = query_text(args.query)
    schema = completed(query, schema_of(args.schema))
    log = read_log(args.log, schema)
    with asking(schema):
        made = profile(query, schema, log, trees=args.trees, batch=args.batch)
    print(json.dumps(asdict(made), default=dict) + "\n" if args.json else made.text(), end="")
    return 0


def read_log(path: str, schema: Schema) -> list[Event]:
    """Returns the events of a log file. Raises PlanError, with the line, for a line that is not an update."""
    try:
        text = checked_text(contents(Path(path))[1], Place(path)).decode()
        rows = list(_lines(io.StringIO(text, newline=""), path, schema))
    except csv.Error as error:
        raise PlanError(f"cannot read the log {path}: {error}", hint="fix the file") from None
    typed: list[Event] = [("", (), 0)] * len(rows)
    for table in schema.values():
        mine = [i for i, (name, _, _, _) in enumerate(rows) if name == table.name]
        columns = [_column(path, table, p, [rows[i] for i in mine]) for p in range(len(table.columns))]
        for n, i in enumerate(mine):
            typed[i] = (table.name, tuple(column[n] for column in columns), rows[i][2])
    return typed


def _lines(file: object, path: str, schema: Schema) -> Iterator[tuple[str, list[str], int, int]]:
    for number, fields in enumerate(csv.reader(file), 1):  # type: ignore[arg-type]
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0].strip() not in ("+", "-") or len(fields) < 2:
            raise PlanError(f"{path}, line {number}: an update is +,RELATION,VALUES or -,RELATION,VALUES")
        name = fields[1].strip()
        if name not in schema:
            raise PlanError(f"{path}, line {number}: unknown relation {name}", hint="declare it with --schema")
        table = schema[name]
        if len(fields) - 2 != len(table.columns):
            raise PlanError(
                f"{path}, line {number}: {len(fields) - 2} values for the {len(table.columns)} columns of {table.name}"
            )
        yield table.name, fields[2:], 1 if fields[0].strip() == "+" else -1, number


def _column(path: str, table: Table, position: int, rows: list[tuple[str, list[str], int, int]]) -> list[object]:
    column = table.columns[position]
    texts = pa.array([fields[position] or None for _, fields, _, _ in rows], pa.string())
    try:
        return list(parsed(texts, arrow_type(column.type)).to_pylist())
    except pa.ArrowInvalid as error:
        raise PlanError(f"{path}: column {table.name}.{column.name}: {error}") from None
