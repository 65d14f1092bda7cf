"""What is known of a plan's update time, each bound with its theorem.

Numbers of theorems are those of "Change Propagation Without Joins", PVLDB 16(5), 2023. A bound is for the
maintenance of the views; enumerating a delta costs O(1) per result on top.
"""

from __future__ import annotations

from plans.classify import QueryClass
from plans.plan import Bound, Node

ANY, FIFO, INSERT_ONLY = "any", "FIFO", "insert-only"


def bounds(answer: QueryClass, height: int, nodes: tuple[Node, ...], support: bool) -> tuple[Bound, ...]:
    """The bounds of a plan with this tree, strongest statement per kind of stream."""
    bags = [node.bag for node in nodes if node.bag is not None]
    if bags:
        return _cyclic(tuple((bag.method, bag.width) for bag in bags), len(nodes) == 1)
    source = "Theorem 6.5 with Lemma 6.7" if answer.q_hierarchical and not support else "Theorem 6.5 (height 1)"
    if height <= 1:
        return (Bound(ANY, "O(1)", source),)
    found = []
    if height == 2:
        found.append(Bound(FIFO, "O(1) amortized", "Lemma 6.8"))
    found.append(Bound(INSERT_ONLY, "O(1) amortized", "Theorem 6.10"))
    found.append(Bound(ANY, "O(λ) amortized, λ the enclosureness of the stream under this tree", "Theorem 6.5"))
    return tuple(found)


def _cyclic(bags: tuple[tuple[str, float], ...], alone: bool) -> tuple[Bound, ...]:
    triangles = all(method == "triangle" for method, _ in bags)
    if triangles and alone:
        return (Bound(ANY, "O(√N) amortized", "IVM^ε, Kara et al., TODS 2020, Theorem 1"),)
    width = max(width for _, width in bags)
    inside = "O(√N) amortized per triangle bag, then " if triangles else ""
    return (Bound(ANY, f"{inside}O(changes of the bags); the bags hold O(N^{width:.4g}) rows", "Section 7, GHD plans"),)
