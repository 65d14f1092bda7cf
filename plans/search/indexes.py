"""Finds edges of a join tree that share an index: those with the same columns of the same relations as keys.

An edge needs an index of the keys of its two ends. In a self-join several edges have the same ends: on every edge of a
path over a graph meet a source and a target of it. Such edges have one index, and one look-up of a key finds what all
of them keep.
"""

from __future__ import annotations

from plans.plan import Plan

_Columns = tuple[str, tuple[str, ...]]
"""Columns of a relation, or of a node that is none, in the order of a key."""


def index_of(plan: Plan) -> tuple[int, ...]:
    """Returns, per node, the first node whose edge to its parent has the same index; of the root, 0."""
    first: dict[frozenset[_Columns], int] = {}
    return tuple(0 if i == 0 else first.setdefault(_ends(plan, i), i) for i in range(len(plan.nodes)))


def _ends(plan: Plan, i: int) -> frozenset[_Columns]:
    """Returns the columns that fill the index of the edge above a node.

    Predicates do not count: a key that only one edge has costs a few words, in the index that is there anyway.
    """
    node = plan.nodes[i]
    return _end(plan, i, node.key) | _end(plan, node.parent, node.key)


def _end(plan: Plan, i: int, key: tuple[str, ...]) -> frozenset[_Columns]:
    """Returns the columns that the values of a key come from at a node; a virtual one has those of its children."""
    node = plan.nodes[i]
    if node.kind == "virtual":
        return frozenset().union(*(_end(plan, c, key) for c in plan.children(i)))
    if node.kind != "input":
        return frozenset({(f"node {i}", key)})
    columns = dict(zip(node.attributes, node.columns, strict=True))
    return frozenset({(f"relation {node.relation.lower()}", tuple(columns[a].lower() for a in key))})
