"""Conditions on the clock become the periods in which rows are there: `Timed` relations.

`at > NOW() - INTERVAL '1' HOUR` holds until one hour after `at`; `due <= CURRENT_DATE` holds from midnight of `due` on.
A condition that compares a function of the clock, which never falls as time goes on, with values of a row says when the
row comes in or goes out. All other uses of the clock would change every row whenever the clock moves, and are refused,
unless they read the date alone, which is a relation of one row that changes once a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from plans.clock import NAME, NOW
from plans.errors import PlanError
from plans.expressions.build import MIRROR, Expr, call, cast, lit
from plans.queries.algebra import Query, Relation, Source, Timed, rebuilt, replaced, split, unused
from plans.schema import Column, Table

_DAY = 86_400_000_000
_UNITS = {"day": _DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1}
_TODAY = "today"
Period = tuple[Expr | None, Expr | None]
"""The first moment at which a condition holds (None: always did), and the first at which it holds no more."""


def timed(relation: Relation) -> Relation:
    """Returns the relation in which no condition reads the clock. PlanError where the clock is read in other ways."""
    return rebuilt(relation, lambda part: _timed(part) if isinstance(part, Query) else part)


def _timed(query: Query) -> Query:
    clocks = [source for source in query.sources if source.input is None and source.table.name == NAME]
    if not clocks:
        return query
    time = clocks[0].qualified(NOW)
    one_clock = {source.qualified(NOW): time for source in clocks[1:]}

    def parted(conditions: Iterable[Expr]) -> tuple[dict[frozenset[str], list[Period]], list[Expr]]:
        """Returns the periods that conditions say, by the sources that they read, and the other conditions."""
        periods: dict[frozenset[str], list[Period]] = {}
        rest: list[Expr] = []
        for one in (part for condition in conditions for part in condition.conjuncts()):
            same = replaced(one, one_clock)
            found = period(same, time) if str(time.value) in same.columns else None
            if found is None:
                rest.append(one)
            else:
                periods.setdefault(frozenset(_aliases(x for x in found if x is not None)), []).append(found)
        return periods, rest

    periods, rest = parted(query.conditions)
    query = replace(query, conditions=tuple(rest))
    several = {read: periods.pop(read) for read in list(periods) if len(read) > 1}
    joined = [one for bounds in several.values() for one in bounds]
    for read, bounds in periods.items():
        query = _within(query, read, bounds, clocks[0], joined)
    if joined:
        query = _within(query, frozenset().union(*several), joined, clocks[0])
    for source in query.sources:
        outer, rest = parted(source.on)
        for read, bounds in outer.items():
            if read != {source.alias}:
                raise PlanError(
                    "a comparison with the clock in ON reads more than the table that is joined",
                    hint="compare a column of that table with NOW()",
                )
            query = _with_source(query, source, replace(source, on=tuple(rest)))
            query = _within(query, read, bounds, clocks[0])
    return _by_day(query, clocks)


def _within(
    query: Query, read: frozenset[str], bounds: list[Period], clock: Source, later: Iterable[Period] = ()
) -> Query:
    """Returns the query over only those rows of some of its sources, or joins of them, that are within all periods.

    `later`: periods that will be asked for as well; what they read is kept.
    """
    inside = [source for source in query.sources if source.alias in read]
    joined = len(inside) > 1
    if not inside or (joined and any(source.join != "inner" or source.group for source in inside)):
        raise PlanError(
            "a comparison with the clock reads "
            + ("columns of outer joins or subqueries beside others" if inside else "no column"),
            hint="select what is compared in FROM (SELECT ...), and compare its column with NOW()",
        )
    leading = inside[0]
    own = [one for one in query.conditions if _aliases([one]) <= read and _aliases([one])]
    own = own if joined or leading.join == "inner" else []  # what is asked of an outer join's rows is asked behind it
    rest = [one for one in query.conditions if one not in own]
    asked = [one for found in later for one in found if one is not None]
    exprs = [*_exprs(replace(query, conditions=tuple(rest))), *asked]
    needed = {name for expr in exprs for name in expr.columns}
    columns = [source.qualified(c.name) for source in inside for c in source.table.columns]
    columns = [column for column in columns if column.value in needed] or columns[:1]
    taken: dict[Expr, str] = {}
    for column in columns:
        taken[column] = unused(split(str(column.value))[1], taken.values())
    hidden: dict[str, tuple[str, Expr]] = {}
    for wish, op, found in (("since", "greatest", [a for a, _ in bounds]), ("until", "least", [b for _, b in bounds])):
        known = list(dict.fromkeys(one for one in found if one is not None))
        if known:
            value = known[0] if len(known) == 1 else call(op, *known)
            hidden[wish] = unused(wish, [*taken.values(), *(name for name, _ in hidden.values())]), value
            own += [call("not", call("isnull", one)) for one in known]  # of no condition that is unknown
    outputs = (*((name, column) for column, name in taken.items()), *hidden.values())
    plain = tuple(replace(source, group=0, join="inner", on=()) for source in inside)
    moments = Query(query.text, (clock,), (), ((NOW, clock.qualified(NOW)),), False)
    since, until = (hidden[wish][0] if wish in hidden else None for wish in ("since", "until"))
    made = Timed(Query(query.text, plain, tuple(own), outputs, False), moments, since, until)
    derived = replace(leading, table=Table(leading.alias, made.columns), input=made)
    names = {column: derived.qualified(name) for column, name in taken.items()}
    sources = [source for source in query.sources if source not in inside[1:]]
    query = replace(query, sources=tuple(derived if one is leading else one for one in sources), conditions=tuple(rest))
    return _renamed(query, names) if joined else query


def _by_day(query: Query, clocks: list[Source]) -> Query:
    """Returns the query without its clocks, or with relations of today's date where it reads no more than that."""
    days = {clock.alias: replace(clock, table=Table(clock.alias, (Column(_TODAY, "date"),))) for clock in clocks}
    made = _renamed(
        query, {cast(clock.qualified(NOW), "date"): days[clock.alias].qualified(_TODAY) for clock in clocks}
    )
    read = {name for expr in _exprs(made) for name in expr.columns}
    if any(clock.qualified(NOW).value in read for clock in clocks):
        raise PlanError(
            "NOW() is read where its value would change every row whenever the clock moves",
            hint="compare it with a column (at > NOW() - INTERVAL '1' HOUR) by AND, or use CURRENT_DATE",
        )
    sources = []
    for source in made.sources:
        if source not in clocks:
            sources.append(source)
        elif days[source.alias].qualified(_TODAY).value in read:
            alone = replace(source, group=0)
            today = Query(query.text, (alone,), (), ((_TODAY, cast(source.qualified(NOW), "date")),), False)
            sources.append(replace(days[source.alias], input=today))
    return replace(made, sources=tuple(sources) or tuple(clocks[:1]))


