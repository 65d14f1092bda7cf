"""Aggregates by definition, for the evaluator: of the rows of a group, or of sums over them."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor

from plans.payloads.sums import FEWEST, ORDERED, SHAPES
from plans.programs.stages import Aggregate
from plans.types import decimal_parts
from tests.oracles.database import Row

Bag = Counter[Row]


def aggregated(call: Aggregate, names: list[str], types: dict[str, str], rows: list[tuple[Row, int]]) -> object:
    if call.where is not None:
        rows = [(row, copies) for row, copies in rows if row[names.index(call.where)] is True]
    found: Bag = Counter()
    for row, copies in rows:
        values = tuple(row[names.index(name)] for name in call.arguments)
        if None not in values:
            found[values + tuple(row[names.index(one.column)] for one in call.order)] += copies
    if call.distinct:
        found = Counter(dict.fromkeys(found, 1))
    if call.function in ("count", "regr_count"):
        return found.total() ** call.power
    if call.function in ("min", "max"):
        values = sorted((row[0] for row in found), key=_ordered)
        return None if not values else values[0] if call.function == "min" else values[-1]
    if call.function in ORDERED:
        return ordered(call, found)
    return numbers(call, [types[name] for name in call.arguments], found)


def ordered(call: Aggregate, found: Bag) -> object:
    """Percentiles, joined texts and bits."""
    rows = sorted(found.elements(), key=lambda row: _ordered(row[0]))
    for i in range(len(call.order), 0, -1):
        one = call.order[i - 1]
        there = sorted(
            (row for row in rows if row[i] is not None), key=lambda row: _ordered(row[i]), reverse=one.falling
        )
        absent = [row for row in rows if row[i] is None]
        rows = there + absent if one.nulls_last else absent + there
    values = [row[0] for row in rows]
    if call.function == "array_agg":
        return tuple(values)
    if not values:
        return None
    if call.function == "string_agg":
        return call.separator.join(values)
    if call.function.startswith("bit"):
        return reduce({"bit_and": and_, "bit_or": or_, "bit_xor": xor}[call.function], values)
    if call.function == "percentile_disc":
        return values[max(math.ceil(call.share * len(values)) - 1, 0)]
    at = call.share * (len(values) - 1)
    if call.function == "percentile_trunc":
        low, high = values[math.floor(at)], values[math.ceil(at)]
        return int(float(Fraction(float(high - low)) * Fraction(at - math.floor(at)) + low))
    low, high = float(values[math.floor(at)]), float(values[math.ceil(at)])
    return low if low == high else (math.ceil(at) - at) * low + (at - math.floor(at)) * high


def _ordered(value: object) -> tuple[bool, object]:
    """NaN is the largest number."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


def numbers(call: Aggregate, types: list[str], found: Bag) -> object:
    """Sums and what is made of them, exactly; NaN and infinities as floating-point numbers add up."""
    n = found.total()
    if n == 0:
        return None
    wild = [v for row in found for v in row if isinstance(v, float) and not math.isfinite(v)]
    if wild:
        return sum(wild) if call.function in ("sum", "avg") else math.nan
    exact = [(tuple(Fraction(v) for v in row), copies) for row, copies in found.items()]
    if call.function in ("sum", "avg"):
        return summed(call, sum((row[0] * copies for row, copies in exact), Fraction(0)), n)

    def total(*columns: int) -> Fraction:
        return sum((math.prod((row[i] for i in columns), start=Fraction(copies)) for row, copies in exact), Fraction(0))

    if call.function in SHAPES:
        return form(call.function, n, [total(*[0] * power) for power in range(1, SHAPES[call.function] + 1)])
    return moments(call.function, n, total(-1), total(0), total(-1, -1), total(0, 0), total(0, -1))


def summed(call: Aggregate, total: Fraction, n: int) -> object:
    """SUM or AVG of an exact sum."""
    if call.function == "avg":
        return float(total / n)
    parts = decimal_parts(call.type)
    if parts is not None:
        return Decimal(int(total * 10 ** parts[1])).scaleb(-parts[1])
    return float(total) if call.type == "float64" else int(total)


def form(function: str, n: int, powers: list[Fraction]) -> float | None:
    """Skewness or kurtosis, of the sums of the first powers."""
    mean, raw = powers[0] / n, [Fraction(1), *(power / n for power in powers)]
    second, *higher = (
        sum((math.comb(k, i) * raw[i] * (-mean) ** (k - i) for i in range(k + 1)), Fraction(0))
        for k in range(2, len(raw))
    )
    if second == 0 or n < FEWEST.get(function, 1):
        return None
    found = float(higher[-1]) / float(second) ** (len(powers) / 2)
    if function.startswith("skewness"):
        return found * math.sqrt(n * (n - 1)) / (n - 2) if function.endswith("samp") else found
    return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (found - 3) + 6) if function.endswith("samp") else found - 3


def moments(
    function: str, n: int, xs: Fraction, ys: Fraction, xx: Fraction, yy: Fraction, xy: Fraction
) -> float | None:
    """Variances, covariances and regressions. The first argument is y, the second x."""
    sxy, sxx, syy = xy - xs * ys / n, xx - xs * xs / n, yy - ys * ys / n
    if function in ("var_pop", "stddev_pop", "covar_pop"):
        value = sxy / n
    elif function in ("var_samp", "stddev_samp", "covar_samp"):
        if n == 1:
            return None
        value = sxy / (n - 1)
    elif function == "corr":
        return None if sxx == 0 or syy == 0 else float(sxy) / math.sqrt(sxx * syy)
    else:
        return regression(function, n, xs, ys, sxx, syy, sxy)
    return math.sqrt(value) if function.startswith("stddev") else float(value)


def regression(
    function: str, n: int, xs: Fraction, ys: Fraction, sxx: Fraction, syy: Fraction, sxy: Fraction
) -> float | None:
    if function in ("regr_sxx", "regr_syy", "regr_sxy"):
        return float({"regr_sxx": sxx, "regr_syy": syy, "regr_sxy": sxy}[function])
    if function in ("regr_avgx", "regr_avgy"):
        return float({"regr_avgx": xs, "regr_avgy": ys}[function] / n)
    if sxx == 0:
        return None
    if function == "regr_slope":
        return float(sxy / sxx)
    if function == "regr_intercept":
        return float(ys / n - sxy / sxx * xs / n)
    assert function == "regr_r2"
    return 1.0 if syy == 0 else float(sxy * sxy / (sxx * syy))
