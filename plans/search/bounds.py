"""Known bounds on the update time of a plan, each with its theorem.

Theorem numbers are those of "Change Propagation Without Joins", PVLDB 16(5), 2023. A bound covers the maintenance of
the views. Enumerating a delta costs another O(1) per result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from plans.plan import Bag, Bound, Plan
from plans.schema import Table
from plans.search.counted.fans import closure, dependencies
from plans.theory.classify import QueryClass
from plans.theory.hypergraph import Hypergraph, bits
from plans.theory.widths import edge_covers

_TRIANGLE = "IVM^ε with ε = 1/2: Kara et al., TODS 2020, Theorem 3"
_KEYS = "Gottlob, Lee, Valiant, Valiant, J. ACM 2012"
_MOST_OPEN = 4  # the orders of more unbound attributes of an atom are not tried
ANY, FIFO, INSERT_ONLY = "any", "FIFO", "insert-only"


def bounds(answer: QueryClass, plan: Plan) -> tuple[Bound, ...]:
    """Returns the bounds of a plan for a query, the strongest statement per kind of stream. Trusts declared keys."""
    if any(node.bag is not None for node in plan.nodes):
        return _cyclic(plan)
    views, height, support = " for the views" if plan.support else "", plan.height, plan.support
    if height <= 1:
        source = f"Theorem 6.5 (height 1{'' if answer.hierarchical else ' by declared keys'})"
        if answer.q_hierarchical and not support:
            source = "Theorem 6.5 with Lemma 6.7"
        return (Bound(ANY, f"O(1){views}", source),)
    found = []
    if height == 2:
        found.append(Bound(FIFO, f"O(1) amortized{views}", "Lemma 6.8"))
    found.append(Bound(INSERT_ONLY, f"O(1) amortized{views}", "Theorem 6.10"))
    found.append(Bound(ANY, f"O(λ) amortized{views}, λ the enclosureness of the stream under this tree", "Theorem 6.5"))
    return tuple(found)


def bound_of_count() -> Bound:
    """Returns the bound of counting triangles: set intersection tables at ε = 1/2."""
    return Bound(ANY, "O(√N) amortized; O(N) words, no triangle is kept", _TRIANGLE)


def rows_by_keys(bag: Bag, tables: Sequence[Table]) -> str:
    """Returns the bound on the rows of a bag by declared keys, as a power of N. Empty if it is not below the bag's
    width."""
    known = _Keyed(bag, tables)
    return f"O({_power(known.rows())})" if known.fixes and known.rows() < bag.width else ""


def _cyclic(plan: Plan) -> tuple[Bound, ...]:
    known = [_Keyed(node.bag, plan.tables) for node in plan.nodes if node.bag is not None]
    keyed = any(one.fixes for one in known)
    most = f"O({_power(max(one.rows() for one in known))}) rows{' by declared keys' if keyed else ''}"
    rows = f" (its {most} are not stored)" if plan.listed else f"; the bags hold {most}"
    after = "" if len(plan.nodes) == 1 else ", then each change moves up the tree"
    generic = [one for one in known if one.bag.method != "triangle"]
    if not generic:
        return (Bound(ANY, f"O(√N + changes of the bag) amortized per triangle bag{after}{rows}", _TRIANGLE),)
    costs = [(atom.relation, cost) for one in generic for atom, cost in zip(one.bag.atoms, one.updates(), strict=True)]
    worst = max(cost for _, cost in costs)
    cheap = [name for name in dict.fromkeys(name for name, _ in costs) if all(c == 0 for n, c in costs if n == name)]
    less = f", O(1) for changes of {', '.join(cheap)}" if cheap and worst else ""
    source = "generic join of the other atoms: Ngo, Porat, Ré, Rudra, J. ACM 2018; GHD plans, Section 7"
    source += f"; keys: {_KEYS}" if keyed else ""
    return (Bound(ANY, f"O({_power(worst)}) at worst for a bag{less}{after}{rows}", source),)


def _power(exponent: float) -> str:
    if exponent == 0:
        return "1"
    return "N" if exponent == 1 else f"N^{exponent:.4g}"


class _Keyed:
    """A bag with the functional dependencies of declared keys: an atom is read as if it had all attributes that its own
    determine."""

    def __init__(self, bag: Bag, tables: Sequence[Table]) -> None:
        names = tuple(dict.fromkeys(name for atom in bag.atoms for name in atom.attributes))
        graph = Hypergraph(names, ())
        self.bag = bag
        self.everything = graph.mask(names)
        self.edges = [graph.mask(atom.attributes) for atom in bag.atoms]
        found = [one for atom in bag.atoms for one in dependencies(atom, tables, graph)]
        self.fixes = [(left, right) for left, right in found if right & ~left]

    def rows(self) -> float:
        """Returns the exponent of the number of rows of the bag: an edge cover by closed edges."""
        return self._cover(self.everything, 0) if self.fixes else self.bag.width

    def updates(self) -> list[float]:
        """Returns for each atom the exponent of the join of one update with the other atoms, in the worst order of
        binding."""
        return [max(self._cover(bound | edge, edge) for bound in self._prefixes(edge)) for edge in self.edges]

    def _prefixes(self, edge: int) -> list[int]:
        """Returns the sets of other attributes that may be bound at some step, besides the changed atom; at the end,
        all of them."""
        rest = list(bits(self.everything & ~edge))
        if not self.fixes or len(rest) > _MOST_OPEN:
            return [self.everything]
        return [sum(1 << v for v in some) for n in range(1, len(rest) + 1) for some in combinations(rest, n)] or [0]

    def _cover(self, wanted: int, known: int) -> float:
        """Returns the number of atoms that cover `wanted` if `known` is bound. All attributes are restricted to
        `wanted`."""
        fixes = [(left, right & wanted) for left, right in self.fixes if left & ~wanted == 0]
        left = wanted & ~closure(known, fixes)
        closed = [closure(edge & wanted, fixes) & left for edge in self.edges]
        return edge_covers(closed, [left])[0][0] if left else 0.0
