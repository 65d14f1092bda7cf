"""Translates aggregates of Spark's plan into groups of the query algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

from typing_extensions import override

from plans.errors import PlanError
from plans.expressions.build import TRUE, Expr, call, cast, col
from plans.expressions.functions.user import NAMED, UserAggregate
from plans.frontends.aggregates import VALUE, GroupColumns, pick
from plans.frontends.catalyst.blocks import Block, Named, Reading, unused_names
from plans.frontends.catalyst.sessions import in_sessions
from plans.frontends.catalyst.tree import Node
from plans.frontends.rewrites import PICKED, AggregateCall, picked, rewritten
from plans.payloads.sums import DISTINCT, ONCE
from plans.queries.algebra import Group, Query, Relation, Source, inputs, replaced, split, unused

_FUNCTIONS = {
    "Count": "count", "Sum": "sum", "Average": "avg", "Min": "min", "Max": "max",
    "VariancePop": "var_pop", "VarianceSamp": "var_samp", "StddevPop": "stddev_pop", "StddevSamp": "stddev_samp",
    "CovPopulation": "covar_pop", "CovSample": "covar_samp", "Corr": "corr", "RegrCount": "regr_count",
    "RegrAvgX": "regr_avgx", "RegrAvgY": "regr_avgy", "RegrSXX": "regr_sxx", "RegrSYY": "regr_syy",
    "RegrSXY": "regr_sxy", "RegrSlope": "regr_slope", "RegrIntercept": "regr_intercept", "RegrR2": "regr_r2",
    "CountIf": "count", "HyperLogLogPlusPlus": "approx_count_distinct", "BoolAnd": "bool_and", "BoolOr": "bool_or",
    "First": "first", "Last": "last", "AnyValue": "any_value", "Median": "percentile", "Percentile": "percentile",
    "PercentileCont": "percentile", "PercentileDisc": "percentile_disc", "ApproximatePercentile": "percentile_approx",
    "ListAgg": "string_agg", "CollectList": "array_agg", "CollectSet": "collect_set",
    "MaxBy": "max_by", "MinBy": "min_by", "Mode": "mode",
    "Skewness": "skewness", "Kurtosis": "kurtosis",
    "BitAndAgg": "bit_and", "BitOrAgg": "bit_or", "BitXorAgg": "bit_xor",
}  # fmt: skip
_SHARE = "a percentile takes one number from 0 to 1, or an array of such numbers"
_DISTINCT = (*DISTINCT, "string_agg", "array_agg", "collect_set")


class Translate(Protocol):
    """Translates an expression over the columns of a block; see `plans.frontends.catalyst.relations`."""

    def __call__(self, node: Node, block: Block, *, added: Any = None, override: Any = None) -> Expr:
        """Returns the expression."""
        ...


@dataclass
class Rows(GroupColumns):
    """The rows that are grouped. `picks` are the aggregates whose value is that of one row of a group, with the aliases
    of their sources, which `alias` creates. Without `alias` they are ordinary aggregates, as over frames."""

    picks: dict[AggregateCall, str] = field(default_factory=dict)
    alias: Callable[[str], str] | None = None

    @override
    def column(self, expr: Expr, preferred: str) -> str:
        return super().column(expr, split(expr.value)[1] if expr.op == "col" else preferred)

    def call(self, node: Node, translate: Callable[[Node], Expr]) -> Expr:
        """Returns the column of a group for an aggregate, which is added if it is missing."""
        inner = node.child
        while inner.kind not in _FUNCTIONS and inner.fields.get("replacement") is not None and inner.children:
            inner = inner.child  # an aggregate that Spark defines by another one
        kind = inner.kind
        own = NAMED.get(str(inner.fields.get("name")).upper()) if kind == "PythonUDAF" else None
        function = own.name.upper() if isinstance(own, UserAggregate) else _FUNCTIONS.get(kind)
        if function is None:
            raise PlanError(f"the aggregate {kind} is not supported", hint="compute it when you read the result")
        distinct = bool(node.fields.get("isDistinct")) and function not in (*ONCE, "bit_and", "bit_or")
        if distinct and function not in _DISTINCT:
            raise PlanError(f"{kind}(DISTINCT ...) is not supported")
        condition = node.tree("filter")
        where = () if condition is None else (translate(condition),)
        if function in ("string_agg", "percentile", "percentile_disc", "percentile_approx"):
            return rewritten(_ordered(inner, function, distinct, where, translate), self.added)
        given: Sequence[Node] = inner.children
        if inner.fields.get("replacement") is not None:  # its arguments are in fields
            given = [part for part in map(inner.tree, ("left", "right")) if part is not None] or given
        if kind == "CountIf":
            given, where = (), (*where, translate(inner.child))
        values = [translate(child) for child in given]
        if function == "count" and not distinct and all(map(_never_null, given)):
            values = []
        values = [cast(value, "bool") if value.type == "null" else value for value in values]
        if kind == "Mode" and "false" in str(inner.fields.get("reverseOpt")):
            raise PlanError("MODE of the greatest value is not supported", hint="order it by the value, rising")
        called = AggregateCall(function, tuple(values), distinct, where)
        one = picked(called)
        return rewritten(called, self.added) if one is None else self._picked(one)

    def pivoted(self, node: Node, translate: Callable[[Node], Expr]) -> list[Expr]:
        """Returns the columns of a group for an aggregate of PIVOT: one for each value that it names."""
        first = node.child
        if first.fields.get("pivotColumnValues") is None:
            raise PlanError("PIVOT of this form is not supported in Spark's plan", hint="write FILTER")
        pivot, value = map(translate, first.children)
        wanted = [translate(Node("Literal", one, ())) for one in first.fields["pivotColumnValues"]]
        called = [AggregateCall("max", (value,), False, (call("nseq", pivot, one),)) for one in wanted]
        return [rewritten(one, self.added) for one in called]

    def _picked(self, called: AggregateCall) -> Expr:
        if self.alias is None:  # over a frame it is an aggregate
            return self.added(called)
        if called not in self.picks:
            self.picks[called] = self.alias(called.function)
        return col(f"{self.picks[called]}.{VALUE}", called.values[0].type)

    def greatest(self, value: Expr) -> Expr:
        """Returns the column of a group with the greatest of a value, which is added if it is missing."""
        return rewritten(AggregateCall("max", (value,)), self.added)

    def of(self, query: Query, base: Block) -> Query:
        """Returns a relation, which the block ``base`` reads, extended by all these columns."""
        if len(self.columns) == len(query.columns):
            return query
        source = base.sources[0]
        replacements = {col(c.name, c.type): source.qualified(c.name) for c in query.columns}
        outputs = tuple((name, replaced(expr, replacements)) for name, expr in self.columns.items())
        return Query(query.text, (source,), (), outputs, False)


def _ordered(
    node: Node, function: str, distinct: bool, where: tuple[Expr, ...], translate: Callable[[Node], Expr]
) -> AggregateCall:
    """Returns the call of a percentile, or of an aggregate that joins texts."""
    value, *others = node.children
    if node.kind == "ListAgg":
        separator, *items = others
        by = tuple(
            (translate(one.child), one.word("direction") == "Descending", one.word("nullOrdering") == "NullsLast")
            for one in items
        )
        if distinct and any(one != translate(value) for one, _, _ in by):
            raise PlanError("with DISTINCT, LISTAGG must be ordered by its argument", hint="order by the same value")
        text = _constant(separator, "LISTAGG takes a text between the values")
        return AggregateCall(function, (translate(value),), distinct, where, None, text or "", by)
    falling, shares, several = bool(node.fields.get("reverse")), [Decimal("0.5")], False
    if node.kind != "Median":
        given = others[0].child if others[0].kind == "Cast" and others[0].child.kind == "CreateArray" else others[0]
        several = given.kind == "CreateArray"
        shares = [Decimal(_constant(one, _SHARE) or "NaN") for one in (given.children if several else (given,))]
    if node.kind == "Percentile" and _constant(others[1], "PERCENTILE with more arguments is not supported") != "1":
        raise PlanError("PERCENTILE with more arguments is not supported")
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise PlanError(_SHARE)
    if falling and function == "percentile":  # an interpolated value is the same from either end
        falling, shares = False, [1 - share for share in shares]
    found = tuple(map(float, shares))
    values = (translate(value),)
    order = ((values[0], True, True),) if falling else ()
    return AggregateCall(function, values, False, where, found if several else found[0], None, order)


def is_picked(node: Node) -> bool:
    """Returns True if the value of an aggregate is that of one row of a group."""
    return _FUNCTIONS.get(node.child.kind) in PICKED


def _constant(node: Node, message: str) -> str | None:
    """Returns the text of a constant, which may be inside a cast."""
    while node.kind == "Cast":
        node = node.child
    if node.kind != "Literal":
        raise PlanError(message)
    value = node.fields.get("value")
    return None if value is None else str(value)


def grouped(node: Node, block: Block, reading: Reading, translate: Translate) -> Block:
    """Returns the block of an Aggregate over a block."""
    rows, inner_sources, outer_sources = Rows(alias=reading.alias), list[Source](), list[Source]()
    given, session = node.trees("groupingExpressions"), None
    session_key = next((key for key in given if key.kind == "AttributeReference" and key.id in reading.gaps), None)
    if session_key is not None:
        others = [translate(key, block) for key in given if key is not session_key]
        block, session = in_sessions(session_key, translate(session_key, block), block, others, reading)
    within = partial(translate, block=block, added=inner_sources, override=session and session.refused)
    keys = {session.start if session and key is session_key else within(key): "" for key in given}
    keys = {expr: rows.column(expr, "key") for expr in keys}
    known = {expr: col(name, expr.type) for expr, name in keys.items()}
    if any(expr.type == "null" for expr in keys):
        raise PlanError("GROUP BY NULL is not possible", hint="leave it out")

    def meaning(inner: Node) -> Expr | None:
        if inner.kind == "AggregateExpression":
            return rows.call(inner, within)
        return session.part(inner, rows.greatest) if session else None

    named: list[Named] = []
    for item in node.trees("aggregateExpressions"):
        if item.kind == "Alias" and item.child.kind == "AggregateExpression" and item.child.child.kind == "PivotFirst":
            parts = enumerate(rows.pivoted(item.child, within))
            named += [Named(_part(item.id, place), str(item.fields["name"]), part) for place, part in parts]
            continue
        value = replaced(translate(item, block, added=outer_sources, override=meaning), known)
        named.append(Named(item.id, str(item.fields["name"]), value))
    calls, whole = tuple(rows.calls.values()), not node.fields["groupingExpressions"]
    made = [*known.values(), *(col(call.name, call.type) for call in calls)]
    shown = named if not outer_sources and not rows.picks else [Named(-1, expr.value, expr) for expr in made]
    names = unused_names([one.name for one in shown])
    outputs = tuple((name, one.value) for name, one in zip(names, shown, strict=True))
    columns = tuple(rows.columns.items()) or (("one", TRUE),)
    query = Query(reading.text, (*block.sources, *inner_sources), block.conditions, columns, False)
    relation: Relation
    if calls or whole or not {e.value for _, e in outputs if e.op == "col"}.issuperset(keys.values()):
        relation = Group(query, tuple(keys.values()), calls, outputs, None, whole)
    else:  # no aggregate: the distinct rows
        replacements = {col(name, expr.type): expr for expr, name in keys.items()}
        relation = replace(query, outputs=tuple((n, replaced(e, replacements)) for n, e in outputs), distinct=True)
    found = reading.derived(relation, tuple(shown), names, "groups")
    if shown is named:
        return found
    replacements = dict(zip(made, (column.value for column in found.columns), strict=True))
    values = tuple(replace(one, value=replaced(one.value, replacements)) for one in named)
    pairs = [(expr, replacements[key]) for expr, key in known.items()]

    def of(picked: tuple[tuple[str, Expr], ...]) -> Query:
        return replace(query, outputs=picked)

    picks = [pick(called, alias, of, pairs) for called, alias in rows.picks.items()]
    return replace(found, sources=(*found.sources, *outer_sources, *picks), columns=values)


def part_of(node: Node) -> int | None:
    """Returns the number of the column for an element of the array that PIVOT makes, or None for other elements."""
    array, place = node.children
    if array.kind != "AttributeReference" or place.kind != "Literal" or place.fields.get("value") is None:
        return None
    return _part(array.id, int(place.fields["value"]))


def _part(number: int, place: int) -> int:
    """Returns the number for an element of a column. No column of Spark has it."""
    return -2 - (number << 16 | place)


def over_partition(
    node: Node, name: str, query: Query, keys: Sequence[str], base: Block, reading: Reading, translate: Translate
) -> tuple[Block, Expr]:
    """Returns the groups of a relation by some of its columns, with one aggregate, and the column of the aggregate.

    `query` is the relation and `base` the block that reads it.
    """
    rows = Rows({column.name: col(column.name, column.type) for column in query.columns})
    value = rows.call(node, partial(translate, block=unqualified(base)))
    feed = rows.of(query, base)
    outputs = (*((key, rows.columns[key]) for key in keys), (unused(name, keys), value))
    group = Group(feed, tuple(keys), tuple(rows.calls.values()), outputs, None, not keys)
    names = tuple(key for key, _ in outputs)
    made = reading.derived(group, tuple(Named(-1, key, expr) for key, expr in outputs), names, "partitions")
    return made, made.columns[-1].value


def unqualified(base: Block) -> Block:
    """Returns a block that reads one relation, over the unqualified columns of the relation."""
    columns = (replace(c, value=col(split(c.value.value)[1], c.value.type)) for c in base.columns)
    return replace(base, columns=tuple(columns))


def is_one_row(relation: Relation) -> bool:
    """Returns True if a relation always has exactly one row."""
    if isinstance(relation, Group):
        return relation.whole and relation.having is None
    if not isinstance(relation, Query) or relation.conditions:
        return False
    plain = all(source.join == "inner" and source.group == 0 for source in relation.sources)
    return plain and len(inputs(relation)) == len(relation.sources) and all(map(is_one_row, inputs(relation)))


def _never_null(node: Node) -> bool:
    if node.kind == "Literal":
        return node.fields.get("value") is not None
    return node.kind == "AttributeReference" and not node.fields["nullable"]
