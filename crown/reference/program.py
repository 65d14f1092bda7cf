"""The readable twin of the stages: every stage recomputed from its definition, over bags of plain Python values.

A bag is a Counter: row -> multiplicity. Nothing here is incremental, and nothing is shared with the kernels but the
evaluation of scalar expressions. Sums are fractions, so they are exact.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pyarrow as pa

from crown.reference import normalise
from plans.payloads.sums import BITS, ORDERED
from plans.plan import Output
from plans.program import (
    Aggregate,
    Feed,
    Function,
    GroupStage,
    LinearStage,
    PointwiseStage,
    Program,
    TopStage,
    outputs_of,
)
from plans.schema import Column
from plans.types import arrow_type, decimal_parts

Row = tuple[Any, ...]
Bag = Counter[Row]
_DIGITS = Context(prec=80)


def evaluated(outputs: Sequence[Output], rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Returns the rows that expressions over ``columns`` make of ``rows``."""
    arrays = {
        column.name: pa.array([row[i] for row in rows], arrow_type(column.type)) for i, column in enumerate(columns)
    }
    made = [o.expr.evaluate(arrays, len(rows)).cast(arrow_type(o.type)).to_pylist() for o in outputs]
    return [tuple(normalise(column[i]) for column in made) for i in range(len(rows))]


def fed(feed: Feed, bag: Bag, columns: Sequence[Column]) -> Bag:
    """Returns the bag that enters a stage through a feed."""
    rows = list(bag)
    if feed.where is not None:
        kept = evaluated([Output("kept", "bool", feed.where)], rows, columns)
        rows = [row for row, (keep,) in zip(rows, kept, strict=True) if keep]
    out: Bag = Counter()
    for row, made in zip(rows, evaluated(feed.columns, rows, columns), strict=True):
        out[made] += feed.weight * bag[row]
    return out


def results(program: Program, tables: Mapping[str, Bag], begun: bool = True) -> list[Bag]:
    """Returns the bag of every stage of a program without join stages, over base tables (by name in lower case)."""
    columns: dict[str | int, Sequence[Column]] = {table.name.lower(): table.columns for table in program.tables}
    bags: dict[str | int, Bag] = {}
    bags.update(tables.items())

    def source(feed: Feed) -> str | int:
        return feed.source if isinstance(feed.source, int) else feed.source.lower()

    for number, stage in enumerate(program.stages):
        if isinstance(stage, GroupStage):
            read = [source(feed) for feed in (stage.feed, *stage.values)]
            beside = [(bags[one], columns[one]) for one in read[1:]]
            bags[number] = group(stage, bags[read[0]], columns[read[0]], begun, beside)
            made: Sequence[Output] = stage.outputs
        elif isinstance(stage, (PointwiseStage, LinearStage)):
            feeds = stage.leaves if isinstance(stage, PointwiseStage) else stage.terms
            given = [bags[source(feed)] for feed in feeds], [columns[source(feed)] for feed in feeds]
            bags[number] = pointwise(stage, *given) if isinstance(stage, PointwiseStage) else linear(stage, *given)
            made = feeds[0].columns
        elif isinstance(stage, TopStage):
            of = source(stage.feed)
            bags[number] = top(stage, bags[of], columns[of])
            made = outputs_of(stage)
        columns[number] = [Column(output.name, output.type) for output in made]
    return [bags[number] for number in range(len(program.stages))]


