"""Maps the memory of an arena in pieces as it grows. Linux only.

A process may have a limit on its address space (``ulimit -v``, ``spark.executor.pyspark.memory``), and a system may
count reserved memory as used. Where the whole range of an arena cannot be mapped at once, as ``crown.store.memory``
does, only its range of addresses is chosen, and pieces are mapped as they are needed. An arena does not move then,
either. The cost: other mappings of the process can use the addresses in between, so a range can end early. The range is
chosen where the system places no mappings by itself.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from contextlib import suppress
from functools import cache
from random import SystemRandom
from threading import Lock
from weakref import finalize

import numpy as np

_FIXED = 0x10  # MAP_FIXED: exactly there, and replaces other mappings
_FIXED_NOREPLACE = 0x100000  # MAP_FIXED_NOREPLACE: exactly there, and only if nothing is mapped there
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE = mmap.PAGESIZE
_LOWEST, _HIGHEST = 1 << 44, 1 << 46  # between a program and its libraries, in 47 bits
_ALIGNED = 1 << 30
_ATTEMPTS = 32
_chosen: dict[int, int] = {}
"""The ranges of this process: their sizes by their first addresses."""
_lock = Lock()


def supported() -> bool:
    """Returns True if this system can map pieces at chosen addresses."""
    return sys.platform == "linux" and sys.maxsize > 2**32


def limit_of_addresses() -> int | None:
    """Returns the limit of this process's address space in bytes, or None."""
    if not supported():
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def taken_addresses() -> int:
    """Returns the bytes of address space that this process has, used or not."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * _PAGE


class Pieces:
    """A range of ``size`` bytes, ``words`` as an int64 array. Only mapped bytes may be touched.

    ``descriptor``: the file whose beginning the range maps; -1 for zeroed memory. Raises OSError.
    """

    def __init__(self, size: int, descriptor: int = -1) -> None:
        self._descriptor = descriptor
        self._size = -(-size // _PAGE) * _PAGE
        self._mapped: list[tuple[int, int]] = []  # start and end of each, in bytes
        self._advice: int | None = None
        with _lock:
            self._base = _free_range(self._size)
            _chosen[self._base] = self._size
        memory = (ctypes.c_int64 * (size // 8)).from_address(self._base)
        finalize(memory, _unmap, self._base, self._mapped).atexit = False
        self.words = np.frombuffer(memoryview(memory), np.int64)

    def map(self, start: int, stop: int) -> None:
        """Maps those of these bytes that are not mapped yet, in whole pages. Raises OSError if the system refuses."""
        start, stop = start // _PAGE * _PAGE, min(-(-stop // _PAGE) * _PAGE, self._size)
        for first, last in self._mapped:  # pieces of an arena follow one another
            if first <= start <= last:
                start = last
        if start >= stop:
            return
        _leave_some(stop - start)
        _map(self._base + start, stop - start, self._descriptor, start)
        self._note(start, stop)
        if self._advice is not None:
            self.advise(self._advice, start, stop - start)
        elif self._descriptor < 0 and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system may have no huge pages
                self.advise(mmap.MADV_HUGEPAGE, start, stop - start)

    def _note(self, start: int, stop: int) -> None:
        for i, (first, last) in enumerate(self._mapped):
            if last == start:
                self._mapped[i] = first, stop
                return
        self._mapped.append((start, stop))

    def extent(self, byte: int) -> tuple[int, int]:
        """Returns the start and the end of the mapped bytes around a byte."""
        return next((piece for piece in self._mapped if piece[0] <= byte < piece[1]), (byte, byte))

    def advise(self, advice: int, start: int | None = None, length: int = 0) -> None:
        """Gives the system advice (``madvise``) about some mapped bytes; by default about all, including future
        ones."""
        pieces = self._mapped if start is None else [(start, start + length)]
        if start is None:
            self._advice = advice
        for first, last in pieces:
            _checked(_libc().madvise(ctypes.c_void_p(self._base + first), ctypes.c_size_t(last - first), advice))


def can_map(size: int) -> bool:
    """Returns True if this system can map a file from each multiple of ``size`` bytes (``map_copy``)."""
    return supported() and size % _PAGE == 0


def map_copy(words: np.ndarray, descriptor: int, offset: int) -> None:
    """Replaces ``words``, and the rest of their last page, by the contents of a file from byte ``offset``.

    The words begin at a page boundary. A page is copied when it is written to. Raises OSError if the system refuses.
    """
    if not len(words):
        return
    found = _libc().mmap(
        ctypes.c_void_p(words.ctypes.data),
        ctypes.c_size_t(words.nbytes),
        mmap.PROT_READ | mmap.PROT_WRITE,
        mmap.MAP_PRIVATE | _NORESERVE | _FIXED,
        descriptor,
        ctypes.c_long(offset),
    )
    if found != words.ctypes.data:
        _checked(-1)


def _leave_some(size: int) -> None:
    """Raises OSError if ``size`` more bytes of addresses would leave less than an eighth to the rest of the process."""
    limit = limit_of_addresses()
    if limit is not None and taken_addresses() + size > limit - limit // 8:
        raise OSError(errno.ENOMEM, "the limit of the address space is reached")


def _free_range(size: int) -> int:
    """Returns an address after which nothing is mapped yet."""
    taken = mapped_ranges() + [(base, base + size) for base, size in list(_chosen.items())]
    random = SystemRandom()
    for _ in range(_ATTEMPTS):
        base = random.randrange(_LOWEST, _HIGHEST, _ALIGNED)
        if not any(first < base + size and base < last for first, last in taken):
            return base
    raise OSError(errno.ENOMEM, "no free range of addresses is long enough")


def mapped_ranges() -> list[tuple[int, int]]:
    """Returns the start and the end of each range of mapped addresses of this process."""
    with open("/proc/self/maps", "rb") as file:
        ranges = [line.split(b" ", 1)[0].split(b"-") for line in file]
    return [(int(first, 16), int(last, 16)) for first, last in ranges]


def _map(address: int, size: int, descriptor: int, offset: int) -> None:
    kind = mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    given = ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE
    found = _libc().mmap(*given, kind | _FIXED_NOREPLACE, descriptor, ctypes.c_long(offset if descriptor >= 0 else 0))
    if found == ctypes.c_void_p(-1).value:
        _checked(-1)
    if found != address:  # an old system, which takes the address as a hint
        _libc().munmap(ctypes.c_void_p(found), ctypes.c_size_t(size))
        raise OSError(errno.ENOMEM, "the addresses are in use")


def _unmap(base: int, mapped: list[tuple[int, int]]) -> None:
    for first, last in mapped:
        _libc().munmap(ctypes.c_void_p(base + first), ctypes.c_size_t(last - first))
    _chosen.pop(base, None)


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(errno.ENOMEM if number == errno.EEXIST else number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    return libc
