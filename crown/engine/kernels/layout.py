"""Words of the plan array and of the scratch array. What lies in the arena: see ``geometry``.

**Plan array** (int64): ``ND`` words per node from ``P_NODES``, then record descriptors, position arrays and
enumeration programs. Positions of keys count from the record's first word, positions in programs from the row.
"""

from __future__ import annotations

import numpy as np

P_COUNT = 0  # number of nodes
P_FULL = 1  # program of the full enumeration
P_IDENTITY = 2  # plan offset of 0, 1, 2, ...
P_EDGES, P_EDGE0 = 3, 4  # of a payload plan: number of edges with payloads; plan offset of their nodes, deepest first
P_VALUE, P_COLUMN = 5, 6  # of a payload plan: payload descriptor and first column of a result's payload
P_WEIGHING, P_WEIGHING0 = 7, 8  # of a payload plan: number of free nodes whose rows weigh; plan offset of them
P_BRANCHES, P_BRANCH0 = 9, 10  # branches of factorized rows; plan offset of the branch of each free attribute, or -1
P_ENDS = 11  # first column with the ends of lists in factorized rows
P_NODES = 12

# Words of a node descriptor in the plan array.
ND = 24
N_RECORD = 0  # plan offset of the record descriptor
N_OFFSET = 1  # words from the record's first word to the row
N_CHILDREN, N_CHILD = 2, 3  # number of children; plan offset of the child nodes
N_FREE, N_VIRTUAL = 4, 5
N_PARENT = 6  # parent node, -1 at the root
N_KEY, N_PPOS = 7, 8  # key length; where it is in the parent's record
N_SHORT = 9  # 1 if rows have no word 0; those of the root then have no group either
N_VPOS = 10  # where a virtual parent's attributes are in this node's record
N_CARRIED = 11  # word carried in the children list, counted from the row, or PLAIN, or COUNTED
N_ROWS, N_EDGE = 12, 13  # header words: of the counters of the node, of the edge above it
N_PROGRAM = 14  # delta enumeration with this node as witness
N_INNER = 15  # 1 if some child is free: liveness must cascade through this node
N_LOOKUPS = 16  # plan offset of the numbers of look-ups: of the group of its own, of that of each child
N_EXTRA = 17  # words of the groups above the node that are for its payload: 0 in plain plans
N_PAYLOAD = 18  # plan offset of the payload descriptor; 0 in plain plans, of filters, of free rows that weigh 1
N_SELF = 19  # word with the row's own handle, counted from the row, of a free node whose rows weigh; else 0
N_INDEX = 20  # plan offset of the descriptor of the index that the edge above has
N_SHIFT = 21  # words from a bundle of that index to the group of this edge
N_PADDED = 22  # 1 if a row of NULLs stands for those that it lacks
N_REFERENCES = 23  # half word of the groups above the node in which their references are

# Words of the descriptor of an index.
I_TABLE, I_KEY = 0, 1  # header words of the table; words of a key
I_WORDS = 2  # words of a bundle
I_GROUPS, I_GROUP0 = 3, 4  # how many groups are in it; plan offset of the first of them
GROUP = 2  # words of a group of an index
GROUP_SHIFT, GROUP_REFERENCES = 0, 1  # where it is, from the bundle, and the half word of its references

# Words of a payload descriptor: of a bound node's payload, or of what a free node's rows multiply a result by. The
# parts are integers of one limb first, then those of two, then the others.
Y_WORDS = 0  # words of all parts
Y_ONES, Y_PAIRS, Y_OTHERS = 1, 2, 3  # how many parts have 1 limb, 2, more
Y_WEIGHED = 4  # 1 if the rows weigh as many as they have copies, else 1 each
Y_COLUMN = 5  # of a free node: the column with the handles of its rows
Y_ABOVE = 6  # of a bound node: the number of its edge among the links of its parent
Y_LINKS, Y_LINK0 = 7, 8  # bound children with payloads: how many; plan offset of (link, key words) pairs
Y_PARTS = 9  # plan offset of the parts
Y_DOUBLES = 10  # how many parts are products of doubles
# A part: first word, limbs, how many factors, plan offset of (word counted from the row, what of it) pairs; of how many
# doubles it is a product, how many of them are those of free nodes before this one, and where in the scratch array its
# far part is calculated; then per link first word, limbs and doubles of the child's part that it is multiplied by. One
# of doubles has a word behind its limbs: the handle of its far part (in the scratch array 1), or 0.
Z_WORD, Z_LIMBS, Z_FACTORS, Z_FACTOR0, Z_DOUBLES, Z_BEFORE, Z_FAR, Z_LINKS = 0, 1, 2, 3, 4, 5, 6, 7
Z_LINK = 3  # words per link
# What of a word is a factor: an integer, a double in fixed point, or 1 where something holds (see ``plans.payloads``).
WORD, FLOAT, IS_VALID, IS_PLUS, IS_MINUS, IS_UP, IS_DOWN, IS_DOWN_FLOAT = 0, 1, 2, 3, 4, 5, 6, 7

