"""GROUP BY and aggregates: builds the group of the rows of FROM and WHERE. Part of `plans.frontends.sql`.

Aggregates and grouping expressions become columns, named as the keys and aggregates of `plans.queries.algebra.Group`.
Any other column in an expression is an error.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp
from typing_extensions import override

from plans.errors import PlanError
from plans.expressions.build import NULL, TRUE, Expr, call, cast, col, lit
from plans.expressions.functions.user import NAMED, UserAggregate
from plans.frontends.aggregates import VALUE, GroupColumns, pick
from plans.frontends.fields import struct
from plans.frontends.frames import session_end
from plans.frontends.rewrites import PICKED, AggregateCall, firsts, picked, rewritten
from plans.frontends.sql.groups.aggregates import aggregates, function_of
from plans.frontends.sql.groups.groupings import Grouping, grouping_expression
from plans.frontends.sql.groups.ordered import OrderedCall, check_accuracy, ordered_call
from plans.frontends.sql.relations.sessions import Session, is_session, session_of, session_part
from plans.frontends.sql.scalars.interval import SESSION_WINDOW
from plans.frontends.sql.scope import Frame, Outputs, Scope, value_of
from plans.frontends.sql.text.nodes import is_known, nodes
from plans.frontends.sql.text.place import spelling
from plans.frontends.sql.values import Meaning, scalar
from plans.payloads.sums import DISTINCT
from plans.queries.algebra import Group, Query, replaced, split

# The arguments that the call of an aggregate may have. Any other argument changes its meaning.
_CARRIED = {"this", "expression", "expressions", "zero_on_all_null", "big_int", "accuracy", "own"}
_ONCE = (
    "bool_and",
    "bool_or",
    "any_value",
    "first",
    "last",
    "approx_count_distinct",
    "bit_and",
    "bit_or",
    "min",
    "max",
)
_OWN = {
    "sum": "sum_of_truths",
    "avg": "double_avg", "percentile": "decimal_percentile", "percentile_disc": "percentile_of_values",
    "max": "max_or_null", "min": "min_or_null", "max_by": "max_by_or_null", "min_by": "min_by_or_null",
    "string_agg": "plain_string_agg",
    "corr": "corr_or_nan", "regr_slope": "regr_slope_or_nan",
}  # fmt: skip
"""The meaning of aggregates in other dialects than Spark: all dialects differ in aggregates of structs, DuckDB in the
others."""
_OF_SEVERAL = {"max": "use GREATEST inside of it", "min": "use LEAST inside of it"}


def _keep_constants_apart(scope: Scope) -> None:
    """Makes columns of FROM that are constants distinct from constants in expressions: in a grouping without the
    column, the column is NULL, and the constant is not."""
    for relation in scope.relations:
        constants = [expr for _, expr in relation.columns.values() if expr.op == "literal" and expr.type != "null"]
        relation.rename({expr: call("coalesce", expr) for expr in constants})


class Groups(GroupColumns):
    """The groups of a SELECT under construction: its rows, with a column per key and per argument of an aggregate.

    `aggregate_scope` is the scope of expressions over aggregates: subqueries in them are joined with the groups, not
    with the rows.
    """

    def __init__(self, node: exp.Select, scope: Scope, grouping: Grouping) -> None:
        super().__init__()
        self.node, self.scope, self.grouping = node, scope, grouping
        self.aggregate_scope = replace(scope, frame=Frame(scope.frame.names))
        self.keys: dict[Expr, str] = {}
        self.picks: dict[
            AggregateCall, str
        ] = {}  # aggregates that pick one row of a group, with the alias of their source
        self.session: Session | None = None
        self.absent: dict[Expr, Expr] = {}  # keys of other groupings of the query, which are NULL here
        if grouping.several:
            _keep_constants_apart(scope)
        for item in grouping.every:
            scope.text.check_no_aggregate(item, "GROUP BY")
            if is_session(value_of(item)):
                hint = "write one query per grouping"
                raise scope.text.error("a session in GROUPING SETS, ROLLUP or CUBE is not supported", item, hint)
            self._add_absent_key(scalar(value_of(item), scope))
        for item in grouping.items:
            if next(aggregates(item), None) is not None:
                raise scope.text.error("GROUP BY an aggregate is not possible", item, "group by columns of the tables")
            if is_session(value_of(item)):
                scope.text.guarded(item, partial(self._session, value_of(item)))
                continue
            preferred = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else "key"
            self._key(scalar(value_of(item), scope), preferred or "key")

    # columns ----------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> dict[str, str]:
        """Returns the columns of a group: name to type."""
        keys = {name: expr.type for expr, name in self.keys.items()}
        return keys | {call.name: call.type for call in self.calls.values()}

    def _key(self, expr: Expr, preferred: str) -> None:
        """Adds a grouping key."""
        if expr.type == "null":
            raise PlanError("GROUP BY NULL is not possible", hint="leave it out")
        if expr not in self.keys:
            self.keys[expr] = self.column(expr, preferred)

    def _session(self, node: exp.Expression) -> None:
        """Adds the start of a session as a grouping key."""
        found = session_of(node, lambda part: scalar(part, self.scope))
        if self.session not in (None, found):
            raise PlanError("GROUP BY has two sessions", hint="group by one of them")
        self.session = found
        self.column(found.time, "at")
        self._key(found.key, "session_start")

    def _of_session(self, node: exp.Expression) -> Expr | None:
        """Returns the start or end of a session, or None if a node is neither."""
        word = session_part(node)
        if not word or self.session is None:
            return None
        called = node.this if isinstance(node, exp.Dot) else node
        if is_session(called) and session_of(called, lambda part: scalar(part, self.scope)) != self.session:
            hint = "use the time and the gap of GROUP BY"
            raise PlanError(f"{word} uses another session than GROUP BY", hint=hint)
        if word in ("SESSION", "SESSION_START", "SESSION_WINDOW.START"):
            return self.session.key
        end = session_end(rewritten(AggregateCall("max", (self.session.time,)), self.added), self.session.gap)
        if word in ("SESSION_END", "SESSION_WINDOW.END"):
            return end
        if word != SESSION_WINDOW:
            message = f"session_window has only start and end, not {word.rpartition('.')[2]}"
            raise PlanError(message, hint="write session_window.start or session_window.end")
        return struct([self.session.key, end], ["start", "end"])

    def _add_absent_key(self, expr: Expr) -> None:
        """Records that another grouping of the query has this key: here it is NULL outside of aggregates, unless it is
        a key here, too. The rows have it as a column, so that they are equal for all groupings."""
        self.column(expr, split(expr.value)[1] if expr.op == "col" else "key")
        self.absent[expr] = cast(NULL, expr.type)

    def known(self) -> dict[Expr, Expr]:
        """Returns the grouping expressions as columns of a group."""
        return self.absent | {expr: col(name, expr.type) for expr, name in self.keys.items()}

    # values -----------------------------------------------------------------------------------------------------------

    def value(self, node: exp.Expression, meaning: Meaning | None = None) -> Expr:
        """Returns an expression over keys and aggregates."""
        called = {id(part): self._call(part) for part in list(aggregates(node))}

        def special(part: exp.Expression) -> Expr | None:
            found = meaning(part) if meaning is not None else None
            if found is not None:
                return found
            session = self.scope.text.guarded(part, partial(self._of_session, part))
            if session is not None:
                return session
            if isinstance(part, (exp.Grouping, exp.GroupingId)) and self.grouping.several:
                return self._grouping_value(part)
            if isinstance(part, exp.Filter) or function_of(part) is not None:
                return called.get(id(part)) or self._call(part)
            return None

        made = replaced(scalar(node, self.aggregate_scope, special), self.known())
        self._check(made, node)
        return replaced(made, self.known())

    def _grouping_value(self, node: exp.Expression) -> Expr:
        """Returns the value of GROUPING or GROUPING_ID: the bits of the expressions that are not keys here."""
        asked = [self._asked(one.unnest()) for one in node.expressions] or list(self.absent)
        bits = sum((one not in self.keys) << i for i, one in enumerate(reversed(asked)))
        return lit(bits, "int32" if isinstance(node, exp.Grouping) else "int64")

    def _asked(self, node: exp.Expression) -> Expr:
        """Returns an argument of GROUPING, which is a grouping expression, or its alias."""
        column = isinstance(node, exp.Column)
        expr = scalar(value_of(grouping_expression(node, self.node, self.scope) if column else node), self.scope)
        if expr not in self.absent:
            raise self.scope.text.error("the argument of GROUPING is not in GROUP BY", node)
        return expr

    def _check(self, expr: Expr, node: exp.Expression) -> None:
        """Checks that every remaining column is determined by the keys, and adds it as a key."""
        for name in sorted(expr.columns):
            alias, column = split(name)
            source = next((s for s in self.scope.frame.sources if s.alias == alias), None)
            if source is None or name in self.names:
                continue
            whole = source.qualified(column)
            if source.table.key and all(source.qualified(key) in self.keys for key in source.table.key):
                self._key(whole, column)
                continue
            place = next((c for c in nodes(node, exp.Column) if c.name.lower() == column.lower()), node)
            raise self.scope.text.error(
                f"column {column} is neither in GROUP BY nor inside an aggregate", place, "add it to GROUP BY"
            )

    def _call(self, node: exp.Expression) -> Expr:
        """Returns the column of an aggregate."""
        text, where = self.scope.text, None
        inner = node
        if isinstance(node, exp.Filter):
            where, inner = node.expression.this, node.this
        function = function_of(inner)
        inner = inner.this if isinstance(inner, exp.IgnoreNulls) else inner
        flagged = (inner.this if isinstance(inner, exp.WithinGroup) else inner).args.get("own")
        if function is None:
            raise text.error(f"FILTER after {spelling(text.text, inner)} is not supported", node)
        resolved = _OWN.get(function, function) if flagged else function
        resolved = {"wide": "wide_sum", "whole": "whole_avg"}.get(str(flagged), resolved)
        ignoring = isinstance(node if where is None else node.this, exp.IgnoreNulls)
        ordered = ordered_call(inner, text, ignoring)
        if ordered is not None:
            conditions = [] if where is None else [where]
            conditions += [is_known(ordered.value)] if ignoring and ordered.nulls else []
            return text.guarded(node, partial(self._ordered, resolved, ordered, conditions))
        if isinstance(inner, exp.WithinGroup) and function == "mode":  # MODE() WITHIN GROUP (ORDER BY x)
            order = inner.expression.expressions
            if len(order) != 1 or order[0].args.get("desc") or inner.this.this is not None:
                raise text.error("MODE takes one ORDER BY value, ascending", node, "write MODE(x)")
            inner = exp.Mode(this=order[0].this)
        arguments = [p for p in (inner.this, inner.args.get("expression")) if isinstance(p, exp.Expression)]
        if isinstance(inner, exp.Anonymous):
            arguments = list(inner.expressions)
        else:
            arguments += [part for part in inner.expressions if function != "count" or part not in arguments]
            more = inner.args.get("zero_on_all_null")  # of COUNT_IF: a second argument, or what Snowflake's implies
            arguments += [more] if isinstance(more, exp.Expression) else []
        distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = list(arguments[0].expressions)
        word = spelling(text.text, inner)
        text.check_arguments(inner, _CARRIED, word)
        check_accuracy(inner, text, word)
        takes = 2 if function.startswith(("covar", "corr", "regr")) else PICKED.get(function, (1, True))[0]
        registered = NAMED.get(function)
        takes = len(registered.lift.takes) if isinstance(registered, UserAggregate) else takes
        if len(arguments) < takes:
            raise text.error(f"{word} needs another argument", node)
        if len(arguments) > takes and function != "count":
            hint = _OF_SEVERAL.get(function, "name one column")
            raise text.error(f"{word} of {len(arguments)} columns is not supported", node, hint)
        star = isinstance(arguments[0], exp.Star)
        if star:
            text.check_arguments(arguments[0], set(), f"{word}(*)")
        if star and (distinct or not isinstance(inner, exp.Count)):
            raise text.error(f"{word} of {'DISTINCT ' if distinct else ''}* is not supported", node, "name one column")
        if distinct and (isinstance(inner, exp.CountIf) or function not in (*_ONCE, *DISTINCT)):
            raise text.error(f"{word}(DISTINCT ...) is not supported", node)
        conditions = [where] if where is not None else []
        if isinstance(inner, exp.CountIf):
            conditions, arguments = [*conditions, *arguments], []
        if star:
            arguments = []
        return text.guarded(node, partial(self._add, resolved, arguments, distinct, conditions))

    def _add(
        self, function: str, arguments: list[exp.Expression], distinct: bool, conditions: list[exp.Expression]
    ) -> Expr:
        """Returns the value of an aggregate."""
        values = [self._argument(part) for part in arguments]
        if function == "count":
            values = [cast(value, "bool") if value.type == "null" else value for value in values]
        where = tuple(self._argument(part) for part in conditions)
        called = AggregateCall(function, tuple(values), distinct, where)
        one = picked(called)
        return rewritten(called, self.added) if one is None else self._picked(one)

    def _ordered(self, function: str, ordered: OrderedCall, conditions: list[exp.Expression]) -> Expr:
        """Returns the value of an aggregate of values in order."""
        values = (self._argument(ordered.value),)
        by = tuple(
            (self._argument(i.this), bool(i.args.get("desc")), not i.args.get("nulls_first")) for i in ordered.by
        )
        where = tuple(self._argument(part) for part in conditions)
        called = AggregateCall(function, values, ordered.distinct, where, ordered.share, ordered.separator, by)
        if ordered.first is None and not ordered.nulls:
            return rewritten(called, self.added)
        return firsts(called, ordered.first, ordered.nulls, self.added)

    @override
    def added(self, called: AggregateCall) -> Expr:
        certain = called.values and self.scope.frame.never_null(called.values[0], self.scope.reading.schema)
        if called.function == "count" and not called.distinct and certain:
            called = replace(called, values=())  # COUNT(1), COUNT of a NOT NULL column
        return super().added(called)

    def _picked(self, aggregate: AggregateCall) -> Expr:
        """Returns the value of one row of a group: a column of a source that `relation` joins with the groups."""
        if self.session is not None:
            raise PlanError(
                f"{aggregate.function.upper()} of a session is not supported",
                hint="write SESSION(...) in FROM, and pick from its rows",
            )
        if aggregate not in self.picks:
            self.picks[aggregate] = self.aggregate_scope.frame.names.alias(aggregate.function)
        return col(f"{self.picks[aggregate]}.{VALUE}", aggregate.values[0].type)

    def _argument(self, node: exp.Expression) -> Expr:
        """Returns an argument over the rows. Subqueries in it are joined with the rows."""
        if next(aggregates(node), None) is not None:
            raise self.scope.text.error("an aggregate inside an aggregate is not possible", node)
        return scalar(node, self.scope)

    # the relation -----------------------------------------------------------------------------------------------------

    def relation(self, outputs: Outputs, having: Expr | None) -> Group | Query:
        """Returns the groups, joined with the sources of subqueries over aggregates."""
        if not self.aggregate_scope.frame.sources and not self.picks:
            return self._group(outputs, having)
        text, frame = self.scope.text.text, self.aggregate_scope.frame
        columns = [(name, col(name, type_)) for name, type_ in self.names.items()]
        source = frame.derived(self._group(tuple(columns), None), "groups")
        names = {expr: source.qualified(name) for name, expr in columns}
        names |= {expr: names.get(known, known) for expr, known in self.known().items()}  # as subqueries wrote them
        conditions = [*frame.conditions, *([having] if having is not None else [])]
        sources = [replace(s, on=tuple(replaced(e, names) for e in s.on)) for s in frame.sources]
        known = {source.alias, *(s.alias for s in sources), *self.picks.values()}
        for expr in (*(replaced(one, names) for one in conditions), *(e for s in sources for e in s.on)):
            for name in expr.columns:
                if split(name)[0] not in known:
                    raise PlanError(
                        f"a subquery in SELECT or HAVING reads {name}, which is not in GROUP BY", hint="group by it"
                    )
        keys = [(expr, source.qualified(name)) for expr, name in self.keys.items()]
        rows = partial(self.scope.frame.query, text)
        return Query(
            text,
            (source, *sources, *(pick(given, alias, rows, keys) for given, alias in self.picks.items())),
            tuple(replaced(one, names) for one in conditions),
            tuple((name, replaced(expr, names)) for name, expr in outputs),
            False,
            tuple((g, tuple(replaced(e, names) for e in es)) for g, es in frame.keys),
        )

    def _group(self, outputs: Outputs, having: Expr | None) -> Group | Query:
        """Returns the group. Without aggregates and HAVING, returns the distinct rows."""
        calls, keys = tuple(self.calls.values()), tuple(self.keys.values())
        shown = {expr.value for _, expr in outputs if expr.op == "col"}
        if self.session is not None:
            return Group(self._in_sessions(self.session), keys, calls, outputs, having)
        columns = tuple(self.columns.items()) or (("one", TRUE),)
        rows = self.scope.frame.query(self.scope.text.text, columns)
        if calls or having is not None or self.grouping.whole or not shown.issuperset(keys):
            return Group(rows, keys, calls, outputs, having, self.grouping.whole)
        names = {col(name, expr.type): expr for expr, name in self.keys.items()}
        return replace(rows, outputs=tuple((n, replaced(e, names)) for n, e in outputs), distinct=True)

    def _in_sessions(self, session: Session) -> Query:
        """Returns the rows with the starts of their sessions."""
        start, time = self.keys[session.key], self.column(session.time, "at")
        columns = tuple((name, expr) for name, expr in self.columns.items() if name != start)
        rows = self.scope.frame.query(self.scope.text.text, columns)
        return session.starts(rows, [key for key in self.keys.values() if key != start], time, start)
