"""The first large load on a machine: its kernels are compiled once, saying so."""

from __future__ import annotations

import sys
import time

import numba
from numba import int32, int64, none

from crown.engine.load.kernels.bulk import load_batch, reserve_tables
from crown.kernels.jit import is_cached

_WORDS = int64[::1]
_STATE = (_WORDS, int32[::1], _WORDS, _WORDS)
_RESERVE = (*_STATE, int64, _WORDS, int64, _WORDS)
_done: set[bool] = set()


def ensure_compiled(weighed: bool) -> None:
    """Makes sure that the kernels of loads are in the cache; ``weighed``: those of plans with payloads.

    Takes some ten seconds if they are not, else no time. Once per process.
    """
    if weighed in _done or getattr(numba.config, "DISABLE_JIT", False):
        return
    _done.add(weighed)
    ring = int64 if weighed else none
    batch = (_WORDS, _WORDS, _WORDS, ring, int64, int64, int64)
    load = (*_STATE, int64, *batch, _WORDS, _WORDS, _WORDS, _WORDS, int64[:, ::1])
    if is_cached(load_batch, load) and is_cached(reserve_tables, _RESERVE):
        return
    print("crown: compiling kernels for large loads, once ...", end=" ", file=sys.stderr, flush=True)
    started = time.monotonic()
    reserve_tables.compile(_RESERVE)
    load_batch.compile(load)
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
