"""Where things lie in the arena: the only file that knows an offset into a record, a row, a group or a list.

**Record**: a tuple of a source with ``a`` words, and a row per alias that reads it::

    0 .. a-1   the values (int64 codes)
    a ..       the rows of its aliases, those of nodes with children first

**Row** of a node with children ``0..n-1`` (``2 + n`` words). Its handle is that of its own first word; the values lie
before it, ``N_OFFSET`` words from the record's beginning::

    0          low: count (non-empty child groups)     high: copies of the tuple (in the record's first row), its weight
    1          low: group of the edge to the parent    high: position in that group's children, -1 outside V_s
    2+j        low: group of the edge to child j       high: position in that group's parents

A word with a group and a position in one of its lists is a *link*. An alias that does not read the tuple has group 0. A
row of a virtual node is a record of its own. In payload plans every row has in word 0 the
*weight* with which it has been accounted: while the copies of a tuple change, its aliases follow one after the other.
Some rows of free nodes have one more word there, their own handle: so an enumeration writes it like a value. A row of a
node without children, if it is not the record's first, has no word 0: its handle is the word before, another row's.

**Bundle** of a key of ``k`` attributes, the only index there is: the groups of all edges that share it::

    0 .. k-1   the key
    k ..       group of the first edge, of the second, ...

**Group** of an edge (4 words, and its payload). Its handle lies ``k`` words before them, as if each had the key::

    k          low: children list    high: its length (count[k] of S-UPDATE; the key is in V_p iff > 0)
    k+1        low: parents list     high: its length (rows of R_p with that key, live ones first)
    k+2        low: live parents     high: references (rows of R_c with that key, in V_s or not)
    k+3        low: log2 capacity of the children list    high: of the parents list
    k+4 ..     in payload plans, above a bound node: what its parents have been told (``Pub``, some words), and after it
               a word, low: the entry with what they have not (0 if there is none)

**Entry** of a changed payload (1 word, and as many as the payload)::

    0          low: the group, 0 if it has emptied     high: the next entry of the edge
    1 ..       what is to be added to ``Pub``

**List**: a *field*, a word as above (low: where it is, high: its length), and the half word with its log2 capacity. A
list of capacity 1 is its own field; a longer one is a block of int32 row handles. The children list of a free leaf with
one non-key attribute carries a copy of that attribute (``capacity`` int64 words before the handles), so that the
innermost loop of an enumeration is a copy. The root's edge has one group, without key, with one live parent that is
not there.

**Table numbers**: the rows of node i (a source's records, if it is the first alias), then the groups above node i, then
the dictionary and the support counts. Kernels pay nothing for these functions: they are inlined.
"""

from __future__ import annotations

from typing import NamedTuple

from crown.kernels.arena import ONE, PLAIN, T_TALLIES, at32, hi, lo, set_hi, set_lo
from crown.kernels.jit import device
from crown.kernels.tables import table_at

_GROUP = 4  # words of a group besides its key and its payload
SHORT_ROW = 1  # words of a row without word 0
OWN_LINK = ONE  # the link of a row to the group that it is a child in

# Records
# ----------------------------------------------------------------------------------------------------------------------


@device
def copies(halves, record, width):
    """Returns how many copies of the record's tuple, of ``width`` words, there are."""
    return hi(halves, record + width)


@device
def set_copies(halves, record, width, n):
    """Writes how many copies of the record's tuple there are."""
    set_hi(halves, record + width, n)


@device
def counted_words(width):
    """Returns words of a record that is a tuple and a counter, as those of support counts are."""
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
def row_count(halves, row):
    """Returns count[t] of R-UPDATE, how many children have the row's key in V_p."""
    return lo(halves, row)


@device
def set_row_count(halves, row, count):
    """Writes count[t]."""
    set_lo(halves, row, count)


@device
def row_weight(halves, row):
    """Returns the weight with which the row has been accounted, in payload plans."""
    return hi(halves, row)


@device
def set_row_weight(halves, row, weight):
    """Writes the weight. In a record's first row this is the number of copies."""
    set_hi(halves, row, weight)


@device
def row_group(halves, row):
    """Returns the group in which the row is a child; 0 for an alias that does not read the tuple."""
    return lo(halves, row + OWN_LINK)


@device
def set_row_group(halves, row, g):
    """Writes the group in which the row is a child."""
    set_lo(halves, row + OWN_LINK, g)


@device
def row_position(halves, row):
    """Returns the position among the children of its group, -1 while the row is outside V_s."""
    return hi(halves, row + OWN_LINK)


