"""A command as the user nobody, who can write one folder and nothing else: most containers are like that."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_ALONE = """
mount -o remount,ro,bind / && mount -t tmpfs tmpfs "$0" && chown nobody "$0" && cd "$0" &&
exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
"""
"""Makes everything read-only but a folder, and becomes nobody."""


def command(folder: str | Path, *words: str | Path) -> list[str]:
    """Returns the words that run a command so; what it writes to ``folder``, where it begins, is gone afterwards."""
    return ["unshare", "--mount", "sh", "-c", _ALONE, str(folder), *map(str, words)]


@cache
def impossible() -> str | None:
    """Returns why no command can be run so by this process; None if it can."""
    if sys.platform != "linux" or os.geteuid():
        return "only root can become another user, on Linux"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(command(folder, "true"), capture_output=True, text=True, check=False)
        except OSError as error:
            return f"unshare is not there: {error}"
    return f"nothing can be mounted here: {done.stderr.strip()}" if done.returncode else None


def python() -> Path | None:
    """Returns a Python of this version that every user may run, this one or the system's; None if there is none."""
    mine = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 0o001 for folder in mine.parents):
        return mine
    other = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return other if other.exists() else None
