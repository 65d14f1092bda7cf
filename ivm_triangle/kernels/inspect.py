"""Looking into a state: sizes, flags, membership. Nothing here changes it."""

from __future__ import annotations

from crown.kernels.arena import T_COUNT, T_MASK, T_SLOTS
from crown.kernels.jit import kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, table_at
from ivm_triangle.kernels.graph import before, is_heavy, lookup
from ivm_triangle.kernels.layout import V_IN, V_OUT
from ivm_triangle.kernels.views import view_size


@kernel
def vertices(M, domain):
    """Number of values in a domain."""
    return M[table_at(domain) + T_COUNT]


@kernel
def edges(M, k):
    """Number of distinct tuples of relation k."""
    return M[table_at(3 + k) + T_COUNT]


@kernel
def entries(M, P, view):
    """Number of entries of a view."""
    return view_size(words(M), constants(P), view)


@kernel
def known(M, domain, codes, found):
    """Set `found` bool[n] where the code is in the domain."""
    M = words(M)
    for i in range(codes.size):
        if lookup(M, domain, codes[i]) != 0:
            found[i] = True


@kernel
def squares(M, sums):
    """Add the squared multiplicities of R, S, T to `sums` float64[3]. O(|D|)."""
    M, sums = words(M), words(sums)
    for k in range(3):
        t = table_at(3 + k)
        for s in range(M[t + T_SLOTS], M[t + T_SLOTS] + M[t + T_MASK] + 1):
            if M[s] != 0:
                sums[k] += float(M[(M[s] & LOW32) + 1]) ** 2


@kernel
def heavy_values(M, m32, P, counts):
    """Add up the heavy values per (relation, column) in `counts` int64[6]. O(values)."""
    M, m32, P, counts = words(M), words(m32), constants(P), words(counts)
    for d in range(3):
        t = table_at(d)
        for s in range(M[t + T_SLOTS], M[t + T_SLOTS] + M[t + T_MASK] + 1):
            if M[s] != 0:
                v = M[s] & LOW32
                if is_heavy(m32, v + V_OUT):
                    counts[2 * d] += 1
                if is_heavy(m32, v + V_IN):
                    counts[2 * before(P, d) + 1] += 1
