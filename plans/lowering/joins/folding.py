"""Joins some relations first, as a stage of their own: where declared keys resolve a cycle, and where a condition would
be tested on a product.

TPC-H Q5 has a cycle: line, order, customer, nation, supplier, line. But a line has one order, and an order has one
customer: the join of line, order and customer has as many rows as line, and contains the nation. What is left has no
cycle. So if joins by declared keys resolve all cycles of a query that counts rows, the relations in question are
*folded*: they form a stage of their own, with no more rows than the first of them, and the rest of the query reads this
stage. Bags, which cost more per change, are used for the remaining cycles.

A product, `FROM bids b, asks a` with no condition between them, has parts that nothing connects. A part with a
condition that is tested on pairs of rows, such as `b.volume > s.least`, becomes a stage of its own: inside the product,
the condition would be tested once for each row of the other parts.

Source: queries that are acyclic by their functional dependencies, Carmeli and Kroell, "Enumeration Complexity of
Conjunctive Queries with Functional Dependencies" (Theory of Computing Systems 64, 2020), the FD-extended query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from plans.expressions.build import Expr, call
from plans.lowering.joins.matches import aliases_of, together
from plans.lowering.stages import Stages, columns_read
from plans.queries.algebra import Query, Source, replaced, split, unused
from plans.queries.conjunction import Atom, column_pair, conjunction
from plans.search.counted.fans import closure, declared_key
from plans.theory.hypergraph import Hypergraph, acyclic, union

MOST_FOLDED = 6
MOST_SOURCES = 16
"""Limits of the search: the most relations of a folded set, and the most relations of a query."""


def folded(query: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns an equivalent query without cycles if folding a few relations into one removes them; else the query
    unchanged.

    `query` counts its rows and joins by columns. `stage` adds a stage for the join of the folded relations.
    """
    if not 2 < len(query.sources) <= MOST_SOURCES:
        return query
    made = conjunction(query, True)
    graph = Hypergraph.of(tuple(made.attributes), [atom.attributes for atom in made.atoms])
    if acyclic(graph.edges):
        return query
    exprs = [*(expr for _, expr in made.outputs), *made.residual]
    shown = graph.mask(frozenset().union(*(expr.columns for expr in exprs)))
    for members in _chains(query, made.atoms, graph):
        if _removes_cycle(graph, members, shown):
            found = _fold(query, made.atoms, members, stages, stage)
            if found is not None:
                return found
    return query


