"""The first run on a machine: compile the kernels once, saying so, on two cores.

Compiled kernels are cached on disk, for all plans. Insertion and deletion share most of what they call, so the shared
parts are dealt out first: the enumeration, the largest, to a child process, the rest to this one; then the child goes
on with the insertion kernel and this process with the deletion kernel. Each finds the other's parts in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba import int32, int64, none, uint8
from numba.core.types import Array, CPointer, NamedTuple

from crown.compiling.folder import VARIABLE, cache_folder
from crown.engine.kernels.ahead import ahead_delete, ahead_insert
from crown.engine.kernels.enumerate import enumerate_resume
from crown.engine.kernels.live import set_live
from crown.engine.kernels.publish import publish_batch
from crown.engine.kernels.rows import r_update_delete, r_update_insert
from crown.engine.kernels.summed import sum_batch
from crown.engine.kernels.turns import give_padding, take_padding
from crown.engine.kernels.update import delete_batch, insert_batch
from crown.kernels.batches import extent, negatives, net_tuples, place_record, write_record
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
_SUMMED = (_WORDS, _HALVES, _WORDS, _WORDS, int64, _WORDS, _WORDS, _WORDS, int64, int64, int64[:, ::1])
_WEIGHING = ((insert_batch, _WEIGHED), (delete_batch, _WEIGHED), (sum_batch, _SUMMED), (publish_batch, _PUBLISH))
_done: set[str] = set()
_STATE = (_WORDS, _HALVES, _WORDS, _WORDS)
_GROUPS = (int64, int64, int64, _WORDS)
_PADDING = {
    weighed: (
        (take_padding, (*_STATE, *_GROUPS, _WORDS, int64, ring, int64[:, ::1])),
        (give_padding, (*_STATE, *_GROUPS, ring, int64[:, ::1])),
    )
    for weighed, ring in ((False, none), (True, int64))
}
"""Kernels of padded nodes and their signatures, without and with a payload."""
_SMALL: list[tuple[Any, Any]] = [
    (net_tuples, (_WORDS, int64, int64, _WORDS, _WORDS, int64, _WORDS, _WORDS)),
    (extent, (_WORDS,)),
    (extent, (Array(int64, 1, "C", readonly=True),)),
    (negatives, (_WORDS,)),
    (write_record, (_WORDS, _BYTES, _WORDS, int64, int64, _WORDS, _WORDS, _WORDS, _WORDS, _BYTES)),
    (place_record, (_WORDS, int64, int64, int64, _WORDS, _WORDS)),
    (
        encode,
        (
            _WORDS,
            _BYTES,
            int64,
            Array(uint8, 1, "C", readonly=True),
            Array(int32, 1, "C", readonly=True),
            _WORDS,
            _WORDS,
            int64,
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


def ensure_compiled(weighed: bool = False, padded: bool = False) -> None:
    """Makes sure that the kernels are in the cache; ``weighed``, ``padded``: those of plans with payloads, and with
    padded nodes, too.

    Takes some ten seconds for each kind if they are not, else no time. Once per process.
    """
    if getattr(numba.config, "DISABLE_JIT", False):
        return
    _compile_once("kernels", _on_two_cores, ((insert_batch, _ENTRY), (delete_batch, _ENTRY)))
    if weighed:
        _compile_once("kernels for multiplicities and sums", None, _WEIGHING)
    if padded:
        _compile_once(f"kernels for left joins{' of bags' if weighed else ''}", None, _PADDING[weighed])


def _compile_once(what: str, how: Callable[[], None] | None, kernels: Sequence[tuple[Any, Any]]) -> None:
    """Compiles kernels for these signatures, one after the other or as ``how`` does, unless that was done before."""
    if what in _done:
        return
    _done.add(what)
    if all(is_cached(kernel, signature) for kernel, signature in kernels):
        return
    print(
        f"crown: compiling {what} for this machine, once (about ten seconds) ...", end=" ", file=sys.stderr, flush=True
    )
    started = time.monotonic()
    if how is not None:
        how()
    for kernel, signature in kernels:
        kernel.compile(signature)
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _on_two_cores() -> None:
    environment = {**os.environ, VARIABLE: str(cache_folder()[0])}
    with subprocess.Popen([sys.executable, "-c", _CHILD], stderr=subprocess.DEVNULL, env=environment) as child:
        _compile_deletes()
        child.wait()  # what it made is in the cache; what it could not make is made after this
