"""What is lost, copied or mixed up in a cell's files or in Spark's checkpoint is noticed, without Spark.

Spark's checkpoint is imitated: metadata, and per batch its offsets and commits.
"""

from __future__ import annotations

import json
import shutil

import pytest

from spark_jobs.cell.cell import Cell
from spark_jobs.errors import BrokenChainError, DamagedStateError
from spark_jobs.log import delta_file
from spark_jobs.log.delta_file import MASKED
from spark_jobs.log.history import SparkHistory, reconcile
from spark_jobs.log.meta import check_meta
from spark_jobs.log.state_log import CellLog
from tests.spark.cell.test_cell import HOPS, apply, expected, stream

META = {
    "format": MASKED,
    "fingerprint": HOPS.fingerprint,
    "cells": 2,
    "grid": {"attributes": ["b"], "shares": [2]},
    "query": "Q",
}


class Job:
    """A checkpoint folder with Spark's files and the state of an operator in two cells."""

    def __init__(self, folder, stream="s", scratch="here"):
        self.folder = folder
        self.scratch = folder.parent / scratch
        self.stream = stream
        self.state = folder / "crown" / stream / "crown"
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": stream}))
        check_meta(self.state, META)

    def spark(self, batch, offset=None, committed=True):
        """Spark begins a batch, with new data unless ``offset`` is that of another batch, and commits it."""
        for kind, text in (
            ("offsets", f'v1\n{{"at":{batch}}}\n{{"logOffset":{batch if offset is None else offset}}}'),
            ("commits", "v1\n{}"),
        ):
            (self.folder / kind).mkdir(exist_ok=True)
            if kind == "offsets" or committed:
                (self.folder / kind / str(batch)).write_text(text)

    def cell(self, number, **options):
        log = CellLog.of(self.state / str(number), META)
        return Cell(HOPS, log, self.scratch / self.stream / str(number), spark=self.folder, **options)

    def run(self, changes, cells=(0, 1), **options):
        """All batches, in these cells."""
        for batch, rows in enumerate(changes):
            self.spark(batch)
            for number in cells:
                apply(self.cell(number, **options), batch, rows)

    def reconcile(self):
        reconcile(self.folder, self.stream, "crown")


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path / "state")


CHANGES = stream(5)
DELTAS = expected(HOPS, CHANGES)


def test_nothing_lost_is_no_trouble(job):
    job.run(CHANGES[:3])
    job.reconcile()
    job.spark(3, committed=False)
    job.reconcile()  # a batch that was begun only
    apply(job.cell(0), 3, CHANGES[3])
    job.reconcile()
    assert apply(job.cell(0), 3, CHANGES[3])[0] == DELTAS[3]


@pytest.mark.parametrize("host", ["here", "there"])
def test_losing_the_newest_delta_of_every_cell_is_noticed(job, tmp_path, host):
    job.run(CHANGES[:3])
    for number in (0, 1):
        (job.state / str(number) / "2.delta").unlink()
    with pytest.raises(
        BrokenChainError, match=r"committed batch 2 \(.*offsets\), but no cell has batch 2.*rollback-to 1"
    ):
        job.reconcile()
    job.spark(3)
    job.scratch = tmp_path / host
    with pytest.raises(BrokenChainError, match=r"has applied batch 2, but .*does not have it|no cell has batch 2"):
        apply(job.cell(0), 3, CHANGES[3])


def test_losing_the_newest_delta_of_one_cell_is_noticed(job):
    job.run(CHANGES[:3])
    (job.state / "1" / "2.delta").unlink()
    with pytest.raises(BrokenChainError, match="cell 1 does not have batch 2, which other cells applied"):
        job.reconcile()


@pytest.mark.parametrize("what", ["crown", "crown/s", "crown/s/crown/1"])
def test_losing_the_state_is_noticed(job, what):
    job.run(CHANGES[:3])
    shutil.rmtree(job.folder / what)
    shutil.rmtree(job.scratch)
    with pytest.raises(BrokenChainError, match="batch 0"):
        job.reconcile()
    job.spark(3)
    with pytest.raises(BrokenChainError, match="batch 0"):
        apply(job.cell(1), 3, CHANGES[3])


def test_losing_sparks_offsets_and_commits_is_noticed(job):
    job.run(CHANGES[:3])
    shutil.rmtree(job.folder / "offsets")
    shutil.rmtree(job.folder / "commits")
    with pytest.raises(BrokenChainError, match=r"next batch is 0 .*offsets\), but cell 0 already has batch 2"):
        job.reconcile()
    job.spark(0)
    with pytest.raises(BrokenChainError, match=r"next batch is 0 .*but cell 0 already has batch 2"):
        apply(job.cell(0), 0, CHANGES[0])


def test_losing_the_whole_checkpoint_of_spark_is_noticed(job):
    job.run(CHANGES[:3])
    anew = Job(job.folder, "another")
    with pytest.raises(
        BrokenChainError, match=r"began the new stream another in .*the state of stream s up to batch 2"
    ):
        apply(anew.cell(0), 0, CHANGES[0])


def test_a_batch_that_no_cell_executed_is_noticed_at_the_next(job):
    job.run(CHANGES[:2])
    job.spark(2)
    job.spark(3)
    for number in (0, 1):
        with pytest.raises(BrokenChainError, match=r"no cell has batch 2 .*foreachBatch did not read it"):
            apply(job.cell(number), 3, CHANGES[3])
    with pytest.raises(BrokenChainError, match="no cell has batch 2"):
        job.reconcile()


