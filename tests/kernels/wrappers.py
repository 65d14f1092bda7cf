"""The ground floor's device functions, made callable from Python, and arenas to call them on.

A device function takes pointers and has no entry for Python; each kernel here does nothing but make the pointers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crown.kernels import arena as A
from crown.kernels import groups, tables
from crown.kernels.jit import kernel
from crown.kernels.pointers import constants, words

SEED = 0x5EED


def new_arena(size: int = 1 << 16, tables_: int = 0, limit: int | None = None, seed: int = SEED) -> np.ndarray:
    """A formatted arena of ``size`` words with empty tables; the words beyond the header are garbage, as in life."""
    M = np.random.default_rng(1).integers(1, 2**62, size, np.int64)
    A.format_arena(M, tables_, size if limit is None else limit, seed)
    for table in range(tables_):
        tables.new_table(M, int(tables.table_at(table)))
    return M


def header(M: np.ndarray) -> list[int]:
    """The header words: allocator, counters, free lists, table descriptors."""
    found: list[int] = M[: int(A.header_words(8))].tolist()
    return found


def free_blocks(M: np.ndarray) -> list[tuple[int, int]]:
    """(handle, words) of every block in a free list."""
    found = []
    for c in range(A.CLASSES):
        handle = int(M[A.H_FREE + c])
        while handle:
            found.append((handle, int(A.class_words(c))))
            handle = int(M[handle])
    return found


def check_allocator(M: np.ndarray, live: dict[int, int], tables_: int = 0) -> None:
    """The allocator's invariant: the ``live`` blocks (handle -> words asked for) and the free ones fill the arena."""
    taken = [(handle, int(A.class_words(A.size_class(words_)))) for handle, words_ in live.items()]
    at = int(A.header_words(tables_))
    assert sum(size for _, size in taken) + at == M[A.H_LIVE]
    for handle, size in sorted(taken + free_blocks(M)):
        assert handle == at, f"the block at {handle} does not begin where the one before it ends, {at}"
        at += size
    assert at == M[A.H_TOP]
    assert M[A.H_LIVE] <= M[A.H_TOP] <= M[A.H_LIMIT]


def until_full(M: np.ndarray, step: Callable[[], object]) -> np.ndarray:
    """Repeat ``step`` until the arena refuses it; returns a copy of the arena as it was before that."""
    while True:
        before = M.copy()
        try:
            step()
        except MemoryError:
            return before


@kernel
def alloc(M, n):
    return A.alloc(words(M), n)


@kernel
def hash_key(M, P, pos, k, src, base):
    return tables.hash_key(words(M), constants(P), pos, k, words(src), base)


@kernel
def find(M, t, tag, P, pos, k, src, base):
    return tables.find(words(M), t, tag, constants(P), pos, k, words(src), base)


@kernel
def make_room(M, t):
    tables.make_room(words(M), t)


@kernel
def insert(M, t, tag, handle):
    tables.insert(words(M), t, tag, handle)


@kernel
def remove(M, t, tag, handle):
    tables.remove(words(M), t, tag, handle)


@kernel
def list_append(M, m32, field, log_at, inlined, row, link):
    """``groups.list_append``, and what its callers do next: the row remembers where it stands."""
    M, m32 = words(M), words(m32)
    at = groups.list_append(M, m32, field, log_at, inlined, row)
    A.set_hi(m32, row + link, at)
    return at


@kernel
def list_remove(M, m32, field, log_at, inlined, at, link):
    groups.list_remove(words(M), words(m32), field, log_at, inlined, at, link)


@kernel
def list_base(m32, field, log_at, inlined):
    return groups.list_base(words(m32), field, log_at, inlined)


@kernel
def group_get(M, m32, P, node, tag, src, base, pos):
    return groups.group_get(words(M), words(m32), constants(P), node, tag, words(src), base, pos)


@kernel
def group_drop(M, m32, P, node, g):
    groups.group_drop(words(M), words(m32), constants(P), node, g)


def halves(M: np.ndarray) -> Any:
    """The arena as int32."""
    return M.view(np.int32)
