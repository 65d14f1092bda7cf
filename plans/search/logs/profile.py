"""Profiles a recorded update log: rates, kind of stream, and the enclosureness under each tree.

Enclosureness (Definitions 6.3 and 6.4): the effective lifespans of a tuple t of node e are its lifespan cut off at the
first later deletion (Î), or started at the last earlier insertion (Ǐ), of a tuple below e; λ(t) is the largest number
of disjoint effective lifespans of tuples below e within the lifespan of t; λ of the log is the mean, at least 1. Here a
tuple may count with both of its effective lifespans, so λ is exact if all nodes below e are leaves, and otherwise at
most twice the value of the definition. It still bounds the update time (Theorem 6.5).

Time is the number of the update as the engine counts: one update of a self-joined relation is one update per alias.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.lowering.joins.cores import plan_of
from plans.plan import Plan
from plans.planner import parse
from plans.planner import plan as make_plan
from plans.queries.algebra import Group, Query
from plans.queries.conjunction import is_set
from plans.search.logs.amplification import amplification
from plans.search.logs.touches import touches
from plans.search.logs.updates import Event, Row, copies_of, kind_of, updates_of

FOREVER = 1 << 62


@dataclass(frozen=True)
class TreeProfile:
    """A candidate tree on the log: its enclosureness, the changes of counters per update of a node, and, if rows are
    counted, the rows touched by publications per update (`plans.search.logs.touches`)."""

    tree: str
    height: int
    cost: float
    enclosureness: float
    amplification: float
    touches: float = 0.0


@dataclass(frozen=True)
class Profile:
    """The profile of a log. `kind` is `insert-only`, `FIFO` or `any`. `recommended` has the least amplification.

    If rows are counted (`batch` > 0, the number of events that are published together), `recommended` has the least sum
    of amplification and touches.
    """

    updates: int
    effective: int
    rates: Mapping[str, float]
    kind: str
    trees: tuple[TreeProfile, ...]
    recommended: str
    batch: int = 0

    def text(self) -> str:
        """Returns the profile as text for a terminal."""
        rates = ", ".join(f"{name} {rate:g}" for name, rate in self.rates.items())
        left = max(len(t.tree) for t in self.trees)
        measure, touches = ("Σ touches", "  touches/update") if self.batch else ("Σ depth·rate", "")
        lines = [
            f"updates   {self.updates}, of which {self.effective} change a node of the tree",
            f"stream    {self.kind}",
            f"rates     {rates}",
            *([f"batches   of {self.batch}"] if self.batch else []),
            "",
            f"  {'tree':<{left}}  height  {measure:>12}       λ  steps/update{touches}",
        ]
        for t in self.trees:
            mark = "  <- recommended" if t.tree == self.recommended else ""
            measures = f"{t.height:>6}  {t.cost:>12g}  {t.enclosureness:>6.2f}  {t.amplification:>12.2f}"
            measures += f"  {t.touches:>14.2f}" if self.batch else ""
            lines.append(f"  {t.tree:<{left}}  {measures}{mark}")
        return "\n".join(lines) + "\n"


def profile(query: Any, schema: Any, log: Iterable[Event], *, trees: int = 8, batch: int = 1) -> Profile:
    """Profiles a query on a log of (relation, row, weight), with rows as tuples in column order and weights ±n.

    The `trees` best candidates for the observed rates are compared. `batch`: the number of events that are applied
    together, for a query whose rows are counted. For a grouped query, its join is profiled. Raises PlanError if the
    query is cyclic, or if the log names an unknown relation. Cost: per tree O(n log n) for λ, plus the steps of the
    replay.
    """
    if trees < 1:
        raise PlanError(f"profile: {trees} trees", hint="compare 1 or more")
    if batch < 1:
        raise PlanError(f"profile: batches of {batch} events", hint="a batch has 1 or more")
    make = _maker(query, schema)
    first = make(None, None)
    if any(node.bag is not None for node in first.nodes):
        raise PlanError("profile: the query is cyclic", hint="profile its acyclic part; bags have bounds of their own")
    events = list(log)
    _check(first, events)
    node_events = updates_of(first, events)
    rates = dict.fromkeys((n.name for n in first.nodes if n.kind == "input"), 0.0)
    rates.update(Counter(name for name, _, _ in node_events))
    aliases = {name: rate for name, rate in rates.items() if "[" not in name}
    best = make(aliases, None)
    found = []
    for candidate in best.candidates[:trees]:
        made = make(aliases, candidate.tree)
        moved = _on(made, first, node_events, events)
        found.append(
            TreeProfile(
                candidate.tree,
                candidate.height,
                candidate.cost,
                enclosureness(made, moved),
                amplification(made, moved),
                0.0 if made.payload is None else touches(made, copies_of(made, events), batch),
            )
        )
    least = min(found, key=lambda t: (round(t.amplification + t.touches, 6), t.height, t.cost))
    counted = batch if best.payload is not None else 0
    return Profile(len(events), len(node_events), aliases, kind_of(events), tuple(found), least.tree, counted)


_Maker = Callable[[Mapping[str, float] | None, str | None], Plan]


def _maker(query: Any, schema: Any) -> _Maker:
    """Returns a function that plans the join of a query for given rates and a given tree. A join that is a bag or is
    grouped is counted."""
    relation: Any = parse(query, schema) if isinstance(query, str) and not query.lstrip().startswith("{") else query
    rows = relation.input if isinstance(relation, Group) else relation
    if isinstance(rows, Query) and not is_set(rows) and all(s.join == "inner" and not s.input for s in rows.sources):
        core = rows
        return lambda rates, tree: plan_of(core, rates, tree, counted=True)
    return lambda rates, tree: make_plan(relation, schema, rates=rates, tree=tree)


def lifespans(plan: Plan, updates: Iterable[tuple[int, Row, bool]]) -> list[list[tuple[int, int]]]:
    """Returns, for each node, the lifespans [insertion, deletion] of its tuples. `FOREVER` is the end of those that
    stay."""
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
    below: list[list[tuple[int, int]]] = [[] for _ in plan.nodes]  # plain lifespans of the same tuples
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
    """Counts the most disjoint intervals inside a range, by always taking the next interval with the earliest end."""

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
        """Returns how many disjoint intervals fit into [start, end]."""
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
    """Returns the same updates for another tree of the query: with its node numbers, and rows in its attribute
    order."""
    names = {node.name: i for i, node in enumerate(made.nodes)}
    same = all(n.name in names and made.nodes[names[n.name]].attributes == n.attributes
               for n in first.nodes if n.kind == "input")  # fmt: skip
    if not same:
        updates = updates_of(made, log)
    return [(names[name], row, insert) for name, row, insert in updates]


def _check(plan: Plan, log: Sequence[Event]) -> None:
    tables = {table.name.lower(): table for table in plan.tables}
    for number, (relation, row, _) in enumerate(log, 1):
        if relation.lower() not in tables:
            known = ", ".join(table.name for table in plan.tables)
            raise PlanError(
                f"update {number} is a change of {relation}, which the query does not use", hint=f"it uses {known}"
            )
        if len(row) != len(tables[relation.lower()].columns):
            raise PlanError(f"update {number} of {relation} has {len(row)} values, the table has "
                            f"{len(tables[relation.lower()].columns)} columns")  # fmt: skip
