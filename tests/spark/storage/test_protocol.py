"""The commit protocol of cells on either storage, without Spark. Oracle: an engine in memory that applies the batches.

A batch is given to ``micro_batch`` as a task does it; only Spark's own checkpoint is imitated.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.cell import step as steps
from spark_jobs.commands import state as state_command
from spark_jobs.commands.state import troubles
from spark_jobs.errors import BrokenChainError, CheckpointError, InputChangedError
from spark_jobs.log import state_log
from spark_jobs.log.history import reconcile
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_log import CellLog, read_note
from spark_jobs.storage import objects
from spark_jobs.storage.opening import folder_at
from tests.marks import by_turns, slow
from tests.oracles.expectation import net
from tests.spark.cell.test_cell import HOPS, expected, rows, stream
from tests.spark.job.test_submit import command
from tests.spark.storage.flaky import flaky_proxy
from tests.spark.storage.server import SECRET, environment, gcs_options, options, through, url_of

CHANGES = stream(8)
DELTAS = expected(HOPS, CHANGES)
ROOT = Path(__file__).parents[3]


class Given:
    """What a task was given, without Spark's rows."""

    def __init__(self, changes, bad=()):
        self.changes, self.bad = changes, list(bad)

    def split(self, batches):
        """Returns it, whatever the batches."""
        list(batches)
        return self.changes, self.bad


class Site:
    """A stream with its state somewhere and Spark's checkpoint in ``folder``."""

    def __init__(self, folder, place):
        self.folder, self.place = folder, place
        self.root = folder_at(place[0], "state", place[1])
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": "s"}))

    def step(self, changes, host="here", bad=(), **more):
        """What a task is told."""
        (self.folder.parent / host).mkdir(exist_ok=True)
        known = {"grid": steps.Grid(), "fingerprint": HOPS.fingerprint, "query": "Q", "operator": "crown"}
        known |= {"program": json.dumps(HOPS.to_json()), "root": self.place[0], "run": "r", "options": self.place[1]}
        known |= {"checkpoint": str(self.folder), "scratch": str(self.folder.parent / host), "keep": 3, "sample": 0}
        known |= {
            "limits": steps.NONE,
            "on_missing": "ignore",
            "backfill": False,
            "envelope": Given(changes, bad),
            "filed": (),
        }
        return steps.Step(**dict.fromkeys(steps.Step.__dataclass_fields__) | known | more)

    def apply(self, batch, changes, host="here", **more):
        """The deltas of a batch."""
        for kind in ("offsets", "commits"):
            (self.folder / kind).mkdir(exist_ok=True)
            (self.folder / kind / str(batch)).write_text(f'v1\n{{"at":{batch}}}\n{{"logOffset":{batch}}}')
        return net(steps.micro_batch(self.step(changes, host, **more), "s", batch, 0, ()))

    @property
    def cell(self):
        """The folder of the only cell."""
        return self.root / "s" / "crown" / "0"

    def log(self):
        """Its log."""
        return CellLog.of(self.cell, read_meta(self.cell.parent))


@pytest.fixture
def site(tmp_path, place):
    return Site(tmp_path / "checkpoint", place)


def test_batches_in_order_and_executed_again_give_what_an_engine_in_memory_gives(site):
    for batch, changes in enumerate(CHANGES):
        assert site.apply(batch, changes) == DELTAS[batch]
        if batch % 3 == 1:
            assert site.apply(batch, changes) == DELTAS[batch]
    assert not list(troubles(site.log()))
    reconcile(site.folder, "s", "crown", site.root)


