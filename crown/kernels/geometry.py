"""Where things lie in the arena: the only file that knows an offset into a record, a row, a group or a list.

**Record**: a tuple of a source with ``a`` words, and a row per alias that reads it::

    0 .. a-1   the values (int64 codes)
    a ..       the rows of its aliases: the root's first, then those of nodes with children

**Row** of a node with children ``0..n-1``. Its handle is that of its own first word; the values lie before it,
``N_OFFSET`` words from the record's beginning::

    0          low: copies of the tuple (in the record's first row); in payload plans its weight
    1          low: group of the edge to the parent    high: its *place*
    2+j        low: group of the edge to child j       high: position in that group's parents

A word with a group and a position in one of its lists is a *link*. The place of a row of V_s is its position in the
children of its group. Outside V_s it is ``-1 - count``, where count is the number of its child groups that are not
empty; in V_s that is all of them. An alias that does not read the tuple has the place ``UNREAD``. A row of a virtual
node is a record of its own. In payload plans every row has in word 0 the *weight* with which it has been accounted:
while the copies of a tuple change, its aliases follow one after the other. Some rows of free nodes have one more word
there, their own handle: so an enumeration writes it like a value.

A row is *short* if it has no word 0, in plans without payload: all but the record's first, and the root's, whose group
is known. The copies then are where that would be. Its handle is the word before, another row's or a value's.

**Bundle** of a key of ``k`` attributes, the only index there is: the groups of all edges that share it::

    0 .. k-1   the key
    k ..       group of the first edge, of the second, ...

**Group** of an edge (3 or 4 words, and its payload). Its handle lies ``k`` words before them, as if each had the key::

    k          low: children list    high: its length (count[k] of S-UPDATE; the key is in V_p iff > 0)
    k+1        low: parents list     high: its length (rows of R_p with that key, live ones first)
    k+2        low: live parents     high: room of the children list (8 bits), of the parents list (8 bits)
    k+3        above a free node with children, low: references (rows of R_c with that key, in V_s or not)
    k+3 ..     in payload plans, above a bound node: what its parents have been told (``Pub``, some words), and after it
               a word, low: the entry with what they have not (0 if there is none)

The rows of a leaf are all in V_s: the references are the length of the children list. Above a bound node with children
they are where the children list would be: it is only counted.

**List**: a *field*, a word as above (low: where it is, high: its length), and its *room*: the log2 of the entries that
it has room for, and ``WIDE``. A list with room for 1 is its own field; a longer one is a block of int32 row handles.
The children list of a free leaf with one non-key attribute *carries* a copy of that attribute, before the handles, so
that the innermost loop of an enumeration is a copy. It carries int32, or if it is wide int64. The root's edge has one
group, without key, with one live parent that is not there.

**Table numbers**: the rows of node i (a source's records, if it is the first alias), then the groups above node i, then
the dictionary. Kernels pay nothing for these functions: they are inlined.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.arena import ONE, PLAIN, T_TALLIES, at32, hi, lo, set_hi, set_lo
from crown.kernels.jit import device

_GROUP = 3  # words of a group besides its key, its references and its payload
OWN_LINK = ONE  # the link of a row to the group that it is a child in
UNREAD = np.int64(-(2**31))  # the place of the row of an alias that does not read the tuple
CHILDREN, PARENTS = np.int64(0), np.int64(1)  # lists of a group
WIDE = 128  # bit of a list's room: what it carries are words, and not half words
# Half words of a group, from its first, with its references: above a leaf, above a bound node with children, else.
IN_LENGTH, IN_FIELD, IN_WORD = 1, 0, 6

# Records
# ----------------------------------------------------------------------------------------------------------------------


@device
def copies(halves, record, width):
    """Returns how many copies of the record's tuple, of ``width`` words, there are."""
    return lo(halves, record + width)


@device
def set_copies(halves, record, width, n):
    """Writes how many copies of the record's tuple there are."""
    set_lo(halves, record + width, n)