def test_batches_for_which_no_source_had_anything_are_no_gap(job):
    job.run(CHANGES[:2])
    job.spark(2, offset=1)
    job.spark(3, offset=1)
    job.reconcile()
    job.spark(4)
    assert apply(job.cell(0), 4, CHANGES[2])[0] == DELTAS[2]


def test_a_gap_without_sparks_checkpoint_is_an_error_and_no_gap_is_none(job, tmp_path):
    job.run(CHANGES[:2])
    (job.folder / "metadata").unlink()
    assert apply(job.cell(0), 2, CHANGES[2])[0] == DELTAS[2]
    with pytest.raises(BrokenChainError, match=r"the newest in .* is batch 2.*may have had data.*checkpointLocation"):
        apply(job.cell(0), 4, CHANGES[3])


def test_offsets_that_spark_no_longer_keeps_prove_nothing(job):
    job.run(CHANGES[:2])
    spark = SparkHistory.of(job.folder, "s")
    assert spark.had_data(0)
    (job.folder / "offsets" / "0").unlink()
    assert spark.had_data(1)
    (job.folder / "offsets" / "7").write_text("v1")
    assert spark.had_data(7)
    assert SparkHistory.of(job.folder, "t") is None


@pytest.mark.parametrize("source", ["another cell", "another batch", "another stream", "another operator"])
@pytest.mark.parametrize("kind", ["delta", "snapshot"])
def test_a_file_of_another_cell_batch_or_stream_is_refused(job, tmp_path, monkeypatch, source, kind):
    if kind == "snapshot":
        monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    job.run(CHANGES[:3])
    other = Job(tmp_path / "other", "t")
    other.run(CHANGES[:3])
    beside = CellLog.of(job.state.parent / "second" / "0", META)
    folder = {
        "another cell": job.state / "1",
        "another batch": job.state / "0",
        "another stream": other.state / "0",
        "another operator": job.state.parent / "second" / "0",
    }[source]
    if source == "another operator":
        for batch, rows in enumerate(CHANGES[:3]):
            apply(Cell(HOPS, beside, tmp_path / "second", spark=job.folder), batch, rows)
    number = 1 if source == "another batch" else 2
    shutil.copy(folder / f"{number}.{kind}", job.state / "0" / f"2.{kind}")
    shutil.rmtree(job.scratch)
    with pytest.raises(DamagedStateError, match=rf"2\.{kind} is .* of cell . of stream .*/.*copied or renamed"):
        apply(job.cell(0), 3, CHANGES[3])


@pytest.mark.parametrize("lacking", [("cut", "parent"), ("cut", "parent", "stream")])
@pytest.mark.parametrize("from_snapshot", [True, False])
def test_a_checkpoint_from_before_there_was_a_chain_of_digests_is_gone_on_with(
    job, monkeypatch, lacking, from_snapshot
):
    def older(link, owner):
        data = delta_file.pack(link, owner)
        end = 12 + int.from_bytes(data[8:12], "little")
        header = {key: value for key, value in json.loads(data[12:end]).items() if key not in lacking}
        text = json.dumps(header).encode()
        return resigned(data[:8] + len(text).to_bytes(4, "little") + text + data[end:])

    def mark(self, version, digest):
        said = {"version": version, "cell": self.cell, "stream": self.owner.stream}
        return {key: value for key, value in said.items() if key not in lacking}

    with monkeypatch.context() as patched:
        patched.setattr(CellLog, "snapshot_due", lambda *_: True)
        patched.setattr("spark_jobs.log.state_log.pack", older)
        patched.setattr(CellLog, "mark", mark)
        job.run(CHANGES[:2])
    if not from_snapshot:
        (job.state / "0" / "1.snapshot").unlink()
    shutil.rmtree(job.scratch)
    job.reconcile()
    assert b"parent" not in (job.state / "0" / "1.delta").read_bytes()
    for batch in (2, 3):
        job.spark(batch)
        got, report = apply(job.cell(0), batch, CHANGES[batch])
        assert got == DELTAS[batch]
        assert report.restored == ([0, 1][not from_snapshot] if batch == 2 else -1)
    assert job.cell(0).log.read(2).parent == job.cell(0).log.digest(1)
    assert not list(job.cell(0).log.troubles(complete=True))


def resigned(data):
    """The bytes with a checksum that fits them."""
    import hashlib

    return data[:-16] + hashlib.blake2b(data[:-16], digest_size=16).digest()


def test_files_of_other_names_are_not_looked_at(job):
    job.run(CHANGES[:2])
    folder = job.state / "0"
    for name in ("5.delta.bak", "5 (copy).delta", "x.snapshot", "07.delta", "٣.delta", "-2.delta", "notes.json"):
        (folder / name).write_text("something else")
    shutil.copytree(folder, job.state / "0 (copy)")
    shutil.copytree(folder, job.state / "0.bak")
    shutil.rmtree(job.scratch)
    job.reconcile()
    assert apply(job.cell(0), 2, CHANGES[2])[0] == DELTAS[2]


def test_a_live_engine_that_is_older_than_what_is_kept_is_rebuilt(job, tmp_path, monkeypatch):
    """A cell comes back to a host after retention has deleted what follows the engine that was left there."""
    monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    job.run(CHANGES[:1])
    job.scratch = tmp_path / "there"
    for batch in (1, 2, 3):
        job.spark(batch)
        apply(job.cell(0, keep=1), batch, CHANGES[batch])
    assert min(job.cell(0).log.batches()) > 1
    job.scratch = tmp_path / "here"
    job.spark(4)
    assert apply(job.cell(0), 4, CHANGES[4])[0] == DELTAS[4]
