"""DuckDB's aggregates of the elements of an array: LIST_SUM, LIST_AVG and similar. They ignore NULLs."""

from __future__ import annotations

from collections.abc import Callable

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, lit, typed
from plans.expressions.coercion import INTEGERS, numeric
from plans.expressions.functions.function import Macro, macro, place
from plans.nested import array_of, element_of
from plans.types import decimal_parts


def _element(name: str, array: Expr, numbers: bool = False) -> str:
    found = element_of(array.type)
    if found is None or (numbers and not numeric(found)):
        raise PlanError(f"{name} needs an array{' of numbers' * numbers}, not a value of type {array.type}")
    return found


def _folded(array: Expr, type_: str, start: int, op: str) -> Expr:
    """Returns the reduction of all elements by an operator; NULL if there are none."""
    known = call("array_compact", array)
    inner = element_of(array.type) or "null"
    body = cast(call(op, col(place(0), type_), cast(col(place(1), inner), type_)), type_)
    made = typed(Expr("reduce", type_, (known, cast(lit(start), type_)), body))
    return call("case", call("gt", call("size", known), lit(0)), made, NULL)


def _sum(array: Expr) -> Expr:
    inner = _element("LIST_SUM", array, True)
    digits = decimal_parts(inner)
    type_ = f"decimal(38,{digits[1]})" if digits else "int64" if inner in INTEGERS else "float64"
    return _folded(array, type_, 0, "add")


def _product(array: Expr) -> Expr:
    _element("LIST_PRODUCT", array, True)
    return _folded(array, "float64", 1, "mul")


def _count(array: Expr) -> Expr:
    _element("LIST_COUNT", array)
    known = call("size", call("array_compact", array))
    return call("case", call("isnull", array), NULL, cast(known, "int64"))


def _mean(array: Expr) -> Expr:
    _element("LIST_AVG", array, True)
    return call("div", cast(_sum(array), "float64"), cast(_count(array), "float64"))


def _median(array: Expr) -> Expr:
    _element("LIST_MEDIAN", array, True)
    known = call("sorted_array", call("array_compact", array))
    size = call("size", known)
    middle = [call("intdiv", call("add", size, lit(more)), lit(2)) for more in (1, 2)]
    low, high = (cast(call("element_at", known, cast(at, "int32")), "float64") for at in middle)
    return call("case", call("gt", size, lit(0)), call("div", call("add", low, high), lit(2.0)), NULL)


def _deviations(array: Expr) -> tuple[Expr, Expr]:
    """Returns the sum of the squared deviations of the elements from their mean, and the number of elements."""
    known = cast(call("array_compact", array), array_of("float64"))
    total, one, mean = (col(place(number), "float64") for number in range(3))
    away = call("sub", one, mean)
    body = call("add", total, call("mul", away, away))
    return typed(Expr("reduce", "float64", (known, lit(0.0), _mean(array)), body)), cast(_count(array), "float64")


def _variance(sample: int, root: bool = False) -> Callable[[Expr], Expr]:
    def made(array: Expr) -> Expr:
        _element("LIST_VAR", array, True)
        squares, count = _deviations(array)
        enough = call("gt", count, lit(float(sample)))
        found = call("case", enough, call("div", squares, call("sub", count, lit(float(sample)))), NULL)
        return call("sqrt", found) if root else found

    return made


def _error_of_mean(array: Expr) -> Expr:
    return call("div", _variance(0, True)(array), call("sqrt", cast(_count(array), "float64")))


def _absolute_deviation(array: Expr) -> Expr:
    """Returns the median of the absolute deviations of the elements from their median."""
    _element("LIST_MAD", array, True)
    known = cast(call("array_compact", array), array_of("float64"))
    away = call("abs", call("sub", col(place(0), "float64"), col(place(2), "float64")))
    return _median(typed(Expr("transform", known.type, (known, _median(array)), away)))


def _bits(name: str, start: int, op: str) -> Callable[[Expr], Expr]:
    def made(array: Expr) -> Expr:
        inner = _element(name, array, True)
        if inner not in INTEGERS:
            raise PlanError(f"{name} needs an array of whole numbers, not a value of type {array.type}")
        return _folded(array, inner, start, op)

    return made


def _different(array: Expr) -> Expr:
    _element("LIST_APPROX_COUNT_DISTINCT", array)
    return cast(call("size", call("array_distinct", call("array_compact", array))), "int64")


def _counted(name: str) -> Callable[[Expr], Expr]:
    return lambda array: call(name, array)


def _at(name: str, index: int, known: bool = False) -> Callable[[Expr], Expr]:
    def made(array: Expr) -> Expr:
        _element(name, array)
        return call("element_at", call("array_compact", array) if known else array, lit(index))

    return made


def _of_truth(name: str, which: str) -> Callable[[Expr], Expr]:
    """Returns a macro for the least or the greatest of conditions."""

    def made(array: Expr) -> Expr:
        if _element(name, array) != "bool":
            raise PlanError(f"{name} needs an array of conditions, not a value of type {array.type}")
        return call(which, array)

    return made


