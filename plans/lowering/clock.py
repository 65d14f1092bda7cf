"""Rewrites conditions on the clock as the periods in which rows are valid: `Timed` relations.

`at > NOW() - INTERVAL '1' HOUR` holds until one hour after `at`; `due <= CURRENT_DATE` holds from midnight of `due` on.
A condition that compares a non-decreasing function of the clock with values of a row determines when the row enters or
leaves. If such a condition is used as a value or stands under OR, it becomes a column that changes at these moments.
All other uses of the clock would change every row whenever the clock moves. They are rejected, unless they read only
the date, in UTC or in a zone, which is a relation of one row that changes once a day.

A non-decreasing function of the clock is solved for the clock: `CURRENT_DATE >= due` holds from the midnight of `due`
on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import FALSE, MIRROR, NULL, TRUE, Expr, call, cast, col, lit
from plans.programs.stages import Function
from plans.queries.algebra import Query, Relation, SetOperation, Source, Timed, rebuilt, replaced, split, unused
from plans.schema import Column, Table
from plans.time.windows import NAME, NOW

_DAY = 86_400_000_000
_UNITS = {"day": _DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1}
Period = tuple[Expr | None, Expr | None]
"""The first moment at which a condition holds (None: it always held), and the first at which it no longer holds (None:
it holds forever)."""


def period(condition: Expr, time: Expr) -> Period | None:
    """Returns the period of a condition that reads the clock, or None if it is not a comparison that can be solved for
    it."""
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
    if left.type == "duration" and left.op == "sub" and time.value not in left.args[0].columns:
        left, right, op = left.args[1], call("sub", left.args[0], right), MIRROR[op]
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
    """Returns the successor of a value in its type."""
    if value.type == "date":
        return call("date_add", value, lit(1))
    if value.type in ("timestamp", "timestamp_ntz"):
        return call("plus_micros", value, lit(1))
    if value.op == "literal" and value.value is not None:
        return lit(value.value + 1, value.type)
    return call("add", value, lit(1, "duration") if value.type == "duration" else lit(1))


def _negated(length: Expr) -> Expr:
    return lit(-length.value) if length.op == "literal" and length.value is not None else call("neg", length)


def first(side: Expr, value: Expr, time: Expr, days: bool = False) -> Expr | None:
    """Returns the first moment at which `side`, a non-decreasing function of the clock, is at least `value`.

    Returns None if the side is not known to be such a function. The amount by which it shifts the clock may depend on
    the row. `days`: only the date of `side` counts, which does not go back when the clocks of a zone do.
    """
    if side == time:
        return value if value.type == "timestamp" else cast(value, "timestamp")
    at = -1 if side.op in ("date_trunc", "timestampdiff") else 0
    inner = side.args[at] if side.args else None
    if inner is None or [other for other in side.args if time.value in other.columns] != [inner]:
        return None
    if side.op == "plus_micros":
        return first(inner, call("plus_micros", value, _negated(side.args[1])), time)
    if side.op in ("add", "sub") and side.args[1].type == "duration" and side.type != "duration":
        return first(inner, call("sub" if side.op == "add" else "add", value, side.args[1]), time)
    if side.op == "sub" and side.type == "duration":
        return first(inner, call("add", side.args[1], value), time)
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
        begin = call("plus_micros", call("date_trunc", side.args[0], before), lit(unit))
        return first(inner, begin, time, unit == _DAY)
    if side.op == "cast" and side.type == "date" and inner.type in ("timestamp", "timestamp_ntz"):
        return first(inner, cast(value, inner.type), time, True)
    if side.op == "cast" and inner.type == "date" and side.type in ("timestamp", "timestamp_ntz"):
        day = cast(call("plus_micros", value, lit(-1)), "date")
        return first(inner, call("date_add", day, lit(1)), time)
    if side.op == "cast" and {side.type, inner.type} == {"timestamp", "timestamp_ntz"}:
        return first(inner, cast(value, inner.type), time, days)
    if side.op == "from_utc_timestamp" and days:
        return first(inner, call("to_utc_timestamp", value, side.args[1]), time)
    if side.op == "to_utc_timestamp" and _begins_a_day(inner):
        reading = call("from_utc_timestamp", value, side.args[1])
        repeated = call("lt", call("to_utc_timestamp", reading, side.args[1]), value)  # the clock shows it twice
        return first(inner, call("case", repeated, call("plus_micros", reading, lit(1)), reading), time)
    return None


def _begins_a_day(side: Expr) -> bool:
    """Returns whether an expression is the begin of a day."""
    while side.op == "cast" and side.type in ("timestamp", "timestamp_ntz"):
        side = side.args[0]
    return side.type == "date" or (side.op == "date_trunc" and str(side.args[0].value).lower() == "day")


def _by_difference(side: Expr, value: Expr, time: Expr) -> Expr | None:
    """Returns when the number of whole units from a value to the clock, truncated towards zero, reaches `value`."""
    unit, since, inner = side.args
    length = _UNITS.get(str(unit.value).lower()) if unit.op == "literal" else None
    if length is None or (length > 1 and (value.op != "literal" or value.value is None)):
        return None
    if length > 1:
        value = lit(value.value * length if value.value > 0 else (value.value - 1) * length + 1, "int64")
    return first(inner, call("plus_micros", since, value), time)


_TODAY = "today"


def _is_day(expr: Expr, time: Expr) -> bool:
    """Returns whether an expression is the date of the clock, in UTC or in a constant zone."""
    if expr.op != "cast" or expr.type != "date":
        return False
    inner = expr.args[0]
    while inner.op in ("cast", "from_utc_timestamp") and inner.type in ("timestamp", "timestamp_ntz"):
        if any(other.op != "literal" for other in inner.args[1:]):
            return False
        inner = inner.args[0]
    return inner == time


def _days(query: Query, clock: Source) -> dict[Expr, Expr]:
    """Returns the dates of a clock that a query reads, and the columns of the relation that replaces the clock."""
    time = clock.qualified(NOW)
    found: dict[Expr, Expr] = {}
    for node in dict.fromkeys(node for expr in _exprs(query) for node in expr.postorder()):
        if _is_day(node, time):
            names = [split(str(column.value))[1] for column in found.values()]
            found[node] = col(f"{clock.alias}.{unused(_TODAY, names)}", "date")
    return found


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
    time, today = clock.qualified(NOW), _days(query, clock)
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
    """Returns the query without its clocks. If the query reads only dates, a relation of today's dates replaces the
    clock."""
    days = {clock.alias: _days(query, clock) for clock in clocks}
    made = _renamed(query, {expr: column for found in days.values() for expr, column in found.items()})
    read = {name for expr in _exprs(made) for name in expr.columns}
    if any(clock.qualified(NOW).value in read for clock in clocks):
        zoned = any(node.op == "from_utc_timestamp" for expr in _exprs(made) for node in expr.postorder())
        hint = "compare it with a column (at > NOW() - INTERVAL '1' HOUR), or use CURRENT_DATE"
        hint = (
            "the clock of a zone goes back once a year: compare NOW() with an instant, or use the date"
            if zoned
            else hint
        )
        raise PlanError("NOW() is read where its value would change every row whenever the clock moves", hint=hint)
    sources = []
    for source in made.sources:
        if source not in clocks:
            sources.append(source)
        elif days[source.alias]:
            outputs = tuple((split(str(column.value))[1], expr) for expr, column in days[source.alias].items())
            today = Query(query.text, (replace(source, group=0),), (), outputs, False)
            table = Table(source.alias, tuple(Column(name, "date") for name, _ in outputs))
            sources.append(replace(source, table=table, input=today))
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
