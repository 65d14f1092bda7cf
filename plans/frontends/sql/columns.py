"""Items of a SELECT list: aliases that other items use, COLUMNS of DuckDB, and `* LIKE`. Part of
`plans.frontends.sql`.

`SELECT MAX(COLUMNS('price')) FROM t` is MAX of each column whose name contains the pattern. In WHERE, the condition
must hold for all matching columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sqlglot import exp

from plans.expressions.build import Expr, lit
from plans.frontends.sql.scalars.scalar import scalar
from plans.frontends.sql.scope import Scope, value_of
from plans.frontends.sql.text.place import extent, placed

_LIKES = (exp.Like, exp.ILike)


def with_columns(node: exp.Select, scope: Scope) -> None:
    """Expands COLUMNS in the SELECT list and in WHERE of a SELECT. The scope has the relations of its FROM."""
    if any(_columns_calls(item) for item in node.expressions):
        node.set("expressions", [one for item in node.expressions for one in _items(item, scope)])
    where = node.args.get("where")
    if where is not None and _columns_calls(where):
        parts = [part for _, part, _ in _each(where.this, scope)]
        where.set("this", exp.and_(*parts, copy=False))


def chosen(node: exp.Expression, names: Iterable[str], scope: Scope) -> list[tuple[str, re.Match[str] | None]]:
    """Returns those of the names that COLUMNS, or `* LIKE`, selects, each with the match of its pattern."""
    found: list[tuple[str, re.Match[str] | None]] = []
    what = node.this
    for name in names:
        match = None
        if isinstance(node, exp.Columns) and isinstance(what, exp.Literal):
            try:
                match = re.search(what.name, name)
            except re.error as error:
                raise scope.text.error(f"COLUMNS: {what.name!r} is not a pattern ({error})", node) from None
            hit = match is not None
        elif isinstance(node, exp.Columns) and isinstance(what, exp.Array):
            hit = name.lower() in [one.name.lower() for one in what.expressions]
        elif isinstance(what, exp.Star):
            hit = name.lower() not in [one.name.lower() for one in what.args.get("except_") or ()]
        else:
            hit = _holds(node, name, scope)
        if hit and (not _is_like(node) or _holds(node, name, scope)):
            found.append((name, match))
    if not found:
        raise scope.text.error(
            "no column has this name", node, "the pattern is matched with the names as they are spelled"
        )
    return found


def listed(pivot: exp.Expression, names: list[str], scope: Scope) -> None:
    """Expands COLUMNS in the list of an UNPIVOT over columns with these names."""
    for field in pivot.args.get("fields") or () if pivot.args.get("unpivot") else ():
        for one in [one for one in field.expressions if isinstance(one, exp.Columns)]:
            found = [exp.column(name, quoted=True) for name, _ in chosen(one, names, scope)]
            field.set("expressions", [new for old in field.expressions for new in (found if old is one else [old])])


def _holds(node: exp.Expression, name: str, scope: Scope) -> bool:
    """Returns whether a condition on names holds for one."""
    condition = node.copy()
    parameters = ()
    if isinstance(condition, exp.Columns):
        if not isinstance(condition.this, exp.Lambda):
            hint = "write COLUMNS('pattern'), COLUMNS(['a', 'b']) or COLUMNS(lambda c: c LIKE 'a%')"
            raise scope.text.error("COLUMNS of this form is not supported", node, hint)
        parameters = tuple(one.name.lower() for one in condition.this.expressions)
        condition = condition.this.this

    def resolve(part: exp.Expression) -> Expr | None:
        named = part.key in ("identifier", "column") and part.name.lower() in parameters
        if part.key == "column" and not named and not isinstance(part.this, exp.Star):
            raise scope.text.error(f"COLUMNS tests names, not the column {part.name}", part)
        return lit(name) if named or isinstance(part, exp.Star) else None

    made = scalar(condition, resolve, scope.text.text)
    if made.type != "bool" or made.columns:
        raise scope.text.error("COLUMNS takes a condition on the name of a column", node)
    return bool(made.evaluate({}, 1)[0].as_py())


def _is_like(node: exp.Expression) -> bool:
    return isinstance(node, _LIKES) and isinstance(node.this, exp.Star)


def _columns_calls(node: exp.Expression) -> list[exp.Expression]:
    """Returns the calls of COLUMNS, and `* LIKE`, in an expression without its subqueries."""
    found, todo = [], [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Columns) or _is_like(part):
            found.append(part)
        elif not isinstance(part, exp.Query):
            todo += part.iter_expressions(reverse=True)
    return found


def _items(item: exp.Expression, scope: Scope) -> Iterator[exp.Expression]:
    """Yields an item for each selected column, or the item itself if it has no COLUMNS."""
    if not _columns_calls(item):
        yield item
        return
    for name, part, match in _each(value_of(item), scope):
        alias = item.alias or name
        if match is not None and item.alias:
            alias = match.expand(re.sub(r"\\(\d)", r"\\g<\1>", item.alias))
        yield placed(exp.Alias(this=part, alias=exp.to_identifier(alias, quoted=True)), extent(item))


def _each(node: exp.Expression, scope: Scope) -> Iterator[tuple[str, exp.Expression, re.Match[str] | None]]:
    """Yields the name of each selected column, with the expression for it."""
    calls = _columns_calls(node)
    negated = [one.parent for one in calls if _is_like(one) and isinstance(one.parent, exp.Not)]
    if len({call.sql() for call in calls}) > 1 or any(call.args.get("unpack") for call in calls):
        raise scope.text.error(
            "several COLUMNS in one expression are not supported", calls[-1], "write them one by one"
        )
    visible = [(relation, name) for relation, name, _ in scope.visible()]
    everywhere = [name.lower() for _, name in visible]
    if isinstance(calls[0].this, exp.Column):  # t.*
        wanted = calls[0].this.table.lower()
        visible = [(relation, name) for relation, name in visible if relation.alias.lower() == wanted]
        calls[0].set("this", calls[0].this.this)
    names = [name for _, name in visible]
    found = chosen(calls[0], names, scope)
    if negated:
        there = {name for name, _ in found}
        found = [(name, None) for name in names if name not in there]
    star = calls[0].this if isinstance(calls[0].this, exp.Star) else None
    replaced = {one.alias.lower(): one.this for one in (star.args.get("replace") or () if star is not None else ())}
    for relation, name in visible:
        match = next(((known, hit) for known, hit in found if known == name), None)
        if match is None:
            continue
        made = node.copy()
        column = exp.column(name, table=relation.alias if everywhere.count(name.lower()) > 1 else None, quoted=True)
        value = replaced.get(name.lower(), column)
        for call in _columns_calls(made):
            place = call.parent if _is_like(call) and isinstance(call.parent, exp.Not) else call
            new = placed(value.copy(), extent(calls[0]))
            if place is made:
                made = new
            else:
                place.replace(new)
        yield name, made, match[1]


def with_meanings(node: exp.Select, scope: Scope) -> None:
    """Replaces aliases in a SELECT by their expressions. The scope has the relations of its FROM."""
    named: dict[str, list[exp.Expression]] = {}
    for item in list(node.expressions):
        _put(item, named, scope)
        if isinstance(item, exp.Alias):
            named.setdefault(item.alias.lower(), []).append(item)
    where = node.args.get("where")
    if where is not None and where.args.get("aliases"):
        _put(where, named, scope)


def _put(node: exp.Expression, named: dict[str, list[exp.Expression]], scope: Scope) -> None:
    """Replaces the names below a node that are aliases and not columns."""
    for column in list(_columns(node)):
        first, *fields = column.parts
        found = named.get(first.name.lower(), [])
        if not found or scope.columns_named(first.name) or (fields and scope.relation(first.name) is not None):
            continue
        if len(found) > 1:
            message = f"{first.name} is the name of {len(found)} selected columns"
            raise scope.text.error(message, column, "give them different names")
        made: exp.Expression = exp.Paren(this=found[0].this.copy())
        for name in fields:
            made = exp.Dot(this=made, expression=name.copy())
        if column is node:
            made = exp.Alias(this=made, alias=exp.to_identifier(column.name, quoted=True))
        column.replace(placed(made, extent(column)))


def _columns(node: exp.Expression) -> Iterator[exp.Column]:
    """Yields the columns of an expression, without those of its subqueries. Iterative, because chains may be deep."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            yield part
        elif not isinstance(part, exp.Query):
            todo += part.iter_expressions()
