"""A cell whose state may not get larger, or of whose state not all may be in memory. Oracle: an engine in memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import plans
from crown.errors import CrownError, MemoryBudgetError
from crown.programs.program import ProgramEngine
from crown.store import residence
from crown.store.memory import MappedFile
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.cell.spill import Limits, bounded
from spark_jobs.errors import CheckpointError
from spark_jobs.log.state_log import CellLog
from tests.oracles.expectation import net

SCHEMA = {"g": {"src": "int64", "dst": "int64"}, "n": {"id": "int64", "name": "string"}}
QUERIES = {
    "a join": "SELECT DISTINCT x.src a, y.src b, y.dst c FROM g x, g y WHERE x.dst = y.src",
    "texts": "SELECT DISTINCT g.src, n.name FROM g, n WHERE g.dst = n.id",
    "groups": "SELECT x.src, COUNT(*) n FROM g x, g y WHERE x.dst = y.src GROUP BY x.src",
}


def made(name):
    program = plans.program(QUERIES[name], SCHEMA)
    return program, ProgramEngine.create(program)


def rows(rng, size, plan, weight=1):
    weights = pa.array([weight] * size, pa.int64())
    src, dst = ([rng.randrange(1 << 40) for _ in range(size)] for _ in range(2))
    found = {"g": pa.table({"src": src, "dst": [d % 3000 for d in dst], "_weight": weights})}
    names = [f"a name that no other has {number}" for number in src]
    found["n"] = pa.table({"id": [d % 3000 for d in dst], "name": names, "_weight": weights})
    return {table.name: found[table.name] for table in plan.tables}


def apply(cell, batch, changes):
    report = Report()
    return net(cell.apply(batch, changes, report, None)), report


@pytest.fixture
def cell_of(tmp_path):
    def make(plan, budget=None, memory=None, **more):
        log = CellLog(tmp_path / "state" / "0", plan.fingerprint)
        return Cell(plan, log, tmp_path / "live", limits=Limits.of(budget, memory), **more)

    return make


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_past_the_budget_changes_nothing_and_is_applied_when_there_is_room(cell_of, name):
    plan, oracle = made(name)
    rng = random.Random(2)
    small, large, more = rows(rng, 50, plan), rows(rng, 6000, plan), rows(rng, 50, plan)
    want = [net(oracle.run(oracle.prepare(changes))) for changes in (small, large, more)]
    assert apply(cell_of(plan, "1 MiB"), 0, small)[0] == want[0]
    before = cell_of(plan).stats()
    for _ in range(2):
        said = r"cell 0 has 0\.\d MiB of state, and batch 1 needs more than cell_budget=1\.0 MiB: the batch was"
        with pytest.raises(MemoryBudgetError, match=said):
            apply(cell_of(plan, "1 MiB"), 1, large)
        after = cell_of(plan).stats()
        assert after["input_rows"] == before["input_rows"]
    got, report = apply(cell_of(plan, "64 MiB"), 1, large)
    assert got == want[1]
    assert (report.restored, report.redone) == (-1, False), "the live engine was whole, and is gone on with"
    assert apply(cell_of(plan, "64 MiB"), 2, more)[0] == want[2]


def test_a_budget_below_the_state_refuses_what_comes_and_lets_go_what_goes(cell_of):
    plan, oracle = made("a join")
    rng = random.Random(4)
    large, more = rows(rng, 6000, plan), rows(rng, 50, plan)
    gone = {"g": large["g"].set_column(2, "_weight", pa.array([-1] * 6000, pa.int64()))}
    want = [net(oracle.run(oracle.prepare(changes))) for changes in (large, gone, more)]
    assert apply(cell_of(plan), 0, large)[0] == want[0]
    with pytest.raises(MemoryBudgetError, match=r"batch 1 needs more than cell_budget=1\.0 MiB"):
        apply(cell_of(plan, "1 MiB"), 1, more)
    CellLog(cell_of(plan).log.folder, plan.fingerprint).forget(0)  # the source brings something else instead
    assert apply(cell_of(plan, "1 MiB"), 1, gone)[0] == want[1]
    assert cell_of(plan).stats()["input_rows"] == 0


def test_replay_is_not_bounded_by_a_budget_that_came_later(cell_of, tmp_path):
    plan, oracle = made("a join")
    rng = random.Random(4)
    large, less = rows(rng, 6000, plan), rows(rng, 50, plan)
    for changes in (large, less):
        want = net(oracle.run(oracle.prepare(changes)))
    apply(cell_of(plan), 0, large)
    for left in (tmp_path / "live").iterdir():
        left.unlink()
    with pytest.raises(MemoryBudgetError, match="batch 1 needs more"):
        apply(cell_of(plan, "1 MiB"), 1, less)
    assert apply(cell_of(plan), 1, less)[0] == want


def bounded_here(tmp_path):
    if not residence.supported() or residence.in_memory(tmp_path):
        pytest.skip("the system does not say which pages are in memory, or all files are")


def test_a_cell_in_less_memory_than_it_has_state_gives_the_same_deltas(cell_of, tmp_path):
    """Batches, a batch again, snapshots, and a cell that is rebuilt."""
    bounded_here(tmp_path)
    plan = plans.program("Q(a,b,c) :- g(a,b), h(b,c).", {name: {"src": "int64", "dst": "int64"} for name in "gh"})
    oracle, rng, limit = ProgramEngine.create(plan), np.random.default_rng(7), 16 << 20
    spilled = 0
    for batch, size in enumerate((50_000, 50_000, 500, 500, 500, 500)):
        changes = {
            name: pa.table(
                {
                    "src": rng.integers(0, 1 << 20, size),
                    "dst": rng.integers(0, 1 << 20, size),
                    "_weight": np.ones(size, np.int64),
                }
            )
            for name in "gh"
        }
        want = net(oracle.run(oracle.prepare(changes)))
        for _ in range(1 + batch % 2):
            got, report = apply(cell_of(plan, None, limit, snapshot_floor=1 << 20), batch, changes)
            assert got == want
            assert 0 <= report.resident <= limit
            spilled += report.spilled
        if batch == 3:
            for left in (tmp_path / "live").iterdir():
                left.unlink()
    assert cell_of(plan).stats()["reserved_bytes"] > 3 * limit // 2
    assert spilled > limit


def test_what_the_system_reads_late_is_dropped_too(tmp_path, monkeypatch):
    """A read ahead that is under way while pages are dropped puts its own into memory afterwards."""
    bounded_here(tmp_path)
    limit, trim, reads = 4 << 20, residence.trim, []
    file = MappedFile.create(tmp_path / "live", 1 << 20)
    file.parts = [file.words]
    file.words[:] = 1 << 20  # the word that says how much is in use, too

    def trimmed_and_read(files, *more):
        gone = trim(files, *more)
        if not reads:
            reads.append(int(file.words.sum()))
        return gone

    monkeypatch.setattr(residence, "trim", trimmed_and_read)
    with bounded(tmp_path, limit) as spilled:
        pass
    assert reads
    assert 0 <= spilled.resident <= limit
    assert spilled.dropped > limit


def test_a_limit_on_memory_needs_a_disk(cell_of, tmp_path):
    if not Path("/dev/shm").is_dir() or not residence.supported():
        pytest.skip("there is no file system in memory")
    plan, _ = made("a join")
    log = CellLog(tmp_path / "state" / "0", plan.fingerprint)
    cell = Cell(plan, log, Path("/dev/shm/crown-nothing-here/0"), limits=Limits.of(None, "1 GiB"))
    with pytest.raises(CheckpointError, match=r"on a file system in memory, .* give scratch= \(--scratch\) a folder"):
        apply(cell, 0, rows(random.Random(1), 5, plan))
    assert not Path("/dev/shm/crown-nothing-here").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("lots", None),
            "cell_budget must be a positive number of bytes, such as 512 << 20 or \"512 MiB\", not 'lots'",
        ),
        (("1 KiB", None), "cell_budget='1 KiB' is too small to start with; give at least 1 MiB"),
        ((None, "1 MiB"), "cell_memory='1 MiB' is too small to start with; give at least 16 MiB"),
        ((None, True), "cell_memory must be a positive number of bytes"),
    ],
)
def test_what_is_no_size_is_refused(given, said):
    with pytest.raises(CrownError) as error:
        Limits.of(*given)
    assert str(error.value).startswith(said)
