"""Arguments of a call that nothing reads: they are refused, so none is dropped in silence.

Part of `plans.frontends.sql`; nodes are sqlglot's. Its parsers and generators pass over arguments that they do not
know. Whether one is read shows where another is put in its place: what is made of the call changes, or it does not.
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
"""What a call may ask for itself: it is not replaced by a name."""


def complete(name: str, build: Callable[..., Any], most: int | None = None) -> Callable[..., Any]:
    """Returns a builder of calls that reads all of their arguments.

    It raises PlanError if the last one is not read, or there are more than `most`.
    """

    def made(args: list[Any], **given: Any) -> Any:
        node = build(args, **given)
        kept = not args or _within(args[-1], node)
        if most is not None and len(args) > most:
            raise PlanError(f"{name} takes {most} argument{'s'[: most - 1]}, not {len(args)}")
        if not kept and not _reads_last(lambda last: build([*args[:-1], last], **given), args[-1]):
            raise PlanError(f"{name} does not take so many arguments")
        return build(args, **given)

    return made


def _reads_last(build: Callable[[Any], Any], given: Any) -> bool:
    """Returns whether what is made of the last argument depends on it."""
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
"""What is raised where an argument is read, and cannot be what it is."""


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
    """Raises PlanError if a call has an argument in the text that makes no difference to what is made of the call."""
    for place, child in enumerate(node.iter_expressions()):
        if isinstance(child, CONSTANTS) and "start" not in child.meta:
            continue  # the parser has added it
        number = isinstance(child, exp.Literal) and not child.is_string
        changed = node.copy()
        list(changed.iter_expressions())[place].replace(_others(child)[0] if number else exp.column("_"))
        try:
            read = make(changed) != made
        except _LOOKED_AT:
            read = True
        if not read:
            raise PlanError(f"{name} does not take so many arguments")
