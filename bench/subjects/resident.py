"""How much memory this process takes, and memory that is there before it is needed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

_PAGE = 4096
_GIB = 1 << 30


def rss() -> int:
    """Returns the resident bytes of this process (0 where /proc is not there)."""
    return _status("VmRSS")


def peak_rss() -> int:
    """Returns the most resident bytes since the start or ``reset_peak`` (0 where /proc is not there)."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Counts the peak from now on, where the system allows."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def touch(size: int) -> float | None:
    """Writes to ``size`` bytes of fresh memory, at most half of what is available, and frees it; returns seconds per
    GiB, None if nothing is known to be available.

    Many virtual machines give memory that has been free for some seconds back to their host, and to get it again takes
    ten times as long as to fill a page (measured: 0.12 and 2.2 s per GiB). What allocates much right after this call
    does not pay for it.
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
