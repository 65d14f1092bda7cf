"""Ranks: the conditions `n <= 3` of a query over numbered rows make them the first rows of each group.

>>> from plans import parse
>>> text = "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM r) WHERE n <= 3"
>>> made = bounded(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> type(made).__name__, made.keys, made.limit, made.hidden
('Top', ('o',), 3, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.expressions.build import FALSE, MIRROR, Expr, call, cast, col, conjoin, lit
from plans.frontends.branches import balanced
from plans.program import Aggregate, Order
from plans.queries.algebra import Group, Query, Ranked, Relation, SetOperation, Source, Top, rebuilt, unused
from plans.schema import Column, Table

_MOST = 2**31 - 1
_MOST_SHOWN = 50
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
    bounds = _Bounds()
    rest = tuple(part for part in parts if not bounds.takes(part, number))
    if source.join == "inner":
        query = replace(query, conditions=rest)
        made = source
    else:
        made = replace(source, on=rest)
    others = [one for one in query.sources if one is not source]
    read = [*query.conditions, *(expr for _, expr in query.outputs), *(e for _, es in query.keys for e in es)]
    read += [*made.on, *(expr for one in others for expr in one.on)]
    shown = any(number.value in expr.columns for expr in read)
    if ranked.function == "row_number" and bounds.last is None:
        raise PlanError(
            "ROW_NUMBER() without a bound is not supported", hint=_HINT, position=ranked.place, text=query.text
        )
    if ranked.function != "row_number":
        made = replace(made, input=_ranked(ranked, bounds, query.text))
    elif shown:
        made = replace(made, input=_numbered(ranked, bounds, query.text))
    else:
        columns = tuple(column for column in source.table.columns if column.name != ranked.number)
        top = Top(ranked.input, ranked.keys, ranked.order, bounds.count, bounds.first - 1, ranked.hidden)
        made = replace(made, table=replace(source.table, columns=columns), input=top)
    return replace(query, sources=tuple(made if one is source else one for one in query.sources))


def _source(alias: str, relation: Relation) -> Source:
    columns = tuple(Column(column.name, column.type) for column in relation.columns)
    return Source(alias, Table(alias, columns), input=relation)


def _numbered(ranked: Ranked, bounds: _Bounds, text: str) -> Relation:
    """Returns the first rows with their numbers: for each position the row that has it, and the position."""
    if bounds.count > _MOST_SHOWN:
        raise PlanError(
            f"ROW_NUMBER() is shown for at most {_MOST_SHOWN} rows of a group, not for {bounds.count}",
            hint="leave the number out of SELECT, or lower the bound",
            position=ranked.place,
            text=text,
        )
    assert bounds.last is not None
    first = Top(ranked.input, ranked.keys, ranked.order, max(0, bounds.last), 0)
    parts = []
    for position in range(bounds.first, max(bounds.last, bounds.first) + 1):
        limit = 1 if position <= bounds.last else 0  # a query of no rows is one, too
        source = _source("rows", Top(first, ranked.keys, ranked.order, limit, position - 1, ranked.hidden))
        own = tuple((column.name, source.qualified(column.name)) for column in source.table.columns)
        outputs = (*own, (ranked.number, lit(position, "int32")))
        parts.append(Query(text, (source,), (), outputs, False))
    return parts[0] if len(parts) == 1 else SetOperation(tuple(parts), balanced("union_all", range(len(parts))))


def _ranked(ranked: Ranked, bounds: _Bounds, text: str) -> Relation:
    """Returns the rows with RANK() or DENSE_RANK(): each is joined with what its order says of its rank.

    The different values of the order, with how many rows each has, are ranked among one another: a rank is 1, and how
    many rows come before. With a bound there are so many values of each group at most.
    """
    rows = _source("rows", ranked.input)
    keys = tuple(dict.fromkeys((*ranked.keys, *(one.column for one in ranked.order))))
    inner = Query(text, (rows,), (), tuple((key, rows.qualified(key)) for key in keys), False)
    same = tuple((key, col(key, rows.qualified(key).type)) for key in keys)
    n, many = unused("n", keys), ranked.function == "rank"
    counts = (Aggregate(n, "int64", "count"),)
    values: Relation = Group(inner, keys, counts, (*same, (n, col(n, "int64") if many else lit(1, "int64"))))
    notes: tuple[str, ...] = ()
    if bounds.last is not None:
        values = Top(values, ranked.keys, ranked.order, max(0, bounds.last))
    else:
        notes = (f"{ranked.function.upper()}() without a bound: a change costs all values of the order in its group",)
    this, other = _source("this", values), _source("other", values)
    ties = tuple(call("nseq", this.qualified(key), other.qualified(key)) for key in ranked.keys)
    before = call("case", _before(other, this, ranked.order), other.qualified(n), lit(0, "int64"))
    pairs = Query(text, (this, other), ties, (*((key, this.qualified(key)) for key in keys), (n, before)), False)
    rank = call("add", col("before", "int64"), lit(1, "int64"))
    limits = [call("le", rank, lit(bounds.last, "int64"))] if bounds.last is not None else []
    limits += [call("ge", rank, lit(bounds.first, "int64"))] if bounds.first > 1 else []
    sums = (Aggregate("before", "int64", "sum", (n,)),)
    outputs = (*same, (ranked.number, cast(rank, "int32")))
    ranks = _source("ranks", Group(pairs, keys, sums, outputs, conjoin(limits) if limits else None))
    joins = tuple(call("nseq", rows.qualified(key), ranks.qualified(key)) for key in keys)
    visible = ranked.columns[:-1]
    shown = (*((c.name, rows.qualified(c.name)) for c in visible), (ranked.number, ranks.qualified(ranked.number)))
    return Query(text, (rows, ranks), joins, shown, False, notes=notes)


def _before(one: Source, other: Source, order: tuple[Order, ...]) -> Expr:
    """Returns whether the row of one source comes before that of another."""
    found = FALSE
    for by in reversed(order):
        left, right = one.qualified(by.column), other.qualified(by.column)
        less = call("gt" if by.falling else "lt", left, right)
        there = call("not", call("isnull", right))
        null_first = FALSE if by.nulls_last else there
        earlier = call("case", call("isnull", left), null_first, call("isnull", right), lit(by.nulls_last), less)
        found = call("or", earlier, call("and", call("nseq", left, right), found))
    return found


@dataclass
class _Bounds:
    """The positions that conditions let through, from 1."""

    first: int = 1
    last: int | None = None

    @property
    def count(self) -> int:
        """Returns how many positions there are, if there is a last one."""
        return _MOST if self.last is None else max(0, self.last - self.first + 1)

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
