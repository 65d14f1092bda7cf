"""Keeps a cell's live engine within a memory limit: pages not in use are on disk only.

While a cell works, a thread beside it looks how much of its mapped files this process has touched, and gives pages back
once that is too much (``crown.store.residence``). The kernels go on meanwhile: they hold no lock of Python's. After the
batch everything that the files have in memory is counted, and trimmed if need be.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crown.store import residence
from crown.store.memory import mapped_in
from spark_jobs.errors import CheckpointError

_SECONDS = 0.02
"""How often the thread looks."""
_TRIES = 3
"""How often pages go after a batch, before more is left in memory than was asked for."""


@dataclass
class Spilled:
    """What came of the limit: bytes of the live engine that are in memory now, −1 if they are not counted; bytes that
    went to the disk only."""

    folder: Path
    limit: int | None
    resident: int = -1
    gone: int = 0
    _ordered: bool = False

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Yields a context in which the files are read from the beginning to the end, not anywhere."""
        self._ordered = True
        self.expect()
        try:
            yield
        finally:
            self._ordered = False
            self.expect()

    def expect(self) -> None:
        """Says how the files will be touched, if not all of them fits into memory."""
        files = mapped_in(self.folder)
        if self.limit is not None and residence.used(files) > self.limit:
            residence.expect(files, self._ordered)


@contextmanager
def bounded(folder: Path, limit: int | None) -> Iterator[Spilled]:
    """Keeps what is in memory of the files that are mapped in ``folder`` below ``limit`` bytes, within the context.

    It may pass the limit by what is touched between two looks, and by what one call of the system reads in one go. Cost
    if there is less state than that: none. Otherwise ``residence.resident`` once per context, and at least a tenth of
    the limit has been touched before it is asked for again; and the pages that went are read when they are touched.
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
            for _ in range(_TRIES):  # what the system was still reading ahead is in memory only after it was counted
                _trim(limit, spilled)
                spilled.resident = residence.resident(files)
                if spilled.resident <= limit:
                    break
            for file in files:  # another worker may get the cell next: what is mapped here, it could not drop
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
    with suppress(OSError):  # what the disk refuses, the cell finds out itself
        spilled.gone += residence.trim(mapped_in(spilled.folder), limit, spilled.gone // mmap.PAGESIZE)


def demand_disk(scratch: Path) -> None:
    """Raises :class:`CheckpointError` if what is mapped in a folder cannot be out of memory."""
    if not residence.supported():
        raise CheckpointError(
            "cell_memory= (--cell-memory) needs Linux, which says what is in memory: leave it out here"
        )
    if residence.in_memory(scratch):
        raise CheckpointError(
            f"the live engines in {scratch} are on a file system in memory, so nothing of them can be out of memory: "
            "give scratch= (--scratch) a folder on a disk, or leave out cell_memory= (--cell-memory)"
        )
