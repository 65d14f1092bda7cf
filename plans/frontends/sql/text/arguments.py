"""Rejects arguments of a call that the parser would silently drop.

Part of `plans.frontends.sql`; nodes are sqlglot's. Its parsers and generators ignore unknown arguments. To test whether
an argument is read, it is replaced by another one: the result changes if and only if it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from plans.errors import PlanError

CONSTANTS = (
    exp.Literal, exp.Var, exp.DataType, exp.Identifier, exp.Interval, exp.Null, exp.Boolean, exp.JSONPath
)  # fmt: skip
"""Constants, which the code that translates a call may inspect. They are not replaced by a name."""


def complete(name: str, build: Callable[..., Any], max_arguments: int | None = None) -> Callable[..., Any]:
    """Returns a builder of calls that reads all of their arguments.

    It raises PlanError if the last argument is not read, or if there are more than `max_arguments`.
    """

    def made(args: list[Any], **given: Any) -> Any:
        node = build(args, **given)
        last_is_read = not args or _within(args[-1], node)
        if max_arguments is not None and len(args) > max_arguments:
            raise PlanError(f"{name} takes {max_arguments} argument{'s'[: max_arguments - 1]}, not {len(args)}")
        if not last_is_read and not _reads_last(lambda last: build([*args[:-1], last], **given), args[-1]):
            raise PlanError(f"{name} has too many arguments")
        return build(args, **given)

    return made


def _reads_last(build: Callable[[Any], Any], given: Any) -> bool:
    """Returns whether the result of a builder depends on the last argument."""
    found = set()
    for last in (exp.column("_"), exp.true(), *_others(given), given):
        try:
            node = build(last)
        except _LOOKED_AT:
            return True
        if _within(last, node):
            return True
        found.add(node)
    return len(found) > 1


_LOOKED_AT = (PlanError, SqlglotError, AttributeError, ValueError, TypeError, LookupError)
"""Errors of code that reads an argument of an unsuitable type."""


def _others(constant: Any) -> list[Any]:
    """Returns constants that are not the given one."""
    return [
        one
        for one in (exp.Literal.number(7), exp.Literal.string("7"), exp.Literal.number(8))
        if one.name != constant.name
    ]


def _within(part: Any, node: Any) -> bool:
    while part is not None and part is not node:
        part = part.parent
    return part is node


def check_read(node: Any, make: Callable[[Any], Any], made: Any, name: str) -> None:
    """Raises PlanError if a call has an argument in the text on which the result does not depend."""
    for place, child in enumerate(node.iter_expressions()):
        if isinstance(child, CONSTANTS) and "start" not in child.meta:
            continue  # added by the parser
        number = isinstance(child, exp.Literal) and not child.is_string
        changed = node.copy()
        list(changed.iter_expressions())[place].replace(_others(child)[0] if number else exp.column("_"))
        try:
            read = make(changed) != made
        except _LOOKED_AT:
            read = True
        if not read:
            raise PlanError(f"{name} has too many arguments")
