"""Rewrites EXISTS with a comparison as a comparison with the best row: `EXISTS (SELECT 1 FROM q WHERE q.g = t.g AND q.p
< t.x)` holds if the least `p` of the group `g` is below `x`.

The subquery becomes a group with a MIN or MAX, of which each outer row meets at most one row, and the comparison
becomes a band with one bound (`plans.lowering.comparisons.bands`). A change of the subquery then costs the number of
rows for which the answer changes, instead of the number of all pairs. NOT EXISTS, and EXISTS as a value, use the same
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from plans.expressions.build import MIRROR, Expr, call, col
from plans.lowering.comparisons.offsets import ORDERING
from plans.lowering.joins.matches import aliases_of
from plans.nested import is_nested
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Relation, Source, rebuilt
from plans.schema import Column, Table

_BEST, _VALUE = "best", "value"


@dataclass(frozen=True)
class _Comparison:
    """The conditions on a subquery: those over its own columns, pairs of equal expressions (`eq` or `nseq`, outer,
    inner), and one comparison of an inner value with an outer one."""

    local: tuple[Expr, ...]
    keys: tuple[tuple[str, Expr, Expr], ...]
    op: str
    value: Expr
    outer: Expr


def by_bests(relation: Relation) -> Relation:
    """Returns an equivalent relation in which subqueries with one comparison are groups with the best value."""
    return rebuilt(relation, lambda part: _by_bests(part) if isinstance(part, Query) else part)


def _by_bests(query: Query) -> Query:
    counted = {source.alias for source in query.sources if source.group == 0}
    keyed = {group for group, _ in query.keys}
    for group in sorted({source.group for source in query.sources} - keyed - {0}):
        query = _existing(query, group, counted)
    sources = tuple(
        _absent(query, one, counted - {one.alias}) if one.join in ("anti", "mark") else one for one in query.sources
    )
    return query if sources == query.sources else replace(query, sources=sources)


def _existing(query: Query, group: int, counted: set[str]) -> Query:
    """Returns the query in which an existential group is replaced by its best rows. Returns the query unchanged if the
    group has other conditions."""
    inside = [source for source in query.sources if source.group == group]
    aliases = {source.alias for source in inside}
    rest = [source for source in query.sources if source.group != group]
    if any(source.join != "inner" for source in inside) or any(aliases_of(on) & aliases for s in rest for on in s.on):
        return query
    parts = [part for one in query.conditions for part in one.conjuncts()]
    group_parts = [part for part in parts if aliases_of(part) & aliases]
    comparison = _comparison_of(group_parts, aliases, counted)
    if comparison is None:
        return query
    source, conditions = _best_of(query.text, [replace(one, group=0) for one in inside], comparison)
    others = tuple(part for part in parts if part not in group_parts)
    return replace(query, sources=(*rest, source), conditions=(*others, *conditions))


def _absent(query: Query, source: Source, counted: set[str]) -> Source:
    """Returns a source of an anti join or a mark, replaced by its best rows; the source itself if it has other
    conditions."""
    parts = [part for one in source.on for part in one.conjuncts()]
    comparison = _comparison_of(parts, {source.alias}, counted)
    if source.group or comparison is None:
        return source
    made, conditions = _best_of(query.text, [replace(source, join="inner", on=())], comparison)
    return replace(made, join=source.join, on=conditions)


def _comparison_of(parts: Iterable[Expr], inside: set[str], counted: set[str]) -> _Comparison | None:
    """Returns the conditions on a subquery if they are equalities and one comparison with sources that count; else
    None."""
    local: list[Expr] = []
    keys: list[tuple[str, Expr, Expr]] = []
    compared: list[tuple[str, Expr, Expr]] = []
    for part in parts:
        if aliases_of(part) <= inside:
            local.append(part)
            continue
        if part.op not in ("eq", "nseq", *ORDERING):
            return None
        inner, outer, op = *part.args, part.op
        if aliases_of(outer) & inside:
            inner, outer, op = outer, inner, MIRROR.get(op, op)
        read = aliases_of(outer)
        if not aliases_of(inner) or not aliases_of(inner) <= inside or not read or not read <= counted:
            return None
        if op in ORDERING:
            compared.append((op, inner, outer))
        else:
            keys.append((op, outer, inner))
    if len(compared) != 1:
        return None
    op, value, outer = compared[0]
    if value.type != outer.type or value.type == "bool" or is_nested(value.type):
        return None
    return _Comparison(tuple(local), tuple(keys), op, value, outer)


def _best_of(text: str, inside: Sequence[Source], comparison: _Comparison) -> tuple[Source, tuple[Expr, ...]]:
    """Returns the best value for each combination of the keys as a source, and the conditions that join it."""
    named = tuple((f"k{i}", inner) for i, (_, _, inner) in enumerate(comparison.keys))
    rows = Query(text, tuple(inside), comparison.local, (*named, (_VALUE, comparison.value)), False)
    function = "min" if comparison.op in ("lt", "le") else "max"
    best = Aggregate(_BEST, comparison.value.type, function, (_VALUE,))
    shown = tuple((name, col(name, expr.type)) for name, expr in (*named, (_BEST, comparison.value)))
    made = Group(rows, tuple(name for name, _ in named), (best,), shown, None, not named)
    source = Source(
        inside[0].alias, Table(inside[0].alias, tuple(Column(c.name, c.type) for c in made.columns)), 0, made
    )
    ties = [
        call(op, outer, source.qualified(name))
        for (op, outer, _), (name, _) in zip(comparison.keys, named, strict=True)
    ]
    return source, (*ties, call(comparison.op, source.qualified(_BEST), comparison.outer))
