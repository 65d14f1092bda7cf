"""Window functions after every batch: kernels = twin = DuckDB, for random functions, frames, partitions, streams."""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections import Counter
from dataclasses import replace
from itertools import accumulate, groupby
from random import Random
from typing import Any

import pytest

import crown
import plans
from crown.errors import ChangeError, MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.stages.over import reach
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.frames import Frame, Order, WindowFunction
from plans.programs.stages import Feed, OverStage
from plans.schema import Column, Table
from plans.search.cells.cuts import by_output
from tests.marks import seeds, slow
from tests.models.over import over
from tests.models.program import enter
from tests.oracles import duck
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_groups, random_windows
from tests.stages.harness import bag_of, net_of, parts, scanned

Row = tuple[Any, ...]


@pytest.mark.parametrize("seed", seeds(8, 400))
def test_random_window_functions_are_those_of_the_twin_and_of_duckdb(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(reach, "_NEAR", random.choice([0, 3]))  # also small partitions are read in part
    columns = random_groups.relation(random)
    planned = random_windows.stage(random, columns)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    empty = int(part.arena[A.H_LIVE])
    query = random_windows.sql_of(planned)
    database = Database({"r": Table("r", columns)})
    result: Counter[Row] = Counter()
    for batch in random_groups.batches(random, columns, 12, special=True):
        delta = bag_of([stage.apply([net_of(batch, columns, part)])], stage.columns, part)
        database.apply({"r": list(batch.items())})
        wanted = over(planned, enter(planned.feed, database.rows["r"], columns))
        assert delta == difference(wanted, result)
        result = wanted
        stage.check_invariants()
        assert scanned(stage, part) == wanted
        assert query is None or wanted == duck.results(query, database), query
        for row in random.sample(sorted(wanted, key=repr), min(3, len(wanted))):
            codes = net_of({row: 1}, stage.columns, part).rows[0]
            assert stage.multiplicity(codes) == wanted[row]
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


@pytest.mark.parametrize("seed", range(100, 110))
def test_a_batch_rolled_back_leaves_the_same_rows(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned = random_windows.stage(random, columns)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    for batch in random_groups.batches(random, columns, 8, special=True):
        before, net = scanned(stage, part), net_of(batch, columns, part)
        stage.apply([net])
        stage.undo([net])
        assert scanned(stage, part) == before
        stage.check_invariants()
        stage.apply([net])


COLUMNS = (Column("k", "int64"), Column("x", "int64"), Column("s", "string"))
PLAIN = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in COLUMNS))
BY_X = (Order("x"),)


def made(part: Part, *functions: WindowFunction) -> Over:
    """A stage of functions over x, for each k."""
    return Over(OverStage(PLAIN, ("k",), BY_X, functions), COLUMNS, part)


