"""The layout of the state: control block, plan array, records.

Values of the three domains A, B, C are *vertices*, tuples of R, S, T are *edges*: relation k leads from domain k to
domain k + 1 (mod 3). Handles fit 31 bits, so a pair of vertices is one word, `x << 32 | y`, and so is a list entry,
`other end << 32 | record`.

| record | words |
|---|---|
| vertex | value, out list (2), in list (2) |
| edge   | x << 32 ǀ y, multiplicity, position in x's out list and in y's in list |
| sum | key, value, position in the listing |
| set | a << 32 ǀ b, c, position in the listing |
| group  | key (pair), list of middles (2), position in its root bucket or -1 |
| middle | group << 32 ǀ middle vertex, position in the group |
| bucket | vertex, list of groups (2), position in the listing |

A list (2 words, as four int32) has: address, length, capacity, extra. In a vertex's list, entries with a heavy other
end come first. extra is their number, plus HEAVY if the vertex itself is heavy in that column.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.memory.arena import header_words

WORD = np.int64  # WORD(1) in a call: Numba would compile the callee once more for the literal 1
R, S, T = WORD(0), WORD(1), WORD(2)
HH, HL, LH, LL = WORD(1), WORD(2), WORD(4), WORD(8)  # the bit of a part

MAX_VIEWS = 12
KEYS = 6 + 2 * MAX_VIEWS
TABLES = KEYS + 3  # vertices of A, B, C; edges of R, S, T; two per view; composite keys of A, B, C
CONTROL = header_words(TABLES)  # the control block is the first block of the arena
CONTROL_WORDS = 256
LAYOUT = 3  # incremented by changes that make an older state unreadable

C_BASE, C_SIZE, C_EPOCH, C_MAJORS, C_MINORS, C_MOVED, C_FLIPS, C_OPS, C_TOTAL, C_UPDATES, C_PEAK, C_TRIPLES = range(
    CONTROL, CONTROL + 12
)
C_RATES = CONTROL + 12  # updates of R, S, T since the last check of the thresholds
C_LIMITS = CONTROL + 16  # lo, st, hi of R, S, T
C_SHIFTS = CONTROL + 25  # theta of R, S, T is N^eps times two to this power
C_WANTED = CONTROL + 28  # the powers that are best for the present rates
MAX_SHIFT = 3
C_VIEWS = CONTROL + 32  # per view: the list of its records (2 words), spare (2 words)
C_NORMS = CONTROL + 80  # bounds on the Euclidean norms of R, S, T, float64
C_MARKS = CONTROL + 128  # a bitmap of 2^13 vertices by hash, zero between two scans
MARK_WORDS = 128

VERTEX_WORDS, EDGE_WORDS, SUM_WORDS, SET_WORDS, GROUP_WORDS, MIDDLE_WORDS, BUCKET_WORDS = 5, 3, 3, 3, 4, 2, 4
V_OUT, V_IN = 1, 3
HEAVY = 1 << 30
COUNT_MASK = HEAVY - 1

# The plan array: header, views, steps.
P_BORN, P_PARTITIONED, P_STARTS, P_COPIES, P_ADAPTIVE, P_VIEWS = 0, 6, 12, 16, 17, 18
# copies: 3 relations, or 1 that plays all three; adaptive: 1 if thresholds follow the rates of updates
VIEW_WORDS, STEP_WORDS = 5, 16
KIND, OF, BUCKET, ROOT_OF, NEEDED = range(5)
K_TOTAL, K_SUM, K_SET, K_LIST, K_ROOT, K_COUNT, K_PAIRS = range(7)
UPDATED, MASK0, SCAN, MASK1, MASK2, WRITE, HIT, LOADS, W0, W1, W2, H0, H1, H2 = range(14)
UNLESS_HEAVY = 3
P_STEPS = P_VIEWS + VIEW_WORDS * MAX_VIEWS

REAL, MOVE, LOAD, LOAD_LOOKUPS = range(4)
