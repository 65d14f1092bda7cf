"""View trees: one view per variable of the order, each defined over its children (F-IVM, Figures 3, 5 and 10)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from plans.theory.hypergraph import Hypergraph, gyo
from tests.models.rings.viewtree.order import Schemas, Variable, places


@dataclass(frozen=True)
class View:
    """A node of a view tree.

    An inner node is the view `name` over `keys`: the join of its children, with the variables `summed` marginalized. A
    leaf is a relation, or, with `indicates`, the indicator projection of that relation on `keys`. `relations` are the
    relations below, indicator projections not counted.
    """

    name: str
    keys: tuple[str, ...]
    summed: tuple[str, ...] = ()
    children: tuple[View, ...] = ()
    relations: frozenset[str] = frozenset()
    indicates: str | None = None

    def nodes(self) -> Iterator[View]:
        """Yields this node and all below it, children first."""
        for child in self.children:
            yield from child.nodes()
        yield self

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yields the tree as text, one node a line, children indented."""
        over = f"{self.name}[{', '.join(self.keys)}]"
        sums = f" = sum over {', '.join(self.summed)} of the join of" if self.summed else " = the join of"
        yield "  " * depth + over + (sums if self.children else "")
        for child in self.children:
            yield from child.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def view_tree(
    order: Variable | Sequence[Variable],
    schemas: Schemas,
    free: Collection[str] = (),
    *,
    compose: bool = False,
    indicators: bool = False,
) -> View:
    """Returns the view tree of the join of `schemas` over a variable order, with the result over the `free` variables.

    Children stand in the order in which `schemas` names their relations, as far as the variable order lets them. A view
    that would be the same as its only child is left out. `compose` makes one view of a chain that marginalizes
    one variable after another over a single child. `indicators` adds indicator projections where they close a cycle
    with the children of a view, which bounds the view's size by the join's. Raises ValueError where the order is none
    of this join.
    """
    trees = (order,) if isinstance(order, Variable) else tuple(order)
    lowest = places(trees, schemas)
    if not schemas:
        raise ValueError("a join has at least one relation")

    def leaves(variable: str) -> tuple[View, ...]:
        under = [name for name in schemas if lowest[name] == variable]
        return tuple(View(name, tuple(schemas[name]), relations=frozenset([name])) for name in under)

    rank = {name: i for i, name in enumerate(schemas)}

    def in_order(children: tuple[View, ...]) -> tuple[View, ...]:
        return tuple(sorted(children, key=lambda child: min(rank[name] for name in child.relations)))

    def view(node: Variable) -> View:
        children = in_order((*(view(child) for child in node.below), *leaves(node.name)))
        if indicators:
            children += _indicators(node.name, children, schemas)
        return _joined(node.name, children, () if node.name in free else (node.name,), compose)

    roots = in_order((*map(view, trees), *leaves("")))
    return roots[0] if len(roots) == 1 and roots[0].children else _joined("", roots, (), compose)


def _joined(at: str, children: tuple[View, ...], summed: tuple[str, ...], compose: bool) -> View:
    keys = tuple(name for name in dict.fromkeys(k for child in children for k in child.keys) if name not in summed)
    relations = frozenset().union(*(child.relations for child in children))
    only = children[0] if len(children) == 1 else None
    if only is not None and only.children and not summed:
        return only
    if only is not None and only.summed and compose:
        return View(f"{_name(relations)}@{at}", keys, only.summed + summed, only.children, relations)
    return View(f"{_name(relations)}@{at}" if at else _name(relations), keys, summed, children, relations)


def _name(relations: frozenset[str]) -> str:
    long = any(len(name) > 1 for name in relations)
    return "V_" + ("+" if long else "").join(sorted(relations))


def _indicators(at: str, children: tuple[View, ...], schemas: Schemas) -> tuple[View, ...]:
    """Returns the indicator projections that close a cycle with the children: those that the GYO reduction does not
    remove."""
    inside = frozenset().union(*(child.relations for child in children))
    names = tuple(dict.fromkeys(name for child in children for name in child.keys))
    graph = Hypergraph(names, ())
    shared = {name: graph.mask(tuple(schemas[name])) for name in schemas if name not in inside}
    left = gyo([*(graph.mask(child.keys) for child in children), *shared.values()])
    core = 0
    for edge in left:
        core |= edge
    chosen = {name: mask for name, mask in shared.items() if mask & core in left and (mask & core).bit_count() > 1}
    return tuple(View(f"∃{name}@{at}", graph.attributes(mask), indicates=name) for name, mask in chosen.items())


def materialized(root: View, updatable: Collection[str]) -> set[str]:
    """Returns the names of the nodes that must be stored to maintain the root under updates to these relations.

    The root is; another node is if an update can reach its parent through another child, so that the parent's delta
    joins with it.
    """
    sources = set(updatable)
    wanted = {root.name}
    for parent in root.nodes():
        changing = [bool(_reaching(child) & sources) for child in parent.children]
        for child, changes in zip(parent.children, changing, strict=True):
            if sum(changing) > changes:
                wanted.add(child.name)
    return wanted


def _reaching(node: View) -> frozenset[str]:
    """Returns the relations whose updates change the node, by themselves or through an indicator projection."""
    return node.relations | {leaf.indicates for leaf in node.nodes() if leaf.indicates is not None}
