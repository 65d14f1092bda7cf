"""Reads the views and streaming tables that the SQL files of a project define, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from crown.errors import ProjectError
from crown.projects.flows import CHANGES, STREAM, Changes, Flow, flow_of, form, plain, streams_in
from crown.projects.specification import NAME, PYTHON, Specification
from plans.errors import PlanError
from plans.frontends.sql.text.statements import Statement, statements

_SPARK = "crown pipelines run"
_VIEW = form(
    r"CREATE(?: OR (?:REPLACE|REFRESH))?"
    r" (?P<kind>MATERIALIZED VIEW|STREAMING TABLE|(?:GLOBAL )?TEMP(?:ORARY)? VIEW)(?: IF NOT EXISTS)? (?P<name>NAME)"
    r"(?P<clauses>(?:\s*(?:USING \w+|COMMENT\s*TEXT|(?:PARTITIONED BY|CLUSTER BY|TBLPROPERTIES)\s*LIST))*)"
    r"(?: AS (?P<query>.+))?"
)


@dataclass(frozen=True)
class Defined:
    """A view or streaming table: its query, and the file and line of its statement. ``streams``: the sources that it
    reads as streams; ``temporary``: it has no table of its own."""

    name: str
    query: str
    place: str
    streams: tuple[str, ...] = ()
    temporary: bool = False

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ProjectError(f"{self.place}: {self.name!r:.100} is not a name of a view: use letters, digits and _")


def defined(project: Specification) -> list[Defined]:
    """Returns the definitions in the SQL files of a project. Raises ProjectError for a definition that needs Spark, and
    for two definitions with one name."""
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
            flow = flow_of(statement.text, at)
            if flow is not None:
                _add(found, flow, at)
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
    """Returns the definition of a statement. A streaming table whose flows follow has no query yet."""
    found = _VIEW.fullmatch(text)
    kind = "" if found is None else found["kind"].upper()
    if found is None or not (found["query"] or kind.startswith("STREAMING")):
        raise ProjectError(
            f"{place}: {' '.join(text.split())[:60]!r} is for Spark: crown run reads CREATE MATERIALIZED VIEW name AS, "
            "CREATE STREAMING TABLE name AS, CREATE FLOW name AS INSERT INTO table BY NAME and CREATE TEMPORARY VIEW "
            f"name AS; use {_SPARK}"
        )
    name, query, streams = plain(found["name"]), found["query"] or "", list[str]()
    if kind.startswith("STREAMING") and query:
        query, streams = _as_tables(query, name, place)
    elif STREAM.search(query):
        raise ProjectError(f"{place}: {name} reads a stream: create it as a streaming table")
    return Defined(name, query, place, tuple(streams), kind.endswith("VIEW") and not kind.startswith("MATERIALIZED"))


def _add(found: dict[str, Defined], flow: Flow, place: str) -> None:
    """Adds a flow to the streaming table that it writes to."""
    name = flow.table
    table = found.get(name.lower())
    if table is None or (table.query and not table.streams):
        raise ProjectError(
            f"{place}: the flow writes to {name}, which is not a streaming table that was created before it"
        )
    if isinstance(flow.does, Changes):
        if table.query:
            raise ProjectError(f"{place}: {name} has another flow, and an AUTO CDC flow is the only one of its table")
        changes, streams = f"{table.name}{CHANGES}", [flow.does.source]
        if changes.lower() in found:
            raise ProjectError(f"{place}: {changes} is the table of the changes of {name}; rename the view {changes}")
        found[changes.lower()] = Defined(changes, f"SELECT * FROM {flow.does.source}", place, temporary=True)
        query = flow.does.query(changes)
    else:
        query, streams = _as_tables(flow.does, name, place)
    both = f"({table.query}) UNION ALL BY NAME ({query})" if table.query else query
    found[name.lower()] = replace(table, query=both, streams=(*table.streams, *streams))


def _as_tables(query: str, name: str, place: str) -> tuple[str, list[str]]:
    """Returns the query with its streams read as tables, and their names. Raises ProjectError if it reads no stream."""
    streams = streams_in(query)
    if not streams:
        raise ProjectError(
            f"{place}: the streaming table {name} is not defined by a stream: read STREAM(source), or declare a "
            "materialized view"
        )
    return STREAM.sub(lambda match: f"{match['before']} {match['inside'] or match['name']}", query), streams
