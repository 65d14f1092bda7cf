"""The readable twin of the stages: every stage recomputed from its definition, over bags of plain Python values.

A bag is a Counter: row -> multiplicity. Nothing here is incremental. Only the evaluation of scalar expressions is
shared with the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from crown.errors import SeveralRowsError
from plans.plan import Output
from plans.program import Program
from plans.programs.stages import (
    EXPLODE,
    BandStage,
    Feed,
    Function,
    GroupStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    SliceStage,
    TimedStage,
    TopStage,
    exploded_column,
    outputs_of,
)
from plans.schema import Column
from plans.types import arrow_type
from tests.models import normalise
from tests.models.aggregates import aggregate
from tests.models.bands import band
from tests.models.over import over, partitions, sliced

Row = tuple[Any, ...]
Bag = Counter[Row]


def evaluate(outputs: Sequence[Output], rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Returns the values of expressions over ``columns`` for ``rows``."""
    arrays = {
        column.name: pa.array([row[i] for row in rows], arrow_type(column.type)) for i, column in enumerate(columns)
    }
    columns_of_outputs = [o.expr.evaluate(arrays, len(rows)).cast(arrow_type(o.type)).to_pylist() for o in outputs]
    return [tuple(normalise(column[i]) for column in columns_of_outputs) for i in range(len(rows))]


def enter(feed: Feed, bag: Bag, columns: Sequence[Column]) -> Bag:
    """Returns the bag of the rows that enter a stage through a feed."""
    rows = list(bag)
    if feed.where is not None:
        truth = evaluate([Output("kept", "bool", feed.where)], rows, columns)
        rows = [row for row, (keep,) in zip(rows, truth, strict=True) if keep]
    out: Bag = Counter()
    array = exploded_column(feed)
    outputs = [array if array is not None and o.expr.op == EXPLODE else o for o in feed.columns]
    for row, values in zip(rows, evaluate(outputs, rows, columns), strict=True):
        position = len(values) if array is None else outputs.index(array)
        for element in (None,) if array is None else values[position] or ():
            row_out = values if array is None else (*values[:position], element, *values[position + 1 :])
            out[row_out] += feed.weight * bag[row]
    return out


def results(program: Program, tables: Mapping[str, Bag], started: bool = True) -> list[Bag]:
    """Returns the bag of every stage of a program without joins, over base tables (by name in lower case)."""
    columns: dict[str | int, Sequence[Column]] = {table.name.lower(): table.columns for table in program.tables}
    bags: dict[str | int, Bag] = {}
    bags.update(tables.items())

    def source(feed: Feed) -> str | int:
        return feed.source if isinstance(feed.source, int) else feed.source.lower()

    for number, stage in enumerate(program.stages):
        if isinstance(stage, GroupStage):
            sources = [source(feed) for feed in (stage.feed, *stage.values)]
            others = [(bags[one], columns[one]) for one in sources[1:]]
            bags[number] = group(stage, bags[sources[0]], columns[sources[0]], started, others)
            outputs: Sequence[Output] = stage.outputs
        elif isinstance(stage, (PointwiseStage, LinearStage)):
            feeds = stage.leaves if isinstance(stage, PointwiseStage) else stage.terms
            inputs = [bags[source(feed)] for feed in feeds], [columns[source(feed)] for feed in feeds]
            bags[number] = pointwise(stage, *inputs) if isinstance(stage, PointwiseStage) else linear(stage, *inputs)
            outputs = feeds[0].columns
        elif isinstance(stage, OverStage):
            name = source(stage.feed)
            bags[number] = over(stage, enter(stage.feed, bags[name], columns[name]))
            outputs = outputs_of(stage)
        elif isinstance(stage, TopStage):
            name = source(stage.feed)
            bags[number] = top(stage, bags[name], columns[name])
            outputs = outputs_of(stage)
        elif isinstance(stage, SingleStage):
            name = source(stage.feed)
            bags[number] = single(stage, bags[name], columns[name])
            outputs = outputs_of(stage)
        elif isinstance(stage, BandStage):
            sides = [(feed, source(feed)) for feed in (stage.bands, stage.points)]
            bags[number] = band(stage, *(enter(feed, bags[name], columns[name]) for feed, name in sides))
            outputs = outputs_of(stage)
        elif isinstance(stage, SliceStage):
            name = source(stage.feed)
            bags[number] = sliced(stage, enter(stage.feed, bags[name], columns[name]))
            outputs = outputs_of(stage)
        elif isinstance(stage, TimedStage):
            name, clock = source(stage.feed), source(stage.clock)
            bags[number] = timed(stage, (bags[name], bags[clock]), (columns[name], columns[clock]))
            outputs = outputs_of(stage)
        columns[number] = [Column(output.name, output.type) for output in outputs]
    return [bags[number] for number in range(len(program.stages))]


