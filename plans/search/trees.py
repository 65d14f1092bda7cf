"""Searches the join trees of a conjunction for one output or for a larger one, and chooses a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.plan import Bag, Candidate
from plans.queries.conjunction import Atom, Conjunction
from plans.search import padding
from plans.search.cost import step_cost
from plans.search.counted.fans import closure, fans
from plans.search.decomposition import Decomposition
from plans.search.jointree import Forest, Tree, generalized_join_trees, rank
from plans.search.normal_form import complete, with_normal_form
from plans.theory.hypergraph import Hypergraph


@dataclass(frozen=True)
class Found:
    """The trees for the output `free`, whose relations are `parts`, and the position of the chosen tree."""

    free: tuple[str, ...]
    graph: Hypergraph
    parts: Decomposition
    forest: Forest
    candidates: tuple[Candidate, ...]
    chosen: int = 0

    @property
    def best(self) -> Tree:
        """Returns the chosen tree."""
        return self.forest.trees[self.chosen]


@dataclass(frozen=True)
class TreeSearch:
    """Searches trees for relations `parts`, to which `leaves` are attached. `rates`: the rate of each atom of the
    query."""

    query: Conjunction
    graph: Hypergraph
    parts: Decomposition
    leaves: tuple[Atom, ...]
    rates: tuple[float, ...]

    def found(self, free: tuple[str, ...], tree: str | None) -> Found:
        """Returns the best tree for the output `free`, or the tree that `tree` names.

        The tree may enumerate, besides `free`, all attributes that declared keys derive from `free`. There are no more
        results then, and a relation whose attributes are all free needs no projection above it. So the larger output
        has the cheaper tree in most queries, but not in all: a tree has all free attributes on top, and with fewer of
        them other relations can be the root. Therefore both outputs are searched.

        Raises PlanError if there is no such tree.
        """
        options: list[Found] = []
        refused: PlanError | None = None
        for output in self._outputs(free):
            try:
                options.append(self._search(output))
            except padding.NoPlaceError as error:
                refused = error
        options = [option for option in options if option.forest.trees]
        if not options:
            raise refused or PlanError(
                "no join tree of this query has the free nodes on top", hint="please report this query"
            )
        options.sort(key=lambda option: rank(option.forest.trees[0])[:-1])
        return options[0] if tree is None else _named(options, tree)

    def _outputs(self, free: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield free
        known = fans(_relations(self.parts), self.query.tables, self.graph)
        fixed = closure(self.graph.mask(free), [one for fixes in known.fixes for one in fixes])
        wide, completed = complete(self.graph, self.graph.attributes(fixed))
        if not completed and len(wide) > len(free):
            yield (*free, *(name for name in wide if name not in free))

    def _search(self, free: tuple[str, ...]) -> Found:
        output = self.graph.mask(free)

        def search(parts: Decomposition) -> Forest:
            known = fans(_relations(parts), self.query.tables, self.graph)
            return generalized_join_trees(
                parts.edges, output, self._part_rates(parts), known, counted=self.query.counted
            )

        parts, forest = with_normal_form(self.graph, self.parts, output, search)
        if self.leaves and forest.trees:
            parts = padding.with_padded(parts, self.leaves, self.graph)
            forest = padding.padded_forest(forest, parts, len(self.leaves), self._part_rates(parts))
        graph = Hypergraph(self.graph.names, parts.edges)
        counted = self.query.counted
        return Found(
            free, graph, parts, forest, tuple(_candidate(tree, graph, parts, counted) for tree in forest.trees)
        )

    def _part_rates(self, parts: Decomposition) -> tuple[float, ...]:
        """Returns the rate of each relation of the tree. A bag changes whenever one of its atoms does."""
        known = {atom.name.partition("[")[0]: rate for atom, rate in zip(self.query.atoms, self.rates, strict=True)}
        rates = []
        for atom, bag in zip(parts.atoms, parts.bags, strict=True):
            names = [a.name for a in bag.atoms] if bag is not None else [atom.name if atom is not None else ""]
            rates.append(sum(known[name.partition("[")[0]] for name in names))
        return tuple(rates)


def bag_count(parts: Decomposition) -> int:
    """Returns the number of bags among the relations of a tree."""
    return sum(bag is not None for bag in parts.bags)


def _relations(parts: Decomposition) -> list[Atom | Bag | None]:
    """Returns the relations of a tree."""
    return [atom or bag for atom, bag in zip(parts.atoms, parts.bags, strict=True)]


def _named(options: list[Found], tree: str) -> Found:
    spelling = "".join(tree.split())
    for option in options:
        for index, candidate in enumerate(option.candidates):
            if "".join(candidate.tree.split()) == spelling:
                return replace(option, chosen=index)
    raise PlanError(
        f"{tree!r} is not a tree of this query",
        hint="its trees are: " + "; ".join(candidate.tree for candidate in options[0].candidates[:8]),
    )


def _candidate(tree: Tree, graph: Hypergraph, parts: Decomposition, counted: bool) -> Candidate:
    depths: dict[str, float] = {}

    def line(part: Tree, depth: float) -> str:
        name = parts.name(part.atom, graph) if part.atom >= 0 else graph.label(part.attributes)
        if part.atom >= 0:
            depths[name] = depth
        edges = zip(part.children, part.unique, strict=True)
        below = ", ".join(line(child, depth + step_cost(one_row)) for child, one_row in edges)
        return f"{name}({below})" if below else name

    return Candidate(line(tree, 0.0), tree.height, tree.touches if counted else tree.cost, depths)
