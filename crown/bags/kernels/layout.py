"""Where things lie in the state of a generic bag, and the words of its plan array and of its cursor.

The rows of an atom hang in a *trie* that shares its nodes: a node stands for the values of some columns of the atom, a
set of them, and has the rows with these values below it. An *edge* leads from the nodes of a set to those of the set
with one column more; the last set has all columns, and its nodes are the rows. Records, in words:

| record | words |
|---|---|
| row | values, multiplicity (a counted tuple), a link per edge that leads to rows |
| node | values of its set, in the order of the columns; a link per edge to it; a list per edge that leaves it |
| output | values, number of results (a counted tuple) |

A link (``geometry``) names the node that the record is below, and its place in that node's list. A list is like that of
a group's parents: its field, and a word with its room. It carries the value of the column that its edge adds.

The plan array: header, atoms (ATOM words each), and what they point to. A *set* is (table, columns, words of a record,
incoming edges, leaving edges, where its list of the first one is); its incoming edges follow, each (number of the set
it leaves, the link, the list's field in the node, the column's place in the record below). An atom's sets are in the
order of their size, its rows last. A *start* is where the search for an atom's rows begins: (set, attributes of its
columns, slot). A *step* binds an attribute: (attribute, number of parts, where they are); a *part* is an edge of an
atom: (slot of the node, list's field in it, column's place in the record below, set below, attributes of its columns,
slot of the record below). Slots are words of the cursor.
"""

from __future__ import annotations

from crown.kernels.arena import at32
from crown.kernels.geometry import PARENTS, carried_base, carries_words, counted_words, list_base
from crown.kernels.jit import device

P_ATTRS, P_OUTS, P_OUTS_AT, P_COUNTED, P_OUT_TABLE, P_IDENTITY, P_SLOTS, P_OWN, P_ATOMS = range(9)
ATOM = 9
A_WIDTH, A_ROWS, A_ATTRS, A_SETS, A_SET_AT, A_STARTS, A_START_AT, A_STEPS, A_STEP_AT = range(ATOM)
S_TABLE, S_WIDTH, S_COLUMNS, S_WORDS, S_EDGES, S_LIST, SET_WORDS = range(7)
E_ABOVE, E_LINK, E_FIELD, E_CARRIED, EDGE_WORDS = range(5)
START_SET, START_ATTRIBUTES, START_SLOT, START_WORDS = range(4)
STEP_ATTRIBUTE, STEP_PARTS, STEP_PART_AT, STEP_WORDS = range(4)
PART_SLOT, PART_FIELD, PART_CARRIED, PART_SET, PART_ATTRIBUTES, PART_BELOW, PART_WORDS = range(7)

# The cursor, zero at the start of a batch: row, phase, depth, 1 if over budget, then a level per depth; after those the
# slots (P_SLOTS), and the nodes of the row that is inserted or deleted, by the number of their set (P_OWN).
C_ROW, C_PHASE, C_DEPTH, C_OVER, C_STACK = range(5)
LEVEL = 3
V_FIELD, V_POSITION, V_PART = range(LEVEL)  # the list that is walked (0: none is open), how far, whose it is

BELOW = PARENTS  # which list of a group a list is like: its room is in the word after its field
LIST_WORDS = 2


def record_words(width: int, whole: bool, incoming: int, leaving: int) -> int:
    """Returns the words of a record with so many values, a row's if ``whole``."""
    return first_link(width, whole) + incoming + LIST_WORDS * leaving


def first_link(width: int, whole: bool) -> int:
    """Returns where the links of a record begin, behind its values, and a row's multiplicity."""
    return int(counted_words(width)) if whole else width


def list_at(width: int, incoming: int, number: int) -> int:
    """Returns where a node has the field of one of its lists."""
    return width + incoming + LIST_WORDS * number


@device
def value_at(arena, halves, field, carried, i):
    """Returns the value that entry ``i`` of a list carries; it is word ``carried`` of the record below."""
    at = carried_base(halves, field, BELOW, carried) + i
    if carries_words(halves, field, BELOW):
        return arena[at]
    return at32(halves, at)


@device
def record_at(halves, field, carried, i):
    """Returns the record of entry ``i`` of a list."""
    return at32(halves, list_base(halves, field, BELOW, carried) + i)


def set_table(first: int, number: int) -> int:
    """Returns the number of the table of an atom's set, whose ``first`` set has that table."""
    return first + number


def output_table(sets: int) -> int:
    """Returns the number of the table with the outputs, in a bag with so many sets."""
    return sets


def table_total(sets: int) -> int:
    """Returns how many tables the state of a bag has."""
    return sets + 1
