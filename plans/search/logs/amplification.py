"""Counts the cost of updates under a tree on a recorded log: one step per counter that changes.

It replays the R-, S- and P-updates of the engine (Section 4 of the paper) with counters only: no live views, no
results. `work` per update is what Theorem 6.5 bounds by the enclosureness. Trees are compared without an engine.
"""

from __future__ import annotations

from collections.abc import Iterable

from plans.plan import Plan
from plans.search.logs.updates import Row


class Replay:
    """The counters of one plan (of input and virtual nodes). `steps` is the number of R-, S- and P-updates so far."""

    def __init__(self, plan: Plan) -> None:
        nodes = plan.nodes
        self.steps = 0
        self.parent = [node.parent for node in nodes]
        self.children = [plan.children(i) for i in range(len(nodes))]
        self.virtual = [node.kind == "virtual" for node in nodes]
        place = [{name: p for p, name in enumerate(node.attributes)} for node in nodes]
        self.own_key = [tuple(place[i][name] for name in node.key) for i, node in enumerate(nodes)]
        self.in_parent = [
            tuple(place[node.parent][name] for name in node.key) if node.parent >= 0 else () for node in nodes
        ]
        # The rows of a virtual node are in its own attribute order, the keys of its children in theirs.
        self.key_order = [
            tuple(node.key.index(name) for name in nodes[node.parent].attributes)
            if node.parent >= 0 and self.virtual[node.parent]
            else ()
            for node in nodes
        ]
        self.missing: list[dict[Row, int]] = [{} for _ in nodes]  # row -> number of children without a joinable row
        self.rows_by_key: list[dict[Row, set[Row]]] = [{} for _ in nodes]  # edge (child) -> key -> rows of the parent
        self.joinable: list[dict[Row, int]] = [{} for _ in nodes]  # V_p with its counts

    def update(self, node: int, row: Row, insert: bool) -> None:
        """Performs the R-update of an input node: inserts a row that is absent, or deletes one that is present."""
        self.steps += 1
        if insert:
            absent = self._enter(node, row)
            if absent == 0:
                self._s_update(node, row, 1)
        else:
            if self.missing[node][row] == 0:
                self._s_update(node, row, -1)
            self._leave(node, row)

    def _enter(self, node: int, row: Row) -> int:
        absent = 0
        for child in self.children[node]:
            key = tuple(row[p] for p in self.in_parent[child])
            self.rows_by_key[child].setdefault(key, set()).add(row)
            absent += key not in self.joinable[child]
        self.missing[node][row] = absent
        return absent

    def _leave(self, node: int, row: Row) -> None:
        for child in self.children[node]:
            key = tuple(row[p] for p in self.in_parent[child])
            rows = self.rows_by_key[child][key]
            rows.discard(row)
            if not rows:
                del self.rows_by_key[child][key]
        del self.missing[node][row]

    def _s_update(self, node: int, row: Row, change: int) -> None:
        parent = self.parent[node]
        if parent < 0:
            return
        self.steps += 1
        key = tuple(row[p] for p in self.own_key[node])
        counts = self.joinable[node]
        count = counts.get(key, 0) + change
        if count:
            counts[key] = count
        else:
            del counts[key]
        if count == (1 if change > 0 else 0):
            self._p_update(node, parent, key, change)

    def _p_update(self, node: int, parent: int, key: Row, change: int) -> None:
        """Counts a key that enters V_p (change 1) or leaves it (-1), in the numbers of missing children of its parent
        rows."""
        if self.virtual[parent]:
            row = tuple(key[p] for p in self.key_order[node])
            if row not in self.missing[parent]:
                self._enter_virtual(parent, row)
        for row in list(self.rows_by_key[node].get(key, ())):
            self.steps += 1
            before = self.missing[parent][row]
            self.missing[parent][row] = before - change
            if before - change == 0:
                self._s_update(parent, row, 1)
            elif before == 0:
                self._s_update(parent, row, -1)
            if self.virtual[parent] and self.missing[parent][row] == len(self.children[parent]):
                self._leave(parent, row)

    def _enter_virtual(self, node: int, row: Row) -> None:
        """Inserts a row of a virtual node with its first child, whose key is counted right after."""
        self._enter(node, row)
        self.missing[node][row] = len(self.children[node])


def amplification(plan: Plan, updates: Iterable[tuple[int, Row, bool]]) -> float:
    """Returns steps per update of a sequence of (node, row, insert?) under the plan's tree; 0 for an empty sequence."""
    replay, n = Replay(plan), 0
    for node, row, insert in updates:
        replay.update(node, row, insert)
        n += 1
    return replay.steps / n if n else 0.0
