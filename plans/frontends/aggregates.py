"""The result types of aggregates, for all query languages."""

from __future__ import annotations

from plans.errors import PlanError
from plans.expressions.coercion import check_ordered, numeric
from plans.nested import array_of
from plans.programs.frames import CHOSEN
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
        raise PlanError(f"{function.upper()} needs a number, not {type_}")
    parts = decimal_parts(type_)
    if function == "sum":
        return f"decimal({min(38, parts[0] + 10)},{parts[1]})" if parts else type_.replace("int32", "int64")
    return "float64"
