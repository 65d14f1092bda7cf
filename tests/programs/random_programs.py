"""Random programs of groups, set operations and sums over two relations."""

from __future__ import annotations

from random import Random

from plans.expressions.build import NULL, call, cast, col, lit
from plans.plan import Output
from plans.program import Program
from plans.programs.stages import Aggregate, Feed, GroupStage, LinearStage, PointwiseStage, Stage
from plans.programs.wiring import used_columns
from plans.schema import Column, Table
from tests.stages import random_groups

Columns = tuple[Column, ...]


def plain(source: str | int, columns: Columns) -> Feed:
    """All columns of a source, as they are."""
    return Feed(source, tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))


def columns_of(outputs: tuple[Output, ...]) -> Columns:
    """The columns that expressions make."""
    return tuple(Column(output.name, output.type) for output in outputs)


def grouped(random: Random, source: int, columns: Columns) -> GroupStage:
    """A group stage over another: counts and extremes by one of its columns, or by none."""
    keys = tuple(c.name for c in random.sample(columns, random.randint(0, 1)))
    calls = [Aggregate("n", "int64", "count")]
    for i, column in enumerate(random.sample(columns, min(2, len(columns)))):
        function = random.choice(["min", "max", "count"])
        type_ = "int64" if function == "count" else column.type
        calls.append(Aggregate(f"b{i}", type_, function, (column.name,), function == "count"))
    types = {c.name: c.type for c in columns}
    outputs = [Output(f"k_{key}", types[key], col(key, types[key])) for key in keys]
    outputs += [Output(f"v_{a.name}", a.type, col(a.name, a.type)) for a in calls]
    having = call("gt", col("n", "int64"), lit(1, "int64")) if random.random() < 0.3 else None
    return GroupStage(plain(source, columns), keys, tuple(calls), tuple(outputs), having, whole=not keys)


def reads_all(made: Program) -> bool:
    """True iff every column of the relations is read; else a delete of an absent row may look like one of a present."""
    used = used_columns(made, whole=False)
    return all(used[table.name.lower()] == table.columns for table in made.tables)


def program(random: Random, columns: Columns) -> Program:
    """Two to four stages; both relations have the ``columns``."""
    stages: list[Stage] = []
    made: list[Columns] = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(["group", "pointwise", "linear"]) if stages else "group"
        if (kind == "group" and random.random() < 0.6) or not stages:
            stage = random_groups.stage(random, columns)
            feed = Feed(random.choice("rS"), stage.feed.columns, stage.feed.where)
            stage = GroupStage(feed, stage.keys, stage.aggregates, stage.outputs, stage.having, stage.whole)
            stages.append(stage)
            made.append(columns_of(stage.outputs))
        elif kind == "group":
            source = random.randrange(len(stages))
            stages.append(grouped(random, source, made[source]))
            made.append(columns_of(stages[-1].outputs))  # type: ignore[union-attr]
        elif kind == "pointwise":
            leaves = tuple(plain(random.choice("rS"), columns) for _ in range(2))
            source = random.randrange(len(stages))
            if random.random() < 0.5:
                leaves = (plain(source, made[source]), plain(source, made[source]))
            operator = random.choice(["union", "union_all", "except", "intersect_all", "except_all"])
            stages.append(PointwiseStage(leaves, (operator, 0, ("distinct", 1))))
            made.append(columns_of(leaves[0].columns))
        else:
            source = random.randrange(len(stages))
            first = plain(source, made[source])
            nulls = tuple(Output(c.name, c.type, cast(NULL, c.type)) for c in made[source])
            stages.append(LinearStage((first, Feed(random.choice("rS"), nulls), first)))
            made.append(made[source])
    tables = tuple(Table(name, columns) for name in "rS")
    return Program("a program", tables, tuple(stages))
