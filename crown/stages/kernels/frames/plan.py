"""The plan of window functions that read frames: the words ``FRAME_COUNT`` ..., then those that they point to.

Functions with equal frames are next to each other. A bound is UNBOUNDED, a number of ROWS, the first or last of the
PEERS, or a distance of VALUES in the only column of the order, whose codes are ordered as its values are. A function
without a frame has the frame of all rows whose changes can change its value.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.numbers.limbs import plus, sum_leaves
from crown.kernels.strings import NULL
from crown.stages.kernels.groups.batch import COLUMN_WORDS
from crown.stages.kernels.trees.orders import BY_FLOAT

# Words of a plan.
(
    FRAME_COUNT,  # number of frames; 0 if no function reads one
    FRAMES_AT,  # offset of the frames
    FUNCTIONS_AT,  # offset of the functions
    SUM_WORDS,  # words of the sums of a row
    NUMBER_COUNT,  # numbers of these sums
    NUMBERS_AT,  # offset of two words per number: its first word, and its limbs, see ``trees.nodes``
    RECIPE_AT,  # offset of the recipe of the addends, see ``groups.sums``
    FAR,  # word that counts the rows with a far double, or -1
    OPENING,  # word that counts groups of peers, or sessions, or -1
    EXTREMA_COUNT,  # number of words whose maximum the tree stores
    EXTREMA_AT,  # offset of their extrema
    READ_COUNT,  # number of columns that are read
    READS_AT,  # offset of these
    PEER_COLUMNS,  # columns of the order that peers have in common; -1 if no value depends on peers
    BACK,  # rows that frames reach back, at most
    AHEAD,  # rows that they reach ahead, at most
    CHUNK,  # rows whose values are computed together, at most
    SPAN,  # rows that are read for them, at most
    MEASURES,  # 1 if some bound is a distance of values
    EACH_AT,  # offset of the numbers 0, 1, 2, ... of the columns
    SCRATCH,  # words of scratch for sums and quotients
    ROOM,  # words of memory that a call takes
    PLAN_WORDS,
) = range(23)
# Words of a frame.
START_UNIT, START, END_UNIT, END, FIRST_FUNCTION, END_FUNCTION, SUMMED, FLIPS_AT, FRAME_WORDS = range(9)
KEY = 1  # the word of the memory where a key begins; word 0 is the number of rows that have numbers there
UNBOUNDED, ROWS, PEERS, VALUES = 0, 1, 2, 3  # units of bounds
# Words of an extremum. Its keys are those of ``crown.stages.orders.extremum_keys``.
X_WORD, X_COLUMN, X_WHERE, X_ORDER, X_LEAST, EXTREMUM_WORDS = range(6)
# Words of a function, before those of an extremum (BEST), or of a column of groups (SUM, ``groups.batch``).
F_KIND, F_OUT, F_COUNT, F_MORE = range(4)
FUNCTION_WORDS = F_MORE + max(EXTREMUM_WORDS, COLUMN_WORDS)
(
    SUM,  # computed from sums
    BEST,  # MIN or MAX
    NUMBER,  # ROW_NUMBER
    RANK_OF_PEERS,  # RANK
    PART,  # NTILE
    SHARE_BEFORE,  # PERCENT_RANK
    SHARE_UP_TO,  # CUME_DIST
) = range(7)


@device
def extremum_key(code, order, least):
    """Returns the word of a value that MIN (``least`` 1) or MAX compares; 0 for NULL."""
    if code == NULL:
        return ZERO
    key = code
    if order == BY_FLOAT:
        key ^= (key >> 63) & ~NULL
    return (-key if least == 1 else key) ^ NULL


@device
def is_moved_out(code, offset, spec):
    """Returns True iff the value at distance ``offset`` in the first column of an order is out of range."""
    by = -offset if spec[2] == 1 else offset
    return code != NULL and (sum_leaves(code, by) or plus(code, by) == NULL)


@device
def moved_code(code, offset, spec):
    """Returns the value at distance ``offset`` in the first column of an order, or the last one in that direction. That
    of NULL is NULL."""
    by = -offset if spec[2] == 1 else offset
    if code == NULL:
        return ZERO + NULL
    if is_moved_out(code, offset, spec):
        return ~NULL if by > 0 else -~NULL
    return plus(code, by)