@device
def counted_words(width):
    """Returns words of a record that is a tuple and a counter."""
    return width + 1


@device
def counter_of(record, width):
    """Returns the word in which such a record has its counter."""
    return record + width


# Rows
# ----------------------------------------------------------------------------------------------------------------------


@device
def row_words(children):
    """Returns words of a row of a node with that many children."""
    return 2 + children


@device
def row_weight(halves, row):
    """Returns the weight with which the row has been accounted, in payload plans."""
    return lo(halves, row)


@device
def set_row_weight(halves, row, weight):
    """Writes the weight. In a record's first row this is the number of copies."""
    set_lo(halves, row, weight)


@device
def row_group(halves, row):
    """Returns the group in which the row, which is not the root's, is a child."""
    return lo(halves, row + OWN_LINK)


@device
def set_row_group(halves, row, g):
    """Writes the group in which the row is a child."""
    set_lo(halves, row + OWN_LINK, g)


@device
def row_place(halves, row):
    """Returns the place of the row: in V_s its position among the children of its group, else below 0."""
    return hi(halves, row + OWN_LINK)


@device
def set_row_place(halves, row, place):
    """Writes the place of the row."""
    set_hi(halves, row + OWN_LINK, place)


@device
def place_outside(count):
    """Returns the place of a row outside V_s, whose key so many children have in V_p: count[t] of R-UPDATE."""
    return -1 - count


@device
def place_after(children):
    """Returns the place of a row that has left V_s: one of so many children has lost its key, or the row goes."""
    return min(-children, -1)


@device
def counted(place, change):
    """Returns the place of a row outside V_s, after so many more children have its key."""
    return place - change


@device
def link_of(j):
    """Returns the link of a row to the group of its child ``j``, where it is a parent: a word, from the row."""
    return 2 + j


@device
def linked_group(halves, row, link):
    """Returns the group that a link of the row names."""
    return lo(halves, row + link)


@device
def set_linked_group(halves, row, link, g):
    """Writes the group that a link of the row names."""
    set_lo(halves, row + link, g)


@device
def linked_position(halves, row, link):
    """Returns the position of the row in the list that a link is for."""
    return hi(halves, row + link)


@device
def set_linked_position(halves, row, link, at):
    """Writes the position of the row in the list that a link is for."""
    set_hi(halves, row + link, at)


# Groups; k: words of the key
# ----------------------------------------------------------------------------------------------------------------------


@device
def group_words(extra, references):
    """Returns the words of a group, ``extra`` of them for a payload; ``references``: where they are."""
    return _GROUP + extra + (references == IN_WORD)


@device
def payload_words(words):
    """Returns the words that a group needs for a payload of that many words."""
    return words + 1


@device
def published(g, k):
    """Returns the first word of a group's payload, as its parents have been told."""
    return g + k + _GROUP


@device
def entry_field(g, k, words):
    """Returns the word in whose low half a group has the entry of its changes, of a payload of that many words."""
    return g + k + _GROUP + words


@device
def last_group_word(g, k):
    """Returns the last word of a group that an update reads or writes, its references and its payload left out."""
    return g + k + _GROUP - 1


@device
def group_number(g):
    """Returns a number that no other group has, below ``group_numbers`` of the words: handles lie that far apart."""
    return g // _GROUP


def group_numbers(words: int) -> int:
    """Returns how many numbers groups in the first ``words`` words of an arena can have."""
    return words // _GROUP + 1


@device
def children_field(g, k):
    """Returns the field of the group's children list: its rows of V_s."""
    return g + k


@device
def parents_field(g, k):
    """Returns the field of the group's parents list."""
    return g + k + 1


@device
def children_count(halves, g, k):
    """Returns count[k] of S-UPDATE: the group's rows in V_s. Its key is in V_p iff there are any."""
    return list_length(halves, children_field(g, k))


