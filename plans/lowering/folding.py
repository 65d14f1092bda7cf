"""Cycles that declared keys undo: relations that are found by their keys are joined first, and become one.

TPC-H Q5 has a cycle: line, order, customer, nation, supplier, line. But a line has one order, and that one customer:
joined with both it is as many rows as it was, and has the nation itself. What is left has no cycle. So where joins by
declared keys undo all cycles of a query that counts, the relations in question are *folded*: they are a stage of their
own, with no more rows than the first of them, and the rest of the query reads that. Bags, which cost more per change,
are for the cycles that stay.

Source: queries that are acyclic by their functional dependencies, Carmeli and Kroell, "Enumeration Complexity of
Conjunctive Queries with Functional Dependencies" (Theory of Computing Systems 64, 2020), the FD-extended query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from plans.expressions.build import Expr, call, col
from plans.lowering.stages import Stages, columns_read
from plans.queries.algebra import Query, Source, replaced, split, unused
from plans.queries.conjunction import Atom, column_pair, conjunction
from plans.theory.hypergraph import Hypergraph, acyclic

MOST_FOLDED = 6
MOST_SOURCES = 16
"""What is searched: sets of so many relations, in queries of so many."""


def folded(query: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns an equivalent query without cycles, if folding a few relations into one makes it so; else the query.

    `query` counts its rows, and joins by columns. `stage` makes a stage of the join of what is folded.
    """
    if not 2 < len(query.sources) <= MOST_SOURCES:
        return query
    atoms = conjunction(query, True).atoms
    graph = _graph(atoms)
    if acyclic(graph.edges):
        return query
    for members in _chains(query, atoms):
        if _undoes(graph, members, _wanted(query, atoms, members)):
            joined = _joined(query, atoms, members)
            if joined is not None:
                return _reading(query, joined, stages, stage)
    return query


def _graph(atoms: Sequence[Atom]) -> Hypergraph:
    names = Hypergraph(tuple(dict.fromkeys(name for atom in atoms for name in atom.attributes)), ())
    return Hypergraph(names.names, tuple(names.mask(atom.attributes) for atom in atoms))


def _chains(query: Query, atoms: Sequence[Atom]) -> Iterator[tuple[int, ...]]:
    """Yields the sets of relations of which one finds all others by their keys, small ones first."""
    usable = [i for i, source in enumerate(query.sources) if source.group == 0 and source.join == "inner"]
    keys = {i: _key(query.sources[i], atoms[i]) for i in usable}
    for size in range(2, min(MOST_FOLDED, len(usable)) + 1):
        for members in combinations(usable, size):
            if any(_finds(first, members, keys, atoms) for first in members):
                yield members


def _key(source: Source, atom: Atom) -> frozenset[str] | None:
    """Returns the variables of the declared key, if there is one that the query joins by."""
    variable = {column.lower(): name for column, name in zip(atom.columns, atom.attributes, strict=True)}
    key = [variable.get(column.lower()) for column in source.table.key]
    return frozenset(name for name in key if name is not None) if key and None not in key else None


def _finds(first: int, members: Collection[int], keys: dict[int, frozenset[str] | None], atoms: Sequence[Atom]) -> bool:
    """Returns whether a row of the first relation has at most one partner in each of the others, found one by one."""
    known, left = set(atoms[first].attributes), set(members) - {first}
    while found := {i for i in left if (key := keys[i]) is not None and key <= known}:
        known.update(name for i in found for name in atoms[i].attributes)
        left -= found
    return not left


def _wanted(query: Query, atoms: Sequence[Atom], members: Collection[int]) -> set[str]:
    """Returns the variables that stay visible when some relations are folded: of others, and of the output."""
    outside = {name for i, atom in enumerate(atoms) if i not in members for name in atom.attributes}
    joined = conjunction(query, True)
    exprs = [*(expr for _, expr in joined.outputs), *joined.residual]
    return outside | {name for expr in exprs for name in expr.columns}


def _undoes(graph: Hypergraph, members: Collection[int], wanted: set[str]) -> bool:
    """Returns whether neither the join of the members, nor that of what they become with the others, has a cycle."""
    inside = [graph.edges[i] for i in members]
    made = 0
    for edge in inside:
        made |= edge
    rest = [edge for i, edge in enumerate(graph.edges) if i not in members]
    return acyclic(inside) and acyclic([*rest, made & graph.mask(frozenset(wanted))])


def _joined(query: Query, atoms: Sequence[Atom], members: Sequence[int]) -> Query | None:
    """Returns the join of the members, with the columns that are read outside; None if what it joins by is not of one
    type."""
    aliases = {query.sources[i].alias for i in members}
    parts = [part for given in query.conditions for part in given.conjuncts()]
    own = [part for part in parts if part.columns and {split(name)[0] for name in part.columns} <= aliases]
    holders: dict[str, list[Expr]] = {}
    for i in members:
        for column, name in zip(atoms[i].columns, atoms[i].attributes, strict=True):
            holders.setdefault(name, []).append(query.sources[i].qualified(column))
    equal = [{side.value for side in pair} for part in own if (pair := column_pair(part)) is not None]
    for first, *others in holders.values():
        for other in others:  # what only a relation outside equates
            if not _tied(first.value, other.value, equal):
                if first.type != other.type:
                    return None
                own.append(call("eq", first, other))
    outside = replace(
        query,
        sources=tuple(source for source in query.sources if source.alias not in aliases),
        conditions=tuple(part for part in parts if part not in own),
    )
    names: dict[str, Expr] = {}
    for column in sorted(columns_read(outside)):
        alias, name = split(column)
        if alias in aliases:
            names[unused(name, names)] = query.source(alias).qualified(name)
    sources = tuple(source for source in query.sources if source.alias in aliases)
    return Query(query.text, sources, tuple(own), tuple(names.items()), False)


def _tied(one: str, other: str, pairs: Sequence[set[str]]) -> bool:
    """Returns whether pairs of equal columns lead from one column to the other."""
    known = {one}
    while new := {name for pair in pairs if pair & known for name in pair} - known:
        known |= new
    return other in known


def _reading(query: Query, joined: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns the query that reads the rows of a join where it has read the relations of it."""
    aliases = [source.alias for source in joined.sources]
    alias = unused("_".join(aliases), [source.alias for source in query.sources])
    known = stages.rates
    rates = [known.get(s.alias.lower(), known.get(s.table.name.lower(), 1.0)) for s in joined.sources]
    stages.rates = {**known, alias.lower(): sum(rates)}  # it changes with each of them
    made = stages.source(alias, stage(joined))
    names = {expr: col(f"{alias}.{name}", expr.type) for name, expr in joined.outputs}
    inside = {part for given in joined.conditions for part in given.conjuncts()}
    parts = [part for given in query.conditions for part in given.conjuncts() if part not in inside]
    note = f"cycle: {', '.join(aliases)} are joined first, by declared keys; what is left has no cycle"
    return replace(
        query,
        sources=(made, *(source for source in query.sources if source.alias not in aliases)),
        conditions=tuple(replaced(part, names) for part in parts),
        outputs=tuple((name, replaced(expr, names)) for name, expr in query.outputs),
        notes=(*query.notes, note),
    )
