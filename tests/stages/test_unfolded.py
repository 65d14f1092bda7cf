"""Deltas of running functions as rows, after every batch: kernel = twin = DuckDB, and a net that no one has netted."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest

import crown
from crown.errors import ChangeError
from crown.kernels.memory import arena as A
from crown.stages.over.stage import Over
from crown.store.records import SLICE
from crown.store.zset import Zset
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.frames import Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column, Table
from tests.marks import seeds
from tests.models.over import over
from tests.models.program import enter
from tests.oracles import duck
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_groups, random_windows
from tests.stages.harness import bag_of, net_of, parts
from tests.stages.test_shifts import running

Row = tuple[Any, ...]
PLAIN = (Column("k", "int64"), Column("x", "int64"), Column("s", "int64"))


def running_of(functions: tuple[WindowFunction, ...], hidden: int = 0) -> OverStage:
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in PLAIN))
    return OverStage(feed, ("k",), (Order("x", False, False),), functions, hidden)


def is_a_net(rows: Zset) -> bool:
    """Each tuple once, none with weight 0, what goes before what comes."""
    goes = rows.weights < 0
    distinct = len(np.unique(rows.rows, axis=0)) == len(rows)
    return distinct and bool((rows.weights != 0).all()) and not bool((goes[1:] & ~goes[:-1]).any())


@pytest.mark.parametrize("seed", seeds(8, 600))
def test_rows_are_those_of_the_twin_and_of_duckdb(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned, _ = running(random, columns)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    query = random_windows.sql_of(planned)
    database, result = Database({"r": Table("r", columns)}), Counter[Row]()
    for batch in random_groups.batches(random, columns, 12, special=True):
        given = net_of(batch, columns, part)
        for found in (stage.apply([given]), stage.undo([given]), stage.apply([given])):
            assert is_a_net(found)
        database.apply({"r": list(batch.items())})
        wanted = over(planned, enter(planned.feed, database.rows["r"], columns))
        assert bag_of([found], stage.columns, part) == difference(wanted, result)
        assert query is None or wanted == duck.results(query, database), query
        result = wanted
        stage.check_invariants()


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_copies_and_peers_of_any_number_move(seed: int) -> None:
    unit, hidden = ["rows", "range"][seed % 2], seed // 2 % 2
    functions = (
        WindowFunction("a", "int64", "sum", ("s",), frame=Frame(unit, None, 0)),
        WindowFunction("b", "int64", "count", ("s",), frame=Frame(unit, None, 0)),
        WindowFunction("c", "int32", "rank"),
        WindowFunction("d", "int32", "dense_rank"),
    )
    random, planned = Random(seed), running_of(functions, hidden)
    (part,) = parts(1)
    stage = Over(planned, PLAIN, part)
    database, result = Database({"r": Table("r", PLAIN)}), Counter[Row]()
    for _ in range(12):
        batch: Counter[Row] = Counter()
        for _ in range(random.choice([1, 2, 30])):
            row = random.randrange(2), random.randrange(4), random.choice([None, 0, 0, 1, -1])
            there = database.rows["r"][row] + batch[row]
            batch[row] += random.choice([-there, -min(there, 1), 1, 1, 3])
        batch = Counter({row: n for row, n in batch.items() if n})
        found = stage.apply([net_of(batch, PLAIN, part)])
        assert is_a_net(found)
        database.apply({"r": list(batch.items())})
        wanted = over(planned, enter(planned.feed, database.rows["r"], PLAIN))
        assert bag_of([found], stage.columns, part) == difference(wanted, result)
        result = wanted


@pytest.mark.parametrize("unit", ["rows", "range"])
def test_a_change_costs_the_rows_that_it_delivers(unit: str) -> None:
    functions = (
        WindowFunction("a", "int64", "sum", ("s",), frame=Frame(unit, None, 0)),
        WindowFunction("b", "int32", "rank"),
    )
    (part,) = parts(1)
    stage = Over(running_of(functions), PLAIN, part)
    rows = 50_000
    stage.apply([net_of(Counter({(0, x // 3, x): 1 for x in range(rows)}), PLAIN, part)])
    for behind in (0, 10, 1_000):
        before = int(part.arena[A.H_STEPS])
        found = stage.apply([net_of(Counter({(0, (rows - behind) // 3, rows): 1}), PLAIN, part)])
        assert int(part.arena[A.H_STEPS]) - before <= len(found) + 300
    before = int(part.arena[A.H_STEPS])
    assert len(stage.apply([net_of(Counter({(1, 0, 0): 1}), PLAIN, part)])) == 1
    assert int(part.arena[A.H_STEPS]) - before <= 20


@pytest.mark.parametrize("function", ["rank", "dense_rank"])
def test_a_rank_among_many_peers_costs_the_logarithm(function: str) -> None:
    (part,) = parts(1)
    stage = Over(running_of((WindowFunction("b", "int32", function),)), PLAIN, part)
    stage.apply([net_of(Counter({(0, 1, s): 1 for s in range(50_000)}), PLAIN, part)])
    for row in ((0, 1, -1), (0, 1, 25_000), (0, 1, 60_000)):
        before = int(part.arena[A.H_STEPS])
        assert len(stage.apply([net_of(Counter({row: 1}), PLAIN, part)])) == 1
        assert int(part.arena[A.H_STEPS]) - before <= 300


def rows_of(view: crown.View) -> list[Row]:
    return [tuple(row.values()) for batch in view.results(weighted=True) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("type_", "each", "most"), [("int64", 2**62, 2**63 - 1), ("decimal(8,0)", 10**8 - 1, 10**18 - 1)]
)
def test_a_sum_that_leaves_its_type_is_refused_and_nothing_has_changed(type_: str, each: int, most: int) -> None:
    view = crown.view(
        "SELECT x, s, SUM(s) OVER (ORDER BY x) AS a FROM r", {"r": {"x": "int64", "s": type_}}, on_missing="raise"
    )
    copies = most // each
    value: list[Any] = [Decimal(each) if type_ != "int64" else each]
    for at in range(0, copies, 10**9):
        view.apply({"r": {"x": [5], "s": value, "_weight": [min(copies - at, 10**9)]}})
    kept, more = rows_of(view), {"s": value}
    for given in ({"x": [7]}, {"x": [1]}, {"x": [5], "_weight": [2]}):
        with pytest.raises(ChangeError, match=r"SUM\(s\)"):
            view.apply({"r": {**more, **given}})
        assert rows_of(view) == kept
    view.apply({"r": {"x": [5], **more, "_weight": [-1]}})
    view.apply({"r": {"x": [7], **more}})
    assert rows_of(view)[-1][2] == each * copies


@pytest.mark.parametrize("nulls", [0, 3])
def test_a_long_delta_keeps_its_values_whatever_comes_next(nulls: int) -> None:
    """Its arrays lie over the memory that the kernel wrote."""
    n = SLICE + 10
    view = crown.view(
        "SELECT x, s, SUM(s) OVER w AS a, RANK() OVER w AS b FROM r WINDOW w AS (ORDER BY x)",
        {"r": {"x": "int64", "s": "int64"}},
    )
    view.amplified_beyond = None
    view.apply({"r": {"x": list(range(n)), "s": [None if x < nulls else x % 7 for x in range(n)]}})
    result = Counter({tuple(row): weight for *row, weight in rows_of(view)})
    deltas = [view.apply({"r": {"x": [x], "s": [s]}}) for x, s in ((-1, None), (-2, 1))]
    for delta in deltas:
        assert delta.num_rows > 2 * n
        for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
            result[tuple(row)] += weight
    assert +result == Counter({tuple(row): weight for *row, weight in rows_of(view)})
    assert min(result.values()) >= 0