# Words of a record descriptor in the plan array.
R_WIDTH, R_WORDS, R_TABLE = 0, 1, 2  # words of the tuple, of the record; header words of the table
R_ALIASES, R_NODES = 3, 4  # number of aliases; plan offset of their nodes
R_LOOKUPS, R_LOOKUP0 = 5, 6  # how many bundles a tuple has a group in; plan offset of how each is looked up
LOOKUP = 2  # words of a look-up
LOOKUP_INDEX, LOOKUP_POS = 0, 1  # plan offset of the index, of where the key is in the record

# A program: how many steps, leaves and fixed columns; plan offsets of the three lists and of a leaf that hangs on the
# last step (or 0); how many of the fixed columns, the first ones, come from the last step's row.
G_STEPS, G_LEAVES, G_FIXED, G_STEP0, G_LEAF0, G_FIX0, G_AHEAD, G_VARYING = 0, 1, 2, 3, 4, 5, 6, 7
STEP = 4  # words of a step
STEP_KIND, STEP_SOURCE, STEP_TARGET, STEP_CHILD = 0, 1, 2, 3  # which list, from node, to node, child index
LEAF = 8  # words of a leaf: those of a step, then
LEAF_CARRIED, LEAF_COLUMNS, LEAF_PAIRS = 4, 5, 6  # carried word or PLAIN; number, plan offset of (column, word) pairs
LEAF_BRANCH = 7  # of factorized rows: the branch that the leaf is, or -1
FIX = 3  # words of a fixed column
FIX_COLUMN, FIX_NODE, FIX_WORD = 0, 1, 2  # word ``FIX_WORD`` of the node's current row
ROOT, UP, DOWN = 0, 1, 2

# The scratch array: everything that a suspended kernel needs to be resumed.
X_SP, X_I, X_RECORD, X_PHASE = 0, 1, 2, 3  # frames in use, batch position, record being changed, phase of that change
X_FILL, X_MODE = 4, 5
X_PROGRAM, X_DEPTH, X_AT, X_TOTAL, X_GAP = 6, 7, 8, 9, 10  # enumeration
X_LFRAMES, X_CUR = 11, 12  # where the live frames and the current rows start
X_CAPACITY = 13  # rows that the output buffer holds
X_RING, X_STRIDE = 14, 15  # tags of the rows ahead: where they are, words per row
X_READY = 16  # rows of the batch that have their tags
X_ALIAS = 17  # alias whose turn it is
X_CHANGE = 18  # by how much the weight of a tuple changes
X_WITNESS, X_WEIGHT = 19, 20  # of the enumeration that is running: node of the witness or -1, what its row weighs
X_LINK, X_DELTA = 21, 22  # and a link of the witness or -1, where what takes the place of the payload there is
X_EDGE, X_PARENT = 23, 24  # publication: edge, position in the parents
X_VALUE, X_PRODUCT = 25, 26  # where a payload is calculated, and room for three of its largest integers
X_FACTORED = 27  # 1 if results leave as factorized rows
X_LISTS = 28  # where entries written, and entries of the row at hand, stand per branch
X_FOUND = 29  # where the bundles are that have been looked up for the tuple at hand, and for a virtual row
X_FAR, X_WIDE = 30, 31  # where far parts are calculated, and room for three of the largest
X_LENDS = 32  # 1 if results are given the handles of far parts, which is a loan (``H_LOANS``)
X_AREAS = 33
RING = 16  # rows whose tags are kept; one more to spare
FRAME = 4  # words of a frame of the walk
F_ROW, F_NODE, F_POSITION, F_PHASE = 0, 1, 2, 3  # position: in the parents list that P-UPDATE goes through
LFRAME = 4  # words of a live frame
LF_ROW, LF_NODE, LF_CHILD, LF_POSITION = 0, 1, 2, 3  # child whose group it is at, position in its children or -1
OPEN = 4  # words of an opened list: of a step or a leaf of the enumeration
O_AT, O_LENGTH, O_BASE, O_REPEAT = 0, 1, 2, 0  # position (of a step) or repeat (of a leaf); first handle or value
O_WORDS = 3  # of a leaf whose list carries values: 1 if they are words, 0 if half words

MODE_VIEWS, MODE_LIVE, MODE_DELTAS = 0, 1, 2


def new_scratch(nodes: int, payload: int = 0, limbs: int = 0, far: int = 0, wide: int = 0) -> np.ndarray:
    """Returns a scratch array (int64) for ``nodes`` nodes: frames, live frames, current rows, steps, leaves, tags.

    ``payload``: words of the plan's largest payload; ``limbs``: of the largest integer in it. ``far``: limbs of all far
    parts of a payload, at most; ``wide``: of the largest far part.
    """
    current, steps, leaves = nodes, OPEN * nodes, OPEN * nodes
    ring = X_AREAS + (FRAME + LFRAME) * (nodes + 1) + current + steps + leaves
    lookups = 2 * nodes  # of a record, at most: two per node, of its group and of its parent's link to it
    stride = 1 + lookups  # tags: of the record, of each look-up
    found = ring + 2 * (RING + 1) * stride  # and for each tag the slot in which it was found last
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
