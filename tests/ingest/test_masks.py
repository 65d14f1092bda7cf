"""A column of a relation may say which occurrences read its rows: that is how the cells of a join keep apart.

Random queries, cut into engines that never see one another. A row goes to a cell once, with the mask of the occurrences
that read it there. Together the engines must be one view: compared with nested loops and DuckDB after every batch, half
of the batches applied, rolled back and applied again.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

import crown
import plans
from crown.programs import snapshot
from crown.programs.delta_options import ALL_DELTAS
from crown.programs.program import ProgramEngine
from plans.plan import BagAtom, Plan
from plans.program import Program, program_of
from plans.programs.reads import occurrences
from plans.programs.stages import JoinStage
from plans.programs.stored_relations import stored_relations
from plans.schema import Column
from plans.search.cells.shares import hashable, solve
from tests.engine.comparison import planned
from tests.engine.made import distinct_rows, join_of, join_stats
from tests.engine.streams.test_maintenance import Maintenance
from tests.engine.views import Kernel
from tests.models import normalise
from tests.oracles.database import Batch, Row, to_arrow
from tests.oracles.expectation import net, rows
from tests.plans.catalogue import CASES
from tests.strategies import Query, queries

MASK = "which"


def masked(plan: Plan) -> Program:
    """The program of a cell of the plan: its tables have the column of masks."""
    tables = tuple(replace(table, columns=(*table.columns, Column(MASK, "int64"))) for table in plan.tables)
    made = program_of(plan)
    return replace(made, tables=tables, stages=(JoinStage(plan, masks=MASK), *made.stages[1:]))


def number(*values: object) -> int:
    """A number of values that is the same in every process, so that examples are the same ones."""
    return crc32(repr([normalise(value) for value in values]).encode())


class Partitioned(Kernel):
    """One engine per cell; what ``spark_jobs.dispatch.shuffle`` does with a change, in Python."""

    def __init__(self, plan: Plan, cells: int) -> None:
        self.plan = plan
        self.grid = solve(plan, cells)
        self.schema = {table.name: table for table in plan.tables}
        self.engines = [ProgramEngine.create(masked(plan)) for _ in range(cells)]
        self.initial_bytes = sum(engine.stats()["live_bytes"] for engine in self.engines)
        self.batches = 0

    def deal(self, batch: Batch, cell: int) -> dict[str, pa.Table]:
        """The part of a cell. A predicate clears a bit of every other row, whenever that is inserted and deleted.

        The engine tests it in any case.
        """
        parts = {}
        for name, changes in batch.items():
            whole = to_arrow(self.schema, name, changes)
            columns = {column: whole[column].combine_chunks() for column in whole.column_names}
            masks = [0] * len(whole)
            for bit, atom in enumerate(occurrences(self.plan)):
                if atom.relation == name:
                    wanted = [True] * len(whole)
                    if atom.predicate is not None:
                        wanted = atom.predicate.evaluate(columns, len(whole)).to_pylist()
                    for i, row in enumerate(whole.to_pylist()):
                        kept = wanted[i] is True or number(*(row[c.name] for c in self.schema[name].columns)) % 2 == 0
                        masks[i] |= (kept and self.is_in(atom, row, cell)) << bit
            table = whole.append_column(MASK, pa.array(masks, pa.int64()))
            sent = table.filter(pa.array([mask != 0 for mask in masks], pa.bool_()))
            if len(sent):
                parts[name] = sent
        return parts

    def is_in(self, atom: BagAtom, row: dict[str, object], cell: int) -> bool:
        """Whether the atom reads the row in the cell: the hashes of the attributes that it has are the cell's."""
        for axis, (attribute, share) in enumerate(zip(self.grid.attributes, self.grid.shares, strict=True)):
            if attribute in atom.attributes:
                value = row[atom.columns[atom.attributes.index(attribute)]]
                if number(axis, value) % share != cell // self.grid.stride(axis) % share:
                    return False
        return True

    def apply(self, batch: Batch) -> Counter[Row]:
        self.batches += 1
        total: Counter[Row] = Counter()
        for cell, engine in enumerate(self.engines):
            part = self.deal(batch, cell)
            delta = self.run(engine, part)
            if self.batches // 2 % 2:
                engine.undo(part)
                engine.check_invariants()
                assert self.run(engine, part, steps=cell % 2 == 0) == delta
            assert not total.keys() & delta.keys(), "two cells have the same result"
            total.update(delta)
        return total

    def run(self, engine: ProgramEngine, part: dict[str, pa.Table], steps: bool = False) -> Counter[Row]:
        """Applies a batch in one call, if the program has one, or in ``steps``."""
        prepared = engine.prepare(part) if steps else engine.prepare_for_apply(part, True, ALL_DELTAS)
        return net(engine.run(prepared, consolidate=True))

    def results(self) -> list[Row]:
        return [row for engine in self.engines for block in engine.results() for row in rows(block)]

    def count(self) -> int:
        return sum(engine.result.count() for engine in self.engines)

    def contains(self, row: Row) -> bool:
        names = [output.name for output in self.plan.output]
        return any(engine.result.contains(dict(zip(names, row, strict=True))) for engine in self.engines)

    def check(self) -> None:
        for engine in self.engines:
            engine.check_invariants()

    def load(self, batch: Batch) -> None:
        for cell, engine in enumerate(self.engines):
            for _ in engine.run(engine.prepare(self.deal(batch, cell)), deltas=False):
                pass

    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for cell, engine in enumerate(self.engines):
                engine.save(Path(folder) / "cell")
                self.engines[cell] = snapshot.load(Path(folder) / "cell")[0]

    def work(self) -> None:
        return None

    def is_empty(self) -> bool:
        for engine in self.engines:
            engine.compact()
        stats = [{**join_stats(engine), **engine.stats()} for engine in self.engines]
        left = [n for s in stats for n in (*s["rows"].values(), *s["groups"].values(), s["dictionary"])]
        left += map(distinct_rows, self.engines)
        return not any(left) and sum(s["live_bytes"] for s in stats) == self.initial_bytes