def test_another_host_restores_from_log_and_snapshots_and_retention_keeps_what_it_needs(site, monkeypatch, tmp_path):
    monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    for batch, changes in enumerate(CHANGES):
        assert site.apply(batch, changes, "there" if batch in (3, 6) else "here") == DELTAS[batch]
        assert (read_note(site.cell, batch)["restored"] >= 0) == (batch in (0, 3, 4, 6, 7))
    log = site.log()
    assert log.snapshots() == [3, 4, 5, 6, 7]
    assert log.batches() == [4, 5, 6, 7]
    assert not list(troubles(log))
    assert not list((tmp_path / "here").glob("crown-*"))
    log.forget(5)
    assert site.apply(6, CHANGES[6]) == DELTAS[6]


def test_whoever_comes_second_with_other_rows_is_refused_and_with_the_same_goes_on(site):
    site.apply(0, CHANGES[0])
    with pytest.raises(InputChangedError, match="batch 0 was executed again with other rows"):
        site.apply(0, CHANGES[1], "there")
    assert site.apply(0, CHANGES[0], "there") == DELTAS[0]
    assert site.apply(1, CHANGES[1]) == DELTAS[1]


def test_a_missing_link_is_an_error_that_names_cell_and_batch(site):
    for batch in range(3):
        site.apply(batch, CHANGES[batch])
    site.cell.delete(["1.delta"])
    with pytest.raises(BrokenChainError, match=r"cell 0: .*batch 1"):
        site.apply(3, CHANGES[3], "there")
    for kind in ("offsets", "commits"):
        (site.folder / kind / "3").unlink()
    with pytest.raises(BrokenChainError, match=r"batch 2 follows batch 1"):
        reconcile(site.folder, "s", "crown", site.root)


def test_state_that_is_gone_is_noticed_before_and_while_the_stream_runs(site):
    for batch in range(2):
        site.apply(batch, CHANGES[batch])
    site.cell.delete(site.cell.files())
    with pytest.raises(BrokenChainError, match="no cell has batch 0"):
        reconcile(site.folder, "s", "crown", site.root)
    with pytest.raises(BrokenChainError, match=r"does not have it|no cell has batch"):
        site.apply(2, CHANGES[2])


def test_a_stream_goes_on_from_its_backfill(site):
    for _ in steps.one_shot(site.step(CHANGES[0], backfill=True, scratch=None), 0, ()):
        pass
    assert site.apply(0, CHANGES[1]) == DELTAS[1]
    with pytest.raises(CheckpointError, match="a stream already runs from"):
        for _ in steps.one_shot(site.step(CHANGES[0], backfill=True, scratch=None), 0, ()):
            pass
    assert site.apply(1, CHANGES[2], "there") == DELTAS[2]


def test_bad_rows_go_to_the_quarantine_and_nowhere_else(site, tmp_path):
    """Whatever the rows say, the name of the file is the batch and the cell."""
    nasty = ["../../etc/x", "/etc/x", "a\u0000b", "s3://elsewhere/x", "..", "\n"]
    bad = [json.dumps({"relation": text, "reason": text, "row": {text: text}}) for text in nasty]
    before = {path for path in tmp_path.rglob("*") if "here" not in path.parts}
    site.apply(0, CHANGES[0], bad=bad, quarantine=f"{site.place[0]}/aside")
    folder = site.root / "aside" / "s" / "crown"
    assert list(folder.files()) == ["0.0.jsonl"]
    assert [json.loads(line)["reason"] for line in folder.read("0.0.jsonl").decode().splitlines()] == nasty
    after = {path for path in tmp_path.rglob("*") if not {"here", "on disk", "checkpoint"} & set(path.parts)}
    assert after <= before | {tmp_path / "here"}


def test_what_is_written_is_its_owners_alone_and_holds_no_credentials(site, tmp_path, monkeypatch):
    monkeypatch.setattr(CellLog, "snapshot_due", lambda *_: True)
    old = os.umask(0)
    try:
        for batch in range(3):
            site.apply(batch, CHANGES[batch], bad=['{"row": 1}'], quarantine=f"{site.place[0]}/aside")
    finally:
        os.umask(old)
    assert SECRET not in repr(site.step(CHANGES[0]))
    kept = site.cell.files()
    assert {name.rpartition(".")[2] for name in kept} == {"delta", "snapshot", "json"}
    for folder in (site.cell, site.cell.parent):
        for name in folder.files():
            assert SECRET.encode() not in folder.read(name)
    files = [path for path in (tmp_path / "on disk").rglob("*") if path.is_file()]
    assert {oct(path.stat().st_mode & 0o777) for path in files} <= {"0o600"}


