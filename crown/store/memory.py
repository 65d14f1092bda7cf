"""Reserves address space for an arena, which uses no memory until it is touched.

An arena never moves, because kernels hold offsets into it while they run. So the whole range that it may ever need is
mapped at once, and the operating system backs pages when they are first written. In a file the range is a sparse file.
The state can then be larger than RAM (the page cache writes it back), outlives the process, and is attached again in
O(1).

Where address space is limited, the range is only chosen, and mapped in pieces (``crown.store.pieces``).

Writing to a page of a sparse file for which the disk has no block ends the process, and so does writing to an unmapped
page. Therefore the blocks of a file, and pieces, are reserved before kernels use them (``Space.reserve``). A full disk
or an exhausted address space is then an ordinary error.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from weakref import ref

import numpy as np

from crown.errors import CrownError, MemoryBudgetError, SnapshotError
from crown.kernels.memory.arena import H_LIMIT, MAX_WORDS
from crown.store.pieces import Pieces, limit_of_addresses, supported, taken_addresses

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_WORDS = mmap.PAGESIZE // 8
ADDRESSABLE = MAX_WORDS // _PAGE_WORDS * _PAGE_WORDS
SLACK = 1 << 17  # words at the beginning of every part of a state
_SMALL = 1 << 21  # bytes of an arena backed by small pages: the system clears a huge page when it is touched


def numbers(words: np.ndarray) -> memoryview:
    """Returns words (int64[n]) as writable Python integers; an access takes a third of NumPy's time."""
    return words.data


