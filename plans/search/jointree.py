"""All generalized join trees of an acyclic query, in the engine's normal form.

A tree is searched from the root down. `_below(S, P)` is every subtree for the set S of atoms under a parent with
attributes P: its top is an atom of S, or a virtual node (the intersection of two atoms of S), that contains `attr(S)
∩ P`; the rest of S falls into connected components, one child each. States (S, attr(S) ∩ P, parent free?) are
memoized, so the search is a dynamic program over the exponentially many trees: it finds the best trees and the exact
number of all.

Left out, without loss: trees in which a node could hang higher. Moving it up keeps the tree valid and free-connex and
makes no node deeper (tests compare with brute force over all trees).

Normal form: every node is free (⊆ y, parent free) or bound (no output attribute that its parent lacks); a mixed node
e gets the virtual parent [e ∩ y]; the children of a virtual node all contain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from plans.search.cost import step_cost
from plans.theory.hypergraph import bits, components, union

_STATE_BUDGET = 20_000
_ASSIGNMENTS = 512


@dataclass(frozen=True)
class Tree:
    """A rooted subtree: `atom` is -1 on a virtual node; `cost` is Σ depth·rate below this node; `weight` Σ rate."""

    attributes: int
    atom: int
    free: bool
    children: tuple[Tree, ...]
    height: int
    cost: float
    weight: float
    virtuals: int
    order: tuple[int, ...]  # the tree in preorder, -2 after each node: a signature that breaks ties


def rank(tree: Tree) -> tuple[int, float, int, tuple[int, ...]]:
    """Returns what the planner minimizes: height, then cost, then virtual nodes, then the order of the query."""
    return tree.height, tree.cost, tree.virtuals, tree.order


@dataclass
class _State:
    """The subtrees of one state: the best few of each height, and the number of all."""

    best: dict[int, list[Tree]] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True)
class Forest:
    """The result of a search: the best trees in rank order, the number of all, and whether the search was
    exhaustive.
    """

    trees: tuple[Tree, ...]
    count: int
    exact: bool


class _Search:
    def __init__(self, edges: Sequence[int], free: int, rates: Sequence[float], keep: int) -> None:
        self.edges = tuple(edges)
        self.free = free
        self.rates = tuple(rates)
        self.keep = keep
        self.exact = True
        self.memo: dict[tuple[int, int, bool], _State] = {}
        self.top = -1  # the atoms under the root, if the root is to be found among them

    def below(self, members: int, parent: int, parent_free: bool) -> _State:
        """Returns every subtree for the atoms `members` under a node with attributes `parent`."""
        key = union(self.edges, members) & parent
        slot = (members, key, parent_free)
        state = self.memo.get(slot)
        if state is None:
            state = self.memo[slot] = self._expand(members, key, parent_free)
            for trees in state.best.values():
                trees.sort(key=rank)
                del trees[self.keep :]
        return state

    def _expand(self, members: int, key: int, parent_free: bool) -> _State:
        state = _State()
        for i in bits(members):
            if key & ~self.edges[i] == 0:
                self._atom(state, i, members, key, parent_free)
                if self._spent(state):
                    return state
        for attributes in sorted(self._separators(members)):
            if key != attributes and key & ~attributes == 0:
                self._virtual(state, attributes, members, key, parent_free)
                if self._spent(state):
                    return state
        return state

    def _spent(self, state: _State) -> bool:
        """Stops at one way to build each subtree, past the budget of a large query."""
        if len(self.memo) <= _STATE_BUDGET or not state.count:
            return False
        self.exact = False
        return True

    def _separators(self, members: int) -> set[int]:
        return {self.edges[a] & self.edges[b] for a, b in combinations(bits(members), 2)}

    def _place(self, attributes: int, key: int, parent_free: bool, members: int) -> tuple[bool, bool] | None:
        """Returns (is the node free, does it need a virtual parent [e ∩ y]); None if it cannot stand here."""
        output = attributes & self.free
        if not output and members == self.top:
            return None  # the root is never bound
        if output & ~key == 0 and not (parent_free and output == attributes):
            return False, False
        if not parent_free:
            return None
        return output == attributes, output != attributes

    def _atom(self, state: _State, atom: int, members: int, key: int, parent_free: bool) -> None:
        attributes = self.edges[atom]
        place = self._place(attributes, key, parent_free, members)
        if place is None:
            return
        groups = components(self.edges, members & ~(1 << atom), attributes)
        children = [self.below(group, attributes, place[0]) for group in groups]
        self._combine(state, attributes, atom, place, children)

    def _virtual(self, state: _State, attributes: int, members: int, key: int, parent_free: bool) -> None:
        place = self._place(attributes, key, parent_free, members)
        if place is None:
            return
        groups = components(self.edges, members, attributes)
        full = [g for g in groups if attributes & ~union(self.edges, g) == 0]
        loose = [g for g in groups if attributes & ~union(self.edges, g)]
        if len(full) < 2:
            return
        homes_of: Iterable[tuple[int, ...]] = product(range(len(full)), repeat=len(loose))
        if len(full) ** len(loose) > _ASSIGNMENTS:
            self.exact = False
            homes_of = ((home,) * len(loose) for home in range(len(full)))
        for homes in homes_of:
            joined = list(full)
            for group, home in zip(loose, homes, strict=True):
                joined[home] |= group
            children = [self.below(group, attributes, place[0]) for group in joined]
            self._combine(state, attributes, -1, place, children)

    def _combine(
        self, state: _State, attributes: int, atom: int, place: tuple[bool, bool], children: list[_State]
    ) -> None:
        free, wrapped = place
        count = 1
        for child in children:
            count *= child.count
        if not count:
            return
        state.count += count
        partial: dict[int, list[tuple[float, tuple[Tree, ...]]]] = {0: [(0.0, ())]}
        for child in children:
            grown: dict[int, list[tuple[float, tuple[Tree, ...]]]] = {}
            for (h, heads), (g, trees) in product(partial.items(), child.best.items()):
                grown.setdefault(max(h, g), []).extend(
                    (cost + tree.cost, (*head, tree)) for cost, head in heads for tree in trees
                )
            partial = {h: sorted(pairs, key=_pair_rank)[: self.keep] for h, pairs in grown.items()}
        for pairs in partial.values():
            for _, parts in pairs:
                tree = self._node(attributes, atom, free, parts)
                if wrapped:
                    tree = self._node(attributes & self.free, -1, True, (tree,))
                self._keep(state, tree)

    def _node(self, attributes: int, atom: int, free: bool, children: tuple[Tree, ...]) -> Tree:
        step = step_cost(atom >= 0)
        return Tree(
            attributes,
            atom,
            free,
            children,
            height=(atom >= 0) + max((child.height for child in children), default=0),
            cost=sum(child.cost + step * child.weight for child in children),
            weight=(self.rates[atom] if atom >= 0 else 0.0) + sum(child.weight for child in children),
            virtuals=(atom < 0) + sum(child.virtuals for child in children),
            order=(atom, *(i for child in children for i in child.order), -2),
        )

    def _keep(self, state: _State, tree: Tree) -> None:
        trees = state.best.setdefault(tree.height, [])
        trees.append(tree)
        if len(trees) > 4 * self.keep:
            trees.sort(key=rank)
            del trees[self.keep :]

    def run(self) -> Forest:
        everything = (1 << len(self.edges)) - 1
        parts = components(self.edges, everything)
        if self.free and len(parts) == 1:
            self.top = everything
            state = self.below(everything, 0, True)
        else:
            state = _State()
            self._combine(state, 0, -1, (True, False), [self.below(part, 0, True) for part in parts])
        trees = sorted((tree for trees in state.best.values() for tree in trees), key=rank)
        return Forest(tuple(trees[: self.keep]), state.count, self.exact)


def _pair_rank(pair: tuple[float, tuple[Tree, ...]]) -> tuple[float, int, tuple[tuple[int, ...], ...]]:
    return pair[0], sum(tree.virtuals for tree in pair[1]), tuple(tree.order for tree in pair[1])


def generalized_join_trees(edges: Sequence[int], free: int, rates: Sequence[float], keep: int = 24) -> Forest:
    """Returns the best `keep` generalized join trees of each height of the acyclic query with these edges and output
    attributes.

    Empty if the query is not free-connex, or if no tree in normal form exists (`plans.search.normal_form`). The best
    tree is the best of all, unless `exact` is False: past a budget of subproblems every further one takes the first
    tree it finds, and of very many ways to hang loose parts under a virtual node only the simplest are tried.
    """
    return _Search(edges, free, rates, keep).run()
