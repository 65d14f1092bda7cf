"""Converts arrays to bare pointers, and prefetches memory.

Numba passes an array as seven words (owner, sizes, strides, ...) and checks the sign of every index. The kernels pass
five arrays through chains of small functions. As a bare pointer each is one register, and an access is one instruction.
So every kernel that Python calls first converts its arrays to pointers. With ``NUMBA_BOUNDSCHECK`` or
``NUMBA_DISABLE_JIT`` they stay arrays, flattened, and every index is checked.

The plan array never changes while a kernel runs, so it is a pointer to *constants*: the compiler need not read a word
again after a store.
"""

from __future__ import annotations

from typing import Any

from crown.kernels.jit import instruction


def _flat(array):
    """Returns the array that replaces a pointer when indices are checked."""
    return array.reshape(-1)


def _rest(array, index):
    """Returns the array that replaces an advanced pointer when indices are checked."""
    return array[index:]


def _no_prefetch(array, index):
    """Does nothing, when kernels run as plain Python (NUMBA_DISABLE_JIT)."""


words: Any = instruction(_flat, "words", indexing=True)
constants: Any = instruction(_flat, "constants", indexing=True)
beyond: Any = instruction(_rest, "beyond", indexing=True)
"""Returns the pointer to ``array[index]``, for a pointer ``array``."""
prefetch: Any = instruction(_no_prefetch, "prefetch")
