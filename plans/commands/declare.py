"""Parses tables, rates and windows of a command line, such as `--ttl clicks=at:1 hour`.

A table: `R(a int64, b string key, c int64 not null, d decimal(9,2) rounded)`. A column that identifies a row is marked
`key`; several columns marked `key` are one key together. The parenthesis is followed by `distinct` if all rows are
distinct, and then by `enforced` if the declaration must be checked. It is followed by `upserts` if changes replace the
row with their key: `R(id int64 key, v string, at timestamp sequence) upserts`, where the column that orders the changes
is marked `sequence`, optionally followed by `tombstones 7 days`. A JSON file that `Schema.of` accepts is a declaration,
too.

Undeclared relations of Datalog queries and motifs are inferred from the query. A Datalog atom has its columns by
position, so their number is known. They are named as the variables of the atom if these are all different, and have the
type int64 unless a schema says otherwise. The edges of a motif are `edges(src, dst)`, int64. The columns of SQL
relations cannot be inferred.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from plans.errors import PlanError
from plans.frontends.datalog.rules import Rules
from plans.frontends.datalog.tokens import looks_like as are_rules
from plans.frontends.motif import patterns
from plans.nested import split
from plans.schema import Column, Schema, Table, marked
from plans.time.windows import LATE, Window, last_rows, sliding, ttl, tumbling
from plans.types import normal_type, why_untyped

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
def asking(schema: Schema, unread: Mapping[str, str] | None = None) -> Iterator[None]:
    """Adds a hint on how to declare a table to errors about an undeclared table.

    ``unread``: why the columns of an undeclared table cannot be read from its file.
    """
    try:
        yield
    except PlanError as error:
        missing = _UNKNOWN.fullmatch(error.message)
        if missing is None:
            raise
        message = (unread or {}).get(missing["name"], error.message)
        known = f"; declared are: {', '.join(schema)}" if len(schema) else ""
        hint = f"declare it: --schema '{missing['name']}(a int64, b string)'{known}"
        raise PlanError(message, hint=hint, position=error.position, text=error.text) from None


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
    repeated(
        parser,
        "--schema",
        "'R(a int64, b string), ...'|FILE.json",
        "columns and types of relations. 'key' after a column, or 'distinct' after the parenthesis, declares that "
        "rows are unique; a following 'enforced' checks this. 'upserts' after the parenthesis: a change replaces the "
        "row with its key, in the order of the column marked 'sequence'; 'tombstones 7 days' limits how long deleted "
        "keys are remembered. Without it, the columns of Datalog and motifs are int64",
    )
    repeated(parser, "--rate", "NAME=NUMBER", "updates of a relation or alias; ratios count")
    add_dialect(parser)


def add_emit(add: Callable[..., object], formats: Sequence[str]) -> None:
    """Adds the options of a command that choose the format of deltas; the first one is the default."""
    add(
        "--emit",
        choices=formats,
        default=formats[0],
        help="write deltas as weights (default), a change data feed (cdc), Flink's row kinds, Debezium's envelopes, or "
        "ranges of rows that move by the same amount",
    )
    add("--key", metavar="COLUMN,...", help="columns of the output by which --emit pairs the two rows of an update")


def repeated(parser: argparse.ArgumentParser, option: str, form: str, text: str) -> None:
    """Adds an option that can be given several times."""
    parser.add_argument(option, action="append", default=[], metavar=form, help=text)


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


_HOURS = "lengths such as '1 hour 30 minutes', or whole numbers if the column is one"


def add_windows(parser: argparse.ArgumentParser) -> None:
    """Adds the options for windows."""
    for name, form, text in (
        ("--ttl", "NAME=COLUMN:LENGTH[:LATENESS]", f"keep rows for a length of event time; {_HOURS}"),
        ("--tumbling", "NAME=COLUMN:SIZE[:LATENESS]", "keep rows until their window of event time ends"),
        ("--sliding", "NAME=COLUMN:SIZE:SLIDE[:LATENESS]", "the same, with a window that begins at every SLIDE"),
        ("--last-rows", "NAME=N[:COLUMN]", "keep the last N rows by order of arrival, or the N greatest by a column"),
    ):
        repeated(parser, name, form, text)
    repeated(
        parser, "--late", f"NAME={'|'.join(LATE)}", "what happens to rows that arrive late (drop: they are counted)"
    )


def windows_of(args: argparse.Namespace) -> dict[str, Window]:
    """Returns the window of each relation in the options. Raises PlanError for invalid options."""
    found: dict[str, Window] = {}
    makers: dict[str, Callable[[str, list[str]], Window]] = {
        "--ttl": lambda text, parts: _timed(ttl, "--ttl", text, parts, 2),
        "--tumbling": lambda text, parts: _timed(tumbling, "--tumbling", text, parts, 2),
        "--sliding": lambda text, parts: _timed(sliding, "--sliding", text, parts, 3),
        "--last-rows": _last,
    }
    for option, make in makers.items():
        for text in getattr(args, option[2:].replace("-", "_")):
            name, window = _named(option, text)
            if name.lower() in map(str.lower, found):
                raise PlanError(f"{option} {text}: {name} already has a window", hint="give one per relation")
            found[name] = make(text, [part.strip() for part in window.split(":")])
    for text in args.late:
        name, late = _named("--late", text)
        of = next((known for known in found if known.lower() == name.lower()), None)
        if of is None or found[of].counts:
            raise PlanError(f"--late {text}: {name} has no window of event time", hint="give one, or leave --late out")
        if late not in LATE:
            raise PlanError(f"--late {text}: {late!r} is not supported", hint=f"use {' or '.join(LATE)}")
        found[of] = replace(found[of], late=late)
    return found


def _named(option: str, text: str) -> tuple[str, str]:
    name, equals, window = text.partition("=")
    if not equals or not name.strip() or not window.strip():
        raise PlanError(f"{option} {text!r} names no relation and window", hint=f"write {_FORMS[option]}")
    return name.strip(), window.strip()


_FORMS = {
    "--ttl": "'clicks=at:1 hour'",
    "--tumbling": "'clicks=at:10 minutes'",
    "--sliding": "'clicks=at:1 hour:10 minutes'",
    "--last-rows": "clicks=10000",
    "--late": "clicks=raise",
}


def _timed(make: Callable[..., Window], option: str, text: str, parts: list[str], least: int) -> Window:
    if not least <= len(parts) <= least + 1 or not all(parts):
        raise PlanError(f"{option} {text!r} is not a window", hint=f"write {_FORMS[option]}")
    column, *lengths = parts
    values: list[Any] = [int(length) if _is_number(length) else length for length in lengths]
    return make(column, *values[: least - 1], lateness=values[least - 1] if len(values) == least else 0)


def _last(text: str, parts: list[str]) -> Window:
    if len(parts) > 2 or not _is_number(parts[0]) or not all(parts):
        raise PlanError(
            f"--last-rows {text!r} is not a number of rows", hint="write clicks=10000, or clicks=10000:COLUMN"
        )
    return last_rows(int(parts[0]), by=parts[1] if len(parts) == 2 else None)


def _is_number(text: str) -> bool:
    """Returns True for an integer that may fit a column."""
    return text.isdecimal() and len(text) < 20


TYPE = "int64"


def completed(query: str, schema: Schema) -> Schema:
    """Returns the schema with the missing relations of a Datalog text or motif.

    Raises PlanError if the text is not valid Datalog.
    """
    if are_rules(query):
        return Schema((*schema.values(), *_of_rules(query, schema)))
    if patterns.looks_like(query) and not len(schema):
        return Schema((Table("edges", (Column("src", TYPE), Column("dst", TYPE))),))
    return schema


def _of_rules(query: str, schema: Schema) -> list[Table]:
    words = Rules(query, schema)
    rules = words.rules()
    known = {rule.head.text.lower() for rule in rules}
    found: list[Table] = []
    for token in (token for rule in rules for token, _ in rule.atoms):
        if token.text not in schema and token.text.lower() not in known:
            words.index = words.tokens.index(token) + 1
            found.append(Table(token.text, tuple(Column(column, TYPE) for column in _columns(_arguments(words)))))
            known.add(token.text.lower())
    return found


def _arguments(words: Rules) -> list[str]:
    """Returns the text of each argument of the atom whose parenthesis is the current token."""
    words.want("(")
    found = []
    while words.here.kind != "end" and not words.take(")"):
        start = words.skip()
        found.append(words.text[words.tokens[start].start : words.tokens[words.index - 1].end])
        words.take(",", ".")
    return found


def _columns(arguments: list[str]) -> list[str]:
    plain = all(argument.isidentifier() and argument.strip("_") for argument in arguments)
    if plain and len({argument.lower() for argument in arguments}) == len(arguments):
        return arguments
    return [f"c{i}" for i in range(1, len(arguments) + 1)]


def declaration(table: Table) -> str:
    """Returns a table in the syntax of `--schema`, without the columns that have no type."""
    typed = (column for column in table.columns if why_untyped(column.type) is None)
    return f"{table.name}({', '.join(f'{column.name} {column.type}' for column in typed)})"
