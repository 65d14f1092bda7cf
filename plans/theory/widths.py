"""Fractional edge covers and fractional hypertree width, by linear programming (HiGHS).

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
    m = len(edges)
    columns: list[int] = []  # of the matrix with a row per bag and attribute: the edges of the bag that have it
    starts: list[int] = []
    for b, bag in enumerate(bags):
        for vertex in bits(bag):
            starts.append(len(columns))
            columns += [b * m + i for i, edge in enumerate(edges) if edge >> vertex & 1]
    if not starts:
        return [(0.0, (0.0,) * m) for _ in bags]
    values = [round(x, 9) + 0.0 for x in _least(m * len(bags), starts, columns)]
    weights = [tuple(values[b * m : (b + 1) * m]) for b in range(len(bags))]
    return [(sum(w), w) for w in weights]


def _least(variables: int, starts: list[int], columns: list[int]) -> list[float]:
    """Returns the x >= 0 with the least sum such that the sum over the columns of every row is at least 1.

    Row ``r`` has ``columns[starts[r]:starts[r + 1]]``.
    """
    import highspy
    import numpy as np

    problem = highspy.HighsLp()
    problem.num_col_, problem.num_row_ = variables, len(starts)
    problem.col_cost_ = np.ones(variables)
    problem.col_lower_, problem.col_upper_ = np.zeros(variables), np.full(variables, highspy.kHighsInf)
    problem.row_lower_ = np.ones(len(starts))
    problem.row_upper_ = np.full(len(starts), highspy.kHighsInf)
    problem.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    problem.a_matrix_.start_ = np.array([*starts, len(columns)], np.int32)
    problem.a_matrix_.index_ = np.array(columns, np.int32)
    problem.a_matrix_.value_ = np.ones(len(columns))
    solver = highspy._Highs()  # its subclass prints a banner from 1.16 on, before it can be turned off
    solver.setOptionValue("output_flag", False)
    solver.passModel(problem)
    solver.run()
    return list(solver.getSolution().col_value)


def fhtw(edges: Sequence[int]) -> float:
    """Returns the fractional hypertree width of up to `EXACT_ATTRIBUTES` attributes, by dynamic programming over
    elimination orders.

    The bag of a vertex v, if the vertices E were eliminated before, is v and every vertex that a path through E reaches
    from v. Cost O(2^n · n) bags, each solved once.
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