def test_the_state_command_shows_and_checks_a_state_on_any_storage(site, capsys, monkeypatch):
    for name, value in environment(site.place[1]).items():
        monkeypatch.setenv(name, value)
    for batch in range(3):
        site.apply(batch, CHANGES[batch])
    assert command(state_command, site.place[0], "--check") == 0
    said = capsys.readouterr().out
    assert f"{site.root}/s/crown" in said
    assert "cell 0: batches 0 to 2" in said
    site.cell.delete(["1.delta"])
    assert command(state_command, site.place[0], "--check") == 1


# -- what it costs, and what happens when the store does not answer --------------------------------------------------


class Counting:
    """obstore, with every request counted."""

    def __init__(self, real, counted):
        self._real, self._counted = real, counted

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if not callable(found) or name in ("store", "exceptions"):
            return found

        def asked(*args, **more):
            self._counted[name] += 1
            return found(*args, **more)

        return asked


@pytest.fixture(params=["s3", "gcs"])
def bucket(request):
    """The URI of a bucket, with the options by which it is reached."""
    return {"s3": "s3://bucket", "gcs": "gs://bucket"}[request.param], request.getfixturevalue(request.param)


@pytest.mark.parametrize("bucket", ["s3", slow("gcs")], indirect=True)
def test_a_batch_costs_the_same_number_of_requests_whatever_its_number(tmp_path, bucket, monkeypatch):
    site, counted = Site(tmp_path / "checkpoint", (f"{bucket[0]}/counted-{os.getpid()}", bucket[1])), Counter()
    real = objects._obstore
    monkeypatch.setattr(objects, "_obstore", lambda uri: Counting(real(uri), counted))
    monkeypatch.setattr(state_log, "NOTES", 20)
    seen = []
    for batch in range(40):
        counted.clear()
        site.apply(batch, rows((batch % 5, batch % 7, 1)), keep=100)
        seen.append(dict(counted))
    written = {"get": 2, "head": 1, "put": 2}  # meta.json, the delta before; whether this one is there; delta and note
    snapshots = [batch for batch, requests in enumerate(seen) if batch and requests["put"] == 3]
    assert len(snapshots) == 1
    plain = [batch for batch in range(1, len(seen)) if batch not in snapshots]
    assert all(seen[batch] == written | ({"delete": 1} if batch >= 20 else {}) for batch in plain)
    assert all(sum(seen[batch].values()) <= 12 for batch in (0, *snapshots))


class Flaky:
    """obstore whose requests of some kind fail, before or after they are done."""

    def __init__(self, real, kinds, after=False):
        self._real, self._kinds, self._after = real, kinds, after

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if name not in self._kinds:
            return found

        def asked(*args, **more):
            if self._after:
                found(*args, **more)
            raise self._real.exceptions.GenericError(f"timed out, {SECRET}\n\nDebug source:\nmore")

        return asked


