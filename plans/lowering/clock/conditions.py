"""Rewrites conditions on the clock as the periods in which rows are valid: `Timed` relations.

`at > NOW() - INTERVAL '1' HOUR` holds until one hour after `at`; `due <= CURRENT_DATE` holds from midnight of `due` on.
A condition that compares a non-decreasing function of the clock with values of a row determines when the row enters or
leaves. If such a condition is used as a value or stands under OR, it becomes a column that changes at these moments.
All other uses of the clock would change every row whenever the clock moves. They are rejected, unless they read only
the date, which is a relation of one row that changes once a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import FALSE, NULL, TRUE, Expr, call, cast, col
from plans.lowering.clock.periods import Period, period
from plans.programs.stages import Function
from plans.queries.algebra import Query, Relation, SetOperation, Source, Timed, rebuilt, replaced, split, unused
from plans.schema import Column, Table
from plans.time.windows import NAME, NOW

_TODAY = "today"


def timed(relation: Relation) -> Relation:
    """Returns the relation without conditions on the clock. Raises PlanError if the clock is read in another way."""
    return rebuilt(relation, lambda part: _timed(part) if isinstance(part, Query) else part)


def _timed(query: Query) -> Query:
    clocks = [source for source in query.sources if source.input is None and source.table.name == NAME]
    if not clocks:
        return query
    time = clocks[0].qualified(NOW)
    one_clock = {source.qualified(NOW): time for source in clocks[1:]}

    def parted(conditions: Iterable[Expr]) -> tuple[dict[frozenset[str], list[Period]], list[Expr]]:
        """Returns the periods of conditions, grouped by the sources that they read, and the other conditions."""
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
    for clock in clocks:
        query = _with_marks(query, clock)
    return _by_day(query, clocks)


def _with_marks(query: Query, clock: Source) -> Query:
    """Returns the query in which conditions on the clock that are values, or stand under OR, are columns.

    An expression that reads only the date is left as it is: it changes once a day.
    """
    time = clock.qualified(NOW)
    today = {cast(time, "date"): col(f"{clock.alias}.{_TODAY}", "date")}
    marks: dict[Expr, Period] = {}
    for expr in _exprs(query):
        for node in expr.postorder():
            if time.value in replaced(node, today).columns:
                found = period(node, time)
                if found is not None:
                    marks[node] = found
    for node, found in marks.items():
        read = _aliases([one for one in found if one is not None])
        source = next((one for one in query.sources if {one.alias} == read), None)
        if source is not None and source.join == "inner":
            marked, mark = _marked(query, source, found, clock)
            query = _renamed(_with_source(query, source, marked), {node: mark})
    return query


def _marked(query: Query, source: Source, found: Period, clock: Source) -> tuple[Source, Expr]:
    """Returns a source with one more column, which tells whether a period has begun and has not ended; and this column.

    Its rows are those before, within and after their period, and those whose period is unknown.
    """
    needed = {name for expr in _exprs(query) for name in expr.columns}
    columns = [source.qualified(c.name) for c in source.table.columns]
    columns = [column for column in columns if column.value in needed] or columns[:1]
    names = {split(str(column.value))[1]: column for column in columns}
    mark = unused("mark", [column.name for column in source.table.columns])
    plain = replace(source, group=0, join="inner", on=())
    moments = Query(query.text, (clock,), (), ((NOW, clock.qualified(NOW)),), False)
    known = [one for one in found if one is not None]
    there = tuple(call("not", call("isnull", one)) for one in known)

    def rows(value: Expr, since: Expr | None, until: Expr | None) -> Relation:
        hidden = {unused(name, [*names, mark]): one for name, one in (("since", since), ("until", until)) if one}
        outputs = (*names.items(), (mark, value), *hidden.items())
        bounds = iter(hidden)
        first, last = (None if one is None else next(bounds) for one in (since, until))
        return Timed(Query(query.text, (plain,), there, outputs, False), moments, first, last)

    since, until = found
    parts = [rows(TRUE, since, until)]
    parts += [] if since is None else [rows(FALSE, None, since)]
    parts += [] if until is None else [rows(FALSE, until, None)]
    unknown = tuple(call("isnull", one) for one in known)
    either = unknown[0] if len(unknown) == 1 else call("or", *unknown)
    nothing = (*names.items(), (mark, cast(NULL, "bool")))
    parts.append(Query(query.text, (plain,), (either,), nothing, False))
    function: Function = 0
    for number in range(1, len(parts)):
        function = ("union_all", function, number)
    made = SetOperation(tuple(parts), function)
    derived = replace(source, table=Table(source.alias, made.columns), input=made)
    return derived, derived.qualified(mark)


def _within(
    query: Query, read: frozenset[str], bounds: list[Period], clock: Source, later: Iterable[Period] = ()
) -> Query:
    """Returns the query restricted to rows of some sources, or of joins of them, that are within all periods.

    `later`: periods that are applied afterwards. The columns that they read are kept.
    """
    inside = [source for source in query.sources if source.alias in read]
    joined = len(inside) > 1
    if not inside or (joined and any(source.join != "inner" or source.group for source in inside)):
        raise PlanError(
            "a comparison with the clock reads "
            + ("columns of outer joins or subqueries together with other columns" if inside else "no column"),
            hint="select what is compared in FROM (SELECT ...), and compare its column with NOW()",
        )
    leading = inside[0]
    own = [one for one in query.conditions if _aliases([one]) <= read and _aliases([one])]
    own = own if joined or leading.join == "inner" else []  # rows of an outer join are tested after the join
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
    for bound, op, found in (
        ("since", "greatest", [a for a, _ in bounds]),
        ("until", "least", [b for _, b in bounds]),
    ):
        known = list(dict.fromkeys(one for one in found if one is not None))
        if known:
            value = known[0] if len(known) == 1 else call(op, *known)
            hidden[bound] = unused(bound, [*taken.values(), *(name for name, _ in hidden.values())]), value
            own += [call("not", call("isnull", one)) for one in known]  # the condition is not unknown
    outputs = (*((name, column) for column, name in taken.items()), *hidden.values())
    plain = tuple(replace(source, group=0, join="inner", on=()) for source in inside)
    moments = Query(query.text, (clock,), (), ((NOW, clock.qualified(NOW)),), False)
    since, until = (hidden[bound][0] if bound in hidden else None for bound in ("since", "until"))
    made = Timed(Query(query.text, plain, tuple(own), outputs, False), moments, since, until)
    derived = replace(leading, table=Table(leading.alias, made.columns), input=made)
    names = {column: derived.qualified(name) for column, name in taken.items()}
    sources = [source for source in query.sources if source not in inside[1:]]
    query = replace(query, sources=tuple(derived if one is leading else one for one in sources), conditions=tuple(rest))
    return _renamed(query, names) if joined else query


def _by_day(query: Query, clocks: list[Source]) -> Query:
    """Returns the query without its clocks. If the query reads only the date, a relation of today's date replaces the
    clock."""
    days = {clock.alias: replace(clock, table=Table(clock.alias, (Column(_TODAY, "date"),))) for clock in clocks}
    made = _renamed(
        query, {cast(clock.qualified(NOW), "date"): days[clock.alias].qualified(_TODAY) for clock in clocks}
    )
    read = {name for expr in _exprs(made) for name in expr.columns}
    if any(clock.qualified(NOW).value in read for clock in clocks):
        raise PlanError(
            "NOW() is read where its value would change every row whenever the clock moves",
            hint="compare it with a column (at > NOW() - INTERVAL '1' HOUR), or use CURRENT_DATE",
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
    """Returns the query with expressions replaced by others."""
    return replace(
        query,
        sources=tuple(replace(one, on=tuple(replaced(expr, names) for expr in one.on)) for one in query.sources),
        conditions=tuple(replaced(one, names) for one in query.conditions),
        outputs=tuple((name, replaced(expr, names)) for name, expr in query.outputs),
        keys=tuple((number, tuple(replaced(expr, names) for expr in exprs)) for number, exprs in query.keys),
    )


def _with_source(query: Query, old: Source, new: Source) -> Query:
    return replace(query, sources=tuple(new if one is old else one for one in query.sources))


def _aliases(exprs: Iterable[Expr]) -> set[str]:
    return {split(name)[0] for expr in exprs for name in expr.columns}