def whole_pages(words: int) -> int:
    """Returns the number of words rounded up to whole pages."""
    return -(-words // _PAGE_WORDS) * _PAGE_WORDS


def reserve(words: int = ADDRESSABLE, option: str = "memory_budget") -> np.ndarray:
    """Returns an anonymous int64 array of ``words`` zeros. It begins in small pages, so that a small view takes little
    memory.

    Raises MemoryBudgetError if the system refuses the address range. ``option``: the option that makes the range
    smaller, named in the error.
    """
    try:
        return _reserved(words)
    except (OSError, ValueError) as error:
        raise MemoryBudgetError(
            f"the system refuses to reserve {8 * words >> 20} MiB of address space ({error}); "
            f"set {option} to a smaller number of bytes"
        ) from error


def _reserved(words: int) -> np.ndarray:
    if os.name == "posix":
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        memory = mmap.mmap(-1, 8 * words, flags=flags)
        if hasattr(memory, "madvise") and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system may have no huge pages
                if 8 * words > _SMALL:
                    memory.madvise(mmap.MADV_HUGEPAGE, _SMALL, 8 * words - _SMALL)
    else:
        memory = mmap.mmap(-1, 8 * words)
    return np.frombuffer(memory, np.int64)


class Space(Protocol):
    """Memory for arenas, ``words``. Only reserved words may be touched."""

    words: np.ndarray

    def reserve(self, start: int, words: int) -> None:
        """Makes ``words`` words from word ``start`` usable. Raises OSError if the system has no room for them."""


class Grown:
    """Anonymous memory that is mapped in pieces: a ``Space``."""

    def __init__(self, words: int) -> None:
        self._pieces = Pieces(8 * words)
        self.words = self._pieces.words

    def reserve(self, start: int, words: int) -> None:
        """Maps ``words`` words from word ``start``. Raises OSError if the system refuses them."""
        self._pieces.map(8 * start, 8 * (start + words))


def anonymous(words: int) -> tuple[np.ndarray, Space | None]:
    """Returns the array that ``reserve`` returns, and its space if words must be reserved before use, else None.

    Raises MemoryBudgetError if the system refuses the address range.
    """
    if not supported():
        return reserve(words), None
    if limit_of_addresses() is None:
        with suppress(OSError):
            return _reserved(words), None
    try:
        made = Grown(words)
    except OSError as error:
        raise MemoryBudgetError(no_addresses()) from error
    return made.words, made


_DELETES = "Until then deletes may be refused, too: a batch begins only where there is room to take it back"


def no_addresses() -> str:
    """Returns the message for a state for which the system maps no more memory."""
    limit = limit_of_addresses()
    if limit is None:
        return (
            "the system gives this process no more memory for the state; end other programs, or allow more "
            f"(vm.overcommit_memory, ulimit -d). {_DELETES}"
        )
    return (
        f"the address space of this process is limited to {limit >> 20} MiB, of which {taken_addresses() >> 20} MiB "
        "are taken, and an eighth is left to the rest of the process: there is no room for more state. Raise the limit "
        f"(ulimit -v; of a Spark worker spark.executor.pyspark.memory). {_DELETES}"
    )


class MappedFile:
    """A file as a shared, writable int64 array, ``words``, made by ``create`` or opened by ``open``. A ``Space``.

    ``parts``: the arenas in it, once they are set.
    """

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._process = os.getpid()
        self.descriptor = descriptor  # this object closes it
        self._mapping = _mapped_file(descriptor, size)
        if isinstance(self._mapping, Pieces):
            self.words = self._mapping.words
        else:
            self.words = np.frombuffer(self._mapping, np.int64)
        self.parts: Sequence[np.ndarray] = [self.words]
        _mapped[id(self)] = ref(self)

    @classmethod
    def create(cls, path: Path, words: int) -> MappedFile:
        """Makes the file, or replaces it, with a length of ``words``. No block of it is reserved yet."""
        try:
            path.unlink(missing_ok=True)
            made = cls._opened(path, os.O_RDWR | os.O_CREAT, words)
            if hasattr(mmap, "MADV_RANDOM"):  # the system would read ahead, megabytes per part, where no block is yet
                made.advise(mmap.MADV_RANDOM)
        except (OSError, ValueError) as error:
            raise SnapshotError(
                f"cannot make the state file {path}: {_reason(error)}. Give a folder that can be written and has room"
            ) from error
        return made

    @classmethod
    def open(cls, path: Path, parts: int = 1) -> MappedFile:
        """Opens a file that ``create`` made, of ``parts`` equal parts. Raises SnapshotError if the file is missing or
        has a wrong form."""
        try:
            made = cls._opened(path, os.O_RDWR, 0)
            made._map_reserved(parts)
        except (OSError, ValueError) as error:
            raise SnapshotError(f"cannot open the state file {path}: {_reason(error)}") from error
        return made

    def follow(self) -> None:
        """Maps the words that another process has reserved in this file. Raises SnapshotError if there is no room for
        them.

        Each process maps pieces of its own. The headers hold how far the state has grown.
        """
        try:
            self._map_reserved(len(self.parts))
        except OSError as error:
            raise SnapshotError(f"cannot open the state file {self.path}: {_reason(error)}") from error

    def _map_reserved(self, parts: int) -> None:
        """Maps the reserved words of each of ``parts`` equal parts, as their headers hold."""
        if not isinstance(self._mapping, Pieces):
            return
        length = len(self.words) // parts
        for start in range(0, length * parts, max(length, 1)):
            limit = int.from_bytes(os.pread(self.descriptor, 8, 8 * (start + H_LIMIT)), "little", signed=True)
            self._mapping.map(8 * start, 8 * (start + min(max(limit, SLACK), length)))

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
        """Raises CrownError in a process other than the one that mapped the file, such as a fork, which would share
        it."""
        if os.getpid() != self._process:
            raise CrownError(
                f"the state in {self.path} is that of process {self._process}, of which this one is a fork: both would "
                "write to it. Use the view there; or save(path) it before the fork, and crown.load(path) a copy here"
            )

    def reserve(self, start: int, words: int) -> None:
        """Reserves disk blocks for ``words`` words from word ``start``. Raises OSError if the disk has none."""
        self._allocate(start, words)
        if isinstance(self._mapping, Pieces):
            self._mapping.map(8 * start, 8 * (start + words))

    def _allocate(self, start: int, words: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.descriptor, 8 * start, 8 * words)
            return
        for at in range(start, start + words, _PAGE_WORDS):  # the system has no such call: rewrite each page unchanged
            page = os.pread(self.descriptor, mmap.PAGESIZE, 8 * at)
            os.pwrite(self.descriptor, page.ljust(mmap.PAGESIZE, b"\0"), 8 * at)

    def advise(self, advice: int, start: int | None = None, length: int = 0) -> None:
        """Gives the system advice (``madvise``) about some bytes of the file, or about all."""
        if isinstance(self._mapping, Pieces):
            self._mapping.advise(advice, start, length)
        elif start is None:
            self._mapping.madvise(advice)
        else:
            self._mapping.madvise(advice, start, length)

    def extent(self, byte: int) -> tuple[int, int]:
        """Returns the start and the end of the mapped bytes around a byte."""
        return self._mapping.extent(byte) if isinstance(self._mapping, Pieces) else (0, 8 * len(self.words))

    def __del__(self) -> None:
        _mapped.pop(id(self), None)
        os.close(self.descriptor)


def _mapped_file(descriptor: int, size: int) -> mmap.mmap | Pieces:
    """Returns the mapping of the whole file, or a range of which nothing is mapped yet. Raises OSError."""
    if limit_of_addresses() is None:
        try:
            return mmap.mmap(descriptor, size)
        except OSError as error:
            if error.errno != errno.ENOMEM or not supported():
                raise
    return Pieces(size, descriptor)


_mapped: dict[int, ref[MappedFile]] = {}
"""The files that this process has mapped, by their objects' ids."""


def mapped_in(folder: Path) -> list[MappedFile]:
    """Returns the files in a folder that this process has mapped. Thread-safe."""
    found = (one() for one in list(_mapped.values()))
    return [file for file in found if file is not None and file.path.parent == folder]


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def address_of(array: np.ndarray) -> tuple[int, int]:
    """Returns the address of an array, and the number of its elements."""
    return array.ctypes.data, array.size
