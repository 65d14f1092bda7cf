"""Random group stages over one relation, and random changes of it."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

from plans.expressions.build import call, col, lit
from plans.plan import Output
from plans.programs.frames import Order
from plans.programs.stages import Aggregate, Feed, GroupStage
from plans.schema import Column
from tests.models import normalise

Row = tuple[Any, ...]

POOLS: dict[str, tuple[Any, ...]] = {
    "int64": (0, 1, 2, -7, 12, 2**40, -(2**41) - 5),
    "int32": (0, 1, -3, 2**31 - 1, -(2**31)),
    "float64": (0.0, -0.0, 1.5, -2.25, 1048576.0, 0.125, -3.0),
    "decimal(10,2)": (Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99"), Decimal("3.25")),
    "decimal(38,4)": (
        Decimal("0.0000"),
        Decimal("-1.5000"),
        Decimal("9" * 25 + ".1234"),
        Decimal(-(10**24)),
        Decimal(7),
    ),
    "string": ("", "a", "a" * 8, "ab", "ä€", "a\0", "z" * 9),
    "binary": (b"", b"\x00", b"a\xff", b"a\x7f", b"\xff"),
    "bool": (False, True),
    "date": (dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1903, 12, 17)),
    "timestamp_ntz": (
        dt.datetime(1970, 1, 1),
        dt.datetime(1903, 12, 17, 10, 35, 0, 1),
        dt.datetime(2024, 3, 31, 2, 30),
    ),
}
SPECIAL = (math.nan, math.inf, -math.inf)
NUMBERS = ("int64", "int32", "float64", "decimal(10,2)", "decimal(38,4)")
TWO = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy",
       "regr_sxx", "regr_syy", "regr_sxy", "regr_count")  # fmt: skip
ONE = ("var_pop", "var_samp", "stddev_pop", "stddev_samp",
       "skewness", "skewness_samp", "kurtosis", "kurtosis_samp")  # fmt: skip
SUMS = {"int64": "int64", "int32": "int64", "float64": "float64", "decimal(10,2)": "decimal(20,2)",
        "decimal(38,4)": "decimal(38,4)"}  # fmt: skip


def relation(random: Random) -> tuple[Column, ...]:
    """Columns: a boolean, two numbers, one or two of any type."""
    types = ["bool", *random.choices(NUMBERS, k=2), *random.choices(list(POOLS), k=random.randint(1, 2))]
    return tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))


def aggregates(random: Random, columns: tuple[Column, ...]) -> tuple[Aggregate, ...]:
    """One to five aggregates of any kind."""
    numbers = [column for column in columns if column.type in NUMBERS]
    found = [Aggregate("a0", "int64", "count")]
    for i in range(1, random.randint(2, 6)):
        kind = random.choice(["sum", "sum", "avg", "extreme", "extreme", "count", "one", "two", "ordered"])
        where = "c0" if random.random() < 0.3 else None
        distinct = random.random() < 0.3 and kind in ("sum", "avg", "count")
        x = random.choice(columns if kind in ("extreme", "count") else numbers)
        if kind == "sum":
            found.append(Aggregate(f"a{i}", SUMS[x.type], "sum", (x.name,), distinct, where))
        elif kind == "avg":
            found.append(Aggregate(f"a{i}", "float64", "avg", (x.name,), distinct, where))
        elif kind == "extreme":
            found.append(Aggregate(f"a{i}", x.type, random.choice(["min", "max"]), (x.name,), False, where))
        elif kind == "count":
            found.append(Aggregate(f"a{i}", "int64", "count", (x.name,), distinct, where))
        elif kind == "ordered":
            found.append(_ordered(random, f"a{i}", columns, numbers, where))
        elif kind == "one":
            found.append(Aggregate(f"a{i}", "float64", random.choice(ONE), (x.name,), False, where))
        else:
            function, y = random.choice(TWO), random.choice(numbers)
            type_ = "int64" if function == "regr_count" else "float64"
            found.append(Aggregate(f"a{i}", type_, function, (y.name, x.name), False, where))
    return tuple(found[random.randint(0, 1) if len(found) > 1 else 0 :])


def _ordered(
    random: Random, name: str, columns: tuple[Column, ...], numbers: list[Column], where: str | None
) -> Aggregate:
    """A percentile, texts in order of some column, or bits; what else the columns do not allow."""
    x, by = random.choice(numbers), random.choice(columns)
    whole = [column for column in columns if column.type in ("int32", "int64")]
    texts = [column for column in columns if column.type == "string"]
    falling = random.random() < 0.5
    if texts and random.random() < 0.6:
        one, distinct = random.choice(texts), random.random() < 0.4
        order = (Order(one.name if distinct else by.name, falling, random.random() < 0.5),)
        return Aggregate(name, "string", "string_agg", (one.name,), distinct, where, None, ", ", order)
    if whole and random.random() < 0.4:
        one = random.choice(whole)
        return Aggregate(name, one.type, random.choice(["bit_and", "bit_or", "bit_xor"]), (one.name,), False, where)
    share = random.choice([0.0, 0.25, 0.5, 0.9, 1.0])
    if random.random() < 0.5:
        order = (Order(x.name, falling),) if falling else ()
        return Aggregate(name, x.type, "percentile_disc", (x.name,), False, where, share, None, order)
    return Aggregate(name, "float64", "percentile", (x.name,), False, where, share)


def stage(random: Random, columns: tuple[Column, ...]) -> GroupStage:
    """GROUP BY up to two columns, or none; perhaps with HAVING, computed columns, hidden keys, a filter before."""
    keys = tuple(column.name for column in random.sample(columns, random.randint(0, 2)))
    types = {column.name: column.type for column in columns}
    calls = aggregates(random, columns)
    outputs = [Output(name, types[name], col(name, types[name])) for name in keys if random.random() < 0.8]
    outputs += [Output(a.name, a.type, col(a.name, a.type)) for a in calls]
    counted = next((a for a in calls if a.type == "int64" and a.function == "count"), None)
    having = None
    if counted is not None:
        count = col(counted.name, "int64")
        if random.random() < 0.4:
            having = call(random.choice(["gt", "lt"]), count, lit(2, "int64"))
        if random.random() < 0.4:
            product = call("mul", count, lit(3, "int64"))
            outputs.append(Output("o", product.type, product))
    where = call("isnull", col("c1", types["c1"])) if random.random() < 0.2 else None
    if where is not None:
        where = call("not", where)
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns), where)
    return GroupStage(feed, keys, calls, tuple(outputs), having, whole=not keys)


def row(random: Random, columns: tuple[Column, ...], special: bool) -> Row:
    """A row with few different values; NULL among them."""
    values = []
    for column in columns:
        pool: tuple[Any, ...] = POOLS[column.type]
        if special and column.type == "float64":
            pool += SPECIAL
        values.append(
            None if random.random() < 0.15 else normalise(random.choice(pool[: random.randint(1, len(pool))]))
        )
    return tuple(values)


def batches(random: Random, columns: tuple[Column, ...], count: int, special: bool) -> list[Counter[Row]]:
    """Net batches that delete only what is there; the last one deletes everything."""
    present: Counter[Row] = Counter()
    made = []
    for _ in range(count):
        batch: Counter[Row] = Counter()
        for _ in range(random.choice([0, 1, 3, 12])):
            batch[row(random, columns, special)] += random.choice([1, 1, 2])
        for known in random.sample(sorted(present, key=repr), min(len(present), random.choice([0, 1, 4]))):
            batch[known] -= random.randint(1, present[known])
        batch = Counter({known: weight for known, weight in batch.items() if weight})
        present.update(batch)
        present = +present
        made.append(batch)
    made.append(Counter({known: -copies for known, copies in present.items()}))
    return made
