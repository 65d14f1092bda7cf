"""Macros for functions of other systems, mainly DuckDB, that combine functions of Spark."""

from __future__ import annotations

from functools import partial

from plans.errors import PlanError
from plans.expressions.build import FALSE, NULL, TRUE, Expr, call, cast, col, lit, typed
from plans.expressions.coercion import INTEGERS
from plans.expressions.functions.clock.spans import MICROS
from plans.expressions.functions.function import Macro, macro, place
from plans.expressions.macros.lists import sliced
from plans.expressions.macros.times import decade, of_year, part_of
from plans.nested import array_of, element_of


def _extracted(value: Expr, key: Expr) -> Expr:
    if value.type == "string":
        plain = key.op == "literal" and key.value != 0
        return call("substring", value, key, lit(1)) if plain else sliced(value, key, key)
    return call("element_at", value, key)


def _entries_at(entries: Expr, key: Expr) -> Expr:
    found = call("array", call("element_at", entries, key))
    there = call("array_contains", call("map_keys", entries), key)
    return call("case", there, found, call("slice", found, lit(1), lit(0)))


def _has_any(array: Expr, others: Expr) -> Expr:
    found = call("coalesce", call("arrays_overlap", array, others), FALSE)
    return call("case", call("or", call("isnull", array), call("isnull", others)), NULL, found)


def _has_all(array: Expr, others: Expr) -> Expr:
    return call("eq", call("size", call("array_except", call("array_compact", others), array)), lit(0))


def _contains(array: Expr, element: Expr) -> Expr:
    found = call("coalesce", call("array_contains", array, element), FALSE)
    unknown = call("and", call("isnull", element), call("gt", call("size", array), lit(0)))
    return call("case", call("or", call("isnull", array), unknown), NULL, found)


def _position(array: Expr, element: Expr) -> Expr:
    found = call("array_position", array, element)
    inner = element_of(array.type) or "null"
    missing = typed(Expr("transform", array_of("bool"), (array,), call("isnull", col(place(0), inner))))
    found = call("case", call("isnull", element), call("array_position", missing, TRUE), found)
    return call("case", call("gt", found, lit(0)), found, NULL)


def _different(array: Expr) -> Expr:
    return call("array_distinct", call("array_compact", array))


def _shared(array: Expr, others: Expr) -> Expr:
    found = call("array_compact", call("array_intersect", array, others))
    return call("coalesce", found, call("slice", array, lit(1), lit(0)))


def _year_week(value: Expr) -> Expr:
    return call("add", call("mul", call("yearofweek", value), lit(100)), call("weekofyear", value))


def _millis(value: Expr) -> Expr:
    if value.type in INTEGERS:
        return cast(call("timestamp_millis", value), "timestamp_ntz")
    micros = call("unix_micros", cast(value, "timestamp"))
    half = call("case", call("lt", micros, lit(0)), lit(-500), lit(500))
    return call("intdiv", call("add", micros, half), lit(1_000))


def _infinite(value: Expr) -> Expr:
    return call("eq", call("abs", cast(value, "float64")), lit(float("inf")))


def _finite(value: Expr) -> Expr:
    return call("not", call("or", _infinite(value), call("isnan", cast(value, "float64"))))


def _length_of(name: str, unit: str, factor: int = 1) -> Macro:
    size = MICROS[unit] * factor

    def made(count: Expr) -> Expr:
        return call("of_micros", call("mul", cast(_whole(name, count), "int64"), lit(size, "int64")))

    return macro(name, "any", made)


def _whole(name: str, count: Expr) -> Expr:
    if count.type not in (*INTEGERS, "null"):
        raise PlanError(f"{name.upper()} takes a whole number, not {count.type}", hint="use CAST, or a smaller unit")
    return count


def _fraction_of(name: str, size: int) -> Macro:
    def made(count: Expr) -> Expr:
        if count.type in INTEGERS:
            return call("of_micros", call("mul", cast(count, "int64"), lit(size, "int64")))
        micros = call("round", call("mul", cast(count, "float64"), lit(float(size))))
        return call("of_micros", cast(micros, "int64"))

    return macro(name, "number", made, note="Also fractions of a unit.")


def _months(name: str, factor: int) -> Macro:
    def made(count: Expr) -> Expr:
        return call("of_months", call("mul", cast(_whole(name, count), "int32"), lit(factor)))

    return macro(name, "any", made)


_FAR = "a result that does not fit a BIGINT"
_LENGTHS = {
    "to_days": ("day", 1), "to_weeks": ("day", 7), "to_hours": ("hour", 1), "to_minutes": ("minute", 1),
    "to_microseconds": ("microsecond", 1),
}  # fmt: skip
TABLE = (
    *(macro(name, "any key", _extracted) for name in ("list_extract", "list_element", "array_extract")),
    macro("map_extract", "any key", _entries_at, note="DuckDB's ELEMENT_AT of a map: an array of the value."),
    macro("map_extract_value", "any key", partial(call, "element_at")),
    macro("list_position", "any element", _position, also=("list_indexof", "array_indexof"),
          note="NULL if the element is not found. NULL finds the first NULL."),
    macro("list_contains", "any element", _contains, note="NULL elements are ignored."),
    macro("list_has_any", "any any", _has_any, also=("array_has_any",), note="NULL elements are ignored."),
    macro("list_has_all", "any any", _has_all, also=("array_has_all",),
          note="Whether the first array has all elements of the second, except NULL."),
    macro("list_distinct", "any", _different, note="Without NULLs."),
    macro("list_intersect", "any any", _shared, note="Without NULLs; a NULL array has no elements."),
    macro("list_unique", "any", lambda array: call("size", _different(array)), also=("array_unique",),
          note="The number of distinct elements without NULLs."),
    macro("strlen", "string", partial(call, "octet_length")),
    macro("prefix", "string string", partial(call, "startswith")),
    macro("suffix", "string string", partial(call, "endswith")),
    macro("ord", "string", lambda text: call("case", call("eq", text, lit("")), lit(-1), call("ascii", text)),
          note="-1 for the empty text."),
    macro("round_even", "number =int32", partial(call, "bround")),
    macro("roundbankers", "number =int32", partial(call, "bround")),
    macro("isoyear", "calendar", partial(call, "yearofweek")),
    macro("week", "calendar", partial(call, "weekofyear")),
    macro("epoch", "any", lambda value: part_of("epoch", value),
          note="Seconds since 1970, or the seconds of an INTERVAL, as a DOUBLE."),
    macro("epoch_ms", "any", _millis,
          note="Milliseconds since 1970, rounded; for a whole number of milliseconds, the timestamp."),
    macro("epoch_ns", "timestamp", lambda value: call("mul", call("unix_micros", value), lit(1_000)), null=_FAR),
    macro("epoch_us", "timestamp", partial(call, "unix_micros")),
    macro("make_timestamp_ms", "int64", partial(call, "timestamp_millis")),
    macro("isinf", "any", _infinite),
    macro("isfinite", "any", _finite),
    macro("century", "calendar", of_year(100)),
    macro("millennium", "calendar", of_year(1_000)),
    macro("decade", "calendar", decade),
    macro("yearweek", "calendar", _year_week, note="`202401`: the ISO year and week."),
    *(_length_of(name, unit, factor) for name, (unit, factor) in _LENGTHS.items()),
    _fraction_of("to_seconds", MICROS["second"]),
    _fraction_of("to_milliseconds", 1_000),
    *(_months(name, factor) for name, factor in (("to_months", 1), ("to_quarters", 3), ("to_years", 12))),
)  # fmt: skip
