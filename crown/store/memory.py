"""Address space for an arena: a reservation that costs nothing until it is touched.

An arena never moves, because kernels hold offsets into it while they run; so the whole range it may ever need is mapped
at once and the operating system backs pages as they are first written. In a file the range is a sparse file: the
state can then be larger than RAM (the page cache writes back), outlives the process, and is attached again in O(1).

A page of a sparse file that the disk has no block for ends the process when it is written. The blocks of a file are
therefore reserved before kernels may use them (``MappedFile.reserve``), and a full disk is an error like any other.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from weakref import ref

import numpy as np

from crown.errors import CrownError, MemoryBudgetError, SnapshotError
from crown.kernels.arena import MAX_WORDS

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_WORDS = mmap.PAGESIZE // 8
ADDRESSABLE = MAX_WORDS // _PAGE_WORDS * _PAGE_WORDS


def numbers(words: np.ndarray) -> memoryview:
    """Returns words (int64[n]) as Python's whole numbers, which can be set, too: in a third of NumPy's time each."""
    return words.data


def reserve(words: int = ADDRESSABLE) -> np.ndarray:
    """Returns an anonymous int64 array of ``words`` zeros.

    Raises MemoryBudgetError if the system refuses the address range.
    """
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


class MappedFile:
    """A file as a shared, writable int64 array, ``words``; made and opened by ``create`` and ``open``.

    ``mapping``: the same as Python's object; ``parts``: the arenas in it, as far as somebody has said.
    """

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._process = os.getpid()
        self.descriptor = descriptor  # closed with this object, from here on
        self.mapping = mmap.mmap(descriptor, size)
        self.words = np.frombuffer(self.mapping, np.int64)
        self.parts: Sequence[np.ndarray] = [self.words]
        _mapped[id(self)] = ref(self)

    @classmethod
    def create(cls, path: Path, words: int) -> MappedFile:
        """Makes the file, or makes it anew, ``words`` long; no block of it is reserved yet."""
        try:
            path.unlink(missing_ok=True)
            made = cls._opened(path, os.O_RDWR | os.O_CREAT, words)
        except (OSError, ValueError) as error:
            raise SnapshotError(
                f"cannot make the state file {path}: {_reason(error)}. Give a folder that can be written and has room"
            ) from error
        return made

    @classmethod
    def open(cls, path: Path) -> MappedFile:
        """Opens a file that ``create`` made. SnapshotError if it is not there or cannot be one."""
        try:
            return cls._opened(path, os.O_RDWR, 0)
        except (OSError, ValueError) as error:
            raise SnapshotError(f"cannot open the state file {path}: {_reason(error)}") from error

    @classmethod
    def _opened(cls, path: Path, flags: int, words: int) -> MappedFile:
        descriptor = os.open(path, flags, 0o600)
        try:
            if words:
                os.ftruncate(descriptor, 8 * words)
            size = os.fstat(descriptor).st_size
            if size == 0 or size % 8:
                raise SnapshotError(f"{path} is not a state file: its length is {size} bytes")
            kept = os.dup(descriptor)
        finally:
            os.close(descriptor)
        return cls(path, kept, size)

    def check_process(self) -> None:
        """Raises CrownError in another process than the one that mapped the file: a fork, which would share it."""
        if os.getpid() != self._process:
            raise CrownError(
                f"the state in {self.path} is that of process {self._process}, of which this one is a fork: both would "
                "write to it. Use the view there; or save(path) it before the fork, and crown.load(path) a copy here"
            )

    def reserve(self, start: int, words: int) -> None:
        """Gives ``words`` words from word ``start`` on blocks on the disk. Raises OSError if there are none."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.descriptor, 8 * start, 8 * words)
            return
        for at in range(start, start + words, _PAGE_WORDS):  # no such call here: write each page as it is
            page = os.pread(self.descriptor, mmap.PAGESIZE, 8 * at)
            os.pwrite(self.descriptor, page.ljust(mmap.PAGESIZE, b"\0"), 8 * at)

    def __del__(self) -> None:
        _mapped.pop(id(self), None)
        os.close(self.descriptor)


_mapped: dict[int, ref[MappedFile]] = {}
"""The files that this process has mapped, by their objects' ids."""


def mapped_in(folder: Path) -> list[MappedFile]:
    """Returns the files in a folder that this process has mapped; for any thread to ask."""
    found = (one() for one in list(_mapped.values()))
    return [file for file in found if file is not None and file.path.parent == folder]


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
