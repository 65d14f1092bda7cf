"""Estimates the cost of a change of a join core in rows read, to choose between programs.

If nothing is known about a key, it is assumed to have `FANOUT` rows, as in the search (`plans.search.counted.fans`). A
change of a row propagates up its tree to the first free node. From there the results that contain it are enumerated. In
a set it propagates only if the columns that are read of it, or its key, appear or disappear: one time in `FANOUT`
unless they determine the row. A payload always changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from plans.plan import Plan
from plans.search.counted.fans import FANOUT, Fans, declared_key, fans
from plans.theory.hypergraph import Hypergraph

TAKEN = 8.0
"""The cost of inserting or deleting a row of a relation, in rows read."""
EMITTED = 6.0
"""The cost of a result that is enumerated and grouped, in rows read."""


def work(plans: Iterable[Plan]) -> float:
    """Returns the cost of a change of every occurrence of a relation, weighted by its rate. Only ratios matter.
    O(nodes²) per plan."""
    return sum(_of(plan) for plan in plans)


def _of(plan: Plan) -> float:
    graph = Hypergraph(tuple(plan.attributes), ())
    tree = _Tree(plan, fans(plan.nodes, plan.tables, graph), graph)
    total = 0.0
    for i, node in enumerate(plan.nodes):
        names = [node.name] if node.kind == "input" else [a.name for a in node.bag.atoms] if node.bag else []
        rate = sum(plan.rates.get(name, 1.0) for name in names)
        total += rate * (TAKEN + tree.change(i)) if names else 0.0
    return total


class _Tree:
    def __init__(self, plan: Plan, known: Fans, graph: Hypergraph) -> None:
        self._plan = plan
        self._masks = [graph.mask(node.attributes) for node in plan.nodes]
        self._keys = [graph.mask(node.key) for node in plan.nodes]
        self._known = known

    def change(self, i: int) -> float:
        """Returns the cost of a change of one row of a node, without that of inserting or deleting the row."""
        nodes, counted = self._plan.nodes, self._plan.payload is not None
        changed, touched = 1.0 if counted or self._single(i) else 1.0 / FANOUT, 0.0
        while not nodes[i].free and nodes[i].parent >= 0:
            if not counted and self._rows(i, self._keys[i]) > 1.0:
                changed /= FANOUT
            above = nodes[i].parent
            changed *= self._rows(above, self._keys[i])
            touched += changed
            i = above
        return touched + EMITTED * changed * self._results(i, -1)

    def _single(self, i: int) -> bool:
        """Returns whether distinct rows of a relation are distinct rows of its node."""
        node = self._plan.nodes[i]
        if node.kind != "input":
            return True
        table = self._plan.table(node.relation)
        return len(set(node.columns)) == len(table.columns) or declared_key(node, table) is not None

    def _results(self, i: int, origin: int) -> float:
        """Returns the number of results that contain a row of a free node, not counting the branch of the node
        `origin`."""
        nodes = self._plan.nodes
        found = 1.0
        for other, node in enumerate(nodes):
            if other == origin or not node.free:
                continue
            if node.parent == i:
                found *= self._rows(other, self._keys[other]) * self._results(other, i)
            elif nodes[i].parent == other:
                found *= self._rows(other, self._keys[i]) * self._results(other, i)
        return found

    def _rows(self, i: int, key: int) -> float:
        """Returns the number of rows of a node with one key."""
        virtual = self._plan.nodes[i].kind == "virtual"
        one = self._masks[i] & ~key == 0 if virtual else self._known.one_row(i, self._masks[i], key)
        return 1.0 if one else FANOUT
