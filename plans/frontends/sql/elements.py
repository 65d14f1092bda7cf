"""Translates subqueries over the elements of an array of the row into functions of the row. Part of
`plans.frontends.sql`.

`(SELECT SUM(x) FROM UNNEST(t.prices) AS u(x) WHERE x > t.low)` is LIST_SUM(FILTER(t.prices, x -> x > t.low)). EXISTS,
IN, ARRAY(SELECT ...) and a subquery that picks an element are translated alike. They keep no state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import FALSE, NULL, Expr, call, cast, lit
from plans.expressions.lambdas import Lambda, with_lambdas
from plans.expressions.macros.lists import AGGREGATED, aggregated
from plans.frontends.fields import Shown, at, below_positions, generated
from plans.frontends.sql.groups.aggregates import aggregates, function_of
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.scope import Relation, Scope, value_of
from plans.frontends.sql.shape import unwrapped
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed
from plans.nested import array_of, element_of, is_nested, parts

Meaning = Callable[[exp.Expression], Expr | None]
Read = Callable[[exp.Expression, Meaning], Expr]
"""Translates a scalar expression. The second argument translates parts of it first."""
_READ = {"expressions", "from_", "from", "where", "order", "limit", "kind"}


def shown_of(node: exp.Unnest, names: list[str], value: Expr, whole: bool) -> tuple[Expr, Shown]:
    """Returns the array that UNNEST turns into rows, and the columns of an element. Appends the name of the position to
    `names`. `whole`: the name is that of the element, as in `UNNEST(items) AS item`, also if the element has one field.
    """
    offset = node.args.get("offset")
    element = element_of(value.type)
    inside = parts(element) if element is not None and is_nested(element) else None
    fields = len(inside.names) if inside is not None else 0
    kind = "inline" if fields and not whole and len(names) - (offset is True) in (0, fields) else "explode"
    array, shown = generated(kind, value)
    if isinstance(offset, exp.Identifier) and names:
        names.append(offset.name)
    if offset:
        array, shown = call("with_places", array), (*below_positions(shown), ("pos", ("pos",)))
    return array, shown


def is_over_elements(node: exp.Expression) -> bool:
    """Returns whether a node is a subquery over the elements of an array, or tests one."""
    return _select(node) is not None


def value_over(node: exp.Expression, scope: Scope, read: Read) -> Expr | None:
    """Returns the value of a subquery over the elements of an array, or None for another node or subquery."""
    found = _select(node)
    if found is None:
        return None
    select, source = found
    return scope.text.guarded(node, lambda: _value(node, select, _Elements.of(source, scope, read)))


def over_elements(join: exp.Join, text: Text) -> exp.Join:
    """Returns a join with UNNEST in place of a subquery over the elements of an array of a row; other joins unchanged.

    Raises PlanError for such a subquery with clauses that functions of arrays do not support.
    """
    rows = _rows_over(join.this)
    if rows is None:
        _check_clauses(join.this, text)
    if rows is not None:
        join = join.copy()
        join.set("this", rows)
    return join


def _check_clauses(node: exp.Expression, text: Text) -> None:
    body = node.this if isinstance(node, exp.Lateral) else node
    select = unwrapped(body.this) if isinstance(body, exp.Subquery) else None
    clause = select.args.get("from_") or select.args.get("from") if isinstance(select, exp.Select) else None
    if select is None or clause is None or not isinstance(clause.this, exp.Unnest) or not clause.find(exp.Column):
        return
    left = next((name for name, value in select.args.items() if value and name not in _READ), None)
    if left is not None:
        what = {"group": "GROUP BY", "joins": "a join", "windows": "WINDOW"}.get(left, left.upper())
        hint = "write FROM t, UNNEST(t.tags) AS u (tag) in a subquery, and the rest in the outer query"
        raise text.error(f"{what} in a subquery over the elements of an array is not supported", node, hint)


def _rows_over(node: exp.Expression) -> exp.Unnest | None:
    """Returns an UNNEST with the rows of a subquery over the elements of an array of a row, or None for other
    subqueries.

    Its array has a struct for each element, or a single struct of aggregates.
    """
    body = node.this if isinstance(node, exp.Lateral) else node
    select = unwrapped(body.this) if isinstance(body, exp.Subquery) else None
    if not isinstance(select, exp.Select) or any(item.is_star for item in select.expressions):
        return None
    names = node.alias_column_names or [item.alias_or_name for item in select.expressions]
    whole = any(next(aggregates(item), None) is not None for item in select.expressions)
    values = [value_of(item).copy() for item in select.expressions]
    if len(names) != len(values) or not all(names):
        return None
    if whole:
        values = [exp.Subquery(this=_with_items(select, [value])) for value in values]
    pairs = zip(map(exp.to_identifier, names), values, strict=True)
    row = exp.Struct(expressions=[exp.PropertyEQ(this=name, expression=value) for name, value in pairs])
    array = exp.Array(expressions=[row if whole else _with_items(select, [row])])
    if not all(map(is_over_elements, values if whole else [array])):
        return None
    columns = [exp.to_identifier(name) for name in names]
    alias = exp.TableAlias(this=exp.to_identifier(node.alias) if node.alias else None, columns=columns)
    return placed(exp.Unnest(expressions=[array], alias=alias), extent(node))


def _with_items(select: exp.Select, items: list[exp.Expression]) -> exp.Select:
    made = select.copy()
    made.set("expressions", items)
    return made


def _select(node: exp.Expression) -> tuple[exp.Select, exp.Unnest] | None:
    """Returns the subquery of a node and the UNNEST that it reads, or None if it is not a subquery over elements."""
    if isinstance(node, exp.Array):
        body = node.expressions[0] if len(node.expressions) == 1 else None
    else:
        body = node.args.get("query") if isinstance(node, exp.In) else node.args.get("this")
        body = node if isinstance(node, exp.Select) else body  # its parentheses have been removed
    asks = isinstance(node, (exp.Array, exp.In, exp.Exists, exp.Subquery, exp.Select))
    if not asks or not isinstance(body, exp.Expression):
        return None
    select = unwrapped(body)
    source = _source(select) if isinstance(select, exp.Select) else None
    return None if source is None or not isinstance(select, exp.Select) else (select, source)


def _source(select: exp.Select) -> exp.Unnest | None:
    """Returns the UNNEST of columns of the row that is the only source of a subquery, or None if there are other
    sources."""
    clause = select.args.get("from_") or select.args.get("from")
    source = clause.this if clause is not None else None
    if not isinstance(source, exp.Unnest) or len(source.expressions) != 1 or source.args.get("joins"):
        return None
    known = all(not value or name in _READ for name, value in select.args.items())
    nested = any(part is not select for part in nodes(select, exp.Query, exp.Window))
    return source if known and not nested and len(select.expressions) == 1 and source.find(exp.Column) else None


@dataclass(frozen=True)
class _Elements:
    """The elements of an array, and the meaning of names for one element."""

    array: Expr
    known: Callable[[Expr], Scope]
    read: Read

    @staticmethod
    def of(source: exp.Unnest, scope: Scope, read: Read) -> _Elements:
        """Returns the elements that UNNEST turns into rows."""
        alias = source.args.get("alias")
        names = [one.name for one in (alias.columns if alias is not None else ())]
        table = alias.name if alias is not None else ""
        whole = bool(table) != bool(names)
        names, table = (names or [table], "") if whole else (names, table)
        array, shown = shown_of(source, names, read(source.expressions[0], lambda part: None), whole)
        if names and len(names) != len(shown):
            raise PlanError(
                f"this has {len(shown)} columns, but {len(names)} names are given", hint="give a name to each column"
            )
        paths = list(zip(names or [name for name, _ in shown], [path for _, path in shown], strict=True))
        first = "ORDINALITY" in scope.text.text[slice(*(extent(source) or (0, 0)))].upper()

        def known(element: Expr) -> Scope:
            columns = [(name, at(element, path)) for name, path in paths]
            if first and source.args.get("offset"):
                columns[-1] = columns[-1][0], call("add", columns[-1][1], lit(1))
            inner = scope.side()
            inner.outer = None
            inner.add(Relation.of(table or "element", columns), source)
            return inner

        return _Elements(array, known, read)

    def _of(self, node: exp.Expression, element: Expr) -> Expr:
        inner = self.known(element)

        def meaning(part: exp.Expression) -> Expr | None:
            if isinstance(part, exp.Star):
                ((_, _, only),) = inner.visible()
                return only
            if not isinstance(part, exp.Column):
                return None
            first, more = part.parts[0].name, len(part.parts) > 1
            exists = inner.columns_named(first) or (more and inner.relations[0].alias.lower() == first.lower())
            return inner.column(part) if exists else None

        return self.read(node, meaning)

    def _made(self, name: str, node: exp.Expression) -> Expr:
        made = with_lambdas(name, [self.array, Lambda(("element",), lambda known: self._of(node, known["element"]))])
        assert made is not None, "it takes a function"
        return made

    def where(self, node: exp.Expression | None) -> _Elements:
        """Returns the elements for which a condition is TRUE."""
        return self if node is None else _Elements(self._made("FILTER", node), self.known, self.read)

    def values(self, node: exp.Expression) -> Expr:
        """Returns the array of the values of an expression for each element."""
        return self._made("TRANSFORM", node)


def _value(node: exp.Expression, select: exp.Select, elements: _Elements) -> Expr:
    where, (item,) = select.args.get("where"), select.expressions
    item = item.this if isinstance(item, exp.Alias) else item
    elements = elements.where(where.this if where is not None else None)
    found = list(aggregates(item))
    limit, order = select.args.get("limit"), select.args.get("order")
    most = None if limit is None else _limit(limit, bool(found) or isinstance(node, exp.Exists))
    if isinstance(node, exp.Exists):
        if found:
            raise PlanError("EXISTS of aggregates without GROUP BY is always true, because they always return a row")
        return call("coalesce", call("gt", call("size", elements.array), lit(0)), FALSE)
    if found:
        value = elements.read(item, partial(_aggregate, elements=elements))
        if isinstance(node, exp.In):
            return call("eq", elements.read(node.this, lambda part: None), value)
        return call("array", value) if isinstance(node, exp.Array) else value
    values = elements.values(item)
    values = values if order is None else _sorted(values, order, item)
    values = values if most is None else call("slice", values, lit(1), lit(most))
    if isinstance(node, exp.Array):
        return _or_empty(values)
    some = call("gt", call("size", values), lit(0))
    if isinstance(node, exp.In):
        wanted = elements.read(node.this, lambda part: None)
        return call("case", some, call("array_contains", values, wanted), FALSE)
    return call("case", call("eq", call("size", values), lit(1)), call("element_at", values, lit(1)), NULL)


def _limit(limit: exp.Limit, any_number: bool) -> int:
    """Returns how many elements a subquery takes. With `any_number`, every number above 0 gives the same value."""
    number = limit.expression
    count = int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else -1
    if count < any_number:
        raise PlanError("this LIMIT of the elements of an array is not supported", hint="write a whole number above 0")
    return count


def _sorted(values: Expr, order: exp.Order, item: exp.Expression) -> Expr:
    """Returns a sorted array."""
    (one,) = order.expressions if len(order.expressions) == 1 else (None,)
    if one is None or one.this != item:
        hint = "order by the value itself"
        raise PlanError("this order of the elements of an array is not supported", hint=hint)
    falling = bool(one.args.get("desc"))
    if bool(one.args.get("nulls_first")) != falling:
        return call("sort_array", values, lit(not falling))
    rising = call("sorted_array", values)  # NULLs last
    return call("array_reverse", rising) if falling else rising


def _aggregate(node: exp.Expression, elements: _Elements) -> Expr | None:
    """Returns an aggregate of the elements, or None for another node."""
    if isinstance(node, exp.Filter):
        return _aggregate(node.this, elements.where(node.expression.this))
    if isinstance(node, exp.Column):
        return None
    function = function_of(node)
    if function is None:
        return None
    if isinstance(node, exp.CountIf):
        return _count(call("size", elements.where(node.this).array))
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return _count(call("size", elements.array))
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    order = given[0] if isinstance(given[0], exp.Order) else None
    given = [order.this] if order is not None else given
    distinct = isinstance(given[0], exp.Distinct)
    given = given[0].expressions if distinct else given
    name, mark = "median" if isinstance(node, exp.Median) else function, node.args.get("separator")
    plain = len(given) == 1 and not isinstance(given[0], (exp.Limit, type(None)))
    plain = plain and (order is None or name in ("array_agg", "string_agg"))
    if name not in (*AGGREGATED, "array_agg") or not plain or not isinstance(mark, (exp.Literal, type(None))):
        raise PlanError(f"{function.upper()} of the elements of an array is not supported", hint="use LATERAL VIEW")
    values, kept = elements.values(given[0]), name == "array_agg" and node.args.get("keeps_nulls")
    values = values if kept else call("array_compact", values)
    values = call("array_distinct", values) if distinct else values
    values = values if order is None else _sorted(values, order, given[0])
    if name == "array_agg":
        return call("case", call("gt", call("size", values), lit(0)), values, NULL) if kept else _or_empty(values)
    if name == "string_agg":
        return aggregated(name, values, lit(mark.name if mark is not None else ""))
    if name == "sum" and node.args.get("own") and element_of(values.type) == "bool":
        values = cast(values, array_of("int64"))
    made = aggregated(name, values)
    return _count(made) if name in ("count", "approx_count_distinct") else made


def _or_empty(array: Expr) -> Expr:
    return call("coalesce", array, cast(call("array"), array.type))


def _count(number: Expr) -> Expr:
    return call("coalesce", cast(number, "int64"), lit(0, "int64"))
