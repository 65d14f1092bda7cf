"""From a query to a plan, in order: parse, form atoms, classify, complete the output, decompose, search trees,
choose.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

from plans.conjunction import Atom, Attribute, Conjunction, conjunction, injective
from plans.errors import PlanError, QueryWarning
from plans.plan import Candidate, Node, Output, Plan
from plans.query import Query
from plans.schema import Schema
from plans.search.bounds import bounds
from plans.search.cost import atom_rates, step_cost
from plans.search.decomposition import Decomposition, decompose, with_projections
from plans.search.jointree import Forest, Tree, generalized_join_trees
from plans.stack import with_room
from plans.theory.classify import QueryClass, classify, free_path
from plans.theory.hypergraph import Hypergraph, acyclic, bits, components

MAX_ATOMS = 60
MAX_CHILDREN = 200
_PROJECTION_TRIES = 200


def parse(query: str, schema: Any = None, *, dialect: str = "spark") -> Query:
    """A query in any of the three languages: Datalog has `:-`, a motif `-[...]->`, everything else is SQL.

    `dialect` of SQL, as for `plan`. Issues a QueryWarning where a text may not mean what it says.
    """
    if not isinstance(query, str):
        raise PlanError(f"a query is text, not {_kind(query)}")
    parsed = with_room(_parsed, query, Schema.of(schema), dialect)
    _warn(parsed)
    return parsed


def _parsed(query: str, tables: Schema, dialect: str) -> Query:
    from plans.frontends import datalog, motif

    if not query.strip():
        raise PlanError("the query is empty", hint="write SQL, a Datalog rule or a motif")
    if ":-" in query:
        return datalog.parse(query, tables)
    if motif.looks_like(query):
        return motif.parse(query, tables)
    from plans.frontends import sql

    return sql.parse(query, tables, dialect=dialect)


def _warn(query: Query) -> None:
    for message in query.warnings:
        warnings.warn(message, QueryWarning, stacklevel=3)


def plan(
    query: str | Query | Plan | Mapping[str, Any],
    schema: Any = None,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    tree: str | None = None,
) -> Plan:
    """Plan a query.

    `query`: SQL, Datalog or motif text, a parsed `Query`, or a `Plan` (also its JSON), which is returned as it is.
    `schema`: see `Schema.of`. `rates`: updates per relation or alias (only ratios matter; 1 if not given). `tree`: one
    of the candidates, as EXPLAIN writes it, instead of the best. `dialect` of SQL: `spark`, or `ansi`, in which double
    quotes write names instead of text. Raises PlanError for everything a user can get wrong, and issues a QueryWarning
    where a text in double quotes is called as a column. Cost: milliseconds up to 8 relations; exact up to 12.

    >>> schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}, "T": {"c": "int64"}}
    >>> made = plan("Q(a, b, c) :- R(a, b), S(b, c), T(c).", schema)
    >>> made.query_class["name"], made.height, [node.name for node in made.nodes], made.candidates[0].tree
    ('free-connex', 2, ['S', 'R', 'T'], 'S(R, T)')
    >>> plan("Q(a, b, c) :- R(a, b), S(b, c), T(c).", schema, tree="R(S(T))").height
    3
    """
    if isinstance(query, Plan):
        return query
    if isinstance(query, Mapping):
        return Plan.from_json(query)
    if isinstance(query, str) and query.lstrip().startswith("{"):
        return Plan.from_json(query)
    if not isinstance(query, (str, Query)):
        raise PlanError(f"a query is text or a Plan, not {_kind(query)}", hint=_advice(query))
    for what, given, kind in (("rates", rates, Mapping), ("tree", tree, str), ("dialect", dialect, str)):
        if given is not None and not isinstance(given, kind):
            raise PlanError(f"{what}= takes {_WANTED[what]}, not {_kind(given)}")
    parsed = query
    if isinstance(parsed, str):
        parsed = with_room(_parsed, parsed, Schema.of(schema), dialect)
        _warn(parsed)
    return with_room(lambda: plan_conjunction(conjunction(parsed), rates, tree))


_WANTED = {
    "rates": "numbers by relation or alias, like {'g': 10}",
    "tree": "a tree as EXPLAIN writes it",
    "dialect": "'spark' or 'ansi'",
}


def _kind(given: Any) -> str:
    """What the user passed, in words."""
    name = type(given).__name__
    if given is None or isinstance(given, bytes):
        return "None" if given is None else name
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _advice(given: Any) -> str:
    if isinstance(given, bytes):
        return "decode it: query.decode()"
    if isinstance(given, Path):
        return "read it: path.read_text()"
    return "write SQL, a Datalog rule or a motif"


def plan_conjunction(query: Conjunction, rates: Mapping[str, float] | None = None, tree: str | None = None) -> Plan:
    """Plan a query that is already in atoms."""
    if not query.atoms:
        raise PlanError("the query uses no relation")
    if len(query.atoms) > MAX_ATOMS:
        raise PlanError(f"the query has {len(query.atoms)} relations, more than {MAX_ATOMS}")
    weights = atom_rates(query.atoms, rates)
    asked, needed = _output_attributes(query)
    graph = _graph(query.atoms, tuple(query.attributes))
    answer = classify(graph, [atom.name for atom in query.atoms], graph.mask(needed))
    notes = list(query.notes)
    parts = decompose(query.atoms, graph, graph.mask(needed))
    graph = Hypergraph(graph.names, parts.edges)
    free, completed = complete(graph, needed)
    added = tuple(name for name in free if name not in asked)
    parts, forest = _search(graph, parts, graph.mask(free), lambda made: _part_rates(made, query.atoms, weights))
    graph = Hypergraph(graph.names, parts.edges)
    if not forest.trees:
        raise PlanError("no join tree of this query has the free nodes on top", hint="please report this query")
    candidates = tuple(_candidate(found, graph, parts) for found in forest.trees)
    best = forest.trees[_chosen(candidates, tree)]
    notes += parts.notes
    notes += _notes(query, graph, parts, answer, forest, needed, asked, completed)
    nodes = _nodes(best, graph, parts)
    support = not query.fixed.issuperset(added)
    attributes = _null_safe_projections(query, nodes)
    held = {name for node in nodes for name in (node.attributes if node.kind != "bag" else _bag_attributes(node))}
    return Plan(
        query=query.text,
        nodes=nodes,
        attributes=attributes,
        free=free,
        residual=query.residual,
        output=tuple(Output(name, expr.type, expr) for name, expr in query.outputs),
        support=support,
        consolidated=not added and held <= set(free),
        tables=query.tables,
        query_class={"name": answer.name, **answer.to_json()},
        bounds=bounds(answer, best.height, nodes, support),
        height=best.height,
        cost=best.cost,
        rates=_occurrence_rates(nodes, query.atoms, weights),
        candidates=candidates,
        candidate_count=forest.count,
        added=added,
        width=parts.width,
        notes=tuple(notes),
    )


def _chosen(candidates: tuple[Candidate, ...], tree: str | None) -> int:
    if tree is None:
        return 0
    wanted = "".join(tree.split())
    for index, candidate in enumerate(candidates):
        if "".join(candidate.tree.split()) == wanted:
            return index
    raise PlanError(
        f"{tree!r} is not a tree of this query",
        hint="its trees are: " + "; ".join(candidate.tree for candidate in candidates[:8]),
    )


def _graph(atoms: tuple[Atom, ...], names: tuple[str, ...]) -> Hypergraph:
    graph = Hypergraph(names, ())
    return Hypergraph(names, tuple(graph.mask(atom.attributes) for atom in atoms))


def _output_attributes(query: Conjunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(attributes that the output fixes, all attributes that output and residual predicates read), in output order."""
    fixed = [name for _, expr in query.outputs if (name := injective(expr)) is not None]
    read = [name for name in query.attributes if any(name in expr.columns for _, expr in query.outputs)]
    residual = [name for name in query.attributes if any(name in expr.columns for expr in query.residual)]
    return tuple(dict.fromkeys(fixed)), tuple(dict.fromkeys([*fixed, *read, *residual]))


