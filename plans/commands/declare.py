"""Parses tables and rates of a command line.

A table: `R(a int64, b string key, c int64 not null, d decimal(9,2) rounded)`. A column that identifies a row is marked
`key`; several columns marked `key` are one key together. The parenthesis is followed by `distinct` if all rows are
distinct, and then by `enforced` if the declaration must be checked. It is followed by `upserts` if changes replace the
row with their key: `R(id int64 key, v string, at timestamp sequence) upserts`, where the column that orders the changes
is marked `sequence`, optionally followed by `tombstones 7 days`. A JSON file that `Schema.of` accepts is a declaration,
too.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plans.errors import PlanError
from plans.nested import split
from plans.schema import Column, Schema, Table, marked
from plans.types import normal_type

_DECLARATION = re.compile(
    r"(?P<name>\w+)\s*\((?P<columns>.+)\)\s*(?P<mark>distinct|upserts)?\s*(?P<enforced>\benforced)?"
    r"(?:\s*\btombstones\s+(?P<tombstones>[^()]+))?",
    re.IGNORECASE | re.DOTALL,
)


def schema_of(texts: Sequence[str]) -> Schema:
    """Returns the schema of declarations and JSON files. Raises PlanError for other texts."""
    tables: list[Table] = []
    for text in texts:
        if text.endswith(".json"):
            declared = Schema.of(_json(text))
            tables += declared.values()
        else:
            tables += map(table_of, _apart(text))
    return Schema(tuple(tables))


def _apart(text: str) -> list[str]:
    """Splits a text with several declarations, which are separated by a comma, a semicolon or a line end."""
    found, depth = [""], 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if depth <= 0 and mark in ",;\n":
            found.append("")
        else:
            found[-1] += mark
    return [part for part in found if part.strip()] or [text]


def table_of(text: str) -> Table:
    """Returns the table of one declaration."""
    match = _DECLARATION.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"{text!r} does not declare a table", hint="write 'R(a int64, b string)'")
    columns: list[Column] = []
    key: list[str] = []
    sequence = None
    for part in split(match["columns"]):
        typed, fields = marked(_INSIDE.sub(_in_one_word, re.sub(r"\s*([(,)])\s*", r"\1", part).replace(")", ") ")))
        words = typed.split()
        marks = " ".join(words[2:]).lower()
        if len(words) < 2 or marks not in ("", "key", "sequence"):
            raise PlanError(f"{part.strip()!r} does not declare a column", hint="write a name and a type: 'a int64'")
        if marks == "key":
            key.append(words[0])
        if marks == "sequence":
            if sequence is not None:
                raise PlanError(
                    f"{text!r} marks two columns as its sequence", hint="mark only the column that orders the changes"
                )
            sequence = words[0]
        columns.append(Column(words[0], normal_type(words[1]), **fields))
    mark = (match["mark"] or "").lower()
    behind = match["tombstones"]
    return Table(
        match["name"], tuple(columns), tuple(key), mark == "distinct", mark == "upserts", sequence, behind,
        match["enforced"] is not None,
    )  # fmt: skip


_INSIDE = re.compile(r"\s*<.*>", re.DOTALL)


def _in_one_word(found: re.Match[str]) -> str:
    """Returns the parameters of a type without blanks: `<a int64, b string>` is `<a:int64,b:string>`."""
    return ":".join(re.sub(r"\s*([][<>,:])\s*", r"\1", found[0]).split())


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except AttributeError:  # Python has no stream if the shell has closed it
        reason = "it is closed"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise PlanError(f"cannot read standard input: {reason}", hint="give the query itself in quotes, or a file")


@contextmanager
def asking(schema: Schema) -> Iterator[None]:
    """Adds a hint on how to declare a table to errors about an undeclared table."""
    try:
        yield
    except PlanError as error:
        missing = _UNKNOWN.fullmatch(error.message)
        if missing is None:
            raise
        known = f"; declared are: {', '.join(schema)}" if len(schema) else ""
        hint = f"declare it: --schema '{missing['name']}(a int64, b string)'{known}"
        raise PlanError(error.message, hint=hint, position=error.position, text=error.text) from None


_UNKNOWN = re.compile(r"unknown (?:table|relation) (?P<name>\w+)")


def rates_of(texts: Sequence[str]) -> dict[str, float]:
    """Returns rates written as NAME=NUMBER."""
    rates = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            rates[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise PlanError(f"{text!r} is not a rate", hint="write NAME=NUMBER, for example g=1000")
    return rates


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Returns names of columns separated by commas, or None if there is no text."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def query_text(text: str) -> str:
    """Returns the text itself, or the content of the file with that name, or, for `-`, the standard input.

    Raises PlanError if the text can only be the name of a file, and the file cannot be read.
    """
    if text == "-":
        return _standard_input()
    if not text:  # it would be the name of the current folder
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (IsADirectoryError, PermissionError) as error:
        reason = (error.strerror or "it cannot be read").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError):  # no such file, or not a valid name: the query itself
        if any(sign in text for sign in " \t\n({"):
            return text
        reason = "there is no such file, and a single word is not a query"
    raise PlanError(f"cannot read {text}: {reason}", hint="give the name of a file, or the query itself in quotes")


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments with which every planning command reads its query."""
    add = parser.add_argument
    add(
        "query",
        help="SQL, Datalog, a motif, a plan as JSON, a file that contains one of these, or - for standard input",
    )
    add(
        "--schema",
        action="append",
        default=[],
        metavar="'R(a int64, b string), ...'|FILE.json",
        help="columns and types of relations. 'key' after a column, or 'distinct' after the parenthesis, declares that "
        "rows are unique; a following 'enforced' checks this. 'upserts' after the parenthesis: a change replaces the "
        "row with its key, in the order of the column marked 'sequence'; 'tombstones 7 days' limits how long deleted "
        "keys are remembered. Without it, the columns of Datalog and motifs are int64",
    )
    add(
        "--rate",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="updates of a relation or alias; ratios count",
    )
    add_dialect(parser)


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Adds the argument for the SQL dialect."""
    parser.add_argument(
        "--dialect",
        default="spark",
        metavar="NAME",
        help='spark (default), in which "x" is a text; ansi, in which it is a name; duckdb, postgres, snowflake, ...',
    )


def _json(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"cannot read the schema {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"cannot read the schema {path}: {error}") from None
