"""The match of an outer, anti or semi-join: by keys for a conjunction of equalities, else by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from plans.expressions.build import Expr
from plans.queries.algebra import Query, Source, split

Keys = list[tuple[str, Expr, Expr]]
"""Triples (`eq` or `nseq`, expression over the outer side, expression over the inner side)."""


def aliases_of(expr: Expr) -> set[str]:
    """Returns the sources whose columns an expression reads."""
    return {split(name)[0] for name in expr.columns}


def together(sources: Iterable[Source], ties: Iterable[set[str]]) -> list[frozenset[str]]:
    """Returns the parts of a join that ties between aliases leave: those of sources that are tied are one."""
    parts = [frozenset([source.alias]) for source in sources]
    for tied in ties:
        inside = [part for part in parts if part & tied]
        if len(inside) > 1:
            parts = [part for part in parts if part not in inside] + [frozenset().union(*inside)]
    return parts


def crossing_keys(on: Iterable[Expr], inner: set[str]) -> Keys | None:
    """Returns the equalities between both sides; None if a condition is something else."""
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
    """Returns a query for the columns `read` of an outer side, named k0, k1, ..., each combination once.

    Any superset of what the outer side holds will do, unless it is to be `exact`: what is not there joins nothing. So
    of its sources those with these columns suffice, with the conditions between them.
    """
    needed = {source.alias for source in sources} if exact else set().union(*(aliases_of(expr) for expr in read))
    if not needed:
        needed = {sources[0].alias}
    chosen = tuple(replace(source, group=0) for source in sources if source.alias in needed)
    inside = tuple(one for one in conditions if one.columns and aliases_of(one) <= needed)
    return Query(text, chosen, inside, tuple((f"k{i}", expr) for i, expr in enumerate(read)), True)
