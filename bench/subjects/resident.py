"""The memory of this process, and memory that is there before it is needed."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np

_PAGE = 4096
_POPULATE_READ = 22  # MADV_POPULATE_READ, since Linux 5.14
_GIB = 1 << 30


def rss() -> int:
    """Returns the resident bytes of this process (0 without /proc)."""
    return _status("VmRSS")


def peak_rss() -> int:
    """Returns the peak of resident bytes since the start or ``reset_peak`` (0 without /proc)."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Resets the peak, if the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def touch(size: int) -> float | None:
    """Writes to ``size`` bytes of fresh memory, at most half of the available memory, and frees it. Returns seconds per
    GiB, None if the available memory is unknown.

    Many virtual machines return memory that has been free for some seconds to their host, and getting it back takes ten
    times as long as filling a page (measured: 0.12 and 2.2 s per GiB). Code that allocates much right after this call
    does not pay for that.
    """
    size = min(size, _status("MemAvailable", "/proc/meminfo") // 2)
    if size <= 0:
        return None
    started = time.perf_counter()
    np.empty(size, np.uint8)[::_PAGE] = 1
    return (time.perf_counter() - started) * _GIB / size


def pages_of_files() -> list[tuple[int, int]]:
    """Returns the ranges (address, bytes) of this process that are resident pages of files: its libraries."""
    found = []
    try:
        rows = [row.split() for row in Path("/proc/self/maps").read_text().splitlines()]
        with open("/proc/self/pagemap", "rb") as pages:
            for where, rights, _, _, inode, *_ in rows:
                if inode == "0" or "w" in rights:
                    continue
                start, end = (int(word, 16) for word in where.split("-"))
                pages.seek(start // _PAGE * 8)
                here = np.frombuffer(pages.read((end - start) // _PAGE * 8), np.int64) < 0  # the highest bit: present
                edges = np.flatnonzero(np.diff(here, prepend=False, append=False))
                found += [(start + a * _PAGE, (b - a) * _PAGE) for a, b in edges.reshape(-1, 2).tolist()]
    except OSError:
        return []
    return found


def map_pages(ranges: list[tuple[int, int]]) -> None:
    """Maps ranges of ``pages_of_files`` of the process from which this one was forked. A fork lacks them until it reads
    them, which would be while time counts, and they would be missing in its memory.
    """
    advise = ctypes.CDLL(None).madvise
    for start, length in ranges:
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), _POPULATE_READ)


def _status(field: str, path: str = "/proc/self/status") -> int:
    try:
        with open(path, "rb") as file:
            for row in file:
                if row.startswith(field.encode()):
                    return int(row.split()[1]) * 1024
    except OSError:
        return 0
    return 0
