"""Where things lie: in a row, in a group, in the plan array ``P`` and in the scratch array ``X``.

**Row** of a node with ``a`` attributes and children ``0..n-1`` (``a + 2 + n`` words)::

    0 .. a-1   the values (int64 codes)
    a          low: count (non-empty child groups)     high: multiplicity
    a+1        low: group of the edge to the parent    high: position in that group's children, -1 outside V_s
    a+2+j      low: group of the edge to child j       high: position in that group's parents

**Group** of an edge with a key of ``k`` attributes (``k + 4`` words), the only index there is::

    0 .. k-1   the key
    k          low: children list    high: its length (count[k] of S-UPDATE; the key is in V_p iff > 0)
    k+1        low: parents list     high: its length (rows of R_p with that key, live ones first)
    k+2        low: live parents     high: rows of R_c with that key, in V_s or not
    k+3        low: log2 capacity of the children list    high: of the parents list

A list of capacity 1 is its own list field; a longer one is a block of int32 row handles. The children list of a free
leaf with one non-key attribute carries a copy of that attribute (``capacity`` int64 words before the handles), so
that the innermost loop of an enumeration is a copy. The root's edge has one group, without key, with one live parent
that does not exist: so the root needs no case of its own.

**Plan array** ``P`` (int64): ``ND`` words per node from ``P_NODES``, then position arrays and enumeration programs.
"""

from __future__ import annotations

import numpy as np

# Words of a node descriptor in P.
P_COUNT = 0  # P[0]: number of nodes
P_FULL = 1  # P[1]: program of the full enumeration
P_NODES = 8
ND = 20
N_ATTRS, N_CHILDREN, N_WORDS, N_FREE, N_VIRTUAL = 0, 1, 2, 3, 4
N_PARENT = 5  # parent node, -1 at the root
N_KEY, N_KPOS, N_PPOS, N_VPOS = (
    7,
    8,
    9,
    10,
)  # key length; key positions here, in the parent; a virtual parent's attributes here
N_INLINE = 11  # attribute carried in the children list, or -1
N_ROWS, N_GROUPS = 12, 13  # header words of the row table and the group table
N_CHILD = 14  # P offset of the child nodes
N_PROGRAM = 15  # delta enumeration with this node as witness
N_IDENTITY = 16  # P offset of 0, 1, 2, ...
N_INNER = 17  # 1 if some child is free: liveness must cascade through this node

# A program: STEPS, LEAVES, FIXED, P offsets of the three lists, the P offset of a leaf that hangs on the last step
# (or 0), and how many of the fixed columns, the first ones, come from the last step's row.
G_STEPS, G_LEAVES, G_FIXED, G_STEP0, G_LEAF0, G_FIX0, G_AHEAD, G_VARYING = 0, 1, 2, 3, 4, 5, 6, 7
STEP = 4  # kind, from node, to node, child index
LEAF = (
    7  # kind, from node, to node, child index, inlined attribute or -1, columns, P offset of (column, attribute) pairs
)
FIX = 3  # column, node, attribute
ROOT, UP, DOWN = 0, 1, 2

# Scratch X: everything a suspended kernel needs to go on.
X_SP, X_I, X_ROW, X_PHASE = 0, 1, 2, 3  # frames in use, batch position, row being deleted, phase of the current change
X_FILL, X_MODE = 4, 5
X_PROGRAM, X_DEPTH, X_AT, X_TOTAL, X_GAP = 6, 7, 8, 9, 10  # enumeration
X_LFRAMES, X_CUR = 11, 12  # where the live frames and the current rows start
X_CAPACITY = 13  # rows that the output buffer holds
X_RING, X_STRIDE = 14, 15  # tags of the rows ahead: where they are, words per row
X_READY = 16  # rows of the batch that have their tags
X_AREAS = 17
X_ROWS = 17  # of the ring: one per row that is looked at, one to spare
FRAME = 5  # row, node, group, position, phase
LFRAME = 4  # row, node, child index, position

MODE_VIEWS, MODE_LIVE, MODE_DELTAS = 0, 1, 2


def new_scratch(nodes: int) -> np.ndarray:
    """A scratch array (int64) for a plan of ``nodes`` nodes: frames, live frames, current rows, steps, leaves, tags."""
    ring = X_AREAS + (FRAME + LFRAME) * (nodes + 1) + 7 * nodes
    X = np.zeros(ring + X_ROWS * (nodes + 2), np.int64)
    X[X_RING] = ring
    X[X_STRIDE] = nodes + 2
    X[X_LFRAMES] = X_AREAS + FRAME * (nodes + 1)
    X[X_CUR] = X[X_LFRAMES] + LFRAME * (nodes + 1)
    return X
