"""Finds edges of a join tree that share an index, because their keys are the same columns of the same relations.

An edge needs an index of the keys of its two nodes. In a self-join several edges connect the same columns: every edge
of a path over a graph connects a source with a target. Such edges share an index, and one look-up of a key finds the
groups of all of them.
"""

from __future__ import annotations

from plans.plan import Plan

_Columns = tuple[str, tuple[str, ...]]
"""Columns, in the order of a key, of a relation or of a node that is not a relation."""


def index_of(plan: Plan) -> tuple[int, ...]:
    """Returns, for each node, the first node whose edge to its parent has the same index; 0 for the root."""
    first: dict[frozenset[_Columns], int] = {}
    return tuple(0 if i == 0 else first.setdefault(_ends(plan, i), i) for i in range(len(plan.nodes)))


def _ends(plan: Plan, i: int) -> frozenset[_Columns]:
    """Returns the columns whose values fill the index of the edge above a node.

    Predicates are ignored: a key that only one of the edges has costs a few words in an index that exists anyway.
    """
    node = plan.nodes[i]
    return _end(plan, i, node.key) | _end(plan, node.parent, node.key)


def _end(plan: Plan, i: int, key: tuple[str, ...]) -> frozenset[_Columns]:
    """Returns the columns that supply the values of a key at a node. A virtual node has those of its children."""
    node = plan.nodes[i]
    if node.kind == "virtual":
        return frozenset().union(*(_end(plan, c, key) for c in plan.children(i)))
    if node.kind != "input":
        return frozenset({(f"node {i}", key)})
    columns = dict(zip(node.attributes, node.columns, strict=True))
    return frozenset({(f"relation {node.relation.lower()}", tuple(columns[a].lower() for a in key))})
