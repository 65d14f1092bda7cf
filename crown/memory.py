"""Address space for an arena: a reservation that costs nothing until it is touched.

An arena never moves, because kernels hold offsets into it while they run; so the whole range it may ever need is mapped
at once and the operating system backs pages as they are first written. In a file the range is a sparse file: the
state can then be larger than RAM (the page cache writes back), outlives the process, and is attached again in O(1).
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.arena import MAX_WORDS

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_WORDS = mmap.PAGESIZE // 8
ADDRESSABLE = MAX_WORDS // _PAGE_WORDS * _PAGE_WORDS


def reserve(words: int = ADDRESSABLE) -> np.ndarray:
    """An anonymous int64 array of ``words`` zeros. Raises MemoryBudgetError if the system refuses the address range."""
    try:
        if os.name == "posix":
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            memory = mmap.mmap(-1, 8 * words, flags=flags)
            if hasattr(memory, "madvise") and hasattr(mmap, "MADV_HUGEPAGE"):
                memory.madvise(mmap.MADV_HUGEPAGE)
        else:
            memory = mmap.mmap(-1, 8 * words)
    except (OSError, ValueError) as error:
        raise MemoryBudgetError(
            f"the system refuses to reserve {8 * words >> 20} MiB of address space ({error}); "
            "set memory_budget to a smaller number of bytes"
        ) from error
    return np.frombuffer(memory, np.int64)


def map_file(path: Path, words: int | None) -> np.ndarray:
    """The file as a shared, writable int64 array; with ``words`` it is made that long first (sparse)."""
    try:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if words is not None else 0), 0o600)
    except OSError as error:
        raise SnapshotError(f"cannot open the state file {path}: {error.strerror}") from error
    try:
        if words is not None:
            os.ftruncate(descriptor, 8 * words)
        size = os.fstat(descriptor).st_size
        if size == 0 or size % 8:
            raise SnapshotError(f"{path} is not a state file: its length is {size} bytes")
        return np.frombuffer(mmap.mmap(descriptor, size), np.int64)
    finally:
        os.close(descriptor)
