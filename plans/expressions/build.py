"""Builds scalar expressions: typed, immutable, JSON-able, evaluated on whole Arrow columns.

`Expr(op, type, args, value)` is a tree (`plans.expressions.expr`). Leaves are columns (`value` is the name) and
literals (`value` is a Python value of the type). All other nodes are built by `call`, which checks types, inserts casts
and implements SQL's three-valued logic. `str(expr)` is SQL (`plans.expressions.sqltext`). `evaluate` is vectorized
(`plans.expressions.evaluate`).

An expression has the type and the values of Spark 4 in ANSI mode (its default), or is rejected with a PlanError. Where
Spark would fail at run time, on overflow, division by zero or a cast of a value that does not fit, the value is NULL,
because one row must not stop a maintained view forever. `plans.expressions.coercion` has the types, docs/expressions.md
the list.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any

from plans.errors import PlanError
from plans.expressions import literals
from plans.expressions.coercion import (
    INTEGERS,
    MAX_DIGITS,
    QUOTIENT_DIGITS,
    as_decimal,
    check_ordered,
    common,
    comparable,
    decimal_result,
    mean_type,
    named,
    numeric,
)
from plans.expressions.expr import Expr
from plans.expressions.functions.apply import apply
from plans.expressions.functions.table import FUNCTIONS
from plans.expressions.functions.user import USER
from plans.expressions.leaf import FALSE, NULL, TRUE, agreed, cast, col, folded, lit
from plans.expressions.sqltext import ARITHMETIC, COMPARISONS
from plans.nested import element_of, has_map, is_nested
from plans.time import durations
from plans.types import INTERVALS, MOMENTS, decimal_parts, normal_type, whole_span

__all__ = [
    "ARITHMETIC", "COMPARISONS", "FALSE", "FUNCTIONS", "MIRROR", "NULL", "TRUE", "Expr", "call", "cast", "col",
    "conjoin", "factored", "lit", "substitute",
]  # fmt: skip

_EQUAL = (COMPARISONS["eq"], COMPARISONS["nseq"])  # between columns they are joins, which need one type
MIRROR = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "nseq": "nseq"}
_PATTERN_LENGTH = 10_000
_STRING_DIGITS = 15  # decimals of at most this many digits compare with text equally as decimals and as doubles


def conjoin(conditions: Sequence[Expr]) -> Expr:
    """Returns the conjunction of conditions, flattened and without repetitions. A single condition is returned
    unchanged."""
    if len(conditions) == 1:
        return conditions[0]
    parts = list(dict.fromkeys(part for condition in conditions for part in condition.conjuncts()))
    return parts[0] if len(parts) == 1 else call("and", *parts)


def factored(condition: Expr) -> Expr:
    """Returns an equivalent condition in which conjuncts common to all operands of an OR are moved out of it.

    `(a AND b) OR (a AND c)` becomes `a AND (b OR c)`, which is equal for NULL, too. So an equality in every operand
    becomes a join, as in TPC-H's Q19; inside of OR it would be tested on every pair of rows. O(n).
    """
    if condition.op != "or":
        return condition
    operands = [operand.conjuncts() for operand in _alternatives(condition)]
    common = [part for part in dict.fromkeys(operands[0]) if all(part in operand for operand in operands)]
    if not common:
        return condition
    rests = [[part for part in operand if part not in common] for operand in operands]
    if not all(rests):  # one operand has only the common conjuncts
        return conjoin(common)
    return conjoin([*common, call("or", *(conjoin(rest) for rest in rests))])


def _alternatives(condition: Expr) -> list[Expr]:
    """Returns the operands of a disjunction, flattened."""
    found: list[Expr] = []
    todo = [condition]
    while todo:
        part = todo.pop()
        if part.op == "or":
            todo += reversed(part.args)
        else:
            found.append(part)
    return found


def call(op: str, *args: Expr, value: Any = None) -> Expr:
    """Applies an operator: checks types and inserts casts. Raises PlanError if the operands do not fit."""
    return typed(_called(op, args, value))


def _whole_quotient(left: Expr, right: Expr) -> Expr:
    """Returns DIV of decimals: the divisor divides the rest exactly. Raises PlanError if no decimal holds the rest."""
    whole = call("sub", left, call("mod", left, right))
    wanted, made = (max(as_decimal(one.type)[1] for one in given) for given in ((left, right), (whole,)))
    if made < wanted:
        raise PlanError(f"DIV of {left.type} and {right.type} needs more digits than a decimal has", hint="use CAST")
    return cast(call("div", whole, right), "int64")


def _is_exact(value: Expr) -> bool:
    return value.type in INTEGERS or decimal_parts(value.type) is not None


def typed(expr: Expr) -> Expr:
    """Returns a call. Raises PlanError if it reads an untyped ARRAY() and its own type does not show that, because
    callers check only its type."""
    if "<null>" not in expr.type and any("<null>" in arg.type for arg in expr.args):
        raise PlanError("an ARRAY() has no type here", hint="write CAST(ARRAY() AS ARRAY<INT>)")
    return expr


def _called(op: str, args: tuple[Expr, ...], value: Any) -> Expr:
    if op in COMPARISONS:
        left, right = _aligned(COMPARISONS[op], *args)
        if op not in ("eq", "ne", "nseq"):
            check_ordered(left.type, COMPARISONS[op])
        return Expr(op, "bool", (left, right))
    if op in ARITHMETIC:
        return _arithmetic(op, *args)
    if op == "neg" and args[0].type in INTERVALS:
        return call("mul", args[0], lit(-1))
    if op == "intdiv" and all(map(_is_exact, args)) and any(decimal_parts(arg.type) for arg in args):
        return _whole_quotient(*args)
    if op in ("and", "or", "not"):
        return Expr(op, "bool", tuple(_boolean(op.upper(), arg) for arg in args))
    if op == USER:
        value.fit([arg.type for arg in args])
        pairs = zip(args, value.takes, strict=True)
        return Expr(op, value.gives, tuple(cast(arg, type_) for arg, type_ in pairs), value)
    if op == "isnull":
        return Expr(op, "bool", args)
    if op == "in":
        return _in(args)
    if op == "like":
        return _like(args, value)
    if op == "case":
        return _case(args)
    if op in ("concat", "concat_ws") and any(is_nested(arg.type) for arg in args):
        return _of_arrays(op, args)
    if op == "map":
        args = _entries(args)
    if op == "reverse" and args and is_nested(args[0].type):
        op = "array_reverse"
    if op in FUNCTIONS:
        return apply(op, args)
    raise PlanError(f"operator {op!r} is not supported")


def substitute(expr: Expr, column: Callable[[str], Expr]) -> Expr:
    """Returns the expression with each column replaced by `column(name)`.

    Types are computed again, except for arithmetic, which overflows as the original types do, and for calls with a
    lambda, whose body is typed.
    """

    def rebuilt(node: Expr, args: list[Expr]) -> Expr:
        if node.op == "col":
            return column(node.value)
        if tuple(args) == node.args:
            return node
        if node.op == "cast":
            return cast(args[0], node.type)
        if node.op in ARITHMETIC or node.op in ("neg", "abs") or node.body is not None:
            operands = (cast(new, old.type) for new, old in zip(args, node.args, strict=True))
            return Expr(node.op, node.type, tuple(operands), node.value)
        return call(node.op, *args, value=node.value)

    made: Expr = expr.fold(rebuilt)
    return made


def _aligned(symbol: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Returns both sides of a comparison, cast to the type in which they are compared."""
    left, right = _unquoted(left, right.type), _unquoted(right, left.type)
    left, right = _day(left, right.type), _day(right, left.type)
    if decimal_parts(left.type) or decimal_parts(right.type):
        left, right = _short(left, right.type), _short(right, left.type)
    try:
        type_ = comparable(left.type, right.type)
    except PlanError:
        if symbol == "IN" or (symbol in _EQUAL and left.op == right.op == "col"):
            raise
        return _as_decimal(left), _as_decimal(right)  # as numbers of up to 76 digits: no type must hold both
    if type_ is None:
        hint = "compare values of one type, or convert one side with CAST"
        raise PlanError(f"{left.type} and {right.type} cannot be compared with {symbol}", hint=hint)
    if has_map(type_):
        raise PlanError(f"maps are not compared with {symbol}", hint="compare their MAP_ENTRIES")
    return cast(left, type_), cast(right, type_)