def linear(stage: LinearStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the sum of the terms; ``bags`` are their sources."""
    out: Bag = Counter()
    for feed, bag, source in zip(stage.terms, bags, columns, strict=True):
        for row, copies in fed(feed, bag, source).items():
            out[row] += copies
    return out


def pointwise(stage: PointwiseStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the rows with a function of their multiplicities in the leaves, whose sources are ``bags``."""
    leaves = [fed(feed, bag, source) for feed, bag, source in zip(stage.leaves, bags, columns, strict=True)]
    rows = {row for leaf in leaves for row in leaf}
    return +Counter({row: multiplicity(stage.function, [leaf[row] for leaf in leaves]) for row in rows})


def multiplicity(function: Function, m: Sequence[int]) -> int:
    """Returns the value of a function of multiplicities."""
    if isinstance(function, int):
        return m[function]
    operator, *operands = function
    values = [multiplicity(operand, m) for operand in operands if not isinstance(operand, str)]
    return _OPERATORS[str(operator)](*values)


_OPERATORS: dict[str, Callable[..., int]] = {
    "distinct": lambda a: int(a > 0),
    "union_all": lambda a, b: a + b,
    "union": lambda a, b: int(a + b > 0),
    "except_all": lambda a, b: max(a - b, 0),
    "except": lambda a, b: int(a > 0 and b <= 0),
    "intersect_all": min,
    "intersect": lambda a, b: int(a > 0 and b > 0),
}


def top(stage: TopStage, bag: Bag, columns: Sequence[Column]) -> Bag:
    """Returns the first rows of each group of the rows that enter, whose source is ``bag``."""
    place = {output.name: i for i, output in enumerate(stage.feed.columns)}
    said = [(place[one.column], one.falling, one.nulls_last) for one in stage.order]
    said += [(at, False, False) for at in place.values() if at not in {known for known, _, _ in said}]
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row, copies in fed(stage.feed, bag, columns).items():
        groups[tuple(row[place[key]] for key in stage.keys)] += [row] * copies
    found: Bag = Counter()
    for rows in groups.values():
        for at, falling, nulls_last in reversed(said):  # sorting is stable: the last column first
            values = [row for row in rows if row[at] is not None]
            values.sort(key=lambda row: _rank(row[at]), reverse=falling)
            nulls = [row for row in rows if row[at] is None]
            rows = values + nulls if nulls_last else nulls + values
        for row in rows[stage.offset : stage.offset + stage.limit]:
            found[row[: len(row) - stage.hidden]] += 1
    return found


def group(
    stage: GroupStage,
    bag: Bag,
    columns: Sequence[Column],
    begun: bool = True,
    beside: Sequence[tuple[Bag, Sequence[Column]]] = (),
) -> Bag:
    """Returns the rows of a group stage whose source is ``bag``; those of its other feeds are ``beside``.

    ``begun``: a batch has been applied.
    """
    feeds = (stage.feed, *stage.values)
    types = {output.name: output.type for feed in feeds for output in feed.columns}
    by_feed = [_members(stage, feed, *of) for feed, of in zip(feeds, [(bag, columns), *beside], strict=True)]
    if stage.whole and begun:
        by_feed[0].setdefault((), [])
    reads = [stage.read_by(a.read) for a in stage.aggregates]
    rows = []
    for key in by_feed[0]:
        values = [
            aggregate(call, by_feed[i].get(key, []), types) for call, i in zip(stage.aggregates, reads, strict=True)
        ]
        rows.append((*key, *values))
    names = [Column(key, types[key]) for key in stage.keys] + [Column(a.name, a.type) for a in stage.aggregates]
    if stage.having is not None:
        kept = evaluated([Output("kept", "bool", stage.having)], rows, names)
        rows = [row for row, (keep,) in zip(rows, kept, strict=True) if keep]
    return Counter(evaluated(stage.outputs, rows, names))


def _members(
    stage: GroupStage, feed: Feed, bag: Bag, columns: Sequence[Column]
) -> dict[Row, list[tuple[Mapping[str, Any], int]]]:
    """Returns the rows that a feed brings, by column and with their multiplicities, per group."""
    groups: dict[Row, list[tuple[Mapping[str, Any], int]]] = {}
    for row, copies in fed(feed, bag, columns).items():
        named = {output.name: row[i] for i, output in enumerate(feed.columns)}
        groups.setdefault(tuple(named[key] for key in stage.keys), []).append((named, copies))
    return groups


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
        return len(rows)
    if call.function == "count_if":
        return sum(bool(value) for (value,) in rows)
    if not rows:
        return None
    if call.function in ORDERED:
        return _in_order(call, rows)
    if call.function in ("sum", "avg"):
        return _sum(call, [row[0] for row in rows])
    if len(rows) == 1 and call.function.endswith("_samp"):
        return None
    if not all(math.isfinite(value) for row in rows for value in row):
        return normalise(math.nan)
    return normalise(_moment(call.function, [row[0] for row in rows], [row[-1] for row in rows]))


def _in_order(call: Aggregate, rows: list[Row]) -> Any:
    """Returns an aggregate of ordered values, which are there; columns that they are ordered by stand behind them."""
    rows = sorted(rows, key=lambda row: _rank(row[0]))
    for i, one in reversed(list(enumerate(call.order, 1))):
        there = [row for row in rows if row[i] is not None]
        there.sort(key=lambda row: _rank(row[i]), reverse=one.falling)
        absent = [row for row in rows if row[i] is None]
        rows = there + absent if one.nulls_last else absent + there
    values = [row[0] for row in rows]
    if call.function in ("min", "max"):
        return values[0] if call.function == "min" else values[-1]
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


def _rank(value: Any) -> Any:
    """Returns what values are ordered by: NaN is the largest number, text is ordered by its bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _exact(value: Any) -> Fraction:
    """Returns the number that is summed for a value; not finite ones count as 0 here."""
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
