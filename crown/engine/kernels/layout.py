"""Words of the plan array and of the scratch array. For the layout of the arena see ``geometry``.

**Plan array** (int64): ``ND`` words per node from ``P_NODES``, then record descriptors, position arrays and enumeration
programs. Positions of keys are offsets from the record's first word, positions in programs are offsets from the row.
"""

from __future__ import annotations

import numpy as np

P_COUNT = 0  # number of nodes
P_FULL = 1  # program of the full enumeration
P_IDENTITY = 2  # plan offset of 0, 1, 2, ...
P_EDGES, P_EDGE0 = 3, 4  # of a payload plan: number of edges with payloads; plan offset of their nodes, deepest first
P_VALUE, P_COLUMN = 5, 6  # of a payload plan: payload descriptor and first column of a result's payload
P_WEIGHING, P_WEIGHING0 = 7, 8  # of a payload plan: number of free nodes that weigh; plan offset of their list
P_BRANCHES, P_BRANCH0 = 9, 10  # branches of factorized rows; plan offset of the branch of each free attribute, or -1
P_ENDS = 11  # first column with the ends of lists in factorized rows
P_CACHED = 12  # words of a state that the caches of the processor hold: see ``prefetch``
P_NODES = 13
CACHED = 1 << 20  # words; measured with caches of 32 MiB, where states of 2^21 words begin to wait for memory

# Words of a node descriptor in the plan array.
ND = 24
N_RECORD = 0  # plan offset of the record descriptor
N_OFFSET = 1  # words from the record's first word to the row
N_CHILDREN, N_CHILD = 2, 3  # number of children; plan offset of the child nodes
N_FREE, N_VIRTUAL = 4, 5
N_PARENT = 6  # parent node, -1 at the root
N_KEY, N_PPOS = 7, 8  # key length; plan offset of its positions in the parent's record
N_SHORT = 9  # 1 if rows have no word 0; the root's rows then have no group either
N_VPOS = 10  # positions of a virtual parent's attributes in this node's record
N_CARRIED = 11  # word carried in the children list, counted from the row, or PLAIN, or COUNTED
N_ROWS, N_EDGE = 12, 13  # header words of the counters of the node, of the edge above it
N_PROGRAM = 14  # program of the delta enumeration with this node as witness
N_INNER = 15  # 1 if some child is free, so that liveness propagates through this node
N_LOOKUPS = 16  # plan offset of the numbers of look-ups: of its own group, then of those of its children
N_EXTRA = 17  # payload words of the groups above the node; 0 in plain plans
N_PAYLOAD = 18  # plan offset of the payload descriptor; 0 in plain plans, for filters, and for free rows with value 1
N_SELF = 19  # word with the row's own handle, from the row, of a free node that weighs; else 0
N_INDEX = 20  # plan offset of the descriptor of the index of the edge above
N_SHIFT = 21  # words from a bundle of that index to the group of this edge
N_PADDED = 22  # 1 if a row of NULLs replaces missing rows
N_REFERENCES = 23  # half word of the references in the groups above the node

# Words of the descriptor of an index.
I_TABLE, I_KEY = 0, 1  # header words of the table; words of a key
I_WORDS = 2  # words of a bundle
I_GROUPS, I_GROUP0 = 3, 4  # number of its groups; plan offset of the first
GROUP = 2  # words of a group of an index
GROUP_SHIFT, GROUP_REFERENCES = 0, 1  # offset from the bundle; half word of the references

# Words of a payload descriptor: of a bound node's payload, or of the factors by which a free node's rows multiply a
# result. Parts with one limb come first, then those with two, then the others.
Y_WORDS = 0  # words of all parts
Y_ONES, Y_PAIRS, Y_OTHERS = 1, 2, 3  # number of parts with 1 limb, 2, more
Y_WEIGHED = 4  # 1 if the weight of a row is its number of copies; 0 if it is 1
Y_COLUMN = 5  # of a free node: the column of the handles of its rows
Y_ABOVE = 6  # of a bound node: the number of its edge among the links of its parent
Y_LINKS, Y_LINK0 = 7, 8  # bound children with payloads: their number; plan offset of (link, key words) pairs
Y_PARTS = 9  # plan offset of the parts
Y_DOUBLES = 10  # number of parts that are products of doubles
# A part: first word, limbs, number of factors, plan offset of (word from the row, kind of factor) pairs; the number of
# doubles in its product, the number of these that belong to free nodes before this one, and the position of its far
# part in the scratch array; then, per link, first word, limbs and doubles of the child's part that is a factor. A part
# of doubles has a word after its limbs: the handle of its far part (in the scratch array 1), or 0.
Z_WORD, Z_LIMBS, Z_FACTORS, Z_FACTOR0, Z_DOUBLES, Z_BEFORE, Z_FAR, Z_LINKS = 0, 1, 2, 3, 4, 5, 6, 7
Z_LINK = 3  # words per link
# Kinds of factors of a word: an integer, a double in fixed point, or 1 if a condition holds (see ``plans.payloads``).
WORD, FLOAT, IS_VALID, IS_PLUS, IS_MINUS, IS_UP, IS_DOWN, IS_DOWN_FLOAT = 0, 1, 2, 3, 4, 5, 6, 7

# Words of a record descriptor in the plan array.
R_WIDTH, R_WORDS, R_TABLE = 0, 1, 2  # words of the tuple, of the record; header words of the table
R_ALIASES, R_NODES = 3, 4  # number of aliases; plan offset of their nodes
R_LOOKUPS, R_LOOKUP0 = 5, 6  # number of bundles in which a tuple has a group; plan offset of their look-ups
LOOKUP = 2  # words of a look-up
LOOKUP_INDEX, LOOKUP_POS = 0, 1  # plan offset of the index; plan offset of the key's positions in the record