def divided(query: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns an equivalent query in which each part of a product that has conditions other than equalities of columns
    is one relation.

    `query` counts its rows. `stage` adds a stage for a part.
    """
    parts = [part for given in query.conditions for part in given.conjuncts()]
    members = together(query.sources, map(aliases_of, parts))
    if len(members) < 2 or any(source.join != "inner" for source in query.sources):
        return query
    for part in members:
        local = [one for one in parts if one.columns and aliases_of(one) <= part]
        if any(len(aliases_of(one)) > 1 and column_pair(one) is None for one in local):
            inside = [source for source in query.sources if source.alias in part]
            note = (
                f"product: {', '.join(source.alias for source in inside)} are joined first; no condition connects "
                "the others"
            )
            query = _joined_first(query, inside, local, [], note, stages, stage)
    return query


def _chains(query: Query, atoms: Sequence[Atom], graph: Hypergraph) -> Iterator[tuple[int, ...]]:
    """Yields the sets of relations in which one relation determines all others by their keys, small sets first."""
    usable = [i for i, source in enumerate(query.sources) if source.group == 0 and source.join == "inner"]
    declared = {i: declared_key(atoms[i], query.sources[i].table) for i in usable}
    keys = {i: graph.mask(key) for i, key in declared.items() if key is not None}
    for size in range(2, min(MOST_FOLDED, len(usable)) + 1):
        for members in combinations(usable, size):
            fixes = [(keys[i], graph.edges[i]) for i in members if i in keys]
            for first in members:
                known = closure(graph.edges[first], fixes)
                if all(i == first or (i in keys and keys[i] & ~known == 0) for i in members):
                    yield members
                    break


def _removes_cycle(graph: Hypergraph, members: Collection[int], shown: int) -> bool:
    """Returns whether the join of the members is acyclic, and the join of their result with the other relations, too.

    The result of the members has the attributes that other relations have, or that are `shown`.
    """
    inside = [graph.edges[i] for i in members]
    rest = [edge for i, edge in enumerate(graph.edges) if i not in members]
    seen = shown | union(rest, (1 << len(rest)) - 1)
    return acyclic(inside) and acyclic([*rest, union(inside, (1 << len(inside)) - 1) & seen])


def _fold(
    query: Query, atoms: Sequence[Atom], members: Sequence[int], stages: Stages, stage: Callable[[Query], int]
) -> Query | None:
    """Returns the query that reads the join of the members as a stage. Returns None if they join by columns of
    different types."""
    inside = [query.sources[i] for i in members]
    aliases = {source.alias for source in inside}
    local = [part for given in query.conditions for part in given.conjuncts() if part.columns]
    local = [part for part in local if aliases_of(part) <= aliases]
    tied = _outside_equalities(query, atoms, members, local)
    if tied is None:
        return None
    names = ", ".join(source.alias for source in inside)
    note = f"cycle: {names} are joined first, by declared keys; the rest has no cycle"
    return _joined_first(query, inside, local, tied, note, stages, stage)


def _joined_first(
    query: Query,
    inside: Sequence[Source],
    local: Sequence[Expr],
    equalities: Sequence[Expr],
    note: str,
    stages: Stages,
    stage: Callable[[Query], int],
) -> Query:
    """Returns the query that reads the join of some sources as a stage. Their `local` conditions are removed from the
    query; the `equalities` conditions join them as well."""
    aliases = [source.alias for source in inside]
    parts = [part for given in query.conditions for part in given.conjuncts()]
    rest = replace(
        query,
        sources=tuple(source for source in query.sources if source not in inside),
        conditions=tuple(part for part in parts if part not in local),
    )
    columns: dict[str, Expr] = {}
    for qualified in sorted(columns_read(rest)):
        alias, name = split(qualified)
        if alias in aliases:
            columns[unused(name, columns)] = query.source(alias).qualified(name)
    number = stage(Query(query.text, tuple(inside), (*local, *equalities), tuple(columns.items()), False))
    made = stages.source(unused("_".join(aliases), [source.alias for source in query.sources]), number)
    known = stages.rates
    rates = [known.get(s.alias.lower(), known.get(s.table.name.lower(), 1.0)) for s in inside]
    stages.rates = {**known, made.alias.lower(): sum(rates)}  # the stage changes with each of them
    names = {column: made.qualified(name) for name, column in columns.items()}
    return replace(
        rest,
        sources=(made, *rest.sources),
        conditions=tuple(replaced(part, names) for part in rest.conditions),
        outputs=tuple((name, replaced(expr, names)) for name, expr in rest.outputs),
        notes=(*rest.notes, note),
    )


def _outside_equalities(
    query: Query, atoms: Sequence[Atom], members: Sequence[int], local: Sequence[Expr]
) -> list[Expr] | None:
    """Returns the equalities between members that hold only through a relation outside. Returns None if such an
    equality is between columns of different types. `local`: the conditions over members alone."""
    holders: dict[str, list[Expr]] = {}
    for i in members:
        for column, name in zip(atoms[i].columns, atoms[i].attributes, strict=True):
            holders.setdefault(name, []).append(query.sources[i].qualified(column))
    pairs = [{side.value for side in pair} for part in local if (pair := column_pair(part)) is not None]
    found = []
    for first, *others in holders.values():
        linked = {first.value}
        while new := {name for pair in pairs if pair & linked for name in pair} - linked:
            linked |= new
        for other in others:
            if other.value not in linked:
                if first.type != other.type:
                    return None
                found.append(call("eq", first, other))
    return found
