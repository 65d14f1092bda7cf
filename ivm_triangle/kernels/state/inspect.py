"""Reads a state: sizes, flags, membership."""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import T_CAPACITY, T_COUNT, T_SLOTS
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import table_at
from ivm_triangle.kernels.state.geometry import in_list, multiplicity_of, out_list, right
from ivm_triangle.kernels.state.graph import before, is_heavy, lookup
from ivm_triangle.kernels.state.views import view_size


@kernel("words, int")
def vertices(arena, domain):
    """Returns the number of values in a domain."""
    return arena[table_at(domain) + T_COUNT]


@kernel("words, int")
def edges(arena, k):
    """Returns the number of distinct tuples of relation k."""
    return arena[table_at(3 + k) + T_COUNT]


@kernel("words, words, int")
def entries(arena, plan, view):
    """Returns the number of entries of a view."""
    return view_size(words(arena), constants(plan), view)


@kernel("words, int, words, flags")
def known(arena, domain, codes, found):
    """Sets `found` bool[n] to True for codes that are in the domain."""
    arena = words(arena)
    for i in range(codes.size):
        if lookup(arena, domain, codes[i]) != 0:
            found[i] = True


@kernel("words, floats")
def squares(arena, sums):
    """Adds the squared multiplicities of R, S, T to `sums` float64[3]. O(|D|)."""
    arena, sums = words(arena), words(sums)
    for k in range(3):
        t = table_at(3 + k)
        for s in range(arena[t + T_SLOTS], arena[t + T_SLOTS] + arena[t + T_CAPACITY]):
            if arena[s] != 0:
                sums[k] += float(multiplicity_of(arena, right(arena[s]))) ** 2


@kernel("words, halves, words, words")
def heavy_values(arena, halves, plan, counts):
    """Adds the number of heavy values per (relation, column) to `counts` int64[6]. O(values)."""
    arena, halves, plan, counts = words(arena), words(halves), constants(plan), words(counts)
    for d in range(3):
        t = table_at(d)
        for s in range(arena[t + T_SLOTS], arena[t + T_SLOTS] + arena[t + T_CAPACITY]):
            if arena[s] != 0:
                v = right(arena[s])
                if is_heavy(halves, out_list(v)):
                    counts[2 * d] += 1
                if is_heavy(halves, in_list(v)):
                    counts[2 * before(plan, d) + 1] += 1
