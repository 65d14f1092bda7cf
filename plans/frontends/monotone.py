"""Steps of recursions with MIN or MAX: whether they derive better rows from better rows.

Only then is there one least fixed point, which does not depend on the order in which rows were inserted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from plans.expressions.build import Expr
from plans.expressions.coercion import INTEGERS, numeric
from plans.frontends.recursive import Member
from plans.queries.algebra import Query, Source
from plans.schema import Table

MONOTONE = (
    "with MIN or MAX, a step may add to the value, subtract from it, multiply it by a constant that is not negative, "
    "take the GREATEST or LEAST of it, and test that it is small enough for MIN or great enough for MAX"
)
"""What steps may do with the value of which only the best is there."""
PASSED = (
    "a step may pass columns of MIN_BY or MAX_BY on, all or the first ones, each to the same column, if it adds to the "
    "value, a whole number, what is declared NOT NULL or has a condition IS NOT NULL"
)
"""What steps may do with the other columns of the best row."""
_EXTREMES = ("greatest", "least")
_LESS, _MORE = ("lt", "le"), ("gt", "ge")


def why_not_monotone(
    step: Query, mine: Sequence[Source], head: Member, members: Sequence[Member]
) -> tuple[str, str] | None:
    """Returns why a step of the relation `head` of a recursion may derive a worse row from a better one, and what it
    may do instead; None if it does not.

    ``mine``: the sources of the step that are rows of the recursion, whose relations are the `members`.
    """
    best = {one.rows: one.columns[one.best[0]].name for one in members if one.best}
    picked = {one.rows: [one.columns[place].name for place in one.best[1:]] for one in members}
    values = [source.qualified(best[source.table]) for source in mine if source.table in best]
    others = {source.qualified(name): name for source in mine for name in picked[source.table]}
    falling = any(one.function == "max" for one in members)
    read = next((best[source.table] for source in mine if source.table in best), "")
    conditions = [one for given in step.conditions for one in _parts(given)]
    exprs = [expr for _, expr in step.outputs]
    for place, (column, expr) in enumerate(zip(head.columns, exprs, strict=True)):
        name, is_value = column.name, place in head.best[:1]
        if not is_value and _reads(expr, values):
            return f"column {name} depends on {read}", MONOTONE
        if is_value and not _follows(expr, values):
            return f"a new {name} may get worse when {read} gets better", MONOTONE
        if is_value and _has_extreme(expr) and any(_present(value) not in conditions for value in values):
            why = f"GREATEST and LEAST ignore a value that is NULL; add the condition {read} IS NOT NULL"
            return why, MONOTONE
        if place not in head.best[1:] and (found := _first_read(expr, others)):
            return f"column {name} depends on {found}", PASSED
    wrong = _why_not_passed(step, mine, head, best, picked)
    if wrong:
        return wrong, PASSED
    conditions += [one for source in step.sources for given in source.on for one in _parts(given)]
    if found := next(filter(None, (_first_read(one, others) for one in conditions)), ""):
        return f"a condition depends on {found}", PASSED
    if all(_holds(one, values, falling) for one in conditions):
        return None
    return f"a condition may hold for a row and not for one with a better {read}", MONOTONE


def _why_not_passed(
    step: Query, mine: Sequence[Source], head: Member, best: Mapping[Table, str], picked: Mapping[Table, Sequence[str]]
) -> str:
    """Returns why the columns beside the best value, which a step passes on, may get worse; empty if they do not.

    Of rows with equal values, these columns decide, in their order. So a step may pass the first ones on, from one row,
    if a better value of that row derives a value that is better, and not equal.
    """
    exprs = [step.outputs[place][1] for place in head.best[1:]]
    others = {source.qualified(name): name for source in mine for name in picked[source.table]}
    reads = [_first_read(expr, others) for expr in exprs]
    passed = len(exprs) - next((i for i, found in enumerate(reversed(reads)) if found), len(exprs))
    if not passed:
        return ""
    last = head.columns[head.best[passed]].name
    source = next(
        (one for one in mine if exprs[:passed] == [one.qualified(name) for name in picked[one.table][:passed]]), None
    )
    if source is None:
        return f"column {last} depends on {reads[passed - 1]}, and is not the same column of the same row"
    value, made = source.qualified(best[source.table]), step.outputs[head.best[0]][1]
    known = [one for given in step.conditions for one in _parts(given)]
    if all(each.join == "inner" for each in step.sources):
        known += [
            _present(each.qualified(column.name))
            for each in step.sources
            for column in each.table.columns
            if each.table.required(column.name)
        ]
    if _grows(made, value, known):
        return ""
    return f"column {last} passes {reads[passed - 1]} on, and a better {best[source.table]} may derive an equal value"


def _first_read(expr: Expr, columns: Mapping[Expr, str]) -> str:
    """Returns the name of the first of some columns that an expression reads; empty if it reads none."""
    if expr in columns:
        return columns[expr]
    return next(filter(None, (_first_read(arg, columns) for arg in expr.args)), "")


def _grows(expr: Expr, value: Expr, known: Collection[Expr]) -> bool:
    """Returns whether different whole numbers give different results, in their order. `known`: conditions that hold."""
    if expr == value:
        return expr.type in INTEGERS
    if expr.op in ("add", "sub"):
        pairs = [expr.args, expr.args[::-1]] if expr.op == "add" else [expr.args]
        return any(
            _grows(one, value, known) and not _reads(two, [value]) and _is_present(two, known) for one, two in pairs
        )
    return _widens(expr) and _grows(expr.args[0], value, known)


def _is_present(expr: Expr, known: Collection[Expr]) -> bool:
    """Returns whether an expression is not NULL for sure."""
    if _widens(expr):
        return _is_present(expr.args[0], known)
    return _present(expr) in known or (expr.op == "literal" and expr.value is not None)


def _widens(expr: Expr) -> bool:
    """Returns whether an expression is another one as a BIGINT."""
    return expr.op == "cast" and expr.type == "int64" and expr.args[0].type in INTEGERS


def _reads(expr: Expr, values: Collection[Expr]) -> bool:
    return expr in values or any(_reads(arg, values) for arg in expr.args)


def _follows(expr: Expr, values: Collection[Expr]) -> bool:
    """Returns whether the value of an expression gets better, or stays, when those of the recursion get better."""
    if expr in values or not _reads(expr, values):
        return True
    if expr.op == "sub":
        return _follows(expr.args[0], values) and not _reads(expr.args[1], values)
    if expr.op == "mul":
        return any(_is_positive(one) and _follows(two, values) for one, two in (expr.args, expr.args[::-1]))
    if expr.op == "cast" and not (numeric(expr.type) and numeric(expr.args[0].type)):
        return False
    return expr.op in ("add", "cast", *_EXTREMES) and all(_follows(arg, values) for arg in expr.args)


def _is_positive(expr: Expr) -> bool:
    if expr.op == "cast":
        return numeric(expr.type) and _is_positive(expr.args[0])
    return expr.op == "literal" and expr.value is not None and expr.value >= 0


def _has_extreme(expr: Expr) -> bool:
    return expr.op in _EXTREMES or any(map(_has_extreme, expr.args))


def _holds(condition: Expr, values: Collection[Expr], falling: bool) -> bool:
    """Returns whether a condition that holds for a row also holds for those with better values."""
    if condition.op in (*_LESS, *_MORE):
        low, high = condition.args if condition.op in _LESS else condition.args[::-1]
        value, bound = (high, low) if falling else (low, high)
        if _follows(value, values) and not _reads(bound, values):
            return True
    if condition.op == "not" and condition.args[0].op == "isnull":
        return _follows(condition.args[0].args[0], values)
    return not _reads(condition, values)


def _present(value: Expr) -> Expr:
    return Expr("not", "bool", (Expr("isnull", "bool", (value,)),))


def _parts(condition: Expr) -> Iterator[Expr]:
    if condition.op != "and":
        yield condition
    else:
        for part in condition.args:
            yield from _parts(part)
