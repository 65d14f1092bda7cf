"""Arrays as bare pointers, and a hint to the cache.

Numba hands an array to a callee as seven words (owner, sizes, strides, ...) and looks at the sign of every index. The
kernels pass five arrays through chains of small functions; as bare pointers each is one register, and an access is one
instruction. So every kernel that Python calls begins by turning its arrays into pointers. With ``NUMBA_BOUNDSCHECK``
or ``NUMBA_DISABLE_JIT`` they stay arrays, flat ones, and every index is checked.

The plan array never changes while a kernel runs, so it is a pointer to *constants*: what was read from it once need
not be read again after every store.
"""

from __future__ import annotations

from typing import Any

from crown.kernels.jit import instruction


def _flat(array):
    """Returns what stands in where indices are checked."""
    return array.reshape(-1)


def _rest(array, index):
    """Returns what stands in where indices are checked."""
    return array[index:]


def _no_prefetch(array, index):
    """Stands in when kernels run as plain Python (NUMBA_DISABLE_JIT)."""


words: Any = instruction(_flat, "words", indexing=True)
constants: Any = instruction(_flat, "constants", indexing=True)
beyond: Any = instruction(_rest, "beyond", indexing=True)
"""Returns the pointer to ``array[index]``; it is given a pointer."""
prefetch: Any = instruction(_no_prefetch, "prefetch")
