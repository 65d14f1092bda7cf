"""Where things lie: in a record, in a group, in the plan array ``P`` and in the scratch array ``X``.

**Record**: a tuple of a source with ``a`` words, and a block per alias that reads it::

    0 .. a-1   the values (int64 codes)
    a ..       block of the first alias, of the second, ...

**Block** of an alias, that is of a node, with children ``0..n-1`` (``2 + n`` words). A *row* of the node is the handle
of its block; the values lie before it, ``N_OFFSET`` words from the record's beginning::

    0          low: count (non-empty child groups)     high: multiplicity of the tuple (in the first block)
    1          low: group of the edge to the parent    high: position in that group's children, -1 outside V_s
    2+j        low: group of the edge to child j       high: position in that group's parents

An alias that does not read the tuple (its mask says so) has group 0. A row of a virtual node is a record of its own.

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

**Plan array** ``P`` (int64): ``ND`` words per node from ``P_NODES``, then record descriptors, position arrays and
enumeration programs. Positions of keys count from the record's first word, positions in programs from the row.
"""

from __future__ import annotations

import numpy as np

P_COUNT = 0  # P[0]: number of nodes
P_FULL = 1  # P[1]: program of the full enumeration
P_IDENTITY = 2  # P[2]: P offset of 0, 1, 2, ...
P_NODES = 8

# Words of a node descriptor in P.
ND = 20
N_RECORD = 0  # P offset of the record descriptor
N_OFFSET = 1  # words from the record's first word to the row
N_CHILDREN, N_CHILD = 2, 3  # number of children; P offset of the child nodes
N_FREE, N_VIRTUAL = 4, 5
N_PARENT = 6  # parent node, -1 at the root
N_KEY, N_KPOS, N_PPOS = 7, 8, 9  # key length; where it is in this node's record, in the parent's
N_VPOS = 10  # where a virtual parent's attributes are in this node's record
N_INLINE = 11  # attribute carried in the children list, from the row, or PLAIN
N_ROWS, N_GROUPS = 12, 13  # header words: of the node's own counters, of the group table
N_PROGRAM = 14  # delta enumeration with this node as witness
N_INNER = 15  # 1 if some child is free: liveness must cascade through this node
N_TAGS = 16  # where in a row of the ring the tags of its groups are

# Words of a record descriptor in P.
R_WIDTH, R_WORDS, R_TABLE = 0, 1, 2  # words of the tuple, of the record; header words of the table
R_ALIASES, R_NODES = 3, 4  # number of aliases; P offset of their nodes

# A program: STEPS, LEAVES, FIXED, P offsets of the three lists, the P offset of a leaf that hangs on the last step
# (or 0), and how many of the fixed columns, the first ones, come from the last step's row.
G_STEPS, G_LEAVES, G_FIXED, G_STEP0, G_LEAF0, G_FIX0, G_AHEAD, G_VARYING = 0, 1, 2, 3, 4, 5, 6, 7
STEP = 4  # kind, from node, to node, child index
LEAF = 7  # kind, from node, to node, child index, carried attribute or PLAIN, columns, P offset of (column, attribute)s
FIX = 3  # column, node, attribute
ROOT, UP, DOWN = 0, 1, 2

# Scratch X: everything a suspended kernel needs to go on.
X_SP, X_I, X_RECORD, X_PHASE = 0, 1, 2, 3  # frames in use, batch position, record being changed, phase of that change
X_FILL, X_MODE = 4, 5
X_PROGRAM, X_DEPTH, X_AT, X_TOTAL, X_GAP = 6, 7, 8, 9, 10  # enumeration
X_LFRAMES, X_CUR = 11, 12  # where the live frames and the current rows start
X_CAPACITY = 13  # rows that the output buffer holds
X_RING, X_STRIDE = 14, 15  # tags of the rows ahead: where they are, words per row
X_READY = 16  # rows of the batch that have their tags
X_ALIAS = 17  # alias whose turn it is
X_AREAS = 18
RING = 16  # rows whose tags are kept; one more to spare
FRAME = 5  # row, node, group, position, phase
LFRAME = 4  # row, node, child index, position

MODE_VIEWS, MODE_LIVE, MODE_DELTAS = 0, 1, 2


def new_scratch(nodes: int) -> np.ndarray:
    """A scratch array (int64) for a plan of ``nodes`` nodes: frames, live frames, current rows, steps, leaves, tags."""
    ring = X_AREAS + (FRAME + LFRAME) * (nodes + 1) + 7 * nodes
    stride = 2 * nodes + 1  # a record's tag, and two per node at most: of its group and of its parent's link to it
    X = np.zeros(ring + (RING + 1) * stride, np.int64)
    X[X_RING] = ring
    X[X_STRIDE] = stride
    X[X_LFRAMES] = X_AREAS + FRAME * (nodes + 1)
    X[X_CUR] = X[X_LFRAMES] + LFRAME * (nodes + 1)
    return X
