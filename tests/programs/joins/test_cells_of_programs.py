"""A program in cells, in one round or two: what all cells deliver is what one engine does, after every batch."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from zlib import crc32

import pyarrow as pa
import pytest

import crown
from crown.errors import ChangeError, CrownError
from crown.ingest.changes import WEIGHT
from crown.programs import snapshot
from crown.programs.cells.engine import engine_of
from crown.programs.program import ProgramEngine
from plans import PlanError, Program, program
from plans.search.cells.exchanges import rounds
from plans.search.cells.shares import grids_of
from plans.search.cells.whole import partitioning_of
from plans.types import arrow_type
from spark_jobs.dispatch.envelope import cell_program, envelope_of
from tests.marks import seeds, slow, turns
from tests.oracles.database import Database, to_arrow
from tests.plans.lowering.program_queries import QUERIES, TABLES
from tests.plans.lowering.random_queries import Writer
from tests.programs.keyed_batches import keyed_batch
from tests.programs.test_maintained_programs import POOLS
from tests.programs.test_programs import apply, result_of

CELLS = 3


class Cells:
    """The cells of one round, each an engine of its own, or, without roles, the engine of several threads."""

    def __init__(self, given, on_missing):
        self.given = given
        if given.roles is None:
            cells = given.grid.cells
            self.engines = [ProgramEngine.create(given.maintained, threads=cells, on_missing=on_missing)]
        else:
            envelope = envelope_of(given.maintained, cells=given.grid.cells, quarantine=False, roles=given.roles)
            plan = cell_program(given.maintained, envelope)
            self.engines = [ProgramEngine.create(plan, on_missing=on_missing) for _ in range(given.grid.cells)]

    def apply(self, changes):
        """Returns the deltas of all cells, as rows and weights; no two cells of the last round deliver the same row."""
        out, seen = Counter(), set()
        for number, engine in enumerate(self.engines):
            found = Counter()
            for delta in engine.run(engine.prepare(self.part(changes, number)), consolidate=True):
                columns = [column.to_pylist() for column in delta.columns]
                for *row, weight in zip(*columns, strict=True):
                    found[tuple(row)] += weight
            if self.given.carries is None:
                assert not seen & set(found), "a row comes out of two cells"
            seen |= set(found)
            out.update(found)
        return Counter({row: weight for row, weight in out.items() if weight})

    def part(self, changes, number):
        """Returns what a cell is given: the rows whose hashed columns fall to it, under the names of its relations."""
        if self.given.roles is None:
            return changes
        found = {}
        for name, role in self.given.roles.items():
            if role.relation in changes:
                table = changes[role.relation]
                columns = [table[column].to_pylist() for column, _ in role.hashed]
                keep = [
                    not role.hashed or crc32(repr(values).encode()) % len(self.engines) == number
                    for values in (zip(*columns, strict=True) if columns else [()] * table.num_rows)
                ]
                wanted = [column.name for column in self.engines[number].plan.table(name).columns]
                found[name] = table.filter(pa.array(keep, pa.bool_())).select([*wanted, WEIGHT])
        return found


def batch_of(random, database):
    def drawn(name):
        return tuple(random.choice(pool) for pool in POOLS[name])

    return keyed_batch(random, database, drawn, tables=3, gone=2, fresh=3)


def deltas(given: list[Cells], changes):
    """Returns what comes out of the last round."""
    for cells in given[:-1]:
        net = cells.apply(changes)
        table = given[given.index(cells) + 1].given.maintained.tables[0]
        changes = {cells.given.carries: arrow_of(table, net)}
    return given[-1].apply(changes)


def arrow_of(table, net):
    arrays = {c.name: pa.array([row[i] for row in net], arrow_type(c.type)) for i, c in enumerate(table.columns)}
    return pa.table({**arrays, WEIGHT: pa.array(list(net.values()), pa.int64())})


def compare(query, *, absent=False, dialect="spark"):
    random = Random(query)
    try:
        made = program(query, TABLES, dialect=dialect)
        cut = rounds(made, CELLS)
    except PlanError as error:
        if "cannot be counted" not in str(error) and "cannot be cut" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    for one in cut:
        assert Program.from_json(one.maintained.to_json()).stages == one.maintained.stages
    whole = ProgramEngine.create(cell_program(made, envelope_of(made, cells=1, quarantine=False)))
    parts = [Cells(one, "ignore" if i == 0 else "trust") for i, one in enumerate(cut)]
    database = Database(TABLES)
    read = {table.name for table in made.tables}
    for turn in (*turns(4, 7), None):
        batch = batch_of(random, database) if turn is not None else database.everything(-1)
        database.apply(batch)
        if absent and turn is not None:
            batch = {
                name: [(row, weight - (random.random() < 0.3)) for row, weight in rows] for name, rows in batch.items()
            }
        changes = {n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in read}
        names = {n: [column.name for column in whole.plan.table(n).columns] for n in changes}
        read_there = {n: table.select([*names[n], WEIGHT]) for n, table in changes.items()}
        expected = Counter({row: weight for row, weight in apply(whole, read_there).items() if weight})
        assert deltas(parts, changes) == expected, f"batch {turn}"
    for cells in parts:
        for engine in cells.engines:
            engine.check_invariants()


@pytest.mark.parametrize("query", [query if i % 8 == 1 else slow(query) for i, query in enumerate(QUERIES)])
def test_cells_deliver_what_one_engine_does(query):
    """The queries in between go the way of others here; test_maintained_programs has all of them in every run."""
    compare(query)


BANDS = (
    "SELECT x.a, COUNT(*) AS n, SUM(x.b - y.b) AS s FROM r x, r y WHERE x.b < y.a GROUP BY x.a",
    "SELECT x.a, y.a AS c, SUM(x.b * y.b) AS s FROM r x, r y WHERE x.a = y.a AND x.b > y.b GROUP BY x.a, y.a",
    "SELECT SUM(x.b * y.b) AS s, COUNT(*) AS n FROM r x, r y WHERE x.a <= y.b AND y.b < x.b",
    "SELECT COUNT(DISTINCT x.b) AS n, SUM(y.b) AS s FROM r x, r y WHERE x.a < y.a",
    "SELECT x.b, y.b AS d FROM r x, r y WHERE y.a BETWEEN x.a AND x.b",
)


@pytest.mark.parametrize("query", BANDS)
def test_cells_deliver_what_one_engine_does_for_a_join_by_a_comparison(query):
    compare(query)


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_cells_deliver_what_one_engine_does_for_a_random_query(seed):
    compare(cut_query(seed), dialect="duckdb")


def cut_query(seed):
    """Returns a random query that can run in several cells."""
    random = Random(seed)
    while True:
        query = Writer(random.randrange(1 << 30), TABLES).query()
        with suppress(PlanError):
            rounds(program(query, TABLES, dialect="duckdb"), CELLS)
            return query


READ_TWICE = [query for query in QUERIES if "r x" in query or "UNION" in query]


@pytest.mark.parametrize("query", [query if i % 2 else slow(query) for i, query in enumerate(READ_TWICE)])
def test_occurrences_that_are_hashed_by_different_columns_agree_on_what_a_delete_finds(query):
    compare(query, absent=True)


@pytest.mark.parametrize("seed", [slow(seed) for seed in range(100, 130)])
def test_threads_deliver_what_one_engine_does_for_a_random_query(seed, tmp_path):
    threads_deliver(Writer(seed, TABLES).query(), tmp_path, "duckdb")


@pytest.mark.parametrize(
    "query", [*QUERIES[::16], *(slow(query) for query in (*QUERIES[2::4], *QUERIES[4::8], *QUERIES[8::16]))]
)
def test_threads_deliver_what_one_engine_does(query, tmp_path):
    threads_deliver(query, tmp_path, "spark")


def threads_deliver(query, folder, dialect):
    """Cells have the program, or a part of its only join; a batch can be rolled back, the state saved and loaded."""
    random = Random(query)
    try:
        made = program(query, TABLES, dialect=dialect)
    except PlanError as error:
        pytest.skip(str(error).splitlines()[0])
    if partitioning_of(made, CELLS) is None and all(grid.cells == 1 for grid in grids_of(made, CELLS)):
        pytest.skip("no column of the result cuts the query")
    whole, many = ProgramEngine.create(made), engine_of(made, threads=CELLS)
    database = Database(TABLES)
    read = {table.name for table in made.tables}
    for turn in (*turns(4, 7), None):
        batch = batch_of(random, database) if turn is not None else database.everything(-1)
        database.apply(batch)
        changes = {n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in read}
        expected, before = apply(whole, changes), result_of(many)
        assert apply(many, changes) == expected, f"batch {turn}"
        assert result_of(many) == result_of(whole)
        if turn in (0, 3):
            many.undo(changes)
            assert result_of(many) == before
            many.save(folder / "state")
            many, _ = snapshot.load(folder / "state")
            assert apply(many, changes) == expected
        many.check_invariants()


def test_threads_take_a_refused_batch_back_in_every_cell():
    sql = "SELECT x.b, SUM(x.a + y.a) AS s FROM r x JOIN r y ON x.b = y.b GROUP BY x.b"
    view = crown.view(sql, TABLES, threads=CELLS)
    view.update({"r": [{"a": 2, "b": b} for b in range(9)]})
    before = sorted(map(str, view))
    with pytest.raises(ChangeError, match="s"):
        view.update({"r": [{"a": 2**61, "b": b} for b in range(9)]})
    assert sorted(map(str, view)) == before == [str({"b": b, "s": 4}) for b in range(9)]
    view.check_invariants()
    view.update({"r": [{"a": 1, "b": 1}]})
    assert view.get({"b": 1}) == {"b": 1, "s": 12}
    with pytest.raises(CrownError, match="this query has no such column"):
        crown.view("SELECT SUM(a) AS s FROM r", TABLES, threads=2)
