"""Replays a recorded log to count the rows that publications touch under a tree with counted rows.

It keeps the counters of `plans.search.logs.amplification`, and payloads that count: for each group the published
payload (`Pub`) and the pending change, which is published once per batch, the deepest edges first. A touch is a row of
a parent that a publication reads. The counter `touched` of the engine counts the same. If there are sums, a group is
assumed to change whenever a row below it does.
"""

from __future__ import annotations

from collections.abc import Iterable

from plans.payloads.counting import summed_leaves
from plans.payloads.payload import COUNTED, EXISTS
from plans.plan import Plan
from plans.programs.reads import rows_of
from plans.search.logs.amplification import Replay
from plans.search.logs.updates import Copies, Row


class PayloadReplay(Replay):
    """The counters of a plan with a payload. `touched` is the number of parent rows that publications read."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        assert plan.payload is not None, "a plan with a payload is wanted"
        kinds = plan.payload.kinds
        self.touched = 0
        self.touched_above = [0] * len(plan.nodes)
        self.sums = len(plan.payload.terms) > 1
        self.counted = [kind == COUNTED for kind in kinds]
        self.pays = [not node.free and kind != EXISTS for node, kind in zip(plan.nodes, kinds, strict=True)]
        self.links = [[c for c in below if self.pays[c]] for below in self.children]
        self.weight: list[dict[Row, int]] = [{} for _ in plan.nodes]
        self.published: list[dict[Row, int]] = [{} for _ in plan.nodes]  # Pub of the groups above a node
        self.change: list[dict[Row, int]] = [{} for _ in plan.nodes]
        depth = [0] * len(plan.nodes)
        for i, node in enumerate(plan.nodes[1:], 1):
            depth[i] = depth[node.parent] + 1
        self.edges = sorted((i for i, pays in enumerate(self.pays) if pays), key=lambda i: -depth[i])
        stored = [rows_of(node) for node in plan.nodes]
        deepest: dict[object, int] = {}
        for i, rows in enumerate(stored):
            deepest[rows] = max(deepest.get(rows, 0), depth[i])
        turns = sorted(deepest, key=lambda rows: -deepest[rows])
        self.turn = [turns.index(rows) for rows in stored]
        """For each node, the position of its rows within a batch of insertions. Deletions use the reverse order."""
        self.summed = summed_leaves(plan)

    def reweigh(self, node: int, row: Row, before: int, after: int) -> None:
        """Changes the number of copies of a row of an input node. The first copy inserts the row, the last one deletes
        it."""
        if before == 0 or after == 0:
            self.weight[node][row] = after or before
            self.update(node, row, after > 0)
        elif self.counted[node]:
            if self.pays[node] and self.missing[node][row] == 0:
                self._pend(node, self._key(node, row), self._own(node, row, after - before))
            self.weight[node][row] = after
        if after == 0:
            del self.weight[node][row]

    def publish(self) -> None:
        """Publishes the change of every changed group to its parents, the deepest edges first."""
        for c in self.edges:
            parent = self.parent[c]
            for key, change in list(self.change[c].items()):
                if change or self.sums:
                    self._tell(c, parent, key, change)
                self.published[c][key] += change
            self.change[c].clear()

    def _tell(self, c: int, parent: int, key: Row, change: int) -> None:
        rows = self.rows_by_key[c].get(key, ())
        self.touched += len(rows)
        self.touched_above[c] += len(rows)
        for row in rows if self.pays[parent] else ():
            if self.missing[parent][row] == 0:
                weight = self._weight(parent, row)
                self._pend(parent, self._key(parent, row), self._own(parent, row, weight, (c, change)))

    def _s_update(self, node: int, row: Row, change: int) -> None:
        """Inserts a row into V_s, or deletes it. A new group publishes when it is created. A row that is deleted
        together with its group uses the old payload."""
        if not self.pays[node]:
            super()._s_update(node, row, change)
            return
        key, count = self._key(node, row), self.joinable[node].get(self._key(node, row), 0)
        own = self._own(node, row, change * self._weight(node, row))
        if count == 0:
            self.published[node][key] = own
        elif change > 0 or count > 1:
            self._pend(node, key, own)
        super()._s_update(node, row, change)
        if change < 0 and count == 1:
            del self.published[node][key]
            self.change[node].pop(key, None)

    def _key(self, node: int, row: Row) -> Row:
        return tuple(row[p] for p in self.own_key[node])

    def _weight(self, node: int, row: Row) -> int:
        return self.weight[node][row] if self.counted[node] else 1

    def _own(self, node: int, row: Row, weight: int, instead: tuple[int, int] | None = None) -> int:
        """Returns the payload of a row with that weight. `instead`: a child, and the value that replaces its `Pub`."""
        for c in self.links[node]:
            if instead is not None and c == instead[0]:
                weight *= instead[1]
            else:
                weight *= self.published[c][tuple(row[p] for p in self.in_parent[c])]
        return weight

    def _pend(self, node: int, key: Row, value: int) -> None:
        parent, rows = self.parent[node], self.rows_by_key[node].get(key, ())
        unread = not rows or (len(rows) == 1 and all(self.missing[parent][row] > 0 for row in rows))
        if node in self.summed and unread:
            self.published[node][key] += value
        else:
            self.change[node][key] = self.change[node].get(key, 0) + value


def replayed(plan: Plan, changes: Iterable[Copies], batch: int) -> PayloadReplay:
    """Returns the replay of a plan with a payload after applying changes in batches of `batch` events of the log.

    As in the engine, a batch is netted per row, deletions precede insertions, and relations are applied one after the
    other: the deepest first for insertions, last for deletions.
    """
    replay = PayloadReplay(plan)
    number = {node.name: i for i, node in enumerate(plan.nodes)}
    net: dict[tuple[int, Row], tuple[int, int]] = {}
    last = 0
    for one in changes:
        if one.event // batch != last:
            _apply(replay, net)
            net, last = {}, one.event // batch
        slot = (number[one.node], one.row)
        net[slot] = (net[slot][0] if slot in net else one.before, one.after)
    _apply(replay, net)
    return replay


def _apply(replay: PayloadReplay, net: dict[tuple[int, Row], tuple[int, int]]) -> None:
    for sign in (-1, 1):
        for (node, row), (before, after) in sorted(
            net.items(), key=lambda item: (sign * replay.turn[item[0][0]], item[0][0])
        ):
            if (after - before) * sign > 0:
                replay.reweigh(node, row, before, after)
    replay.publish()


def touches(plan: Plan, changes: Iterable[Copies], batch: int) -> float:
    """Returns the rows touched by publications per change, or 0 if there is no change."""
    given = list(changes)
    return replayed(plan, given, batch).touched / len(given) if given else 0.0
