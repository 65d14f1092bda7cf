"""The limits of a cell, for its state and for its memory: pages above the memory limit are on disk only.

The two numbers are independent. The *budget* bounds the state, in memory or on disk: a batch that would exceed it is
rejected. The *memory* bounds the part of the state that is in memory.

While a cell works, a thread checks how much of the mapped files this process has touched, and drops pages from memory
once that exceeds the limit (``crown.store.residence``). The kernels keep running, because they hold no Python lock.
After the batch all pages of the files that are in memory are counted, and dropped if they exceed the limit.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crown.errors import MemoryBudgetError
from crown.guards.arguments import Size, size_of
from crown.programs.program import ProgramEngine
from crown.store import residence
from crown.store.memory import ADDRESSABLE, mapped_in
from spark_jobs.errors import CheckpointError

_SECONDS = 0.02
"""Seconds between two checks of the thread."""
_TRIES = 3
"""How often pages are dropped after a batch before more than the limit is left in memory."""


@dataclass
class Spilled:
    """The effect of the limit: bytes of the live engine that are in memory now, −1 if they are not counted; bytes that
    were dropped from memory.
    """

    folder: Path
    limit: int | None
    resident: int = -1
    dropped: int = 0
    _ordered: bool = False

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Yields a context in which the files are read sequentially."""
        self._ordered = True
        self.expect()
        try:
            yield
        finally:
            self._ordered = False
            self.expect()

    def expect(self) -> None:
        """Tells the system how the files will be accessed, if they do not fit into the limit."""
        files = mapped_in(self.folder)
        if self.limit is not None and residence.used(files) > self.limit:
            residence.expect(files, self._ordered)


@contextmanager
def bounded(folder: Path, limit: int | None) -> Iterator[Spilled]:
    """Keeps the memory of the files that are mapped in ``folder`` below ``limit`` bytes, within the context.

    The limit may be exceeded by what is touched between two checks, and by what one system call reads at once. There is
    no cost if the state is smaller than the limit. Otherwise ``residence.resident`` is called once per context, pages
    are trimmed only after a tenth of the limit was touched, and dropped pages are read again when they are touched.
    """
    spilled = Spilled(folder, limit)
    if limit is None:
        yield spilled
        return
    spilled.expect()
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(limit, spilled, over), name="crown-spill", daemon=True)
    watch.start()
    try:
        yield spilled
    finally:
        over.set()
        watch.join()
        files = mapped_in(folder)
        if residence.used(files) <= limit:
            spilled.resident = residence.used(files)
        else:
            for _ in range(_TRIES):  # pages that the system still reads ahead are in memory only after the count
                _trim(limit, spilled)
                spilled.resident = residence.resident(files)
                if spilled.resident <= limit:
                    break
            for file in files:  # another worker may get the cell next, and cannot drop pages that are mapped here
                residence.unmap(file)


def _watch(limit: int, spilled: Spilled, over: threading.Event) -> None:
    before = residence.touched()
    while not over.wait(_SECONDS):
        now = residence.touched()
        if now - before < limit // 10:
            before = min(before, now)
            continue
        _trim(limit, spilled)
        before = residence.touched()


def _trim(limit: int, spilled: Spilled) -> None:
    spilled.expect()
    with suppress(OSError):  # the cell's own write reports the error
        spilled.dropped += residence.trim(mapped_in(spilled.folder), limit, spilled.dropped // mmap.PAGESIZE)


def demand_disk(scratch: Path) -> None:
    """Raises :class:`CheckpointError` if pages of files in a folder cannot be dropped from memory."""
    if not residence.supported():
        raise CheckpointError(
            "cell_memory= (--cell-memory) needs Linux, which reports how much of a file is in memory: leave it out here"
        )
    if residence.in_memory(scratch):
        raise CheckpointError(
            f"the live engines in {scratch} are on a file system in memory, so they always occupy memory: "
            "give scratch= (--scratch) a folder on a disk, or leave out cell_memory= (--cell-memory)"
        )


_LEAST_STATE = 1 << 20
_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True)
class Limits:
    """The limits of each cell, in bytes. None: the state is bounded by the address range, the memory by the system."""

    budget: int | None = None
    memory: int | None = None

    @staticmethod
    def of(budget: Size | None, memory: Size | None, names: tuple[str, str] = ("cell_budget", "cell_memory")) -> Limits:
        """Returns the limits that a user has given as the parameters ``names``.

        Raises ``CrownError`` for a value that is not a size.
        """
        return Limits(
            None if budget is None else size_of(budget, names[0], _LEAST_STATE),
            None if memory is None else size_of(memory, names[1], _LEAST_MEMORY),
        )

    @property
    def words(self) -> int | None:
        """Returns the budget in words, as engines count it."""
        return None if self.budget is None else min(self.budget // 8, ADDRESSABLE)

    def refusal(self, cell: str, batch: int, engine: ProgramEngine, error: MemoryBudgetError) -> MemoryBudgetError:
        """Returns the error for a batch that did not fit; ``error`` is the error of the engine."""
        if engine.memory.budget.full_disk:
            return MemoryBudgetError(f"cell {cell}, batch {batch}: {error}")
        if engine.memory.budget.short_of_addresses:
            return MemoryBudgetError(
                f"cell {cell}, batch {batch}: {error}. Or cut the state into more cells first (crown state CHECKPOINT "
                "--recell N), and start the job again"
            )
        has = f"cell {cell} has {_mebibytes(8 * engine.memory.budget.used)} of state"
        if self.budget is None:
            allowed = f"the {8 * ADDRESSABLE >> 30} GiB that a cell can have"
            remedy = "cut the state into more cells (crown state CHECKPOINT --recell N), and start the job again"
        else:
            allowed = f"cell_budget={_mebibytes(self.budget)}"
            remedy = (
                "start the job again with more (cell_budget=, --cell-budget), or cut the state into more cells first "
                "(crown state CHECKPOINT --recell N)"
            )
        return MemoryBudgetError(
            f"{has}, and batch {batch} needs more than {allowed}: the batch was not applied; {remedy}"
        )


NONE = Limits()


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
