"""AsOfJoin of Spark: joined DataFrames and Spark's SQL give the rows that Spark has, after every batch with deletes.

Times are of a set of which no one is in the middle of two others, and the right side has one row for each time: so one
row is the nearest.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import functions as F
from pyspark.sql.internal import InternalFunction

import crown
import crown.spark
import plans
from plans.errors import PlanError
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of
from tests.marks import slow
from tests.spark.pipelines.shop import table
from tests.spark.streams import ChangeFiles, batch_of, oracle_of, run

POINTS = (0, 1, 3, 4, 9, 10, 12, 13, 27, 28, 30, 31)
DAY = dt.date(2024, 2, 20)
NOON = dt.datetime(2024, 2, 20, 12)
TIMES: dict[str, tuple[str, Callable[[int], Any], tuple[str, ...]]] = {
    "int64": ("long", lambda at: at, ("3L", "0L")),
    "int32": ("int", lambda at: at, ("3",)),
    "float64": ("double", lambda at: at / 4, ("0.75d", "1")),
    "decimal(6,2)": ("decimal(6,2)", lambda at: Decimal(at) / 4, ("0.75", "1")),
    "date": ("date", lambda at: DAY + dt.timedelta(days=at), ("3", "INTERVAL '3' DAY")),
    "timestamp_ntz": (
        "timestamp_ntz",
        lambda at: NOON + dt.timedelta(hours=at),
        ("INTERVAL '3' HOUR", "INTERVAL '1 06' DAY TO HOUR"),
    ),
}
NAMES = {"l": ("k", "at", "x"), "r": ("k", "at", "p")}
DIRECTIONS = ("backward", "forward", "nearest")
ASOF_IN_SQL = "spark.sql.join.asofJoin.enabled"


class Sides:
    """Two tables that change, as temporary views and as batches."""

    def __init__(self, spark, type_: str, seed: int) -> None:
        self.spark, self.random, self.n = spark, random.Random(seed), 0
        spelled, self.at, self.tolerances = TIMES[type_]
        self.schema = Schema.of({
            "l": {"k": "int64", "at": type_, "x": "int64"}, "r": {"k": "int64", "at": type_, "p": "int64"},
        })  # fmt: skip
        self.columns = {"l": f"k long, at {spelled}, x long", "r": f"k long, at {spelled}, p long"}
        self.rows: dict[str, list[tuple[Any, ...]]] = {"l": [], "r": []}
        self.show()

    def show(self) -> None:
        """Gives Spark the rows that there are."""
        for name, rows in self.rows.items():
            self.spark.createDataFrame(rows, self.columns[name]).createOrReplaceTempView(name)

    def change(self) -> dict[str, list[tuple[Any, ...]]]:
        """Deletes a third of the rows and inserts others; returns them with their weights."""
        batch = {}
        for name, rows in self.rows.items():
            gone = self.random.sample(rows, len(rows) // 3)
            there = Counter(rows) - Counter(gone)
            new = [self._row() for _ in range(10)]
            if name == "r":
                taken = {row[1] for row in there}
                new = list({row[1]: row for row in new if row[1] not in taken}.values())
            self.rows[name] = [*there.elements(), *new]
            batch[name] = [*((*row, -1) for row in gone), *((*row, 1) for row in new)]
        self.show()
        return batch

    def _row(self) -> tuple[Any, ...]:
        self.n += 1
        at = self.random.choice([*POINTS, None])
        return self.random.choice([1, 2, None]), None if at is None else self.at(at), self.n % 7

    def joined(self, on: Any = None, **options: Any) -> Any:
        """The DataFrame."""
        left, right = self.spark.table("l").alias("a"), self.spark.table("r").alias("b")
        made = left._joinAsOf(right, F.col("a.at"), F.col("b.at"), on=on, **options)
        return made.select("a.k", "a.at", "x", F.col("b.k").alias("rk"), F.col("b.at").alias("seen"), "p")


def check(sides: Sides, frames: list[Callable[[], Any]]) -> None:
    """Views of what Spark reads have after a batch of deletes what Spark has."""
    views = [crown.view(plans.program(relation_of(sides.spark, frame(), sides.schema))) for frame in frames]
    for _ in range(2):
        batch = {
            name: [dict(zip((*NAMES[name], "_weight"), row, strict=True)) for row in rows]
            for name, rows in sides.change().items()
        }
        for view in views:
            view.apply(batch)
            view.check_invariants()
    wanted = [Counter(map(tuple, frame().collect())) for frame in frames]
    assert [bag(view) for view in views] == wanted
    assert any(row[-1] is not None for rows in wanted for row in rows)


def bag(view: crown.View) -> Counter[tuple[Any, ...]]:
    """The rows of a view."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in view.to_table().to_pylist():
        found[tuple(value for name, value in row.items() if name != "_weight")] += row.get("_weight", 1)
    return found


