"""Results that are the rows of one window stage: the positions of their columns in it, and whether ranges of rows can
be reported.

A change of a running function moves the values of all rows behind it by the same amount, so a delta can report the
first and the last row of a range, and the amount. For this, a row of the result must contain its position in the order.
"""

from __future__ import annotations

from dataclasses import dataclass

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.plan import Output
from plans.program import Program
from plans.programs.frames import RANKS
from plans.programs.stages import LinearStage, OverStage, outputs_of

NUMBERS = (*RANKS, "count")
"""Functions that are numbers of rows, and never NULL."""
_SMALL = 2**20


@dataclass(frozen=True)
class Windowed:
    """The result of a program is the rows of the window `stage`, number `number`. `columns` has, for each column of the
    result, the position of a column of the stage, and `added` the constant added to it, which only numbers of rows
    have."""

    number: int
    stage: OverStage
    columns: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """Returns the names of the stage's columns that determine the position of a row in its partition, in the order
        of comparison."""
        order = [one.column for one in self.stage.order]
        return order + [c.name for c in self.stage.feed.columns if c.name not in (*order, *self.stage.keys)]

    def place(self, name: str) -> int | None:
        """Returns the position in the result of a column of the feed, or None if it is not in the output."""
        shown = [output.name for output in self.stage.shown]
        at = shown.index(name) if name in shown else -1
        return self.columns.index(at) if at in self.columns else None


@dataclass(frozen=True)
class Ranged:
    """A result whose deltas can be ranges. `ends` are the columns of the result that determine the position of a row in
    its partition, in the order of comparison."""

    windowed: Windowed
    ends: tuple[Output, ...]


def windowed(program: Program, number: int) -> Windowed | None:
    """Returns the window stage whose rows are those of stage `number`, or None if the rows are computed otherwise, or
    filtered."""
    columns = tuple(range(len(outputs_of(program.stages[number]))))
    added = (0,) * len(columns)
    while isinstance(stage := program.stages[number], LinearStage):
        if len(stage.terms) != 1:
            return None
        (term,) = stage.terms
        if term.where is not None or term.weight != 1 or isinstance(term.source, str):
            return None
        number = term.source
        below = [output.name for output in outputs_of(program.stages[number])]
        parts = [_sum(term.columns[at].expr) for at in columns]
        if any(column.op != "col" or column.value not in below for column, _ in parts):
            return None
        columns = tuple(below.index(column.value) for column, _ in parts)
        added = tuple(one + more for one, (_, more) in zip(added, parts, strict=True))
    if not isinstance(stage, OverStage):
        return None
    numbers = [len(stage.shown) + i for i, one in enumerate(stage.functions) if one.function in NUMBERS]
    if any(by and column not in numbers for column, by in zip(columns, added, strict=True)):
        return None
    return Windowed(number, stage, columns, added)


def _sum(expr: Expr) -> tuple[Expr, int]:
    """Splits a number into another number and a constant that is added to it. Only small constants are split off, so
    that no sum overflows its type."""
    if expr.op in ("add", "sub") and expr.type in ("int32", "int64"):
        left, right = expr.args
        if expr.op == "add" and not left.columns:
            left, right = right, left
        more = None if right.columns else right.evaluate({}, 1)[0].as_py()
        if more is not None and abs(more) < _SMALL:
            inner, by = _sum(left.args[0] if left.op == "cast" and left.args[0].type == "int32" else left)
            return inner, by + (more if expr.op == "add" else -more)
    return expr, 0


def _computed(program: Program) -> str | None:
    """Returns the first column of the result that is computed from the rows of a window stage, if the result has all of
    its rows; else None."""
    last = program.stages[-1]
    if not isinstance(last, LinearStage) or len(last.terms) != 1 or last.terms[0].where is not None:
        return None
    (term,) = last.terms
    if isinstance(term.source, str) or windowed(program, term.source) is None:
        return None
    return next((one.name for one in term.columns if one.expr.op != "col"), None)


def ranged(program: Program) -> Ranged:
    """Returns how ranges describe the deltas of a program. Raises PlanError if ranges cannot describe them."""
    found = windowed(program, len(program.stages) - 1)
    if found is None:
        computed = _computed(program)
        if computed is not None:
            raise PlanError(
                f"ranges report how far the values of window functions move, but the column {computed} of this result "
                "is computed from them",
                hint="select the functions themselves, numbers of rows also with a constant of up to six digits added, "
                "and compute where the rows are read; or leave ranges out",
            )
        raise PlanError(
            "ranges report how far the values of window functions move, but the rows of this result are not those of "
            "one window",
            hint="select columns and window functions of one PARTITION BY and ORDER BY, or leave ranges out",
        )
    for one in found.stage.functions:
        if not one.running:
            raise PlanError(
                f"a change does not move the values of {one.function.upper()} by the same amount in all later rows",
                hint="ranges report ROW_NUMBER, RANK, DENSE_RANK, and COUNT and SUM from the first row to the current "
                "one, of whole numbers and decimals",
            )
    places = [found.place(name) for name in found.names]
    first_missing = next((i for i, at in enumerate(places) if at is None), len(places))
    lacking = [n for n in (*found.stage.keys, *(o.column for o in found.stage.order)) if found.place(n) is None]
    if lacking or not first_missing or any(at is not None for at in places[first_missing:]):
        raise PlanError(
            "ranges go from row to row in the order of the window, but the result does not have the ORDER BY columns",
            hint="select the columns of PARTITION BY and ORDER BY too",
        )
    return Ranged(found, tuple(program.output[at] for at in places[:first_missing] if at is not None))
