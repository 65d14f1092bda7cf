"""The first run on a machine: compile the kernels once, saying so, on two cores.

As `crown.engine.kernels.warm` does for the engine: of the two largest parts that everything shares a child process
compiles one and this process the other; then the child compiles what only a bulk load and the enumeration by hops
need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import numba
from numba import boolean, float64, int32, int64
from numba.core.types import CPointer, NamedTuple

from crown.compiling.folder import VARIABLE, cache_folder
from crown.kernels.jit import is_cached
from crown.kernels.pointers import Constants
from ivm_triangle.kernels.enumeration.hops import union_rows
from ivm_triangle.kernels.enumeration.stream import stream_rows
from ivm_triangle.kernels.state.context import Context
from ivm_triangle.kernels.update.maintain import apply_rows, load_rows
from ivm_triangle.kernels.update.rebalance import reconsider
from ivm_triangle.kernels.update.rules import lookup_step, scan_step

_WORDS, _ROWS = int64[::1], int64[:, ::1]
_STATE = (_WORDS, int32[::1], _WORDS, float64[::1])
_CHANGES = (*_STATE, _ROWS, int64, _WORDS)
_STREAM = (*_STATE, int64, _ROWS, _WORDS, int64, _WORDS, _WORDS, _WORDS, int64, _WORDS, int64, _WORDS, _WORDS, _ROWS)
_UNION = (_WORDS, int32[::1], _WORDS, _WORDS, _WORDS, _ROWS, boolean, _ROWS)
_CONTEXT = NamedTuple((CPointer(int64), CPointer(int32), Constants(), CPointer(float64)), Context)
_SCAN = (_CONTEXT, *(int64,) * 7)
_LOOKUP = (_CONTEXT, *(int64,) * 6)
_CHILD = "from ivm_triangle.kernels.warm import compile_rest; compile_rest({})"
_done: set[str] = set()


def compile_rest(loading: bool) -> None:
    """Compiles the child's share into the cache; with `loading` also the bulk load and the enumeration by hops."""
    lookup_step.compile(_LOOKUP)
    if loading:
        union_rows.compile(_UNION)
        load_rows.compile(_CHANGES)


def ensure_compiled(streaming: bool) -> None:
    """Makes sure that the kernels of a `Triangle`, or of a bag (`streaming`), are in the cache.

    Takes ten to twenty seconds if they are not, else no time. Once per process.
    """
    wanted: list[tuple[Any, Any]] = (
        [(stream_rows, _STREAM)] if streaming else [(apply_rows, _CHANGES), (load_rows, _CHANGES)]
    )
    name = wanted[0][0].__name__
    if name in _done or getattr(numba.config, "DISABLE_JIT", False):
        return
    _done.add(name)
    if all(is_cached(kernel, signature) for kernel, signature in wanted):
        return
    message = "ivm_triangle: compiling kernels for this machine, once (ten to twenty seconds) ..."
    print(message, end=" ", file=sys.stderr, flush=True)
    started = time.monotonic()
    environment = {**os.environ, VARIABLE: str(cache_folder()[0])}
    words = [sys.executable, "-c", _CHILD.format(not streaming)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment) as child:
        scan_step.compile(_SCAN)
        reconsider.compile((_CONTEXT,))
        wanted[0][0].compile(wanted[0][1])
        child.wait()
    for kernel, signature in wanted[1:]:
        kernel.compile(signature)  # from the cache, or here if the child could not
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
