"""The layout of the arena: the only file with the offsets of the words of a record, a row, a group or a list.

**Record**: a tuple of a source with ``a`` words, and one row per alias that reads the source::

    0 .. a-1   the values (int64 codes)
    a ..       the rows of its aliases: the root's first, then those of nodes with children

**Row** of a node with children ``0..n-1``. Its handle is that of its own first word, ``N_OFFSET`` words from the
record's beginning, after the values::

    0      low: copies of the tuple (in the record's first row); in payload plans its weight
    1      low: group of the edge to the parent    high: its *place*
    2+j    low: group of the edge to child j       high: position in that group's parents

A word with a group and a position in one of its lists is a *link*. The place of a row in V_s is its position among the
children of its group. Outside V_s the place is ``-1 - count``, where count is the number of its nonempty child groups;
in V_s all of them are nonempty. An alias that does not read the tuple has the place ``UNREAD``. A row of a virtual node
is a separate record. In payload plans word 0 of every row has the *weight* for which the row has been accounted: while
the copies of a tuple change, its aliases are updated one after the other. Some rows of free nodes end with one more
word, their own handle, so that an enumeration writes it like a value.

In plans without payload a row is *short*, without word 0, unless it is the record's first row. The root's row is also
short if its tuple has words: its group is known, so the copies are stored in word 1 in place of the group. The handle
of a short row is the word before it, which is a value or belongs to another row.

**Bundle** of a key of ``k`` attributes, the only index: the groups of all edges that share it::

    0 .. k-1   the key
    k ..       group of the first edge, of the second, ...

**Group** of an edge (3 or 4 words, and its payload). Its handle is ``k`` words before them, as if each had the key::

    k       low: children list    high: its length (count[k] of S-UPDATE; the key is in V_p iff > 0)
    k+1     low: parents list     high: its length (rows of R_p with that key, live ones first)
    k+2     low: live parents     high: room of the children list (8 bits), of the parents list (8 bits)
    k+3     above a free node with children, low: references (rows of R_c with that key, in V_s or not)
    k+3 ..  in payload plans, above a bound node: the payload published to its parents (``Pub``, some words); then
            a word, low: the entry with the unpublished change (0 if there is none)

The rows of a leaf are all in V_s, so its references are the length of the children list. Above a bound node with
children, the children are only counted, and the references are stored in place of the children list.

**List**: a *field*, a word as above (low: its block, high: its length), and its *room*: the log2 of its capacity, and
``WIDE``. A list with room for 1 is stored in its own field; a longer one is a block of int32 row handles. The children
list of a free leaf with one non-key attribute *carries* a copy of that attribute, before the handles, so that the
innermost loop of an enumeration is a copy. It carries int32, or int64 if it is wide. The root's edge has one group,
without key, with one live parent that does not exist.

**Table numbers**: the rows of node i (a source's records, if i is the first alias), then the groups above node i, then
the dictionary. Kernels inline these functions, so they cost nothing.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.jit import device
from crown.kernels.memory.arena import ONE, PLAIN, T_TALLIES, at32, hi, lo, set_hi, set_lo

_GROUP = 3  # words of a group without its key, its references and its payload
OWN_LINK = ONE  # the link of a row to its own group
UNREAD = np.int64(-(2**31))  # the place of a row whose alias does not read the tuple
CHILDREN, PARENTS = np.int64(0), np.int64(1)  # lists of a group
WIDE = 128  # bit of a list's room: its carried values are words, not half words
# The half word of a group's references, from its first word: above a leaf, above a bound node with children, otherwise.
IN_LENGTH, IN_FIELD, IN_WORD = 1, 0, 6

# Records
# ----------------------------------------------------------------------------------------------------------------------


@device
def copies(halves, record, width):
    """Returns the copies of the record's tuple of ``width`` words."""
    return lo(halves, record + width)


@device
def set_copies(halves, record, width, n):
    """Writes the copies of the record's tuple."""
    set_lo(halves, record + width, n)


@device
def counted_words(width):
    """Returns the words of a record that has a tuple and a counter."""
    return width + 1


@device
def counter_of(record, width):
    """Returns the counter word of such a record."""
    return record + width


# Rows
# ----------------------------------------------------------------------------------------------------------------------


