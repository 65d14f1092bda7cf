"""Describes how a program is cut into cells: by which columns, where the cells meet, and why there is only one cell."""

from __future__ import annotations

from typing import Any

from plans.errors import PlanError
from plans.program import Program
from plans.search.cells.count import portion
from plans.search.cells.exchanges import WHY_ONE, Exchange, rounds


def line(program: Program, cells: int | None = None) -> str:
    """Returns the line of EXPLAIN. With a number of `cells`, raises PlanError if the program cannot be cut into that
    many."""
    plain = program.plain()
    try:
        found = rounds(plain, 2 if cells is None else cells)
    except PlanError:
        if cells is not None:
            raise
        return f"one: {WHY_ONE}"
    if cells == 1:
        return "one"
    return _cut(plain.unbounded(), found, cells) + _before(program)


def _before(program: Program) -> str:
    """Returns a phrase about windows, which run before several cells."""
    if not program.windows:
        return ""
    names = " and ".join(window.relation for window in program.windows)
    return f"; with several cells, the window of {names} runs before them, in an operator with one cell"


def _cut(plain: Program, found: tuple[Exchange, ...], cells: int | None) -> str:
    first, last = found[0], found[-1]
    many = cells or "any number"
    if len(found) == 1:
        share = f"; a cell gets {portion(plain, cells):.0%} of the rows" if cells else ""
        return f"{many}, by {_by(first)}{share}"
    where = "one cell" if last.grid.cells == 1 else f"cells, by {' and '.join(last.grid.attributes)}"
    if not first.grouped and first.carries == "rows":
        return f"{many}, by {_by(first)}, which only add up rows; all stages run in {where}, by a second operator"
    up_to = "" if first.carries == "rows" else f"up to {first.carries} "
    rows = "their groups" if first.grouped else f"the rows of {first.carries}"
    return f"{many}, {up_to}by {_by(first)}; {rows} are merged in {where}, by a second operator"


def to_json(program: Program) -> dict[str, Any]:
    """Returns the same facts for programs that read the plan: the rounds of cells, or why there is one cell."""
    plain = program.plain()
    try:
        found = rounds(plain, 2)
    except PlanError:
        return {"rounds": [], "why_one": WHY_ONE}
    shown = [{"by": _by(one), "one_cell": one.grid.cells == 1, "carries": one.carries} for one in found]
    before = {"windows_before": [window.relation for window in program.windows]} if program.windows else {}
    return {"rounds": shown, **before}


def _by(given: Exchange) -> str:
    """Returns the columns by which the cells of a round are cut, and the relations of which each cell has all rows."""
    if given.roles is None:
        return " and ".join(given.grid.attributes)
    if given.grid.cells == 1:
        return "nothing"
    roles = (given.roles or {}).values()
    hashed = [f"{role.relation} ({', '.join(name for name, _ in role.hashed)})" for role in roles if role.hashed]
    copied = [role.relation for role in roles if not role.hashed]
    return ", ".join(hashed) + (f"; every cell has all of {', '.join(copied)}" if copied else "")
