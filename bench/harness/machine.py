"""The machine on which the numbers were measured."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "numba", "pyarrow", "pandas", "pyspark", "duckdb")


def machine() -> dict[str, Any]:
    """Returns processor, cores, memory, current load, system, and the versions of relevant packages."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu(),
        "cores": usable,
        "memory_bytes": _memory(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@contextmanager
def one_core() -> Iterator[None]:
    """Keeps this thread, and the threads that it starts meanwhile, on one core, if the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def line(machine: dict[str, Any]) -> str:
    """Returns the machine in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cores']} x {machine['cpu']}, {machine['memory_bytes'] / 2**30:.0f} GiB, load "
        f"{machine['load']} at the start; {machine['system']}, Python {machine['python']}, {versions}; "
        f"{machine['time']}"
    )


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0
