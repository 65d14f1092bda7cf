"""The readable twin of the stages: every stage recomputed from its definition, over bags of plain Python values.

A bag is a Counter: row -> multiplicity. Nothing here is incremental, and nothing is shared with the kernels but the
evaluation of scalar expressions.
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
    array = exploded_column(feed)
    outputs = [array if array is not None and o.expr.op == EXPLODE else o for o in feed.columns]
    for row, made in zip(rows, evaluated(outputs, rows, columns), strict=True):
        place = len(made) if array is None else outputs.index(array)
        for element in (None,) if array is None else made[place] or ():
            out[(*made[:place], element, *made[place + 1 :]) if array is not None else made] += feed.weight * bag[row]
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
        elif isinstance(stage, OverStage):
            of = source(stage.feed)
            bags[number] = over(stage, fed(stage.feed, bags[of], columns[of]))
            made = outputs_of(stage)
        elif isinstance(stage, TopStage):
            of = source(stage.feed)
            bags[number] = top(stage, bags[of], columns[of])
            made = outputs_of(stage)
        elif isinstance(stage, SingleStage):
            of = source(stage.feed)
            bags[number] = single(stage, bags[of], columns[of])
            made = outputs_of(stage)
        elif isinstance(stage, BandStage):
            sides = [(feed, source(feed)) for feed in (stage.bands, stage.points)]
            bags[number] = band(stage, *(fed(feed, bags[of], columns[of]) for feed, of in sides))
            made = outputs_of(stage)
        elif isinstance(stage, SliceStage):
            of = source(stage.feed)
            bags[number] = sliced(stage, fed(stage.feed, bags[of], columns[of]))
            made = outputs_of(stage)
        elif isinstance(stage, TimedStage):
            of, clock = source(stage.feed), source(stage.clock)
            bags[number] = timed(stage, (bags[of], bags[clock]), (columns[of], columns[clock]))
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
    found: Bag = Counter()
    for rows in partitions(stage, fed(stage.feed, bag, columns)):
        for row in rows[stage.offset : stage.offset + stage.limit]:
            found[row[: len(row) - stage.hidden]] += 1
    return found


def single(stage: SingleStage, bag: Bag, columns: Sequence[Column]) -> Bag:
    """Returns the rows that enter, whose source is ``bag``. SeveralRowsError if two of them have the same keys."""
    found = fed(stage.feed, bag, columns)
    place = [[output.name for output in stage.feed.columns].index(key) for key in stage.keys]
    keys = Counter(tuple(row[at] for at in place) for row in found.elements())
    if any(rows > 1 for rows in keys.values()):
        raise SeveralRowsError(f"a value of {stage.keys} has several rows")
    return found


def timed(stage: TimedStage, bags: Sequence[Bag], columns: Sequence[Sequence[Column]]) -> Bag:
    """Returns the rows whose period has the time in it; ``bags`` are those of the rows and of the clock."""
    place = {output.name: i for i, output in enumerate(stage.feed.columns)}
    found: Bag = Counter()
    for (now,) in fed(stage.clock, bags[1], columns[1]):
        for row, copies in fed(stage.feed, bags[0], columns[0]).items():
            begun = stage.since is None or row[place[stage.since]] <= now
            if begun and (stage.until is None or now < row[place[stage.until]]):
                found[row[: len(row) - stage.hidden]] += copies
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