def _as_decimal(arg: Expr) -> Expr:
    return arg if decimal_parts(arg.type) else cast(arg, named(*as_decimal(arg.type)))


def _unquoted(arg: Expr, other: str) -> Expr:
    """Returns a string literal as a value of the type with which it is compared."""
    if arg.op != "literal" or arg.type != "string" or other in ("string", "null"):
        return arg
    if arg.value is None:
        return cast(arg, other)
    parts = decimal_parts(other)
    if parts is not None and parts[0] > _STRING_DIGITS:
        raise PlanError(
            f"{arg.value!r} is compared with {other}, and Spark converts both to doubles",
            hint="write the number without quotes",
        )
    found = folded(arg, other)
    if found is None:
        raise PlanError(f"{arg.value!r} is not a value of type {other}, to which it is compared")
    return found


def _day(arg: Expr, other: str) -> Expr:
    """Returns a constant midnight as a date if it is compared with a date."""
    if other != "date" or arg.op != "literal" or not isinstance(arg.value, dt.datetime):
        return arg
    return arg if arg.value.time() != dt.time() else lit(arg.value.date(), "date")


def _short(arg: Expr, other: str) -> Expr:
    """Returns an integer literal next to a wide decimal as a value of the decimal's type, if only that type leaves room
    for it."""
    if arg.op != "literal" or arg.value is None or arg.type not in INTEGERS or decimal_parts(other) is None:
        return arg
    p, s = as_decimal(other)
    fits = max(p - s, as_decimal(arg.type)[0]) + s <= MAX_DIGITS
    return arg if fits else folded(arg, other) or arg


