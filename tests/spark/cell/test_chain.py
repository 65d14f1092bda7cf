"""Files of another history, of another cut or of another backfill are refused, and tiny batches leave few files.

Two histories of one cell are made by going back and on with other rows: every file of both is whole, and of the right
stream, cell and batch.
"""

from __future__ import annotations

import json
import os
import random
import shutil

import pytest

from spark_jobs.cell import step as steps
from spark_jobs.cell.cell import Cell
from spark_jobs.commands.state import troubles
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError
from spark_jobs.log.meta import check_meta
from spark_jobs.log.state_log import BACKFILL, NOTES, CellLog, strangers
from spark_jobs.storage.local import LocalFolder
from tests.spark.cell.test_cell import HOPS, apply, expected, rows, stream
from tests.spark.cell.test_history import CHANGES, DELTAS, META, Job

OTHER = stream(5, seed=9)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path / "state")


def forked(job, at, folder):
    """Keeps a copy of the state in ``folder``, then goes back to before batch ``at`` and on with other rows."""
    shutil.copytree(job.state, folder)
    shutil.rmtree(job.scratch)
    for number in (0, 1):
        job.cell(number).log.forget(at - 1)
        for batch in range(at, 4):
            apply(job.cell(number), batch, OTHER[batch])


@pytest.mark.parametrize("live", [True, False], ids=["live", "restored"])
def test_a_delta_of_another_history_of_the_same_cell_is_refused(job, tmp_path, live):
    job.run(CHANGES[:4])
    forked(job, 2, tmp_path / "old")
    shutil.copy(tmp_path / "old" / "0" / "2.delta", job.state / "0" / "2.delta")
    with pytest.raises(BrokenChainError, match=r"3\.delta follows another batch 2 .*different histories"):
        job.reconcile()
    assert any("different histories" in said for said in troubles(job.cell(0).log))
    assert not list(troubles(job.cell(1).log))
    job.spark(4)
    if not live:
        shutil.rmtree(job.scratch)
        with pytest.raises(BrokenChainError, match=r"3\.delta follows another batch 2 .*different histories"):
            apply(job.cell(0), 4, CHANGES[4])


def test_a_newest_delta_that_is_not_the_one_applied_is_refused(job, tmp_path):
    job.run(CHANGES[:4])
    forked(job, 3, tmp_path / "old")
    shutil.copy(tmp_path / "old" / "0" / "3.delta", job.state / "0" / "3.delta")
    job.spark(4)
    for batch in (3, 4):
        with pytest.raises(DamagedStateError, match=r"applied another batch 3 .*replaced"):
            apply(job.cell(0), batch, CHANGES[batch])


def test_a_live_engine_of_another_history_gives_way_to_the_log(job, tmp_path):
    job.run(CHANGES[:3])
    aside = job.scratch.rename(tmp_path / "aside")
    for number in (0, 1):
        job.cell(number).log.forget(1)
        for batch in (2, 3):
            apply(job.cell(number), batch, OTHER[batch])
    shutil.rmtree(job.scratch)
    aside.rename(job.scratch)
    got, report = apply(job.cell(0), 4, CHANGES[4])
    assert got == expected(HOPS, [*CHANGES[:2], *OTHER[2:4], CHANGES[4]])[4]
    assert report.restored == 4


@pytest.mark.parametrize("again", [OTHER, CHANGES], ids=["other rows", "the same rows"])
def test_after_going_back_the_same_application_goes_on(job, again):
    """Its live engine has applied what was forgotten, and gives way to the log."""
    job.run(CHANGES[:4])
    for number in (0, 1):
        job.cell(number).log.forget(1)
    assert not strangers(job.cell(0).log)
    for batch in (2, 3, 4):
        got, report = apply(job.cell(0), batch, again[batch])
        assert got == expected(HOPS, [*CHANGES[:2], *again[2:]])[batch]
        assert report.restored == (2 if batch == 2 else -1)


def test_a_snapshot_of_another_history_is_refused(job, tmp_path, monkeypatch):
    monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    job.run(CHANGES[:4])
    forked(job, 2, tmp_path / "old")
    shutil.copy(tmp_path / "old" / "0" / "3.snapshot", job.state / "0" / "3.snapshot")
    shutil.rmtree(job.scratch)
    job.spark(4)
    assert any("different histories" in said for said in troubles(job.cell(0).log))
    with pytest.raises(DamagedStateError, match=r"3\.snapshot and .*3\.delta belong to different histories"):
        apply(job.cell(0), 4, CHANGES[4])


def test_a_delta_lost_in_the_middle_is_noticed_before_the_stream_goes_on(job):
    job.run(CHANGES[:4])
    (job.state / "1" / "2.delta").unlink()
    with pytest.raises(BrokenChainError, match=r"cell 1: batch 3 follows batch 2, but .* batch 1: a delta .* missing"):
        job.reconcile()


