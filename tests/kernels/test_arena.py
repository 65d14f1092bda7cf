"""The allocator against a dict of blocks: size classes, free lists, the invariant of the header, a full arena."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crown.kernels.memory import arena as A
from tests.kernels.wrappers import alloc, check_allocator, free_blocks, header, new_arena, until_full


def test_a_class_is_the_smallest_that_holds_a_block() -> None:
    sizes = [int(A.class_words(c)) for c in range(1, A.CLASSES)]
    assert sizes == sorted(set(sizes))
    near = {size + d for size in sizes for d in (-1, 0, 1)}
    for n in sorted({*range(1, 3000), *(m for m in near if 1 <= m <= A.MAX_WORDS)}):
        c = int(A.size_class(n))
        assert A.class_words(c) >= n
        assert c == 1 or A.class_words(c - 1) < n


def test_no_block_is_half_again_as_large_as_asked_for() -> None:
    assert all(A.class_words(A.size_class(n)) == n for n in range(1, A.EXACT + 1))
    assert all(A.class_words(A.size_class(n)) < 1.5 * n for n in range(A.EXACT + 1, 5000))


def test_the_largest_block_of_an_arena_has_a_class() -> None:
    assert A.size_class(A.MAX_WORDS) < A.CLASSES


def test_a_new_arena_is_a_header_and_nothing_else() -> None:
    arena = new_arena(tables_=3)
    M2 = np.full(1 << 12, -1, np.int64)
    A.format_arena(M2, 3, len(M2), 7)
    assert M2[A.H_TOP] == M2[A.H_LIVE] == A.header_words(3)
    assert (M2[A.H_MAGIC], M2[A.H_FORMAT], M2[A.H_LIMIT]) == (A.MAGIC, A.FORMAT, len(M2))
    assert M2[A.H_LOW : A.H_CHAIN + 1].all()
    assert not M2[A.H_FREE : A.header_words(3)].any()
    assert (M2[A.header_words(3) :] == -1).all()
    assert arena[A.H_TOP] > A.header_words(3), "tables have slots"


def test_a_freed_block_is_the_next_one_of_its_class() -> None:
    arena = new_arena()
    first, second, other = alloc(arena, 70), alloc(arena, 90), alloc(arena, 10)
    top = int(arena[A.H_TOP])
    A.release(arena, first, 70)
    A.release(arena, second, 90)
    A.release(arena, other, 10)
    again = [alloc(arena, 96), alloc(arena, 65), alloc(arena, 10)]
    assert again == [second, first, other], "last freed, first used; by class"
    assert arena[A.H_TOP] == top


@given(st.integers(0, 2**32), st.booleans())
def test_blocks_never_overlap_and_the_header_adds_up(seed: int, small: bool) -> None:
    rng = random.Random(seed)
    arena = new_arena(1 << 14 if small else 1 << 17)
    live: dict[int, int] = {}
    stamps: dict[int, int] = {}
    for step in range(150):
        if live and rng.random() < (0.3 if step < 100 else 0.7):
            handle = rng.choice(list(live))
            assert (arena[handle : handle + live[handle]] == stamps.pop(handle)).all(), "somebody wrote to this block"
            A.release(arena, handle, live.pop(handle))
        else:
            n = rng.randrange(1, rng.choice((5, 70, 4000)))
            before = header(arena)
            try:
                handle = int(alloc(arena, n))
            except MemoryError:
                assert header(arena) == before
                continue
            assert handle not in live
            live[handle] = n
            stamps[handle] = rng.getrandbits(62)
            arena[handle : handle + n] = stamps[handle]
        if step % 15 == 0:
            check_allocator(arena, live)
    for handle, n in live.items():
        assert (arena[handle : handle + n] == stamps[handle]).all()
        A.release(arena, handle, n)
    check_allocator(arena, {})
    assert arena[A.H_LIVE] == A.header_words(0)


def test_a_stream_of_stable_shape_takes_no_more_memory() -> None:
    arena, rng = new_arena(), random.Random(5)
    sizes = [rng.randrange(1, 300) for _ in range(100)]
    live = [(int(alloc(arena, n)), n) for n in sizes]
    top = int(arena[A.H_TOP])
    for _ in range(20):
        rng.shuffle(live)
        for handle, n in live:
            A.release(arena, handle, n)
        rng.shuffle(sizes)
        live = [(int(alloc(arena, n)), n) for n in sizes]
    assert arena[A.H_TOP] == top
    assert not free_blocks(arena)


def test_a_full_arena_refuses_and_changes_nothing() -> None:
    arena = new_arena(1 << 12)
    handles: list[int] = []
    before = until_full(arena, lambda: handles.append(int(alloc(arena, 100))))
    assert handles
    assert np.array_equal(arena, before)
    check_allocator(arena, dict.fromkeys(handles, 100))
    A.release(arena, handles[0], 100)
    with pytest.raises(MemoryError):
        alloc(arena, 200)
    assert alloc(arena, 100) == handles[0], "a free block of the class still serves"


def test_the_last_word_before_the_limit_can_be_had_and_none_after_it() -> None:
    size = int(A.header_words(0)) + 20
    arena = new_arena(size + 50, limit=size)
    assert alloc(arena, 20) == size - 20
    with pytest.raises(MemoryError):
        alloc(arena, 1)
    check_allocator(arena, {size - 20: 20})
