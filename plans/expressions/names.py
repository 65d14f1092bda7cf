"""Names of functions in SQL, and the expressions of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from plans.errors import PlanError
from plans.expressions.build import Expr, call
from plans.expressions.functions import table
from plans.expressions.functions.apply import fitted
from plans.expressions.functions.function import Function, Macro
from plans.expressions.macros import arrays, conditions, dialects, lists, meanings, numbers, others, texts, times


def _functions(modules: Iterable[ModuleType]) -> list[Function]:
    return [function for module in modules for function in module.TABLE]


FAMILIES: dict[str, tuple[Function | Macro, ...]] = {
    "Choices and casts": conditions.TABLE,
    "Numbers": (*numbers.TABLE, *_functions(table.NUMBERS)),
    "Texts": (*texts.TABLE, *_functions(table.TEXTS)),
    "Dates and times": (*times.TABLE, *_functions(table.TIMES)),
    "Arrays, maps and structs": (*arrays.TABLE, *_functions(table.COLLECTIONS)),
    "Other systems' names": (*others.TABLE, *lists.TABLE, *meanings.TABLE, *dialects.TABLE),
}
"""All functions and macros. If several have one name, a call refers to the first one that takes its number of
arguments."""


def _by_name() -> dict[str, list[Function | Macro]]:
    found: dict[str, list[Function | Macro]] = {}
    for entry in (entry for family in FAMILIES.values() for entry in family):
        if isinstance(entry, Function) and entry.hidden:
            continue
        for name in (entry.name, *entry.also):
            found.setdefault(name.upper(), []).append(entry)
    return found


NAMES = _by_name()
"""The entries by each of their names, in capitals."""


def find_function(name: str, count: int) -> Function | Macro | None:
    """Returns the entry of a call with `count` arguments, or None if no function has that name, in capitals.

    Raises PlanError if no function with the name takes that many arguments.
    """
    entries = NAMES.get(name, [])
    for entry in entries:
        if entry.kinds(count) is not None:
            return entry
    if not entries:
        return None
    counts = " or ".join(entry.counts for entry in entries)
    raise PlanError(f"{name} takes {counts} argument{'' if counts == '1' else 's'}, not {count}")


def applied(entry: Function | Macro, args: list[Expr]) -> Expr:
    """Returns the expression of a call. Raises PlanError if a macro is called with an expression where it needs a
    literal."""
    if isinstance(entry, Function):
        return call(entry.name, *args)
    kinds = entry.kinds(len(args)) or ()
    args = [fitted(entry.name, arg, kind) if kind[0] == "=" else arg for arg, kind in zip(args, kinds, strict=True)]
    made: Expr = entry.make(*args)
    return made
