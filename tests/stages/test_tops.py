"""ORDER BY ... LIMIT after every batch: kernels = twin = DuckDB, for random orders, groups, windows, types, streams."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

import crown
import plans
from crown.errors import ChangeError, MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.stages.top import Top
from plans.expressions.build import call, col
from plans.plan import Output
from plans.programs.frames import Order
from plans.programs.stages import Feed, TopStage
from plans.schema import Column, Table
from plans.search.cells.cuts import by_output
from tests.marks import seeds
from tests.models.program import top
from tests.oracles import duck
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_groups
from tests.stages.harness import bag_of, net_of, parts, scanned

Row = tuple[Any, ...]


def random_stage(random: Random, columns: tuple[Column, ...]) -> TopStage:
    keys = tuple(column.name for column in random.sample(columns, random.choice([0, 1, 1, 2])))
    ordered = random.sample(columns, random.randint(1, len(columns)))
    order = tuple(Order(c.name, random.random() < 0.5, random.random() < 0.5) for c in ordered)
    where = None
    if random.random() < 0.2:
        where = call("not", call("isnull", col("c1", columns[1].type)))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns), where)
    hidden = random.choice([0, 0, 1, 2])
    return TopStage(feed, keys, order, random.choice([0, 1, 2, 3, 50]), random.choice([0, 0, 1, 4]), hidden)


def sql_of(stage: TopStage) -> str:
    names = [output.name for output in stage.feed.columns]
    said = [
        f"{o.column} {'DESC' if o.falling else 'ASC'} NULLS {'LAST' if o.nulls_last else 'FIRST'}" for o in stage.order
    ]
    said += [f"{n} ASC NULLS FIRST" for n in names if n not in {o.column for o in stage.order}]
    by = f"PARTITION BY {', '.join(stage.keys)} " if stage.keys else ""
    where = f" WHERE {stage.feed.where}" if stage.feed.where is not None else ""
    shown = ", ".join(names[: len(names) - stage.hidden])
    return (
        f"SELECT {shown} FROM r{where} QUALIFY ROW_NUMBER() OVER ({by}ORDER BY {', '.join(said)}) "
        f"BETWEEN {stage.offset + 1} AND {stage.offset + stage.limit}"
    )


@pytest.mark.parametrize("seed", seeds(8, 300))
def test_random_windows_are_those_of_the_twin_and_of_duckdb(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned = random_stage(random, columns)
    (part,) = parts(1)
    stage = Top(planned, columns, part)
    empty = int(part.arena[A.H_LIVE])
    database = Database({"r": Table("r", columns)})
    result: Counter[Row] = Counter()
    for batch in random_groups.batches(random, columns, 12, special=True):
        delta = bag_of([stage.apply([net_of(batch, columns, part)])], stage.columns, part)
        database.apply({"r": list(batch.items())})
        wanted = top(planned, database.rows["r"], columns)
        assert delta == difference(wanted, result)
        result = wanted
        assert scanned(stage, part) == wanted
        assert wanted == duck.results(sql_of(planned), database), sql_of(planned)
        stage.check_invariants()
        for row in random.sample(sorted(database.rows["r"], key=repr), min(3, len(database.rows["r"]))):
            shown = row[: len(stage.columns)]
            codes = net_of({shown: 1}, stage.columns, part).rows[0]
            assert stage.multiplicity(codes) == wanted[shown]
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


@pytest.mark.parametrize("seed", range(100, 110))
def test_a_batch_rolled_back_leaves_the_same_rows(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned = random_stage(random, columns)
    (part,) = parts(1)
    stage = Top(planned, columns, part)
    rows: Counter[Row] = Counter()
    for batch in random_groups.batches(random, columns, 10, special=True):
        before = scanned(stage, part)
        net = net_of(batch, columns, part)
        stage.apply([net])
        stage.undo([net])
        assert scanned(stage, part) == before
        stage.check_invariants()
        stage.apply([net])
        rows.update(batch)
        assert scanned(stage, part) == top(planned, +rows, columns)


COLUMNS = (Column("k", "int64"), Column("x", "int64"))
PLAIN = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in COLUMNS))


def test_a_change_costs_the_logarithm_of_its_group_and_what_crosses_the_window() -> None:
    random = Random(1)
    for limit in (1, 100, 10_000):
        (part,) = parts(1)
        stage = Top(TopStage(PLAIN, ("k",), (Order("x"),), limit), COLUMNS, part)
        n = 20_000
        rows = [(0, x) for x in random.sample(range(10 * n), n)]
        stage.apply([net_of([(row, 1) for row in rows], COLUMNS, part)])
        steps = stage.stats()["steps"]
        told = 0
        for start in range(0, 4000, 500):  # half of them replace rows in front
            gone = sorted(rows)[start : start + 250]
            come = [(0, -x - 1) for x in range(start, start + 250)]
            told += len(stage.apply([net_of([*((r, -1) for r in gone), *((r, 1) for r in come)], COLUMNS, part)]))
        changes = 8 * 500
        assert stage.stats()["steps"] - steps <= 4 * math.log2(n) * changes
        assert told <= 3 * changes
        stage.check_invariants()


@pytest.mark.parametrize("order", ["rising", "falling", "random"])
def test_the_tree_stays_low_whatever_the_order_of_rows_and_the_secret(order: str) -> None:
    n = 20_000
    values = list(range(n)) if order == "rising" else list(range(n, 0, -1))
    if order == "random":
        Random(2).shuffle(values)
    for _ in range(6):
        (part,) = parts(1)
        stage = Top(TopStage(PLAIN, (), (Order("x"),), 3), COLUMNS, part)
        for start in range(0, n, 2000):
            stage.apply([net_of([((0, x), 1) for x in values[start : start + 2000]], COLUMNS, part)])
        assert stage.stats()["steps"] <= 2 * math.log2(n) * n


def test_many_copies_of_a_row_are_one_step() -> None:
    (part,) = parts(1)
    stage = Top(TopStage(PLAIN, (), (Order("x"),), 10**6, 5), COLUMNS, part)
    stage.apply([net_of({(1, 1): 10**9, (1, 2): 3}, COLUMNS, part)])
    assert scanned(stage, part) == Counter({(1, 1): 10**6})
    delta = bag_of([stage.apply([net_of({(1, 1): 7 - 10**9}, COLUMNS, part)])], COLUMNS, part)
    assert delta == Counter({(1, 1): 2 - 10**6, (1, 2): 3})


def test_a_stream_that_lies_and_a_budget_leave_the_stage_as_it_was() -> None:
    (part,) = parts(1)
    stage = Top(TopStage(PLAIN, ("k",), (Order("x", True),), 2), COLUMNS, part)
    stage.apply([net_of({(1, x): 1 for x in range(9)}, COLUMNS, part)])
    before = scanned(stage, part)
    with pytest.raises(ChangeError, match="that ORDER BY"):
        stage.apply([net_of({(1, 50): 1, (2, 3): 1, (1, 4): -2}, COLUMNS, part)])
    assert scanned(stage, part) == before
    stage.check_invariants()
    (part,) = parts(1, budget=6000)
    stage = Top(TopStage(PLAIN, ("k",), (Order("x", True),), 2), COLUMNS, part)
    stage.apply([net_of({(1, x): 1 for x in range(9)}, COLUMNS, part)])
    live = []
    for _ in range(3):  # a leaf that has grown keeps some of its room; nothing else stays
        with pytest.raises(MemoryBudgetError):
            stage.apply([net_of({(x % 7, x): 1 for x in range(5000)}, COLUMNS, part)])
        assert scanned(stage, part) == before
        live.append(int(part.arena[A.H_LIVE]))
    assert live == live[:1] * 3
    stage.check_invariants()


def test_results_come_in_their_order() -> None:
    view = crown.view("SELECT name, x FROM r ORDER BY x DESC, name LIMIT 4", {"r": {"name": "string", "x": "float64"}})
    rows = [("b", 2.0), ("a", 2.0), (None, 9.0), ("c", math.nan), ("d", None), ("e", -1.0)]
    view.update({"r": [{"name": name, "x": x} for name, x in np.array(rows, object)[::-1].tolist()]})
    assert view.to_table()["name"].to_pylist() == ["c", None, "a", "b"]
    view.update({"r": [{"name": "c", "x": math.nan, "_weight": -1}]})
    assert view.to_table()["name"].to_pylist() == [None, "a", "b", "e"]


def test_values_that_a_window_does_not_show_stay_in_the_dictionary() -> None:
    view = crown.view("SELECT s FROM r ORDER BY s LIMIT 1", {"r": {"s": "string"}})
    view.update({"r": {"s": [f"text {i:04}" for i in range(1000)]}})
    assert view.compact() == 0
    for i in range(5):
        delta = view.apply({"r": [{"s": f"text {i:04}", "_weight": -1}]})
        assert delta.to_pylist() == [{"s": f"text {i:04}", "_weight": -1}, {"s": f"text {i + 1:04}", "_weight": 1}]
    assert view.compact() == 5
    view.check_invariants()


def test_a_plan_says_its_order_its_window_and_by_what_it_can_be_cut() -> None:
    schema = {"r": {"k": "int64", "x": "float64"}}
    one = plans.program("SELECT k, x FROM r ORDER BY x DESC NULLS FIRST, k LIMIT 3 OFFSET 2", schema)
    assert "the first 3 after 2 by x DESC NULLS FIRST, k\n" in str(one)
    assert by_output(one) is None
    each = plans.program("SELECT k, x FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) <= 3", schema)
    assert "for each k\n" in str(each)
    cut = by_output(each)
    assert cut is not None
    assert (cut.name, {name: role.hashed for name, role in cut.roles.items()}) == ("k", {"r": (("k", "int64"),)})
    for program in (one, each):
        assert plans.Program.from_json(program.to_json()) == program


def test_a_row_there_two_thousand_million_times_takes_no_more_room_than_another() -> None:
    view = crown.view("SELECT a FROM r ORDER BY a LIMIT 2000000000", {"r": {"a": "int64"}})
    assert view.apply({"r": [{"a": 1, "_weight": 2**31 - 1}]}).to_pylist() == [{"a": 1, "_weight": 2_000_000_000}]
    came = view.apply({"r": [{"a": 0, "_weight": 5}, {"a": 2, "_weight": 2**31 - 1}]}).to_pylist()
    assert sorted((row["a"], row["_weight"]) for row in came) == [(0, 5), (1, -5)]
    gone = view.apply({"r": [{"a": 1, "_weight": 1 - 2**31}]}).to_pylist()
    assert sorted((row["a"], row["_weight"]) for row in gone) == [(1, 5 - 2_000_000_000), (2, 2_000_000_000 - 5)]
    view.check_invariants()
