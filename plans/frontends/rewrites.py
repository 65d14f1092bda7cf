"""Rewrites aggregates as expressions of other aggregates, for all query languages: COUNT of several columns, BOOL_AND,
and others.

Where SQL leaves a result open, it is defined here, so that it does not depend on batches, deletes or cells: FIRST and
ANY_VALUE are the least value that is not NULL, LAST is the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, conjoin, lit, mean, of_units, units
from plans.expressions.coercion import check_ordered, numeric
from plans.expressions.functions.function import place
from plans.expressions.functions.user import NAMED, USER, UserAggregate
from plans.expressions.macros.lists import aggregated as listed
from plans.expressions.macros.meanings import as_text
from plans.nested import array_of, is_nested, is_struct, parts
from plans.types import INTERVALS, decimal_parts

Share = float | tuple[float, ...] | None


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate of `values` over the rows for which `where` is TRUE. With several shares, the result is
    the array of its results for each share."""

    function: str
    values: tuple[Expr, ...]
    distinct: bool = False
    where: tuple[Expr, ...] = ()
    share: Share = None
    separator: str | None = None
    order: tuple[tuple[Expr, bool, bool], ...] = ()  # value, whether it is descending, whether NULLs are last


Add = Callable[[AggregateCall], Expr]
"""Adds an aggregate of the engine to a group, and returns its column."""


