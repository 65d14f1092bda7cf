"""Translates a query into a relation of the algebra: a SELECT, clause by clause, or a nest of set operations.

Part of `plans.frontends.sql`. Clauses are read in the order in which they take effect: FROM, WHERE, GROUP BY, SELECT,
ORDER BY, HAVING, QUALIFY, DISTINCT, LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from sqlglot import exp

from plans.expressions.build import Expr
from plans.frontends.branches import balanced, shaped
from plans.frontends.fields import field_of
from plans.frontends.sql.columns import with_columns, with_meanings
from plans.frontends.sql.conditions import add_conditions, checked
from plans.frontends.sql.groups.grouping import Groups
from plans.frontends.sql.groups.groupings import Grouping, groupings
from plans.frontends.sql.ordering import Columns, Item, order_by, order_by_name, top
from plans.frontends.sql.over.calls import Windows, contains_window, has_windows
from plans.frontends.sql.relations.from_clause import add_join, add_relation
from plans.frontends.sql.relations.sources import with_clause
from plans.frontends.sql.relations.unnest import add_generated, lifted
from plans.frontends.sql.scope import Frame, Names, Scope, output_name, value_of
from plans.frontends.sql.sets import nest
from plans.frontends.sql.shape import conjuncts, flat, grouped, limited, matched_by_name, unwrapped
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.values import Meaning, scalar
from plans.nested import STRUCT, is_nested, parts
from plans.programs.frames import Order
from plans.queries.algebra import Query, Relation, SetOperation, check_output_name, replaced
from plans.stack import MAX_NESTING, with_room


def read(
    node: exp.Expression, scope: Scope, *, correlated: bool = False, unique: bool = True, typed: bool = True
) -> Relation:
    """Returns the relation of a query in a scope.

    `correlated`: it may read the columns of the scope, and its aliases then differ from those of the scope.
    `unique`: its columns must have different names; otherwise repeated names are numbered. `typed`: no column may be
    NULL without a type.
    """
    node, inner = unwrapped(node), _inner_scope(scope, correlated)
    if isinstance(node, exp.SetOperation):
        return _set_operation(node, inner, unique)
    if not isinstance(node, exp.Select):
        raise scope.text.refuse_statement(node)
    if flat(node):
        frame = flatten(node, scope, correlated=correlated, unique=unique, typed=typed, new_frame=True)
        query = frame.query(scope.text.text, frame.outputs, frame.distinct)
        return _noted(top(query, node, (), 0, inner), scope)
    relation, part = _selected(node, inner, _Checks(unique, typed or limited(node)))
    return _noted(top(relation, node, part.order, len(part.selected.hidden), inner), scope)


def flatten(
    node: exp.Expression,
    scope: Scope,
    *,
    correlated: bool = False,
    unique: bool = True,
    typed: bool = True,
    preferred: str = "rows",
    new_frame: bool = False,
) -> Frame:
    """Returns the join core of a flat SELECT, for the frame of the scope.

    `preferred`: the preferred name of the rows below a window function. `new_frame`: for a frame of its own, whose
    aliases are independent unless it reads the outer query. The other arguments are those of `read`.
    """
    node = unwrapped(node)
    if not isinstance(node, exp.Select):
        raise scope.text.refuse_statement(node)
    windows = has_windows(node)
    inner = _inner_scope(scope, correlated and not windows)
    if not windows and not new_frame:
        inner = replace(inner, frame=Frame(scope.frame.names))
    (part,) = _parts(node, inner, _Checks(unique, typed or windows))
    frame = part.scope.frame
    if windows:
        frame = _over([part], Frame(Names() if new_frame and not correlated else scope.frame.names), preferred)
    else:
        frame.outputs = part.selected.pairs
    frame.distinct = bool(node.args.get("distinct"))
    return frame


def _inner_scope(scope: Scope, correlated: bool) -> Scope:
    """Returns the scope of a query in a scope."""
    names = scope.frame.names if correlated else Names()
    return Scope(scope.reading, scope.ctes, Frame(names), scope if correlated else None, scope.depth + 1)


def _noted(relation: Relation, scope: Scope) -> Relation:
    """Returns a relation with the notes and warnings about the text."""
    warnings = tuple(scope.reading.warnings.values())
    if isinstance(relation, Query):
        return replace(relation, notes=tuple(scope.reading.notes), warnings=warnings)
    return replace(relation, warnings=warnings)


# SELECT ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Part:
    """The result of one grouping of a SELECT: its rows, and the selected columns.

    Without window functions `selected` are columns of the rows. With them, the rows have the columns `windows.below`,
    and the selected expressions are over those.
    """

    scope: Scope
    groups: Groups | None
    selected: Columns
    windows: Windows | None
    order: tuple[Order, ...] = ()
    having: Expr | None = None
    qualify: tuple[Expr, ...] = ()

    def rows(self) -> Relation:
        """Returns the rows with their columns, hidden ones last."""
        pairs = (self.selected if self.windows is None else self.windows.below).pairs
        if self.groups is None:
            return self.scope.frame.query(self.scope.text.text, pairs)
        return self.groups.relation(pairs, self.having)


class _Checks(NamedTuple):
    """The requirements on output columns."""

    unique: bool
    typed: bool


def _parts(node: exp.Select, inner: Scope, checks: _Checks) -> list[_Part]:
    """Returns the parts of a SELECT: several for GROUPING SETS, which differ in their grouping keys."""
    node = lifted(node, inner)
    scope = _from_where(node, inner)
    if not grouped(node):
        return [_part(node, scope, None, checks, False)]
    found = groupings(node, scope)
    parts = [_part(node, scope, found[0], checks, len(found) > 1)]
    for grouping in found[1:]:
        again = replace(inner, frame=Frame(Names()), relations=[], order=[])
        parts.append(_part(node, _from_where(node, again), grouping, checks, True))
    return parts


def _from_where(node: exp.Select, scope: Scope) -> Scope:
    """Adds FROM and WHERE to the frame, and returns the scope of the rest of the SELECT. Aliases of the SELECT list are
    replaced by their expressions."""
    if scope.depth > MAX_NESTING:
        raise scope.text.error(f"subqueries are nested more than {MAX_NESTING} deep", node, "leave some of them out")
    scope = replace(scope, ctes=with_clause(node, scope))
    scope.text.check_clauses(node)
    start = node.args.get("from_") or node.args.get("from")
    if start is None:
        raise scope.text.error("a SELECT without FROM never changes, so there is nothing to maintain", node)
    with_room(add_relation, start.this, scope)
    for join in node.args.get("joins") or ():
        add_join(join, scope)
    for view in node.args.get("laterals") or ():
        scope.join(add_generated(view.this, scope, view), [])
    with_columns(node, scope)
    with_meanings(node, scope)
    where = node.args.get("where")
    if where is not None:
        scope.text.check_no_aggregate(where.this, "WHERE")
        add_conditions(conjuncts(where.this), scope)
    return scope


def _part(node: exp.Select, scope: Scope, grouping: Grouping | None, checks: _Checks, several: bool) -> _Part:
    """Returns the part of a SELECT for one grouping, or for the rows of FROM."""
    groups = None if grouping is None else Groups(node, scope, grouping)

    def plain(part: exp.Expression, meaning: Meaning | None = None) -> Expr:
        return scalar(part, scope, meaning) if groups is None else groups.value(part, meaning)

    windows = Windows(Columns([], several), plain, scope, node.args.get("windows") or ()) if has_windows(node) else None
    value = plain if windows is None else windows.value
    listed = list(_listed(node, scope, groups is not None))
    if windows is not None:  # selected expressions over rows are columns of the rows, in this order
        for name, item, expr in listed:
            if expr is not None or not contains_window(item):
                windows.add(Item(name, plain(value_of(item)) if expr is None else expr, item))
    items = []
    for name, item, expr in listed:
        if windows is None:
            items.append(Item(name, plain(value_of(item)) if expr is None else expr, item))
        elif expr is None and contains_window(item):
            items.append(Item(name, value(value_of(item)), item))
        else:
            items.append(Item(name, windows.column(name), item))
        if windows is not None and item.alias:
            windows.named.setdefault(item.alias.lower(), items[-1].expr)
    repeated = not checks.unique or (scope.depth == 1 and not matched_by_name(node))
    items = _numbered(items, scope) if repeated else items
    _check_outputs(items, scope, checks)
    selected = Columns(items, several)
    order, having, qualify = (node.args.get(name) for name in ("order", "having", "qualify"))
    distinct = bool(node.args.get("distinct"))
    if order is not None and not limited(node):
        _check_names(order, selected, scope)
    by = () if order is None or not limited(node) else order_by(order, selected, value, distinct, scope.text)
    made = _Part(scope, groups, selected, windows, by)
    if having is not None and groups is not None:
        made.having = checked(groups.value(having.this, _aliases(items, scope)), having, scope)
    if qualify is not None:
        if windows is None:
            raise scope.text.error("this QUALIFY is not supported", qualify.this, "write ROW_NUMBER() OVER (...) <= 3")
        made.qualify = tuple(checked(value(one), one, scope) for one in conjuncts(qualify.this))
    return made


def _check_names(order: exp.Order, selected: Columns, scope: Scope) -> None:
    """Raises PlanError if an ORDER BY without effect refers to an unknown name."""
    shown = {item.name.lower() for item in selected.items}
    for column in nodes(order, exp.Column):
        if column.parent_select is order.parent and (column.table or column.name.lower() not in shown):
            scope.column(column)


def _aliases(items: list[Item], scope: Scope) -> Meaning:
    """Returns the meaning of aliases of the SELECT list that HAVING may use."""
    named = {item.name.lower(): item.expr for item in items if isinstance(item.node, exp.Alias)}

    def meaning(part: exp.Expression) -> Expr | None:
        plain = isinstance(part, exp.Column) and not part.table and not scope.lookup(part.name)
        return named.get(part.name.lower()) if plain else None

    return meaning


def _listed(node: exp.Select, scope: Scope, grouped: bool) -> Iterator[tuple[str, exp.Expression, Expr | None]]:
    """Yields the selected items: name, item and, for the columns of *, the value."""
    for index, item in enumerate(node.expressions):
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            yield output_name(item, index), item, None
            continue
        if grouped:
            raise scope.text.error("* together with aggregates or GROUP BY is not supported", item, "list the columns")
        for word in (name for name, value in star.args.items() if value and name not in _MODIFIERS):
            raise scope.text.error(f"* {word.strip('_').upper()} is not supported", item, "list the columns")
        yield from _modified(star, [(name, item, expr) for name, expr in _star(item, scope)], scope)


_MODIFIERS = ("except_", "replace", "rename")


def _modified(
    star: exp.Star, listed: list[tuple[str, exp.Expression, Expr | None]], scope: Scope
) -> Iterator[tuple[str, exp.Expression, Expr | None]]:
    """Yields the columns of * without those in EXCEPT, and with the expressions and names of REPLACE and RENAME."""
    left_out = {one.name.lower(): one for one in star.args.get("except_") or ()}
    replaced = {one.alias.lower(): one for one in star.args.get("replace") or ()}
    renamed = {one.this.name.lower(): one for one in star.args.get("rename") or ()}
    for name, part in (left_out | replaced | renamed).items():
        if name not in (known.lower() for known, _, _ in listed):
            raise scope.text.error(f"* has no column {name}", part, "name a column of *")
    if len(left_out) == len(listed):
        raise scope.text.error("EXCEPT removes all columns of *", star, "leave it out")
    for name, item, expr in listed:
        if name.lower() in replaced:
            yield name, replaced[name.lower()], None
        elif name.lower() in renamed:
            yield renamed[name.lower()].alias, item, expr
        elif name.lower() not in left_out:
            yield name, item, expr


def _star(item: exp.Expression, scope: Scope) -> list[tuple[str, Expr]]:
    """Returns the columns of * or table.*."""
    shown = scope.visible()
    if isinstance(item, exp.Column):
        fields = _fields(item, scope)
        if fields is not None:
            return fields
        scope.check_qualifier(item)
        named = scope.relation(item.table)
        if named is None:
            raise scope.text.error(f"unknown table or alias {item.table}", item, scope.known(item.table))
        shown = [(named, *column) for column in named.columns.values()]
    count: dict[str, int] = {}
    for _, name, _ in shown:
        count[name.lower()] = count.get(name.lower(), 0) + 1
    if any(n > 1 for n in count.values()):
        scope.reading.notes["SELECT *: columns with the same name in several tables are named table_column"] = None
    return [(s if count[s.lower()] == 1 else f"{r.alias}_{s}", expr) for r, s, expr in shown]


def _fields(item: exp.Column, scope: Scope) -> list[tuple[str, Expr]] | None:
    """Returns the fields of a struct, for `column.*`, or None if the qualifier is a table."""
    *table, name = (part.name for part in item.parts[:-1])
    found = scope.relation(table[-1] if table else name)
    if (found is None or name.lower() not in found.columns) if table else (found is not None or not scope.lookup(name)):
        return None
    whole = exp.column(name, table=table[-1] if table else None)
    whole.meta.update(item.meta)
    value = scope.text.guarded(item, partial(scope.column, whole))
    inside = parts(value.type) if is_nested(value.type) else None
    if inside is None or inside.kind != STRUCT:
        raise scope.text.error(f"{name} has no fields: it is of type {value.type}", item, "only structs have .*")
    return [(field, field_of(value, field)) for field in inside.names]


def _numbered(items: list[Item], scope: Scope) -> list[Item]:
    """Returns columns with numbers appended to repeated names. Only those of the result are shown."""
    names = Names({item.name.lower() for item in items})
    seen: set[str] = set()
    found = []
    for item in items:
        again = item.name.lower() in seen
        seen.add(item.name.lower())
        found.append(replace(item, name=names.alias(item.name)) if again else item)
    if found != items and scope.depth == 1:
        scope.reading.notes["columns with the same name are numbered: name, name_2, ..."] = None
    return found


def _check_outputs(items: list[Item], scope: Scope, checks: _Checks) -> None:
    """Raises PlanError for output columns without a type, with repeated names, or with the name of a column of
    deltas."""
    seen: set[str] = set()
    for item in items:
        if checks.typed and item.expr.type == "null":
            message = f"output column {item.name} is NULL without a type"
            raise scope.text.error(message, item.node, "write CAST(NULL AS ...)")
        if "<null>" in item.expr.type:
            message = f"output column {item.name} has an ARRAY() without a type"
            raise scope.text.error(message, item.node, "write CAST(ARRAY() AS ARRAY<INT>)")
        if checks.unique and item.name.lower() in seen:
            message = f"two output columns are called {item.name}"
            raise scope.text.error(message, item.node, "give one of them an alias: AS ...")
        seen.add(item.name.lower())
        if scope.depth == 1:
            scope.text.guarded(item.node, partial(check_output_name, item.name))


def _selected(node: exp.Select, inner: Scope, checks: _Checks) -> tuple[Relation, _Part]:
    """Returns the relation of a SELECT before ORDER BY and LIMIT, hidden columns last, and its first part."""
    parts = _parts(node, inner, checks)
    first, distinct, text = parts[0], bool(node.args.get("distinct")), inner.text.text
    if first.windows is not None:
        frame = _over(parts, Frame(Names()), "rows")
        return frame.query(text, frame.outputs, distinct), first
    made = _united(parts, distinct)
    if not distinct or isinstance(made, SetOperation):
        return made, first
    if isinstance(made, Query):
        return replace(made, distinct=True), first
    frame = Frame(first.scope.frame.names)
    source = frame.derived(made, "groups")
    outputs = tuple((column.name, source.qualified(column.name)) for column in made.columns)
    return Query(text, (source,), (), outputs, True), first


def _united(parts: list[_Part], distinct: bool) -> Relation:
    """Returns the union of the rows of all parts."""
    rows = [part.rows() for part in parts]
    if len(rows) == 1:
        return rows[0]
    first, types = rows[0].columns, [column.type for column in rows[0].columns]
    made = tuple(shaped(part, [column.name for column in first], types) for part in rows)
    union = balanced("union_all", range(len(made)))
    return SetOperation(made, ("distinct", union) if distinct else union)


def _over(parts: list[_Part], frame: Frame, preferred: str) -> Frame:
    """Returns a frame over the rows with their window functions, and with the selected columns."""
    first = parts[0]
    assert first.windows is not None
    names = first.windows.joined(_united(parts, False), frame, preferred)
    frame.conditions += [replaced(one, names) for one in first.qualify]
    frame.outputs = tuple((name, replaced(expr, names)) for name, expr in first.selected.pairs)
    return frame


def _set_operation(node: exp.SetOperation, scope: Scope, unique: bool) -> Relation:
    """Returns the relation of a nest of set operations, with the rows that ORDER BY and LIMIT keep."""
    relation = with_room(nest, node, scope, unique)
    order = node.args.get("order")
    by = () if order is None else order_by_name(order, [column.name for column in relation.columns], scope.text)
    return _noted(top(relation, node, by, 0, scope), scope)
