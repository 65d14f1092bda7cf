"""The aggregates that SQL can name, and their names in the engine. Part of `plans.frontends.sql`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from plans.expressions.functions.user import NAMED, UserAggregate

_FUNCTIONS = {
    "count": "count", "countif": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max",
    "variance": "var_samp", "variancepop": "var_pop",
    "stddev": "stddev_samp", "stddevsamp": "stddev_samp", "stddevpop": "stddev_pop",
    "covarpop": "covar_pop", "covarsamp": "covar_samp", "corr": "corr",
    "regrslope": "regr_slope", "regrintercept": "regr_intercept", "regrr2": "regr_r2", "regrcount": "regr_count",
    "regravgx": "regr_avgx", "regravgy": "regr_avgy",
    "logicaland": "bool_and", "logicalor": "bool_or", "anyvalue": "any_value", "first": "first", "last": "last",
    "firstvalue": "first", "lastvalue": "last",
    "approxdistinct": "approx_count_distinct", "argmax": "max_by", "argmin": "min_by", "mode": "mode",
    "median": "percentile", "quantile": "percentile", "percentilecont": "percentile",
    "percentiledisc": "percentile_disc", "approxquantile": "percentile_approx",
    "approxquantiles": "percentile_approx", "groupconcat": "string_agg",
    "arrayagg": "array_agg", "arrayuniqueagg": "collect_set",
    "bitwiseandagg": "bit_and", "bitwiseoragg": "bit_or", "bitwisexoragg": "bit_xor",
    "regrsxx": "regr_sxx", "regrsyy": "regr_syy", "regrsxy": "regr_sxy",
    "skewness": "skewness", "kurtosis": "kurtosis",
}  # fmt: skip
_NAMED = {
    "STD": "stddev_samp", "MEAN": "avg", "EVERY": "bool_and", "SOME": "bool_or", "TRY_SUM": "sum", "TRY_AVG": "avg",
    "HISTOGRAM": "histogram", "MAD": "mad", "PRODUCT": "product", "ARBITRARY": "any_value", "FSUM": "sum",
    "KAHAN_SUM": "sum", "SUMKAHAN": "sum", "FAVG": "avg",
    "KURTOSIS_POP": "kurtosis", "SKEWNESS_SAMP": "skewness_samp", "KURTOSIS_SAMP": "kurtosis_samp",
}  # fmt: skip


WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
"""The nodes that can wrap the call of an aggregate."""


def function_of(node: exp.Expression) -> str | None:
    """Returns the aggregate of a call, or the name of a user's aggregate in capitals; None if the call is not a
    supported aggregate."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this).upper()
        return name if isinstance(NAMED.get(name), UserAggregate) else _NAMED.get(name)
    wrapped = isinstance(node, (exp.IgnoreNulls, exp.WithinGroup))
    return function_of(node.this) if wrapped else _FUNCTIONS.get(node.key)


def aggregates(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yields the aggregates of an expression, with their FILTER, and without those of subqueries."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Query):
            continue
        if isinstance(part, exp.Filter) or function_of(part) is not None:
            yield part
        elif isinstance(part, exp.Window):  # not an aggregate itself, but its arguments may be
            while isinstance(part, (exp.Window, *WRAPPERS)):
                todo += [other for other in part.iter_expressions() if other is not part.this]
                part = part.this
            todo += part.iter_expressions()
        else:
            todo += part.iter_expressions()
