"""The first run on a machine: compile the kernels once, saying so, on two cores.

As `crown.kernels.warm` does for the engine. Most of the time goes into two kernels with all they call, changes one by
one and bulk load; the second, and what else takes seconds, is compiled by a child process, into the cache on disk.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numba
from numba import boolean, float64, int32, int64

from crown.kernels.jit import is_cached
from ivm_triangle.kernels.hops import union_rows
from ivm_triangle.kernels.maintain import apply_rows, load_rows
from ivm_triangle.kernels.stream import stream_rows

_WORDS, _ROWS = int64[::1], int64[:, ::1]
_STATE = (_WORDS, int32[::1], _WORDS, float64[::1])
_CHANGES = (*_STATE, _ROWS, int64, _WORDS)
_STREAM = (*_STATE, int64, _ROWS, _WORDS, _WORDS, int64, _WORDS, int64, _WORDS, _WORDS, _ROWS)
_UNION = (_WORDS, int32[::1], _WORDS, _WORDS, _WORDS, _ROWS, boolean, _ROWS)
_CHILD = "from ivm_triangle.kernels.warm import compile_loading; compile_loading()"
_done: set[str] = set()


def compile_loading() -> None:
    """Compile the bulk load, and the enumeration by hops, into the cache."""
    load_rows.compile(_CHANGES)
    union_rows.compile(_UNION)


def ensure_compiled(streaming: bool) -> None:
    """Make sure that the kernels of a `Triangle`, or of a bag (`streaming`), are in the cache.

    Takes ten to twenty seconds if they are not, else no time. Once per process.
    """
    wanted: list[tuple[Any, Any]] = (
        [(stream_rows, _STREAM)] if streaming else [(apply_rows, _CHANGES), (load_rows, _CHANGES)]
    )
    name = wanted[0][0].__name__
    if name in _done or getattr(numba.config, "DISABLE_JIT", False):
        return
    _done.add(name)
    if all(is_cached(kernel) for kernel, _ in wanted):
        return
    message = "ivm_triangle: compiling kernels for this machine, once (ten to twenty seconds) ..."
    print(message, end=" ", file=sys.stderr, flush=True)
    started = time.monotonic()
    if streaming:
        stream_rows.compile(_STREAM)
    else:
        with subprocess.Popen([sys.executable, "-c", _CHILD], stderr=subprocess.DEVNULL) as child:
            apply_rows.compile(_CHANGES)
            child.wait()
        load_rows.compile(_CHANGES)  # from the cache, or here if the child could not
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
