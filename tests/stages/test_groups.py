"""The group stage after every batch: kernels = twin = DuckDB, for random keys, aggregates, types and streams."""

from __future__ import annotations

import math
import statistics
import tracemalloc
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.kernels.memory import arena as A
from crown.stages.groups.group import Groups
from plans.expressions.build import col
from plans.plan import Output
from plans.programs.stages import Aggregate, Feed, GroupStage
from plans.schema import Column, Table
from tests.marks import seeds
from tests.models.program import group
from tests.oracles import duck
from tests.oracles.database import Database
from tests.stages import random_groups
from tests.stages.harness import bag_of, net_of, parts

Row = tuple[Any, ...]


def sql_of(stage: GroupStage) -> str:
    def written(call: Aggregate) -> str:
        inside = ", ".join(call.arguments) or "*"
        filter_ = f" FILTER (WHERE {call.where})" if call.where else ""
        order = ", ".join(f"{o.column}{' DESC' * o.falling} NULLS {'LAST' if o.nulls_last else 'FIRST'}"
                          for o in call.order)  # fmt: skip
        if call.function == "percentile_disc":
            return f"percentile_disc({call.share}) WITHIN GROUP (ORDER BY {order or inside}){filter_}"
        if call.function == "string_agg":
            ties = "" if call.distinct else f", {inside}"
            inside += f", '{call.separator}' ORDER BY {order}{ties}"
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside}){filter_}"

    names = {call.name: written(call) for call in stage.aggregates}

    def text(output: str) -> str:
        for name, call in names.items():
            output = output.replace(name, f"({call})")
        return output

    columns = ", ".join(f"{text(str(o.expr))} AS {o.name}" for o in stage.outputs)
    where = f" WHERE {stage.feed.where}" if stage.feed.where is not None else ""
    by = f" GROUP BY {', '.join(stage.keys)}" if stage.keys else ""
    having = f" HAVING {text(str(stage.having))}" if stage.having is not None else ""
    return f"SELECT {columns} FROM r{where}{by}{having}"


