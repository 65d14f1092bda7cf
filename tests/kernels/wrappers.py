"""The ground floor's device functions, made callable from Python, and arenas to call them on.

A device function takes pointers and has no entry for Python; each kernel here does nothing but make the pointers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crown.engine.kernels import groups
from crown.kernels.jit import kernel
from crown.kernels.memory import arena as A
from crown.kernels.memory import geometry, lists, runs, tables
from crown.kernels.memory.context import Context
from crown.kernels.memory.pointers import constants, words

SEED = 0x5EED


def new_arena(size: int = 1 << 16, tables_: int = 0, limit: int | None = None, seed: int = SEED) -> np.ndarray:
    """A formatted arena of ``size`` words with empty tables; the words beyond the header are garbage, as in life."""
    arena = np.random.default_rng(1).integers(1, 2**62, size, np.int64)
    A.format_arena(arena, tables_, size if limit is None else limit, seed)
    for table in range(tables_):
        tables.new_table(arena, int(tables.table_at(table)))
    return arena


def header(arena: np.ndarray) -> list[int]:
    """The header words: allocator, counters, free lists, table descriptors."""
    found: list[int] = arena[: int(A.header_words(8))].tolist()
    return found


def free_blocks(arena: np.ndarray) -> list[tuple[int, int]]:
    """(handle, words) of every block in a free list."""
    found = []
    for c in range(A.CLASSES):
        handle = int(arena[A.H_FREE + c])
        while handle:
            found.append((handle, int(A.class_words(c))))
            handle = int(arena[handle])
    return found


def check_allocator(arena: np.ndarray, live: dict[int, int], tables_: int = 0) -> None:
    """The allocator's invariant: the ``live`` blocks (handle -> words asked for) and the free ones fill the arena."""
    taken = [(handle, int(A.class_words(A.size_class(words_)))) for handle, words_ in live.items()]
    at = int(A.header_words(tables_))
    assert sum(size for _, size in taken) + at == arena[A.H_LIVE]
    rest = [(int(arena[A.H_CUT]), int(arena[A.H_LEFT]))] if arena[A.H_LEFT] else []
    assert arena[A.H_LARGE] == 1 or all(size <= A.EXACT for _, size in free_blocks(arena))
    for handle, size in sorted(taken + free_blocks(arena) + rest):
        assert handle == at, f"the block at {handle} does not begin where the one before it ends, {at}"
        at += size
    assert at == arena[A.H_TOP]
    assert arena[A.H_LIVE] <= arena[A.H_TOP] <= arena[A.H_LIMIT]


def until_full(arena: np.ndarray, step: Callable[[], object]) -> np.ndarray:
    """Repeat ``step`` until the arena refuses it; returns a copy of the arena as it was before that."""
    while True:
        before = arena.copy()
        try:
            step()
        except MemoryError:
            return before


@kernel
def alloc(arena, n):
    return A.alloc(words(arena), n)


@kernel
def hash_key(arena, plan, pos, k, src, base):
    return tables.hash_key(words(arena), constants(plan), pos, k, words(src), base)


@kernel
def find(arena, t, tag, plan, pos, k, src, base):
    return tables.find(words(arena), t, tag, constants(plan), pos, k, words(src), base)


@kernel
def make_room(arena, t):
    tables.make_room(words(arena), t)


@kernel
def insert(arena, t, tag, handle):
    tables.insert(words(arena), t, tag, handle)


@kernel
def made_if_absent(arena, t, tag, plan, pos, k, src, base, size):
    """What the callers of ``tables.made_in`` do: one search says whether a record is there, and where it would be."""
    arena, plan, src = words(arena), constants(plan), words(src)
    slot = tables.seek(arena, t, tag, plan, pos, k, src, base, A.NONE)
    record = tables.record_in(arena, t, slot)
    return tables.made_in(arena, t, tag, slot, plan, pos, k, src, base, size) if record == 0 else record


@kernel
def remove(arena, t, tag, handle):
    tables.remove(words(arena), t, tag, handle)


@kernel
def list_append(arena, halves_, field, side, carried, row, link):
    """``lists.list_append``, and what its callers do next: the row remembers where it stands."""
    ctx = Context(words(arena), words(halves_), words(arena), words(arena))
    at = lists.list_append(ctx, field, side, carried, row)
    geometry.set_linked_position(ctx.halves, row, link, at)
    return at


@kernel
def list_remove(arena, halves_, field, side, carried, at, link):
    ctx = Context(words(arena), words(halves_), words(arena), words(arena))
    lists.list_remove(ctx, field, side, carried, at, link)


@kernel
def list_base(halves_, field, side, carried):
    return geometry.list_base(words(halves_), field, side, carried)


@kernel
def bundle_get(arena, halves_, plan, index, tag, src, base, pos):
    ctx = Context(words(arena), words(halves_), constants(plan), words(arena))
    return groups.bundle_get(ctx, index, tag, words(src), base, pos, A.NONE)


@kernel
def group_drop(arena, halves_, plan, node, g):
    groups.group_drop(Context(words(arena), words(halves_), constants(plan), words(arena)), node, g)


def halves(arena: np.ndarray) -> Any:
    """The arena as int32."""
    return arena.view(np.int32)


@kernel
def copy_run(out, to, source, start, n):
    """Calls ``runs.copy_run``."""
    runs.copy_run(words(out), to, words(source), start, n)


@kernel
def fill_run(out, to, n, value):
    """Calls ``runs.fill_run``."""
    runs.fill_run(words(out), to, n, value)
