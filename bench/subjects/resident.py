"""How much memory this process takes."""

from __future__ import annotations

from pathlib import Path


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


def _status(field: str) -> int:
    try:
        with open("/proc/self/status", "rb") as file:
            for row in file:
                if row.startswith(field.encode()):
                    return int(row.split()[1]) * 1024
    except OSError:
        return 0
    return 0