def rewritten(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns an aggregate as an expression of the engine's aggregates, which `add` adds to a group."""
    for value, _, _ in aggregate.order:
        check_ordered(value.type, "ORDER BY")
    if isinstance(aggregate.share, tuple):
        parts = [rewritten(replace(aggregate, share=one), add) for one in aggregate.share]
        made = call("array", *parts)
        return call("case", call("isnull", parts[0]), cast(NULL, made.type), made)
    registered = NAMED.get(aggregate.function)
    if isinstance(registered, UserAggregate):
        return _of_user(aggregate, registered, add)
    rewrite = _REWRITES.get(aggregate.function)
    if rewrite is not None:
        return rewrite(aggregate, add)
    if aggregate.function == "count" and len(aggregate.values) > 1:
        return _count(aggregate, add)
    return add(aggregate)


def _of_user(aggregate: AggregateCall, registered: UserAggregate, add: Add) -> Expr:
    """Returns a user's aggregate: its result, computed from the sums of the values that it lifts from each row."""
    lifted = call(USER, *aggregate.values, value=registered.lift)
    struct = parts(registered.lift.gives)
    assert struct is not None, "what is summed is a struct"
    where = (*aggregate.where, call("not", call("isnull", lifted)))
    plain = replace(aggregate, function="sum", where=where)
    sums = [add(replace(plain, values=(call("get_field", lifted, lit(name)),))) for name in struct.names]
    return call(USER, *sums, add(replace(plain, function="count", values=())), value=registered.finish)


def _count(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns COUNT of several columns: the number of rows in which none is NULL. DISTINCT compares a text that encodes
    all values."""
    known = tuple(call("not", call("isnull", value)) for value in aggregate.values)
    where = (*aggregate.where, *known)
    if not aggregate.distinct:
        return add(replace(aggregate, values=(), where=where))
    return add(replace(aggregate, values=(together(aggregate.values),), where=where))


def together(values: Sequence[Expr]) -> Expr:
    """Returns a text that is equal only for equal values, none of which is NULL. Each value is prefixed by its
    length."""
    parts: list[Expr] = []
    for value in values:
        text = _text(value)
        parts += [cast(call("octet_length", text), "string"), lit(":"), text]
    return call("concat", *parts)


def _text(value: Expr) -> Expr:
    if value.type == "string":
        return value
    if value.type == "binary":
        return call("hex", value)
    return cast(call("add", value, lit(0.0)) if value.type == "float64" else value, "string")  # -0.0 equals 0.0


def _as(function: str, distinct: bool = False) -> Callable[[AggregateCall, Add], Expr]:
    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        if function != "count":
            check_ordered(aggregate.values[0].type, aggregate.function.upper())
        return add(replace(aggregate, function=function, distinct=distinct, values=aggregate.values[:1]))

    return rewrite


def _of_truth(function: str) -> Callable[[AggregateCall, Add], Expr]:
    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        if aggregate.values[0].type not in ("bool", "null"):
            raise PlanError(f"{aggregate.function.upper()} needs conditions, not {aggregate.values[0].type}")
        return add(replace(aggregate, function=function, values=(cast(aggregate.values[0], "bool"),), distinct=False))

    return rewrite


def _or_nan(function: str) -> Callable[[AggregateCall, Add], Expr]:
    """Returns an aggregate that is NaN, and not NULL, of values that do not vary."""

    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        not_empty = call("gt", add(replace(aggregate, function="regr_count")), lit(0, "int64"))
        nan = call("case", not_empty, cast(lit("NaN"), "float64"), cast(NULL, "float64"))
        return call("coalesce", add(replace(aggregate, function=function)), nan)

    return rewrite


def _extreme(descending: bool, nulls_last: bool) -> Callable[[AggregateCall, Add], Expr]:
    """Returns a function that rewrites MIN or MAX. Structs are compared by their fields in order."""

    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        value, function = aggregate.values[0], "max" if descending else "min"
        if not is_struct(value.type):
            return add(replace(aggregate, function=function))
        order = _by_fields(value, descending, nulls_last)
        found = firsts(replace(aggregate, function="array_agg", distinct=False, order=order), 1, False, add)
        return call("element_at", found, lit(1))

    return rewrite


def _sum_of_truths(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns SUM, in which TRUE is 1 and FALSE is 0."""
    (value,) = aggregate.values
    value = cast(value, "int64") if value.type == "bool" else value
    return rewritten(replace(aggregate, function="sum", values=(value,)), add)


def _wide_sum(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns SUM, which is a decimal for BIGINT, as in PostgreSQL: the quotient of two sums has a fraction."""
    (value,) = aggregate.values
    value = cast(value, "decimal(38,0)") if value.type == "int64" else value
    return rewritten(replace(aggregate, function="sum", values=(value,)), add)


def _best(descending: bool, nulls_last: bool) -> Callable[[AggregateCall, Add], Expr]:
    """Returns a function that rewrites MAX_BY or MIN_BY. It compares structs field by field, and breaks ties by the
    least value."""

    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        value, by = aggregate.values
        order = *_by_fields(by, descending, nulls_last), (value, False, False)
        where = *aggregate.where, call("not", call("isnull", by))
        called = AggregateCall("array_agg", (value,), where=where, order=order)
        return call("element_at", firsts(called, 1, True, add), lit(1))

    return rewrite


def _by_fields(value: Expr, descending: bool, nulls_last: bool) -> tuple[tuple[Expr, bool, bool], ...]:
    """Returns the order of the fields of a struct, and of the structs in it."""
    found = parts(value.type) if is_struct(value.type) else None
    if found is None:
        return ((value, descending, nulls_last),)
    fields = (call("get_field", value, lit(name)) for name in found.names)
    return tuple(one for field in fields for one in _by_fields(field, descending, nulls_last))


def _joined(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns STRING_AGG of the texts that CAST writes."""
    value = aggregate.values[0]
    if value.type == "binary":
        raise PlanError("binary values cannot be joined, only texts", hint="write HEX(...) around them")
    return add(replace(aggregate, values=(cast(value, "string"),)))


def _joined_plainly(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns STRING_AGG of the texts that DuckDB writes."""
    return _joined(replace(aggregate, function="string_agg", values=(as_text(aggregate.values[0]),)), add)


def _listed(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns ARRAY_AGG, or COLLECT_SET, whose values are distinct."""
    if aggregate.values[0].type == "null":
        raise PlanError(f"{aggregate.function.upper()} of NULL has no type", hint="write CAST(NULL AS ...)")
    return add(
        replace(aggregate, function="array_agg", distinct=aggregate.distinct or aggregate.function == "collect_set")
    )


def firsts(aggregate: AggregateCall, count: int | None, nulls: bool, add: Add) -> Expr:
    """Returns ARRAY_AGG or STRING_AGG of the first `count` values in an order, or of all. `nulls`: NULL is a value, and
    the array without values is NULL."""
    (value,) = aggregate.values
    if value.type == "null":
        raise PlanError(f"{aggregate.function.upper()} of NULL has no type", hint="write CAST(NULL AS ...)")
    joined = aggregate.function == "string_agg"
    value = cast(value, "string") if joined else value
    kept = call("named_struct", lit("value"), value) if nulls else value
    order = aggregate.order or (() if is_nested(value.type) else ((value, False, False),))
    found = rewritten(replace(aggregate, function="array_agg", values=(kept,), separator=None, order=order), add)
    found = found if count is None else call("slice", found, lit(1), lit(count))
    if nulls:
        inside = call("get_field", col(place(0), kept.type), lit("value"))
        found = Expr("transform", array_of(inside.type), (found,), inside)
        found = call("case", call("gt", call("size", found), lit(0)), found, NULL)
    if not joined:
        return found
    text = call("array_join", found, lit(aggregate.separator or ""))
    return call("case", call("gt", call("size", found), lit(0)), text, NULL)


def _mean(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns AVG. The mean of decimals or intervals has the same kind of type, and is the quotient of two
    aggregates."""
    type_ = aggregate.values[0].type
    if decimal_parts(type_) is None and type_ not in INTERVALS:
        return add(aggregate)
    return mean(type_, _sum(replace(aggregate, function="sum"), add), add(replace(aggregate, function="count")))


def double_mean(total: Expr, count: Expr) -> Expr:
    """Returns the mean of decimals as a DOUBLE."""
    return call("div", cast(total, "float64"), cast(count, "float64"))


def _double_mean(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns AVG as a DOUBLE, also for decimals."""
    if decimal_parts(aggregate.values[0].type) is None:
        return _mean(replace(aggregate, function="avg"), add)
    return double_mean(add(replace(aggregate, function="sum")), add(replace(aggregate, function="count")))


def _whole_mean(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns AVG, which is a whole number for whole numbers, cut off towards 0."""
    if aggregate.values[0].type not in ("int32", "int64"):
        return _mean(replace(aggregate, function="avg"), add)
    return call("intdiv", add(replace(aggregate, function="sum")), add(replace(aggregate, function="count")))


def _sum(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns SUM. Intervals are summed in their units."""
    value = aggregate.values[0]
    if value.type not in INTERVALS:
        return add(aggregate)
    return of_units(add(replace(aggregate, values=(units(value),))), value.type)


def _percentile(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns a percentile. The percentile of intervals is an interval, truncated to its unit as in Spark."""
    value = aggregate.values[0]
    if value.type in INTERVALS:
        return of_units(cast(add(replace(aggregate, values=(units(value),))), "int64"), value.type)
    if not numeric(value.type) or value.type == "null":
        raise PlanError(
            f"MEDIAN and percentiles need numbers or lengths of time, not {value.type}",
            hint="write PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x): one of the values",
        )
    return add(aggregate)


def _decimal_percentile(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns a percentile of decimals as a decimal.

    Between two decimals, the result is truncated towards zero in the last digit.
    """
    value, aggregate = aggregate.values[0], replace(aggregate, function="percentile")
    digits = decimal_parts(value.type)
    if digits is None or digits[0] > _SHORT:
        return cast(_percentile(aggregate, add), value.type) if digits else _percentile(aggregate, add)
    units = cast(call("mul", value, lit(Decimal(10 ** digits[1]))), "int64")
    found = add(replace(aggregate, function="percentile_trunc", values=(units,)))
    return cast(call("mul", found, lit(Decimal(1).scaleb(-digits[1]))), value.type)


_SHORT = 18  # digits that 64 bits hold


def _at_least(aggregate: AggregateCall, add: Add) -> Expr:
    """Returns PERCENTILE_DISC: one of the values, as a DOUBLE for numbers."""
    found = add(aggregate)
    return cast(found, "float64") if numeric(found.type) else found


def _of_list(function: str) -> Callable[[AggregateCall, Add], Expr]:
    """Returns a function of the array of all values that are not NULL. The result for no values is NULL."""

    def rewrite(aggregate: AggregateCall, add: Add) -> Expr:
        values = _listed(aggregate, add)
        return call("case", call("gt", call("size", values), lit(0)), listed(function, values), NULL)

    return rewrite


def _of_bits(aggregate: AggregateCall, add: Add) -> Expr:
    if aggregate.values[0].type not in ("int32", "int64"):
        raise PlanError(f"{aggregate.function.upper()} needs a whole number, not {aggregate.values[0].type}")
    return add(replace(aggregate, distinct=aggregate.distinct and aggregate.function == "bit_xor"))


_REWRITES: dict[str, Callable[[AggregateCall, Add], Expr]] = {
    "sum": _sum,
    "sum_of_truths": _sum_of_truths,
    "wide_sum": _wide_sum,
    "avg": _mean,
    "double_avg": _double_mean,
    "whole_avg": _whole_mean,
    "max": _extreme(True, True),
    "min": _extreme(False, False),
    "max_or_null": _extreme(True, False),
    "min_or_null": _extreme(False, True),
    "bool_and": _of_truth("min"),
    "bool_or": _of_truth("max"),
    "corr_or_nan": _or_nan("corr"),
    "regr_slope_or_nan": _or_nan("regr_slope"),
    "max_by": _best(True, True),
    "min_by": _best(False, False),
    "max_by_or_null": _best(True, False),
    "min_by_or_null": _best(False, True),
    "any_value": _as("min"),
    "first": _as("min"),
    "last": _as("max"),
    "approx_count_distinct": _as("count", distinct=True),
    "percentile": _percentile,
    "decimal_percentile": _decimal_percentile,
    "percentile_disc": _at_least,
    "percentile_of_values": lambda aggregate, add: add(replace(aggregate, function="percentile_disc")),
    "percentile_approx": lambda aggregate, add: add(replace(aggregate, function="percentile_disc")),
    "string_agg": _joined,
    "plain_string_agg": _joined_plainly,
    "array_agg": _listed,
    "collect_set": _listed,
    "histogram": _of_list("histogram"),
    "mad": _of_list("mad"),
    "product": _of_list("product"),
    "bit_and": _of_bits,
    "bit_or": _of_bits,
    "bit_xor": _of_bits,
}
PICKED = {"max_by": (2, True), "min_by": (2, False), "mode": (1, True)}
"""Aggregates whose value is that of one row of a group: the number of their arguments, and whether the row is the last
of an order. `mode` orders by the frequency of the values."""


def picked(aggregate: AggregateCall) -> AggregateCall | None:
    """Returns an aggregate of `PICKED`, or None for other aggregates, and for those that compare structs."""
    name = aggregate.function.removesuffix("_or_null")
    if name not in PICKED or (name != "mode" and is_struct(aggregate.values[-1].type)):
        return None
    return replace(aggregate, function=name)


NAMES = (*_REWRITES, *PICKED)
"""The names of the aggregates that are rewritten."""


def where_of(conditions: Sequence[Expr]) -> Expr | None:
    """Returns the conjunction of FILTER and similar conditions, or None."""
    for one in conditions:
        if one.type != "bool":
            raise PlanError(f"a condition is expected, not a value of type {one.type}")
    return conjoin(list(conditions)) if conditions else None
