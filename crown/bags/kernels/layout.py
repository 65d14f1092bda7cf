"""Where things lie in the state of a generic bag, and the words of its plan array and of its cursor.

Lists are those of ``geometry``. Records, in words:

| record | words |
|---|---|
| row | values, multiplicity (a counted tuple) |
| prefix | bound attributes B, list of pairs, its room, as of a group's parents |
| pair | B, v, rows, position in the prefix's list (high half) |
| output | values, number of results (a counted tuple) |

The plan array: header, atoms (ATOM words each), and what they point to. An index is (words of B, columns of B and v
in the atom, prefix table, pair table); a step is (attribute, number of parts, where they are); a part is (index,
attributes of B and v); a check is (row table, width, attributes).
"""

from __future__ import annotations

from crown.kernels.arena import at32
from crown.kernels.geometry import PARENTS, carried_base, carries_words
from crown.kernels.jit import device

P_ATTRS, P_OUTS, P_OUTS_AT, P_COUNTED, P_OUT_TABLE, P_IDENTITY, P_ATOMS = 0, 1, 2, 3, 4, 5, 6
ATOM = 9
A_WIDTH, A_ROWS, A_ATTRS, A_INDICES, A_INDEX_AT, A_CHECKS, A_CHECK_AT, A_STEPS, A_STEP_AT = range(9)
I_WIDTH, I_COLUMNS, I_PREFIX, I_PAIR = range(4)
STEP_WORDS = 3
STEP_ATTRIBUTE, STEP_PARTS, STEP_PART_AT = range(3)
PART_WORDS = 2
PART_INDEX, PART_ATTRIBUTES = range(2)
CHECK_WORDS = 3
CHECK_TABLE, CHECK_WIDTH, CHECK_ATTRIBUTES = range(3)

# The cursor, zero at the start of a batch: row, phase, depth, 1 if over budget, then a level per depth.
C_ROW, C_PHASE, C_DEPTH, C_OVER, C_STACK = 0, 1, 2, 3, 4
LEVEL = 3
V_PREFIX, V_POSITION, V_PART = range(3)  # the list that is walked (0: none is open), how far, whose it is

PAIRS = PARENTS  # which list of a group the list of pairs is like: its room is in the word after its field

# Record handles + words; k: words of B.


@device
def pair_words(k):
    """Returns words of a pair."""
    return k + 3


@device
def pair_rows(pair, k):
    """Returns word with the number of rows that a pair stands for."""
    return pair + k + 1


@device
def value_word(k):
    """Returns where the value v is, counted from its pair; the list of pairs carries it."""
    return k


@device
def pair_link(k):
    """Returns where the position of a pair in its prefix's list is, counted from the pair."""
    return k + 2


@device
def prefix_words(k):
    """Returns words of a prefix."""
    return k + 2


@device
def pairs_field(prefix, k):
    """Returns the field of the prefix's list of pairs."""
    return prefix + k


@device
def value_at(arena, halves, field, k, i):
    """Returns the value of pair number ``i`` in the list with that field."""
    at = carried_base(halves, field, PAIRS, value_word(k)) + i
    if carries_words(halves, field, PAIRS):
        return arena[at]
    return at32(halves, at)


def rows_table(atom: int) -> int:
    """Returns the number of the table with the rows of an atom."""
    return atom


def prefix_table(atoms: int, index: int) -> int:
    """Returns the number of the table with the prefixes of an index, in a bag of ``atoms`` atoms."""
    return atoms + 2 * index


def pair_table(atoms: int, index: int) -> int:
    """Returns the number of the table with the pairs of an index."""
    return atoms + 2 * index + 1


def output_table(atoms: int, indices: int) -> int:
    """Returns the number of the table with the outputs, in a bag of ``indices`` indices."""
    return atoms + 2 * indices


def table_total(atoms: int, indices: int) -> int:
    """Returns how many tables the state of a bag has."""
    return atoms + 2 * indices + 1
