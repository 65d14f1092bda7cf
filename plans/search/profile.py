"""What a recorded update log says about a query: rates, its kind of stream, and the enclosureness under each tree.

Enclosureness (Definitions 6.3 and 6.4): the effective lifespans of a tuple t of node e are its lifespan cut off at
the first later deletion (Î), or begun at the last earlier insertion (Ǐ), of a tuple below e; λ(t) is the largest
number of disjoint effective lifespans of tuples below e that lie within t's lifespan; λ of the log is the mean, at
least 1. Here a tuple may count with both of its effective lifespans, so that λ is exact where all nodes below e are
leaves, and at most twice the definition's value elsewhere; it still bounds the update time (Theorem 6.5).

Time is the number of the update as the engine sees it: one update of a self-joined relation is one update per alias.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from plans.errors import PlanError
from plans.plan import Node, Plan
from plans.planner import plan as make_plan
from plans.schema import arrow_type
from plans.search.amplification import amplification

FOREVER = 1 << 62
Row = tuple[Hashable, ...]
Event = tuple[str, Row, int]


@dataclass(frozen=True)
class TreeProfile:
    """A candidate tree on the log: its enclosureness, and counter changes per update of a node."""

    tree: str
    height: int
    cost: float
    enclosureness: float
    amplification: float


@dataclass(frozen=True)
class Profile:
    """The profile of a log. `kind` is `insert-only`, `FIFO` or `any`; `recommended` has the least amplification."""

    updates: int
    effective: int
    rates: Mapping[str, float]
    kind: str
    trees: tuple[TreeProfile, ...]
    recommended: str

    def text(self) -> str:
        """Returns the profile for a terminal."""
        rates = ", ".join(f"{name} {rate:g}" for name, rate in self.rates.items())
        left = max(len(t.tree) for t in self.trees)
        lines = [
            f"updates   {self.updates}, of which {self.effective} change a node of the tree",
            f"stream    {self.kind}",
            f"rates     {rates}",
            "",
            f"  {'tree':<{left}}  height  Σ depth·rate       λ  steps/update",
        ]
        for t in self.trees:
            mark = "  <- recommended" if t.tree == self.recommended else ""
            measures = f"{t.height:>6}  {t.cost:>12g}  {t.enclosureness:>6.2f}  {t.amplification:>12.2f}"
            lines.append(f"  {t.tree:<{left}}  {measures}{mark}")
        return "\n".join(lines) + "\n"


def profile(query: Any, schema: Any, log: Iterable[Event], *, trees: int = 8) -> Profile:
    """Profiles a query on a log of (relation, row, weight), rows as tuples in column order, weights ±n.

    The `trees` best candidates for the observed rates are compared. PlanError if the query is cyclic, or the log names
    an unknown relation. Cost: per tree O(n log n) for λ plus the replay's steps.
    """
    first = make_plan(query, schema)
    if any(node.bag is not None for node in first.nodes):
        raise PlanError("profile: the query is cyclic", hint="profile its acyclic part; bags have bounds of their own")
    events = list(log)
    _check(first, events)
    node_events = updates_of(first, events)
    rates = dict.fromkeys((n.name for n in first.nodes if n.kind == "input"), 0.0)
    rates.update(Counter(name for name, _, _ in node_events))
    aliases = {name: rate for name, rate in rates.items() if "[" not in name}
    best = make_plan(query, schema, rates=aliases)
    found = []
    for candidate in best.candidates[:trees]:
        made = make_plan(query, schema, rates=aliases, tree=candidate.tree)
        moved = _on(made, first, node_events, events)
        found.append(
            TreeProfile(
                candidate.tree,
                candidate.height,
                candidate.cost,
                enclosureness(made, moved),
                amplification(made, moved),
            )
        )
    least = min(found, key=lambda t: (round(t.amplification, 6), t.height, t.cost))
    return Profile(len(events), len(node_events), aliases, kind_of(events), tuple(found), least.tree)


def updates_of(plan: Plan, log: Sequence[Event]) -> list[tuple[str, Row, bool]]:
    """Returns the updates (node's name, row, insert?) that change a node: projected, filtered, and only 0 → 1 and 1 →
    0."""
    uses = Counter(name for node in plan.nodes if node.kind == "input" for name in node.attributes)
    inputs = [node for node in plan.nodes if node.kind == "input"]
    kept = {node.name: _passing(plan, node, log) for node in inputs}
    rows: dict[str, Counter[Row]] = {node.name: Counter() for node in inputs}
    out: list[tuple[str, Row, bool]] = []
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
            if (before == 0) != (after == 0):
                out.append((node.name, mine, after > 0))
    return out


def kind_of(log: Sequence[Event]) -> str:
    """Returns `insert-only`, `FIFO` (tuples leave in the order in which they came) or `any`."""
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


def lifespans(plan: Plan, updates: Iterable[tuple[int, Row, bool]]) -> list[list[tuple[int, int]]]:
    """Returns per node, the lifespans [insertion, deletion] of its tuples; `FOREVER` for those that stay."""
    alive: dict[tuple[int, Row], int] = {}
    spans: list[list[tuple[int, int]]] = [[] for _ in plan.nodes]
    for time, (node, row, insert) in enumerate(updates):
        if insert:
            alive[node, row] = time
        else:
            spans[node].append((alive.pop((node, row)), time))
    for (node, _), start in alive.items():
        spans[node].append((start, FOREVER))
    return spans


def enclosureness(plan: Plan, updates: Sequence[tuple[int, Row, bool]]) -> float:
    """Returns λ of a sequence of updates (node, row, insert?) under the plan's tree. O(n log n) per level of the
    tree."""
    spans = lifespans(plan, updates)
    total, count = 0, 0
    effective: list[list[tuple[int, int]]] = [[] for _ in plan.nodes]  # of all tuples in the node's subtree
    below: list[list[tuple[int, int]]] = [[] for _ in plan.nodes]  # plain lifespans of the same
    for node in range(len(plan.nodes) - 1, -1, -1):
        under = [span for child in plan.children(node) for span in effective[child]]
        plain = [span for child in plan.children(node) for span in below[child]]
        steps = _Jumps(under)
        total += sum(steps.count(start, end) for start, end in spans[node])
        count += len(spans[node])
        effective[node] = under + _effective(spans[node], plain)
        below[node] = plain + spans[node]
    return max(total / count, 1.0) if count else 1.0


def _effective(spans: list[tuple[int, int]], below: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not below:
        return list(spans)
    starts = sorted(start for start, _ in below)
    ends = sorted(end for _, end in below)
    out = []
    for start, end in spans:
        after = bisect_right(ends, start)
        before = bisect_left(starts, end)
        out.append((start, min(end, ends[after]) if after < len(ends) else end))
        out.append((max(start, starts[before - 1]) if before else start, end))
    return out


class _Jumps:
    """The greatest number of disjoint intervals inside a range, by always taking the next one that ends first."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        ordered = sorted(set(spans))
        self.starts = [start for start, _ in ordered]
        n = len(ordered)
        self.ends = [FOREVER + 1] * (n + 1)  # ends[i]: least end among intervals that start at starts[i] or later
        for i in range(n - 1, -1, -1):
            self.ends[i] = min(self.ends[i + 1], ordered[i][1])
        hop = [bisect_right(self.starts, self.ends[i]) for i in range(n)] + [n]
        self.hops = [hop]
        while any(h < n for h in self.hops[-1][:n]):
            last = self.hops[-1]
            self.hops.append([last[h] for h in last])

    def count(self, start: int, end: int) -> int:
        """Returns how many fit into [start, end]."""
        at, found = bisect_left(self.starts, start), 0
        if not self.starts or self.ends[at] > end:
            return 0
        for power in range(len(self.hops) - 1, -1, -1):
            target = self.hops[power][at]
            if target < len(self.starts) and self.ends[target] <= end:
                at = target
                found += 1 << power
        return found + 1


def _on(
    made: Plan, first: Plan, updates: list[tuple[str, Row, bool]], log: Sequence[Event]
) -> list[tuple[int, Row, bool]]:
    """Returns the same updates under another tree of the query: node numbers, and rows in its attribute order."""
    names = {node.name: i for i, node in enumerate(made.nodes)}
    same = all(n.name in names and made.nodes[names[n.name]].attributes == n.attributes
               for n in first.nodes if n.kind == "input")  # fmt: skip
    if not same:
        updates = updates_of(made, log)
    return [(names[name], row, insert) for name, row, insert in updates]


def _passing(plan: Plan, node: Node, log: Sequence[Event]) -> list[bool]:
    """Returns for each update of the log, whether the node's predicate lets its row through."""
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


def _check(plan: Plan, log: Sequence[Event]) -> None:
    tables = {table.name.lower(): table for table in plan.tables}
    for number, (relation, row, _) in enumerate(log, 1):
        if relation.lower() not in tables:
            known = ", ".join(table.name for table in plan.tables)
            raise PlanError(f"update {number} is of {relation}, which the query does not use", hint=f"it uses {known}")
        if len(row) != len(tables[relation.lower()].columns):
            raise PlanError(f"update {number} of {relation} has {len(row)} values, the table has "
                            f"{len(tables[relation.lower()].columns)} columns")  # fmt: skip
