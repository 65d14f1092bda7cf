"""Faults of the commit protocol, without Spark: an attempt is a forked process, and what it delivers counts at its end.

That is what Spark does with the rows of a task. Spark's checkpoint is imitated. After every fault the batch is executed
again until an attempt comes to its end; what it delivers must be what an engine in memory delivers. A checkpoint that
was damaged must be refused, or make no difference; then it is put back, and the stream goes on.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crown.errors import CrownError
from spark_jobs.cell import live
from spark_jobs.cell.cell import Report
from spark_jobs.errors import CheckpointError
from spark_jobs.log.meta import check_meta
from tests.chaos import calls, files, store
from tests.oracles.expectation import net
from tests.spark.cell.test_cell import HOPS, expected, stream
from tests.spark.cell.test_history import META, Job

BATCHES = 12
CALL_FAULTS = ("before", "after", "half", *calls.ERRORS)
PROCESS_FAULTS = (
    "killed at any moment",
    "terminated at any moment",
    "reader leaves",
    "executed again",
    "zombie holds the engine",
    "two drivers at once",
    "two hosts at once",
    "other rows",
    "clock jumps",
    "live engine lost",
    "live engine is old",
    "moved to another host",
)
STORE_FAULTS = tuple(f"object store: {how}" for how in store.FAULTS)
FAULTS = (*(f"system call: {how}" for how in CALL_FAULTS), *STORE_FAULTS, *PROCESS_FAULTS, *files.DAMAGES)


@dataclass
class Tally:
    """What became of the faults, by kind: injected, survived without a word, refused in a sentence."""

    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Adds the counts of another one."""
        for mine, more in zip(self._all(), other._all(), strict=True):
            mine.update(more)

    def _all(self) -> tuple[Counter[str], ...]:
        return self.injected, self.survived, self.refused


@dataclass
class Outcome:
    """How an attempt ended: its deltas, or a sentence of ours, or a traceback, or its death."""

    deltas: Any = None
    refused: str | None = None
    broken: str | None = None

    @property
    def died(self) -> bool:
        """Says whether it was killed."""
        return self.deltas is None and self.refused is None and self.broken is None