class MaskedMaintenance(Maintenance):
    """The state machine of test_maintenance; half of its queries are cyclic, so that relations are read by bags."""

    @initialize(
        query=st.one_of(queries(any_output=True), queries(any_output=True, cyclic=True)),
        cells=st.sampled_from([2, 4, 6]),
        datalog=st.booleans(),
        data=st.data(),
    )
    def start(self, query: Query, cells: int, datalog: bool, data: st.DataObject) -> None:
        plan = planned(query.datalog if datalog and not query.only_sql else query.sql, query)
        assume(plan is not None and hashable(plan))
        self.begin(query, datalog, data)
        self.sides.views = [Partitioned(self.sides.plan, cells)]
        self.sides.views[0].apply(self.sides.database.everything())


TestMaskedMaintenance = MaskedMaintenance.TestCase
TestMaskedMaintenance.settings = settings(max_examples=10, stateful_step_count=8)


@pytest.mark.slow
class TestMaskedCampaign(MaskedMaintenance.TestCase):
    """The same machine, as long as the profile says."""

    settings = settings(stateful_step_count=25)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_alias_has_the_number_of_its_occurrence(case) -> None:
    plan = case.plan()
    known = occurrences(plan)
    aliases = [(relation.name, alias) for relation in stored_relations(plan) for alias in relation.aliases]
    assert sorted(alias.occurrence for _, alias in aliases) == list(range(len(known)))
    for relation, alias in aliases:
        atom = known[alias.occurrence]
        assert (atom.relation, atom.attributes) == (relation, alias.attributes)


SCHEMA = {"g": {"a": "int64", "b": "int64"}}
HOPS = "Q(a,b,c) :- g(a,b), g(b,c)."


def test_a_column_is_a_mask_only_if_the_program_says_so() -> None:
    edges = pa.table({"a": [1, 2], "b": [2, 3], MASK: pa.array([0, 0], pa.int64())})
    assert len(crown.view(HOPS, SCHEMA).apply({"g": edges})) == 1
    engine = ProgramEngine.create(masked(plans.plan(HOPS, SCHEMA)))
    assert not list(net(engine.run(engine.prepare({"g": edges}))))
    assert join_stats(engine)["input_rows"] == 0
    assert engine.stats()["rows"] == {"g": 2}
    engine.check_invariants()


def test_what_a_delete_finds_is_decided_by_the_whole_row_in_a_cell_too() -> None:
    plan = plans.plan("SELECT DISTINCT x.a FROM g x, g y WHERE x.a = y.b", SCHEMA)
    engine = ProgramEngine.create(masked(plan))

    def changes(*rows: tuple[int, int, int]) -> dict[str, pa.Table]:
        columns = zip(*rows, strict=True)
        named = {
            name: pa.array(column, pa.int64()) for name, column in zip(("a", "b", "_weight"), columns, strict=True)
        }
        return {"g": pa.table({**named, MASK: pa.array([3] * len(rows), pa.int64())})}

    list(engine.run(engine.prepare(changes((1, 3, 1), (2, 1, 1)))))
    assert not list(net(engine.run(engine.prepare(changes((1, 9, -1))))))
    assert [row for block in engine.results() for row in rows(block)] == [(1,)]


def test_rows_of_one_tuple_are_netted_with_their_masks() -> None:
    """Two rows cancel out, one is doubled, one is read by a single alias."""
    engine = ProgramEngine.create(masked(plans.plan(HOPS, SCHEMA)))
    table = pa.table(
        {
            "a": [1, 1, 2, 2, 3],
            "b": [2, 2, 3, 3, 4],
            "_weight": [1, -1, 1, 1, 1],
            MASK: pa.array([3, 3, 3, 3, 1], pa.int64()),
        }
    )
    (change,) = join_of(engine)._join_inputs.changes(list(engine.prepare({"g": table}).nets.values()))
    assert change.deletes == 0
    assert change.net.rows.tolist() == [[2, 3], [3, 4]]
    assert change.net.weights.tolist() == [2, 1]
    assert change.masks.tolist() == [3, 1]
