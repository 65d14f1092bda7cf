"""ASOF JOIN: each row of the left side is joined with the row of the right side that is nearest in time.

The rows of both sides become one relation, which is ordered by time for every key. So the partner of a left row is the
last right row before it, or the first one after it: a window function that picks a row with a filter
(`plans.programs.frames`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plans.errors import PlanError
from plans.expressions.build import FALSE, MIRROR, NULL, TRUE, Expr, call, cast
from plans.programs.frames import Frame, Order, WindowFunction
from plans.queries.algebra import Over, Query, SetOperation, Source, split

RIGHT, MATCHED = "right", "matched"
_COMPARED = ("eq", "ge", "gt", "le", "lt")
_BACK = ("ge", "gt")  # the time of the left row is after that of its partner


@dataclass(frozen=True)
class Match:
    """The condition of an ASOF JOIN: `keys` are equal on both sides, and `op` compares the `time` of the left row with
    that of the right one."""

    keys: tuple[tuple[Expr, Expr], ...]
    op: str
    time: tuple[Expr, Expr]


def match_of(conditions: Sequence[Expr], left: Source, right: Source, words: str = "ASOF JOIN") -> Match:
    """Returns the parsed condition of a join that the query writes as `words`. Raises PlanError unless the conditions
    are equalities and one inequality between both sides."""
    keys: list[tuple[Expr, Expr]] = []
    times: list[tuple[str, tuple[Expr, Expr]]] = []
    for one in conditions:
        op, pair = one.op, one.args
        if op in _COMPARED and _of(pair[1], left) and _of(pair[0], right):
            op, pair = MIRROR[op], pair[::-1]
        if op not in _COMPARED or not (_of(pair[0], left) and _of(pair[1], right)):
            raise PlanError(
                f"a condition of {words} must be =, >=, >, <= or < of a value of the left side and one of the right",
                hint="put a condition on one side into a subquery in FROM",
            )
        mine, other = pair
        if mine.type != other.type:
            raise PlanError(f"{words} cannot compare {mine.type} with {other.type}", hint="cast one of them")
        if op == "eq":
            keys.append((mine, other))
        else:
            times.append((op, (mine, other)))
    if len(times) != 1:
        raise PlanError(
            f"ASOF JOIN needs one condition with >=, >, <= or <, and has {len(times) or 'none'}",
            hint="write ON left.key = right.key AND left.time >= right.time",
        )
    return Match(tuple(keys), *times[0])


def _of(expr: Expr, source: Source) -> bool:
    """Returns whether a value reads only columns of a source."""
    return {split(name)[0] for name in expr.columns} == {source.alias}


def matched(text: str, left: Source, right: Source, match: Match) -> tuple[Over, dict[Expr, str]]:
    """Returns the rows of both sides with the partners of the left rows, and the names of the columns of both sides in
    it.

    Both sides fill the compared columns. `right` marks the rows of the right side; `matched` is true in left rows that
    have a partner.
    """
    ours = {left.qualified(c.name): f"l_{c.name}" for c in left.table.columns}
    theirs = {right.qualified(c.name): f"r_{c.name}" for c in right.table.columns}
    filled: dict[str, Expr] = {}  # values of the right side in columns of the left side, and in value columns
    added: dict[str, Expr] = {}
    compared = []
    for i, (own_value, other) in enumerate((*match.keys, match.time)):
        name = ours.get(own_value, "")
        if not name or name in filled:
            name = f"v_{i}"
            added[name] = own_value
        filled[name] = other
        compared.append(name)
        if other in theirs:
            theirs[other] = name
    own = {name: expr for expr, name in theirs.items() if name not in filled}
    known = tuple(call("not", call("isnull", one)) for one in filled.values())
    mine = [*((name, expr) for expr, name in ours.items()), (RIGHT, FALSE), *added.items()]
    padded = [(name, cast(NULL, expr.type)) for name, expr in own.items()]
    others = [(name, filled.get(name, TRUE if name == RIGHT else cast(NULL, expr.type))) for name, expr in mine]
    rows = (
        Query(text, (left,), (), (*mine, *padded), False),
        Query(text, (right,), known, (*others, *own.items()), False),
    )
    back = match.op in _BACK
    *keys, time = compared
    order = (Order(time, False, not back), Order(RIGHT, match.op in ("ge", "lt")))
    frame = Frame("rows", None, 0) if back else Frame("rows", 0, None)

    def picked(name: str, type_: str, column: str) -> WindowFunction:
        return WindowFunction(name, type_, "last_value" if back else "first_value", (column,), RIGHT, frame)

    functions = {expr: picked(f"p_{i}", expr.type, name) for i, (expr, name) in enumerate(theirs.items())}
    over = Over(
        SetOperation(rows, ("union_all", 0, 1)), tuple(keys), order,
        (*functions.values(), picked(MATCHED, "bool", RIGHT)), len(added) + len(own),
    )  # fmt: skip
    return over, ours | {expr: one.name for expr, one in functions.items()}
