"""Fractional edge covers and fractional hypertree width, by linear programming (scipy's HiGHS).

ρ*(χ): the least total weight of edges that covers every attribute of χ; a join over χ has at most N^ρ* rows (Atserias,
Grohe, Marx, SIAM J. Comput. 2013). fhtw: the least, over all tree decompositions, of the largest ρ* of a bag (Grohe,
Marx, TALG 2014).
"""

from __future__ import annotations

from collections.abc import Sequence

from plans.theory.hypergraph import bits, neighbours, union

EXACT_ATTRIBUTES = 8


def edge_covers(edges: Sequence[int], bags: Sequence[int]) -> list[tuple[float, tuple[float, ...]]]:
    """Returns ρ* of each bag (a mask of attributes, all covered by `edges`), and the weights of the edges that attain
    it.

    All bags are solved in one linear program, whose blocks are independent. Cost: one call of HiGHS.
    """
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    m = len(edges)
    rows, columns, row = [], [], 0
    for b, bag in enumerate(bags):
        for vertex in bits(bag):
            for i, edge in enumerate(edges):
                if edge >> vertex & 1:
                    rows.append(row)
                    columns.append(b * m + i)
            row += 1
    if row == 0:
        return [(0.0, (0.0,) * m) for _ in bags]
    matrix = coo_matrix((-np.ones(len(rows)), (rows, columns)), shape=(row, m * len(bags))).tocsr()
    solved = linprog(np.ones(m * len(bags)), A_ub=matrix, b_ub=-np.ones(row), bounds=(0, None), method="highs")
    weights = np.round(solved.x, 9).reshape(len(bags), m)
    return [(float(w.sum()), tuple(float(x) for x in w)) for w in weights]


def fhtw(edges: Sequence[int]) -> float:
    """Returns fractional hypertree width, by dynamic programming over elimination orders; up to `EXACT_ATTRIBUTES`
    attributes.

    The bag of a vertex v, when the vertices E were eliminated before, is v and every vertex that a path through E
    reaches from it. Cost O(2^n · n) bags, each solved once.
    """
    everything = union(edges, (1 << len(edges)) - 1)
    vertices = list(bits(everything))
    near = {v: neighbours(edges, v) for v in vertices}

    def bag(vertex: int, eliminated: int) -> int:
        seen, todo = 1 << vertex, 1 << vertex
        while todo:
            reached = 0
            for v in bits(todo):
                reached |= near[v]
            todo = reached & ~seen & eliminated
            seen |= reached
        return seen & ~eliminated | 1 << vertex

    subsets = [0]
    for v in vertices:
        subsets += [s | 1 << v for s in subsets]
    bags = sorted({bag(v, s) for s in subsets for v in bits(everything & ~s)})
    rho = {b: width for b, (width, _) in zip(bags, edge_covers(edges, bags), strict=True)}
    best = {everything: 0.0}
    for s in sorted(subsets, key=lambda s: -s.bit_count()):
        if s != everything:
            best[s] = min(max(rho[bag(v, s)], best[s | 1 << v]) for v in bits(everything & ~s))
    return best[0]
