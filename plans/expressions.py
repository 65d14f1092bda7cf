"""Scalar expressions: typed, immutable, JSON-able, evaluated on whole Arrow columns.

`Expr(op, type, args, value)` is a tree (`plans.expr`). Leaves are columns (`value` is the name) and literals (`value`
is a Python value of the type). Everything else is built by `call`, which checks the types, inserts the casts and knows
SQL's three-valued logic. `str(expr)` is SQL that DuckDB and Spark read alike; `evaluate` uses pyarrow.compute only
(`plans.evaluate`).

Where the two databases differ, the planner takes a side that never stops a stream: overflow and division by zero give
NULL, NaN equals NaN and is the largest number, integer `/` is division of doubles.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Sequence
from typing import Any

from plans.errors import PlanError
from plans.expr import Expr
from plans.schema import decimal_parts

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "nseq": "IS NOT DISTINCT FROM"}
MIRROR = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "nseq": "nseq"}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
FUNCTIONS = {"abs", "lower", "upper", "length", "year", "month", "day", "coalesce", "concat", "substring"}
_INTEGERS = ("int32", "int64")


def col(name: str, type_: str) -> Expr:
    """A column."""
    return Expr("col", type_, (), name)


def lit(value: Any, type_: str | None = None) -> Expr:
    """A literal; the type follows from the Python value unless given."""
    if type_ is None:
        type_ = _literal_type(value)
    return Expr("literal", type_, (), value)


NULL = Expr("literal", "null")
TRUE = Expr("literal", "bool", (), True)


def conjoin(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of conditions, flattened and without repetitions; a single one is left as it is."""
    if len(conditions) == 1:
        return conditions[0]
    parts = list(dict.fromkeys(part for condition in conditions for part in condition.conjuncts()))
    return parts[0] if len(parts) == 1 else call("and", *parts)


def call(op: str, *args: Expr, value: Any = None) -> Expr:
    """Apply an operator: checks types, inserts casts. PlanError when the operands do not fit."""
    if op in COMPARISONS:
        left, right = _aligned(COMPARISONS[op], *args)
        return Expr(op, "bool", (left, right))
    if op in ARITHMETIC:
        return _arithmetic(op, *args)
    if op in ("and", "or", "not"):
        return Expr(op, "bool", tuple(_boolean(op.upper(), arg) for arg in args))
    if op == "isnull":
        return Expr(op, "bool", args)
    if op == "in":
        aligned = [_aligned("IN", args[0], item) for item in args[1:]]
        if any(pair[0] != args[0] for pair in aligned) or any(pair[1].op != "literal" for pair in aligned):
            return call("or", *(call("eq", args[0], item) for item in args[1:]))
        return Expr(op, "bool", (args[0], *(pair[1] for pair in aligned)))
    if op == "like":
        if args[0].type not in ("string", "null"):
            raise PlanError(f"LIKE needs a string on its left, not {args[0].type}")
        return Expr(op, "bool", args, value)
    if op == "neg":
        if not _numeric(args[0].type):
            raise PlanError(f"- needs a number, not {args[0].type}")
        wide = cast(args[0], "int64") if args[0].type in ("int32", "null") else args[0]
        return Expr(op, wide.type, (wide,))
    if op == "case":
        return _case(args)
    if op in FUNCTIONS:
        return _function(op, args)
    raise PlanError(f"operator {op!r} is not supported")


def cast(arg: Expr, type_: str) -> Expr:
    """Convert to a type where every database agrees on the result; PlanError otherwise."""
    if arg.type == type_:
        return arg
    if arg.op == "literal" and arg.value is None:
        return Expr("literal", type_)
    if arg.op == "literal":
        folded = _fold_cast(arg, type_)
        if folded is not None:
            return folded
    source = arg.type
    numeric = _numeric(source) and (
        type_ == "float64"
        or (source in _INTEGERS and type_ in _INTEGERS)
        or (source != "float64" and decimal_parts(type_) is not None and _holds(type_, source))
    )
    text = type_ == "string" and (source in ("bool", "date") or source in _INTEGERS)
    days = {source, type_} == {"date", "timestamp_ntz"}
    if numeric or text or days:
        return Expr("cast", type_, (arg,))
    raise PlanError(
        f"a cast from {source} to {type_} is not supported",
        hint="databases differ in this conversion; convert the column before it enters the stream",
    )


