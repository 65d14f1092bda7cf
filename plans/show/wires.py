"""Describes the wiring of a program: the rows and columns read of each table, and how a stage passes rows on.

The wires are those of ``plans.programs.wiring``. An engine passes its own wires, so that the description is true of it.

Expressions without a native form split the kernels of a stage in two. Only the engine knows which expressions have a
native form (`crown.expressions`), so the caller passes this knowledge in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from plans.expressions.expr import Expr
from plans.plan import Output
from plans.program import Program
from plans.programs.reads import Parts, feeds
from plans.programs.stages import EXPLODE, GroupStage, JoinStage, Stage
from plans.programs.wiring import Wire, Wires
from plans.schema import Table

_NETTED = "netted where it is read"


def of_table(table: Table, wires: Wires) -> str:
    """Returns the columns and rows of a table that are read, and how its changes are prepared before."""
    wire = wires[table.name.lower()]
    text = f"{table.name} ({', '.join(column.name for column in wire.columns)})"
    if len(wire.columns) < len(table.columns):
        text += f" of {len(table.columns)} columns"
    if wire.conditions:
        text += f", where {' or '.join(sorted(map(_all, wire.conditions)))}"
    text += f", {_NETTED}" if wire.may_repeat else ""
    return text + (", kept: the result is read from it" if wire.read_again else "")


def of_stage(number: int, wires: Wires) -> list[str]:
    """Returns the known facts about the rows that a stage passes on, as lines that begin with a keyword."""
    wire = wires[number]
    known = [f"known of every row: {_all(wire.known)}"] if wire.known else []
    return known + ([f"passed on as found, {_NETTED}"] if wire.may_repeat else [])


def to_json(program: Program, wires: Wires) -> dict[str, Any]:
    """Returns the wires in a JSON-able form: those of tables by name, those of stages in order."""
    return {
        "tables": {table.name: _json(wires[table.name.lower()]) for table in program.tables},
        "stages": [_json(wires[number]) for number in range(len(program.stages))],
    }


def _json(wire: Wire) -> dict[str, Any]:
    return {
        "columns": [column.name for column in wire.columns],
        "conditions": sorted(map(_texts, wire.conditions)),
        "known": _texts(wire.known),
        "may_repeat": wire.may_repeat,
        "read_again": wire.read_again,
    }


def _texts(parts: Iterable[Expr]) -> list[str]:
    return sorted(map(str, parts))


def _all(parts: Parts) -> str:
    """Returns a conjunction of conditions as text."""
    return " AND ".join(f"({part})" if part.op == "or" else str(part) for part in sorted(parts, key=str))


IsNative = Callable[[Expr], bool]
"""Returns whether a whole expression has a native form."""


def by_arrow(stage: Stage, is_native: IsNative) -> list[str]:
    """Returns the distinct expressions of a stage that Arrow evaluates, without constants."""
    predicates: list[Expr] = []
    outputs: list[Output] = []
    if isinstance(stage, JoinStage):
        predicates += stage.plan.residual
        outputs += stage.plan.output
    for feed in feeds(stage):
        predicates += [] if feed.where is None else [feed.where]
        outputs += feed.columns
    if isinstance(stage, GroupStage):
        predicates += [] if stage.having is None else [stage.having]
        outputs += stage.outputs
    found = [predicate for predicate in predicates if not is_native(predicate)]
    return list(dict.fromkeys(map(str, [*found, *_computed(outputs, is_native)])))


def lines_by_arrow(stage: Stage, is_native: IsNative | None) -> list[str]:
    """Returns the result of `by_arrow` as a line; no line if it is empty, or if `is_native` is None."""
    found = [] if is_native is None else by_arrow(stage, is_native)
    return [f"evaluated by Arrow: {', '.join(found)}"] if found else []


def _computed(outputs: Iterable[Output], is_native: IsNative) -> Iterable[Expr]:
    for output in outputs:
        expr = output.expr.args[0] if output.expr.op == EXPLODE else output.expr
        if expr.op not in ("col", "literal") and (expr.type != output.type or not is_native(expr)):
            yield expr
