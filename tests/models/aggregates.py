"""Aggregates by definition, over plain Python values. Sums are fractions, so they are exact."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

from plans.payloads.sums import BITS, FEWEST, ORDERED, SHAPES
from plans.programs.stages import Aggregate
from plans.types import decimal_parts
from tests.models import normalise

Row = tuple[Any, ...]
_DIGITS = Context(prec=80)


def aggregate(call: Aggregate, members: Iterable[tuple[Mapping[str, Any], int]], types: Mapping[str, str]) -> Any:
    """Returns an aggregate over rows (by column) with multiplicities."""
    if call.where is not None:
        members = [(row, copies) for row, copies in members if row[call.where]]
    found: Counter[Row] = Counter()
    for row, copies in members:
        values = tuple(row[name] for name in call.arguments)
        if all(value is not None for value in values):
            found[(*values, *(row[one.column] for one in call.order))] += copies
    if call.distinct:
        found = Counter(dict.fromkeys(found, 1))
    rows = list(found.elements())
    if call.function in ("count", "regr_count", "cofactor"):
        return len(rows) ** call.power
    if call.function == "count_if":
        return sum(bool(value) for (value,) in rows)
    if not rows:
        return () if call.function == "array_agg" else None
    if call.function in ORDERED:
        return _in_order(call, rows)
    if call.function in ("sum", "avg"):
        return _sum(call, [row[0] for row in rows])
    if len(rows) < FEWEST.get(call.function, 1):
        return None
    if not all(math.isfinite(value) for row in rows for value in row):
        return normalise(math.nan)
    return normalise(_moment(call.function, [row[0] for row in rows], [row[-1] for row in rows]))


def _in_order(call: Aggregate, rows: list[Row]) -> Any:
    """Returns an aggregate of ordered values. The ORDER BY columns follow the value in each row."""
    rows = sorted(rows, key=lambda row: rank(row[0]))
    for i, one in reversed(list(enumerate(call.order, 1))):
        there = [row for row in rows if row[i] is not None]
        there.sort(key=lambda row: rank(row[i]), reverse=one.falling)
        absent = [row for row in rows if row[i] is None]
        rows = there + absent if one.nulls_last else absent + there
    values = [row[0] for row in rows]
    if call.function in ("min", "max"):
        return values[0] if call.function == "min" else values[-1]
    if call.function == "array_agg":
        return tuple(values)
    if call.function == "string_agg":
        assert call.separator is not None, "texts are joined by one"
        return call.separator.join(values)
    if call.function in BITS:
        return reduce({"bit_and": and_, "bit_or": or_, "bit_xor": xor}[call.function], values)
    assert call.share is not None, "a percentile has a share"
    if call.function == "percentile_disc":
        return values[max(math.ceil(call.share * len(values)) - 1, 0)]
    at = call.share * (len(values) - 1)
    below, above = math.floor(at), math.ceil(at)
    low, high = float(values[below]), float(values[above])
    return normalise(low if below == above or low == high else (above - at) * low + (at - below) * high)


def rank(value: Any) -> Any:
    """Returns the sort key of a value. NaN is the largest number; texts are ordered by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _exact(value: Any) -> Fraction:
    """Returns the number that is summed for a value. Infinities and NaN count as 0 here."""
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else Fraction(0)
    return Fraction(value)


def _sum(call: Aggregate, values: Sequence[Any]) -> Any:
    exact = sum(map(_exact, values), Fraction(0))
    if call.function == "avg":
        exact /= len(values)
    parts = decimal_parts(call.type)
    if parts is not None:
        return _DIGITS.scaleb(Decimal(int(exact * 10 ** parts[1])), -parts[1])
    if call.type != "float64":
        return int(exact)
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    return normalise(sum(special) if special else rounded(exact))


def rounded(exact: Fraction | float) -> float:
    """Returns the double next to a fraction; an infinity if it is too large."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _root(exact: Fraction | float) -> float:
    """Returns the square root of the double next to a fraction, or if that is too large or small next to it times
    2^-1200 or 2^1200."""
    value = rounded(exact)
    if value == math.inf:
        return math.ldexp(math.sqrt(exact / 2**1200), 600)
    return math.ldexp(math.sqrt(exact * 2**1200), -600) if value < 2.0**-1000 else math.sqrt(value)


def _moment(function: str, ys: Sequence[Any], xs: Sequence[Any]) -> float | None:
    y, x, n = [_exact(v) for v in ys], [_exact(v) for v in xs], len(ys)
    sx, sy, sxy = sum(x), sum(y), sum(a * b for a, b in zip(x, y, strict=True))
    vx = n * sum(a * a for a in x) - sx * sx
    if function in SHAPES:
        return _shape(function, x) if vx else None
    vy = n * sum(b * b for b in y) - sy * sy
    joint = n * sxy - sx * sy
    if function in ("var_samp", "stddev_samp", "var_pop", "stddev_pop"):
        value = Fraction(vx, 1) / (n * (n - 1) if function.endswith("samp") else n * n)
        return _root(value) if function.startswith("stddev") else rounded(value)
    if function in ("covar_pop", "covar_samp"):
        return rounded(joint / (n * (n - 1) if function == "covar_samp" else n * n))
    if function == "corr":
        return None if not vx or not vy else _root(joint * joint / (vx * vy)) * (-1 if joint < 0 else 1)
    if function == "regr_r2":
        return None if not vx else 1.0 if not vy else rounded(joint * joint / (vx * vy))
    if function == "regr_slope":
        return rounded(joint / vx) if vx else None
    if function == "regr_intercept":
        return rounded((sy * sum(a * a for a in x) - sx * sxy) / vx) if vx else None
    simple = {"regr_avgx": sx, "regr_avgy": sy, "regr_sxx": vx, "regr_syy": vy, "regr_sxy": joint}
    return rounded(simple[function] / n)


def _shape(function: str, x: Sequence[Fraction]) -> float:
    n = len(x)
    mean = sum(x, Fraction(0)) / n
    second, third, fourth = (sum((a - mean) ** power for a in x) / n for power in (2, 3, 4))
    if function.startswith("skewness"):
        factor = Fraction(n * (n - 1), (n - 2) ** 2) if function.endswith("samp") else 1
        return _root(factor * third**2 / second**3) * (-1 if third < 0 else 1)
    excess = fourth / second**2 - 3
    if function.endswith("samp"):
        excess = Fraction(n - 1, (n - 2) * (n - 3)) * ((n + 1) * excess + 6)
    return rounded(excess)
