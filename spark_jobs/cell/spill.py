"""Keeps a cell's live engine within a memory limit: pages that are not in use are on disk only.

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

from crown.store import residence
from crown.store.memory import mapped_in
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
    gone: int = 0
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
        spilled.gone += residence.trim(mapped_in(spilled.folder), limit, spilled.gone // mmap.PAGESIZE)


def demand_disk(scratch: Path) -> None:
    """Raises :class:`CheckpointError` if pages of files in a folder cannot be dropped from memory."""
    if not residence.supported():
        raise CheckpointError(
            "cell_memory= (--cell-memory) needs Linux, which says what is in memory: leave it out here"
        )
    if residence.in_memory(scratch):
        raise CheckpointError(
            f"the live engines in {scratch} are on a file system in memory, so nothing of them can be out of memory: "
            "give scratch= (--scratch) a folder on a disk, or leave out cell_memory= (--cell-memory)"
        )
