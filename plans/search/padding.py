"""Left joins inside a join tree: the first columns of a relation are found by a key, or one row of NULLs stands there.

A *padded* atom is joined by columns of one other atom and read by no other, so it is a leaf below that atom. It is
left out while trees are searched, and hung where its key is: below a free node that is an input relation, as near to
the root as there is one. A row above it then always finds something below: what the relation has for the key, or the
padding. So an update of the left side costs what it costs in the inner join, and one of the relation that leaves a key
empty, or fills it, the rows above with that key, whose results all change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.queries.conjunction import Atom, Conjunction
from plans.search.cost import step_cost
from plans.search.decomposition import Decomposition
from plans.search.jointree import Forest, Tree, rank
from plans.theory.hypergraph import Hypergraph


class NoPlaceError(PlanError):
    """No tree of the query has a place for its padded atoms; it is to be lowered without any."""


@dataclass(frozen=True)
class Apart:
    """The atoms of a query: those that are not padded, `joined`, and those that are, the `leaves`.

    `keys`: the attributes by which leaves are found, which a tree must have in free nodes; `private`: those that the
    leaves alone have.
    """

    joined: tuple[Atom, ...]
    leaves: tuple[Atom, ...]
    keys: tuple[str, ...]
    private: tuple[str, ...]


def apart(query: Conjunction) -> Apart:
    """Returns the query taken apart."""
    joined = tuple(atom for atom in query.atoms if not atom.padded)
    leaves = tuple(atom for atom in query.atoms if atom.padded)
    held = {name for atom in joined for name in atom.attributes}
    names = dict.fromkeys(name for atom in leaves for name in atom.attributes)
    keys, private = (tuple(name for name in names if (name in held) is shared) for shared in (True, False))
    return Apart(joined, leaves, keys, private)


def with_padded(parts: Decomposition, padded: Sequence[Atom], graph: Hypergraph) -> Decomposition:
    """Returns the relations of a tree, and the padded atoms as the last ones."""
    return replace(
        parts,
        atoms=(*parts.atoms, *padded),
        bags=(*parts.bags, *(None for _ in padded)),
        edges=(*parts.edges, *(graph.mask(atom.attributes) for atom in padded)),
    )


def padded_forest(forest: Forest, parts: Decomposition, count: int, rates: Sequence[float]) -> Forest:
    """Returns the trees in which the last `count` relations of `parts` find places, with them as leaves.

    `rates`: of all relations. Raises NoPlaceError if there is none.
    """
    trees = [made for tree in forest.trees if (made := padded_tree(tree, parts, count, rates)) is not None]
    if not trees:
        raise NoPlaceError("no join tree has a place for what is left joined", hint="please report this query")
    return replace(forest, trees=tuple(sorted(trees, key=rank)))


def padded_tree(tree: Tree, parts: Decomposition, count: int, rates: Sequence[float]) -> Tree | None:
    """Returns the tree with the last `count` relations of `parts` as leaves; None if one finds no place.

    `rates`: of all relations. A leaf below the root adds nothing to the height: the rows above it that a change reaches
    are roots of results, which all change.
    """
    for atom in range(len(parts.atoms) - count, len(parts.atoms)):
        edge = parts.edges[atom]
        node = _place(tree, edge & _attributes(tree), parts)
        if node is None:
            return None
        height = 0 if node is tree else 1
        leaf = Tree(edge, atom, True, (), height, 0.0, rates[atom], 0, (atom, -2), events=rates[atom])
        tree = _replaced(tree, node, _over(node, (*node.children, leaf)))
    return tree


def _attributes(tree: Tree) -> int:
    """Returns the attributes of all nodes."""
    found = tree.attributes
    for child in tree.children:
        found |= _attributes(child)
    return found


def _place(tree: Tree, key: int, parts: Decomposition) -> Tree | None:
    """Returns the first node, level by level, that can have a padded leaf with that key: free, and a relation."""
    level = [tree]
    while level:
        for node in level:
            if node.free and key & ~node.attributes == 0 and node.atom >= 0 and parts.atoms[node.atom] is not None:
                return node
        level = [child for node in level for child in node.children]
    return None


def _replaced(tree: Tree, old: Tree, new: Tree) -> Tree:
    if tree is old:
        return new
    return _over(tree, tuple(_replaced(child, old, new) for child in tree.children))


def _over(node: Tree, children: tuple[Tree, ...]) -> Tree:
    """Returns the node over other children, which are free where they are new: nothing is told to the node of them."""
    step = step_cost(node.atom >= 0)
    own = node.weight - sum(child.weight for child in node.children)
    return replace(
        node,
        children=children,
        height=(node.atom >= 0) + max((child.height for child in children), default=0),
        cost=sum(child.cost + step * child.weight for child in children),
        weight=own + sum(child.weight for child in children),
        order=(node.atom, *(i for child in children for i in child.order), -2),
    )
