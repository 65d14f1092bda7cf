"""How an outer join, anti join or semi-join finds its partners: by keys if the condition is a conjunction of
equalities, else by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from plans.expressions.build import Expr
from plans.queries.algebra import Query, Source, split

Keys = list[tuple[str, Expr, Expr]]
"""Triples (`eq` or `nseq`, expression over the outer side, expression over the inner side)."""


def aliases_of(expr: Expr) -> set[str]:
    """Returns the aliases of the sources whose columns an expression reads."""
    return {split(name)[0] for name in expr.columns}


def together(sources: Iterable[Source], ties: Iterable[set[str]]) -> list[frozenset[str]]:
    """Returns the connected components of sources, where ties between aliases are the edges."""
    parts = [frozenset([source.alias]) for source in sources]
    for tied in ties:
        inside = [part for part in parts if part & tied]
        if len(inside) > 1:
            parts = [part for part in parts if part not in inside] + [frozenset().union(*inside)]
    return parts


def crossing_keys(on: Iterable[Expr], inner: set[str]) -> Keys | None:
    """Returns the equalities between both sides, or None if a condition has another form."""
    keys: Keys = []
    for one in on:
        if one.op not in ("eq", "nseq"):
            return None
        left, right = one.args
        if aliases_of(left) & inner:
            left, right = right, left
        if aliases_of(left) & inner or not aliases_of(right) <= inner or not aliases_of(right) or not left.columns:
            return None
        keys.append((one.op, left, right))
    return keys


def outer_rows(
    text: str, sources: Sequence[Source], conditions: Iterable[Expr], read: Sequence[Expr], exact: bool = False
) -> Query:
    """Returns a query for the distinct combinations of the columns `read` of an outer side, named k0, k1, ...

    Unless `exact`, any superset of the rows of the outer side is correct, because an extra row joins nothing. So only
    the sources with these columns, and the conditions between them, are read.
    """
    needed = {source.alias for source in sources} if exact else set().union(*(aliases_of(expr) for expr in read))
    if not needed:
        needed = {sources[0].alias}
    chosen = tuple(replace(source, group=0) for source in sources if source.alias in needed)
    inside = tuple(one for one in conditions if one.columns and aliases_of(one) <= needed)
    return Query(text, chosen, inside, tuple((f"k{i}", expr) for i, expr in enumerate(read)), True)