def _joined(array: Expr, between: Expr | None = None) -> Expr:
    _element("LIST_STRING_AGG", array)
    known = call("array_compact", array)
    made = call("array_join", cast(known, "array<string>"), between or lit(","))
    return call("case", call("gt", call("size", known), lit(0)), made, NULL)


def _chained(*arrays: Expr) -> Expr:
    """Returns the concatenation of arrays, where NULL is an empty array."""
    given = [array for array in arrays if array.type != "null"]
    for array in given:
        _element("LIST_CONCAT", array)
    made = [call("coalesce", array, cast(call("array"), array.type)) for array in given]
    return call("concat", *made) if made else NULL


def _extreme(name: str, which: str) -> Callable[[Expr], Expr]:
    def made(array: Expr) -> Expr:
        _element(name, array)
        return call(which, array)

    return made


_AGGREGATES: dict[str, Callable[..., Expr]] = {
    "sum": _sum, "avg": _mean, "min": _extreme("LIST_MIN", "array_min"), "max": _extreme("LIST_MAX", "array_max"),
    "count": _count, "median": _median, "product": _product, "first": _at("LIST_FIRST", 1),
    "last": _at("LIST_LAST", -1), "any_value": _at("LIST_ANY_VALUE", 1, True), "string_agg": _joined,
    "var_samp": _variance(1), "var_pop": _variance(0), "stddev_samp": _variance(1, True),
    "stddev_pop": _variance(0, True), "sem": _error_of_mean, "mad": _absolute_deviation,
    "bit_and": _bits("LIST_BIT_AND", -1, "bit_and"), "bit_or": _bits("LIST_BIT_OR", 0, "bit_or"),
    "bit_xor": _bits("LIST_BIT_XOR", 0, "bit_xor"), "approx_count_distinct": _different,
    "mode": _counted("value_of_most"), "histogram": _counted("counts_of_values"),
    "bool_and": _of_truth("LIST_BOOL_AND", "array_min"), "bool_or": _of_truth("LIST_BOOL_OR", "array_max"),
}  # fmt: skip


_ALSO = {"stddev": "stddev_samp", "variance": "var_samp", "mean": "avg", "group_concat": "string_agg"}


AGGREGATED = tuple(_AGGREGATES)
"""The names of the aggregates, in lower case."""


def aggregated(name: str, array: Expr, *more: Expr) -> Expr:
    """Returns an aggregate of the elements of an array."""
    return _AGGREGATES[name](array, *more)


def _aggregate(array: Expr, name: Expr, *more: Expr) -> Expr:
    """Returns LIST_AGGREGATE: an aggregate given by its name."""
    wanted = str(name.value).lower()
    make = _AGGREGATES.get(_ALSO.get(wanted, wanted))
    if make is None or (more and make is not _joined):
        hint = "use one of " + ", ".join(_AGGREGATES) + ", or aggregate the rows of UNNEST"
        raise PlanError(f"LIST_AGGREGATE does not support {name.value!r} with this number of values", hint=hint)
    return make(array, *more)


def sliced(array: Expr, begin: Expr, end: Expr) -> Expr:
    """Returns the elements between two positions, both counted from 1, or from the end if negative."""
    text = array.type == "string"
    if not text:
        _element("LIST_SLICE", array)
    size = call("length" if text else "size", array)
    first, last = (
        call("case", call("lt", at, lit(0)), call("add", call("add", size, at), lit(1)), at)
        for at in (cast(begin, "int32"), cast(end, "int32"))
    )
    first, last = call("greatest", first, lit(1)), call("least", last, size)
    count = call("greatest", call("add", call("sub", last, first), lit(1)), lit(0))
    given = cast(first, "int32"), cast(count, "int32")
    missing = call("or", call("isnull", begin), call("isnull", end), call("isnull", array))
    return call("case", missing, NULL, call("substring" if text else "slice", array, *given))


def _one(name: str, **more: str) -> Macro:
    takes = "any [=string]" if name == "string_agg" else "any"
    return macro(f"list_{name}", takes, _AGGREGATES[name], **more)


TABLE = (
    _one("sum", null="a sum that does not fit",
         note="NULL for an array without elements, like the other aggregates of lists."),
    _one("avg"),
    *(_one(name) for name in _AGGREGATES if name not in ("sum", "avg", "string_agg")),
    _one("string_agg"),
    macro("list_aggregate", "any =string [=string]", _aggregate, also=("list_aggr", "array_aggregate", "array_aggr"),
          note="By name: `LIST_AGGREGATE(a, 'sum')`."),
    macro("list_concat", "any ...", _chained, also=("list_cat", "array_cat"), note="A NULL array has no elements."),
    macro("list_slice", "any integer integer", sliced, also=("array_slice",),
          note="Both ends are included; negative positions count from the end. Also `a[2:3]` in DuckDB and "
               "PostgreSQL."),
)  # fmt: skip
