"""The offsets of words in a record or a list: only these kernels know them. They are inlined and cost nothing.

`layout` describes the records and the list. A *list word* `w` is the first of the two words of a list.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import at32, hi, lo, set_hi, set_lo
from crown.kernels.memory.tables import LOW32
from ivm_triangle.kernels.state.layout import V_IN, V_OUT, WORD

# The word of a record that holds its position in its list.
MIDDLE_PLACE, SUM_PLACE, GROUP_PLACE = WORD(1), WORD(2), WORD(3)  # SUM_PLACE also of sets, GROUP_PLACE of buckets

# -- pairs and entries -------------------------------------------------------------------------------------------------


@device
def pair_of(x, y):
    """Returns two handles in one word."""
    return (x << 32) | y


@device
def left(word):
    """Returns the first handle of a pair; of a list entry, the other end, or the middle."""
    return word >> 32


@device
def right(word):
    """Returns the second handle of a pair; of a list entry or a slot, the record."""
    return word & LOW32


# -- vertices and edges ------------------------------------------------------------------------------------------------


@device
def out_list(v):
    """Returns the list word of the edges that leave a vertex."""
    return v + V_OUT


@device
def in_list(v):
    """Returns the list word of the edges that enter a vertex."""
    return v + V_IN


@device
def list_of(v, column):
    """Returns the list word of a vertex in a column of a relation: 0 if it is the first end, 1 if it is the second."""
    return v + (V_OUT if column == 0 else V_IN)


@device
def source(arena, e):
    """Returns the vertex that an edge leaves."""
    return left(arena[e])


@device
def target(arena, e):
    """Returns the vertex that an edge enters."""
    return right(arena[e])


@device
def multiplicity_of(arena, e):
    """Returns the multiplicity of an edge's tuple."""
    return arena[e + 1]


@device
def set_multiplicity(arena, e, m):
    """Writes the multiplicity of an edge's tuple."""
    arena[e + 1] = m


@device
def edge_position(halves, e, half):
    """Returns the position of an edge: `half` 0 in the out list of its source, 1 in the in list of its target."""
    return at32(halves, 2 * (e + 2) + half)


@device
def set_edge_position(halves, e, half, i):
    """Writes the position of an edge in a list."""
    halves[2 * (e + 2) + half] = i


# -- records of views --------------------------------------------------------------------------------------------------


@device
def payload(arena, rec):
    """Returns the second word of a record of a view: the value of a sum, the third vertex of a triple."""
    return arena[rec + 1]


@device
def set_payload(arena, rec, word):
    """Writes the second word of a record of a view."""
    arena[rec + 1] = word


@device
def middles_of(group):
    """Returns the list word of the middles of a pair."""
    return group + 1


@device
def groups_of(bucket):
    """Returns the list word of the groups in a bucket."""
    return bucket + 1


@device
def place_of(arena, rec):
    """Returns the position of a group in its bucket, -1 outside of one; or of a bucket in the listing."""
    return arena[rec + GROUP_PLACE]


@device
def set_place(arena, rec, i):
    """Writes the position of a group or a bucket."""
    arena[rec + GROUP_PLACE] = i


@device
def listing_place(arena, rec):
    """Returns the position of a sum or a triple in the listing of its view."""
    return arena[rec + SUM_PLACE]


@device
def set_listing_place(arena, rec, i):
    """Writes the position of a sum or a triple in the listing of its view."""
    arena[rec + SUM_PLACE] = i


# -- lists -------------------------------------------------------------------------------------------------------------


@device
def list_address(halves, w):
    """Returns the first word of a list's block."""
    return lo(halves, w)


@device
def set_list_address(halves, w, address):
    """Writes the first word of a list's block."""
    set_lo(halves, w, address)


@device
def list_length(halves, w):
    """Returns the number of entries."""
    return hi(halves, w)


@device
def set_list_length(halves, w, n):
    """Writes the number of entries."""
    set_hi(halves, w, n)


@device
def list_capacity(halves, w):
    """Returns the words of a list's block."""
    return lo(halves, w + 1)


@device
def set_list_capacity(halves, w, n):
    """Writes the words of a list's block."""
    set_lo(halves, w + 1, n)


@device
def list_extra(halves, w):
    """Returns the number of entries with heavy other ends, plus HEAVY if the vertex is heavy in this column."""
    return hi(halves, w + 1)


@device
def set_list_extra(halves, w, extra):
    """Writes the number of entries with heavy other ends, plus HEAVY."""
    set_hi(halves, w + 1, extra)


@device
def clear_list(arena, w):
    """Makes a list empty, without a block."""
    arena[w] = 0
    arena[w + 1] = 0
