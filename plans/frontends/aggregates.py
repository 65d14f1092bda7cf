"""The result types of aggregates, and aggregates that pick the value of one row, for all query languages.

MAX_BY, MIN_BY and MODE pick the value of one row of a group. The groups are joined with the first row of each group in
an order. Ties are broken by the least value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from plans.errors import PlanError
from plans.expressions.build import Expr, call, col
from plans.expressions.coercion import check_ordered, numeric
from plans.frontends.rewrites import PICKED, AggregateCall, where_of
from plans.nested import array_of
from plans.payloads.sums import ONCE
from plans.programs.frames import CHOSEN, Order
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Source, Top, split, unused
from plans.schema import WEIGHT, Column, Table
from plans.types import decimal_parts, without_lengths

NAMES = (
    "count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "covar_samp", "covar_pop",
    "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy",
    "regr_sxy", "skewness", "skewness_samp", "kurtosis", "kurtosis_samp",
)  # fmt: skip
"""The supported aggregates."""


def result_type(function: str, type_: str) -> str:
    """Returns the result type of an aggregate of values of a type. Raises PlanError if it does not accept such
    values."""
    if function == "array_agg":
        return without_lengths(array_of(type_))
    if function in CHOSEN:
        return type_
    if function in ("min", "max", "percentile_disc", "string_agg", "bit_and", "bit_or", "bit_xor"):
        check_ordered(type_, function.upper())
        return type_
    if function in ("count", "regr_count", "percentile_trunc"):
        return "int64"
    if not numeric(type_) or type_ == "null":
        hint = "count where it is TRUE: COUNT_IF(x)" if type_ == "bool" else ""
        raise PlanError(f"{function.upper()} needs a number, not {type_}", hint=hint)
    parts = decimal_parts(type_)
    if function == "sum":
        return f"decimal({min(38, parts[0] + 10)},{parts[1]})" if parts else type_.replace("int32", "int64")
    return "float64"


@dataclass
class GroupColumns:
    """The columns of the rows that are grouped, one per key and per argument of an aggregate, and the aggregates."""

    columns: dict[str, Expr] = field(default_factory=dict)
    calls: dict[tuple[object, ...], Aggregate] = field(default_factory=dict)

    def name(self, preferred: str) -> str:
        """Returns a name that no column and no aggregate has."""
        return unused(preferred, [*self.columns, *(call.name for call in self.calls.values()), WEIGHT])

    def column(self, expr: Expr, preferred: str) -> str:
        """Returns the name of the column with this expression, which is added if it is missing."""
        found = next((name for name, known in self.columns.items() if known == expr), None)
        if found is None:
            found = self.name(preferred)
            self.columns[found] = expr
        return found

    def added(self, called: AggregateCall) -> Expr:
        """Returns the column of a group for an aggregate of the engine, which is added if it is missing."""
        function, values = called.function, called.values
        types = [result_type(function, value.type) for value in values]
        condition = where_of(called.where)
        where = None if condition is None else self.column(condition, "p")
        arguments = tuple(self.column(value, split(value.value)[1] if value.op == "col" else "x") for value in values)
        order = tuple(Order(self.column(value, "o"), falling, last) for value, falling, last in called.order)
        assert not isinstance(called.share, tuple), "an array of percentages is not supported"
        distinct = called.distinct and function not in ONCE
        which = (function, arguments, distinct, where, called.share, called.separator, order)
        if which not in self.calls:
            name = self.name(function if not arguments else f"{function}_{arguments[0]}")
            self.calls[which] = Aggregate(name, types[0] if types else "int64", *which)
        return col(self.calls[which].name, self.calls[which].type)


VALUE = "value"
"""The column of the source that has the value of the aggregate."""


def pick(
    aggregate: AggregateCall,
    alias: str,
    rows: Callable[[tuple[tuple[str, Expr], ...]], Query],
    keys: Sequence[tuple[Expr, Expr]],
) -> Source:
    """Returns a source to join with the groups. It has, for each group, the row with the value of an aggregate.

    `rows` makes a query of the grouped rows. `keys` are the grouping keys, over the rows and over the groups.
    """
    function, value, by = aggregate.function, aggregate.values[0], aggregate.values[-1]
    names = {f"k{index}": key for index, (key, _) in enumerate(keys)}
    where = (*aggregate.where, call("not", call("isnull", by)))
    columns = names | {VALUE: value} | ({} if function == "mode" else {"by": by})
    query = rows(tuple(columns.items()))
    found: Query | Group = replace(query, conditions=(*query.conditions, *where))
    if function == "mode":
        outputs = tuple((name, col(name, expr.type)) for name, expr in columns.items())
        counted = Aggregate("by", "int64", "count")
        found = Group(found, tuple(columns), (counted,), (*outputs, ("by", col("by", "int64"))))
    top = Top(found, tuple(names), (Order("by", PICKED[function][1], True),), 1)
    source = Source(alias, Table(alias, tuple(Column(c.name, c.type) for c in top.columns)), input=top, join="left")
    pairs = zip(names, (key for _, key in keys), strict=True)
    return replace(source, on=tuple(call("nseq", source.qualified(one), other) for one, other in pairs))
