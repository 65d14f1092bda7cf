"""The memory of this process, and memory that is allocated before it is needed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

_PAGE = 4096
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


def _status(field: str, path: str = "/proc/self/status") -> int:
    try:
        with open(path, "rb") as file:
            for row in file:
                if row.startswith(field.encode()):
                    return int(row.split()[1]) * 1024
    except OSError:
        return 0
    return 0
