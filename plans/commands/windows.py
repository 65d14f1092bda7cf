"""Parses windows of relations of a command line: `--ttl clicks=at:1 hour`, `--last-rows clicks=10000`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from plans.errors import PlanError
from plans.time.windows import LATE, Window, last_rows, sliding, ttl, tumbling

_HOURS = "lengths such as '1 hour 30 minutes', or whole numbers if the column is one"


def add_windows(parser: argparse.ArgumentParser) -> None:
    """Adds the options for windows."""
    for name, form, text in (
        ("--ttl", "NAME=COLUMN:LENGTH[:LATENESS]", f"keep rows for a length of event time; {_HOURS}"),
        ("--tumbling", "NAME=COLUMN:SIZE[:LATENESS]", "keep rows until their window of event time ends"),
        ("--sliding", "NAME=COLUMN:SIZE:SLIDE[:LATENESS]", "the same, with a window that begins at every SLIDE"),
        ("--last-rows", "NAME=N[:COLUMN]", "keep the last N rows by order of arrival, or the N greatest by a column"),
    ):
        parser.add_argument(name, action="append", default=[], metavar=form, help=text)
    parser.add_argument(
        "--late",
        action="append",
        default=[],
        metavar=f"NAME={'|'.join(LATE)}",
        help="what happens to rows that arrive late (drop: they are counted)",
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
