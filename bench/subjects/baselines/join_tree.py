"""The plain join tree of a plan, as data for the Dynamic Yannakakis kernels.

A generalized node of CROWN's plan has no counterpart here: it is replaced by its first child that is at least as free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.subjects.baselines.kernels import store as S
from bench.subjects.baselines.kernels import yannakakis as Y
from bench.subjects.baselines.programs import UnsupportedError, atoms_of
from crown.kernels.memory.tables import table_at
from plans.plan import Plan


@dataclass(frozen=True)
class Tree:
    """The plan array, the number of hash tables, and the tree's node for every input node of the plan."""

    program: np.ndarray
    tables: int
    nodes: dict[int, int]
    attributes: int


def tree_of(plan: Plan) -> Tree:
    """Returns the join tree. Raises UnsupportedError if no child of a generalized node can replace it."""
    atoms_of(plan)
    parent, order = _contracted(plan)
    number = {a: i for i, a in enumerate(plan.attributes)}
    place_of = {node: i for i, node in enumerate(order)}
    children: list[list[int]] = [[] for _ in order]
    for node in order[1:]:
        children[place_of[parent[node]]].append(place_of[node])
    cells: list[int] = [0] * S.P_HEADER

    def place(values: Sequence[int]) -> int:
        cells.extend(values)
        return len(cells) - len(values)

    cells[Y.Y_IDENTITY] = place(range(len(number)))
    cells[S.P_OUT] = place([number[o.expr.value] for o in plan.output])
    cells[S.P_OUTS] = len(plan.output)
    words: list[int] = []
    for i, node in enumerate(order):
        mine = plan.nodes[node].attributes
        up = parent[node]
        above = plan.nodes[up].attributes if up >= 0 else ()
        key = [a for a in mine if a in above]
        path = _path(place_of, parent, node)
        sides = [j for j, other in enumerate(order) if plan.nodes[other].free and j not in path]
        words += [
            len(mine), table_at(i), place([number[a] for a in mine]), place_of.get(up, -1), len(key),
            place([mine.index(a) for a in key]), place([above.index(a) for a in key]), table_at(len(order) + i),
            len(children[i]), place(children[i]), children[place_of[up]].index(i) if up >= 0 else -1,
            int(plan.nodes[node].free), len(sides), place(sides),
        ]  # fmt: skip
    cells[Y.Y_NODES] = place(words)
    return Tree(np.array(cells, np.int64), 2 * len(order), place_of, len(number))


def _path(place_of: dict[int, int], parent: dict[int, int], node: int) -> set[int]:
    path = set()
    while node >= 0:
        path.add(place_of[node])
        node = parent[node]
    return path


def _contracted(plan: Plan) -> tuple[dict[int, int], list[int]]:
    """Returns the parent of every input node (-1 at the root), and the input nodes in preorder."""
    stands_for = {i: i for i in range(len(plan.nodes))}
    for i in reversed(range(len(plan.nodes))):
        if plan.nodes[i].kind != "virtual":
            continue
        candidates = [
            stands_for[c] for c in plan.children(i) if plan.nodes[stands_for[c]].free or not plan.nodes[i].free
        ]
        if not candidates or not plan.nodes[i].attributes:
            raise UnsupportedError("its join tree needs a generalized node")
        stands_for[i] = candidates[0]
    parent = {}
    for i, node in enumerate(plan.nodes):
        if node.kind == "virtual":
            continue
        up = node.parent
        while up >= 0 and stands_for[up] == i:
            up = plan.nodes[up].parent
        parent[i] = stands_for[up] if up >= 0 else -1
    order: list[int] = []
    stack = [i for i in parent if parent[i] < 0]
    while stack:
        top = stack.pop()
        order.append(top)
        stack += [i for i in reversed(list(parent)) if parent[i] == top]
    return parent, order
