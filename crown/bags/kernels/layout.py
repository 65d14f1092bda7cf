"""The layout of the state of a generic bag, and the words of its plan array and of its cursor.

The rows of an atom are in a *trie* with shared nodes. A node represents the values of a set of columns of the atom, and
has the rows with these values below it. An *edge* leads from the nodes of a set to those of the set with one more
column. The last set has all columns, and its nodes are the rows. Records, in words:

| record | words |
|---|---|
| row | values, multiplicity (a counted tuple), a link per edge that leads to rows |
| node | values of its set, in the order of the columns; a link per edge to it; a list per edge that leaves it |
| output | values, number of results (a counted tuple) |

A link (``geometry``) identifies the parent node of a record, and its position in that node's list. A list has the
layout of a group's parents list: its field, and a word with its room. It carries the value of the column that its edge
adds.

The plan array: header, atoms (ATOM words each), and the lists that they reference. A *set* is (table, columns, words of
a record, incoming edges, leaving edges, offset of the list of its first leaving edge). Its incoming edges follow, each
(number of the parent set, the link, the list's field in the node, the column's position in the record below). An atom's
sets are in the order of their size, the set of its rows last. Its *copies* are where a search from it finds the rows of
the other atoms: (slot, offset of the multiplicity in the row). A *start* is where the search starts in an atom: (set,
attributes of its columns, slot). A *step* binds an attribute: (attribute, number of parts, offset of the parts). A
*part* is an edge of an atom: (slot of the node, list's field in it, column's position in the record below, set below,
attributes of its columns, slot of the record below). Slots are words of the cursor.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import at32
from crown.kernels.memory.geometry import PARENTS, carried_base, carries_words, counted_words, list_base

P_ATTRS, P_OUTS, P_OUTS_AT, P_COUNTED, P_WEIGHTED, P_OUT_TABLE, P_IDENTITY, P_SLOTS, P_OWN, P_ATOMS = range(10)
ATOM = 11
A_WIDTH, A_ROWS, A_ATTRS, A_SETS, A_SET_AT, A_STARTS, A_START_AT, A_STEPS, A_STEP_AT, A_COPIES, A_COPIES_AT = range(
    ATOM
)
S_TABLE, S_WIDTH, S_COLUMNS, S_WORDS, S_EDGES, S_LIST, SET_WORDS = range(7)
E_ABOVE, E_LINK, E_FIELD, E_CARRIED, EDGE_WORDS = range(5)
START_SET, START_ATTRIBUTES, START_SLOT, START_WORDS = range(4)
COPIES_SLOT, COPIES_AT, COPIES_WORDS = range(3)
STEP_ATTRIBUTE, STEP_PARTS, STEP_PART_AT, STEP_WORDS = range(4)
PART_SLOT, PART_FIELD, PART_CARRIED, PART_SET, PART_ATTRIBUTES, PART_BELOW, PART_WORDS = range(7)

# The cursor, zero at the start of a batch: row, phase, depth, 1 if over budget, the changed copies of the row, 1 if
# only some copies of a row were changed, then a level per depth. After the levels, the slots (P_SLOTS), and the nodes
# of the inserted or deleted row, by the number of their set (P_OWN).
C_ROW, C_PHASE, C_DEPTH, C_OVER, C_FACTOR, C_SOME, C_STACK = range(7)
LEVEL = 3
V_FIELD, V_POSITION, V_PART = range(LEVEL)  # the scanned list (0: none is open), the position in it, its part

BELOW = PARENTS  # the list of a group with the same layout: its room is in the word after its field
LIST_WORDS = 2


def record_words(width: int, whole: bool, incoming: int, leaving: int) -> int:
    """Returns the words of a record with ``width`` values; ``whole``: of a row."""
    return first_link(width, whole) + incoming + LIST_WORDS * leaving


def first_link(width: int, whole: bool) -> int:
    """Returns the offset of the first link of a record, after its values, and a row's multiplicity."""
    return int(counted_words(width)) if whole else width


def list_at(width: int, incoming: int, number: int) -> int:
    """Returns the offset of the field of a node's list."""
    return width + incoming + LIST_WORDS * number


@device
def value_at(arena, halves, field, carried, i):
    """Returns the value that entry ``i`` of a list carries, which is word ``carried`` of the record below."""
    at = carried_base(halves, field, BELOW, carried) + i
    if carries_words(halves, field, BELOW):
        return arena[at]
    return at32(halves, at)


@device
def record_at(halves, field, carried, i):
    """Returns the record of entry ``i`` of a list."""
    return at32(halves, list_base(halves, field, BELOW, carried) + i)


def set_table(first: int, number: int) -> int:
    """Returns the number of the table of an atom's set. ``first``: the table of its first set."""
    return first + number


def output_table(sets: int) -> int:
    """Returns the number of the table of the outputs, in a bag with ``sets`` sets."""
    return sets


def table_total(sets: int) -> int:
    """Returns the number of tables of the state of a bag."""
    return sets + 1
