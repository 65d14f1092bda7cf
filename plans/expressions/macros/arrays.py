"""Macros over functions of arrays and maps."""

from __future__ import annotations

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.coercion import INTEGERS, common
from plans.expressions.functions.clock.spans import MICROS
from plans.expressions.functions.function import macro
from plans.nested import element_of
from plans.types import MOMENTS

_ONE_DAY = MICROS["day"]


def _sequence(start: Expr, stop: Expr, step: Expr | None = None) -> Expr:
    type_ = common(start.type, stop.type)
    if type_ is not None and type_ != "null":
        start, stop = cast(start, type_), cast(stop, type_)
    lengths = type_ in MOMENTS
    if step is None:
        by = call("of_micros", lit(_ONE_DAY, "int64")) if lengths else lit(1, type_ if type_ in INTEGERS else "int32")
        step = call("case", call("gt", start, stop), call("neg", by), by)
    elif step.type in (*INTEGERS, "null") and type_ in INTEGERS:
        step = cast(step, type_)
    return call("sequence_by", start, stop, step)


def _series(start: Expr, stop: Expr | None = None, step: Expr | None = None) -> Expr:
    """Returns DuckDB's GENERATE_SERIES: in steps of 1 by default, timestamps for dates, and empty if the end is behind
    the start."""
    if stop is None:
        start, stop = lit(0), start
    start, stop = (cast(one, "timestamp_ntz") if one.type == "date" else one for one in (start, stop))
    step = step or lit(1)
    return _ahead(start, stop, step, call("ge", step, call("neg", step)))


def _range(start: Expr, stop: Expr | None = None, step: Expr | None = None) -> Expr:
    """Returns RANGE of DuckDB and Spark: 64-bit integers, or moments, up to but excluding the end."""
    if stop is None:
        start, stop = lit(0), start
    wide = {"date": "timestamp_ntz", "int32": "int64"}
    start, stop = (cast(one, wide.get(one.type, one.type)) for one in (start, stop))
    by = step or lit(1)
    rising = call("ge", by, call("neg", by))
    least = call("of_micros", lit(1, "int64")) if stop.type in MOMENTS else lit(1)
    return _ahead(start, call("case", rising, call("sub", stop, least), call("add", stop, least)), by, rising)


def _ahead(start: Expr, last: Expr, step: Expr, rising: Expr) -> Expr:
    """Returns a sequence, which is empty if its last element is behind the start, or if the step is 0."""
    way = call("case", rising, call("lt", last, start), call("not", rising), call("gt", last, start), NULL)
    outside = call("or", call("eq", step, call("neg", step)), way)
    empty = call("slice", call("array", start), lit(1), lit(0))
    return call("case", outside, empty, _sequence(start, call("case", outside, start, last), step))


def _alone(array: Expr, element: Expr) -> Expr:
    """Returns an element as an array that can be concatenated with another array."""
    inner = element_of(array.type)
    return call("array", cast(element, inner) if element.type == "null" and inner else element)


def _of_array(name: str, array: Expr) -> Expr:
    if element_of(array.type) is None:
        raise PlanError(f"{name} needs a value of type array<...>, not {array.type}")
    return array


def _appended(array: Expr, element: Expr) -> Expr:
    return call("concat", _of_array("ARRAY_APPEND", array), _alone(array, element))


def _prepended(array: Expr, element: Expr) -> Expr:
    return call("concat", _alone(_of_array("ARRAY_PREPEND", array), element), array)


def _united(left: Expr, right: Expr) -> Expr:
    return call("array_distinct", call("concat", _of_array("ARRAY_UNION", left), right))


TABLE = (
    macro("sequence", "any any [any]", _sequence, null="more than 100,000 elements; a step of 0 or away from the end",
          note="Whole numbers, dates or timestamps, including both ends. The step is a whole number or an INTERVAL."),
    macro("generate_series", "any [any] [any]", _series,
          note="DuckDB's function: no elements if the end is before the start."),
    macro("range", "any [any] [any]", _range, note="Whole numbers of 64 bits, or timestamps, without the end."),
    macro("array_append", "any any", _appended, also=("list_append",), note="NULL only if the array is NULL."),
    macro("array_prepend", "any any", _prepended, note="NULL only if the array is NULL."),
    macro("array_union", "any any", _united),
    macro("array_sort", "any", lambda array: call("sorted_array", array), also=("list_sort",), note="NULLs last."),
    macro("map_contains_key", "any any", lambda value, key: call("array_contains", call("map_keys", value), key)),
    macro("try_element_at", "any key", lambda value, at: call("element_at", value, at)),
)  # fmt: skip