@device
def row_words(children):
    """Returns the words of a row of a node with ``children`` children."""
    return 2 + children


@device
def row_weight(halves, row):
    """Returns the weight for which the row has been accounted, in payload plans."""
    return lo(halves, row)


@device
def set_row_weight(halves, row, weight):
    """Writes the weight of a row. In a record's first row it is the number of copies."""
    set_lo(halves, row, weight)


@device
def row_group(halves, row):
    """Returns the group of a row, which is not the root's, as a child."""
    return lo(halves, row + OWN_LINK)


@device
def set_row_group(halves, row, g):
    """Writes the group of a row as a child."""
    set_lo(halves, row + OWN_LINK, g)


@device
def row_place(halves, row):
    """Returns the place of the row: in V_s its position among the children of its group, otherwise below 0."""
    return hi(halves, row + OWN_LINK)


@device
def set_row_place(halves, row, place):
    """Writes the place of the row."""
    set_hi(halves, row + OWN_LINK, place)


@device
def place_outside(count):
    """Returns the place of a row outside V_s of which ``count`` children have the key in V_p: count[t] of R-UPDATE."""
    return -1 - count


@device
def place_after(children):
    """Returns the place of a row that has left V_s: one of its ``children`` children has lost its key, or the row is
    deleted."""
    return min(-children, -1)


@device
def counted(place, change):
    """Returns the place of a row outside V_s after ``change`` more children have its key."""
    return place - change


@device
def link_of(j):
    """Returns the link, a word of the row, to the group of its child ``j``, in which the row is a parent."""
    return 2 + j


@device
def linked_group(halves, row, link):
    """Returns the group of a link of the row."""
    return lo(halves, row + link)


@device
def set_linked_group(halves, row, link, g):
    """Writes the group of a link of the row."""
    set_lo(halves, row + link, g)


@device
def linked_position(halves, row, link):
    """Returns the position of the row in the list of a link."""
    return hi(halves, row + link)


@device
def set_linked_position(halves, row, link, at):
    """Writes the position of the row in the list of a link."""
    set_hi(halves, row + link, at)


# Groups; k: words of the key
# ----------------------------------------------------------------------------------------------------------------------


@device
def group_words(extra, references):
    """Returns the words of a group, including ``extra`` words for a payload. ``references``: where its references
    are."""
    return _GROUP + extra + (references == IN_WORD)


@device
def payload_words(words):
    """Returns the words that a group needs for a payload of ``words`` words."""
    return words + 1


@device
def published(g, k):
    """Returns the first word of a group's published payload."""
    return g + k + _GROUP


@device
def entry_field(g, k, words):
    """Returns the word whose low half is a group's entry of changes, for a payload of ``words`` words."""
    return g + k + _GROUP + words


@device
def last_group_word(g, k):
    """Returns the last word of a group that an update reads or writes, apart from its references and its payload."""
    return g + k + _GROUP - 1


@device
def group_number(g):
    """Returns a unique number of the group, below ``group_numbers`` of the arena's words: handles are that far
    apart."""
    return g // _GROUP


def group_numbers(words: int) -> int:
    """Returns an upper bound of the numbers of groups in the first ``words`` words of an arena."""
    return words // _GROUP + 1


@device
def children_field(g, k):
    """Returns the field of the group's children list, which has its rows of V_s."""
    return g + k


@device
def parents_field(g, k):
    """Returns the field of the group's parents list."""
    return g + k + 1


@device
def children_count(halves, g, k):
    """Returns count[k] of S-UPDATE: the number of the group's rows in V_s. Its key is in V_p iff it is positive."""
    return list_length(halves, children_field(g, k))


@device
def parents_count(halves, g, k):
    """Returns the number of rows of the parent's relation with the group's key."""
    return list_length(halves, parents_field(g, k))


@device
def live_parents(halves, g, k):
    """Returns the number of the group's live parents, which are the first ones."""
    return lo(halves, g + k + 2)


@device
def set_live_parents(halves, g, k, n):
    """Writes the number of the group's live parents."""
    set_lo(halves, g + k + 2, n)


@device
def references(halves, g, k, where):
    """Returns the number of rows of the child's relation with the group's key, in V_s or not. ``where``: an IN_
    constant."""
    return at32(halves, 2 * (g + k) + where)


