"""Subqueries that only test for existence, in a query that counts its rows.

In a query with set semantics they are joined like other sources. In a query that counts rows, a single relation that is
found by equal columns stays in the join, as an atom whose rows count once (`plans.queries`). Each other subquery
becomes a relation of its own without duplicates: the rows of a DISTINCT subquery, or the keys by which IN, EXISTS and
SEMI JOIN find a partner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.expressions.build import TRUE, Expr, call, col
from plans.lowering.joins.matches import crossing_keys, outer_rows
from plans.lowering.stages import Stages
from plans.queries.algebra import Query, Source, replaced, split, unused
from plans.queries.conjunction import column_pair


def without_groups(query: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns an equivalent query whose sources all count their rows, or filter by equal columns. `stage` adds a stage
    for a query."""
    query = without_distinct(query, stages, stage)
    for part in _parts(query):
        query = _semi(query, part, stages, stage)
    return query


def without_distinct(query: Query, stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns an equivalent query in which each DISTINCT subquery is a relation of its own."""
    keyed = {group for group, _ in query.keys}
    for part in _parts(query) if keyed else ():
        if part & keyed:
            query = _one(query, part, stages, stage)
    return query


def _groups(query: Query, expr: Expr) -> set[int]:
    group = {source.alias: source.group for source in query.sources}
    return {group[split(name)[0]] for name in expr.columns}


def _links(query: Query) -> list[set[int]]:
    """Returns the groups that each condition reads."""
    links = [_groups(query, one) for given in query.conditions for one in given.conjuncts()]
    return links + [{source.group} | _groups(query, one) for source in query.sources for one in source.on]


def _parts(query: Query) -> list[frozenset[int]]:
    """Returns the existential groups. Groups that a condition connects are one part; a DISTINCT subquery includes those
    inside it."""
    keyed = {group for group, _ in query.keys}
    parts = [{source.group} for source in query.sources if source.group]
    parts = [part for i, part in enumerate(parts) if part not in parts[:i]]
    links = _links(query)
    for link in links:
        tied = [part for part in parts if part & (link - keyed)]
        if len(tied) > 1:
            parts = [part for part in parts if part not in tied] + [set().union(*tied)]
    for part in [part for part in parts if not part & keyed]:
        shared = set().union(*(link - part for link in links if link & part))
        if len(shared) == 1 and shared <= keyed:
            target = next(other for other in parts if shared <= other)
            parts.remove(part)
            target |= part
    return [frozenset(part) for part in parts]


def _split(query: Query, part: frozenset[int]) -> tuple[tuple[Source, ...], list[Expr], list[Source], list[Expr]]:
    """Returns the sources and conditions inside a part, and the other sources and conditions."""
    inside = tuple(replace(source, group=0) for source in query.sources if source.group in part)
    own: list[Expr] = []
    others: list[Expr] = []
    for given in query.conditions:
        for one in given.conjuncts():
            (own if one.columns and _groups(query, one) <= part else others).append(one)
    return inside, own, [source for source in query.sources if source.group not in part], others


def _one(query: Query, part: frozenset[int], stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns the query in which a DISTINCT subquery is a relation. Expressions of the subquery become columns of
    it."""
    exprs = next(exprs for group, exprs in query.keys if group in part)
    inside, own, rest, others = _split(query, part)
    outputs = tuple((f"c{i}", expr) for i, expr in enumerate(exprs))
    number = stage(Query(query.text, inside, tuple(own), outputs, True))
    source = stages.source(inside[0].alias, number, distinct=True)
    names = {expr: source.qualified(name) for name, expr in outputs if expr.columns}  # a constant is equal everywhere
    return replace(
        query,
        sources=(source, *(replace(s, on=tuple(replaced(one, names) for one in s.on)) for s in rest)),
        conditions=tuple(replaced(one, names) for one in others),
        outputs=tuple((name, replaced(expr, names)) for name, expr in query.outputs),
        keys=tuple(
            (group, tuple(replaced(e, names) for e in exprs)) for group, exprs in query.keys if group not in part
        ),
    )


def _filters(query: Query, inside: set[str], others: list[Expr]) -> bool:
    """Returns whether every condition that connects a relation with others equates a column of it with one of a source
    that counts."""
    on = [one for one in others if {split(name)[0] for name in one.columns} & inside]
    return bool(on) and all(column_pair(one) is not None and 0 in _groups(query, one) for one in on)


def _semi(query: Query, part: frozenset[int], stages: Stages, stage: Callable[[Query], int]) -> Query:
    """Returns the query in which IN, EXISTS or SEMI JOIN is a join with the distinct keys that have a partner."""
    inside, own, rest, others = _split(query, part)
    aliases = {source.alias for source in inside}
    if len(inside) == 1 and _filters(query, aliases, others):
        return query
    on = [one for one in others if {split(name)[0] for name in one.columns} & aliases]
    kept = [one for one in others if one not in on]
    keys = crossing_keys(on, aliases)
    if keys is None:
        read = list(dict.fromkeys(n for one in on for n in one.postorder() if n.op == "col"))
        read = [column for column in read if split(column.value)[0] not in aliases]
        left = outer_rows(query.text, rest, kept, read)
        pairs = [("nseq", column, column) for column in read]
        inside, own = (*inside, *left.sources), [*own, *left.conditions, *on]
    else:
        pairs = keys
    outputs = tuple((f"k{i}", inner) for i, (_, _, inner) in enumerate(pairs)) or (("k0", TRUE),)
    number = stage(Query(query.text, inside, tuple(own), outputs, True))
    alias = unused(inside[0].alias, [source.alias for source in rest])
    source = stages.source(alias, number, distinct=True)
    joins = [call(op, outer, col(f"{alias}.k{i}", inner.type)) for i, (op, outer, inner) in enumerate(pairs)]
    return replace(query, sources=(*rest, source), conditions=(*kept, *joins))
