"""The folder in which compiled kernels are stored.

The first writable folder of these is used: the folder named by ``CROWN_CACHE_DIR``; ``out/cache`` of a checkout; the
user's cache folder; a folder of this user among the temporary files. A folder named by the variable is used even if it
is read-only, because a container image may contain compiled kernels.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VARIABLE = "CROWN_CACHE_DIR"
_CHECKOUT = Path(__file__).parents[2]


@cache
def cache_folder() -> tuple[Path, str]:
    """Returns the folder of compiled kernels, and the reason why it was chosen."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute(), VARIABLE
    for folder, reason in _candidates():
        if _can_be_written(folder):
            return folder, reason
    return _temporary()


def _candidates() -> Iterator[tuple[Path, str]]:
    if (_CHECKOUT / "pyproject.toml").is_file():
        yield _CHECKOUT / "out" / "cache", "the checkout"
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base and os.path.isabs(base):
        yield Path(base) / "crown", "the user's cache folder"


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary() -> tuple[Path, str]:
    """Returns a folder that only this user can write, because its contents are executed.

    It is the same folder for every process of the user, unless another user has created it.
    """
    shared = Path(tempfile.gettempdir()) / f"crown-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        found = shared.lstat()
        mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
        if stat.S_ISDIR(found.st_mode) and mine and _can_be_written(shared):
            return shared, "temporary files: no other folder can be written"
    except OSError:
        pass
    own = Path(tempfile.mkdtemp(prefix="crown-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own, "temporary files of this process: no other folder can be written"
