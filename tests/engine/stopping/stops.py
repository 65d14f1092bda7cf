"""What may stop a batch, injected: a full arena, a budget, an error at a block, a full disk, Ctrl-C, any exception.

The law: whatever stops a batch, the view is afterwards as before it, or as after it, and goes on from there; or it is
unusable and refuses everything. A consumer that leaves has the batch applied.
"""

from __future__ import annotations

import linecache
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import crown
import plans
from crown.engine import buffers
from crown.engine.cells import Cells
from crown.engine.state import arenas as state_module
from crown.errors import CrownError, MemoryBudgetError, UnusableStateError
from crown.kernels import arena as A
from crown.programs.program import ProgramEngine
from crown.programs.result import ResultOf
from crown.programs.running import Running
from crown.results.head import OutputHead
from crown.stages.state import memory as memory_module
from crown.store import budget
from crown.store.memory import MappedFile
from plans.program import Maintainable, Program
from tests.oracles.database import Batch, Row
from tests.oracles.expectation import Expectation, by_duckdb, by_nested_loops, net, rows

CROWN = str(Path(crown.__file__).parent)
PAIR = {"x": "int64", "y": "int64"}
TAGGED = {"x": "int64", "tag": "string"}

Tables = dict[str, dict[str, str]]
Make = Callable[[Maintainable, Path], Any]


@dataclass(frozen=True)
class Subject:
    """A query and how a view of it is made."""

    name: str
    query: str
    tables: Tables
    make: Make

    def __str__(self) -> str:
        return self.name


def _memory(plan: Maintainable, folder: Path) -> crown.View:
    return crown.view(plan)


def _threads(plan: Maintainable, folder: Path) -> crown.View:
    return crown.view(plan, threads=2)


def _mapped(plan: Maintainable, folder: Path) -> crown.View:
    (folder / "state").unlink(missing_ok=True)  # of the view before
    return crown.view(plan, path=folder / "state")


class Registered:
    """A view of a database, over another one, with the methods of ``crown.View`` that a run asks for."""

    def __init__(self, database: crown.Database, name: str) -> None:
        self.database = database
        self.named = database[name]
        self.bag, self.schema = self.named.bag, self.named.schema
        for method in ("count", "to_table", "contains"):
            setattr(self, method, getattr(self.named, method))
        for method in ("update", "save", "compact", "stats", "check_invariants"):
            setattr(self, method, getattr(database, method))

    @property
    def _engine(self) -> Any:
        return self.database._engine

    def apply(self, changes: Any) -> Any:
        return self.database.apply(changes)[self.named.name]

    apply_batches = apply


def _database(plan: Maintainable, folder: Path) -> Any:
    """A view over a view over a join, and one beside it that shares the join."""
    database = crown.database({"R": PAIR, "S": TAGGED})
    database.view("pairs", "SELECT s.tag, r.x, r.y FROM R r JOIN S s ON r.y = s.x")
    database.view("beside", "SELECT tag, MAX(x) AS x FROM pairs GROUP BY tag")
    grouped = "COUNT(*) AS n, SUM(y) AS t, MIN(x) AS lo, COUNT(DISTINCT x) AS d"
    database.view("groups", f"SELECT tag, {grouped} FROM pairs GROUP BY tag HAVING COUNT(*) > 1")
    return Registered(database, "groups")


THREE_HOP = "SELECT DISTINCT a.x, a.y, b.y AS z, c.y AS w FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x"
PROJECTED = "SELECT DISTINCT r.x, CONCAT(s.tag, '!') AS t FROM R r, S s WHERE r.y = s.x"
TRIANGLE = "SELECT DISTINCT a.x, a.y, b.y AS z FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
SQUARE = (
    "SELECT DISTINCT a.x, a.y, b.y AS z, c.y AS w FROM G a, G b, G c, G d "
    "WHERE a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = a.x"
)
CORNER = "SELECT DISTINCT a.x FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
TAGS = "SELECT DISTINCT r.x, s.tag, u.tag AS other FROM R r, S s, S u WHERE r.y = s.x AND r.x = u.x"

GROUPS = (
    "SELECT s.tag, COUNT(*) AS n, SUM(r.y) AS t, MIN(r.x) AS lo, COUNT(DISTINCT r.x) AS d "
    "FROM R r JOIN S s ON r.y = s.x GROUP BY s.tag HAVING COUNT(*) > 1"
)
OUTER = "SELECT r.x, r.y, s.tag FROM R r LEFT JOIN S s ON r.y = s.x"
SETS = "SELECT x, y FROM G UNION SELECT y, x FROM G EXCEPT SELECT x, y FROM H"
ROWS = "SELECT a.x, c.y FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x"

FIRST = (
    "SELECT s.tag, r.x, r.y FROM R r JOIN S s ON r.y = s.x "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY r.x ORDER BY s.tag DESC NULLS LAST, r.y NULLS FIRST) <= 3"
)

