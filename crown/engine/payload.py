"""Lays out payloads: which integers each node and each result stores, and at which words.

Terms with the same factors below a node share a part there, so a leaf stores only parts that differ. Parts with fewer
limbs come first; the count is the very first. A part of doubles has a word after its limbs, for its far part
(``crown.kernels.numbers.fixed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from crown.engine.kernels import layout as L
from crown.kernels.memory.geometry import link_of, payload_words
from crown.kernels.numbers.fixed import FAR_LIMBS
from plans.payloads.counting import check
from plans.payloads.payload import (
    COUNTED,
    DOWN,
    EXISTS,
    MINUS,
    PLUS,
    UP,
    VALID,
    VALUE,
    Payload,
    Term,
    doubles_of,
    limbs_of,
)
from plans.plan import Plan

Place = Callable[[Sequence[int]], int]
"""Appends words to the plan array and returns their offset."""
_FACTOR_KINDS = {VALUE: L.WORD, VALID: L.IS_VALID, UP: L.IS_UP, DOWN: L.IS_DOWN}
_FACTOR_KINDS_OF_DOUBLES = {
    VALUE: L.FLOAT, PLUS: L.IS_PLUS, MINUS: L.IS_MINUS, UP: L.IS_UP, DOWN: L.IS_DOWN_FLOAT,
}  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """The parts of a payload, in order.

    ``terms``: the term of each part. ``at``: its first word. ``limbs``: its number of limbs. ``doubles``: the number of
    doubles in its product.
    """

    terms: tuple[Term, ...]
    at: Mapping[Term, int]
    limbs: Mapping[Term, int]
    doubles: Mapping[Term, int]

    @property
    def words(self) -> int:
        """Returns the words of all parts."""
        return sum(self.limbs.values()) + len(self.far)

    @cached_property
    def far(self) -> list[tuple[int, int]]:
        """Returns the first word and the limbs of each part that can have a far part."""
        return [(self.at[term], self.limbs[term]) for term in self.terms if self.doubles[term]]

    def far_limbs(self, term: Term) -> int:
        """Returns the limbs of the far part of a term's part; 0 if it cannot have one."""
        doubles = self.doubles[term]
        return self.limbs[term] + FAR_LIMBS * doubles if doubles else 0

    @staticmethod
    def of(terms: Iterable[Term], plan: Plan) -> Parts:
        """Returns the distinct terms among ``terms`` as parts."""
        factors = {term: [(plan.attributes[name].type, kind) for _, name, kind in term] for term in terms}
        limbs = {term: limbs_of(kinds) for term, kinds in factors.items()}
        ordered = sorted(limbs, key=lambda term: (limbs[term], len(term)))
        doubles = {term: doubles_of(factors[term]) for term in ordered}
        at, word = {}, 0
        for term in ordered:
            at[term] = word
            word += limbs[term] + (doubles[term] > 0)
        return Parts(tuple(ordered), at, {term: limbs[term] for term in ordered}, doubles)


