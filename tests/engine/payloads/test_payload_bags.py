"""SELECT without DISTINCT: how often every row occurs, compared with DuckDB after every batch."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crown.errors import ChangeError, MemoryBudgetError
from crown.programs import snapshot
from plans.errors import PlanError
from plans.lowering.lower import plan_of
from plans.plan import Plan
from plans.planner import parse
from tests.engine.made import engine_of, join_of
from tests.marks import draws
from tests.oracles import duck
from tests.oracles.database import Batch, Database, Row, canonical, to_arrow
from tests.strategies import Query, batches, loads, queries, removals

Changes = dict[str, pa.Table]


def bag_plan(sql: str, tables: object) -> Plan:
    """The plan that maintains the rows of a query with their multiplicities."""
    return plan_of(parse(sql, tables), counted=True)


def weighed(parts: list[pa.RecordBatch]) -> Counter[Row]:
    """Rows with the sums of their weights."""
    found: Counter[Row] = Counter()
    for part in parts:
        *columns, weights = (column.to_pylist() for column in part.columns)
        for row, weight in zip(canonical(zip(*columns, strict=True)), weights, strict=True):
            found[row] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


class Sides:
    """The engine and DuckDB, side by side."""

    def __init__(self, plan: Plan, tables: object, sql: str) -> None:
        self.plan, self.sql = plan, sql
        self.database = Database(tables)  # type: ignore[arg-type]
        self.engine = engine_of(plan, "bag")
        self.empty = self.engine.stats()["live_bytes"]
        self.before: Counter[Row] = Counter()
        self.steps = 0

    def changes(self, batch: Batch) -> Changes:
        """The batch for the engine."""
        return {name: to_arrow(self.database.schema, name, rows) for name, rows in batch.items()}

    def run(self, batch: Batch, **options: bool) -> Counter[Row]:
        """Apply a batch to the engine alone."""
        parts = list(self.engine.run(self.engine.prepare(self.changes(batch)), **options))
        total = weighed(parts)
        if options.get("consolidate") is not False:
            assert sum(part.num_rows for part in parts) == len(total), "each changed row comes once"
        return total

    def step(self, batch: Batch) -> None:
        """Apply a batch to both and compare."""
        batch = self.database.without_absent_deletes(batch)
        self.database.apply(batch)
        after = duck.results(self.sql, self.database)
        self.steps += 1
        expected = Counter(after)
        expected.subtract(self.before)
        delta = self.run(batch, **({"consolidate": False} if self.steps % 3 == 0 else {}))
        assert delta == {row: weight for row, weight in expected.items() if weight}
        self.before = after
        self.compare()

    def step_quietly(self, batch: Batch) -> None:
        """Apply a batch without asking for its delta."""
        batch = self.database.without_absent_deletes(batch)
        self.database.apply(batch)
        self.before = duck.results(self.sql, self.database)
        assert not self.run(batch, deltas=False)
        self.compare()

    def undo(self, batch: Batch) -> None:
        """Apply a batch, also with deletes of what is not there, and take it back."""
        self.run(batch)
        self.engine.undo(self.changes(batch))
        self.compare()

    def save_and_load(self) -> None:
        """Go on with what comes back from a file."""
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "bag")
            self.engine = snapshot.load(Path(folder) / "bag")[0]
        assert join_of(self.engine).stage.plan.payload == self.plan.payload
        self.compare()

    def compare(self) -> None:
        """The state against the current result."""
        self.engine.check_invariants()
        assert weighed(list(self.engine.results())) == self.before
        assert self.engine.result.count() == self.before.total()
        names = [output.name for output in self.plan.output]
        for row, n in sorted(self.before.items(), key=repr)[:4]:
            assert self.engine.result.multiplicity(dict(zip(names, row, strict=True))) == n


def _planned(query: Query, sql: str) -> Plan:
    try:
        return bag_plan(sql, query.tables)
    except PlanError as error:
        assume("never holds" not in str(error))
        raise


@draws(24, 40)
@given(st.data())
def test_multiplicities_of_random_queries_are_those_of_duckdb(data: st.DataObject) -> None:
    query = data.draw(queries(any_output=True))
    sql = query.sql.replace("SELECT DISTINCT", "SELECT", 1)
    sides = Sides(_planned(query, sql), query.tables, sql)
    sides.step(data.draw(loads(query)))
    for _ in range(data.draw(st.integers(1, 2))):
        sides.undo(data.draw(batches(query, sides.database.rows)))
        sides.step(data.draw(removals(sides.database.rows)))
        sides.step_quietly(data.draw(batches(query, sides.database.rows)))
        sides.step(data.draw(batches(query, sides.database.rows)))
    sides.save_and_load()
    sides.step(sides.database.everything(-1))
    sides.engine.compact()
    assert sides.engine.stats()["live_bytes"] == sides.empty


G = {"G": {"src": "int64", "dst": "int64"}}
HOP2 = "SELECT G1.src, G2.dst FROM G G1, G G2 WHERE G1.dst = G2.src"


def test_a_weight_that_changes_goes_through_both_sides_of_a_self_join() -> None:
    sides = Sides(bag_plan(HOP2, G), G, HOP2)
    sides.step({"G": [((1, 1), 2), ((1, 2), 1), ((2, 1), 1)]})
    for weight in (1, -2, 4, -1, -4):
        sides.step({"G": [((1, 1), weight)]})
    sides.step({"G": [((2, 1), 2), ((1, 2), 2)]})


def test_equal_atoms_of_a_bag_count_twice() -> None:
    sql = "SELECT R.a FROM R, R S WHERE R.a = S.a"
    tables = {"R": {"a": "int64"}}
    sides = Sides(bag_plan(sql, tables), tables, sql)
    sides.step({"R": [((1,), 3), ((2,), 1)]})
    assert sides.engine.result.multiplicity({"a": 1}) == 9
    sides.step({"R": [((1,), -1), ((2,), -1)]})


CYCLES = {
    "triangle": "SELECT G1.src FROM G G1, G G2, G G3 WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G1.src",
    "square": "SELECT 1 AS one FROM G G1, G G2, G G3, G G4 "
    "WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G4.src AND G4.dst = G1.src",
    "triangle with a tail": "SELECT G2.src, G4.dst FROM G G1, G G2, G G3, G G4 "
    "WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G1.src AND G1.src = G4.src",
}


@pytest.mark.parametrize("sql", CYCLES.values(), ids=CYCLES)
def test_the_rows_of_cycles_are_counted_with_the_copies_of_their_edges(sql: str) -> None:
    draw = random.Random(1)
    sides = Sides(bag_plan(sql, G), G, sql)
    for _ in range(10):
        sides.step({"G": [((draw.randrange(4), draw.randrange(4)), draw.choice([1, 1, 2, -1, -2])) for _ in range(8)]})
    assert sides.before
    sides.step(sides.database.everything(-1))
    assert not sides.before


def test_a_row_that_does_not_occur_has_multiplicity_0() -> None:
    engine = engine_of(bag_plan(HOP2, G), "bag")
    assert engine.result.count() == engine.result.multiplicity({"src": 1, "dst": 2}) == 0
    assert not list(engine.results())


def test_a_count_that_leaves_63_bits_is_refused_and_undone() -> None:
    sql = "SELECT R.a FROM R, R S, R T WHERE R.a = S.a AND R.a = T.a"
    sides = Sides(bag_plan(sql, {"R": {"a": "int64"}}), {"R": {"a": "int64"}}, sql)
    sides.run({"R": [((1,), 2**20)]})
    with pytest.raises(ChangeError, match="63 bits"):
        sides.run({"R": [((1,), 2**30)]})
    assert sides.engine.result.multiplicity({"a": 1}) == 2**60
    sides.engine.check_invariants()
    assert sides.run({"R": [((1,), -(2**20))]}) == {(1,): -(2**60)}


def test_a_batch_beyond_the_budget_is_undone() -> None:
    plan = bag_plan(HOP2, G)
    engine = engine_of(plan, "bag", memory_budget=1 << 20)
    rows = pa.table({"src": list(range(20)) * 20, "dst": [n // 20 for n in range(400)]})
    engine.run(engine.prepare({"G": rows})).to_table(engine.delta_schema)
    count = engine.result.count()
    many = engine.prepare({"G": pa.table({"src": list(range(100_000)), "dst": [0] * 100_000})})
    with pytest.raises(MemoryBudgetError):
        engine.run(many).to_table(engine.delta_schema)
    assert engine.result.count() == count
    engine.check_invariants()


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_batch_that_is_abandoned_half_way_is_applied_and_one_that_is_aborted_is_not(blocks: int) -> None:
    batch: Batch = {"G": [((a, b), 1 + (a + b) % 3) for a in range(30) for b in range(30)]}
    for abort in (False, True):
        sides = Sides(bag_plan(HOP2, G), G, HOP2)
        sides.step({"G": [((1, 1), 2), ((1, 2), 1), ((2, 1), 1)]})
        delivery = sides.engine.run(sides.engine.prepare(sides.changes(batch)), consolidate=False)
        for _ in range(blocks):
            next(delivery)
        if abort:
            delivery.abort()
        else:
            delivery.close()
            sides.database.apply(batch)
            sides.before = duck.results(sides.sql, sides.database)
        sides.compare()