@pytest.mark.parametrize(
    ("kind", "bucket", "after"),
    by_turns(("get", "put", "list_with_delimiter"), ("s3", "gcs"), (True, False)),
    indirect=["bucket"],
)
def test_a_store_that_does_not_answer_ends_in_a_sentence_and_no_batch_is_skipped(
    tmp_path, bucket, monkeypatch, kind, after
):
    site = Site(tmp_path / "checkpoint", (f"{bucket[0]}/flaky-{kind}-{after}-{os.getpid()}", bucket[1]))
    site.apply(0, CHANGES[0])
    site.apply(1, CHANGES[1])
    real = objects._obstore
    host = "there" if kind == "list_with_delimiter" else "here"
    with monkeypatch.context() as broken:
        broken.setattr(objects, "_obstore", lambda uri: Flaky(real(uri), {kind}, after))
        with pytest.raises(CheckpointError, match="timed out") as error:
            site.apply(2, CHANGES[2], host)
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    assert site.apply(2, CHANGES[2], host) == DELTAS[2]
    assert site.apply(3, CHANGES[3], host) == DELTAS[3]
    assert site.log().batches() == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_server_in_trouble_costs_time_and_nothing_else(tmp_path, bucket, seed):
    """Requests that are refused, lost, or answered too late are sent again; what then fails, Spark executes again."""
    said = []
    with flaky_proxy(url_of(bucket[1]), seed) as (url, done):
        trouble = {**through(url, bucket[1]), "timeout": "1s", "max_retries": "5"}
        site = Site(tmp_path / "checkpoint", (f"{bucket[0]}/trouble-{seed}-{os.getpid()}", trouble))
        for batch, changes in enumerate(CHANGES):
            for attempt in range(20):
                try:
                    deltas = site.apply(batch, changes, "there" if (batch + attempt) % 3 == 2 else "here")
                except CheckpointError as error:
                    said.append(str(error))
                else:
                    break
            assert deltas == DELTAS[batch]
    calm = Site(tmp_path / "checkpoint", (site.place[0], bucket[1]))
    assert calm.log().batches() == list(range(len(CHANGES)))
    assert not list(troubles(calm.log()))
    assert min(done[kind] for kind in ("refused", "dropped", "answer dropped", "late")) > 0
    assert len(said) < sum(done.values()) - done["passed"]
    assert not any("\n" in sentence or SECRET in sentence for sentence in said)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_server_that_is_gone_is_no_empty_state(tmp_path, scheme):
    known = {"s3": options, "gs": gcs_options}[scheme]("http://127.0.0.1:9")
    site = Site(tmp_path / "checkpoint", (f"{scheme}://bucket/gone", {**known, "max_retries": "0"}))
    with pytest.raises(CheckpointError, match=r"cannot read .*meta\.json"):
        site.apply(0, CHANGES[0])
    with pytest.raises(CheckpointError, match="cannot read"):
        reconcile(site.folder, "s", "crown", site.root)


WORKER = """
import os, signal, sys
from pathlib import Path
from tests.spark.storage import test_protocol as here
place, options, folder, point = sys.argv[1], eval(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
site = here.Site(folder, (place, options))
die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
if point == "before the log":
    here.CellLog.publish = die
if point == "after the log":
    from crown.programs.program import ProgramEngine
    ProgramEngine.run = die
if point == "in the snapshot":
    here.CellLog.snapshot_due = lambda *_: True
    here.CellLog.write_snapshot = die
if point == "before the note":
    here.CellLog.write_note = die
site.apply(2, here.CHANGES[2])
"""


POINTS = ["before the log", "after the log", "in the snapshot", "before the note"]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_anywhere_leaves_nothing_half_done(site, point):
    killed_in_the_middle(site, point)


@pytest.mark.parametrize("place", ["s3", slow("gcs")], indirect=True)
def test_a_killed_worker_leaves_nothing_half_done(site):
    killed_in_the_middle(site, "after the log")


def killed_in_the_middle(site, point):
    """Batch 2 in a process that dies there; then the stream goes on."""
    for batch in range(2):
        site.apply(batch, CHANGES[batch])
    command = [sys.executable, "-c", WORKER, site.place[0], repr(site.place[1]), str(site.folder), point]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    died = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    for host in ("here", "there"):
        assert site.apply(2, CHANGES[2], host) == DELTAS[2]
    shutil.rmtree(site.folder.parent / "here")
    assert site.apply(3, CHANGES[3]) == DELTAS[3]
    assert not list(troubles(site.log()))
