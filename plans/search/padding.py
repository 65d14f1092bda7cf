"""Left joins inside a join tree: the right side is found by a key, or is replaced by one row of NULLs.

A *padded* atom is joined by columns of one other atom and is read by no other, so it is a leaf below that atom. It is
left out of the search for trees, and attached to a node that has its key: a free node that is an input relation, as
close to the root as possible. A row above it then always has a match below: the rows of the relation with this key, or
the padding. So an update of the left side costs the same as in the inner join. An update of the relation that makes a
key empty or non-empty costs the rows above with that key, whose results all change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.queries.conjunction import Atom, Conjunction
from plans.search.decomposition import Decomposition
from plans.search.jointree import Forest, Tree, cost_of, height_of, levels_of, rank
from plans.theory.hypergraph import Hypergraph


class NoPlaceError(PlanError):
    """No tree of the query has a place for its padded atoms. The query must be lowered without padded atoms."""


@dataclass(frozen=True)
class Apart:
    """The atoms of a query: those that are not padded, `joined`, and the padded ones, the `leaves`.

    `keys`: the attributes by which leaves are found; a tree must have them in free nodes. `private`: the attributes
    that only leaves have.
    """

    joined: tuple[Atom, ...]
    leaves: tuple[Atom, ...]
    keys: tuple[str, ...]
    private: tuple[str, ...]


def apart(query: Conjunction) -> Apart:
    """Splits the atoms of a query into padded and other atoms."""
    joined = tuple(atom for atom in query.atoms if not atom.padded)
    leaves = tuple(atom for atom in query.atoms if atom.padded)
    held = {name for atom in joined for name in atom.attributes}
    names = dict.fromkeys(name for atom in leaves for name in atom.attributes)
    keys, private = (tuple(name for name in names if (name in held) is shared) for shared in (True, False))
    return Apart(joined, leaves, keys, private)


def with_padded(parts: Decomposition, padded: Sequence[Atom], graph: Hypergraph) -> Decomposition:
    """Returns the relations of a tree followed by the padded atoms."""
    return replace(
        parts,
        atoms=(*parts.atoms, *padded),
        bags=(*parts.bags, *(None for _ in padded)),
        edges=(*parts.edges, *(graph.mask(atom.attributes) for atom in padded)),
    )


def padded_forest(forest: Forest, parts: Decomposition, count: int, rates: Sequence[float]) -> Forest:
    """Returns the trees that have a place for the last `count` relations of `parts`, with these relations as leaves.

    `rates`: of all relations. Raises NoPlaceError if no tree has a place for them.
    """
    trees = [made for tree in forest.trees if (made := padded_tree(tree, parts, count, rates)) is not None]
    if not trees:
        raise NoPlaceError("no join tree has a place for what is left joined", hint="please report this query")
    return replace(forest, trees=tuple(sorted(trees, key=rank)))


def padded_tree(tree: Tree, parts: Decomposition, count: int, rates: Sequence[float]) -> Tree | None:
    """Returns the tree with the last `count` relations of `parts` as leaves, or None if one of them has no place.

    `rates`: of all relations. A leaf below the root does not add to the height: the rows above it that a change reaches
    are roots of results, which all change.
    """
    for atom in range(len(parts.atoms) - count, len(parts.atoms)):
        edge = parts.edges[atom]
        node = _place(tree, edge & _attributes(tree), parts)
        if node is None:
            return None
        height = 0 if node is tree else 1
        leaf = Tree(edge, atom, True, (), (), height, height, 0.0, rates[atom], 0, (atom, -2), events=rates[atom])
        grown = replace(node, unique=(*node.unique, False))
        tree = _replaced(tree, node, _over(grown, (*node.children, leaf)))
    return tree


def _attributes(tree: Tree) -> int:
    """Returns the attributes of all nodes of a tree."""
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
    """Returns the node with other children. New children are free and send no publications to the node."""
    own = node.weight - sum(child.weight for child in node.children)
    return replace(
        node,
        children=children,
        height=height_of(node.atom, children, node.unique),
        levels=levels_of(node.atom, children),
        cost=cost_of(children, node.unique),
        weight=own + sum(child.weight for child in children),
        order=(node.atom, *(i for child in children for i in child.order), -2),
    )
