"""Maps a recorded log to the nodes of a tree: the rows inserted and deleted at each, with copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from plans.plan import Node, Plan
from plans.types import arrow_type

Row = tuple[Hashable, ...]
Event = tuple[str, Row, int]
"""A change in a log: relation, row in column order, copies that are inserted or deleted."""


@dataclass(frozen=True)
class Copies:
    """A row of a node at event `event` of a log: the numbers of copies before and after it."""

    event: int
    node: str
    row: Row
    before: int
    after: int


def updates_of(plan: Plan, log: Sequence[Event]) -> list[tuple[str, Row, bool]]:
    """Returns the updates (node's name, row, insert?) that change a node: projected, filtered, and only 0 → 1 and 1 →
    0."""
    changes = copies_of(plan, log)
    return [(one.node, one.row, one.after > 0) for one in changes if (one.before == 0) != (one.after == 0)]


def copies_of(plan: Plan, log: Sequence[Event]) -> Iterator[Copies]:
    """Yields the changes of each node by each event: projected, filtered, and without deletes of absent rows."""
    uses = Counter(name for node in plan.nodes if node.kind == "input" for name in node.attributes)
    inputs = [node for node in plan.nodes if node.kind == "input"]
    kept = {node.name: _passing(plan, node, log) for node in inputs}
    rows: dict[str, Counter[Row]] = {node.name: Counter() for node in inputs}
    for index, (relation, row, weight) in enumerate(log):
        for node in inputs:
            if node.relation.lower() != relation.lower() or not kept[node.name][index]:
                continue
            table = plan.table(node.relation)
            places = [next(i for i, c in enumerate(table.columns) if c.name == name) for name in node.columns]
            mine = tuple(row[p] for p in places)
            never = (uses[a] > 1 and v is None and not plan.attributes[a].null_safe
                     for a, v in zip(node.attributes, mine, strict=True))  # fmt: skip
            if any(never):
                continue
            before = rows[node.name][mine]
            after = max(before + weight, 0)
            rows[node.name][mine] = after
            if before != after:
                yield Copies(index, node.name, mine, before, after)


def kind_of(log: Sequence[Event]) -> str:
    """Returns `insert-only`, `FIFO` (tuples are deleted in the order of their insertion) or `any`."""
    if all(weight > 0 for _, _, weight in log):
        return "insert-only"
    present: dict[tuple[str, Row], int] = {}
    came: list[int] = []
    for time, (relation, row, weight) in enumerate(log):
        name = (relation.lower(), row)
        if weight > 0:
            present.setdefault(name, time)
        elif name in present:
            came.append(present.pop(name))
    ordered = all(a < b for a, b in pairwise(came))
    return "FIFO" if ordered and (not came or all(time > came[-1] for time in present.values())) else "any"


def _passing(plan: Plan, node: Node, log: Sequence[Event]) -> list[bool]:
    """Returns, for each update of the log, whether its row passes the node's predicate."""
    if node.predicate is None:
        return [True] * len(log)
    mine = [i for i, (relation, _, _) in enumerate(log) if relation.lower() == node.relation.lower()]
    table = plan.table(node.relation)
    columns = {
        column.name: pa.array([log[i][1][p] for i in mine], arrow_type(column.type))
        for p, column in enumerate(table.columns)
    }
    verdicts = node.predicate.evaluate(columns, len(mine)).to_pylist()
    kept = [False] * len(log)
    for i, verdict in zip(mine, verdicts, strict=True):
        kept[i] = verdict is True
    return kept