def comparable(left: str, right: str) -> str | None:
    """The type in which two types are compared; None if they are not comparable."""
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    if _numeric(left) and _numeric(right):
        return _wider(left, right)
    if {left, right} == {"date", "timestamp_ntz"}:
        return "timestamp_ntz"
    return None


def _aligned(symbol: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    for one, other in ((left, right), (right, left)):
        if one.op == "literal" and one.type == "string" and other.type not in ("string", "null"):
            folded = _fold_cast(one, other.type)
            if folded is None:
                raise PlanError(f"{one.value!r} is not a value of type {other.type}, to which it is compared")
            return (folded, other) if one is left else (other, folded)
    type_ = comparable(left.type, right.type)
    if type_ is None:
        raise PlanError(
            f"{symbol} compares {left.type} with {right.type}", hint="both sides must have the same type; use CAST"
        )
    return cast(left, type_), cast(right, type_)


def _boolean(symbol: str, arg: Expr) -> Expr:
    if arg.type not in ("bool", "null"):
        raise PlanError(f"{symbol} needs a condition, not a value of type {arg.type}")
    return arg


def _numeric(type_: str) -> bool:
    return type_ in ("int32", "int64", "float64", "null") or decimal_parts(type_) is not None


def _as_decimal(type_: str) -> tuple[int, int]:
    return decimal_parts(type_) or {"int32": (10, 0), "int64": (19, 0)}[type_]


def _holds(wide: str, narrow: str) -> bool:
    (p, s), (q, t) = _as_decimal(wide), _as_decimal(narrow)
    return s >= t and p - s >= q - t


def _wider(left: str, right: str) -> str:
    if "float64" in (left, right):
        return "float64"
    if left in _INTEGERS and right in _INTEGERS:
        return "int64" if "int64" in (left, right) else "int32"
    (p, s), (q, t) = _as_decimal(left), _as_decimal(right)
    scale = max(s, t)
    return f"decimal({min(38, max(p - s, q - t) + scale)},{scale})"


def _arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    symbol = ARITHMETIC[op]
    if not (_numeric(left.type) and _numeric(right.type)):
        raise PlanError(f"{symbol} needs numbers, not {left.type} and {right.type}")
    left, right = (cast(arg, "int64") if arg.type == "null" else arg for arg in (left, right))
    if op == "div":
        return Expr(op, "float64", (cast(left, "float64"), cast(right, "float64")))
    type_ = _wider(left.type, right.type)
    if type_ == "int32":
        type_ = "int64"
    if decimal_parts(type_) is None:
        return Expr(op, type_, (cast(left, type_), cast(right, type_)))
    (p, s), (q, t) = _as_decimal(left.type), _as_decimal(right.type)
    if op == "mul":
        precision, scale = p + q + 1, s + t
    elif op == "mod":
        raise PlanError("% is not supported on decimals", hint="cast both sides to double")
    else:
        scale = max(s, t)
        precision = max(p - s, q - t) + scale + 1
    if precision > 38:
        raise PlanError(f"{left.type} {symbol} {right.type} needs {precision} digits", hint="cast one side to double")
    return Expr(op, f"decimal({precision},{scale})", (left, right))


def _case(args: tuple[Expr, ...]) -> Expr:
    """`args` = condition, value, condition, value, ..., default."""
    type_ = "null"
    for branch in (*args[1:-1:2], args[-1]):
        common = comparable(type_, branch.type)
        if common is None:
            raise PlanError(f"CASE has branches of type {type_} and {branch.type}", hint="cast them to one type")
        type_ = common
    conditions = [_boolean("WHEN", arg) for arg in args[:-1:2]]
    values = [cast(arg, type_) for arg in args[1:-1:2]]
    pairs = [part for pair in zip(conditions, values, strict=True) for part in pair]
    return Expr("case", type_, (*pairs, cast(args[-1], type_)))


def _function(name: str, args: tuple[Expr, ...]) -> Expr:
    if name == "coalesce":
        type_ = "null"
        for arg in args:
            common = comparable(type_, arg.type)
            if common is None:
                raise PlanError(f"COALESCE has arguments of type {type_} and {arg.type}")
            type_ = common
        return Expr(name, type_, tuple(cast(arg, type_) for arg in args))
    wanted, result = {
        "lower": ("string", "string"),
        "upper": ("string", "string"),
        "length": ("string", "int64"),
        "concat": ("string", "string"),
        "substring": ("string", "string"),
        "year": ("date", "int64"),
        "month": ("date", "int64"),
        "day": ("date", "int64"),
        "abs": ("number", ""),
    }[name]
    kind = "int64" if wanted == "number" else wanted
    args = tuple(cast(arg, kind) if arg.type == "null" else arg for arg in args)
    checked = args if name == "concat" else args[:1]
    for arg in checked:
        fits = (
            _numeric(arg.type)
            if wanted == "number"
            else arg.type == wanted or (wanted == "date" and arg.type == "timestamp_ntz")
        )
        if not fits:
            raise PlanError(f"{name.upper()} needs a {wanted}, not {arg.type}")
    if name == "substring" and any(arg.op != "literal" or arg.type not in _INTEGERS for arg in args[1:]):
        raise PlanError("SUBSTRING needs whole numbers for its start and length")
    if name == "substring" and (args[1].value < 1 or (len(args) > 2 and args[2].value < 0)):
        raise PlanError("SUBSTRING counts from 1 and needs a length of at least 0")
    if name == "abs" and args[0].type == "int32":
        return Expr(name, "int64", (cast(args[0], "int64"),))
    return Expr(name, result or args[0].type, args)


def _literal_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise PlanError(f"{value} does not fit a 64-bit integer")
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, dt.datetime):
        return "timestamp" if value.tzinfo else "timestamp_ntz"
    if isinstance(value, dt.date):
        return "date"
    if isinstance(value, decimal.Decimal):
        digits, exponent = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
        return f"decimal({max(digits, exponent)},{max(exponent, 0)})"
    raise PlanError(f"a literal of type {type(value).__name__} is not supported")