def close(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of doubles."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-3)
    if isinstance(one, (int, Decimal)) and isinstance(other, (int, Decimal)):
        return one == other
    return bool(one == other)


def assert_close(found: Counter[Row], wanted: Counter[Row], sql: str) -> None:
    """Every row of one bag has its partner in the other."""
    rest = list(wanted.elements())
    for row in found.elements():
        match = next((i for i, other in enumerate(rest) if all(map(close, row, other))), None)
        assert match is not None, f"{sql}\nnot in DuckDB: {row}\nthere: {rest}"
        rest.pop(match)
    assert not rest, f"{sql}\nonly in DuckDB: {rest}"


def comparable(stage: GroupStage) -> bool:
    """DuckDB's moments are Welford's in doubles: only the twin knows them for values of any size."""
    others = (*random_groups.TWO, *random_groups.ONE, "percentile")  # which has the type of its values there
    return not any(call.function in others for call in stage.aggregates)


@pytest.mark.parametrize("seed", seeds(8, 400))
def test_random_groups_are_those_of_the_twin_and_of_duckdb(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    stage = random_groups.stage(random, columns)
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    empty = int(part.arena[A.H_LIVE])
    database = Database({"r": Table("r", columns)})
    total: Counter[Row] = Counter()
    compared = comparable(stage)
    for batch in random_groups.batches(random, columns, 12, special=random.random() < 0.5):
        delta = bag_of([groups.apply([net_of(batch, columns, part)])], groups.columns, part)
        database.apply({"r": list(batch.items())})
        total.update(delta)
        total = Counter({row: weight for row, weight in total.items() if weight})
        wanted = group(stage, database.rows["r"], columns)
        found: Counter[Row] = Counter()
        for net in groups.scan():
            found.update(bag_of([net.net()], groups.columns, part))
        assert total == wanted
        assert found == wanted
        groups.check_invariants()
        if compared:
            assert_close(wanted, duck.results(sql_of(stage), database), sql_of(stage))
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


def test_a_correlation_is_the_same_whatever_type_its_arguments_have() -> None:
    """It has no unit, and is rounded once: hundredths as decimals, and as doubles, give the same double."""
    random = Random(5)
    view = crown.view(
        "SELECT k, CORR(y, d) AS a, CORR(y, x) AS b, REGR_R2(y, d) AS c, REGR_R2(y, x) AS e FROM t GROUP BY k",
        {"t": {"k": "int64", "d": "decimal(10,2)", "x": "float64", "y": "int64"}},
    )
    halves = [(k, Decimal(random.randrange(10**8)) / 4, random.randrange(99)) for k in range(60) for _ in range(9)]
    view.update({"t": [{"k": k, "d": d, "x": float(d), "y": y} for k, d, y in halves]})
    rows = [row for batch in view.results() for row in batch.to_pylist()]
    assert len(rows) == 60
    assert all(row["a"] == row["b"] and row["c"] == row["e"] for row in rows)
    for row in rows:
        of = [(float(d), float(y)) for k, d, y in halves if k == row["k"]]
        assert math.isclose(row["a"], statistics.correlation(*zip(*of, strict=True)), rel_tol=1e-9)


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_batch_rolled_back_leaves_the_same_rows_and_sums(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    stage = random_groups.stage(random, columns)
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    database = Database({"r": Table("r", columns)})
    for batch in random_groups.batches(random, columns, 10, special=True):
        other = net_of({random_groups.row(random, columns, True): 2 for _ in range(5)}, columns, part)
        begun = part.arena[A.H_VERSION] > 0
        groups.apply([other])
        groups.undo([other])
        found = bag_of((net.net() for net in groups.scan()), groups.columns, part)
        assert found == group(stage, database.rows["r"], columns, bool(begun))
        groups.check_invariants()
        groups.apply([net_of(batch, columns, part)])
        database.apply({"r": list(batch.items())})


def one_sum(type_: str, sum_type: str, function: str = "sum") -> tuple[GroupStage, tuple[Column, ...]]:
    columns = (Column("k", "string"), Column("x", type_))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    outputs = (Output("k", "string", col("k", "string")), Output("s", sum_type, col("s", sum_type)))
    return GroupStage(feed, ("k",), (Aggregate("s", sum_type, function, ("x",)),), outputs), columns


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_doubles_are_fsum_and_leave_nothing(seed: int) -> None:
    random = Random(seed)
    stage, columns = one_sum("float64", "float64")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    values = [random.uniform(-1, 1) * 2.0 ** random.randint(-7, 79) for _ in range(4000)]
    rows = [(("k", value), 1) for value in values]
    for start in range(0, len(rows), 700):
        groups.apply([net_of(rows[start : start + 700], columns, part)])
        ((_, found),) = bag_of(groups.scan(), groups.columns, part)
        assert found == math.fsum(values[: start + 700])
    random.shuffle(rows)
    for start in range(0, len(rows), 900):
        groups.apply([net_of([(row, -1) for row, _ in rows[start : start + 900]], columns, part)])
    assert not bag_of(groups.scan(), groups.columns, part)


def test_a_sum_outside_of_int64_is_refused_and_names_group_and_column() -> None:
    stage, columns = one_sum("int64", "int64")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    groups.apply([net_of([(("a", 2**63 - 1), 1)], columns, part)])
    before = bag_of(groups.scan(), groups.columns, part)
    with pytest.raises(Exception, match=r"the group k='a', column 's': .*decimal\(38,0\)"):
        groups.apply([net_of([(("a", 1), 1), (("b", 1), 1)], columns, part)])
    assert bag_of(groups.scan(), groups.columns, part) == before
    groups.check_invariants()
    delta = groups.apply([net_of([(("a", 5), 1), (("a", -5), 1)], columns, part)])
    assert not len(delta), "the sum has not changed"


def test_a_far_part_is_kept_as_long_as_it_is_not_zero() -> None:
    stage, columns = one_sum("float64", "float64")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    groups.apply([net_of([(("a", 0.5), 1)], columns, part)])
    before = int(part.arena[A.H_LIVE])
    for value in (1e30, 1e-30, 5e-324):
        groups.apply([net_of([(("a", value), 1)], columns, part)])
        assert part.arena[A.H_FAR] == 1
        groups.apply([net_of([(("a", -value), 1)], columns, part)])
        assert part.arena[A.H_FAR] == 0
        assert bag_of(groups.scan(), groups.columns, part) == {("a", 0.5): 1}
    assert int(part.arena[A.H_LIVE]) == before


def test_far_parts_are_kept_of_a_sum_that_is_no_column() -> None:
    stage, columns = one_sum("float64", "float64")
    calls = (*stage.aggregates, Aggregate("n", "int64", "count"))
    outputs = (stage.outputs[0], Output("n", "int64", col("n", "int64")))
    (part,) = parts(1)
    groups = Groups(replace(stage, aggregates=calls, outputs=outputs), columns, part)
    before = int(part.arena[A.H_LIVE])
    for weight in (1, -1):
        groups.apply([net_of([(("a", 1e30), weight)], columns, part)])
        assert part.arena[A.H_FAR] == (weight > 0)
        groups.check_invariants()
    assert int(part.arena[A.H_LIVE]) == before


def test_a_far_double_that_a_filter_leaves_out_counts_nowhere() -> None:
    columns = (Column("p", "bool"), Column("x", "float64"))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    calls = (Aggregate("s", "float64", "sum", ("x",), where="p"), Aggregate("m", "float64", "max", ("x",)))
    outputs = tuple(Output(c.name, c.type, col(c.name, c.type)) for c in calls)
    (part,) = parts(1)
    groups = Groups(GroupStage(feed, (), calls, outputs, whole=True), columns, part)
    delta = groups.apply([net_of([((False, 1e30), 1), ((True, 1.5), 2)], columns, part)])
    assert bag_of([delta], groups.columns, part) == {(3.0, 1e30): 1}
    assert part.arena[A.H_FAR] == 0


def test_decimals_with_too_many_digits_are_refused() -> None:
    stage, columns = one_sum("decimal(38,0)", "decimal(38,0)")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    most = Decimal("9" * 38)
    groups.apply([net_of([(("a", most), 1)], columns, part)])
    with pytest.raises(Exception, match=r"more than 38 digits"):
        groups.apply([net_of([(("a", Decimal(1)), 1)], columns, part)])
    assert bag_of(groups.scan(), groups.columns, part) == Counter({("a", most): 1})


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_sums_of_decimals_pass_the_numbers_that_are_their_own_codes(seed: int) -> None:
    """62 bits of 128: groups on both sides of that, before a batch and after it, also when the batch is rolled back."""
    random = Random(seed)
    stage, columns = one_sum("decimal(38,0)", "decimal(38,0)")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    there: list[Row] = []
    for _ in range(25):
        batch = [((random.choice("abc"), Decimal(random.choice((1, -1)) * (2**61 - random.randrange(3)))), 1)
                 for _ in range(random.randrange(4))]  # fmt: skip
        gone = [there.pop(random.randrange(len(there))) for _ in range(random.randrange(min(3, len(there) + 1)))]
        there += [row for row, _ in batch]
        net = net_of([*batch, *((row, -1) for row in gone)], columns, part)
        if random.random() < 0.3:
            groups.apply([net])
            groups.undo([net])
        groups.apply([net])
        sums = {k: sum(x for of, x in there if of == k) for k, _ in there}
        found = bag_of((one.net() for one in groups.scan()), groups.columns, part)
        assert found == dict.fromkeys(sums.items(), 1)
        groups.check_invariants()


def test_a_batch_over_the_budget_leaves_the_stage_as_it_was() -> None:
    columns = (Column("k", "int64"), Column("x", "int64"))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns))
    calls = (Aggregate("m", "int64", "min", ("x",)), Aggregate("n", "int64", "count", ("x",), True))
    outputs = tuple(Output(name, "int64", col(name, "int64")) for name in ("k", "m", "n"))
    stage = GroupStage(feed, ("k",), calls, outputs)
    (part,) = parts(1, 1 << 20, budget=12_000)
    groups = Groups(stage, columns, part)
    groups.apply([net_of([((i, i), 1) for i in range(30)], columns, part)])
    before = bag_of(groups.scan(), groups.columns, part)
    for keys in (1, 7, 5000):  # groups are refused, or values of groups that are there
        with pytest.raises(Exception, match="memory_budget"):
            groups.apply([net_of([((i % keys, i), 1) for i in range(5000)], columns, part)])
        assert bag_of(groups.scan(), groups.columns, part) == before
        groups.check_invariants()


def test_a_large_batch_takes_no_room_for_more_groups_than_it_has() -> None:
    names, n = [f"x{i}" for i in range(12)], 1 << 18
    told = ", ".join(f"SUM({name}) AS {name}" for name in names)
    view = crown.view(f"SELECT k, {told} FROM r GROUP BY k", {"r": dict.fromkeys(names, "float64") | {"k": "int64"}})
    column = pa.array(np.arange(n, dtype=np.float64))
    rows = pa.table(dict.fromkeys(names, column) | {"k": pa.array(np.arange(n) % 4)})
    view.apply({"r": rows.slice(0, 8)})
    tracemalloc.start()
    try:
        view.apply({"r": rows.slice(8)})
        assert tracemalloc.get_traced_memory()[1] < 2 * rows.nbytes + 2**26
    finally:
        tracemalloc.stop()
    for row in view:
        assert {row[name] for name in names} == {math.fsum(range(row["k"], n, 4))}
    view.check_invariants()


@pytest.mark.parametrize("stream", ["rising", "falling", "random", "toggled", "last in, first out"])
def test_minima_stay_right_while_their_heaps_are_rebuilt(stream: str) -> None:
    stage, columns = one_sum("int64", "int64", "min")
    (part,) = parts(1)
    groups = Groups(stage, columns, part)
    random, window, values = Random(1), [], list(range(600))
    if stream == "falling":
        values.reverse()
    if stream == "random":
        random.shuffle(values)
    for i, value in enumerate(values):
        batch = [(("k", value), 1)]
        window.append(value)
        if len(window) > 40:
            leaving = window.pop() if stream == "last in, first out" and i % 2 else window.pop(0)
            batch.append((("k", leaving), -1))
        groups.apply([net_of(batch, columns, part)])
        if stream == "toggled":
            groups.apply([net_of([(("k", -1), 1)], columns, part)])
            groups.apply([net_of([(("k", -1), -1)], columns, part)])
        if i % 25 == 0:
            groups.check_invariants()
        assert bag_of(groups.scan(), groups.columns, part) == Counter({("k", min(window)): 1})


def test_the_one_group_without_group_by_has_a_row_from_the_first_batch_on() -> None:
    columns = (Column("x", "int64"),)
    feed = Feed("r", (Output("x", "int64", col("x", "int64")),))
    calls = (Aggregate("n", "int64", "count"), Aggregate("s", "int64", "sum", ("x",)))
    stage = GroupStage(feed, (), calls, tuple(Output(c.name, c.type, col(c.name, c.type)) for c in calls), whole=True)
    (part,) = parts(1)
    groups = Groups(stage, columns, part)

    def apply(rows: list[tuple[Row, int]]) -> Counter[Row]:
        return bag_of([groups.apply([net_of(rows, columns, part)])], groups.columns, part)

    assert not list(groups.scan())
    assert apply([]) == {(0, None): 1}
    assert apply([]) == {}
    assert apply([((3,), 2)]) == {(0, None): -1, (2, 6): 1}
    assert apply([((3,), -2)]) == {(2, 6): -1, (0, None): 1}
    assert groups.multiplicity(np.array([0, -(2**63)])) == 1
