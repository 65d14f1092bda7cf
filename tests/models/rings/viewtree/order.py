"""Variable orders: which variable of a join is solved when (F-IVM, Definition 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plans.theory.hypergraph import Hypergraph, bits, components

Schemas = Mapping[str, Sequence[str]]
"""The relations of a join by name, each with its variables."""


@dataclass(frozen=True)
class Variable:
    """A node of a variable order: it is solved after the variables above it, and before those in `below`."""

    name: str
    below: tuple[Variable, ...] = ()

    def paths(self, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yields, for every variable of this subtree, the variables from the root down to it."""
        here = (*above, self.name)
        yield here
        for child in self.below:
            yield from child.paths(here)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.below))})" if self.below else self.name


def variable(name: str, *below: Variable | str) -> Variable:
    """Returns a node of a variable order: `variable("A", "B", variable("C", "D", "E"))` is A over B and C over D, E."""
    return Variable(name, tuple(child if isinstance(child, Variable) else Variable(child) for child in below))


def places(order: Sequence[Variable], schemas: Schemas) -> dict[str, str]:
    """Returns for every relation its lowest variable, under which the view tree puts it.

    Raises ValueError, with the relation and its variables, where they do not lie on one path from a root: then the
    order is none of this join. A relation without variables has none, and is put at the top.
    """
    paths = {path[-1]: path for tree in order for path in tree.paths()}
    if len(paths) < sum(1 for tree in order for _ in tree.paths()):
        raise ValueError("the order has a variable twice")
    used = {name for variables in schemas.values() for name in variables}
    unused = [name for name in paths if name not in used]
    if unused:
        raise ValueError(f"variable {unused[0]} of the order is in no relation")
    lowest = {}
    for relation, variables in schemas.items():
        unknown = [name for name in variables if name not in paths]
        if unknown:
            raise ValueError(f"variable {unknown[0]} of relation {relation} is not in the order")
        deepest = max(variables, key=lambda name: len(paths[name]), default="")
        off = [name for name in variables if name not in paths[deepest]]
        if off:
            one, other = (name for name in variables if name in (off[0], deepest))
            raise ValueError(
                f"variables {one} and {other} of relation {relation} are not on one path of the order; "
                f"put one of them above the other"
            )
        lowest[relation] = deepest
    return lowest


def greedy_order(schemas: Schemas, free: Sequence[str] = ()) -> tuple[Variable, ...]:
    """Returns a variable order of the join, with no free variable below a bound one.

    It takes the variable that most relations share, then goes on in each part that is left connected. Valid for every
    join; not always one of least width. The trees are as many as the join has connected parts. Cost O(variables² *
    relations).
    """
    names = tuple(dict.fromkeys(name for variables in schemas.values() for name in variables))
    graph = Hypergraph(names, ())
    edges = [graph.mask(tuple(variables)) for variables in schemas.values()]
    preferred = graph.mask(tuple(free))

    def trees(group: int, solved: int) -> tuple[Variable, ...]:
        parts = components(edges, group, solved)
        return tuple(tree for part in parts for tree in solve(part, solved))

    def solve(part: int, solved: int) -> tuple[Variable, ...]:
        shared = [edges[i] & ~solved for i in bits(part)]
        left = 0
        for edge in shared:
            left |= edge
        if not left:
            return ()
        candidates = list(bits(left & preferred or left))
        best = max(candidates, key=lambda v: (sum(edge >> v & 1 for edge in shared), -v))
        return (Variable(names[best], trees(part, solved | 1 << best)),)

    return trees((1 << len(edges)) - 1, 0)