@pytest.mark.parametrize(
    ("type_", "direction", "first"),
    [("int64", "nearest", 2), *(slow(*case, 0) for case in product(TIMES, DIRECTIONS))],
)
def test_joined_dataframes_are_those_of_spark(spark, type_: str, direction: str, first: int) -> None:
    sides = Sides(spark, type_, seed=len(type_) + len(direction))
    tolerance = F.expr(sides.random.choice(sides.tolerances))
    options = [
        {"direction": direction},
        {"on": "k", "how": "left", "direction": direction, "tolerance": tolerance},
        {"on": "k", "direction": direction, "tolerance": tolerance, "allowExactMatches": False},
        {"how": "left", "direction": direction, "allowExactMatches": False},
    ]
    check(sides, [lambda given=given: sides.joined(**given) for given in options[first:]])


def test_a_join_in_sparks_sql_is_the_same_by_both_readers(spark) -> None:
    """Without LEFT rows that have no partner are dropped, also with MATCH_CONDITION."""
    spark.conf.set(ASOF_IN_SQL, "true")
    sides = Sides(spark, "int64", seed=4)
    joins = (
        "ASOF JOIN r MATCH_CONDITION (l.at >= r.at) ON l.k = r.k",
        "LEFT ASOF JOIN r MATCH_CONDITION (r.at > l.at)",
        "LEFT OUTER ASOF JOIN r MATCH_CONDITION (l.at + 1 > r.at) ON l.k = r.k",
        "INNER ASOF JOIN r MATCH_CONDITION (l.at <= r.at) USING (k)",
    )
    texts = [f"SELECT l.k, x, r.at, p FROM l {join}" for join in joins]
    try:
        spark.sql(texts[0])
    except ParseException:
        pytest.skip("this version of Spark has no ASOF JOIN in SQL")
    check(sides, [lambda text=text: spark.sql(text) for text in texts])
    for text in texts:
        own, theirs = plans.program(text, sides.schema), plans.program(relation_of(spark, text, sides.schema))
        assert own.stages == theirs.stages


def test_a_join_of_dataframes_in_cells_and_in_a_pipeline(spark, tmp_path: Path) -> None:
    sides = Sides(spark, "int64", seed=5)
    files = ChangeFiles(tmp_path / "in", sides.schema)
    query = sides.joined("k", how="left", tolerance=F.lit(4)).select("a.k", "a.at", "x", "p")
    made = crown.spark.pipeline(spark, tmp_path / "pipeline")
    for name in NAMES:
        made.source(name, lambda name=name: spark.createDataFrame(sides.rows[name], sides.columns[name]))
    made.view("v", lambda: query)
    text = """SELECT l.k, l.at, x, CASE WHEN r.at >= l.at - 4 THEN p END AS p
        FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.at >= r.at"""
    oracle, changes = oracle_of(sides.schema, text), []
    for _ in range(3):
        changes.append(sides.change())
        files.add(changes[-1])
        oracle.apply(batch_of(changes[-1]))
        made.run()
        assert table(tmp_path / "pipeline" / "tables" / "v") == oracle.result
    sink, oracle = run(spark, query, files, tmp_path / "state", cells=2), oracle_of(sides.schema, text)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result


def test_numbers_of_rows_that_pandas_on_spark_adds_are_left_out_unless_they_are_read(spark) -> None:
    sides = Sides(spark, "int64", seed=6)

    def merged() -> Any:
        left, right = (
            spark.table(name).select(InternalFunction.distributed_sequence_id().alias(f"i{name}"), "*") for name in "lr"
        )
        left, right = (side.withColumn("order", F.monotonically_increasing_id()) for side in (left, right))
        return left._joinAsOf(right, left["at"], right["at"], left["k"] == right["k"], "left").select("x", "il", "p")

    check(sides, [lambda: merged().drop("il")])
    with pytest.raises(PlanError, match="AttachDistributedSequence of Spark's plan is not supported"):
        relation_of(spark, merged(), sides.schema)


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("a.k > b.k", "needs one condition with >=, >, <= or <, and has 2"),
        ("a.k <=> b.k", "must be =, >=, >, <= or < of a value of the left side and one of"),
        ("b.p > 3", "must be =, >=, >, <= or < of a value of the left side and one of the right"),
    ],
)
def test_other_conditions_are_refused(spark, on: str, said: str) -> None:
    sides = Sides(spark, "int64", seed=1)
    with pytest.raises(PlanError, match="ASOF JOIN") as caught:
        relation_of(spark, sides.joined(F.expr(on)), sides.schema)
    assert said in str(caught.value)