@device
def set_row_position(halves, row, at):
    """Writes the position among the children of its group."""
    set_hi(halves, row + OWN_LINK, at)


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
def group_words(extra):
    """Returns the words of a group, ``extra`` of them for a payload (``payload_words``)."""
    return _GROUP + extra


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
    """Returns the last word of a group that an update reads or writes, its payload left out."""
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
def children_log(field):
    """Returns the half word with the log2 capacity of the children list with that field."""
    return 2 * (field + 3)


@device
def parents_log(field):
    """Returns the half word with the log2 capacity of the parents list with that field."""
    return 2 * (field + 2) + 1


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
def references(halves, g, k):
    """Returns the rows of the child's relation with the group's key, in V_s or not."""
    return hi(halves, g + k + 2)


@device
def set_references(halves, g, k, n):
    """Writes how many rows of the child's relation have the group's key."""
    set_hi(halves, g + k + 2, n)


# Entries
# ----------------------------------------------------------------------------------------------------------------------


@device
def entry_words(words):
    """Returns the words of an entry of a payload of that many words."""
    return 1 + words


@device
def entry_group(halves, entry):
    """Returns the group that the entry is for; 0 if it has emptied."""
    return lo(halves, entry)


@device
def set_entry_group(halves, entry, g):
    """Writes the group that the entry is for."""
    set_lo(halves, entry, g)


@device
def entry_next(halves, entry):
    """Returns the next entry of the edge, or 0."""
    return hi(halves, entry)


@device
def set_entry_next(halves, entry, following):
    """Writes the next entry of the edge."""
    set_hi(halves, entry, following)


@device
def entry_change(entry):
    """Returns the first word of what is to be added to the payload."""
    return entry + 1


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
def list_words(log_capacity, carried):
    """Returns words of the block of a list with capacity 2^log_capacity > 1."""
    capacity = 1 << log_capacity
    if carried != PLAIN:
        return capacity + (capacity >> 1)
    return capacity >> 1


@device
def block_handles(block, log_capacity, carried):
    """Returns the half word of the first handle in the block of a list with capacity > 1, behind carried values."""
    if carried != PLAIN:
        return 2 * block + (2 << log_capacity)
    return 2 * block


@device
def list_base(halves, field, log_at, carried):
    """Returns the half word of the first handle of the list with that field; its log2 capacity is in ``log_at``.

    ``carried``: the word, counted from a row, whose value the list carries, or PLAIN.
    """
    log_capacity = at32(halves, log_at)
    if log_capacity == 0:
        return 2 * field
    return block_handles(list_block(halves, field), log_capacity, carried)


@device
def children_base(halves, g, k, carried):
    """Returns the half word of the first handle of the group's children list."""
    field = children_field(g, k)
    return list_base(halves, field, children_log(field), carried)


@device
def parents_base(halves, g, k):
    """Returns the half word of the first handle of the group's parents list."""
    field = parents_field(g, k)
    return list_base(halves, field, parents_log(field), PLAIN)


@device
def carried_base(halves, field, carried):
    """Returns the word of the first value that the children list with that field carries, or has in its only row."""
    base = list_block(halves, field)
    if at32(halves, children_log(field)) == 0:
        base += carried
    return base


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


def support_table(nodes: int) -> int:
    """Returns the number of the table of support counts in a plan of ``nodes`` nodes."""
    return 2 * nodes + 1


def table_total(nodes: int) -> int:
    """Returns how many tables the state of a plan of ``nodes`` nodes has."""
    return 2 * nodes + 2


T_ROWS = T_TALLIES + 2  # of a rows table: rows of the node
T_ENTRIES = T_PADDING = T_TALLIES + 1  # of a groups table: the edge's first entry; above a padded node its padding
T_TOUCHED = T_TALLIES + 2  # of a groups table: parent rows that publications of the edge have looked at


class Tallies(NamedTuple):
    """Returns the header words of what is counted per node beside its tables."""

    missing: int  # copies that deletes did not find
    updates: int  # tuples of the changes that the node read
    rows: int  # rows of the node
    filtered: int  # rows that the source's predicate rejected
    touched: int  # parent rows that publications of the edge above the node have looked at


def tallies_of(nodes: int, node: int) -> Tallies:
    """Returns where the tallies of a node are, in a plan of ``nodes`` nodes."""
    own, above = int(table_at(rows_table(node))), int(table_at(groups_table(nodes, node)))
    return Tallies(own + T_TALLIES, own + T_TALLIES + 1, own + T_ROWS, above + T_TALLIES, above + T_TOUCHED)