def test_trees_of_many_levels_keep_order_sums_and_bounds() -> None:
    random = Random(3)
    (part,) = parts(1)
    running = WindowFunction("w", "int64", "sum", ("x",), frame=Frame("rows", None, 0))
    stage = made(part, running)
    empty = int(part.arena[A.H_LIVE])
    rows: Counter[Row] = Counter()
    for step in range(14):
        batch: Counter[Row] = Counter()
        for row in random.sample(sorted(rows), len(rows) // (2 if step < 9 else 1)):
            batch[row] -= rows[row]
        for _ in range(1500 if step < 9 else 0):
            row = (random.choice((0, 0, 0, 1, step)), random.randrange(-(10**6), 10**6), random.choice("abc"))
            batch[row] += 1
        stage.apply([net_of(batch, COLUMNS, part)])
        rows.update(batch)
        rows = +rows
        stage.check_invariants()
        in_order = sorted(rows.elements(), key=lambda row: (row[0], row[1], row[2].encode()))
        wanted: Counter[Row] = Counter()
        for _, mine in groupby(in_order, key=lambda row: row[0]):
            there = list(mine)
            wanted.update((*row, so_far) for row, so_far in zip(there, accumulate(r[1] for r in there), strict=True))
        assert scanned(stage, part) == wanted
    assert not rows
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


SIZES = pytest.mark.parametrize("n", [500, 4_000, slow(16_000)])
"""Rows of a partition: at 4,000 a change that reads all of them takes at least four times the steps that it may."""
LOCAL = (
    WindowFunction("a", "int64", "lag", ("x",), count=3),
    WindowFunction("b", "int64", "sum", ("x",), frame=Frame("rows", -4, 2)),
    WindowFunction("c", "int64", "max", ("x",), frame=Frame("rows", -2, 0)),
    WindowFunction("d", "int64", "first_value", ("x",), frame=Frame("range", None, 0)),
    WindowFunction("e", "int64", "last_value", ("x",), frame=Frame("range", None, 0)),
    WindowFunction("f", "int64", "count", (), frame=Frame("range", -20, 10)),
    WindowFunction("g", "int64", "count", ("x",), frame=Frame("rows", -4, 2), distinct=True),
    WindowFunction("h", "float64", "percentile", ("x",), frame=Frame("range", -20, 10), share=0.5),
    WindowFunction("i", "int64", "mode", ("x",), frame=Frame("groups", -2, 2)),
)


@SIZES
@pytest.mark.parametrize("one", LOCAL, ids=lambda one: one.function)
def test_a_local_function_costs_the_logarithm_of_its_partition_and_its_frame(one: WindowFunction, n: int) -> None:
    random = Random(1)
    (part,) = parts(1)
    stage = made(part, one)
    values = random.sample(range(10 * n), n + 200)
    stage.apply([net_of([((0, x, ""), 1) for x in values[:n]], COLUMNS, part)])
    steps, told = stage.stats()["steps"], 0
    for x in values[n:]:
        told += len(stage.apply([net_of([((0, x, ""), 1)], COLUMNS, part)]))
    assert told <= 200 * 20
    assert stage.stats()["steps"] - steps <= 200 * (20 * math.log2(n) + 60)


@pytest.mark.parametrize(
    ("n", "between"), [(500, 10), (4_000, 10), (4_000, 2_000), slow(16_000, 10), slow(16_000, 8_000)]
)
@pytest.mark.parametrize(("function", "frame"), [("last_value", (None, -1)), ("nth_value", (0, None))])
def test_what_is_picked_below_a_filter_costs_the_rows_up_to_the_next_one_that_can_be(
    function: str, frame: tuple[int | None, int | None], n: int, between: int
) -> None:
    columns = (Column("x", "int64"), Column("b", "bool"))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    picked = WindowFunction("w", "int64", function, ("x",), "b", Frame("rows", *frame), 1)
    random, (part,) = Random(n), parts(1)
    stage = Over(OverStage(feed, (), BY_X, (picked,)), columns, part)
    stage.apply([net_of([((2 * x, x % between == 0), 1) for x in range(n)], columns, part)])
    steps = stage.stats()["steps"]
    for x in random.sample(range(n), 100):
        assert len(stage.apply([net_of([((2 * x + 1, False), 1)], columns, part)])) == 1
    assert stage.stats()["steps"] - steps <= 100 * (20 * math.log2(n) + 60)
    if between == 10:
        for x in random.sample(range(n), 100):
            assert len(stage.apply([net_of([((2 * x + 1, True), 1)], columns, part)])) <= 2 * 30
        assert stage.stats()["steps"] - steps <= 100 * (50 * math.log2(n) + 200)


@SIZES
def test_a_running_sum_costs_what_is_behind_the_change(n: int) -> None:
    (part,) = parts(1)
    functions = (
        WindowFunction("a", "int64", "sum", ("x",), frame=Frame("range", None, 0)),
        WindowFunction("b", "float64", "stddev_samp", ("x",), frame=Frame("rows", None, -1)),
        WindowFunction("c", "int32", "row_number"),
        WindowFunction("d", "int32", "rank"),
    )
    stage = made(part, *functions)
    stage.apply([net_of([((0, x, ""), 1) for x in range(n)], COLUMNS, part)])
    steps = stage.stats()["steps"]
    for x in range(n, n + 100):
        assert len(stage.apply([net_of([((0, x, ""), 1)], COLUMNS, part)])) == 1
    assert stage.stats()["steps"] - steps <= 100 * (12 * math.log2(n) + 40)
    assert len(stage.apply([net_of([((0, n // 2, ""), -1)], COLUMNS, part)])) == 2 * (n // 2 + 100) - 1


@SIZES
@pytest.mark.parametrize("back", [False, True])
def test_a_percentile_of_all_rows_so_far_costs_what_is_behind_the_change(back: bool, n: int) -> None:
    frame = Frame("rows", 0, None) if back else Frame("rows", None, 0)
    functions = (
        WindowFunction("a", "float64", "percentile", ("y",), frame=frame, share=0.5),
        WindowFunction("b", "int64", "percentile_disc", ("y",), "b", frame, share=0.25),
        WindowFunction("c", "int64", "max_by", ("x", "y"), frame=replace(frame, exclude="row")),
        WindowFunction("d", "string", "max", ("s",), frame=frame),
        WindowFunction("e", "string", "min", ("s",), "b", frame),
    )
    columns = (Column("x", "int64"), Column("y", "int64"), Column("b", "bool"), Column("s", "string"))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    random, (part,) = Random(n), parts(1)
    stage = Over(OverStage(feed, (), BY_X, functions), columns, part)
    rows = [(x, random.randrange(10**6), random.random() < 0.5, f"{random.randrange(10**9)}") for x in range(n)]
    stage.apply([net_of([(row, 1) for row in rows], columns, part)])
    steps = stage.stats()["steps"]
    ys, chosen = sorted(row[1] for row in rows), sorted(row[1] for row in rows if row[2])
    best = max((y, -x) for x, y, *_ in rows)
    last, first = max(row[3] for row in rows), min(row[3] for row in rows if row[2])
    for i in range(100):
        row = (-1 - i if back else n + i, random.randrange(10**6), True, f"{random.randrange(10**9)}")
        (found,) = bag_of([stage.apply([net_of([(row, 1)], columns, part)])], stage.columns, part)
        insort(ys, row[1])
        insort(chosen, row[1])
        last, first = max(last, row[3]), min(first, row[3])
        assert found[4] == statistics.median(ys[len(ys) // 2 - 1 : len(ys) // 2 + 1][len(ys) % 2 :])
        assert found[5] == chosen[math.ceil(len(chosen) / 4) - 1]
        assert found[6] == -best[1]
        assert found[7:] == (last, first)
        best = max(best, (row[1], -row[0]))
    assert stage.stats()["steps"] - steps <= 100 * (60 * math.log2(n) + 300)
    stage.check_invariants()


def test_rows_that_only_move_are_not_told() -> None:
    (part,) = parts(1)
    stage = made(part, WindowFunction("a", "int64", "min", ("x",), frame=Frame("rows", None, 0)))
    stage.apply([net_of([((0, x, ""), 1) for x in range(1000)], COLUMNS, part)])
    assert len(stage.apply([net_of([((0, 500, "b"), 1)], COLUMNS, part)])) == 1


def test_a_stream_that_lies_a_sum_that_is_too_large_and_a_budget_leave_the_stage_as_it_was() -> None:
    running = WindowFunction("a", "int64", "sum", ("x",), frame=Frame("rows", None, 0))
    (part,) = parts(1)
    stage = made(part, running)
    stage.apply([net_of({(1, x, "s"): 1 for x in range(9)}, COLUMNS, part)])
    before = scanned(stage, part)
    with pytest.raises(ChangeError, match="deletes an absent row"):
        stage.apply([net_of({(1, 50, "s"): 1, (2, 3, "s"): 1, (1, 4, "s"): -2}, COLUMNS, part)])
    with pytest.raises(ChangeError, match=r"SUM\(x\): the sum is no int64"):
        stage.apply([net_of({(1, 2**62, "s"): 2, (3, 3, "s"): 1}, COLUMNS, part)])
    assert scanned(stage, part) == before
    stage.check_invariants()
    (part,) = parts(1, budget=6000)
    stage = made(part, running)
    stage.apply([net_of({(1, x, "s"): 1 for x in range(9)}, COLUMNS, part)])
    live = int(part.arena[A.H_LIVE])
    with pytest.raises(MemoryBudgetError):
        stage.apply([net_of({(x % 7, x, "s"): 1 for x in range(5000)}, COLUMNS, part)])
    assert scanned(stage, part) == before
    assert int(part.arena[A.H_LIVE]) <= live + 32 * 8, "no more than a leaf that has room for more rows"
    stage.check_invariants()


def test_texts_by_which_a_tree_is_cut_stay_in_the_dictionary() -> None:
    view = crown.view("SELECT s, LAG(s) OVER (ORDER BY s) AS p FROM r", {"r": {"s": "string"}})
    view.update({"r": {"s": [f"text {i:04}" for i in range(2000)]}})
    view.update({"r": [{"s": f"text {i:04}", "_weight": -1} for i in range(2000) if i % 3]})
    view.compact()
    view.update({"r": {"s": [f"more {i:04}" for i in range(2000)]}})
    view.check_invariants()
    wanted = sorted([*(f"text {i:04}" for i in range(0, 2000, 3)), *(f"more {i:04}" for i in range(2000))])
    found = {row["s"]: row["p"] for row in view.to_table().to_pylist()}
    assert found == dict(zip(wanted, [None, *wanted[:-1]], strict=True))


def test_a_bound_on_a_rank_bounds_what_a_change_moves() -> None:
    query = "SELECT x, {} OVER (ORDER BY x) AS n FROM r QUALIFY n <= 3"
    for function in ("ROW_NUMBER()", "RANK()", "DENSE_RANK()"):
        view = crown.view(query.format(function), {"r": {"x": "int64"}})
        view.update({"r": {"x": list(range(1000))}})
        assert len(view.apply({"r": [{"x": -1}]})) == 6
        assert len(view.apply({"r": [{"x": 500}]})) == 0


def test_a_plan_says_its_class_its_frames_and_by_what_it_can_be_cut() -> None:
    schema = {"r": {"k": "int64", "x": "int64"}}
    text = "SELECT k, LAG(x, 2) OVER (PARTITION BY k ORDER BY x) AS p FROM r"
    one = plans.program(text, schema)
    assert "#0 = LAG(o, 2)\n" in str(one)
    assert "the rows whose frames hold the change, 4 at most" in str(one)
    cut = by_output(one)
    assert cut is not None
    assert (cut.name, {name: role.hashed for name, role in cut.roles.items()}) == ("k", {"r": (("k", "int64"),)})
    text = "SELECT SUM(x) OVER (ORDER BY x ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES) AS s FROM r"
    all_ = plans.program(text, schema)
    assert "SUM(o) over ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES" in str(all_)
    assert "because SUM has the class shift" in str(all_)
    assert "in one partition, which is in one cell" in str(all_)
    assert by_output(all_) is None
    for program in (one, all_):
        assert plans.Program.from_json(program.to_json()) == program


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_doubles_of_any_size_are_exact_in_every_frame(seed: int) -> None:
    random = Random(seed)
    columns = (Column("x", "int64"), Column("c0", "bool"), Column("d", "float64"))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    functions = tuple(
        WindowFunction(f"w{i}", "float64", name, ("d",), where, Frame("rows", start, end, exclude))
        for i, (name, where, start, end, exclude) in enumerate(
            [
                ("sum", None, None, 0, ""),
                ("avg", None, -2, 1, ""),
                ("sum", "c0", -1, None, "row"),
                ("var_pop", None, None, 1, ""),
            ]
        )
    )
    planned = OverStage(feed, (), BY_X, functions)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    rows: Counter[Row] = Counter()
    for _ in range(8):
        batch: Counter[Row] = Counter()
        for row in random.sample(sorted(rows), len(rows) // 3):
            batch[row] -= 1
        for _ in range(6):
            size = random.choice([1e300, -1e300, 1e-300, 3.5, 2.0**81, 1.0])
            batch[random.randrange(30), random.random() < 0.5, size] += 1
        stage.apply([net_of(batch, columns, part)])
        rows.update(batch)
        rows = +rows
        assert scanned(stage, part) == over(planned, rows)
        stage.check_invariants()