class PayloadLayout:
    """The layout of the payloads of ``plan``. ``result``: the parts of a result row. Raises PlanError."""

    def __init__(self, plan: Plan, payload: Payload) -> None:
        check(plan)
        self._plan = plan
        self._payload = payload
        self._children = [plan.children(i) for i in range(len(plan.nodes))]
        self.result = Parts.of(payload.terms, plan)
        self.parts = [self._parts(i) for i in range(len(plan.nodes))]
        self.weighing = [i for i, node in enumerate(plan.nodes) if node.free and self.weighs(i)]

    def _parts(self, i: int) -> Parts:
        """Returns the parts of the groups above node ``i``. For a free node these are the parts of a result."""
        if self._plan.nodes[i].free:
            return self.result
        return Parts.of((self.below(term, i) for term in self._payload.terms), self._plan)

    def below(self, term: Term, i: int) -> Term:
        """Returns the factors of a term that belong to node ``i`` or a node below it."""
        inside = self._subtree(i)
        return tuple(factor for factor in term if factor[0] in inside)

    def _subtree(self, i: int) -> set[int]:
        return {i}.union(*(self._subtree(c) for c in self._children[i]))

    def doubles(self, i: int) -> set[str]:
        """Returns the attributes of node ``i`` that are doubles and factors of sums."""
        factors = {factor for term in self._payload.terms for factor in term if factor[0] == i and factor[2] == VALUE}
        return {name for _, name, _ in factors if self._plan.attributes[name].type == "float64"}

    def has_groups(self, i: int) -> bool:
        """Returns True iff the groups above node ``i`` have payloads."""
        return not self._plan.nodes[i].free and self._payload.kinds[i] != EXISTS

    def links(self, i: int) -> list[int]:
        """Returns the children of node ``i`` whose payloads multiply its rows."""
        return [c for c in self._children[i] if self.has_groups(c)]

    def weighs(self, i: int) -> bool:
        """Returns True iff a row of node ``i`` can have another value than 1."""
        return self._payload.kinds[i] == COUNTED or bool(self.links(i))

    def extra_words(self, i: int) -> int:
        """Returns the payload words of the groups above node ``i``."""
        return int(payload_words(self.parts[i].words)) if self.has_groups(i) else 0

    def edges(self) -> list[int]:
        """Returns the nodes below the edges with payloads, deepest first. In preorder, children follow their
        parents."""
        depth = [0] * len(self._plan.nodes)
        for i, node in enumerate(self._plan.nodes):
            depth[i] = depth[node.parent] + 1 if node.parent >= 0 else 0
        return sorted((i for i in range(len(depth)) if self.has_groups(i)), key=lambda i: -depth[i])

    @cached_property
    def first_handle(self) -> int:
        """Returns the first column with handles, after the free attributes and the payload of a result."""
        return len(self._plan.free) + self.result.words

    @cached_property
    def columns(self) -> int:
        """Returns the number of columns of an enumeration."""
        return self.first_handle + len(self.weighing)

    @property
    def scratch_words(self) -> tuple[int, int, int, int]:
        """Returns the words of the largest payload, the limbs of the largest integer, the largest total of far limbs of
        a payload, and the limbs of the largest far part."""
        every = [*self.parts, self.result]
        far = [[parts.far_limbs(term) for term in parts.terms] for parts in every]
        limbs = max(n for parts in every for n in parts.limbs.values())
        return max(parts.words for parts in every), limbs, max(map(sum, far)), max(map(max, far))

    def handle_column(self, i: int) -> int:
        """Returns the column with the handles of free node ``i``."""
        return self.first_handle + self.weighing.index(i)

    def descriptor(self, i: int, offset_of: Callable[[str], int], place: Place) -> int:
        """Places the payload descriptor of node ``i``. Returns its offset, or 0 if it has none.

        ``offset_of``: returns the offset of an attribute from the row.
        """
        if i not in self.weighing and not self.has_groups(i):
            return 0
        node, links = self._plan.nodes[i], self.links(i)
        pairs = [w for c in links for w in (link_of(self._children[i].index(c)), len(self._plan.nodes[c].key))]
        parts: list[int] = []
        for term, head in zip(self.parts[i].terms, _heads(self.parts[i]), strict=True):
            factors = [w for e, name, kind in term if e == i for w in (offset_of(name), self._factor_kind(name, kind))]
            word, limbs, *_, doubles, _, far = head
            parts += [word, limbs, len(factors) // 2, place(factors), doubles, self._before(term, i), far]
            for c in links:
                part = self.below(term, c)
                parts += [self.parts[c].at[part], self.parts[c].limbs[part], self.parts[c].doubles[part]]
        column = self.handle_column(i) if node.free else 0
        above = 0 if node.free else self.links(node.parent).index(i)
        weighed = int(self._payload.kinds[i] == COUNTED)
        sizes, doubles = _sizes(self.parts[i]), len(self.parts[i].far)
        return place([*sizes, weighed, column, above, len(links), place(pairs), place(parts), doubles])

    def _before(self, term: Term, i: int) -> int:
        """Returns the number of doubles by which a result is multiplied before the rows of free node ``i``."""
        if not self._plan.nodes[i].free:
            return 0
        before = [c for node in self.weighing[: self.weighing.index(i)] for c in self.links(node)]
        return sum(self.parts[c].doubles[self.below(term, c)] for c in before)

    def _factor_kind(self, name: str, kind: str) -> int:
        """Returns how kernels compute a factor from the code of an attribute."""
        floating = self._plan.attributes[name].type == "float64"
        return _FACTOR_KINDS_OF_DOUBLES[kind] if floating and kind in _FACTOR_KINDS_OF_DOUBLES else _FACTOR_KINDS[kind]

    def header(self, place: Place) -> dict[int, int]:
        """Returns the header words of the plan array."""
        edges = self.edges()
        parts = place([w for head in _heads(self.result) for w in head])
        value = place([*_sizes(self.result), 0, 0, 0, 0, 0, parts, len(self.result.far)])
        return {
            L.P_EDGES: len(edges),
            L.P_EDGE0: place(edges),
            L.P_VALUE: value,
            L.P_WEIGHING: len(self.weighing),
            L.P_WEIGHING0: place(self.weighing),
            L.P_COLUMN: len(self._plan.free),
        }


def _heads(parts: Parts) -> list[list[int]]:
    """Returns the words of each part that precede its links, without factors and without preceding doubles."""
    found, far = [], 0
    for term in parts.terms:
        found.append([parts.at[term], parts.limbs[term], 0, 0, parts.doubles[term], 0, far])
        far += parts.far_limbs(term)
    return found


def _sizes(parts: Parts) -> list[int]:
    limbs = list(parts.limbs.values())
    ones, pairs = limbs.count(1), limbs.count(2)
    return [parts.words, ones, pairs, len(limbs) - ones - pairs]
