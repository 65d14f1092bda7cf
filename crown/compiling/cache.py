"""Kernels that Numba compiled, on disk: one file for each kernel, signature and processor.

The name of a file contains a digest over everything that it depends on: the sources of the kernel, the types of its
arguments, the processor, and the versions of Python and Numba. So a file is never out of date, several checkouts share
one folder, and processes that compile the same kernel at the same time write the same file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from crown.compiling.folder import cache_folder
from crown.compiling.sources import digest_of

KEPT = 24
"""The number of files of one kernel that are kept, the most recently used: some signatures, some states of the
sources.
"""
_WORD = re.compile(r"[^\w.]+")
_log = logging.getLogger("crown")


class KernelCache(_Cache):
    """The files of one kernel, in which Numba's dispatcher looks before it compiles."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = _WORD.sub("_", f"{function.__module__}.{function.__qualname__}")

    @property
    def cache_path(self) -> str:
        """Returns the folder."""
        return str(cache_folder()[0])

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Returns the compiled form for a signature, or None."""
        target.refresh()
        file = self.file(signature, target)
        try:
            held = file.read_bytes()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(file)
        return CompileResult._rebuild(target, *pickle.loads(held))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Writes a compiled form. Logs once per folder if the folder cannot be written."""
        if compiled.library.has_dynamic_globals or any(not part.can_cache for part in compiled.lifted):
            raise AssertionError(f"{self._name} depends on addresses of this process and cannot be kept")
        file = self.file(signature, compiled.target_context)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, dumps(compiled._reduce()))
            self._prune(file.parent)
        except OSError as error:
            _cannot_be_written(file.parent, error.strerror or type(error).__name__)

    def file(self, signature: Any, target: Any) -> Path:
        """Returns the path of the compiled form for a signature and the processor of ``target``; the file may not
        exist.
        """
        code = self._function.__code__
        cells = tuple(cell.cell_contents for cell in self._function.__closure__ or ())
        key = (
            digest_of(Path(code.co_filename)),
            hashlib.sha256(code.co_code).hexdigest(),
            hashlib.sha256(dumps(cells)).hexdigest() if cells else "",
            signature,
            target.codegen().magic_tuple(),
            (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__),
            bool(getattr(numba.config, "BOUNDSCHECK", None)),
        )
        return cache_folder()[0] / f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.kernel"

    def _prune(self, folder: Path) -> None:
        """Removes the least recently used files."""
        files = [(found.stat().st_mtime, found) for found in folder.glob(f"{self._name}-*.kernel")]
        for _, old in sorted(files)[:-KEPT]:
            old.unlink(missing_ok=True)

    def enable(self) -> None:
        """Does nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Does nothing: the cache is always enabled."""

    def flush(self) -> None:
        """Does nothing: an existing file is never out of date."""


def _write(file: Path, held: bytes) -> None:
    """Writes a file so that no process reads a partial one.

    Other users may read it, as the umask permits: in a container image, root compiles kernels and another user runs
    them.
    """
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as opened:
            opened.write(held)
        os.replace(temporary, file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@cache
def _cannot_be_written(folder: Path, reason: str) -> None:
    _log.warning("compiled kernels cannot be kept in %s (%s): set CROWN_CACHE_DIR to another folder", folder, reason)