def linear(stage: LinearStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the sum of the terms; ``bags`` are their sources."""
    out: Bag = Counter()
    for feed, bag, source in zip(stage.terms, bags, columns, strict=True):
        for row, copies in enter(feed, bag, source).items():
            out[row] += copies
    return out


def pointwise(stage: PointwiseStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the rows with a function of their multiplicities in the leaves. ``bags`` are the sources of these."""
    leaves = [enter(feed, bag, source) for feed, bag, source in zip(stage.leaves, bags, columns, strict=True)]
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
    """Returns the first rows of each group of the rows that enter from ``bag``."""
    first_rows: Bag = Counter()
    for rows in partitions(stage, enter(stage.feed, bag, columns)):
        for row in rows[stage.offset : stage.offset + stage.limit]:
            first_rows[row[: len(row) - stage.hidden]] += 1
    return first_rows


def single(stage: SingleStage, bag: Bag, columns: Sequence[Column]) -> Bag:
    """Returns the rows that enter from ``bag``. Raises SeveralRowsError if two of them have the same keys."""
    rows = enter(stage.feed, bag, columns)
    positions = [[output.name for output in stage.feed.columns].index(key) for key in stage.keys]
    keys = Counter(tuple(row[at] for at in positions) for row in rows.elements())
    if any(copies > 1 for copies in keys.values()):
        raise SeveralRowsError(f"a value of {stage.keys} has several rows")
    return rows


def timed(stage: TimedStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the rows whose period contains the time. ``bags``: those of the rows and of the clock."""
    positions = {output.name: i for i, output in enumerate(stage.feed.columns)}
    current: Bag = Counter()
    for (now,) in enter(stage.clock, bags[1], columns[1]):
        for row, copies in enter(stage.feed, bags[0], columns[0]).items():
            has_begun = stage.since is None or row[positions[stage.since]] <= now
            if has_begun and (stage.until is None or now < row[positions[stage.until]]):
                current[row[: len(row) - stage.hidden]] += copies
    return current


def group(
    stage: GroupStage,
    bag: Bag,
    columns: Sequence[Column],
    started: bool = True,
    others: Sequence[tuple[Bag, Sequence[Column]]] = (),
) -> Bag:
    """Returns the rows of a group stage whose first feed reads ``bag``. ``others``: what its other feeds read.

    ``started``: True if a batch has been applied.
    """
    feeds = (stage.feed, *stage.values)
    types = {output.name: output.type for feed in feeds for output in feed.columns}
    by_feed = [_members(stage, feed, *source) for feed, source in zip(feeds, [(bag, columns), *others], strict=True)]
    if stage.whole and started:
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
        truth = evaluate([Output("kept", "bool", stage.having)], rows, names)
        rows = [row for row, (keep,) in zip(rows, truth, strict=True) if keep]
    return Counter(evaluate(stage.outputs, rows, names))


def _members(
    stage: GroupStage, feed: Feed, bag: Bag, columns: Sequence[Column]
) -> dict[Row, list[tuple[Mapping[str, Any], int]]]:
    """Returns the rows that enter through a feed, by column and with their multiplicities, per group."""
    groups: dict[Row, list[tuple[Mapping[str, Any], int]]] = {}
    for row, copies in enter(feed, bag, columns).items():
        named = {output.name: row[i] for i, output in enumerate(feed.columns)}
        groups.setdefault(tuple(named[key] for key in stage.keys), []).append((named, copies))
    return groups