class Campaign:
    """One stream over two cells, with one fault before or in each batch; every other has its state behind obstore."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.job = (store.StoreJob if seed % 2 else Job)(folder / "state")
        self.kinds = [kind for kind in FAULTS if seed % 2 or kind not in STORE_FAULTS]
        self.folder = folder
        self.streams = [stream(BATCHES, self.rng.randrange(1, 50), seed=self.rng.random()) for _ in range(2)]
        self.expected = [expected(HOPS, changes) for changes in self.streams]
        self.options = {"snapshot_floor": self.rng.choice((0, 2_000, 1 << 20)), "keep": self.rng.choice((2, 100))}
        self.tally = Tally()
        self.hosts = 0

    def run(self) -> Tally:
        """Executes all batches, with faults; raises AssertionError with what went wrong."""
        for batch in range(BATCHES):
            kind = self.rng.choice(self.kinds)
            if kind in files.DAMAGES:
                self.damaged(kind, batch)
                kind = ""
            self.job.spark(batch, committed=False)
            hit = self.rng.randrange(2)
            for number in (0, 1):
                if number == hit and kind:
                    self.faulty(kind, number, batch)
                self.finish(number, batch)
            self.job.spark(batch)
        for number in (0, 1):
            if (self.job.scratch / self.job.stream / str(number)).exists():  # else it is on another host
                self.job.cell(number, **self.options).live.engine().check_invariants()
        return self.tally

    def finish(self, number: int, batch: int) -> None:
        """Executes a batch until an attempt comes to its end, which must be the first without a fault."""
        done = attempt(self.job, number, batch, self.streams[number][batch], self.options)
        assert done.deltas is not None, f"batch {batch} of cell {number}: {done.refused or done.broken or 'it died'}"
        assert done.deltas == self.expected[number][batch], f"batch {batch} of cell {number} is another"

    def damaged(self, kind: str, batch: int) -> None:
        """Damages the checkpoint between two batches: it is refused, or it makes no difference; then it is put back."""
        state, copy = self.job.state, self.folder / "copy"
        scratch, aside = self.job.scratch, self.folder / "aside"
        for kept in (copy, aside):
            shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(state, copy)
        if scratch.exists():
            copied(scratch, aside)
        what = files.DAMAGES[kind](self.rng, state)
        if what is None:
            return
        self.tally.injected[kind] += 1
        if self.rng.random() < 0.5:
            shutil.rmtree(scratch, ignore_errors=True)
        said = self.resumed(batch)
        self.tally.refused[kind] += said is not None
        self.tally.survived[kind] += said is None
        shutil.rmtree(state, ignore_errors=True)
        copy.rename(state)
        shutil.rmtree(scratch, ignore_errors=True)
        if aside.exists():
            aside.rename(scratch)

    def resumed(self, batch: int) -> str | None:
        """Starts the stream again on what is there and executes a batch; returns the refusal, None if all is right."""
        try:
            self.job.reconcile()
            check_meta(self.job.state, META)
        except CheckpointError as error:
            return str(error)
        self.job.spark(batch, committed=False)
        for number in (0, 1):
            done = attempt(self.job, number, batch, self.streams[number][batch], self.options)
            if done.refused is not None:
                return done.refused
            assert done.deltas is not None, f"no sentence: {done.broken or 'it died'}"
            assert done.deltas == self.expected[number][batch], f"damage was taken: batch {batch} of cell {number}"
        return None

    def faulty(self, kind: str, number: int, batch: int) -> None:
        """Executes a batch once with a fault in it."""
        self.tally.injected[kind] += 1
        done = self._faulty(kind, number, batch)
        if done is None:
            self.tally.survived[kind] += 1
            return
        assert done.broken is None, f"{kind}, batch {batch} of cell {number}: no sentence but {done.broken}"
        if done.deltas is not None:
            assert done.deltas == self.expected[number][batch], f"{kind}: batch {batch} of cell {number} is another"
        self.tally.refused[kind] += done.refused is not None
        self.tally.survived[kind] += done.refused is None

    def _faulty(self, kind: str, number: int, batch: int) -> Outcome | None:
        rng, changes = self.rng, self.streams[number][batch]

        def go(**more: Any) -> Outcome:
            return attempt(self.job, number, batch, changes, self.options, **more)

        if kind.startswith("system call: "):
            return go(arm=lambda: calls.arm(rng, kind.removeprefix("system call: "), 30))
        if kind in STORE_FAULTS:
            return go(arm=lambda: store.arm(rng, kind.removeprefix("object store: "), 8))
        if kind in ("killed at any moment", "terminated at any moment"):
            sent = signal.SIGKILL if kind.startswith("killed") else signal.SIGTERM
            return go(arm=lambda: calls.strike_later(rng.random() * 0.02, sent))
        if kind == "reader leaves":
            return go(leaves=True)
        if kind == "executed again":
            return go()
        if kind == "clock jumps":
            return go(arm=lambda: calls.shift_clock(rng.choice((-1, 1)) * rng.random() * 1e9))
        if kind == "other rows":
            self.finish(number, batch)
            other = stream(1, 60, seed=rng.random())[0]
            done = attempt(self.job, number, batch, other, self.options)
            assert done.refused is not None, "other rows for a batch that was applied were taken"
            return done
        if kind == "zombie holds the engine":
            return self._zombie(number, batch)
        if kind in ("two drivers at once", "two hosts at once"):
            return self._two(number, batch, kind == "two hosts at once")
        here = self.job.scratch
        if kind == "live engine lost":
            shutil.rmtree(here, ignore_errors=True)
        elif kind == "moved to another host":
            self.hosts += 1
            self.job.scratch = here.parent / f"host{self.hosts % 3}"
        elif here.exists():  # an old one comes back: that of the batch before the last
            old = self.folder / "old"
            if old.exists():
                shutil.rmtree(here)
                old.rename(here)
            shutil.rmtree(old, ignore_errors=True)
            copied(here, old)
        return None

    def _zombie(self, number: int, batch: int) -> Outcome:
        """An attempt stops in the midst of the batch; another one comes; then the first is killed."""
        first = Attempt(self.job, number, batch, self.streams[number][batch], self.options, stops=True)
        first.wait_until_stopped()
        changes = self.streams[number][batch]
        second = attempt(self.job, number, batch, changes, self.options, arm=impatient)
        os.kill(first.child, signal.SIGKILL)
        os.kill(first.child, signal.SIGCONT)
        first.end()
        return second

    def _two(self, number: int, batch: int, hosts: bool) -> Outcome:
        """Two attempts at the same time, on one host or on two: neither may deliver anything else."""
        here = self.job.scratch
        first = Attempt(self.job, number, batch, self.streams[number][batch], self.options)
        if hosts:
            self.job.scratch = here.parent / "another"
        second = Attempt(self.job, number, batch, self.streams[number][batch], self.options)
        self.job.scratch = here
        one, two = first.end(), second.end()
        for done in (one, two):
            assert done.broken is None, done.broken
            assert done.deltas in (None, self.expected[number][batch]), "two at once: another result"
        assert one.deltas is not None or two.deltas is not None, f"{one.refused}; {two.refused}"
        return one if one.refused is not None else two


def impatient() -> None:
    """Has this process wait for the lock of a live engine for a moment only."""
    live.LOCK_SECONDS = 0.05


def copied(folder: Path, to: Path) -> None:
    """Copies a folder of live engines, whose files are mostly holes."""
    subprocess.run(["cp", "-a", "--sparse=always", str(folder), str(to)], check=True)


class Attempt:
    """A forked process that executes one batch of one cell and tells its parent what came of it."""

    def __init__(
        self,
        job: Job,
        number: int,
        batch: int,
        changes: Any,
        options: dict[str, Any],
        *,
        arm: Any = None,
        leaves: bool = False,
        stops: bool = False,
    ) -> None:
        self.reader, writer = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            code = 1
            try:
                os.close(self.reader)
                if arm is not None:
                    arm()
                told = _executed(job, number, batch, changes, options, leaves, stops)
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.write(writer, pickle.dumps(told))
                code = 0
            finally:
                os._exit(code)
        os.close(writer)

    def wait_until_stopped(self) -> None:
        """Returns when the attempt has stopped itself, or has ended."""
        while os.waitpid(self.child, os.WUNTRACED | os.WNOHANG)[0] == 0:
            time.sleep(0.001)

    def end(self) -> Outcome:
        """Waits for the end of the attempt; returns what came of it."""
        with open(self.reader, "rb") as told:
            data = told.read()
        with suppress(ChildProcessError):  # it was waited for already
            os.waitpid(self.child, 0)
        return pickle.loads(data) if data else Outcome()


def attempt(job: Job, number: int, batch: int, changes: Any, options: dict[str, Any], **more: Any) -> Outcome:
    """Executes a batch of a cell in a process of its own; returns what came of it."""
    return Attempt(job, number, batch, changes, options, **more).end()


def _executed(
    job: Job, number: int, batch: int, changes: Any, options: dict[str, Any], leaves: bool, stops: bool
) -> Outcome:
    try:
        output = job.cell(number, **options).apply(batch, changes, Report(), None)
        if leaves:
            next(output, None)
            output.close()
            return Outcome()  # what was read is thrown away
        if stops:
            first = next(output, None)
            os.kill(os.getpid(), signal.SIGSTOP)
            return Outcome(deltas=net([*([] if first is None else [first]), *output]))
        return Outcome(deltas=net(output))
    except CrownError as error:
        return Outcome(refused=str(error))
    except Exception as error:
        return Outcome(broken=repr(error))
