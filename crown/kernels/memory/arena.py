"""The arena: all state of an engine in one flat int64 array.

``arena`` are its int64 words, ``halves`` the same memory as int32 (``halves[2*w]`` is the low half of word ``w``,
``halves[2*w+1]`` its high half). A *handle* is a word offset and fits 31 bits: an arena addresses at most 16 GiB. The
state is one array without pointers. Therefore a snapshot is a copy of a prefix, attaching to a memory-mapped file is
O(1), and nothing is ever pickled.

Word 0 up to ``header_words(tables)`` is the header: identity, allocator, counters, table descriptors. The allocator has
exact size classes up to ``EXACT`` words and the classes 2^k and 3*2^(k-1) above. A freed block is pushed on the free
list of its class (its first word links to the next). Blocks are not merged. A free block of a class above ``EXACT`` is
split if a smaller block is needed and none is free. So the blocks that a growing table frees hold its next records.
Memory use is constant for a stream whose live data has a stable shape.

Invariant: ``H_LIVE`` = header + sum of the class sizes of all allocated blocks; ``H_LIVE <= H_TOP <= H_LIMIT``.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.jit import device, kernel
from crown.kernels.memory.pointers import prefetch

MAGIC = 0x314E574F5243  # "CROWN1" little endian
FORMAT = 9

# Header words.
H_MAGIC, H_FORMAT, H_PLAN0, H_PLAN1 = 0, 1, 2, 3  # plan fingerprint: its first 16 bytes
H_TOP, H_LIMIT, H_LIVE = 4, 5, 6
H_FAR = 7  # blocks with far numbers (``far``)
H_VERSION, H_CLEAN, H_EPOCH = 8, 9, 10  # batch version, commit mark, number of changes ever applied
H_ROOT = 11  # handle of the root's group
H_LIVE_ON = 12  # 1 while live views are maintained
H_R_UPDATES, H_S_UPDATES, H_P_UPDATES, H_LIVE_FLIPS = 13, 14, 15, 16  # total numbers
H_STEPS, H_BLOCKS, H_EMITTED = 17, 18, 19  # total enumeration steps, blocks and tuples
H_DICT_SWEPT = 20  # live words of the dictionary's arena after the last sweep
H_GAP = 21  # maximum of loop turns between two blocks of an enumeration
H_BUDGET = 22  # no insertion starts while more words than this are live
H_OPEN = 23  # 1 while a batch is being applied: the state is then neither before nor after it
H_WRAPPED = 24  # of a payload plan: 1 if a count has left 63 bits since the word was read last, else 0
H_ROWS = 25  # of a stage; no kernel reads it: 0, or the number of rows of the stage plus 1
H_LOW, H_HIGH, H_CHAIN = 26, 27, 28  # secrets of the tables' hash (``tables.step``)
H_CUT, H_LEFT = 29, 30  # the block that is being split, and the words left of it
H_LARGE = 31  # 0 if there is no free block of a class above EXACT, 1 if there may be one
H_LOANS = 32  # of a payload plan: the first of the far numbers lent to results, or 0
H_FREE = 33  # heads of the free lists

EXACT = 64  # block sizes up to this many words have a class of their own
LINE = 8  # words of a line of the processor's cache
CLASSES = EXACT + 1 + 2 * 26
H_TABLES = H_FREE + CLASSES  # table descriptors, TABLE_WORDS each
TABLE_WORDS = 6
T_SLOTS, T_CAPACITY, T_COUNT = 0, 1, 2
T_TALLIES = 3  # the first of three counters that the owner of a table may keep with it

MAX_WORDS = 2**31 - 1

# Numba would compile the callee once more for the value of a literal argument; these are not literals.
NONE, ZERO, ONE = np.int64(-1), np.int64(0), np.int64(1)
PLAIN = np.int64(-(2**40))  # a list without carried values
COUNTED = np.int64(-(2**41))  # a list of which only the length is stored


def header_words(tables: int) -> int:
    """Returns the words of the header of an arena with ``tables`` hash tables."""
    return H_TABLES + TABLE_WORDS * tables


@device
def _scrambled(v):
    """Returns a pseudo-random word derived from ``v``."""
    v = (v ^ ((v >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    v = (v ^ ((v >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return v ^ ((v >> 31) & 0x1FFFFFFFF)


@kernel("words, int, int, int")
def format_arena(arena, tables, limit, seed):
    """Writes an empty header, without blocks or tables (``tables.new_table`` makes tables)."""
    words = H_TABLES + TABLE_WORDS * tables
    for w in range(words):
        arena[w] = 0
    arena[H_MAGIC] = MAGIC
    arena[H_FORMAT] = FORMAT
    arena[H_TOP] = words
    arena[H_LIMIT] = limit
    arena[H_BUDGET] = limit
    arena[H_LIVE] = words
    arena[H_LOW] = seed
    v = arena[H_LOW]
    for w in (H_LOW, H_HIGH, H_CHAIN):
        v = v + -7046029254386353131  # splitmix64
        arena[w] = _scrambled(v) | 1


@kernel("words")
def is_arena(arena):
    """Returns True iff the header has the format of this version."""
    return arena[H_MAGIC] == MAGIC and arena[H_FORMAT] == FORMAT and arena[H_TOP] <= arena.size


@kernel("int")
def size_class(words):
    """Returns the class index of a block of ``words`` >= 1 words."""
    if words <= EXACT:
        return words
    k = 7  # 2^7 = 128 is the first power above EXACT
    while (1 << k) < words:
        k += 1
    if words <= 3 << (k - 2):
        return EXACT + 1 + 2 * (k - 7)
    return EXACT + 2 + 2 * (k - 7)


@kernel("int")
def class_words(c):
    """Returns the size in words of the blocks of class ``c``."""
    if c <= EXACT:
        return c
    k = 7 + (c - EXACT - 1) // 2
    if (c - EXACT - 1) % 2 == 0:
        return 3 << (k - 2)
    return 1 << k


@kernel("words, int")
def _cut(arena, size):
    """Returns a block of ``size`` <= EXACT words from the block that is being split, or from a free one above EXACT.

    Returns 0 if there is none.
    """
    if arena[H_LEFT] < size:
        c = EXACT + 1
        while c < CLASSES and arena[H_FREE + c] == 0:
            c += 1
        if c == CLASSES:
            arena[H_LARGE] = 0
            return 0
        if arena[H_LEFT] > 0:
            arena[arena[H_CUT]] = arena[H_FREE + arena[H_LEFT]]
            arena[H_FREE + arena[H_LEFT]] = arena[H_CUT]
        arena[H_CUT] = arena[H_FREE + c]
        arena[H_LEFT] = class_words(c)
        arena[H_FREE + c] = arena[arena[H_CUT]]
    block = arena[H_CUT]
    arena[H_CUT] = block + size
    arena[H_LEFT] -= size
    arena[H_LIVE] += size
    return block


@device
def alloc(arena, words):
    """Returns the handle of a block of at least ``words`` words with undefined contents. O(1).

    Raises MemoryError beyond ``H_LIMIT``, with nothing changed.
    """
    c = size_class(words)
    size = class_words(c)
    head = arena[H_FREE + c]
    if head != 0:
        arena[H_LIVE] += size
        following = arena[head]
        arena[H_FREE + c] = following
        prefetch(arena, following)  # its link is read at the next allocation of this size
        return head
    if size <= EXACT and (arena[H_LEFT] >= size or arena[H_LARGE] != 0):
        head = _cut(arena, size)
        if head != 0:
            return head
    head = arena[H_TOP]
    if head + size > arena[H_LIMIT]:
        raise MemoryError("arena exhausted")
    arena[H_LIVE] += size
    arena[H_TOP] = head + size
    return head


@kernel("words, int, int")
def release(arena, handle, words):
    """Frees the block that ``alloc(arena, words)`` returned. O(1)."""
    c = size_class(words)
    arena[H_LIVE] -= class_words(c)
    arena[handle] = arena[H_FREE + c]
    arena[H_FREE + c] = handle
    if c > EXACT:
        arena[H_LARGE] = 1


@device
def align(arena):
    """Aligns the next new blocks to a cache line, if there is room. A block of 8 words is then in one line."""
    top = arena[H_TOP]
    gap = -top & (LINE - 1)
    if gap > 0 and top + gap <= arena[H_LIMIT]:
        arena[H_TOP] = top + gap
        arena[H_LIVE] += gap
        release(arena, top, gap)


# Half words are always read as int64: a kernel called with an int32 and with an int64 would be compiled twice.


@device
def lo(halves, w):
    """Returns the low half of word ``w``."""
    return np.int64(halves[2 * w])


@device
def hi(halves, w):
    """Returns the high half of word ``w``."""
    return np.int64(halves[2 * w + 1])


@device
def set_lo(halves, w, value):
    """Writes the low half of word ``w``."""
    halves[2 * w] = value


@device
def set_hi(halves, w, value):
    """Writes the high half of word ``w``."""
    halves[2 * w + 1] = value


@device
def at32(halves, i):
    """Returns the half word number ``i``."""
    return np.int64(halves[i])