SUBJECTS = (
    Subject("tree", THREE_HOP, {"G": PAIR}, _memory),
    Subject("strings", TAGS, {"R": PAIR, "S": TAGGED}, _memory),
    Subject("support", PROJECTED, {"R": PAIR, "S": TAGGED}, _memory),
    Subject("generic bag", SQUARE, {"G": PAIR}, _memory),
    Subject("triangle bag", TRIANGLE, {"G": PAIR}, _memory),
    Subject("triangle counts", CORNER, {"G": PAIR}, _memory),
    Subject("threads", THREE_HOP, {"G": PAIR}, _threads),
    Subject("threads with strings", TAGS, {"R": PAIR, "S": TAGGED}, _threads),
    Subject("mapped", THREE_HOP, {"G": PAIR}, _mapped),
    Subject("mapped bag", TRIANGLE, {"G": PAIR}, _mapped),
    Subject("groups", GROUPS, {"R": PAIR, "S": TAGGED}, _memory),
    Subject("outer join", OUTER, {"R": PAIR, "S": TAGGED}, _memory),
    Subject("set operations", SETS, {"G": PAIR, "H": PAIR}, _memory),
    Subject("rows", ROWS, {"G": PAIR}, _memory),
    Subject("mapped groups", GROUPS, {"R": PAIR, "S": TAGGED}, _mapped),
    Subject("first rows", FIRST, {"R": PAIR, "S": TAGGED}, _memory),
    Subject("database", GROUPS, {"R": PAIR, "S": TAGGED}, _database),
)


class Injected(Exception):
    """The fault."""


class Run:
    """One view of a subject with a history, a batch that is going to be stopped, and the oracle."""

    def __init__(self, subject: Subject, seed: int, folder: Path) -> None:
        self.subject = subject
        self.random = random.Random(seed)
        program = plans.program(subject.query, subject.tables)
        self.plan = program.plan or program
        answer = by_duckdb(subject.query) if program.plan is None else by_nested_loops(program.plan)
        self.expectation = Expectation(subject.tables, answer)
        self.database = self.expectation.database
        self.view = subject.make(self.plan, folder)
        for _ in range(2):
            self._go_on()
        self.before = self.after = self.expectation.result
        self.copy = self.expectation.copies()
        for _ in range(100):
            if self.after != self.before:
                break
            self.expectation.go_back(self.copy)
            self.batch = self._draw()
            self.expectation.apply(self.batch)
            self.after = self.expectation.result
        assert self.after != self.before, "nothing would tell whether the batch is applied"

    @property
    def changes(self) -> dict[str, Any]:
        return self.expectation.arrow(self.batch)

    @property
    def engines(self) -> list[Any]:
        engine: Any = self.view._engine
        return engine.engines if isinstance(engine, Cells) else [_memory_of(engine)]

    def verify(self, *, applied: bool | None = None, may_be_lost: bool = True) -> str:
        """The law, after the batch was stopped; ``applied``: which of both states it must be. Returns what it is."""
        if self.view._engine.lost:
            assert may_be_lost, "the state is lost"
            self._refuses_everything()
            return "lost"
        found = self._found()
        if found == self.after and applied is not False:
            state = "after"
        else:
            assert found == self.before, f"{self.subject}: neither before nor after"
            assert applied is not True, f"{self.subject}: the batch is not applied"
            self.expectation.go_back(self.copy)
            state = "before"
        self.view.check_invariants()
        assert self.view.count() == sum(found.values())
        for row in sorted(found, key=repr)[:3]:
            assert self.view.contains(row)
        for _ in range(2):
            self._go_on()
        self.view.apply(self.expectation.arrow(self.database.everything(-1)))
        assert self.view.count() == 0
        self.view.check_invariants()
        return state

    def _refuses_everything(self) -> None:
        view = self.view
        row = tuple(None for name in view.schema.names if name != "_weight")
        calls: list[Callable[[], Any]] = [
            lambda: view.apply(self.changes),
            lambda: view.update(self.changes),
            lambda: view.apply_batches(self.changes),
            view.count,
            view.to_table,
            lambda: view.contains(row),
            lambda: view.save("never written"),
            view.compact,
            view.stats,
            view.check_invariants,
        ]
        for call in calls:
            with pytest.raises(UnusableStateError):
                call()

    def _go_on(self) -> None:
        """A further batch, whose delta is compared."""
        batch = self._draw()
        delta = self.view.apply(self.expectation.arrow(batch))
        assert net([delta]) == self.expectation.apply(batch)

    def _found(self) -> Counter[Row]:
        table = self.view.to_table()
        return net([table]) if self.view.bag else Counter(rows(table))

    def _draw(self) -> Batch:
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, columns in self.subject.tables.items():
            present = list(self.database.rows[name])
            gone = self.random.sample(present, min(len(present), 6))
            fresh = [tuple(self._value(kind) for kind in columns.values()) for _ in range(14)]
            batch[name] = [(row, -1) for row in gone] + [(row, self.random.choice((1, 1, 2))) for row in fresh]
        return self.database.without_absent_deletes(batch)

    def _value(self, kind: str) -> object:
        return self.random.randrange(7) if kind == "int64" else f"tag {self.random.randrange(300)}"


