"""A line of the list in docs/expressions.md, and the expressions that prove it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A line of the table in docs/expressions.md, and expressions that prove it.

    `null`: where Spark stops with an error and the value here is NULL. `cases`: SQL; a pair is SQL here, and what it
    means in Spark's words. `utc`: Spark gives the same values only if the session's time zone is UTC.
    """

    construct: str
    types: str
    null: str
    note: str
    cases: tuple[str | tuple[str, str], ...]
    utc: bool = False


def examples(cases: tuple[str | tuple[str, str], ...], utc: bool = False) -> Group:
    """Expressions that prove functions, which the page lists from their own table."""
    return Group("", "", "", "", cases, utc)