# A program: the numbers of steps, leaves and fixed columns; plan offsets of the three lists and of a leaf below the
# last step (or 0); the number of fixed columns, the first ones, that come from the last step's row.
G_STEPS, G_LEAVES, G_FIXED, G_STEP0, G_LEAF0, G_FIX0, G_AHEAD, G_VARYING = 0, 1, 2, 3, 4, 5, 6, 7
STEP = 4  # words of a step
STEP_KIND, STEP_SOURCE, STEP_TARGET, STEP_CHILD = 0, 1, 2, 3  # which list, from node, to node, child index
LEAF = 8  # words of a leaf: those of a step, then
LEAF_CARRIED, LEAF_COLUMNS, LEAF_PAIRS = 4, 5, 6  # carried word or PLAIN; number, plan offset of (column, word) pairs
LEAF_BRANCH = 7  # of factorized rows: the branch of the leaf, or -1
FIX = 3  # words of a fixed column
FIX_COLUMN, FIX_NODE, FIX_WORD = 0, 1, 2  # word ``FIX_WORD`` of the node's current row
ROOT, UP, DOWN = 0, 1, 2

# The scratch array: the state that a suspended kernel needs to be resumed.
X_SP, X_I, X_RECORD, X_PHASE = 0, 1, 2, 3  # frames in use, batch position, record being changed, phase of that change
X_FILL, X_MODE = 4, 5
X_PROGRAM, X_DEPTH, X_AT, X_TOTAL, X_GAP = 6, 7, 8, 9, 10  # enumeration
X_LFRAMES, X_CUR = 11, 12  # positions of the live frames and of the current rows
X_CAPACITY = 13  # rows that the output buffer holds
X_RING, X_STRIDE = 14, 15  # position of the tags of the rows ahead; words per row
X_READY = 16  # rows of the batch that have their tags
X_ALIAS = 17  # alias to be processed next
X_CHANGE = 18  # change of the weight of a tuple
X_WITNESS, X_WEIGHT = 19, 20  # of the running enumeration: node of the witness or -1, weight of its row
X_LINK, X_DELTA = 21, 22  # and a link of the witness or -1, the payload that replaces the one there
X_EDGE, X_PARENT = 23, 24  # publication: edge, position in the parents
X_VALUE, X_PRODUCT = 25, 26  # position of the value being calculated, and room for three of its largest integers
X_FACTORED = 27  # 1 if results are written as factorized rows
X_LISTS = 28  # per branch: entries written so far, and entries of the current row
X_FOUND = 29  # bundles that have been looked up for the current tuple, and for a virtual row
X_FAR, X_WIDE = 30, 31  # position of the far parts being calculated, and room for three of the largest
X_LENDS = 32  # 1 if results get the handles of far parts, as loans (``H_LOANS``)
X_AREAS = 33
IDLE, TURN, WALKING = 0, 1, 2  # phases of a change: none, an alias is next, an alias is being walked
RING = 16  # rows whose tags are kept; there is room for one more
FRAME = 4  # words of a frame of the walk
F_ROW, F_NODE, F_POSITION, F_PHASE = 0, 1, 2, 3  # position: in the parents list that P-UPDATE scans
LFRAME = 4  # words of a live frame
LF_ROW, LF_NODE, LF_CHILD, LF_POSITION = 0, 1, 2, 3  # child whose group is visited; position among its children or -1
OPEN = 4  # words of an open list: of a step or a leaf of the enumeration
O_AT, O_LENGTH, O_BASE, O_REPEAT = 0, 1, 2, 0  # position (of a step) or repeat (of a leaf); first handle or value
O_WORDS = 3  # of a leaf whose list carries values: 1 if they are words, 0 if half words

MODE_VIEWS, MODE_LIVE, MODE_DELTAS = 0, 1, 2


def new_scratch(nodes: int, payload: int = 0, limbs: int = 0, far: int = 0, wide: int = 0) -> np.ndarray:
    """Returns a scratch array (int64) for ``nodes`` nodes: frames, live frames, current rows, steps, leaves, tags.

    ``payload``: words of the plan's largest payload. ``limbs``: limbs of its largest integer. ``far``: maximum total
    limbs of the far parts of a payload. ``wide``: limbs of the largest far part.
    """
    current, steps, leaves = nodes, OPEN * nodes, OPEN * nodes
    ring = X_AREAS + (FRAME + LFRAME) * (nodes + 1) + current + steps + leaves
    lookups = 2 * nodes  # of a record, at most: two per node, for its group and for its parent's link to it
    stride = 1 + lookups  # tags: of the record, of each look-up
    found = ring + 2 * (RING + 1) * stride  # for each tag, the slot in which it was found last
    value = found + 2 * lookups
    parts = value + payload + 3 * limbs
    lists = parts + far + 3 * wide
    scratch = np.zeros(lists + 2 * nodes, np.int64)
    scratch[X_FOUND] = found
    scratch[X_LISTS] = lists
    scratch[X_VALUE] = value
    scratch[X_PRODUCT] = value + payload
    scratch[X_FAR], scratch[X_WIDE] = parts, parts + far
    scratch[X_RING] = ring
    scratch[X_STRIDE] = stride
    scratch[X_LFRAMES] = X_AREAS + FRAME * (nodes + 1)
    scratch[X_CUR] = scratch[X_LFRAMES] + LFRAME * (nodes + 1)
    return scratch
