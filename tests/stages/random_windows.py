"""Random over stages over one relation, and the SQL that they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

from plans.expressions.build import call, col
from plans.plan import Output
from plans.programs.frames import CHOSEN, ENDS, VALUED, Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column
from tests.stages import random_groups
from tests.stages.random_groups import NUMBERS, ONE, SUMS, TWO

MOVABLE = ("int64", "int32", "float64", "decimal(10,2)", "date", "timestamp_ntz")
DAYS = ("date", "timestamp_ntz")
_OFFSETS = {"float64": (0.25, 1.5, 3.0, 1e6), "date": (1, 400, 40_000), "timestamp_ntz": (1, 10**9, 10**16)}


def frame(random: Random, columns: tuple[Column, ...], order: tuple[Order, ...]) -> Frame:
    """A frame that the order allows."""
    types = {column.name: column.type for column in columns}
    unit = random.choice(["rows", "rows", "range", "groups"])
    exclude = random.choice(["", "", "", "row", "group", "ties"])
    offsets: tuple[float, ...] = (0, 1, 2, 5)
    if unit == "range":
        type_ = types[order[0].column] if len(order) == 1 else ""
        offsets = (0, *_OFFSETS.get(type_, (1, 2, 100, 2**40))) if type_ in MOVABLE else (0,)
        if type_ in DAYS and random.random() < 0.5:
            unit, offsets = "months", (0, 1, 2, 649, 50_000)
    start = random.choice([None, *(-o for o in offsets), *offsets])
    end = random.choice([None, *offsets, *(-o for o in offsets)])
    if start is not None and end is not None and start > end:
        start, end = end, start
    return Frame(unit, start, end, exclude)


def functions(random: Random, columns: tuple[Column, ...], order: tuple[Order, ...]) -> tuple[WindowFunction, ...]:
    """One to four window functions of any kind."""
    found = []
    for i in range(random.randint(1, 4)):
        name, x = f"w{i}", random.choice(columns)
        kind = random.choice(["rank", "whole", "near", "pick", "pick", "end", "sum", "sum", "sum", "read", "read"])
        where = "c0" if random.random() < 0.3 else None
        if kind == "rank":
            found.append(WindowFunction(name, "int32", random.choice(["row_number", "rank", "dense_rank"])))
        elif kind == "whole":
            function = random.choice(["percent_rank", "cume_dist", "ntile"])
            type_ = "int32" if function == "ntile" else "float64"
            found.append(WindowFunction(name, type_, function, count=random.randint(1, 4) * (function == "ntile")))
        elif kind == "near":
            same = [column.name for column in columns if column.type == x.type]
            default = random.choice([None, random.choice(same)])
            function, count = random.choice(["lag", "lead"]), random.choice([0, 1, 1, 2, 5])
            found.append(WindowFunction(name, x.type, function, (x.name,), count=count, default=default))
        elif kind == "pick":
            function = random.choice(["first_value", "last_value", "nth_value"])
            count = random.randint(1, 4) if function == "nth_value" or random.random() < 0.2 else 0
            made = WindowFunction(name, x.type, function, (x.name,), where, frame(random, columns, order), count)
            same = [column.name for column in columns if column.type == x.type]
            found.append(replace(made, default=random.choice(same)) if random.random() < 0.1 else made)
        elif kind == "end":
            function = random.choice(ENDS)
            found.append(WindowFunction(name, x.type, function, (x.name,), where, frame(random, columns, order)))
        elif kind == "sum":
            found.append(_sum(random, name, columns, where, frame(random, columns, order)))
        else:
            found.append(_of_groups(random, name, columns, where, frame(random, columns, order)))
    return tuple(found)


def _of_groups(
    random: Random, name: str, columns: tuple[Column, ...], where: str | None, seen: Frame
) -> WindowFunction:
    """An aggregate that groups have, and that reads the values of its frame."""
    if random.random() < 0.3:
        x, y, function = random.choice(columns), random.choice(columns), random.choice(CHOSEN)
        arguments = (x.name,) if function == "mode" else (x.name, y.name)
        return WindowFunction(name, x.type, function, arguments, where, seen)
    made = (one for _ in count() for one in random_groups.aggregates(random, columns))
    return next(found for found in (replace(one, name=name).over(seen) for one in made) if found.gathered)


def _sum(random: Random, name: str, columns: tuple[Column, ...], where: str | None, seen: Frame) -> WindowFunction:
    numbers = [column for column in columns if column.type in NUMBERS]
    x, y, kind = random.choice(numbers), random.choice(numbers), random.choice(["count", "sum", "sum", "avg", "1", "2"])
    if kind == "count":
        arguments = random.choice([(), (x.name,)])
        return WindowFunction(name, "int64", "count", arguments, where, seen)
    if kind == "sum":
        return WindowFunction(name, SUMS[x.type], "sum", (x.name,), where, seen)
    if kind == "2":
        function = random.choice(TWO)
        type_ = "int64" if function == "regr_count" else "float64"
        return WindowFunction(name, type_, function, (y.name, x.name), where, seen)
    return WindowFunction(name, "float64", "avg" if kind == "avg" else random.choice(ONE), (x.name,), where, seen)


def stage(random: Random, columns: tuple[Column, ...]) -> OverStage:
    """An over stage of any order, partition and functions."""
    keys = tuple(column.name for column in random.sample(columns, random.choice([0, 1, 1, 1, 2])))
    ordered = random.sample(columns, random.choice([0, 1, 1, 1, 1, 2, len(columns)]))
    order = tuple(Order(c.name, random.random() < 0.5, random.random() < 0.5) for c in ordered)
    where = call("not", call("isnull", col("c1", columns[1].type))) if random.random() < 0.2 else None
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns), where)
    return OverStage(feed, keys, order, functions(random, columns, order), random.choice([0, 0, 1, 2]))


def sql_of(planned: OverStage) -> str | None:
    """The query that a stage is; None where DuckDB leaves open which peer comes first, or rounds more than once."""
    types = {output.name: output.type for output in planned.feed.columns}
    said = [_order(o.column, o.falling, o.nulls_last) for o in planned.order]
    every = [*said, *(_order(n, False, False) for n in types if n not in {o.column for o in planned.order})]
    by = f"PARTITION BY {', '.join(planned.keys)} " if planned.keys else ""
    shown = [output.name for output in planned.shown]
    for one in planned.functions:
        seen, inner = one.frame, ", ".join(one.arguments)
        plain = one.function == "nth_value" or not one.count
        if one.function.endswith("_value") and (one.default or one.where or not plain):
            return None
        if one.function in ("ntile", "lag", "lead", "nth_value"):
            inner = ", ".join([*one.arguments, str(one.count), *([one.default] if one.default else [])])
        total = one.function in ("row_number", "ntile", "lag", "lead") or (seen is not None and seen.unit == "rows")
        if one.function in (*ONE, *TWO, "avg") or (one.gathered and one.function != "count"):
            return None
        if one.function == "sum" and types[one.arguments[0]] == "float64":
            return None
        moved = seen is not None and seen.unit in VALUED and (seen.start or seen.end)
        if moved and types[planned.order[0].column] == "int32":
            return None  # its bounds may be no INTEGER
        if seen is not None and (seen.exclude in ("group", "ties") if total else one.function.endswith("_value")):
            return None
        where = f" FILTER (WHERE {one.where})" if one.where else ""
        order = ", ".join(every if total else said)
        clause = "" if seen is None else _frame(seen, types[planned.order[0].column] if planned.order else "")
        if one.function == "count" and not one.arguments:
            inner = "*"
        inner = f"DISTINCT {inner}" if one.distinct else inner
        shown.append(f"{one.function}({inner}){where} OVER ({by}{'ORDER BY ' if order else ''}{order}{clause})")
    where = f" WHERE {planned.feed.where}" if planned.feed.where is not None else ""
    return f"SELECT {', '.join(shown)} FROM r{where}"


def _order(name: str, falling: bool, nulls_last: bool) -> str:
    return f"{name} {'DESC' if falling else 'ASC'} NULLS {'LAST' if nulls_last else 'FIRST'}"


def _frame(seen: Frame, type_: str) -> str:
    def bound(value: float | None, side: str) -> str:
        if value is None:
            return f"UNBOUNDED {side}"
        size: object = abs(value)
        if seen.unit in VALUED and value != 0:
            units = (
                {"date": "days", "timestamp_ntz": "microseconds"}
                if seen.unit == "range"
                else dict.fromkeys(DAYS, "months")
            )
            size = f"INTERVAL '{size} {units[type_]}'" if type_ in units else size
            size = f"{abs(value) / 100}" if type_.startswith("decimal") else size
        return "CURRENT ROW" if value == 0 else f"{size} {'PRECEDING' if value < 0 else 'FOLLOWING'}"

    excluded = {"": "", "row": " EXCLUDE CURRENT ROW"}.get(seen.exclude, f" EXCLUDE {seen.exclude.upper()}")
    unit = "range" if seen.unit in VALUED else seen.unit
    return f" {unit} BETWEEN {bound(seen.start, 'PRECEDING')} AND {bound(seen.end, 'FOLLOWING')}{excluded}"