@device
def change_references(halves, g, k, where, change):
    """Changes the number of rows of the child's relation with the group's key. Above a leaf, the list length is that
    number."""
    if where != IN_LENGTH:
        halves[2 * (g + k) + where] += change


# Lists
# ----------------------------------------------------------------------------------------------------------------------


@device
def list_length(halves, field):
    """Returns the number of entries of the list with field ``field``."""
    return hi(halves, field)


@device
def set_list_length(halves, field, n):
    """Writes the number of entries."""
    set_hi(halves, field, n)


@device
def list_block(halves, field):
    """Returns the block of the list with field ``field``, or its only row if it has room for 1."""
    return lo(halves, field)


@device
def set_list_block(halves, field, block):
    """Writes the block of a list."""
    set_lo(halves, field, block)


@device
def list_room(halves, field, side):
    """Returns the room of the list with field ``field``. ``side``: CHILDREN or PARENTS of its group."""
    return hi(halves, field + 2 - side) >> 8 * side & 255


@device
def set_list_room(halves, field, side, room):
    """Writes the room of a list."""
    word = field + 2 - side
    set_hi(halves, word, hi(halves, word) & ~(255 << 8 * side) | room << 8 * side)


@device
def room_log(room):
    """Returns the log2 of the capacity of a list."""
    return room & (WIDE - 1)


@device
def list_words(room, carried):
    """Returns the words of the block of a list with room for more than 1."""
    entries = 1 << room_log(room)
    if carried == PLAIN:
        return entries >> 1
    if room & WIDE:
        return entries + (entries >> 1)
    return entries


@device
def block_handles(block, room, carried):
    """Returns the half word of the first handle in the block of a list, after carried values."""
    at = 2 * block
    if carried != PLAIN:
        at += 1 << room_log(room)
        if room & WIDE:
            at += 1 << room_log(room)
    return at


@device
def list_base(halves, field, side, carried):
    """Returns the half word of the first handle of the list with field ``field``. ``side``: CHILDREN or PARENTS of its
    group.

    ``carried``: the offset from a row of the word whose value the list carries, or PLAIN.
    """
    room = list_room(halves, field, side)
    if room == 0:
        return 2 * field
    return block_handles(list_block(halves, field), room, carried)


@device
def children_base(halves, g, k, carried):
    """Returns the half word of the first handle of the group's children list."""
    return list_base(halves, children_field(g, k), CHILDREN, carried)


@device
def parents_base(halves, g, k):
    """Returns the half word of the first handle of the group's parents list."""
    return list_base(halves, parents_field(g, k), PARENTS, PLAIN)


@device
def carries_words(halves, field, side):
    """Returns True if the carried values of a list are words: if it is wide, or if its only value is in its row."""
    room = list_room(halves, field, side)
    return room == 0 or room & WIDE != 0


@device
def carried_base(halves, field, side, carried):
    """Returns the index of the first carried value of a list, or of the value in its only row: a word index if the
    values are words, otherwise a half word index."""
    base = list_block(halves, field)
    room = list_room(halves, field, side)
    if room == 0:
        return base + carried
    if room & WIDE:
        return base
    return 2 * base


# Tables
# ----------------------------------------------------------------------------------------------------------------------


def rows_table(node: int) -> int:
    """Returns the number of the table of the records whose first alias is ``node``."""
    return node


def groups_table(nodes: int, node: int) -> int:
    """Returns the number of the table of the groups above a node, in a plan of ``nodes`` nodes."""
    return nodes + node


def dictionary_table(nodes: int) -> int:
    """Returns the number of the dictionary's table in a plan of ``nodes`` nodes."""
    return 2 * nodes


def table_total(nodes: int) -> int:
    """Returns the number of tables of the state of a plan of ``nodes`` nodes."""
    return 2 * nodes + 1


T_ROWS = T_TALLIES + 2  # of a rows table: number of rows of the node
T_ENTRIES = T_PADDING = T_TALLIES + 1  # of a groups table: the edge's first entry; above a padded node its padding
T_TOUCHED = T_TALLIES + 2  # of a groups table: parent rows that publications of the edge have read
