"""Plans a conjunction: classifies it, completes the output, decomposes it, searches trees, and chooses one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from plans.errors import PlanError
from plans.payloads.counting import with_multiplicities
from plans.plan import Attribute, Bag, Candidate, Node, Output, Plan
from plans.queries.conjunction import EXISTS, Atom, Conjunction
from plans.queries.variables import injective
from plans.search import padding
from plans.search.bounds import bounds
from plans.search.cost import atom_rates, step_cost
from plans.search.counted.fans import fans
from plans.search.decomposition import Decomposition, decompose
from plans.search.jointree import Forest, Tree, generalized_join_trees
from plans.search.normal_form import complete, with_normal_form
from plans.theory.classify import QueryClass, classify
from plans.theory.hypergraph import Hypergraph, bits, components

MAX_ATOMS = 60
MAX_CHILDREN = 200


def plan_conjunction(query: Conjunction, rates: Mapping[str, float] | None = None, tree: str | None = None) -> Plan:
    """Returns the plan of a query in atoms: the best tree, or the tree that `tree` names.

    Raises PlanError if there is no suitable tree. Cost: see `plans.planner.plan`.
    """
    return _planned(query, rates, tree, False)


def _planned(query: Conjunction, rates: Mapping[str, float] | None, tree: str | None, enumerate_all: bool) -> Plan:
    """Plans as `plan_conjunction` does. With `enumerate_all`, all attributes are enumerated, even unused ones."""
    if not query.atoms:
        raise PlanError("the query uses no relation")
    if len(query.atoms) > MAX_ATOMS:
        raise PlanError(f"the query has {len(query.atoms)} relations, more than {MAX_ATOMS}")
    weights = atom_rates(query.atoms, rates)
    read, needed = _output_attributes(query)
    if enumerate_all:
        needed = (*needed, *(name for name in query.attributes if name not in needed))
    parted = padding.apart(query)
    needed = (*needed, *(name for name in parted.keys if name not in needed))
    graph = Hypergraph.of(tuple(query.attributes), [atom.attributes for atom in query.atoms])
    answer = classify(graph, [atom.name for atom in query.atoms], graph.mask(needed))
    notes = list(query.notes)
    joined, leaves = parted.joined, parted.leaves
    graph = Hypergraph.of(graph.names, [atom.attributes for atom in joined])
    needed = tuple(name for name in needed if name not in parted.private)
    parts = decompose(joined, graph, graph.mask(needed), query.counted)
    graph = Hypergraph(graph.names, parts.edges)
    bags = _bags(parts)
    free, completed = complete(graph, needed)
    added = tuple(name for name in free if name not in read)
    output = graph.mask(free)

    def search(decomposition: Decomposition) -> Forest:
        known = fans(_relations(decomposition), query.tables, graph) if query.counted else None
        return generalized_join_trees(
            decomposition.edges, output, _part_rates(decomposition, query.atoms, weights), fans=known
        )

    parts, forest = with_normal_form(graph, parts, output, search)
    if query.counted and _bags(parts) > bags:  # enumerating joined rows costs less than a second copy of a bag
        return _planned(query, rates, tree, True)
    graph = Hypergraph(graph.names, parts.edges)
    if not forest.trees:
        raise PlanError("no join tree of this query has the free nodes on top", hint="please report this query")
    if leaves:
        parts = padding.with_padded(parts, leaves, graph)
        forest = padding.padded_forest(forest, parts, len(leaves), _part_rates(parts, query.atoms, weights))
        graph, free = Hypergraph(graph.names, parts.edges), (*free, *parted.private)
    candidates = tuple(_candidate(found, graph, parts, query.counted) for found in forest.trees)
    best = forest.trees[_chosen(candidates, tree)]
    notes += parts.notes
    notes += _notes(query, graph, parts, answer, forest, needed, read, completed)
    nodes = _nodes(best, graph, parts)
    support = not query.counted and not query.fixed.issuperset(added)
    attributes = _null_safe_projections(query, nodes)
    held = {name for node in nodes for name in (node.attributes if node.kind != "bag" else _bag_attributes(node))}
    plan = Plan(
        query=query.text,
        nodes=nodes,
        attributes=attributes,
        free=free,
        residual=query.residual,
        output=tuple(Output(name, expr.type, expr) for name, expr in query.outputs),
        support=support,
        consolidated=not added and held <= set(free) and not leaves,
        tables=query.tables,
        query_class={"name": answer.name, **answer.to_json()},
        bounds=bounds(answer, best.height, nodes, support, query.tables),
        height=best.height,
        cost=best.touches if query.counted else best.cost,
        rates=_occurrence_rates(nodes, query.atoms, weights),
        candidates=candidates,
        candidate_count=forest.count,
        added=added,
        width=parts.width,
        notes=tuple(notes),
    )
    return with_multiplicities(plan) if query.counted else plan


def _relations(parts: Decomposition) -> list[Atom | Bag | None]:
    """Returns the relations of a tree."""
    return [atom or bag for atom, bag in zip(parts.atoms, parts.bags, strict=True)]


def _bags(parts: Decomposition) -> int:
    """Returns the number of bags among the relations of a tree."""
    return sum(bag is not None for bag in parts.bags)


def _chosen(candidates: tuple[Candidate, ...], tree: str | None) -> int:
    if tree is None:
        return 0
    spelling = "".join(tree.split())
    for index, candidate in enumerate(candidates):
        if "".join(candidate.tree.split()) == spelling:
            return index
    raise PlanError(
        f"{tree!r} is not a tree of this query",
        hint="its trees are: " + "; ".join(candidate.tree for candidate in candidates[:8]),
    )


def _output_attributes(query: Conjunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns (attributes that the output determines, all attributes that output and residual predicates read), in
    output order."""
    fixed = [name for _, expr in query.outputs if (name := injective(expr)) is not None]
    read = [name for name in query.attributes if any(name in expr.columns for _, expr in query.outputs)]
    residual = [name for name in query.attributes if any(name in expr.columns for expr in query.residual)]
    return tuple(dict.fromkeys(fixed)), tuple(dict.fromkeys([*fixed, *read, *residual]))


