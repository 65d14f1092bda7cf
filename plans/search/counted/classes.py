"""Classifies a join core by the cost of propagating a change of one row, and names the edge that determines the class.

- q-hierarchical: a tree of height 1, O(1) for every stream.
- keyed: the same, but only because declared keys make the rows unique to which changes propagate.
- flat: every edge to a bound relation is quiet or has fan 1 (`plans.search.counted.fans`), so publications cost no more
  than counters: O(λ).
- layered: some edge is neither; a change then touches as many rows as join along the path above that edge, which λ does
  not bound.
- completed: the output was extended, and the rows that join are enumerated.
- cyclic: a bag is joined anew with each change.

Rows of a set are not counted, so its tree is never layered.
"""

from __future__ import annotations

from dataclasses import dataclass

from plans.payloads.payload import EXISTS
from plans.plan import Bound, Plan
from plans.search.counted.fans import Fans, fans
from plans.theory.hypergraph import Hypergraph

CONSTANT, LOGARITHMIC, ENCLOSED, ENUMERATED, FIRST_ORDER, BAG, RECURSIVE = range(7)
"""How the cost of an update grows, from the best: O(1), O(log n), O(λ), with the joined rows, with a path, with a
bag, with what is derived."""


@dataclass(frozen=True)
class Edge:
    """An edge with a payload, from node `child` up. `fan_one`: at most one row of the parent has a given key of the
    edge."""

    child: int
    parent: int
    quiet: bool
    fan_one: bool
    to_bound: bool

    @property
    def open(self) -> bool:
        """Returns whether a change on the edge touches an unbounded number of rows."""
        return self.to_bound and not (self.quiet or self.fan_one)


@dataclass(frozen=True)
class JoinClass:
    """The class of a join core. `growth` is one of the constants above, `update` the cost in words.

    `witness` names the edge, cycle or attribute that determines the class. `path`: the nodes along which a layered core
    touches rows. `completed`: the attributes that were added to the output.
    """

    name: str
    growth: int
    update: str
    witness: str = ""
    path: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()


def edges(plan: Plan) -> dict[int, Edge]:
    """Returns the edges with payloads by the node below them. The plan of a set has none."""
    if plan.payload is None:
        return {}
    graph = Hypergraph(tuple(plan.attributes), ())
    known = fans(plan.nodes, plan.tables, graph)
    found: dict[int, Edge] = {}
    for i in reversed(range(1, len(plan.nodes))):
        node = plan.nodes[i]
        if node.free or plan.payload.kinds[i] == EXISTS:
            continue
        quiet = _quiet(plan, known, graph, i) and all(found[c].quiet for c in plan.children(i) if c in found)
        parent = plan.nodes[node.parent]
        one = parent.kind == "virtual" or known.one_row(
            node.parent, graph.mask(parent.attributes), graph.mask(node.key)
        )
        found[i] = Edge(i, node.parent, quiet, one, not parent.free)
    return found


def _quiet(plan: Plan, known: Fans, graph: Hypergraph, i: int) -> bool:
    node = plan.nodes[i]
    return known.quiet(i, graph.mask(node.attributes), graph.mask(node.key))


def join_class(plan: Plan) -> JoinClass:
    """Returns the class of a join core. O(nodes), plus a closure of keys per edge."""
    made = _by_tree(plan)
    added = plan.added
    if not added:
        return made
    joined = f"{made.update}, and the joined rows that change: {', '.join(added)} {_are(added)} enumerated"
    growth = max(made.growth, ENUMERATED)
    return JoinClass(f"{made.name}, completed", growth, joined, made.witness, made.path, added)


def _by_tree(plan: Plan) -> JoinClass:
    base = _bound(plan.bounds)
    if any(node.bag is not None for node in plan.nodes):
        return JoinClass("cyclic", BAG, plan.bounds[0].update, f"cycle: {plan.query_class.get('cycle', '')}")
    path = _open_path(plan)
    if path:
        names = tuple(plan.nodes[i].name for i in path)
        update = f"{base}; first order along {' -> '.join(names)}: the number of rows that join along this path"
        return JoinClass("layered", FIRST_ORDER, update, _open_edge(plan, path), names)
    counted = " and the changed groups" if plan.payload is not None else ""
    if plan.height <= 1:
        name = "q-hierarchical" if plan.query_class["hierarchical"] else "keyed"
        return JoinClass(name, CONSTANT, f"O(1) per change{counted}")
    return JoinClass("flat", ENCLOSED, f"{base}{counted and ',' + counted}", _longest(plan))


def _bound(known: tuple[Bound, ...]) -> str:
    """Returns the bounds of a tree in one phrase."""
    constant = [b.stream for b in known if b.update.startswith("O(1)")]
    if any(stream == "any" for stream in constant) or not known:
        return "O(1) per change"
    return "O(λ) per change amortized" + (f", O(1) on {' and '.join(constant)} streams" if constant else "")


def _open_path(plan: Plan) -> list[int]:
    """Returns the nodes from below an open edge up to the free nodes: the path with the most open edges."""
    known = edges(plan)
    best: list[int] = []
    most = 0
    for start, edge in known.items():
        if not edge.open:
            continue
        path, count, at = [start], 0, start
        while at in known:
            count += known[at].open
            at = known[at].parent
            path.append(at)
        if count > most:
            best, most = path, count
    while best and plan.nodes[best[-1]].free:
        best.pop()
    return best


def _open_edge(plan: Plan, path: list[int]) -> str:
    known = edges(plan)
    first = next(i for i in path if i in known and known[i].open)
    child, parent = plan.nodes[first], plan.nodes[plan.nodes[first].parent]
    key, one, other = ", ".join(child.key) or "nothing", child.name, parent.name
    return f"edge {one} -> {other} by {key}: no declared key makes {key} unique in {other} or in {one}"


def _longest(plan: Plan) -> str:
    """Returns a path from a leaf to the root that is as long as the tree is high."""
    best: list[str] = []
    for i in range(len(plan.nodes)):
        path, at = [], i
        while at >= 0:
            if plan.nodes[at].kind != "virtual":
                path.append(plan.nodes[at].name)
            at = plan.nodes[at].parent
        best = max(best, path, key=len)
    return f"path {' -> '.join(best)} of height {len(best)}"


def _are(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"
