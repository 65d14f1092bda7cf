"""The first run on a machine: compile the kernels once, saying so, on two cores.

Compiled kernels are cached on disk, for all plans. Insertion and deletion share most of what they call, so the shared
parts are dealt out first: the enumeration, the largest, to a child process, the rest to this one; then the child goes
on with the insertion kernel and this process with the deletion kernel. Each finds the other's parts in the cache.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numba
from numba import int32, int64, none, uint8
from numba.core.types import Array, CPointer, NamedTuple

from crown.engine.kernels.ahead import ahead_delete, ahead_insert
from crown.engine.kernels.enumerate import enumerate_resume
from crown.engine.kernels.live import set_live
from crown.engine.kernels.publish import publish_batch
from crown.engine.kernels.rows import r_update_delete, r_update_insert
from crown.engine.kernels.update import delete_batch, insert_batch
from crown.kernels.batches import consolidate, extent, negatives, pick
from crown.kernels.context import Context
from crown.kernels.jit import is_cached
from crown.kernels.pointers import Constants
from crown.kernels.strings import decode, decoded_size, encode

_WORDS, _HALVES, _BYTES = int64[::1], int32[::1], uint8[::1]
_ENTRY = (_WORDS, _HALVES, _WORDS, _WORDS, int64, _WORDS, _WORDS, _WORDS, none, int64[:, ::1])
_POINTER = CPointer(int64)
_CONTEXT = NamedTuple((_POINTER, CPointer(int32), Constants(), _POINTER), Context)
_SHARED: list[tuple[Any, Any]] = [
    (r_update_delete, (_CONTEXT, int64, int64)),
    (set_live, (_CONTEXT, int64, int64, int64)),
    (ahead_delete, (_CONTEXT, int64, _POINTER, int64, int64, none)),
    (r_update_insert, (_CONTEXT, int64, int64, int64, int64)),
    (ahead_insert, (_CONTEXT, int64, _POINTER, int64, int64, none)),
]
_CHILD = "from crown.engine.kernels.warm import compile_inserts; compile_inserts()"
_PUBLISH = (_WORDS, _HALVES, _WORDS, _WORDS, int64, int64[:, ::1])
_WEIGHED = tuple(int64 if part is none else part for part in _ENTRY)
_done: set[bool] = set()
_SMALL: list[tuple[Any, Any]] = [
    (consolidate, (_WORDS, int64, _WORDS, int64)),
    (pick, (_WORDS, int64, _WORDS, int64, _WORDS, _WORDS)),
    (extent, (_WORDS,)),
    (extent, (Array(int64, 1, "C", readonly=True),)),
    (negatives, (_WORDS,)),
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
    """Compiles the enumeration, small kernels that every view needs, and the insertion kernel into the cache."""
    enumerate_resume.compile((_CONTEXT, _POINTER))
    for kernel, signature in _SMALL:
        kernel.compile(signature)
    insert_batch.compile(_ENTRY)


def _compile_deletes() -> None:
    for function, signature in _SHARED:
        function.compile(signature)
    delete_batch.compile(_ENTRY)


def ensure_compiled(weighed: bool = False) -> None:
    """Makes sure that the kernels are in the cache; ``weighed``: those of plans with payloads too.

    Takes some ten seconds if they are not, else no time. Once per process.
    """
    if weighed in _done or getattr(numba.config, "DISABLE_JIT", False):
        return
    if weighed:
        ensure_compiled()
    _done.add(weighed)
    kernels = (insert_batch, delete_batch, publish_batch) if weighed else (insert_batch, delete_batch)
    signatures = (_WEIGHED, _WEIGHED, _PUBLISH) if weighed else (_ENTRY, _ENTRY)
    if all(is_cached(kernel, signature) for kernel, signature in zip(kernels, signatures, strict=True)):
        return
    what = "kernels for multiplicities and sums" if weighed else "kernels"
    print(
        f"crown: compiling {what} for this machine, once (about ten seconds) ...", end=" ", file=sys.stderr, flush=True
    )
    started = time.monotonic()
    if weighed:
        for kernel, signature in zip(kernels, signatures, strict=True):
            kernel.compile(signature)
    else:
        with subprocess.Popen([sys.executable, "-c", _CHILD], stderr=subprocess.DEVNULL) as child:
            _compile_deletes()
            child.wait()
        insert_batch.compile(_ENTRY)  # from the cache, or here if the child could not
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