_INTEGER_TEXT = re.compile(r"\s*[+-]?\d+\s*")


def _fold_cast(arg: Expr, type_: str) -> Expr | None:
    """The literal in another type, if it is a value of that type."""
    value = arg.value
    try:
        if arg.type == "string":
            return lit(_parse(value, type_), type_)
        if type_ in _INTEGERS and arg.type in _INTEGERS:
            bits = 31 if type_ == "int32" else 63
            return lit(value, type_) if -(2**bits) <= value < 2**bits else None
        if type_ == "float64" and _numeric(arg.type):
            return lit(float(value), type_)
        parts = decimal_parts(type_)
        if parts is not None and (arg.type in _INTEGERS or decimal_parts(arg.type)):
            exact = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-parts[1]))
            return lit(exact, type_) if exact == value and len(exact.as_tuple().digits) <= parts[0] else None
        if type_ == "timestamp_ntz" and arg.type == "date":
            return lit(dt.datetime(value.year, value.month, value.day), type_)
    except (ValueError, decimal.InvalidOperation):
        return None
    return None


def _parse(text: str, type_: str) -> Any:
    if type_ == "date":
        return dt.date.fromisoformat(text.strip())
    if type_ == "timestamp_ntz":
        return dt.datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    if type_ == "timestamp":
        moment = dt.datetime.fromisoformat(text.strip())
        return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    if type_ in _INTEGERS and _INTEGER_TEXT.fullmatch(text):
        number = int(text)
        bits = 31 if type_ == "int32" else 63
        if -(2**bits) <= number < 2**bits:
            return number
    if type_ == "float64":
        return float(text)
    parts = decimal_parts(type_)
    if parts is not None:
        given = decimal.Decimal(text.strip())
        exact = given.quantize(decimal.Decimal(1).scaleb(-parts[1]))
        if exact == given and len(exact.as_tuple().digits) <= parts[0]:
            return exact
    if type_ == "bool" and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if type_ == "string":
        return text
    raise ValueError(text)
