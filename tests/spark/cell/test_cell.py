"""The commit protocol of one cell, without Spark. Oracle: an engine in memory that simply applies the batches in order.

What is done to the cell between two batches is what crashes, retries and restarts do to it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
from dataclasses import replace

import pyarrow as pa
import pytest

import plans
from crown.errors import MissingDeleteError
from crown.programs.preparer import BatchPreparer
from crown.programs.program import ProgramEngine
from spark_jobs.cell import live
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.errors import (
    BrokenChainError,
    CheckpointError,
    DamagedStateError,
    InputChangedError,
    PlanChangedError,
)
from spark_jobs.log.delta_file import Link
from spark_jobs.log.state_log import CellLog
from tests.oracles.expectation import net

SCHEMA = {"g": {"src": "int64", "dst": "int64"}}
HOPS = plans.program("Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d).", SCHEMA)
ENDS = plans.program("Q(a,c) :- g(a,b), g(b,c).", SCHEMA)
OVER = plans.program(
    "SELECT src, dst, SUM(dst) OVER w AS s, LAG(dst) OVER w AS p FROM g WINDOW w AS (PARTITION BY src ORDER BY dst)",
    SCHEMA,
)
ASOF = plans.program(
    "SELECT a.src, a.dst, b.dst AS before FROM g a ASOF LEFT JOIN g b ON a.src = b.src AND a.dst > b.dst", SCHEMA
)
SUMS = plans.program(
    "SELECT x.src, COUNT(*) AS n, SUM(y.dst) AS s FROM g x JOIN g y ON x.dst = y.src WHERE y.dst <> 4 GROUP BY x.src",
    SCHEMA,
)
PLANS = {"full": HOPS, "projected": ENDS, "window functions": OVER, "asof join": ASOF, "groups": SUMS}
NAMES = plans.program(
    "Q(x,y) :- p(x,n), q(n,y).", {"p": {"x": "int64", "n": "string"}, "q": {"n": "string", "y": "int64"}}
)


def rows(*tuples):
    src, dst, weight = zip(*tuples, strict=True)
    return {"g": pa.table({"src": list(src), "dst": list(dst), "_weight": pa.array(weight, pa.int64())})}


def stream(count=8, size=40, seed=1, deletes=True):
    """Random batches of inserts and deletes, some of rows that are not there."""
    rng, weights = random.Random(seed), (1, 1, 1, 2, -1, -1) if deletes else (1, 1, 2)
    return [
        rows(*((rng.randrange(9), rng.randrange(9), rng.choice(weights)) for _ in range(size))) for _ in range(count)
    ]


def expected(plan, changes):
    engine = ProgramEngine.create(plan)
    return [net(engine.run(engine.prepare(batch))) for batch in changes]


@pytest.fixture
def make(tmp_path):
    """Cells over the same log; ``host`` names the scratch folder, so another one is another machine."""

    def make_cell(plan=HOPS, host="here", **options):
        log = CellLog(tmp_path / "state" / "0", plan.fingerprint)
        return Cell(plan, log, tmp_path / host, **options)

    return make_cell


def apply(cell, batch, changes, consolidate=None):
    report = Report()
    return net(cell.apply(batch, changes, report, consolidate)), report


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_batches_in_order_give_what_an_engine_in_memory_gives(make, plan):
    changes = stream()
    for batch, deltas in enumerate(expected(plan, changes)):
        got, report = apply(make(plan), batch, changes[batch])
        assert got == deltas
        assert (report.restored, report.redone) == (0 if batch == 0 else -1, False)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_batch_executed_again_gives_the_same_deltas_and_leaves_the_same_state(make, plan):
    changes = stream()
    for batch, deltas in enumerate(expected(plan, changes)):
        for attempt in range(3):
            got, report = apply(make(plan), batch, changes[batch])
            assert got == deltas
            assert report.redone == (attempt > 0)


def test_rows_in_another_order_are_the_same_batch(make):
    changes = stream(3)
    deltas = expected(HOPS, changes)
    for batch, table in enumerate(changes):
        backwards = {"g": table["g"].take(list(range(table["g"].num_rows - 1, -1, -1)))}
        assert apply(make(), batch, table)[0] == deltas[batch]
        assert apply(make(), batch, backwards)[0] == deltas[batch]
        assert apply(make(), batch, table)[0] == deltas[batch]


def test_a_batch_executed_again_with_other_rows_is_refused(make):
    changes = stream(2)
    apply(make(), 0, changes[0])
    with pytest.raises(InputChangedError, match="batch 0 was executed again with other rows"):
        apply(make(), 0, changes[1])
    assert apply(make(), 0, changes[0])[0] == expected(HOPS, changes)[0]


@pytest.mark.parametrize("floor", [1 << 30, 1], ids=["log only", "snapshots"])
def test_another_host_or_a_lost_scratch_folder_restores_from_the_log(make, tmp_path, floor):
    changes = stream()
    deltas = expected(HOPS, changes)
    for batch, table in enumerate(changes):
        if batch in (3, 6):
            shutil.rmtree(tmp_path / "here")
        host = "there" if batch == 5 else "here"
        got, report = apply(make(host=host, snapshot_floor=floor), batch, table)
        assert got == deltas[batch]
        assert (report.restored >= 0) == (batch in (0, 3, 5, 6))


def test_a_live_engine_that_is_behind_catches_up_from_the_log(make):
    changes = stream(6)
    deltas = expected(HOPS, changes)
    for batch in range(5):
        assert apply(make(host="there" if batch in (2, 3) else "here"), batch, changes[batch])[0] == deltas[batch]
    got, report = apply(make(host="there"), 5, changes[5])
    assert got == deltas[5]
    assert report.restored == 1


def test_strings_survive_restores_snapshots_and_undo(make, tmp_path):
    def batch(names, weight):
        n = len(names)
        weights = pa.array([weight] * n, pa.int64())
        return {
            "p": pa.table({"x": list(range(n)), "n": names, "_weight": weights}),
            "q": pa.table({"n": names, "y": list(range(n)), "_weight": weights}),
        }

    changes = [batch([f"name {i}.{k}" for k in range(50)], 1) for i in range(4)]
    changes += [batch([f"name {i}.{k}" for k in range(50)], -1) for i in range(4)]
    deltas = expected(NAMES, changes)
    for number, table in enumerate(changes):
        if number % 3 == 2:
            shutil.rmtree(tmp_path / "here")
        for _ in range(2):
            assert apply(make(NAMES, snapshot_floor=1), number, table)[0] == deltas[number]
    assert sum(make(NAMES).stats()["rows"].values()) == 0


def test_a_consumer_that_stops_early_has_the_batch_applied_in_full(make):
    changes = stream(3, 60)
    deltas = expected(HOPS, changes)
    output = make().apply(0, changes[0], Report(), None)
    next(output)
    output.close()
    got, report = apply(make(), 1, changes[1])
    assert got == deltas[1]
    assert report.restored == -1


def _die_in_the_middle(make, plan, batch, changes):
    for _ in make(plan).apply(batch, changes, Report(), None):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("point", ["in the middle", "before the log", "after the log", "in the snapshot"])
def test_a_killed_process_leaves_nothing_half_done(make, plan, point, monkeypatch):
    changes = stream(4, 60)
    deltas = expected(plan, changes)
    for batch, table in enumerate(changes):
        if batch == 2:
            if point in ("before the log", "after the log"):
                monkeypatch.setattr(CellLog, "publish", _die_at_the_log(point))
            if point == "in the snapshot":
                monkeypatch.setattr("crown.stages.state.memory.write", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            target = _die_in_the_middle if point == "in the middle" else _apply_all
            child = multiprocessing.get_context("fork").Process(target=target, args=(make, plan, batch, table))
            child.start()
            child.join()
            assert child.exitcode == -signal.SIGKILL
            monkeypatch.undo()
        got, report = apply(make(plan), batch, table)
        assert got == deltas[batch]
        assert (report.restored >= 0) == (batch in (0, 2))


def _apply_all(make, plan, batch, changes):
    for _ in make(plan, snapshot_floor=0).apply(batch, changes, Report(), None):
        pass


def _die_at_the_log(point):
    publish = CellLog.publish

    def die(log, link):
        if point == "after the log":
            publish(log, link)
        os.kill(os.getpid(), signal.SIGKILL)

    return die


@pytest.mark.parametrize("plan", [HOPS, ENDS, SUMS], ids=["full", "projected", "groups"])
def test_a_batch_and_its_replay_are_one_native_call(make, tmp_path, plan, monkeypatch):
    changes = stream(6, deletes=False)
    pieces = [{"g": pa.concat_tables([batch["g"].slice(0, 9), batch["g"].slice(9)])} for batch in changes]
    deltas = expected(plan, changes)
    monkeypatch.setattr(BatchPreparer, "prepare", lambda *_, **__: pytest.fail("the batch takes steps"))
    assert apply(make(plan), 0, pieces[0])[0] == deltas[0]
    assert apply(make(plan), 1, pieces[1])[0] == deltas[1]
    if plan is SUMS:  # a join that delivers its rows has none to deliver in a replay
        shutil.rmtree(tmp_path / "here")
    assert apply(make(plan), 2, pieces[2])[0] == deltas[2]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_an_attempt_that_another_one_overtakes_uses_the_rows_in_the_log(make, plan, monkeypatch):
    """The other one has published the batch on another host, in another order."""
    changes, publish = stream(4), CellLog.publish
    deltas = expected(plan, changes)

    def overtaken(log, link):
        backwards = {name: rows.take(list(range(rows.num_rows - 1, -1, -1))) for name, rows in link.changes.items()}
        publish(log, replace(link, changes=backwards))
        return publish(log, link)

    monkeypatch.setattr(CellLog, "publish", overtaken)
    for batch, table in enumerate(changes):
        got, report = apply(make(plan), batch, table)
        assert got == deltas[batch]
        assert (report.restored >= 0) == (batch == 0)
    make(plan).live.engine().check_invariants()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_log_that_cannot_be_written_takes_the_batch_back(make, plan, monkeypatch):
    changes = stream(3)
    deltas = expected(plan, changes)
    apply(make(plan), 0, changes[0])
    rows_before = make(plan).stats()["input_rows"]
    with monkeypatch.context() as patch:
        patch.setattr(CellLog, "publish", lambda *_: _full())
        with pytest.raises(CheckpointError, match="disk is full"):
            apply(make(plan), 1, changes[1])
    engine = make(plan).live.engine()
    assert not engine.lost
    assert not engine.clean, "what the log does not have is not trusted"
    assert engine.stats()["input_rows"] == rows_before
    for batch in (1, 2):
        assert apply(make(plan), batch, changes[batch])[0] == deltas[batch]


def _full():
    raise CheckpointError("the disk is full")


def test_an_attempt_waits_for_the_one_that_still_holds_the_engine(make, monkeypatch):
    changes = stream(2, 60)
    deltas = expected(HOPS, changes)
    monkeypatch.setattr(live, "LOCK_SECONDS", 0.2)
    zombie = make().apply(0, changes[0], Report(), None)
    next(zombie)
    with pytest.raises(CheckpointError, match=f"locked by process {os.getpid()}"):
        apply(make(), 0, changes[0])
    zombie.close()
    assert apply(make(), 0, changes[0])[0] == deltas[0]
    assert apply(make(), 1, changes[1])[0] == deltas[1]


def test_a_late_attempt_of_an_old_batch_is_refused_and_changes_nothing(make):
    changes = stream(4)
    deltas = expected(HOPS, changes)
    for batch in range(3):
        apply(make(), batch, changes[batch])
    with pytest.raises(BrokenChainError, match=r"next batch is 1, but cell 0 already has batch 2.*rollback-to 0"):
        apply(make(), 1, changes[1])
    got, report = apply(make(), 3, changes[3])
    assert got == deltas[3]
    assert report.restored == -1


def test_a_batch_that_only_a_sibling_saw_is_a_gap(make, tmp_path):
    changes = stream(3)
    apply(make(), 0, changes[0])
    sibling = CellLog(tmp_path / "state" / "1", HOPS.fingerprint)
    sibling.publish(Link(0, -2, {}))
    sibling.publish(Link(1, 0, {}))
    with pytest.raises(BrokenChainError, match=r"cell 0 does not have batch 1.*limit"):
        apply(make(), 2, changes[2])


def test_a_cell_without_any_state_notices_that_it_was_skipped_from_the_start(make, tmp_path):
    CellLog(tmp_path / "state" / "1", HOPS.fingerprint).publish(Link(0, -2, {}))
    with pytest.raises(BrokenChainError, match="cell 0 does not have batch 0"):
        apply(make(), 1, stream(1)[0])


def test_a_missing_delta_is_an_error_that_names_cell_and_batch(make, tmp_path):
    changes = stream(4)
    for batch in range(3):
        apply(make(), batch, changes[batch])
    (tmp_path / "state" / "0" / "1.delta").unlink()
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(BrokenChainError, match="cell 0: batch 2 follows batch 1"):
        apply(make(), 3, changes[3])


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("1.delta", lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:], "checksum does not match"),
        ("1.delta", lambda data: data[: len(data) // 2], "checksum does not match"),
        ("1.delta", lambda _: b"PK\x03\x04 something else entirely", "not a delta"),
        ("1.snapshot", lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:], "1.snapshot cannot be used"),
        ("1.snapshot", lambda _: b"something else", "1.snapshot cannot be used"),
    ],
)
def test_a_damaged_file_is_an_error_with_advice(make, tmp_path, name, damage, message):
    changes = stream(4)
    for batch in range(2):
        apply(make(snapshot_floor=0 if "snapshot" in name else 1 << 30), batch, changes[batch])
    path = tmp_path / "state" / "0" / name
    path.write_bytes(damage(path.read_bytes()))
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(DamagedStateError, match=message):
        apply(make(), 2, changes[2])


def test_a_snapshot_under_another_name_is_refused(make, tmp_path):
    changes = stream(4)
    for batch in range(2):
        apply(make(snapshot_floor=0), batch, changes[batch])
    state = tmp_path / "state" / "0"
    (state / "0.snapshot").replace(state / "1.snapshot")
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(DamagedStateError, match=r"of version 0 of cell 0 .*copied or renamed"):
        apply(make(), 2, changes[2])


def test_a_delta_of_another_plan_is_refused_with_both_fingerprints(make):
    changes = stream(2)
    apply(make(HOPS), 0, changes[0])
    with pytest.raises(PlanChangedError, match=f"{HOPS.fingerprint}.*{ENDS.fingerprint}"):
        apply(make(ENDS, host="there"), 1, changes[1])


def test_retention_keeps_what_the_last_batches_need(make, tmp_path, monkeypatch):
    monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    changes = stream(12)
    deltas = expected(HOPS, changes)
    for batch, table in enumerate(changes):
        apply(make(keep=3), batch, table)
    log = CellLog(tmp_path / "state" / "0", HOPS.fingerprint)
    assert min(log.batches()) > 5
    assert min(log.snapshots()) == min(log.batches()) - 1
    for back in range(3):
        shutil.rmtree(tmp_path / "here")
        batch = 11 - back
        log.forget(batch - 1)
        assert apply(make(keep=3), batch, changes[batch])[0] == deltas[batch]


def test_deletes_of_absent_rows_can_be_refused_and_leave_no_trace(make):
    first = rows((1, 2, 1), (2, 3, 1), (3, 4, 1))
    apply(make(on_missing="raise"), 0, first)
    with pytest.raises(MissingDeleteError):
        apply(make(on_missing="raise"), 1, rows((1, 2, -1), (7, 7, -1)))
    assert make(on_missing="raise").stats()["input_rows"] == 3


def test_a_stream_that_goes_on_with_other_promises_keeps_them(make):
    apply(make(), 0, rows((1, 2, 1), (2, 3, 1)))
    with pytest.raises(MissingDeleteError):
        apply(make(on_missing="raise"), 1, rows((7, 7, -1)))
    apply(make(), 1, rows((7, 7, -1)))


def test_a_foreign_file_in_the_place_of_the_live_engine_is_replaced(make, tmp_path):
    changes = stream(3)
    deltas = expected(HOPS, changes)
    apply(make(), 0, changes[0])
    (tmp_path / "here" / "engine.arena").unlink()
    (tmp_path / "here" / "engine.arena").write_bytes(b"x" * 4096)
    assert apply(make(), 1, changes[1])[0] == deltas[1]
