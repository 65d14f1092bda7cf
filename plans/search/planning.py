"""Plans a conjunction: classifies it, completes the output, decomposes it, searches trees, and chooses one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from plans.errors import PlanError
from plans.payloads.counting import with_multiplicities
from plans.plan import Attribute, Node, Output, Plan
from plans.queries.conjunction import EXISTS, Atom, Conjunction
from plans.queries.variables import injective
from plans.search import padding
from plans.search.bounds import bounds
from plans.search.cost import atom_rates
from plans.search.decomposition import Decomposition, cyclic_parts, decompose
from plans.search.jointree import Forest, Tree
from plans.search.normal_form import complete
from plans.search.trees import TreeSearch, bag_count
from plans.theory.classify import QueryClass, classify
from plans.theory.hypergraph import Hypergraph, bits, components

MAX_ATOMS = 60
MAX_CHILDREN = 200


def plan_conjunction(
    query: Conjunction, rates: Mapping[str, float] | None = None, tree: str | None = None, passed_on: bool = False
) -> Plan:
    """Returns the plan of a query in atoms: the best tree, or the tree that `tree` names. `passed_on`: only the changes
    of the result are read.

    Raises PlanError if there is no suitable tree. Cost: see `plans.planner.plan`.
    """
    return _planned(query, rates, tree, passed_on and lists_joined_rows(query))


def lists_joined_rows(query: Conjunction) -> bool:
    """Returns whether a query that counts its rows is one bag that lists them if all attributes are enumerated.

    If only changes of the result are read, nothing costs less: any tree above the bag would receive each of these rows.
    This excludes look-ups: a tree keeps the sums of the rows of a look-up, so a change of a look-up need not list them.
    Triangles of which no attribute is read are excluded, too, since there is a module that only counts them.
    """
    graph = Hypergraph.of(tuple(query.attributes), [atom.attributes for atom in query.atoms])
    if {edge for part in cyclic_parts(graph.edges) for edge in part} != set(graph.edges) or not query.counted:
        return False
    parts = decompose(query.atoms, graph, graph.mask(tuple(query.attributes)), query.tables, True)
    return parts.atoms == (None,) and (bool(_output_attributes(query)[1]) or len(query.atoms) > 3)


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
    parts = decompose(joined, graph, graph.mask(needed), query.tables, query.counted)
    graph = Hypergraph(graph.names, parts.edges)
    free, completed = complete(graph, needed)
    search = TreeSearch(query, graph, parts, leaves, weights)
    bags = bag_count(parts)
    found = search.found(free, tree)
    if query.counted and bag_count(found.parts) > bags:
        # Enumerating joined rows costs less than a second copy of a bag.
        return _planned(query, rates, tree, True)
    graph, parts, forest, best = found.graph, found.parts, found.forest, found.best
    determined = tuple(name for name in found.free if name not in free)
    free = (*found.free, *(parted.private if leaves else ()))
    added = tuple(name for name in free if name not in query.fixed.union(determined))
    notes += parts.notes
    notes += _notes(query, graph, parts, answer, forest, needed, read, completed, determined)
    nodes = _nodes(best, graph, parts)
    support = not query.counted and bool(added)
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
        consolidated=held <= set(read) and not leaves,
        tables=query.tables,
        query_class={"name": answer.name, **answer.to_json()},
        height=best.height,
        cost=best.touches if query.counted else best.cost,
        rates=_occurrence_rates(nodes, query.atoms, weights),
        candidates=found.candidates,
        candidate_count=forest.count,
        added=added,
        width=parts.width,
        notes=tuple(notes),
    )
    plan = replace(plan, bounds=bounds(answer, plan))
    return with_multiplicities(plan) if query.counted else plan


def _output_attributes(query: Conjunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns (attributes that the output determines, all attributes that output and residual predicates read), in
    output order."""
    fixed = [name for _, expr in query.outputs if (name := injective(expr)) is not None]
    read = [name for name in query.attributes if any(name in expr.columns for _, expr in query.outputs)]
    residual = [name for name in query.attributes if any(name in expr.columns for expr in query.residual)]
    return tuple(dict.fromkeys(fixed)), tuple(dict.fromkeys([*fixed, *read, *residual]))


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


def _notes(
    query: Conjunction,
    graph: Hypergraph,
    parts: Decomposition,
    answer: QueryClass,
    forest: Forest,
    needed: tuple[str, ...],
    output: tuple[str, ...],
    completed: tuple[str, ...],
    determined: tuple[str, ...],
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
    if determined:
        why = "added to the output to save projections, a key fixes them per result row"
        notes.append(f"{', '.join(determined)}: {why}")
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
