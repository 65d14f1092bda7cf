"""Calls of the functions of the table: checks the number and types of arguments, and determines the result type."""

from __future__ import annotations

from plans.errors import PlanError
from plans.expressions.coercion import INTEGERS, check_ordered, numeric
from plans.expressions.expr import Expr
from plans.expressions.functions.function import constant
from plans.expressions.functions.table import FUNCTIONS
from plans.expressions.leaf import agreed, cast, lit
from plans.nested import ARRAY, STRUCT, is_nested, parts
from plans.types import MOMENTS, decimal_parts, without_lengths

_LEFT_ALONE = {
    "moment": ("timestamp", "timestamp_ntz"),
    "calendar": MOMENTS,
    "bytes": ("string", "binary"),
    "bits": ("string", "binary", *INTEGERS),
    "integer": INTEGERS,
}
_MADE = {
    "number": "float64", "moment": "timestamp", "calendar": "date", "bytes": "string", "bits": "string",
    "integer": "int64",
}  # fmt: skip
_NEEDED = {
    "moment": "timestamp",
    "calendar": "date",
    "bytes": "string",
    "bits": "string",
    "binary": "string or binary",
    "integer": "whole number",
    "int32": "whole number",
    "int64": "whole number",
    "float64": "number",
}
_TIMES = (*MOMENTS, "string")
_IMPLICIT = {  # implicit casts of Spark
    "string": ("string", "bool", *INTEGERS, "float64", *MOMENTS),
    "int32": (*INTEGERS, "string"),
    "int64": (*INTEGERS, "string"),
    "float64": (*INTEGERS, "float64", "string"),
    "bool": ("bool",),
    "binary": ("string", "binary"),
    "date": _TIMES,
    "timestamp": _TIMES,
    "duration": ("duration",),
    "months": ("months",),
}
_TITLES = {
    "plus_months": "INTERVAL", "plus_micros": "INTERVAL", "second_fraction": "EXTRACT", "intdiv": "DIV", "neg": "-",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "bit_not": "~", "yearofweek": "EXTRACT", "dayofweek_iso": "EXTRACT",
    "get_field": ".", "with_places": "POSEXPLODE", "outer": "EXPLODE",
    "sequence_by": "SEQUENCE", "sorted_array": "ARRAY_SORT", "format_piece": "FORMAT_STRING", "masked": "MASK",
    "read_timestamp": "TO_TIMESTAMP", "read_seconds": "UNIX_TIMESTAMP",
}  # fmt: skip


def apply(name: str, args: tuple[Expr, ...]) -> Expr:
    """Returns the call of a function of the table. Raises PlanError if the arguments do not fit."""
    function = FUNCTIONS[name]
    kinds = function.kinds(len(args))
    if kinds is None:
        count = function.counts
        raise PlanError(f"{_title(name)} takes {count} argument{'' if count == '1' else 's'}, not {len(args)}")
    if kinds[:1] == ("same",) or not kinds:
        type_ = agreed(args, f"{_title(name)} has arguments")
        if name in ("greatest", "least"):
            check_ordered(type_, name.upper())
        type_ = "int32" if type_ == "null" and name != "coalesce" and args else type_
        gives = type_ if isinstance(function.gives, str) else function.gives([type_], [])
        gives = without_lengths(gives)
        return Expr(name, gives, tuple(cast(arg, type_) for arg in args))
    args = tuple(fitted(name, arg, kind) for arg, kind in zip(args, kinds, strict=True))
    args = tuple(_of_element(arg, args[0].type, kind) for arg, kind in zip(args, kinds, strict=True))
    constants = [arg.value if arg.op == "literal" else None for arg in args]
    result = function.gives
    if not isinstance(result, str):
        result = result([arg.type for arg in args], constants)
    result = without_lengths(result)
    if any(constant(kind) and value is None for kind, value in zip(kinds, constants, strict=True)):
        return Expr("literal", result)
    return Expr(name, result, args)


def fitted(name: str, arg: Expr, kind: str) -> Expr:
    """Returns an argument in the form that a function takes; see `Function.takes`."""
    wanted = "string" if kind == "unit" else kind.removeprefix("=")
    if constant(kind) and arg.op != "literal":
        hint = _OF_COLUMNS.get(name, "write the value itself")
        raise PlanError(f"{_title(name)} needs a constant instead of {arg}", hint=hint)
    if (
        wanted in _ANY
        or arg.type in _LEFT_ALONE.get(wanted, ())
        or (wanted == "number" and arg.type != "null" and numeric(arg.type))
    ):
        return arg
    target = "int32" if (wanted, arg.type) == ("integer", "null") else _MADE.get(wanted, wanted)
    decimal = decimal_parts(arg.type) is not None
    if decimal_parts(target) is not None:
        fits = decimal or arg.type in _IMPLICIT["float64"]
    else:
        fits = arg.type in _IMPLICIT[target] or (decimal and target in ("float64", "string"))
    if arg.type != "null" and not fits:
        needed = _NEEDED.get(wanted, wanted)
        hint = f"read one of its fields: {arg}.name" if arg.type.startswith("struct<") else "use CAST"
        raise PlanError(f"{_title(name)} needs a {needed}, not {arg.type}", hint=hint)
    made = cast(arg, target)
    if constant(kind) and made.op == "cast":  # a number in place of text
        return lit(made.evaluate({}, 1)[0].as_py(), target)
    return made


_OF_COLUMNS = dict.fromkeys(("get_json_object", "json_query"), "write FROM_JSON(js, 'MAP<STRING, STRING>')[key]")
"""What to write instead of a function whose argument would be a column."""
_ANY = ("any", "element", "key")


def _of_element(arg: Expr, collection: str, kind: str) -> Expr:
    """Returns an argument that is an element of an array, or a key of a map, in the type of those of the first
    argument."""
    made = parts(collection) if kind in _ANY[1:] and is_nested(collection) else None
    if made is None or made.kind == STRUCT:
        return arg
    return cast(arg, "int32" if made.kind == ARRAY and kind == "key" else made.types[0])


def _title(name: str) -> str:
    """Returns the name of a function in errors."""
    return _TITLES.get(name, name.upper())
