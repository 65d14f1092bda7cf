"""What is known of a plan's update time, each bound with its theorem.

Numbers of theorems are those of "Change Propagation Without Joins", PVLDB 16(5), 2023. A bound is for the
maintenance of the views; enumerating a delta costs O(1) per result on top.
"""

from __future__ import annotations

from plans.plan import Bag, Bound, Node
from plans.theory.classify import QueryClass
from plans.theory.hypergraph import Hypergraph
from plans.theory.widths import edge_covers

_TRIANGLE = "IVM^ε with ε = 1/2: Kara et al., TODS 2020, Theorem 3"
ANY, FIFO, INSERT_ONLY = "any", "FIFO", "insert-only"


def bounds(answer: QueryClass, height: int, nodes: tuple[Node, ...], support: bool) -> tuple[Bound, ...]:
    """Returns the bounds of a plan with this tree, strongest statement per kind of stream."""
    bags = [node.bag for node in nodes if node.bag is not None]
    if bags:
        return _cyclic(tuple(bags), len(nodes) == 1)
    views = " for the views" if support else ""
    source = "Theorem 6.5 with Lemma 6.7" if answer.q_hierarchical and not support else "Theorem 6.5 (height 1)"
    if height <= 1:
        return (Bound(ANY, f"O(1){views}", source),)
    found = []
    if height == 2:
        found.append(Bound(FIFO, f"O(1) amortized{views}", "Lemma 6.8"))
    found.append(Bound(INSERT_ONLY, f"O(1) amortized{views}", "Theorem 6.10"))
    found.append(Bound(ANY, f"O(λ) amortized{views}, λ the enclosureness of the stream under this tree", "Theorem 6.5"))
    return tuple(found)


def _cyclic(bags: tuple[Bag, ...], alone: bool) -> tuple[Bound, ...]:
    rows = f"the bags hold O({_power(max(bag.width for bag in bags))}) rows"
    after = "" if alone else ", then each change moves up the tree"
    generic = [bag for bag in bags if bag.method != "triangle"]
    if generic:
        worst = max(map(_delta_exponent, generic))
        source = "generic join of the other atoms: Ngo, Porat, Ré, Rudra, J. ACM 2018; GHD plans, Section 7"
        return (Bound(ANY, f"O({_power(worst)}) at worst for a bag{after}; {rows}", source),)
    return (Bound(ANY, f"O(√N + changes of the bag) amortized per triangle bag{after}; {rows}", _TRIANGLE),)


def _power(exponent: float) -> str:
    return "N" if exponent == 1 else f"N^{exponent:.4g}"


def _delta_exponent(bag: Bag) -> float:
    """Returns the exponent of one update's join with the other atoms: the cover number of what the changed row leaves
    open."""
    names = tuple(dict.fromkeys(name for atom in bag.atoms for name in atom.attributes))
    graph = Hypergraph(names, ())
    edges = [graph.mask(atom.attributes) for atom in bag.atoms]
    everything = graph.mask(names)
    return max(cover for cover, _ in edge_covers(edges, [everything & ~edge for edge in edges]))
