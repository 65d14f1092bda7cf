"""Reads the SQL files of a project without Spark: which views and streaming tables they define."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from crown.errors import ProjectError
from crown.projects.specification import PYTHON, Specification
from plans.errors import PlanError
from plans.frontends.sql.text.statements import Statement, statements

_SPARK = "crown pipelines run"
_NAME = r"(?:(?:\w+|`[^`]+`)\.)*(?:\w+|`[^`]+`)"
_TEXT = r"'(?:[^'\\]|''|\\.)*'"
_LIST = rf"\((?:[^()']|{_TEXT}|\([^()]*\))*\)"


def _form(pattern: str) -> re.Pattern[str]:
    """Returns a pattern in which a blank matches any space and comments, and NAME, TEXT and LIST match one."""
    for word, said in (("NAME", _NAME), ("TEXT", _TEXT), ("LIST", _LIST)):
        pattern = pattern.replace(word, said)
    return re.compile(pattern.replace(" ", r"(?:\s|--[^\n]*\n|/\*.*?\*/)+"), re.IGNORECASE | re.DOTALL)


_VIEW = _form(
    r"CREATE(?: OR (?:REPLACE|REFRESH))?"
    r" (?P<kind>MATERIALIZED VIEW|STREAMING TABLE|(?:GLOBAL )?TEMP(?:ORARY)? VIEW)(?: IF NOT EXISTS)? (?P<name>NAME)"
    r"(?P<clauses>(?:\s*(?:USING \w+|COMMENT\s*TEXT|(?:PARTITIONED BY|CLUSTER BY|TBLPROPERTIES)\s*LIST))*)"
    r"(?: AS (?P<query>.+))?"
)
_FLOW = _form(r"CREATE FLOW (?P<flow>NAME)(?: COMMENT\s*TEXT)? AS INSERT INTO (?P<name>NAME) BY NAME (?P<query>.+)")
_STREAM = _form(r"\b(?P<before>FROM|JOIN) STREAM(?:\s*\(\s*(?P<inside>NAME)\s*\)| (?P<name>NAME))")


@dataclass(frozen=True)
class Defined:
    """A view or streaming table: its query, and the file and line of its statement. ``streams``: the sources that it
    reads as streams; ``temporary``: it has no table of its own."""

    name: str
    query: str
    place: str
    streams: tuple[str, ...] = ()
    temporary: bool = False


def defined(project: Specification) -> list[Defined]:
    """Returns what the SQL files of a project define. Raises ProjectError for what needs Spark, and for two definitions
    of one name."""
    found: dict[str, Defined] = {}
    for file in project.files():
        place = file.relative_to(project.folder)
        if file.suffix == PYTHON:
            raise ProjectError(
                f"{place} defines views by DataFrames of Spark, which crown run does not have: write them in SQL, or "
                f"use {_SPARK}"
            )
        for statement in _statements(file, place):
            at = f"{place}:{statement.line}"
            flow = _FLOW.fullmatch(statement.text)
            if flow is not None:
                _add(found, _plain(flow["name"]), flow["query"], at)
                continue
            made = _view(statement.text, at)
            if made.name.lower() in found:
                raise ProjectError(f"{at}: there are two views called {made.name}; rename one")
            found[made.name.lower()] = made
    empty = next((one for one in found.values() if not one.query), None)
    if empty is not None:
        raise ProjectError(
            f"{empty.place}: the streaming table {empty.name} has no flow; write CREATE FLOW, or AS SELECT"
        )
    if not found:
        raise ProjectError(f"{project.file}: its libraries define no view: name the folder of the SQL files")
    return list(found.values())


def _statements(file: Path, place: Path) -> list[Statement]:
    try:
        return statements(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{place} cannot be read: {error}") from None
    except PlanError as error:
        raise ProjectError(f"{place}: {error.message}") from None


def _view(text: str, place: str) -> Defined:
    """Returns what a statement defines; a streaming table whose flows are to come has no query."""
    found = _VIEW.fullmatch(text)
    kind = "" if found is None else found["kind"].upper()
    if found is None or not (found["query"] or kind.startswith("STREAMING")):
        raise ProjectError(
            f"{place}: {' '.join(text.split())[:60]!r} is for Spark: crown run reads CREATE MATERIALIZED VIEW name AS, "
            "CREATE STREAMING TABLE name AS, CREATE FLOW name AS INSERT INTO table BY NAME and CREATE TEMPORARY VIEW "
            f"name AS; use {_SPARK}"
        )
    name, query, streams = _plain(found["name"]), found["query"] or "", tuple[str, ...]()
    if kind.startswith("STREAMING") and query:
        query, streams = _as_tables(query, name, place)
    elif _STREAM.search(query):
        raise ProjectError(f"{place}: {name} reads a stream: create it as a streaming table")
    return Defined(name, query, place, streams, kind.endswith("VIEW") and not kind.startswith("MATERIALIZED"))


def _add(found: dict[str, Defined], name: str, query: str, place: str) -> None:
    """Adds a flow to the streaming table that it writes to."""
    table = found.get(name.lower())
    if table is None or (table.query and not table.streams):
        raise ProjectError(
            f"{place}: the flow writes to {name}, which is no streaming table that was created before it"
        )
    query, streams = _as_tables(query, name, place)
    both = f"({table.query}) UNION ALL BY NAME ({query})" if table.query else query
    found[name.lower()] = replace(table, query=both, streams=(*table.streams, *streams))


def _as_tables(query: str, name: str, place: str) -> tuple[str, tuple[str, ...]]:
    """Returns a query that reads its streams as tables, and their names. ProjectError if it reads none."""
    streams = tuple(_plain(match["inside"] or match["name"]) for match in _STREAM.finditer(query))
    if not streams:
        raise ProjectError(
            f"{place}: the streaming table {name} is defined by what is no stream: read STREAM(source), or declare a "
            "materialized view"
        )
    return _STREAM.sub(lambda match: f"{match['before']} {match['inside'] or match['name']}", query), streams


def _plain(name: str) -> str:
    """Returns the last part of a name, without its quotes."""
    return re.findall(r"\w+|`[^`]+`", name)[-1].strip("`")
