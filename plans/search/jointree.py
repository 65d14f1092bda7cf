"""Searches all generalized join trees of an acyclic query, in the normal form of the engine.

A tree is searched from the root down. `_below(S, P)` is every subtree for the set S of atoms under a parent with
attributes P: its top is an atom of S, or a virtual node (the intersection of two atoms of S), that contains `attr(S) ∩
P`; the rest of S falls into connected components, one child each. States (S, attr(S) ∩ P, parent free?) are memoized,
so the search is a dynamic program over the exponentially many trees. It finds the best trees and the exact number of
all trees.

Trees in which a node could be placed higher are omitted without loss: moving the node up keeps the tree valid and
free-connex and makes no node deeper (tests compare with brute force over all trees).

Normal form: every node is free (⊆ y, parent free) or bound (no output attribute that its parent lacks); a mixed node e
gets the virtual parent [e ∩ y]; the children of a virtual node all contain it.

In trees whose rows are counted, the cost of publications comes first (`plans.search.counted.fans`): with rate(e) for
the changes of node e itself, and sums over the edges c -> p that are not quiet,

    events(p)  = rate(p) + Σ events(c) · fan(c -> p)         groups above p whose payload changes
    touches(p) = Σ touches(c) + events(c) · fan(c -> p)      rows read; to a free p one step, as in the set plan
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from plans.search.cost import step_cost
from plans.search.counted.fans import Fans
from plans.theory.hypergraph import bits, components, union

_STATE_BUDGET = 20_000
_ASSIGNMENTS = 512


@dataclass(frozen=True)
class Tree:
    """A rooted subtree: `atom` is -1 on a virtual node; `cost` is Σ depth·rate below this node; `weight` is Σ rate;
    `height` and `levels`: see `height_of` and `levels_of`.

    Counted trees also have: `touches` and `events` (see above); `quiet`: no edge below has an event; `adds`: the node
    has an output attribute that the parent lacks. A node that adds none is bound.
    """

    attributes: int
    atom: int
    free: bool
    children: tuple[Tree, ...]
    unique: tuple[bool, ...]  # per child: the node has at most one row with the key of the edge
    height: int
    levels: int
    cost: float
    weight: float
    virtuals: int
    order: tuple[int, ...]  # the tree in preorder, -2 after each node: a signature that breaks ties
    touches: float = 0.0
    events: float = 0.0
    quiet: bool = True
    adds: bool = True


def levels_of(atom: int, children: Sequence[Tree]) -> int:
    """Returns the number of relations on the longest path down from a node: the height of a tree in the paper."""
    return (atom >= 0) + max((child.levels for child in children), default=0)


def height_of(atom: int, children: Sequence[Tree], unique: Sequence[bool]) -> int:
    """Returns the height of a node by which update times are bounded: `levels_of`, but without the last step of a path
    if the node has one row per key by a declared key. Such a step costs O(1), like one to a virtual node.
    """
    many = [child.levels + 1 for child, one_row in zip(children, unique, strict=True) if not one_row]
    return max((*many, *(child.height for child in children)), default=0) or int(atom >= 0)


def cost_of(children: Sequence[Tree], unique: Sequence[bool]) -> float:
    """Returns Σ depth·rate below a node with these children."""
    edges = zip(children, unique, strict=True)
    return sum(child.cost + step_cost(one_row) * child.weight for child, one_row in edges)


def rank(tree: Tree) -> tuple[float, int, float, int, int, tuple[int, ...]]:
    """Returns the key that the planner minimizes: touches (of counted trees), height, cost, levels, virtual nodes,
    order."""
    return tree.touches, tree.height, tree.cost, tree.levels, tree.virtuals, tree.order


_Kind = tuple[float, float, bool]
"""What the cost of a parent depends on: the height and the levels; for counted trees events, quiet, adds."""


@dataclass
class _State:
    """The subtrees of one state: the best few of each kind, and the number of all subtrees."""

    best: dict[_Kind, list[Tree]] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True)
class _Top:
    """A node whose children are not chosen yet. `wrapped`: it is under a virtual node with its output attributes."""

    attributes: int
    atom: int
    free: bool
    wrapped: bool
    key: int
    root: bool = False

    @property
    def adds(self) -> bool:
        """Returns whether the node has an output attribute that its parent lacks. A node without one has no such
        children: it is a leaf, or bound."""
        return self.root or (self.free and self.attributes & ~self.key != 0)


@dataclass(frozen=True)
class Forest:
    """The result of a search: the best trees in rank order, the number of all trees, and whether the search was
    exhaustive."""

    trees: tuple[Tree, ...]
    count: int
    exact: bool


@dataclass(frozen=True)
class _Edge:
    """The cost of publications on an edge: rows of the parent that are read, groups above the parent that change, and
    whether the edge is quiet."""

    touches: float = 0.0
    events: float = 0.0
    quiet: bool = True


_Pair = tuple[float, float, tuple[Tree, ...]]
"""Touches, cost and trees of the children of a node chosen so far."""


class _Search:
    def __init__(
        self, edges: Sequence[int], free: int, rates: Sequence[float], keep: int, fans: Fans, counted: bool
    ) -> None:
        self.edges = tuple(edges)
        self.fans = fans
        self.counted = counted
        self.free = free
        self.rates = tuple(rates)
        self.keep = keep
        self.exact = True
        self.memo: dict[tuple[int, int, bool], _State] = {}
        self.top = -1  # the atoms under the root, if the root is one of them

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
        """Returns True if the budget of a large query is exhausted and the state already has a subtree."""
        if len(self.memo) <= _STATE_BUDGET or not state.count:
            return False
        self.exact = False
        return True

    def _separators(self, members: int) -> set[int]:
        return {self.edges[a] & self.edges[b] for a, b in combinations(bits(members), 2)}

    def _place(self, attributes: int, key: int, parent_free: bool, members: int) -> tuple[bool, bool] | None:
        """Returns (is the node free, does it need a virtual parent [e ∩ y]), or None if the node cannot be placed
        here."""
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
        self._combine(state, _Top(attributes, atom, *place, key, members == self.top), children)

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
            self._combine(state, _Top(attributes, -1, *place, key, members == self.top), children)

    def _combine(self, state: _State, top: _Top, children: list[_State]) -> None:
        count = 1
        for child in children:
            count *= child.count
        if not count:
            return
        state.count += count
        inner = _Top(top.attributes, top.atom, False, False, top.attributes & self.free) if top.wrapped else top
        partial: dict[_Kind, list[_Pair]] = {(0.0, self.counted, False): [(0.0, 0.0, ())]}
        for child in children:
            grown: dict[_Kind, list[_Pair]] = {}
            for (have, heads), trees in product(partial.items(), child.best.values()):
                edge = self._edge(inner, trees[0])
                grown.setdefault(self._with(have, inner, trees[0], edge), []).extend(
                    (touches + tree.touches + edge.touches, cost + tree.cost, (*head, tree))
                    for touches, cost, head in heads
                    for tree in trees
                )
            partial = {kind: sorted(pairs, key=_pair_rank)[: self.keep] for kind, pairs in grown.items()}
        for pairs in partial.values():
            for _, _, parts in pairs:
                tree = self._node(inner, parts)
                if top.wrapped:
                    tree = self._node(_Top(top.attributes & self.free, -1, True, False, top.key, top.root), (tree,))
                self._keep(state, tree)

    def _kind(self, tree: Tree) -> _Kind:
        return (tree.events, tree.quiet, tree.adds) if self.counted else (tree.height, tree.levels, True)

    def _with(self, have: _Kind, top: _Top, child: Tree, edge: _Edge) -> _Kind:
        """Returns the kind of a node, without the node's own part, after one more child."""
        if self.counted:
            return have[0] + edge.events, have[1] and edge.quiet, False
        unique = self._unique(top, top.attributes & child.attributes)
        return max(have[0], height_of(top.atom, (child,), (unique,))), max(have[1], child.levels), False

    def _edge(self, top: _Top, child: Tree) -> _Edge:
        """Returns the cost of publications on an edge. It is zero if no rows are counted, or if the child is free."""
        key = top.attributes & child.attributes
        if not self.counted or child.adds:
            return _Edge()
        if child.quiet and self.fans.quiet(child.atom, child.attributes, key):
            return _Edge()
        if top.adds:
            return _Edge(step_cost(self._unique(top, key)) * child.events, 0.0, False)
        reached = self.fans.fan(top.atom, top.attributes, key) * child.events
        return _Edge(reached, reached, False)

    def _unique(self, top: _Top, key: int) -> bool:
        """Returns whether a node has at most one row with a key."""
        return self.fans.one_row(top.atom, top.attributes, key)

    def _node(self, top: _Top, children: tuple[Tree, ...]) -> Tree:
        atom = top.atom
        edges = [self._edge(top, child) for child in children]
        unique = tuple(self._unique(top, top.attributes & child.attributes) for child in children)
        rate = self.rates[atom] if atom >= 0 else 0.0
        return Tree(
            top.attributes,
            atom,
            top.free,
            children,
            unique,
            height_of(atom, children, unique),
            levels_of(atom, children),
            cost=cost_of(children, unique),
            weight=rate + sum(child.weight for child in children),
            virtuals=(atom < 0) + sum(child.virtuals for child in children),
            order=(atom, *(i for child in children for i in child.order), -2),
            touches=sum(child.touches + edge.touches for child, edge in zip(children, edges, strict=True)),
            events=rate + sum(edge.events for edge in edges),
            quiet=all(edge.quiet for edge in edges),
            adds=top.adds,
        )

    def _keep(self, state: _State, tree: Tree) -> None:
        trees = state.best.setdefault(self._kind(tree), [])
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
            root = _Top(0, -1, free=True, wrapped=False, key=0, root=True)
            self._combine(state, root, [self.below(part, 0, True) for part in parts])
        trees = sorted((tree for trees in state.best.values() for tree in trees), key=rank)
        return Forest(tuple(trees[: self.keep]), state.count, self.exact)


def _pair_rank(pair: _Pair) -> tuple[float, int, float, int, int, tuple[tuple[int, ...], ...]]:
    touches, cost, trees = pair
    height = max((tree.height for tree in trees), default=0)
    levels = max((tree.levels for tree in trees), default=0)
    return touches, height, cost, levels, sum(tree.virtuals for tree in trees), tuple(tree.order for tree in trees)


def generalized_join_trees(
    edges: Sequence[int], free: int, rates: Sequence[float], fans: Fans, keep: int = 24, counted: bool = False
) -> Forest:
    """Returns the best `keep` generalized join trees of each height of the acyclic query with these edges and output
    attributes.

    With `counted`, returns the trees with counted rows that have the fewest touches. `fans`: what declared keys imply.
    The result is empty if the query is not free-connex, or if no tree in normal form exists
    (`plans.search.normal_form`). The first tree is the best of all trees, unless `exact` is False: beyond a budget of
    subproblems, each further subproblem takes the first tree found, and if there are very many ways to attach
    disconnected parts under a virtual node, only the simplest are tried.
    """
    return _Search(edges, free, rates, keep, fans, counted).run()