def test_a_cell_that_changed_places_with_another_is_refused(job):
    job.run(CHANGES[:3])
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (job.state / old).rename(job.state / new)
    with pytest.raises(DamagedStateError, match=r"of cell 1 of stream .* copied or renamed"):
        job.reconcile()
    job.spark(3)
    with pytest.raises(DamagedStateError, match=r"copied or renamed|applied another batch"):
        apply(job.cell(0), 3, CHANGES[3])


def test_cells_without_the_file_that_says_how_many_they_are_are_refused(job):
    job.run(CHANGES[:2])
    (job.state / "meta.json").unlink()
    with pytest.raises(DamagedStateError, match=r"meta\.json is missing, but there are cells \(0, 1\)"):
        check_meta(job.state, META)


@pytest.mark.parametrize("cut", [{"attributes": ["b"], "shares": [4]}, {"attributes": ["c"], "shares": [2]}])
def test_files_of_another_cut_are_refused(job, monkeypatch, cut):
    """The file that says how the state is cut was lost, and another one made."""
    job.run(CHANGES[:2])
    (job.state / "meta.json").unlink()
    monkeypatch.setitem(META, "grid", cut)
    monkeypatch.setattr("spark_jobs.log.meta._refuse_orphans", lambda _: None)
    check_meta(job.state, META)
    with pytest.raises(DamagedStateError, match=r"partitioned by .*\[\"b\"\].*partitioned by "):
        job.reconcile()
    shutil.rmtree(job.scratch)
    job.spark(2)
    with pytest.raises(DamagedStateError, match="a state that is partitioned by"):
        apply(job.cell(0), 2, CHANGES[2])


def test_the_history_of_a_stream_begins_with_one_backfill(tmp_path):
    """A backfill that is computed again after the stream has begun would change what the stream began with."""
    step = steps.Step(
        **dict.fromkeys(steps.Step.__dataclass_fields__)
        | {"grid": steps.Grid(), "fingerprint": HOPS.fingerprint, "query": "Q", "operator": "crown"}
        | {"program": json.dumps(HOPS.to_json()), "root": str(tmp_path / "crown"), "run": "r"}
        | {"backfill": True, "on_missing": "ignore", "envelope": _Whole(CHANGES[0])}
    )
    list(steps.one_shot(step, 0, ()))
    base = tmp_path / "crown" / "backfill" / "crown" / "0" / f"{BACKFILL}.snapshot"

    def cell(host):
        log = CellLog.of(tmp_path / "crown" / "s" / "crown" / "0", step.meta)
        return Cell(HOPS, log, tmp_path / host, base=lambda: LocalFolder(base.parent))

    old = base.read_bytes()
    list(steps.one_shot(step, 0, ()))
    assert apply(cell("a"), 0, CHANGES[1])[0] == DELTAS[1]
    with pytest.raises(CheckpointError, match="a stream already runs from"):
        list(steps.one_shot(step, 0, ()))
    assert apply(cell("b"), 1, CHANGES[2])[0] == DELTAS[2]
    base.write_bytes(old)
    with pytest.raises(BrokenChainError, match=r"0\.delta follows another batch -1 than the one"):
        apply(cell("c"), 2, CHANGES[3])


class _Whole:
    def __init__(self, changes):
        self.changes = changes

    def split(self, batches):
        return self.changes, []


def test_tiny_batches_leave_few_files_and_list_no_folder(tmp_path, monkeypatch):
    """The cost of a batch does not depend on its number: what is listed, for snapshots, is bounded as well."""
    folder, keep, rng, listed = tmp_path / "state" / "0", 20, random.Random(3), []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    snapshots, most, changes = 0, 0, []
    for batch in range(300):
        changes.append(rows((rng.randrange(9), rng.randrange(9), rng.choice((1, 1, -1)))))
        log = CellLog(folder, HOPS.fingerprint)
        before = len(listed)
        _, report = apply(Cell(HOPS, log, tmp_path / "here", keep=keep), batch, changes[-1])
        log.write_note(batch, {})
        snapshots += report.snapshot_ms > 0
        assert len(listed) - before <= (0 if batch and not report.snapshot_ms else 2 if batch else 4)
        most = max(most, len(listdir(folder)))
    assert 300 // 40 <= snapshots <= 300 // 30
    assert most < keep + 2 * 35 + NOTES + 5
    shutil.rmtree(tmp_path / "here")
    more = rows((1, 2, 1), (2, 3, 1), (3, 4, 1))
    got, report = apply(Cell(HOPS, CellLog(folder, HOPS.fingerprint), tmp_path / "here", keep=keep), 300, more)
    assert got == expected(HOPS, [*changes, more])[300]
    assert report.restored < 35