def _exprs(query: Query) -> list[Expr]:
    """Returns all expressions of a query."""
    found = [*query.conditions, *(expr for _, expr in query.outputs)]
    found += [expr for _, exprs in query.keys for expr in exprs]
    return found + [expr for source in query.sources for expr in source.on]


def _renamed(query: Query, names: Mapping[Expr, Expr]) -> Query:
    """Returns the query in which expressions are others."""
    return replace(
        query,
        sources=tuple(replace(one, on=tuple(replaced(expr, names) for expr in one.on)) for one in query.sources),
        conditions=tuple(replaced(one, names) for one in query.conditions),
        outputs=tuple((name, replaced(expr, names)) for name, expr in query.outputs),
        keys=tuple((number, tuple(replaced(expr, names) for expr in exprs)) for number, exprs in query.keys),
    )


def _with_source(query: Query, old: Source, new: Source) -> Query:
    return replace(query, sources=tuple(new if one is old else one for one in query.sources))


def period(condition: Expr, time: Expr) -> Period | None:
    """Returns when a condition that reads the clock holds; None if it does not say so of the clock alone."""
    op, args = condition.op, condition.args
    if op not in MIRROR or op in ("ne", "nseq"):
        return None
    left, right = args
    if any(name == time.value for name in right.columns):
        if any(name == time.value for name in left.columns):
            return None
        left, right, op = right, left, MIRROR[op]
    if left.op == "datediff" and time.value in left.args[1].columns and time.value not in left.args[0].columns:
        left, right, op = left.args[1], call("date_sub", left.args[0], right), MIRROR[op]
    reached, passed = first(left, right, time), first(left, _next(right), time)
    if reached is None or passed is None:
        return None
    return {
        "ge": (reached, None),
        "gt": (passed, None),
        "lt": (None, reached),
        "le": (None, passed),
        "eq": (reached, passed),
    }[op]


