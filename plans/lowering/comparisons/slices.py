"""Rewrites conditions on correlated sums as slices: `(SELECT SUM(y.v) FROM y WHERE y.o > x.o) < 0.25 * (SELECT ...)`.

>>> from plans import parse
>>> text = "SELECT a FROM r WHERE (SELECT COUNT(*) FROM r AS s WHERE s.a > r.a) < 10"
>>> made = sliced(parse(text, {"r": {"a": "int64"}}))
>>> type(made.sources[1].input).__name__, made.sources[1].input.slice.comparison
('Sliced', 'lt')

A sum over all rows with a greater value is a running sum in descending order. A change moves the sums of all rows
behind it, but only few of them begin or cease to satisfy the condition. So the values of the order, each with the sum
of its rows, form a relation. A slice of it has the values that satisfy the condition, and the query joins the slice.

The bound is computed from other sources, each of which has one row, or one row for each value of the equal columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from plans.expressions.build import MIRROR, NULL, Expr, call, cast, col, conjoin, lit
from plans.expressions.coercion import as_decimal
from plans.lowering.comparisons.offsets import ORDERING
from plans.lowering.joins.matches import aliases_of, crossing_keys
from plans.lowering.stages import columns_read
from plans.programs.frames import Order, Slice
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Relation, SetOperation, Sliced, Source, rebuilt, replaced, split
from plans.schema import Column, Table
from plans.types import ONE_WORD_DIGITS, exact_scale

_BOUND = "bound"
_BOTH = ("union_all", 0, 1)
_EXACT = 2**20


@dataclass(frozen=True)
class _Running:
    """A correlated sum: of ``rows``, for each row of ``outer``, which has the values of the outer query.

    ``keys`` are pairs of equal expressions, of ``outer`` and of ``rows``; the last pair is the compared one.
    ``comparison`` compares the value of ``rows`` with that of ``outer``. ``outer_exprs`` maps the columns of ``outer``
    to expressions of the query.
    """

    rows: Query
    outer: Source
    keys: tuple[tuple[Expr, Expr], ...]
    comparison: str
    total: Aggregate
    outer_exprs: dict[Expr, Expr]

    @property
    def at(self) -> str:
        """Returns the name of the ORDER BY column. It is the text of the query, because messages show it."""
        return str(self.keys[-1][1])

    @property
    def sum(self) -> str:
        """Returns the name of the column of the sums of the rows with one value of the order."""
        values = dict(self.rows.outputs)
        given = ", ".join(str(values[name]) for name in self.total.arguments)
        where = f" FILTER (WHERE {values[self.total.where]})" if self.total.where is not None else ""
        return f"{self.total.function.upper()}({given or '*'}){where}"

    @property
    def summed(self) -> Expr:
        """Returns the expression that is summed over the rows that pass the FILTER. COUNT sums 1 for each row that it
        counts."""
        values, counts = dict(self.rows.outputs), self.total.function == "count"
        there = [values[self.total.where]] if self.total.where is not None else []
        if counts:
            there += [call("not", call("isnull", values[name])) for name in self.total.arguments]
        added = lit(1, "int64") if counts else values[self.total.arguments[0]]
        return call("case", conjoin(there), added, cast(NULL, added.type)) if there else added

    def named(self, side: int) -> tuple[tuple[str, Expr], ...]:
        """Returns the equal columns and the order of ``outer`` (0) or ``rows`` (1), with their names in the slice."""
        names = [*(f"k{i}" for i in range(len(self.keys) - 1)), self.at]
        return tuple((name, pair[side]) for name, pair in zip(names, self.keys, strict=True))


def sliced(relation: Relation) -> Relation:
    """Returns an equivalent relation in which conditions on correlated sums over an order are slices."""
    return rebuilt(relation, _sliced)


def _sliced(relation: Relation) -> Relation:
    if not isinstance(relation, Query):
        return relation
    for part in (part for one in relation.conditions for part in one.conjuncts()):
        for sides in (part.args, part.args[::-1]) if part.op in ORDERING else ():
            found = _of_condition(relation, part, sides, part.op if sides == part.args else MIRROR[part.op])
            if found is not None:
                return _sliced(found)
    return relation


def _of_condition(query: Query, part: Expr, sides: Sequence[Expr], comparison: str) -> Query | None:
    """Returns the query in which a condition is a slice. Returns None unless one side is a correlated sum that nothing
    else reads, and the other side is its bound."""
    total, bound = sides
    read, bounding = aliases_of(total), aliases_of(bound)
    if len(read) != 1 or read & bounding:
        return None
    value = query.source(next(iter(read)))
    parts = tuple(p for one in query.conditions for p in one.conjuncts() if p is not part)
    rest = replace(query, conditions=parts, sources=tuple(one for one in query.sources if one is not value))
    known = _correlated_sum(total, value)
    if known is None or _is_read(rest, value):
        return None
    running, zero = known
    if running.total.function == "avg":
        difference = None if zero else _less_constant(running, bound)
        if difference is None:
            return None
        running, bound = difference, lit(0, "int64")
    bound_sources = [query.source(alias) for alias in sorted(bounding)]
    bounds = _bounds(running, bound, bound_sources)
    scales = exact_scale(running.total.type), exact_scale(bound.type)
    if bounds is None or scales[0] is None or scales[1] is None or abs(scales[0] - scales[1]) > ONE_WORD_DIGITS:
        return None
    for one in bound_sources:
        less = replace(rest, sources=tuple(source for source in rest.sources if source is not one))
        rest = rest if _is_read(less, one) else less
    rule = Slice(running.sum, _BOUND, comparison, running.comparison in ("le", "ge"), zero)
    names, at = tuple(name for name, _ in running.named(0)), Order(running.at, running.comparison in ("gt", "ge"))
    made = Sliced(SetOperation((_values(running, bounds, zero), bounds), _BOTH), names[:-1], (at,), rule)
    source = Source(value.alias, Table(value.alias, made.columns), input=made)
    equal = "nseq" if zero else "eq"
    ties = [call(equal, running.outer_exprs[mine], source.qualified(name)) for name, mine in running.named(0)]
    return replace(rest, sources=(*rest.sources, source), conditions=(*parts, *ties))


def _is_read(query: Query, source: Source) -> bool:
    return any(split(name)[0] == source.alias for name in columns_read(query))


# -- the sum -----------------------------------------------------------------------------------------------------------


def _correlated_sum(total: Expr, value: Source) -> tuple[_Running, bool] | None:
    """Returns the correlated sum that is one side of a condition, and whether it is 0 for no rows. Returns None if the
    side is something else."""
    zero = False
    while total.op in ("cast", "coalesce"):
        inner = total.args[0]
        if total.op == "coalesce":
            if len(total.args) != 2 or not _is(total.args[1], 0):
                return None
            zero = True
        elif not _keeps(inner.type, total.type):
            return None
        total = inner
    running = _running(value)
    if running is None or total.op != "case" or len(total.args) != 3:
        return None
    absent, none, there = total.args
    counts = running.total.function == "count"
    if absent.op != "isnull" or there.op != "col" or not _is(none, 0 if counts else None):
        return None
    assert isinstance(value.input, Group), "it is one that is running"
    shown = dict(value.input.outputs)
    if shown[split(there.value)[1]] != col(running.total.name, running.total.type):
        return None
    return (running, zero or counts) if _is(shown[split(str(absent.args[0].value))[1]], True) else None


def _is(expr: Expr, value: object) -> bool:
    """Returns whether an expression is this constant, in any type."""
    while expr.op == "cast":
        expr = expr.args[0]
    return expr.op == "literal" and expr.value == value and type(expr.value) is type(value)


def _keeps(inner: str, outer: str) -> bool:
    """Returns whether the type `outer` represents every exact number of the type `inner`."""
    if exact_scale(inner) is None or exact_scale(outer) is None:
        return False
    (digits, scale), (more, finer) = as_decimal(inner), as_decimal(outer)
    return finer >= scale and more - finer >= digits - scale


def _running(value: Source) -> _Running | None:
    """Returns the correlated sum of a source that has a row with the sum for each combination of outer values; else
    None."""
    group = value.input
    keys = crossing_keys(value.on, {value.alias}) if value.join == "left" else None
    if not keys or not isinstance(group, Group) or not isinstance(group.input, Query) or group.having is not None:
        return None
    inner, shown = group.input, dict(group.outputs)
    outer = inner.sources[0]
    plain = not inner.distinct and all(one.join == "inner" and not one.group for one in inner.sources)
    if not plain or not isinstance(outer.input, Query) or len(inner.sources) < 2 or len(group.aggregates) != 1:
        return None
    (total,) = group.aggregates
    if total.function not in ("sum", "count", "avg") or total.distinct:
        return None
    values, outer_exprs = dict(inner.outputs), {}
    for _, theirs, mine in keys:
        key = shown[split(str(mine.value))[1]] if mine.op == "col" else mine
        outer_exprs[values.get(str(key.value), key)] = theirs
    tied = [part for one in inner.conditions for part in one.conjuncts() if outer.alias in aliases_of(part)]
    pairs, comparison = _pairs(tied, outer)
    if comparison is None or {mine for mine, _ in pairs} != outer_exprs.keys():
        return None
    own = tuple(part for one in inner.conditions for part in one.conjuncts() if part not in tied)
    rows = replace(inner, sources=inner.sources[1:], conditions=own)
    return _Running(rows, outer, tuple(pairs), comparison, total, outer_exprs)


def _less_constant(running: _Running, bound: Expr) -> _Running | None:
    """Returns a sum that compares with 0 as a mean of integers compares with a constant bound, or None if there is
    none.

    A mean is a DOUBLE that is rounded once. It equals an integer c only if the exact mean does: any other mean of n
    numbers differs from c by at least 1 / n. There are fewer than 2^31 rows, so for c up to 2^20 this is more than the
    rounding error.
    """
    (argument,) = running.total.arguments
    value = dict(running.rows.outputs)[argument]
    if bound.columns or aliases_of(bound) or value.type not in ("int32", "int64"):
        return None
    number = bound.evaluate({}, 1)[0].as_py()
    if not isinstance(number, (int, float)) or not abs(number) <= _EXACT or number != int(number):
        return None
    less = call("sub", cast(value, "decimal(20,0)"), cast(lit(int(number), "int64"), "decimal(20,0)"))
    outputs = tuple((name, less if name == argument else expr) for name, expr in running.rows.outputs)
    total = replace(running.total, function="sum", type="decimal(38,0)")
    return replace(running, rows=replace(running.rows, outputs=outputs), total=total)


def _pairs(tied: Iterable[Expr], outer: Source) -> tuple[list[tuple[Expr, Expr]], str | None]:
    """Returns the pairs of a column of ``outer`` and an equal expression, with the compared pair last, and the
    comparison (row, column). The comparison is None unless there is exactly one."""
    equal: list[tuple[Expr, Expr]] = []
    compared: list[tuple[tuple[Expr, Expr], str]] = []
    for part in tied:
        if part.op not in ("eq", *ORDERING):
            return [], None
        theirs, mine = part.args
        op = part.op
        if outer.alias in aliases_of(theirs):
            theirs, mine, op = mine, theirs, MIRROR.get(op, op)
        if mine.op != "col" or outer.alias in aliases_of(theirs) or theirs.type != mine.type or not theirs.columns:
            return [], None
        if op == "eq":
            equal.append((mine, theirs))
        else:
            compared.append(((mine, theirs), op))
    if len(compared) != 1:
        return [], None
    return [*equal, compared[0][0]], compared[0][1]


# -- its bound ---------------------------------------------------------------------------------------------------------


def _bounds(running: _Running, bound: Expr, bound_sources: Sequence[Source]) -> Query | None:
    """Returns the bound of each partition as a query over ``bound_sources``. Returns None if one of them may have
    several rows for a partition."""
    outer, keys = running.outer, [mine for mine, _ in running.keys[:-1]]
    names = {running.outer_exprs[key]: key for key in keys}
    sources = []
    for one in bound_sources:
        if one.group or not isinstance(one.input, Group):
            return None
        tied = crossing_keys(one.on, {one.alias})
        if one.join == "inner" and one.input.whole:
            sources.append(one)
        elif one.join == "left" and tied and all(theirs in names for _, theirs, _ in tied):
            if not set(one.input.keys) <= {_key(one.input, mine) for _, _, mine in tied}:
                return None
            sources.append(replace(one, on=tuple(replaced(on, names) for on in one.on)))
        else:
            return None
    if keys or not sources:
        assert isinstance(outer.input, Query), "the outer values are a query"
        columns = {split(str(key.value))[1] for key in keys}
        outputs = tuple(output for output in outer.input.outputs if output[0] in columns or not keys)
        each = replace(outer.input, outputs=outputs)
        sources.insert(0, replace(outer, input=each, table=Table(outer.alias, each.columns)))
    none = (running.at, cast(NULL, running.keys[-1][0].type)), (running.sum, cast(NULL, running.total.type))
    shown = (*running.named(0)[:-1], *none, (_BOUND, bound))
    there = call("not", call("isnull", bound))
    return Query(running.rows.text, tuple(sources), (there,), shown, bool(keys) or not bound_sources)


def _key(group: Group, mine: Expr) -> str:
    """Returns the key of a group that a column outputs, or an empty string if the column is not a key."""
    shown = dict(group.outputs).get(split(str(mine.value))[1]) if mine.op == "col" else None
    return str(shown.value) if shown is not None and shown.op == "col" else ""


# -- the values of the order -------------------------------------------------------------------------------------------


def _values(running: _Running, bounds: Query, zero: bool) -> Query:
    """Returns the values of the order, each with the sum of its rows, in the schema of the ``bounds``. The values are
    those of the summed rows and those of the outer query, unless the latter are a subset."""
    named, text = running.named(1), running.rows.text
    there = tuple(call("not", call("isnull", theirs)) for _, theirs in named)
    rows: Relation = replace(
        running.rows, conditions=(*running.rows.conditions, *there), outputs=(*named, (running.sum, running.summed))
    )
    if not _same(running, zero):
        none = cast(NULL, running.summed.type)
        outer_rows = Query(text, (running.outer,), (), (*running.named(0), (running.sum, none)), False)
        rows = SetOperation((rows, outer_rows), _BOTH)
    names = tuple(name for name, _ in named)
    total = Aggregate(running.sum, running.total.type, "sum", (running.sum,))
    keys = tuple((name, col(name, mine.type)) for name, mine in running.named(0))
    each = Group(rows, names, (total,), (*keys, (running.sum, col(running.sum, total.type))))
    source = Source("each", Table("each", tuple(Column(c.name, c.type) for c in each.columns)), input=each)
    shown = tuple((name, source.qualified(name)) for name in (*names, running.sum))
    return Query(text, (source,), (), (*shown, (_BOUND, cast(NULL, bounds.columns[-1].type))), False)


def _same(running: _Running, zero: bool) -> bool:
    """Returns whether the outer values are those of the summed rows. NULLs may differ; they matter only if a sum of no
    rows is 0."""
    outer, rows = running.outer.input, running.rows
    assert isinstance(outer, Query), "the outer values are a query"
    if len(outer.sources) != 1 or len(rows.sources) != 1 or outer.conditions or rows.conditions:
        return False
    (mine,), (theirs,) = outer.sources, rows.sources
    if mine.input is not None or theirs.input is not None or mine.table.name.lower() != theirs.table.name.lower():
        return False
    exprs = dict(outer.outputs)
    for outer_value, value in running.keys:
        one = exprs[split(str(outer_value.value))[1]]
        if one.op != "col" or value.op != "col" or split(one.value)[1] != split(value.value)[1]:
            return False
        if zero and not mine.table.required(split(one.value)[1]):
            return False
    return True