def _in(args: tuple[Expr, ...]) -> Expr:
    args = (args[0], *(_unquoted(item, args[0].type) for item in args[1:]))
    if any(arg.type == "float64" for arg in args) and all(numeric(arg.type) for arg in args):
        args = tuple(cast(arg, "float64") for arg in args)  # Spark compares all values of a list in one type
    aligned = [_aligned("IN", args[0], item) for item in args[1:]]
    if any(pair[0] != args[0] for pair in aligned) or any(pair[1].op != "literal" for pair in aligned):
        return call("or", *(call("eq", args[0], item) for item in args[1:]))
    return Expr("in", "bool", (args[0], *(pair[1] for pair in aligned)))


def _like(args: tuple[Expr, ...], escape: str | None) -> Expr:
    if args[0].type not in ("string", "null"):
        raise PlanError(f"LIKE needs a string on its left, not {args[0].type}")
    pattern = args[1].value
    if len(pattern) > _PATTERN_LENGTH:
        raise PlanError(f"a pattern of LIKE has at most {_PATTERN_LENGTH} characters, not {len(pattern)}")
    if escape:
        for mark in re.findall(re.escape(escape) + r"(.?)", pattern, re.DOTALL):
            if mark not in ("%", "_", escape):
                raise PlanError(
                    f"the ESCAPE character {escape!r} is "
                    + (f"before {mark!r}" if mark else "at the end of the pattern"),
                    hint=f"use it only before %, _ and itself: write {escape}{escape} for the character",
                )
    return Expr("like", "bool", args, escape)


def _boolean(symbol: str, arg: Expr) -> Expr:
    if arg.type not in ("bool", "null"):
        raise PlanError(f"{symbol} needs a condition, not a value of type {arg.type}")
    return cast(arg, "bool")


def _arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    symbol = ARITHMETIC[op]
    if {left.type, right.type} & set(INTERVALS) or (op == "sub" and {left.type, right.type} <= set(MOMENTS)):
        return _of_lengths(op, left, right)
    if op in ("add", "sub") and left.type == "date" and right.type in INTEGERS:
        return apply("date_add" if op == "add" else "date_sub", (left, right))
    if op == "add" and right.type == "date" and left.type in INTEGERS:
        return apply("date_add", (right, left))
    if not (numeric(left.type) and numeric(right.type)):
        raise PlanError(f"{symbol} needs numbers, not {left.type} and {right.type}")
    if left.type == "null":
        left = cast(left, "float64" if right.type == "null" else right.type)
    if right.type == "null":
        right = cast(right, left.type)
    types = (left.type, right.type)
    if "float64" in types or (op == "div" and all(type_ in INTEGERS for type_ in types)):
        return Expr(op, "float64", (cast(left, "float64"), cast(right, "float64")))
    if all(type_ in INTEGERS for type_ in types):
        type_ = "int64" if "int64" in types else "int32"
        return Expr(op, type_, (cast(left, type_), cast(right, type_)))
    (p, s), (q, t) = places(left), places(right)
    precision, scale = decimal_result(op, (p, s), (q, t))
    needed = {"div": p - s + t + scale, "mod": max(p - s, q - t) + max(s, t)}.get(op, 0)
    if needed > QUOTIENT_DIGITS:
        raise PlanError(
            f"{left.type} {symbol} {right.type} needs {needed} digits for an intermediate result, more than "
            f"{QUOTIENT_DIGITS}",
            hint="cast both sides to decimals with fewer digits",
        )
    return Expr(op, named(precision, scale), (left, right))