def _part_rates(parts: Decomposition, atoms: tuple[Atom, ...], weights: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the rate of each relation of the tree. A bag changes whenever one of its atoms does."""
    known = {atom.name.partition("[")[0]: weight for atom, weight in zip(atoms, weights, strict=True)}
    rates = []
    for atom, bag in zip(parts.atoms, parts.bags, strict=True):
        names = [a.name for a in bag.atoms] if bag is not None else [atom.name if atom is not None else ""]
        rates.append(sum(known[name.partition("[")[0]] for name in names))
    return tuple(rates)


def _occurrence_rates(nodes: tuple[Node, ...], atoms: tuple[Atom, ...], weights: tuple[float, ...]) -> dict[str, float]:
    """Returns the rate of every input node and bag atom. A projection changes as often as its atom."""
    known = {atom.name.partition("[")[0]: weight for atom, weight in zip(atoms, weights, strict=True)}
    names = [node.name for node in nodes if node.kind == "input"]
    names += [atom.name for node in nodes if node.bag is not None for atom in node.bag.atoms]
    return {name: known[name.partition("[")[0]] for name in names}


def _nodes(tree: Tree, graph: Hypergraph, parts: Decomposition) -> tuple[Node, ...]:
    nodes: list[Node] = []
    taken: set[str] = set()

    def place(part: Tree, parent: int, above: int) -> None:
        atom = parts.atoms[part.atom] if part.atom >= 0 else None
        bag = parts.bags[part.atom] if part.atom >= 0 else None
        attributes = atom.attributes if atom is not None else graph.attributes(part.attributes)
        name = parts.name(part.atom, graph) if part.atom >= 0 else graph.label(part.attributes)
        while name in taken:
            name += "'"
        taken.add(name)
        key = graph.attributes(part.attributes & above) if parent >= 0 else ()
        if len(part.children) > MAX_CHILDREN:
            raise PlanError(f"{name} joins {len(part.children)} relations directly, more than {MAX_CHILDREN}")
        if atom is not None:
            rows = (atom.relation, atom.columns, atom.predicate)
            node = Node(name, "input", attributes, parent, key, part.free, *rows, padded=atom.padded)
        else:
            node = Node(name, "bag" if bag else "virtual", attributes, parent, key, part.free, bag=bag)
        nodes.append(node)
        index = len(nodes) - 1
        for child in part.children:
            place(child, index, part.attributes)

    place(tree, -1, 0)
    return tuple(nodes)


def _null_safe_projections(query: Conjunction, nodes: tuple[Node, ...]) -> dict[str, Attribute]:
    """Returns the attributes, with those null-safe that only an atom and its own projection share. Their NULLs must
    join with themselves."""
    uses = Counter(name for atom in query.atoms for name in atom.attributes)
    held = Counter(name for node in nodes if node.kind == "input" for name in node.attributes)
    return {
        name: replace(attribute, null_safe=True) if uses[name] == 1 and held[name] > 1 else attribute
        for name, attribute in query.attributes.items()
    }


def _bag_attributes(node: Node) -> tuple[str, ...]:
    assert node.bag is not None
    return tuple(name for atom in node.bag.atoms for name in atom.attributes)


def _candidate(tree: Tree, graph: Hypergraph, parts: Decomposition, counted: bool) -> Candidate:
    depths: dict[str, float] = {}

    def line(part: Tree, depth: float) -> str:
        name = parts.name(part.atom, graph) if part.atom >= 0 else graph.label(part.attributes)
        if part.atom >= 0:
            depths[name] = depth
        below = ", ".join(line(child, depth + step_cost(part.atom >= 0)) for child in part.children)
        return f"{name}({below})" if below else name

    return Candidate(line(tree, 0.0), tree.height, tree.touches if counted else tree.cost, depths)


def _notes(
    query: Conjunction,
    graph: Hypergraph,
    parts: Decomposition,
    answer: QueryClass,
    forest: Forest,
    needed: tuple[str, ...],
    output: tuple[str, ...],
    completed: tuple[str, ...],
) -> list[str]:
    notes = []
    unread = [name for name in needed if name not in output]
    how = "a key fixes them per result row"
    if not query.fixed.issuperset([*unread, *completed]):
        how = (
            "with a support count per result row; an update costs the joined rows that it changes, not only result rows"
        )
    if unread and query.counted:
        why = "enumerated in addition to the output: weights add up, an update costs the joined rows that it changes"
        notes.append(f"{', '.join(unread)}: {why}")
    elif unread:
        notes.append(f"{', '.join(unread)}: kept for computed outputs or residual predicates, {how}")
    if completed:
        why = f"the path {answer.free_path}" if answer.free_path else "the bags' join"
        notes.append(f"{', '.join(completed)}: added to the output because of {why}, {how}")
    filters = [atom.name.removesuffix(EXISTS) for atom in query.atoms if atom.name.endswith(EXISTS)]
    if filters:
        notes.append(
            f"{', '.join(filters)}: only checked for existence: the rows of a key count once, and a change "
            "is passed on when the first row is inserted or the last is deleted"
        )
    groups = components(graph.edges, (1 << len(graph.edges)) - 1)
    if len(groups) > 1:
        sides = " × ".join("{" + ", ".join(parts.name(i, graph) for i in bits(group)) + "}" for group in groups)
        notes.append(f"Cartesian product: no join connects {sides}")
    if not forest.exact:
        notes.append(f"large query: only {forest.count} trees were compared; the choice may not be the best")
    return notes
