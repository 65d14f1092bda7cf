"""Plans of bags, which count how often a row occurs. The tree is that of the set plan, with weights instead of
membership.

The multiplicity of a row is the sum over its valuations of the products of the multiplicities of the joined rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from plans.errors import PlanError
from plans.payloads.payload import COUNTED, DOWN, EXISTS, INDICATOR, MINUS, PLUS, UP, VALID, VALUE, Payload, factor_bits
from plans.plan import Node, Plan
from plans.programs.reads import rows_of


def with_multiplicities(plan: Plan) -> Plan:
    """Returns the plan with the multiplicities of its rows. All relations are counted.

    `plan` MUST be made from atoms none of which was merged with an equal one, or absorbed by a bag that is not the
    whole plan. A projection that normal form adds does not count, and neither does a bag that is not the whole plan: it
    determines which rows of its atoms join.
    """
    alone = len(plan.nodes) == 1
    kinds = tuple(
        COUNTED if alone or (node.kind == "input" and "[" not in node.name) else INDICATOR for node in plan.nodes
    )
    made = replace(plan, nodes=_bound(plan.nodes), support=False, consolidated=False, payload=Payload(kinds))
    check(made)
    return made


def summed_leaves(plan: Plan) -> frozenset[int]:
    """Returns the bound leaves of a plan with a payload whose rows count and are read by no other node.

    Only their sums per key are needed.
    """
    assert plan.payload is not None, "a plan with a payload is wanted"
    stored = Counter(rows_of(node) for node in plan.nodes if node.kind == "input")
    leaves = set(range(len(plan.nodes))) - {node.parent for node in plan.nodes}
    return frozenset(
        i
        for i in leaves
        if plan.payload.kinds[i] == COUNTED and not plan.nodes[i].free and stored[rows_of(plan.nodes[i])] == 1
    )


def _bound(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Returns the nodes, bound unless they or a node below them add an output attribute. Rows of bound nodes are
    summed, not enumerated."""
    adds = [node.parent < 0 or (node.free and set(node.attributes) > set(node.key)) for node in nodes]
    for i in reversed(range(1, len(nodes))):
        adds[nodes[i].parent] |= adds[i]
    return tuple(replace(node, free=add) for node, add in zip(nodes, adds, strict=True))


def check(plan: Plan) -> None:
    """Raises PlanError unless the plan's payload can be maintained on its tree."""
    payload = plan.payload
    assert payload is not None
    kinds, nodes = payload.kinds, plan.nodes
    if len(kinds) != len(nodes):
        raise PlanError(f"the payload has the kinds of {len(kinds)} nodes, but the plan has {len(nodes)} nodes")
    if not nodes[0].free:
        raise PlanError(f"the root {nodes[0].name} is bound; put it under a virtual node without attributes")
    for i, (kind, node) in enumerate(zip(kinds, nodes, strict=True)):
        if kind not in (COUNTED, INDICATOR, EXISTS):
            raise PlanError(f"node {node.name} cannot be {kind!r}; a node is counted, indicator or exists")
        if kind == COUNTED and node.kind != "input" and not plan.listed:
            raise PlanError(f"{node.name} is not stored with multiplicities, so it cannot be counted")
        if kind == EXISTS and node.free:
            raise PlanError(f"{node.name} cannot be a filter only: it is free")
        if kind != EXISTS and node.parent >= 0 and kinds[node.parent] == EXISTS:
            raise PlanError(f"{node.name} is {kind}, but its parent {nodes[node.parent].name} is a filter")
        filters = [kinds[c] == EXISTS for c in plan.children(i)]
        if node.kind == "virtual" and kind == INDICATOR and not node.free and all(filters):
            raise PlanError(f"all nodes below {node.name} are filters, so its kind must be exists")
    if not payload.terms or payload.terms[0]:
        raise PlanError("the first term of a payload is empty: it counts")
    for term in payload.terms:
        if tuple(sorted(term)) != term:
            raise PlanError("the factors of a term are not in order")
        for i, name, what in term:
            if nodes[i].free or kinds[i] == EXISTS:
                raise PlanError(f"{name} of {nodes[i].name} cannot be a factor: the node is not bound and counted")
            if name not in nodes[i].attributes:
                raise PlanError(f"{name} is not an attribute of {nodes[i].name}")
            if what not in (VALUE, VALID, PLUS, MINUS, UP, DOWN):
                raise PlanError(f"{what!r} of {name} cannot be a factor")
            factor_bits(plan.attributes[name].type, what)
