"""Checks the names of user-defined functions. Part of `plans.frontends.sql`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from plans.errors import PlanError
from plans.frontends.rewrites import NAMES
from plans.frontends.sql.groups.aggregates import function_of
from plans.frontends.sql.scalars.interval import SESSIONS, TUMBLING
from plans.frontends.sql.text.place import CLOCK_NAMES, FUNCTION_NAMES
from plans.frontends.sql.text.reader import reader

_TAKEN = {*FUNCTION_NAMES, *CLOCK_NAMES, *TUMBLING, *SESSIONS, *(name.upper() for name in NAMES)}


def is_free(name: str) -> bool:
    """Returns whether a name is neither a function of SQL nor a keyword with another meaning before a parenthesis."""
    if name.upper() in _TAKEN:
        return False
    text, known = f"SELECT {name}(x)", reader("spark")
    try:
        made = known.parser().parse(known.tokenize(text), text)[0].expressions[0]  # type: ignore[union-attr]
    except (SqlglotError, PlanError, IndexError):
        return False
    return type(made) is exp.Anonymous and (function_of(made) or name.upper()) == name.upper()
