"""Names for what DuckDB does otherwise than Spark: lists that are NULL, maps that share keys, bits, parts of texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, lit, typed
from plans.expressions.coercion import INTEGERS, common
from plans.expressions.functions.function import macro, place
from plans.expressions.macros.texts import formatted
from plans.nested import MAP, element_of, is_nested, parts


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


def _names(text: Expr) -> Expr:
    none = call("slice", call("array", lit("")), lit(1), lit(0))
    known = call("not", call("isnull", call("get_json_object", text, lit("$"))))
    return call("coalesce", call("json_object_keys", text), call("case", known, none, NULL))


def _exists(text: Expr, path: Expr) -> Expr:
    found = call("not", call("isnull", call("json_query", text, path)))
    return call("case", call("isnull", text), NULL, found)


def _side(name: str) -> Callable[[Expr, Expr], Expr]:
    """Returns LEFT or RIGHT: below 0, of all characters but so many."""

    def made(text: Expr, count: Expr) -> Expr:
        if count.op == "literal" and isinstance(count.value, int) and count.value >= 0:
            return call(name, text, count)
        but = call("greatest", call("add", call("length", text), count), lit(0))
        return call(name, text, cast(call("case", call("lt", count, lit(0)), but, count), "int32"))

    return made


_WHOLE = 2.0**53
"""Doubles from here on are whole numbers."""


def of_doubles(name: str, number: Expr) -> Expr:
    """Returns CEIL, FLOOR or TRUNC, which make a DOUBLE of a DOUBLE."""
    whole = cast(number, "int64") if name == "trunc" else call(name, number)
    if number.type != "float64":
        return whole
    return call("case", call("ge", call("abs", number), lit(_WHOLE)), number, cast(whole, "float64"))  # or NaN


def _merged(*maps: Expr) -> Expr:
    """Returns the entries of all maps: of a key in several, that of the last one. NULL has no entries."""
    given, type_ = [one for one in maps if one.type != "null"], "null"
    for one in given:
        made, both = parts(one.type) if is_nested(one.type) else None, common(type_, one.type)
        if made is None or made.kind != MAP or both is None:
            kinds = ", ".join(one.type for one in maps)
            raise PlanError(f"MAP_CONCAT needs maps of one type, not {kinds}", hint="use CAST")
        type_ = both
    return reduce(_over, (cast(one, type_) for one in given)) if given else NULL


def _over(left: Expr, right: Expr) -> Expr:
    keys = call("map_keys", right)
    key = element_of(keys.type) or "null"
    here = call("not", call("array_contains", col(place(2), keys.type), col(place(0), key)))
    rest = typed(Expr("map_filter", left.type, (left, keys), here))
    return call("coalesce", call("map_concat", rest, right), left, right)


def _full(pattern: str) -> Callable[[Expr], Expr]:
    return lambda moment: call("date_format", cast(moment, "timestamp"), lit(pattern))


TABLE = (
    macro("list_flatten", "any", _flatten, note="DuckDB's FLATTEN: a NULL among the lists has no elements."),
    macro("own_bit_count", "integer", _bits, note="DuckDB's BIT_COUNT: of the bits that the type has."),
    macro("long_printf", "any [any] ...", _printed, note="DuckDB's PRINTF: whole numbers have 64 bits."),
    macro("percent_encode", "string", _encoded, note="DuckDB's URL_ENCODE: `%20` is a space."),
    macro("percent_decode", "string", _decoded, note="DuckDB's URL_DECODE: `+` is a plus."),
    macro("json_elements", "string", _elements, note="DuckDB's JSON_ARRAY_LENGTH: 0 of what is no array."),
    macro("json_names", "string", _names, note="DuckDB's JSON_KEYS: no elements of what is no object."),
    macro("json_exists", "string =string", _exists, note="Whether something stands at the path, null too."),
    macro("signed_left", "string integer", _side("left"), note="DuckDB's LEFT: below 0, all characters but so many."),
    macro("signed_right", "string integer", _side("right"), note="DuckDB's RIGHT: as SIGNED_LEFT."),
    macro("double_ceil", "number", partial(of_doubles, "ceil"), note="CEIL elsewhere: a DOUBLE of a DOUBLE."),
    macro("double_floor", "number", partial(of_doubles, "floor"), note="FLOOR elsewhere: a DOUBLE of a DOUBLE."),
    macro("map_merge", "any ...", _merged, note="DuckDB's MAP_CONCAT: of a key in several maps, the last value."),
    macro("full_dayname", "calendar", _full("EEEE"), note="DAYNAME of DuckDB and MySQL: in full."),
    macro("full_monthname", "calendar", _full("MMMM"), note="MONTHNAME of DuckDB and MySQL: in full."),
)  # fmt: skip
