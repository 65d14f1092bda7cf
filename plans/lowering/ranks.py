"""Bounds on ROW_NUMBER(): the conditions `n <= 3` of a query over numbered rows make them the first rows of each group.

>>> from plans import parse
>>> text = "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) WHERE n <= 3"
>>> made = bounded(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> type(made).__name__, made.keys, made.limit, made.hidden
('Top', ('o',), 3, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.expressions.build import MIRROR, Expr
from plans.queries.algebra import Query, Ranked, Relation, Source, Top, rebuilt

_MOST = 2**31 - 1
_HINT = "write it where it is compared: QUALIFY ROW_NUMBER() OVER (...) <= 3, or WHERE n <= 3 around it"


def bounded(relation: Relation) -> Relation:
    """Returns an equivalent relation in which no rows are numbered. PlanError where a number has no bound."""
    return rebuilt(relation, _bounded)


def _bounded(relation: Relation) -> Relation:
    if not isinstance(relation, Query):
        return relation
    query = relation
    for source in relation.sources:
        if isinstance(source.input, Ranked):
            query = _first_rows(query, source, source.input)
    return _plain(query) if query is not relation else relation


def _first_rows(query: Query, source: Source, ranked: Ranked) -> Query:
    """Returns the query whose source has only the rows that its conditions let through."""
    number = source.qualified(ranked.number)
    conditions = query.conditions if source.join == "inner" else source.on
    parts = [part for one in conditions for part in one.conjuncts()]
    found = _Bounds()
    rest = tuple(part for part in parts if not found.takes(part, number))
    if found.last is None:
        raise PlanError(
            "ROW_NUMBER() without a bound is not supported", hint=_HINT, position=ranked.place, text=query.text
        )
    limit = max(0, found.last - found.first + 1)
    top = Top(ranked.input, ranked.keys, ranked.order, limit, found.first - 1, ranked.hidden)
    shown = tuple(column for column in source.table.columns if column.name != ranked.number)
    made = replace(source, table=replace(source.table, columns=shown), input=top)
    if source.join == "inner":
        query = replace(query, conditions=rest)
    else:
        made = replace(made, on=rest)
    query = replace(query, sources=tuple(made if one is source else one for one in query.sources))
    exprs = [*query.conditions, *(expr for _, expr in query.outputs), *(e for _, es in query.keys for e in es)]
    if any(number.value in expr.columns for expr in (*exprs, *(e for one in query.sources for e in one.on))):
        raise PlanError(
            "the value of ROW_NUMBER() is not maintained: it would change in many rows at once",
            hint="compare it with a number, and leave it out of SELECT",
            position=ranked.place,
            text=query.text,
        )
    return query


@dataclass
class _Bounds:
    """The positions that conditions let through, from 1."""

    first: int = 1
    last: int | None = None

    def takes(self, part: Expr, number: Expr) -> bool:
        """Returns whether a condition is a bound on the number, which is noted then."""
        if part.op not in ("le", "lt", "eq", "ge", "gt"):
            return False
        op, left, right = part.op, *(_bare(arg) for arg in part.args)
        if right == number:
            op, left, right = MIRROR[op], right, left
        if left != number or right.op != "literal" or not isinstance(right.value, int):
            return False
        bound = min(right.value, _MOST)
        if op in ("ge", "gt", "eq"):
            self.first = max(self.first, bound + (op == "gt"))
        if op in ("le", "lt", "eq"):
            last = bound - (op == "lt")
            self.last = last if self.last is None else min(self.last, last)
        return True


def _bare(expr: Expr) -> Expr:
    return expr.args[0] if expr.op == "cast" else expr


def _plain(query: Query) -> Relation:
    """Returns the first rows themselves, if that is all that a query selects."""
    if len(query.sources) != 1 or query.conditions or query.distinct:
        return query
    source = query.sources[0]
    own = tuple((column.name, source.qualified(column.name)) for column in source.table.columns)
    if query.outputs != own or source.join != "inner" or not isinstance(source.input, Top):
        return query
    return replace(source.input, warnings=query.warnings)
