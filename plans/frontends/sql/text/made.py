"""Nodes of a SQL syntax tree that take the place of what a user wrote.

Part of `plans.frontends.sql`; nodes are sqlglot's.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp


def call(name: str, *given: Any) -> Any:
    """Returns the call of a function with copies of its arguments, of which those that are None are left out."""
    return exp.Anonymous(this=name, expressions=[one.copy() for one in given if one is not None])


def literal(value: str) -> Any:
    """Returns a text as a literal."""
    return exp.Literal.string(value)


def is_known(value: Any) -> Any:
    """Returns the condition that a value is not NULL."""
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
