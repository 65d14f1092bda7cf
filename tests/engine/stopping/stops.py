"""What may stop a batch, injected: a full arena, a budget, an error at a block, a full disk, Ctrl-C, any exception.

The law: whatever stops a batch, the view is afterwards as before it, or as after it, and goes on from there; or it is
unusable and refuses everything. A consumer that leaves has the batch applied.
"""

from __future__ import annotations

import linecache
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.engine import buffers
from crown.engine.delivery import is_open
from crown.engine.propagation import Propagation
from crown.errors import AmplifiedWarning, BadRowError, ChangeError, CrownError, MemoryBudgetError, MissingDeleteError
from crown.kernels.memory import arena as A
from crown.programs.result import ResultReader
from crown.results.head import OutputHead
from crown.stages.state import memory as memory_module
from crown.store import budget
from crown.store.budget import Budget
from crown.store.memory import MappedFile
from crown.store.records import Records
from plans.program import Program
from tests.engine.stopping.subjects import Run, Subject

CROWN = str(Path(crown.__file__).parent)


class Injected(Exception):
    """The fault."""


@contextmanager
def small_blocks(cells: int = 32) -> Iterator[None]:
    """Output buffers of a few rows, and reservations of a few words, so that there are many places to stop at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "BLOCK_CELLS", cells)
        patch.setattr(budget, "SLACK", 4096)
        patch.setattr(memory_module, "SLACK", 4096)
        yield


# Faults. Each stops the batch of a run, or not, at place ``at`` in [0, 1) of all places.
# ----------------------------------------------------------------------------------------------------------------------


def full_arena(run: Run, at: float) -> str:
    """The allocation at that place finds the arena exhausted."""
    parts = [part for engine in run.engines for part in engine.parts]
    most = max(part[A.H_LIVE] for part in parts)
    arena = run.random.choice([part for part in parts if part[A.H_LIVE] * 2 > most])  # others hardly take anything
    needed = _taken(run, arena)
    arena[A.H_FREE : A.H_FREE + A.CLASSES] = 0  # nothing that was freed before is used again,
    arena[A.H_LEFT] = 0  # nor what is left of a block that is being cut up
    arena[A.H_LIMIT] = min(int(arena[A.H_TOP]) + int(at * needed), int(arena[A.H_LIMIT]))
    try:
        run.view.apply(run.changes)
    except CrownError:
        if not run.view._engine.lost:
            arena[A.H_LIMIT] = len(arena)
        return run.verify(applied=False)
    arena[A.H_LIMIT] = len(arena)
    return run.verify(applied=True)


def _taken(run: Run, arena: Any) -> int:
    """Words that the batch takes, about."""
    return int(arena[A.H_LIVE]) // 2 + 200


def over_budget(run: Run, at: float) -> str:
    """The budget is used up at that place."""
    limits = run.view._engine.memory.budget
    limits.change(limits.used + int(at * 600))
    limits.fixed = False
    try:
        run.view.apply(run.changes)
        applied = True
    except MemoryBudgetError:
        applied = False
    limits.change(1 << 28)
    return run.verify(applied=applied, may_be_lost=False)


def error_at_a_block(run: Run, at: float) -> str:
    """Evaluating the outputs of a block fails, or reading the message that a kernel has written."""
    places: list[tuple[type, str]] = [(OutputHead, "deltas")]
    if run.view._engine.__dict__.get("pipeline") is not None:
        places = [(OutputHead, "deltas"), (OutputHead, "codes"), (Records, "read"), (Records, "batch")]
    elif isinstance(run.plan, Program):
        places = [(ResultReader, "delta") if run.subject.name == "database" else (Records, "batch")]
    elif run.plan.support or not run.plan.consolidated:
        places = [(OutputHead, "codes")]
    error = _counted(run, places, int(at * 12))
    return run.verify(applied=None if error is None else False, may_be_lost=False)


def _counted(run: Run, places: list[tuple[type, str]], wanted: int) -> Injected | None:
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == wanted + 1:  # the batch is undone by the same functions
                raise Injected
            return original(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in places:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            run.view.apply(run.changes)
        except Injected as error:
            return error
    return None


def reader_leaves(run: Run, at: float) -> str:
    """The consumer closes the iterator after some blocks: the batch is applied."""
    batches = run.view.apply_batches(run.changes)
    for _ in range(int(at * 6)):
        next(batches, None)
    batches.close()
    return run.verify(applied=True, may_be_lost=False)


def reader_aborts(run: Run, at: float) -> str:
    """The consumer aborts the batch after some blocks: it is undone, unless it has no more deltas."""
    batches = run.view.apply_batches(run.changes)
    for _ in range(int(at * 6)):
        next(batches, None)
    applied = not is_open(batches._batches)
    batches.abort()
    return run.verify(applied=applied, may_be_lost=False)


def reader_leaves_over_budget(run: Run, at: float) -> str:
    """The consumer closes the iterator, and then the budget is used up: ``close`` says so, and the view goes on."""
    limits = run.view._engine.memory.budget
    limits.fixed = False
    limits.change(limits.used + int(at * 300) + 300)
    applied = True
    try:
        batches = run.view.apply_batches(run.changes)
        for _ in range(int(at * 3)):
            next(batches, None)
        batches.close()
    except MemoryBudgetError:
        applied = False
    limits.change(1 << 28)
    return run.verify(applied=applied, may_be_lost=False)


def full_disk(run: Run, at: float) -> str:
    """The disk has no block at that place."""
    original, calls = MappedFile.reserve, [0]

    def counted(self: MappedFile, start: int, words: int) -> None:
        calls[0] += 1
        if calls[0] > int(at * 3):
            raise OSError(28, "No space left on device")
        original(self, start, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MappedFile, "reserve", counted)
        try:
            run.view.apply(run.changes)
            told = None
        except MemoryBudgetError as error:
            told = str(error)
    assert told is None or "disk" in told
    return run.verify(applied=told is None)


def ctrl_c(run: Run, at: float) -> str:
    """A real SIGINT between two lines of the product."""
    try:
        with _at_line(run, at, lambda: signal.raise_signal(signal.SIGINT)):
            run.view.apply(run.changes)
    except KeyboardInterrupt:
        return run.verify(may_be_lost=False)
    return run.verify(applied=True, may_be_lost=False)


def exception_anywhere(run: Run, at: float) -> str:
    """An exception between two lines of the product, as the handler of any other signal may raise it.

    Python itself prints what is raised in a finalizer, and goes on: not there.
    """

    return exception_at_line(run, at) or run.verify()


def exception_at_line(run: Run, at: float) -> str | None:
    """An exception at a place of ``_at_line``; None if the batch does not reach it."""
    struck = list[bool]()

    def strike() -> None:
        struck.append(True)
        if not any(frame.f_code.co_name == "__del__" for frame, _ in traceback.walk_stack(None)):
            raise Injected

    try:
        with _at_line(run, at, strike):
            run.view.apply(run.changes)
    except (Injected, CrownError):
        pass
    return run.verify() if struck else None


def growth(run: Run, at: float) -> str:
    """Kernels stop for room whenever they have taken a few words, and have it then."""
    words, allowed = int(at * 64), Budget.allow

    def little(self: Budget, part: int, expected: int = 0) -> None:
        allowed(self, part, expected)
        header = self._headers[part]
        header[A.H_BUDGET] = min(header[A.H_BUDGET], header[A.H_LIVE] + words)

    limits = run.view._engine.memory.budget
    limits.fixed = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "allow", little)
        run.view.apply(run.changes)
    limits.change(1 << 28)
    return run.verify(applied=True, may_be_lost=False)


def delete_of_nothing(run: Run, at: float) -> str:
    """A delete at that place of the batch finds no row: it is refused, or counted."""
    tables = {name: list(rows) for name, rows in run.batch.items()}
    name = run.random.choice(sorted(tables))
    absent = run.absent(name)
    tables[name].insert(int(at * (len(tables[name]) + 1)), (absent, -1))
    try:
        run.view.apply(run.expectation.arrow(tables))
    except MissingDeleteError:
        assert run.subject.on_missing == "raise"
        return run.verify(applied=False, may_be_lost=False)
    assert run.subject.on_missing != "raise"
    return run.verify(applied=True, may_be_lost=False)


def bad_row(run: Run, at: float) -> str:
    """A row at that place of the batch has no weight."""
    changes = run.changes
    name = run.random.choice([name for name, table in changes.items() if table.num_rows])
    weights = changes[name]["_weight"].to_pylist()
    weights[int(at * len(weights))] = None
    changes[name] = changes[name].set_column(changes[name].num_columns - 1, "_weight", pa.array(weights, pa.int64()))
    with pytest.raises(BadRowError):
        run.view.apply(changes)
    return run.verify(applied=False, may_be_lost=False)


def sum_out_of_its_type(run: Run, at: float) -> str:
    """Values behind that place of the batch are so large that a sum of them may leave its type."""
    run.give(run.enlarged(at))
    try:
        run.view.apply(run.changes)
    except ChangeError:
        return run.verify(applied=False, may_be_lost=False)
    run.roll_back()  # with them a later batch could be refused
    return run.verify(applied=True, may_be_lost=False)


def raised_when_done(run: Run, at: float) -> str:
    """All is applied, and what looks at the deltas raises."""
    run.view.amplified_beyond = int(at * 3)
    try:
        run.view.apply(run.changes)
    except AmplifiedWarning:  # a warning is an error in tests
        applied = False
    else:
        applied = True
    run.view.amplified_beyond = None
    return run.verify(applied=applied, may_be_lost=False)


def exception_where_a_join_goes_on(run: Run, line: int) -> str | None:
    """An exception at a line of the function with which a join goes on after a call; None if it has fewer lines."""
    wanted, remaining, struck = Propagation.blocks.__code__, [line], list[bool]()

    def strike(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            remaining[0] -= 1
            if remaining[0] < 0:
                struck.append(True)
                sys.settrace(None)
                raise Injected
        return strike

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return strike if frame.f_code is wanted and frame.f_locals["self"]._progress is not None else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        run.view.apply(run.changes)
    except (Injected, CrownError):
        pass
    finally:
        sys.settrace(before)
    return run.verify() if struck else None


_lines: dict[str, int] = {}


@contextmanager
def _at_line(run: Run, at: float, strike: Callable[[], None]) -> Iterator[None]:
    """``strike`` once, at that place among the lines of the product that applying such a batch goes through: a line's
    number, or a fraction of them.

    How many there are, the first such batch of a subject tells, which nothing stops.
    """
    total = _lines.get(run.subject.name)
    wanted = at if isinstance(at, int) else sys.maxsize if total is None else int(at * total)
    seen, struck = [0], list[bool]()

    def line(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            seen[0] += 1
            if seen[0] > wanted and not struck and not _is_framing(frame):
                struck.append(True)
                strike()
        return line

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return line if frame.f_code.co_filename.startswith(CROWN) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)
        _lines[run.subject.name] = max(_lines.get(run.subject.name, 0), seen[0])


def _is_framing(frame: FrameType) -> bool:
    """True for lines whose events stand for entering or leaving a block.

    Python raises no signal's exception there, and so has no handler for it: a lock would stay locked.
    """
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return text == "try:" or text.startswith("with ")


Fault = Callable[[Run, float], str]
READERS: tuple[Fault, ...] = (reader_leaves, reader_aborts, reader_leaves_over_budget)
FAULTS: tuple[Fault, ...] = (
    full_arena,
    over_budget,
    error_at_a_block,
    *READERS,
    full_disk,
    ctrl_c,
    exception_anywhere,
)
FAULTS_OF_CALLS: tuple[Fault, ...] = (
    *FAULTS,
    growth,
    delete_of_nothing,
    bad_row,
    sum_out_of_its_type,
    raised_when_done,
)


def concerns(fault: Fault, subject: Subject) -> bool:
    """A disk can only be full where there is a file; and there the arena ends where the disk does. A database hands
    out its deltas at once."""
    if subject.name == "database" and fault in READERS:
        return False
    if fault is delete_of_nothing and subject.on_missing == "trust":
        return False  # what it does then is not said
    mapped = subject.name.startswith("mapped")
    return mapped if fault is full_disk else not (mapped and fault is full_arena)


def stopped(
    subject: Subject, fault: Fault, times: int, folder: Path, seed: int = 0, first: float = 0.0
) -> Counter[str]:
    """Stops batches at so many places, spread out evenly; returns how often each state was found afterwards."""
    found: Counter[str] = Counter()
    for i in range(times):
        with small_blocks(32 if i % 2 == 0 else 1 << 13):  # full again and again, or never
            found[
                fault(Run(subject, seed + 1000 * len(subject.name) + i, folder), (first + i * 0.6180339887) % 1.0)
            ] += 1
    return found
