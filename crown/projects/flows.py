"""Flows of streaming tables in SQL: ``INSERT INTO ... BY NAME``, which append rows, and AUTO CDC, which apply changes.

The table of an AUTO CDC flow is a view of its changes: the newest change of each key, unless it is a delete. The
changes are another table, which views can read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crown.errors import ProjectError

_NAME = r"(?:(?:\w+|`[^`]+`)\.)*(?:\w+|`[^`]+`)"
_TEXT = r"'(?:[^'\\]|''|\\.)*'"
_LIST = rf"\((?:[^()']|{_TEXT}|\([^()]*\))*\)"
_RANK = "_crown_rank"
CHANGES = "_changes"
"""The name of the table of changes ends in this, after that of the table."""


def form(pattern: str) -> re.Pattern[str]:
    """Returns a pattern in which a blank matches any whitespace and comments, and NAME, TEXT and LIST match a name, a
    text and a list."""
    for word, said in (("NAME", _NAME), ("TEXT", _TEXT), ("LIST", _LIST)):
        pattern = pattern.replace(word, said)
    return re.compile(pattern.replace(" ", r"(?:\s|--[^\n]*\n|/\*.*?\*/)+"), re.IGNORECASE | re.DOTALL)


STREAM = form(r"\b(?P<before>FROM|JOIN) STREAM(?:\s*\(\s*(?P<inside>NAME)\s*\)| (?P<name>NAME))")
"""A source in FROM that a query reads as a stream."""
_FLOW = form(
    r"CREATE FLOW (?P<flow>NAME)(?: COMMENT\s*TEXT)? AS "
    r"(?:INSERT INTO (?P<name>NAME) BY NAME (?P<query>.+)|AUTO CDC INTO (?P<target>NAME)\b(?P<changes>.+))"
)
_CHANGES = form(
    r" FROM STREAM(?:\s*\(\s*(?P<inside>NAME)\s*\)| (?P<source>NAME)) KEYS\s*(?P<keys>LIST)"
    r"(?: APPLY AS DELETE WHEN (?P<deletes>.+?))? SEQUENCE BY (?P<sequence>.+?)"
    r"(?: COLUMNS (?:\*\s*EXCEPT\s*(?P<others>LIST)|(?P<columns>LIST)))?(?: STORED AS SCD TYPE (?P<type>\w+))?\s*"
)


@dataclass(frozen=True)
class Changes:
    """The clauses of an AUTO CDC flow: expressions and names of columns in SQL, over the rows of ``source``."""

    source: str
    keys: Sequence[str]
    sequence: str
    deletes: str | None = None
    columns: Sequence[str] | None = None
    others: Sequence[str] = ()

    def query(self, table: str) -> str:
        """Returns the query of the newest row of each key among the changes in a table. Of changes with equal
        sequences, any is taken."""
        wanted = ", ".join(self.columns or ()) or f"* EXCEPT ({', '.join([_RANK, *self.others])})"
        kept = "" if self.deletes is None else f" AND NOT COALESCE({self.deletes}, FALSE)"
        return (
            f"SELECT {wanted} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {', '.join(self.keys)} "
            f"ORDER BY {self.sequence} DESC) AS {_RANK} FROM {table}) WHERE {_RANK} = 1{kept}"
        )


@dataclass(frozen=True)
class Flow:
    """A flow: its name, the table that it writes to, and its query or its changes."""

    name: str
    table: str
    does: str | Changes


def flow_of(text: str, place: str) -> Flow | None:
    """Returns the flow that a statement creates; None for any other statement. Raises ProjectError for an AUTO CDC flow
    that keeps a history."""
    found = _FLOW.fullmatch(text)
    if found is None:
        return None
    name = plain(found["flow"])
    if found["query"] is not None:
        return Flow(name, plain(found["name"]), found["query"])
    changes = _CHANGES.fullmatch(found["changes"])
    if changes is None:
        raise ProjectError(
            f"{place}: the flow {name} is written CREATE FLOW name AS AUTO CDC INTO table FROM STREAM(source) KEYS (k) "
            "[APPLY AS DELETE WHEN condition] SEQUENCE BY column [COLUMNS (a, b) | COLUMNS * EXCEPT (c)] "
            "[STORED AS SCD TYPE 1]"
        )
    demand_type(changes["type"], f"{place}: the flow {name}")
    columns, others = _names(changes["columns"]), _names(changes["others"])
    made = Changes(
        plain(changes["inside"] or changes["source"]),
        _names(changes["keys"]),
        changes["sequence"],
        changes["deletes"],
        columns or None,
        others,
    )
    return Flow(name, plain(found["target"]), made)


def demand_type(given: object, flow: str) -> None:
    """Raises ProjectError for a history of changes."""
    if given is not None and str(given) != "1":
        raise ProjectError(
            f"{flow} stores SCD type {given}, a history of each key: store type 1, and compute the history in a view "
            "of the changes"
        )


def streams_in(query: str) -> list[str]:
    """Returns the names of the sources that a query reads as streams."""
    return [plain(match["inside"] or match["name"]) for match in STREAM.finditer(query)]


def plain(name: str) -> str:
    """Returns the last part of a name, without its quotes."""
    return re.findall(r"\w+|`[^`]+`", name)[-1].strip("`")


def _names(given: str | None) -> list[str]:
    return [name.strip() for name in (given or "()")[1:-1].split(",") if name.strip()]
