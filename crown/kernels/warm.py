"""The first run on a machine: compile the kernels once, saying so, on two cores.

Compiled kernels are cached on disk, for all plans. The two that take longest, with all they call, are compiled side
by side: the insertion kernel in a child process, the deletion kernel here; each finds the other's in the cache
afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numba
from numba import int32, int64, uint8
from numba.core.types import Array

from crown.kernels.batches import consolidate, pick
from crown.kernels.jit import is_cached
from crown.kernels.strings import decode, decoded_size, encode
from crown.kernels.update import delete_batch, insert_batch

_A = (int64[::1], int32[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1])
_INSERT = (*_A, int64[::1], int64[:, ::1])
_DELETE = (*_A, int64[::1], int64[:, ::1])
_CHILD = "from crown.kernels.warm import compile_inserts; compile_inserts()"
_done = False


_WORDS = int64[::1]
_BYTES = uint8[::1]
_SMALL: list[tuple[Any, Any]] = [
    (consolidate, (_WORDS, int64, _WORDS)),
    (pick, (_WORDS, int64, _WORDS, int64, _WORDS, _WORDS)),
    (
        encode,
        (
            _WORDS,
            _BYTES,
            int64,
            Array(uint8, 1, "C", readonly=True),
            Array(int64, 1, "C", readonly=True),
            _WORDS,
            int64,
        ),
    ),
    (decoded_size, (_WORDS, _WORDS, _WORDS)),
    (decode, (_WORDS, _BYTES, _WORDS, _WORDS, _BYTES)),
]


def compile_inserts() -> None:
    """Compile the insertion kernel, and small ones that every view needs, into the cache."""
    insert_batch.compile(_INSERT)
    for kernel, signature in _SMALL:
        kernel.compile(signature)


def ensure_compiled() -> None:
    """Make sure that the kernels are in the cache.

    Takes some ten seconds if they are not, else no time. Once per process.
    """
    global _done
    if _done or getattr(numba.config, "DISABLE_JIT", False):
        return
    _done = True
    wanted: list[tuple[Any, Any]] = [(insert_batch, _INSERT), (delete_batch, _DELETE)]
    if all(is_cached(kernel) for kernel, _ in wanted):
        return
    message = "crown: compiling kernels for this machine, once (about ten seconds) ..."
    print(message, end=" ", file=sys.stderr, flush=True)
    started = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", _CHILD], stderr=subprocess.DEVNULL) as child:
        delete_batch.compile(_DELETE)
        child.wait()
    insert_batch.compile(_INSERT)  # from the cache, or here if the child could not
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
