"""Names for what DuckDB does otherwise than Spark: lists that are NULL, bits, texts of numbers and addresses."""

from __future__ import annotations

from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.coercion import INTEGERS
from plans.expressions.functions.function import macro
from plans.expressions.macros.texts import formatted


def _flatten(array: Expr) -> Expr:
    return call("flatten", call("array_compact", array))


def _bits(number: Expr) -> Expr:
    widths = {"int8": 0xFF, "int16": 0xFFFF, "int32": 0xFFFF_FFFF}
    if number.type not in widths:
        return call("bit_count", number)
    return call("bit_count", call("bit_and", cast(number, "int64"), lit(widths[number.type], "int64")))


def _printed(pattern: Expr, *given: Expr) -> Expr:
    wide = [cast(one, "int64") if one.type in INTEGERS else one for one in given]
    missing = [call("isnull", one) for one in (pattern, *given)]
    found = formatted(pattern, *wide)
    return call("case", call("or", *missing) if len(missing) > 1 else missing[0], NULL, found)


def _encoded(text: Expr) -> Expr:
    found = call("url_encode", text)
    for sign, code in (("+", "%20"), ("%7E", "~"), ("*", "%2A")):
        found = call("replace", found, lit(sign), lit(code))
    return found


def _decoded(text: Expr) -> Expr:
    return call("url_decode", call("replace", text, lit("+"), lit("%2B")))


def _elements(text: Expr) -> Expr:
    known = call("not", call("isnull", call("get_json_object", text, lit("$"))))
    return call("coalesce", call("json_array_length", text), call("case", known, lit(0), NULL))


TABLE = (
    macro("list_flatten", "any", _flatten, note="DuckDB's FLATTEN: a NULL among the lists has no elements."),
    macro("own_bit_count", "integer", _bits, note="DuckDB's BIT_COUNT: of the bits that the type has."),
    macro("long_printf", "any [any] ...", _printed, note="DuckDB's PRINTF: whole numbers have 64 bits."),
    macro("percent_encode", "string", _encoded, note="DuckDB's URL_ENCODE: `%20` is a space."),
    macro("percent_decode", "string", _decoded, note="DuckDB's URL_DECODE: `+` is a plus."),
    macro("json_elements", "string", _elements, note="DuckDB's JSON_ARRAY_LENGTH: 0 of what is no array."),
)
