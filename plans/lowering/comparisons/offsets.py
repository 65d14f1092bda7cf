"""Moves the addends of integer comparisons, so that each side reads one relation.

The sides are compared as int64, so that nothing overflows: `x - y > 5` becomes `x > y + 5`.
"""

from __future__ import annotations

from plans.expressions.build import MIRROR, Expr, call, cast, lit

ORDERING = ("lt", "le", "gt", "ge")
_WHOLE = ("int32", "int64")
_FAR = 1 << 62


def parted(point: Expr, bound: Expr, low: bool) -> tuple[Expr, Expr, Expr]:
    """Returns integer point and bound, with the addends of the point moved to the bound, and the part of the bound that
    must not be NULL.

    They are compared as int64, so that a sum does not overflow. If the addend of a bound leads so far away that every
    point is on its inner side, only the expression without the addend must not be NULL.
    """
    (mine, less), (core, more) = _addend(point), _addend(bound)
    by = more - less
    if (by == 0 and less == 0) or abs(by) >= _FAR:
        return point, bound, bound
    point, core = cast(mine, "int64"), cast(core, "int64")
    made = call("add", core, lit(by)) if by else core
    return point, made, core if (by < 0) == low else made


def _addend(expr: Expr) -> tuple[Expr, int]:
    """Returns an integer expression without its constant addends, and their sum."""
    by = 0
    while expr.type in _WHOLE:
        if expr.op == "cast" and expr.args[0].type in _WHOLE:
            expr = expr.args[0]
        elif expr.op in ("add", "sub") and _constant(expr.args[1]):
            by += expr.args[1].value if expr.op == "add" else -expr.args[1].value
            expr = expr.args[0]
        elif expr.op == "add" and _constant(expr.args[0]):
            by += expr.args[0].value
            expr = expr.args[1]
        else:
            break
    return expr, by


def _constant(expr: Expr) -> bool:
    return expr.op == "literal" and isinstance(expr.value, int) and expr.type in _WHOLE


def of_sides(part: Expr) -> Expr:
    """Rewrites `x - y > 5` of integers as `x > y + 5`. Returns other conditions unchanged."""
    if part.op == "or" and all(arg.op in ORDERING for arg in part.args):
        return Expr("or", "bool", tuple(map(of_sides, part.args)))
    if part.op not in ORDERING:
        return part
    left, right = part.args
    for op, one, other in ((part.op, left, right), (MIRROR[part.op], right, left)):
        (difference, less), (rest, more) = _addend(one), _addend(other)
        if difference.op == "sub" and difference.type in _WHOLE and _constant(rest):
            left, right = (cast(arg, "int64") for arg in difference.args)
            by = rest.value + more - less
            if left.columns and right.columns and abs(by) < _FAR:
                return call(op, left, call("add", right, lit(by)))
    return part