def complete(graph: Hypergraph, needed: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The smallest free-connex output that contains `needed`, and what was added.

    Every superset that is free-connex contains the inner attributes of every chordless path between two output
    attributes through others (what it left out would be such a path again), so the closure under "add them" is the
    unique minimum.
    """
    free = list(needed)
    while path := free_path(graph.edges, graph.mask(free)):
        free += [graph.names[v] for v in path[1:-1]]
    return tuple(free), tuple(free[len(needed) :])


def _search(
    graph: Hypergraph, parts: Decomposition, free: int, rates: Callable[[Decomposition], tuple[float, ...]]
) -> tuple[Decomposition, Forest]:
    """The best trees; where normal form needs it, with a projection π_y(e) of some mixed node e as a relation of its
    own.

    A virtual node's children must all contain it. If e ∩ y has to carry other children too, the engine is given
    π_y(e) as one more input relation: joined with e it changes nothing, and it is free. Projections of bags are taken
    only where those of atoms do not do: each is one more bag to maintain.
    """
    forest = generalized_join_trees(graph.edges, free, rates(parts))
    if forest.trees or not acyclic([*graph.edges, free]):
        return parts, forest
    mixed = [i for i, edge in enumerate(graph.edges) if edge & free and edge & ~free]

    def grown(chosen: tuple[int, ...]) -> tuple[Decomposition, Forest]:
        more = with_projections(graph, parts, free, chosen)
        return more, generalized_join_trees(more.edges, free, rates(more))

    for allowed in ([i for i in mixed if parts.bags[i] is None], mixed):
        if not grown(tuple(allowed))[1].trees:
            continue  # more projections never hurt, so fewer would not do either
        for size in range(1, len(allowed) + 1):
            if comb(len(allowed), size) > _PROJECTION_TRIES:
                break
            found = [made for chosen in combinations(allowed, size) if (made := grown(chosen))[1].trees]
            if found:
                return min(found, key=lambda made: _rank(made[1]))
        chosen = tuple(allowed)
        for i in allowed:
            fewer = tuple(x for x in chosen if x != i)
            if fewer and grown(fewer)[1].trees:
                chosen = fewer
        return grown(chosen)
    return parts, forest


def _rank(forest: Forest) -> tuple[int, float]:
    return forest.trees[0].height, forest.trees[0].cost


def _part_rates(parts: Decomposition, atoms: tuple[Atom, ...], weights: tuple[float, ...]) -> tuple[float, ...]:
    """A bag changes whenever one of its atoms does."""
    known = {atom.name: weight for atom, weight in zip(atoms, weights, strict=True)}
    rates = []
    for atom, bag in zip(parts.atoms, parts.bags, strict=True):
        names = [a.name for a in bag.atoms] if bag is not None else [atom.name if atom is not None else ""]
        rates.append(sum(known[name.partition("[")[0]] for name in names))
    return tuple(rates)


def _occurrence_rates(nodes: tuple[Node, ...], atoms: tuple[Atom, ...], weights: tuple[float, ...]) -> dict[str, float]:
    """The rate of every input node and bag atom; a projection changes as often as what it projects."""
    known = {atom.name: weight for atom, weight in zip(atoms, weights, strict=True)}
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
            node = Node(name, "input", attributes, parent, key, part.free, atom.relation, atom.columns, atom.predicate)
        else:
            node = Node(name, "bag" if bag else "virtual", attributes, parent, key, part.free, bag=bag)
        nodes.append(node)
        index = len(nodes) - 1
        for child in part.children:
            place(child, index, part.attributes)

    place(tree, -1, 0)
    return tuple(nodes)


def _null_safe_projections(query: Conjunction, nodes: tuple[Node, ...]) -> dict[str, Attribute]:
    """An attribute that only an atom and its own projection share must keep its NULLs: they join with themselves."""
    uses = Counter(name for atom in query.atoms for name in atom.attributes)
    held = Counter(name for node in nodes if node.kind == "input" for name in node.attributes)
    return {
        name: replace(attribute, null_safe=True) if uses[name] == 1 and held[name] > 1 else attribute
        for name, attribute in query.attributes.items()
    }


def _bag_attributes(node: Node) -> tuple[str, ...]:
    assert node.bag is not None
    return tuple(name for atom in node.bag.atoms for name in atom.attributes)


def _candidate(tree: Tree, graph: Hypergraph, parts: Decomposition) -> Candidate:
    depths: dict[str, float] = {}

    def line(part: Tree, depth: float) -> str:
        name = parts.name(part.atom, graph) if part.atom >= 0 else graph.label(part.attributes)
        if part.atom >= 0:
            depths[name] = depth
        below = ", ".join(line(child, depth + step_cost(part.atom >= 0)) for child in part.children)
        return f"{name}({below})" if below else name

    return Candidate(line(tree, 0.0), tree.height, tree.cost, depths)


def _notes(
    query: Conjunction,
    graph: Hypergraph,
    parts: Decomposition,
    answer: QueryClass,
    forest: Forest,
    needed: tuple[str, ...],
    asked: tuple[str, ...],
    completed: tuple[str, ...],
) -> list[str]:
    notes = []
    read = [name for name in needed if name not in asked]
    how = "a key fixes them per result row"
    if not query.fixed.issuperset([*read, *completed]):
        how = (
            "with a support count per result row; an update costs the joined rows that it changes, not only result rows"
        )
    if read:
        notes.append(f"{', '.join(read)}: kept for computed outputs or residual predicates, {how}")
    if completed:
        why = f"the path {answer.free_path}" if answer.free_path else "the bags' join"
        notes.append(f"{', '.join(completed)}: added to the output because of {why}, {how}")
    groups = components(graph.edges, (1 << len(graph.edges)) - 1)
    if len(groups) > 1:
        sides = " × ".join("{" + ", ".join(parts.name(i, graph) for i in bits(group)) + "}" for group in groups)
        notes.append(f"Cartesian product: no join connects {sides}")
    if not forest.exact:
        notes.append(f"large query: {forest.count} trees seen, not all there are; the choice may not be the best")
    return notes
