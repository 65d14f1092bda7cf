"""FROM: tables, CTEs and subqueries, and the joins between them. Part of `plans.frontends.sql`.

ASOF JOIN in SQL (`plans.frontends.asof`), and the join with the versions of a table.

    FROM trades ASOF JOIN quotes ON trades.symbol = quotes.symbol AND trades.at >= quotes.at
    FROM trades ASOF LEFT JOIN quotes USING (symbol, at)                        the last column by >=
    FROM trades ASOF JOIN quotes MATCH_CONDITION (trades.at >= quotes.at) ON trades.symbol = quotes.symbol
    FROM orders JOIN rates FOR SYSTEM_TIME AS OF orders.at ON orders.currency = rates.currency

The third form pads left rows without a partner, as a LEFT JOIN does. In Spark's dialect it drops them, and LEFT ASOF
JOIN pads them. The last form joins with the version of `rates` that is valid at a time of the left side: the one with
the latest beginning before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast
from plans.frontends.asof import MATCHED, RIGHT, match_of, matched
from plans.frontends.sql.columns import listed
from plans.frontends.sql.conditions import add_conditions
from plans.frontends.sql.elements import over_elements
from plans.frontends.sql.relations.pivots import pivoted
from plans.frontends.sql.relations.sessions import arguments_of, in_sessions, is_sessions
from plans.frontends.sql.relations.sources import add_named, add_source, add_subquery, alias_of, check_names
from plans.frontends.sql.relations.unnest import add_generated, is_generator
from plans.frontends.sql.relations.windows import is_windows, query_of
from plans.frontends.sql.scope import Relation, Scope, one_source
from plans.frontends.sql.shape import conjuncts, joins_of, tables_in
from plans.frontends.sql.subqueries import decorrelated, scalar_aggregates, subquery
from plans.frontends.sql.text.place import INSTEAD, NO_TABLE, spelling
from plans.frontends.sql.values import scalar
from plans.queries.algebra import Group, Query, SetOperation, Source
from plans.time.windows import CLOCK

VERSIONS = "FOR SYSTEM_TIME AS OF"


def moment_of(join: exp.Join) -> exp.Expression | None:
    """Returns the value of the left side at which the versions of a table are looked up, or None for other joins."""
    version = join.this.args.get("version")
    moment = version.expression if isinstance(version, exp.Version) and version.name == "TIMESTAMP" else None
    return moment if moment is not None and moment.find(exp.Column) is not None else None


def version_of(conditions: Sequence[Expr], right: Source) -> Expr:
    """Returns the time from which a row of a table with versions is valid: the only column of its key that the
    conditions do not compare. Raises PlanError unless they are equalities with all other columns."""
    key = [right.qualified(name) for name in right.table.key if right.input is None]
    if not key:
        raise PlanError(
            f"{VERSIONS} needs a table with a declared key, and {right.alias} has none",
            hint="declare as key the columns of ON and the time from which a row is valid: key=['currency', 'since']",
        )
    compared = [{side for side in one.args if side in key} if one.op == "eq" else set() for one in conditions]
    times = [column for column in key if column not in set().union(*compared)]
    if len(times) != 1 or not all(compared):
        raise PlanError(
            f"{VERSIONS} needs equalities with all columns of the key except the time from which a row is valid",
            hint=f"the key of {right.table.name} is ({', '.join(right.table.key)}); put other conditions into WHERE",
        )
    return times[0]


_OUTER = ("LEFT", "RIGHT", "FULL", "ANTI")


def add_relation(node: exp.Expression, scope: Scope) -> None:
    """Adds a table, a CTE, a subquery or a join in parentheses to the scope."""
    if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins"):
        _add_joined(node, scope)
    elif isinstance(node, (exp.Table, exp.Subquery)) and len(node.args.get("pivots") or ()) == 1:
        _add_pivoted(node, scope)
    elif isinstance(node, exp.Paren):
        add_relation(node.this, scope)
    elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        scope.text.check_table(node)
        add_named(node, scope)
    elif isinstance(node, exp.Subquery):
        inner = tables_in(node)
        if inner is None:
            add_subquery(node.this, alias_of(node, scope), node.alias_column_names, scope, node)
        elif node.args.get("alias"):
            hint = f"write (SELECT * FROM ...) AS {node.alias}"
            raise scope.text.error("a name for tables in parentheses is not supported", node, hint)
        else:
            add_relation(inner, scope)
    elif isinstance(node, exp.Table) and is_sessions(node):
        _add_sessions(node, scope)
    elif isinstance(node, exp.Table) and is_windows(node):
        body = scope.text.guarded(node, partial(query_of, node))
        add_subquery(body, alias_of(node, scope), node.alias_column_names, scope, node)
    else:
        if isinstance(node, exp.Values):
            raise scope.text.error(
                "VALUES without a table never changes, so there is nothing to maintain", node, "join it with a table"
            )
        called = (node.this if isinstance(node, exp.Table) else None) or node
        what = spelling(scope.text.text, called)
        if is_generator(called):
            raise scope.text.error(f"{what} without a table before it in FROM is not supported", node, NO_TABLE)
        hint = INSTEAD.get(what.lower(), "use tables and subqueries")
        raise scope.text.error(f"{what} in FROM is not supported", node, hint)


def _add_sessions(node: exp.Table, scope: Scope) -> None:
    """Adds the rows of a table with their sessions."""
    table, columns, gap = scope.text.guarded(node, partial(arguments_of, node))
    inner = scope.new_side()
    add_relation(table, inner)
    source = one_source(inner.frame, inner.relations, scope)
    shown = tuple((name, expr) for _, name, expr in inner.visible())
    given = [inner.column(column) for column in columns]
    build = partial(in_sessions, source, shown, given, gap, scope.frame, scope.text.text)
    add_source(scope.text.guarded(node, build), alias_of(node, scope), node.alias_column_names, scope, node)


def _add_pivoted(node: exp.Expression, scope: Scope) -> None:
    """Adds the result of PIVOT or UNPIVOT of a table or subquery."""
    (pivot,), rows = node.args["pivots"], node.copy()
    rows.set("pivots", None)
    probe = scope.new_side()
    add_relation(rows.copy(), probe)
    names = [name for _, name, _ in probe.visible()]
    listed(pivot, names, scope)
    body = scope.text.guarded(pivot, partial(pivoted, pivot, rows, names, scope.text))
    add_subquery(body, pivot.alias or alias_of(node, scope), pivot.alias_column_names, scope, pivot)


# JOIN -----------------------------------------------------------------------------------------------------------------


def add_join(join: exp.Join, scope: Scope) -> None:
    """Adds the relation of JOIN, and its conditions."""
    kind, method = scope.text.check_join(join)
    on = join.args.get("on")
    if on is not None:
        scope.text.check_no_aggregate(on, "ON")
    written = [] if on is None else conjuncts(on)
    join = over_elements(join, scope.text)
    generated = join.this.this if isinstance(join.this, exp.Lateral) else join.this
    if is_generator(generated):
        _add_generated(generated, join, kind, written, scope)
        return
    if isinstance(join.this, exp.Lateral):
        _add_lateral(join, kind, written, scope)
        return
    if kind in ("RIGHT SEMI", "RIGHT ANTI"):
        _add_right(join, kind, method, written, scope)
        return
    moment = moment_of(join)
    if moment is not None and (kind not in ("INNER", "LEFT") or method):
        raise scope.text.error(f"{VERSIONS} in this join is not supported", join, "use JOIN or LEFT JOIN")
    if method == "ASOF" or moment is not None:
        _add_asof(join, kind, moment, written, scope)
        return
    if kind in _OUTER:
        _add_outer(join, kind, method, written, scope)
        return
    other = scope.new_side() if kind == "SEMI" else scope.side()
    add_relation(join.this, other)
    if kind == "SEMI":
        _semi_join(other, scope)
    _merge(join, kind, method, scope, other)
    add_conditions(written, scope)
    if kind == "SEMI":
        scope.remove(other)


def _add_generated(
    node: exp.Expression, join: exp.Join, kind: str, written: list[exp.Expression], scope: Scope
) -> None:
    """Adds the rows that UNNEST, EXPLODE and similar calls make of an array of relations before them in FROM."""
    if kind not in ("INNER", "LEFT") or join.args.get("using"):
        raise scope.text.error(f"a {kind} JOIN with rows of an array is not supported", join, "use JOIN or LEFT JOIN")
    certain = all(isinstance(part, exp.Boolean) and part.this for part in written)
    if kind == "LEFT" and not certain:
        raise scope.text.error("a condition of this LEFT JOIN is not supported", join, "write ON TRUE")
    made = add_generated(node, scope, join.this, kind == "LEFT")
    _merge(join, kind, "", scope, made)
    add_conditions(written, scope)


def _add_lateral(join: exp.Join, kind: str, written: list[exp.Expression], scope: Scope) -> None:
    """Adds a subquery that reads relations before it in FROM."""
    lateral, text = join.this, scope.text
    if kind not in ("INNER", "LEFT") or not isinstance(lateral.this, exp.Subquery) or join.args.get("using"):
        hint = INSTEAD.get(spelling(text.text, lateral.this).lower(), "write [LEFT] JOIN LATERAL (SELECT ...) ON ...")
        raise text.error("LATERAL of this form is not supported", join, hint)
    sub = subquery(lateral.this, scope)
    frame, found = sub.frame, sub.relation
    if frame is not None and (kind == "LEFT" or frame.distinct):
        found = decorrelated(frame.query(text.text, frame.outputs, frame.distinct), lateral, scope)
    source, pairs = None, [] if frame is None else list(frame.outputs)
    if found is not None and found.ties and found.whole:
        if kind == "INNER" and isinstance(found.relation, Group) and found.relation.having is not None:
            message = "HAVING without GROUP BY that can be true without rows is not supported in LATERAL"
            raise text.error(message, lateral, "name the aggregate, and compare it in WHERE")
        source, values = text.guarded(lateral, partial(scalar_aggregates, found, scope.frame))
        pairs = [(name, value) for name, value in zip(found.names, values, strict=True)]
    elif found is not None:
        source = scope.frame.derived(found.relation, "lateral")
        pairs = [(name, source.qualified(name)) for name in found.names]
    alias, spelled = alias_of(lateral, scope), lateral.alias_column_names
    check_names(alias, spelled, len(pairs), scope, lateral)
    named = zip(spelled or [name for name, _ in pairs], [expr for _, expr in pairs], strict=True)
    inner = scope.side()
    inner.add(Relation.of(alias, named), lateral)
    if source is None:
        assert frame is not None, "a subquery is a frame or a relation"
        scope.frame.merge(frame)
    elif source.join == "inner" and kind == "LEFT":
        assert found is not None, "a source is a relation"
        on = _outer_condition(join, kind, "", scope, inner, written)
        scope.frame.sources.append(replace(source, join="left", on=(*found.on(source), *on)))
        return
    else:
        assert found is not None, "a source is a relation"
        if kind == "LEFT" and not all(isinstance(part, exp.Boolean) and part.this for part in written):
            raise text.error("a condition of this LEFT JOIN LATERAL is not supported", join, "write ON TRUE")
        scope.frame.sources.append(source)
        scope.frame.conditions += found.on(source) if source.join == "inner" else ()
    _merge(join, kind, "", scope, inner)
    add_conditions(written, scope)


def _add_right(join: exp.Join, kind: str, method: str, written: list[exp.Expression], scope: Scope) -> None:
    """Adds a SEMI or ANTI JOIN that keeps rows of its right side, as one that keeps rows of its left side."""
    frame, left, right = scope.frame, scope.side(), scope.new_side()
    left.relations, left.order = scope.relations, scope.order
    add_relation(join.this, right)
    source = one_source(frame, left.relations, scope)
    frame.merge(right.frame)
    scope.relations, scope.order = right.relations, right.order
    if kind == "RIGHT ANTI":
        on = _outer_condition(join, kind, method, scope, left, written)
        frame.sources.append(replace(source, join="anti", on=on))
    else:
        frame.sources.append(replace(source, group=frame.names.group()))
        _merge(join, kind, method, scope, left)
        add_conditions(written, scope)
    scope.remove(left)


def _semi_join(right: Scope, scope: Scope) -> None:
    """Adds the sources of the right side of a SEMI JOIN, which only test for existence."""
    group = scope.frame.names.group()
    if all(source.join == "inner" for source in right.frame.sources):
        scope.frame.merge(right.frame, group)
    else:
        scope.frame.sources.append(replace(one_source(right.frame, right.relations, scope), group=group))


def _add_joined(node: exp.Expression, scope: Scope) -> None:
    """Adds a join in parentheses. If it contains a RIGHT or FULL JOIN, it has a frame of its own, because the existing
    sources are outside of the parentheses."""
    first, joins = node.copy(), node.args["joins"]
    first.set("joins", None)
    padded = any((join.side or "").upper() in ("RIGHT", "FULL") for join in joins_of(node))
    inside = scope.new_side() if padded and scope.frame.sources else scope
    add_relation(first, inside)
    for join in joins:
        add_join(join, inside)
    if inside is not scope:
        scope.frame.sources.append(one_source(inside.frame, inside.relations, scope))
        scope.join(inside, [])


def _merge(join: exp.Join, kind: str, method: str, left: Scope, right: Scope) -> None:
    """Adds the right side of a join to the scope of the left one; USING and NATURAL merge columns."""
    if method == "NATURAL":
        names = [name for name in dict.fromkeys(s for _, s, _ in left.visible()) if right.columns_named(name)]
    else:
        names = [identifier.name for identifier in join.args.get("using") or ()]
    merged = []
    for name in names:
        (relation, one), (_, two) = _using(name, left, right, join)
        left.frame.conditions.append(left.text.guarded(join, partial(call, "eq", one, two)))
        if kind in ("RIGHT", "FULL"):
            relation.shown[name.lower()] = two if kind == "RIGHT" else call("coalesce", one, two)
        merged.append((relation.alias.lower(), name.lower()))
    for relation in right.relations:
        left.check_alias(relation, join)
    left.join(right, merged)


def _using(name: str, left: Scope, right: Scope, join: exp.Join) -> tuple[tuple[Relation, Expr], tuple[Relation, Expr]]:
    """Returns the two columns of a USING name, each with the relation that shows it. Afterwards only the left one is
    shown."""
    ours, theirs = left.columns_named(name), right.columns_named(name)
    if not ours or not theirs:
        raise left.text.error(f"USING({name}): both sides of the join must have this column", join)
    if len(ours) > 1 or len(theirs) > 1:
        raise left.text.error(f"USING({name}) is ambiguous: several tables have it", join, "join with ON")
    theirs[0][0].hidden.add(name.lower())
    return ours[0], theirs[0]


def _add_outer(join: exp.Join, kind: str, method: str, written: list[exp.Expression], scope: Scope) -> None:
    """Adds an outer or anti join. Both sides become a single source each."""
    frame = scope.frame
    if kind in ("RIGHT", "FULL"):
        left = one_source(frame, scope.relations, scope)
    inner = scope.new_side()
    add_relation(join.this, inner)
    right = one_source(inner.frame, inner.relations, scope)
    on = _outer_condition(join, kind, method, scope, inner, written)
    if kind in ("LEFT", "ANTI"):
        frame.sources.append(replace(right, join=kind.lower(), on=on))
    elif kind == "RIGHT":
        frame.sources[:] = [right, replace(left, join="left", on=on)]
    else:
        frame.sources[:] = [_full(left, right, on, scope)]
    if kind == "ANTI":
        scope.remove(inner)


def _add_asof(
    join: exp.Join, kind: str, moment: exp.Expression | None, written: list[exp.Expression], scope: Scope
) -> None:
    """Adds an ASOF JOIN, or a join with versions at a `moment`. The ordered rows of both sides become one source."""
    frame, nearest = scope.frame, join.args.get("match_condition")
    if nearest is not None and not isinstance(nearest, (exp.GTE, exp.GT, exp.LTE, exp.LT)):
        message, hint = "MATCH_CONDITION takes one comparison by >=, >, <= or <", "put equalities into ON"
        raise scope.text.error(message, nearest, hint)
    left = one_source(frame, scope.relations, scope)
    at = None if moment is None else scalar(moment, scope)
    inner, table = scope.new_side(), join.this.copy()
    table.set("version", None if moment is not None else table.args.get("version"))
    add_relation(table, inner)
    right = one_source(inner.frame, inner.relations, scope)
    written = [*written, *([] if nearest is None else conjuncts(nearest))]
    on = list(_outer_condition(join, kind, "", scope, inner, written))
    if join.args.get("using") and nearest is None and at is None:
        on[-1] = call("ge", *on[-1].args)
    if at is not None:
        since = scope.text.guarded(join, partial(version_of, on, right))
        on.append(scope.text.guarded(moment or join, partial(call, "ge", at, since)))
    words = "ASOF JOIN" if at is None else VERSIONS
    match = scope.text.guarded(join, partial(match_of, on, left, right, words))
    over, names = matched(scope.text.text, left, right, match)
    made = frame.derived(over, f"{left.alias}_{right.alias}")
    for relation in scope.relations:
        relation.rename({expr: made.qualified(name) for expr, name in names.items()})
    frame.sources[:] = [made]
    frame.conditions.append(call("not", made.qualified(RIGHT)))
    if kind == "INNER":
        frame.conditions.append(made.qualified(MATCHED))


def _outer_condition(
    join: exp.Join, kind: str, method: str, scope: Scope, right: Scope, written: list[exp.Expression]
) -> tuple[Expr, ...]:
    """Returns the conditions of an outer join, which stay with the join. Adds its right side to the scope; USING merges
    columns."""
    frame = scope.frame
    conditions, count = frame.conditions, len(frame.sources)
    frame.conditions = []
    _merge(join, kind, method, scope, right)
    add_conditions(written, scope)
    on, frame.conditions = tuple(frame.conditions), conditions
    added = frame.sources[count:]
    if added and not (kind in ("LEFT", "ANTI") and all(source.table == CLOCK for source in added)):
        raise scope.text.error(
            f"a subquery in ON of a {kind} JOIN is not supported", join, "put it into a subquery in FROM"
        )
    return on


def _full(left: Source, right: Source, on: tuple[Expr, ...], scope: Scope) -> Source:
    """Returns FULL JOIN: the left join, and the right rows without a partner padded with NULLs."""
    text = scope.text.text
    ours = [(f"l_{c.name}", left.qualified(c.name)) for c in left.table.columns]
    theirs = [(f"r_{c.name}", right.qualified(c.name)) for c in right.table.columns]
    padded = [(name, cast(NULL, expr.type)) for name, expr in ours]
    matched = Query(text, (left, replace(right, join="left", on=on)), (), (*ours, *theirs), False)
    alone = Query(text, (right, replace(left, join="anti", on=on)), (), (*padded, *theirs), False)
    both = SetOperation((matched, alone), ("union_all", 0, 1))
    made = scope.frame.derived(both, f"{left.alias}_{right.alias}")
    for relation in scope.relations:
        relation.rename({expr: made.qualified(name) for name, expr in (*ours, *theirs)})
    return made
