"""What a join core maintains beside its tuples: payloads, exact integers that count and sum over bound attributes.

A *term* is a product of local factors, one attribute of a node each; the value of a tuple of the output attributes is,
per term, the sum over its valuations of the multiplicities times the factors. The first term is empty: it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from plans.errors import PlanError
from plans.plan import Plan
from plans.schema import decimal_parts

COUNTED, INDICATOR, EXISTS = "counted", "indicator", "exists"
LIMB = 64
_COUNT_BITS = 63

Factor = tuple[int, str]
"""(node, attribute of it): the attribute's value, 0 where it is NULL."""
Term = frozenset[Factor]


@dataclass(frozen=True)
class Payload:
    """The kind of every node, and the terms; `terms[0]` is empty.

    `counted`: a row weighs as many as it has copies. `indicator`: it weighs 1, and its attributes are those of counted
    nodes; virtual nodes and bags are. `exists`: it only filters, and what is below it does too.
    """

    kinds: tuple[str, ...]
    terms: tuple[Term, ...] = (frozenset(),)

    def check(self, plan: Plan) -> None:
        """Raises PlanError unless this is a payload of that plan."""
        if len(self.kinds) != len(plan.nodes):
            raise PlanError(f"the payload says the kinds of {len(self.kinds)} nodes, the plan has {len(plan.nodes)}")
        for i, (kind, node) in enumerate(zip(self.kinds, plan.nodes, strict=True)):
            if kind not in (COUNTED, INDICATOR, EXISTS):
                raise PlanError(f"node {node.name} cannot be {kind!r}; a node is counted, indicator or exists")
            if kind == COUNTED and node.kind != "input":
                raise PlanError(f"{node.name} is not stored with multiplicities, so it cannot be counted")
            if kind == EXISTS and node.free:
                raise PlanError(f"{node.name} cannot be a filter only: it is free")
            if kind != EXISTS and node.parent >= 0 and self.kinds[node.parent] == EXISTS:
                raise PlanError(f"{node.name} is {kind}, but stands below {plan.nodes[node.parent].name}, a filter")
            if node.parent < 0 and not node.free:
                raise PlanError(f"the root {node.name} is bound; put it under a virtual node without attributes")
            if node.kind == "virtual" and kind == INDICATOR:
                below = [self.kinds[c] for c in plan.children(i)]
                if not node.free and below and all(k == EXISTS for k in below):
                    raise PlanError(f"all that is below {node.name} are filters, so it is one: exists")
        if not self.terms or self.terms[0]:
            raise PlanError("the first term of a payload is empty: it counts")
        for term in self.terms:
            if len({i for i, _ in term}) < len(term):
                raise PlanError("a term has two factors of one node", hint="compute their product as one attribute")
            for i, name in term:
                self._check_factor(plan, i, name)

    def _check_factor(self, plan: Plan, i: int, name: str) -> None:
        node = plan.nodes[i]
        if node.free or self.kinds[i] == EXISTS:
            raise PlanError(f"{name} of {node.name} cannot be a factor: the node is not bound and counted")
        if name not in node.attributes:
            raise PlanError(f"{name} is not an attribute of {node.name}")
        factor_bits(plan.attributes[name].type)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form; `from_json` is its inverse."""
        return {"kinds": list(self.kinds), "terms": [sorted([i, name] for i, name in term) for term in self.terms]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Payload:
        """The inverse of `to_json`."""
        terms = tuple(frozenset((int(i), str(name)) for i, name in term) for term in data["terms"])
        return Payload(tuple(data["kinds"]), terms)


def count_payload(plan: Plan) -> Payload:
    """Returns the payload of a bag of rows: how often every result row occurs, counting the copies of all relations."""
    kinds = tuple(COUNTED if node.kind == "input" else INDICATOR for node in plan.nodes)
    return Payload(kinds)


def factor_bits(kind: str) -> int:
    """Bits of the largest absolute value of a factor of that type. Raises PlanError where it has none."""
    parts = decimal_parts(kind)
    if parts and parts[0] <= 18:
        return ceil(3.33 * parts[0])
    bits = {"bool": 0, "int32": 31, "int64": 63}.get(kind)
    if bits is None:
        raise PlanError(f"a factor must be a whole number of one word, not {kind}")
    return bits


def limbs_of(term: Term, plan: Plan) -> int:
    """Limbs of a sum of this term that cannot overflow while the count fits 63 bits."""
    bits = _COUNT_BITS + sum(factor_bits(plan.attributes[name].type) for _, name in term) + 1
    return ceil(bits / LIMB)