def _memory_of(engine: Any) -> Any:
    """What has the parts and the budget."""
    return engine.memory if isinstance(engine, Running) else engine


@contextmanager
def small_blocks() -> Iterator[None]:
    """Output buffers of a few rows, and reservations of a few words, so that there are many places to stop at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "BLOCK_CELLS", 32)
        patch.setattr(budget, "SLACK", 4096)
        patch.setattr(state_module, "SLACK", 4096)
        patch.setattr(memory_module, "SLACK", 4096)
        yield


# Faults. Each stops the batch of a run, or not, at place ``at`` in [0, 1) of all places.
# ----------------------------------------------------------------------------------------------------------------------


def full_arena(run: Run, at: float) -> str:
    """The allocation at that place finds the arena exhausted."""
    arenas = [part for engine in run.engines for part in engine.parts]
    arena = arenas[run.random.randrange(len(arenas))]
    needed = _taken(run, arena)
    arena[A.H_FREE : A.H_FREE + A.CLASSES] = 0  # nothing that was freed before is used again
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
    engine: Any = run.view._engine
    used = sum(e.budget.used for e in run.engines)
    room = int(at * 600)
    if isinstance(engine, Cells):
        engine._words = used + engine.dictionary.budget.used + room
    else:
        limits = _memory_of(engine).budget
        limits.change(used + room)
        limits._fixed = False
    try:
        run.view.apply(run.changes)
        applied = True
    except MemoryBudgetError:
        applied = False
    if isinstance(engine, Cells):
        engine._words = 1 << 28
    else:
        limits.change(1 << 28)
    return run.verify(applied=applied, may_be_lost=False)


def error_at_a_block(run: Run, at: float) -> str:
    """Evaluating the outputs of a block fails."""
    owner, name = OutputHead, "columns"
    if isinstance(run.plan, Program):
        owner, name = (ResultOf, "delta") if run.subject.name == "database" else (ProgramEngine, "_decoded")
    elif run.plan.support or not run.plan.consolidated:
        name = "codes"
    _, error = _counted(run, owner, name, int(at * 12))
    return run.verify(applied=None if error is None else False, may_be_lost=False)


def _counted(run: Run, owner: type, name: str, wanted: int) -> tuple[int, Injected | None]:
    original, calls = getattr(owner, name), [0]

    def counted(self: Any, *block: Any) -> Any:
        calls[0] += 1
        if calls[0] > wanted:
            raise Injected
        return original(self, *block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        try:
            run.view.apply(run.changes)
        except Injected as error:
            return calls[0], error
    return calls[0], None


def reader_leaves(run: Run, at: float) -> str:
    """The consumer closes the iterator after some blocks: the batch is applied."""
    batches = run.view.apply_batches(run.changes)
    for _ in range(int(at * 6)):
        next(batches, None)
    batches.close()
    return run.verify(applied=True, may_be_lost=False)


def reader_leaves_over_budget(run: Run, at: float) -> str:
    """The consumer closes the iterator, and then the budget is used up: ``close`` says so, and the view goes on."""
    engine: Any = run.view._engine
    if isinstance(engine, Cells):
        return reader_leaves(run, at)
    limits = _memory_of(engine).budget
    limits._fixed = False
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
    """An exception between two lines of the product, as the handler of any other signal may raise it."""

    def strike() -> None:
        raise Injected

    try:
        with _at_line(run, at, strike):
            run.view.apply(run.changes)
    except (Injected, CrownError):
        pass
    return run.verify()


_lines: dict[str, int] = {}


@contextmanager
def _at_line(run: Run, at: float, strike: Callable[[], None]) -> Iterator[None]:
    """``strike`` once, at that place among the lines of the product that applying such a batch goes through."""
    total = _lines.setdefault(run.subject.name, 400)
    wanted, seen, struck = int(at * total), [0], list[bool]()

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
        _lines[run.subject.name] = max(_lines[run.subject.name], seen[0])


def _is_framing(frame: FrameType) -> bool:
    """True for lines whose events stand for entering or leaving a block.

    Python raises no signal's exception there, and so has no handler for it: a lock would stay locked.
    """
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return text == "try:" or text.startswith("with ")


FAULTS: tuple[Callable[[Run, float], str], ...] = (
    full_arena,
    over_budget,
    error_at_a_block,
    reader_leaves,
    reader_leaves_over_budget,
    full_disk,
    ctrl_c,
    exception_anywhere,
)


def concerns(fault: Callable[[Run, float], str], subject: Subject) -> bool:
    """A disk can only be full where there is a file; and there the arena ends where the disk does. A database hands
    out its deltas at once."""
    if subject.name == "database" and fault in (reader_leaves, reader_leaves_over_budget):
        return False
    mapped = subject.name.startswith("mapped")
    return mapped if fault is full_disk else not (mapped and fault is full_arena)