@device
def parents_count(halves, g, k):
    """Returns the rows of the parent's relation with the group's key."""
    return list_length(halves, parents_field(g, k))


@device
def live_parents(halves, g, k):
    """Returns how many of the group's parents are live; they are the first ones."""
    return lo(halves, g + k + 2)


@device
def set_live_parents(halves, g, k, n):
    """Writes how many of the group's parents are live."""
    set_lo(halves, g + k + 2, n)


@device
def references(halves, g, k, where):
    """Returns the rows of the child's relation with the group's key, in V_s or not; ``where``: see the IN_ above."""
    return at32(halves, 2 * (g + k) + where)


@device
def change_references(halves, g, k, where, change):
    """Changes the number of rows of the child's relation that have the group's key; above a leaf it changes itself."""
    if where != IN_LENGTH:
        halves[2 * (g + k) + where] += change


# Lists
# ----------------------------------------------------------------------------------------------------------------------


@device
def list_length(halves, field):
    """Returns the number of entries of the list with that field."""
    return hi(halves, field)


@device
def set_list_length(halves, field, n):
    """Writes the number of entries."""
    set_hi(halves, field, n)


@device
def list_block(halves, field):
    """Returns where the list with that field is: its block, or with capacity 1 its only row."""
    return lo(halves, field)


@device
def set_list_block(halves, field, block):
    """Writes where the list is."""
    set_lo(halves, field, block)


@device
def list_room(halves, field, side):
    """Returns the room of the list with that field, ``side`` CHILDREN or PARENTS of its group."""
    return hi(halves, field + 2 - side) >> 8 * side & 255


@device
def set_list_room(halves, field, side, room):
    """Writes the room of a list."""
    word = field + 2 - side
    set_hi(halves, word, hi(halves, word) & ~(255 << 8 * side) | room << 8 * side)


@device
def room_log(room):
    """Returns the log2 of the entries that there is room for."""
    return room & (WIDE - 1)


@device
def list_words(room, carried):
    """Returns words of the block of a list with room for more than 1."""
    entries = 1 << room_log(room)
    if carried == PLAIN:
        return entries >> 1
    if room & WIDE:
        return entries + (entries >> 1)
    return entries


@device
def block_handles(block, room, carried):
    """Returns the half word of the first handle in the block of a list, behind carried values."""
    at = 2 * block
    if carried != PLAIN:
        at += 1 << room_log(room)
        if room & WIDE:
            at += 1 << room_log(room)
    return at


@device
def list_base(halves, field, side, carried):
    """Returns the half word of the first handle of the list with that field, ``side`` CHILDREN or PARENTS of its group.

    ``carried``: the word, counted from a row, whose value the list carries, or PLAIN.
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
    """Returns whether the values that a list carries are words: if it is wide, or they are only in its row."""
    room = list_room(halves, field, side)
    return room == 0 or room & WIDE != 0


@device
def carried_base(halves, field, side, carried):
    """Returns the first value that a list carries, or has in its only row: a word, or if these are not words a half."""
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
    """Returns the number of the table with the records whose first alias is the node."""
    return node


def groups_table(nodes: int, node: int) -> int:
    """Returns the number of the table with the groups above a node, in a plan of ``nodes`` nodes."""
    return nodes + node


def dictionary_table(nodes: int) -> int:
    """Returns the number of the dictionary's table in a plan of ``nodes`` nodes."""
    return 2 * nodes


def table_total(nodes: int) -> int:
    """Returns how many tables the state of a plan of ``nodes`` nodes has."""
    return 2 * nodes + 1


T_ROWS = T_TALLIES + 2  # of a rows table: rows of the node
T_ENTRIES = T_PADDING = T_TALLIES + 1  # of a groups table: the edge's first entry; above a padded node its padding
T_TOUCHED = T_TALLIES + 2  # of a groups table: parent rows that publications of the edge have looked at