def _next(value: Expr) -> Expr:
    """Returns the next value of a type."""
    if value.type == "date":
        return call("date_add", value, lit(1))
    if value.type in ("timestamp", "timestamp_ntz"):
        return call("plus_micros", value, lit(1))
    if value.op == "literal" and value.value is not None:
        return lit(value.value + 1, value.type)
    return call("add", value, lit(1))


def _negated(length: Expr) -> Expr:
    return lit(-length.value) if length.op == "literal" and length.value is not None else call("neg", length)


def first(side: Expr, value: Expr, time: Expr) -> Expr | None:
    """Returns the first moment at which `side`, a function of the clock that never falls, is `value` or more.

    None if the side is not known to be such a function. What it moves the clock by may depend on the row.
    """
    if side == time:
        return value if value.type == "timestamp" else cast(value, "timestamp")
    at = -1 if side.op in ("date_trunc", "timestampdiff") else 0
    inner = side.args[at] if side.args else None
    if inner is None or [other for other in side.args if time.value in other.columns] != [inner]:
        return None
    if side.op == "plus_micros":
        return first(inner, call("plus_micros", value, _negated(side.args[1])), time)
    if side.op in ("date_add", "date_sub"):
        back = "date_sub" if side.op == "date_add" else "date_add"
        return first(inner, call(back, value, side.args[1]), time)
    if side.op == "timestampdiff":
        return _by_difference(side, value, time)
    if side.op == "datediff":
        return first(inner, call("date_add", side.args[1], value), time)
    if side.op == "date_trunc":
        unit = _UNITS.get(str(side.args[0].value).lower()) if side.args[0].op == "literal" else None
        if unit is None:
            return None
        before = call("plus_micros", value, lit(-1))
        return first(inner, call("plus_micros", call("date_trunc", side.args[0], before), lit(unit)), time)
    if side.op == "cast" and side.type == "date" and inner.type in ("timestamp", "timestamp_ntz"):
        return first(inner, cast(value, inner.type), time)
    if side.op == "cast" and inner.type == "date" and side.type in ("timestamp", "timestamp_ntz"):
        day = cast(call("plus_micros", value, lit(-1)), "date")
        return first(inner, call("date_add", day, lit(1)), time)
    if side.op == "cast" and {side.type, inner.type} == {"timestamp", "timestamp_ntz"}:
        return first(inner, cast(value, inner.type), time)
    return None


def _by_difference(side: Expr, value: Expr, time: Expr) -> Expr | None:
    """Returns when the whole units from a value to the clock, cut towards zero, are so many."""
    unit, since, inner = side.args
    length = _UNITS.get(str(unit.value).lower()) if unit.op == "literal" else None
    if length is None or (length > 1 and (value.op != "literal" or value.value is None)):
        return None
    if length > 1:
        value = lit(value.value * length if value.value > 0 else (value.value - 1) * length + 1, "int64")
    return first(inner, call("plus_micros", since, value), time)


def _aliases(exprs: Iterable[Expr]) -> set[str]:
    return {split(name)[0] for expr in exprs for name in expr.columns}