def _of_lengths(op: str, left: Expr, right: Expr) -> Expr:
    """Returns arithmetic of intervals, or the interval between two moments."""
    if op == "sub" and {left.type, right.type} <= set(MOMENTS):
        type_ = comparable(left.type, right.type) or left.type
        type_ = "timestamp_ntz" if type_ == "date" else type_
        return Expr(op, "duration", (cast(left, type_), cast(right, type_)))
    if op == "mul" and right.type in INTERVALS:
        left, right = right, left
    if op in ("mul", "div") and left.type in INTERVALS and numeric(right.type):
        return Expr(op, left.type, (left, cast(right, "int32") if right.type == "null" else right))
    if op == "add" and right.type in MOMENTS:
        left, right = right, left
    if op in ("add", "sub") and left.type in MOMENTS and right.type in INTERVALS:
        moment = cast(left, "timestamp") if (left.type, right.type) == ("date", "duration") else left
        return Expr(op, moment.type, (moment, right))
    if op in ("add", "sub") and (left.type == right.type or "null" in (left.type, right.type)):
        type_ = right.type if left.type == "null" else left.type
        return Expr(op, type_, (cast(left, type_), cast(right, type_)))
    both = {left.type, right.type} == set(INTERVALS)
    hint = "a month has no fixed length: add both to a date or a timestamp" if both else "use CAST"
    raise PlanError(f"{left.type} {ARITHMETIC[op]} {right.type} is not possible", hint=hint)


def units(length: Expr) -> Expr:
    """Returns an interval as the integer number of its units, microseconds or months."""
    return call("months_of" if length.type == "months" else "micros_of", length)


def of_units(count: Expr, type_: str) -> Expr:
    """Returns the interval of a number of units, or NULL if it does not fit."""
    return call("of_micros", count) if type_ == "duration" else call("of_months", cast(count, "int32"))


def as_span(value: Expr, name: str) -> Expr:
    """Returns a value as INTERVAL DAY TO HOUR or similar, truncated to the last unit. Raises PlanError for a text,
    unless the name has all units."""
    type_ = normal_type(name) if value.type in INTERVALS else whole_span(name)
    found, least = cast(value, type_), _LAST.get(name.lower().rpartition(" ")[2])
    if least is None:
        return found
    count = units(found)
    return of_units(call("sub", count, call("mod", count, lit(least, count.type))), type_)


_LAST = {"year": 12, "day": durations.DAY, "hour": durations.HOUR, "minute": durations.MINUTE}


def mean(type_: str, total: Expr, count: Expr) -> Expr:
    """Returns the mean of decimals or intervals: their sum divided by their number, rounded once; NULL if there are
    none."""
    if type_ in INTERVALS:
        return call("div", total, count)
    return Expr("div", mean_type(type_), (total, count))


def places(arg: Expr) -> tuple[int, int]:
    """Returns precision and scale of an operand next to a decimal. An integer literal has as many digits as it is
    written with."""
    if arg.op == "literal" and arg.value is not None and arg.type in INTEGERS:
        return literals.digits(arg.value)
    return as_decimal(arg.type)


def _of_arrays(op: str, args: tuple[Expr, ...]) -> Expr:
    """Returns CONCAT of arrays, to which PostgreSQL's || also adds single elements, or CONCAT_WS of texts and arrays of
    texts, which skips NULLs."""
    if op == "concat":
        inner = next(filter(None, (element_of(arg.type) for arg in args)), "")
        alone = [arg.type != "null" and common(inner, arg.type) == inner for arg in args]
        arrays = [call("array", cast(arg, inner)) if one else arg for arg, one in zip(args, alone, strict=True)]
        return apply("flatten", (call("array", *arrays),))
    mark, *parts = args
    arrays = [call("coalesce", one, call("array")) if is_nested(one.type) else call("array", one) for one in parts]
    return call("array_join", call("flatten", call("array", *arrays)), mark)


def _entries(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Returns alternating keys and values, cast to the common type of all keys and to that of all values."""
    made = list(args)
    for side in (0, 1):
        type_: str | None = "null"
        for arg in args[side::2]:
            type_ = common(type_, arg.type) if type_ is not None else None
        if type_ is not None:
            made[side::2] = [cast(arg, type_) for arg in args[side::2]]
    return tuple(made)


def _case(args: tuple[Expr, ...]) -> Expr:
    """Returns CASE of `args`: condition, value, condition, value, ..., default."""
    type_ = agreed((*args[1:-1:2], args[-1]), "CASE has branches")
    conditions = [_boolean("WHEN", arg) for arg in args[:-1:2]]
    values = [cast(arg, type_) for arg in args[1:-1:2]]
    pairs = [part for pair in zip(conditions, values, strict=True) for part in pair]
    return Expr("case", type_, (*pairs, cast(args[-1], type_)))
