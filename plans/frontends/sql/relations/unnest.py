"""EXPLODE, POSEXPLODE, INLINE and UNNEST: a row for each element of an array, or each entry of a map.

Part of `plans.frontends.sql`. They occur in LATERAL VIEW, in FROM, or in the SELECT list. The rows with the array
become an `Unnest`: a single table if the array is made of its columns, else everything before it in FROM.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit
from plans.frontends.fields import Shown, at, generated
from plans.frontends.sql.elements import shown_of
from plans.frontends.sql.groups.aggregates import aggregates
from plans.frontends.sql.scope import Relation, Scope, one_source, value_of
from plans.frontends.sql.text.place import INSTEAD, NO_TABLE, extent, spelling
from plans.frontends.sql.values import scalar
from plans.queries.algebra import Source, split, unnested, unused

_GENERATORS = (exp.Explode, exp.Inline, exp.Unnest)
_FLATTEN = ("SEQ", "KEY", "PATH", "INDEX", "VALUE", "THIS")
"""The columns of Snowflake's FLATTEN, of which INDEX and VALUE are supported."""


class _Elements(NamedTuple):
    """An array, and the columns of an element: their names, and the paths of fields to their values."""

    array: Expr
    shown: Shown


def is_generator(node: exp.Expression) -> bool:
    """Returns whether a call turns a value into rows."""
    return isinstance(node, _GENERATORS)


def add_generated(node: exp.Expression, scope: Scope, aliased: exp.Expression, outer: bool = False) -> Scope:
    """Adds the rows of a call to a scope, under the alias of the node `aliased`.

    `outer`: a row without elements is kept, with NULL. Returns the scope of the new columns, which are also added to
    the other scope.
    """
    if not is_generator(node):
        word = spelling(scope.text.text, node)
        hint = INSTEAD.get(word.lower(), "use EXPLODE, POSEXPLODE or INLINE")
        raise scope.text.error(f"{word} in LATERAL VIEW is not supported", node, hint)
    alias = aliased.args.get("alias")
    names = [one.name for one in (alias.columns if alias is not None else ())]
    names = [] if tuple(name.upper() for name in names) == _FLATTEN else names
    table = alias.name if alias is not None else ""
    whole = isinstance(node, exp.Unnest) and bool(table) != bool(names) and not isinstance(aliased, exp.Lateral)
    if whole:
        names, table = names or [table], ""
    found = scope.text.guarded(node, partial(_elements, node, names, scope, whole))
    outer = outer or isinstance(node, exp.ExplodeOuter) or bool(aliased.args.get("outer"))
    array = call("outer", found.array) if outer else found.array
    element = _unnested(array, scope, aliased)
    if names and len(names) != len(found.shown):
        message = f"this has {len(found.shown)} columns, but {len(names)} names are given"
        raise scope.text.error(message, aliased, "give a name to each column")
    shown = zip(names or [name for name, _ in found.shown], [path for _, path in found.shown], strict=True)
    columns = [(name, at(element, path)) for name, path in shown]
    ordinal = isinstance(node, exp.Unnest) and bool(node.args.get("offset"))
    if ordinal and "ORDINALITY" in scope.text.text[slice(*(extent(aliased) or (0, 0)))].upper():
        columns[-1] = columns[-1][0], call("add", columns[-1][1], lit(1))  # it counts from 1
    made = scope.side()
    taken = [one.alias for one in scope.relations]
    preferred = table or (names[0] if isinstance(node, exp.Unnest) and names else "generated")
    relation = Relation.of(table or unused(preferred, taken), columns)
    relation.hidden.update(relation.columns if aliased.args.get("selected") else ())
    made.add(relation, aliased)
    return made


def _elements(node: exp.Expression, names: list[str], scope: Scope, whole: bool) -> _Elements:
    """Returns the array that a call turns into rows, and its columns. Raises PlanError for other arguments."""
    given = node.expressions if isinstance(node, exp.Unnest) else [node.this]
    if not isinstance(node, exp.Unnest) and node.expressions:
        hint = "write UNNEST(FLATTEN(x)) for arrays of arrays" if "recursive" in str(node.expressions).lower() else ""
        raise PlanError(f"{spelling(scope.text.text, node)} has too many arguments", hint=hint)
    if len(given) != 1:
        raise PlanError(
            "UNNEST of several arrays is not supported", hint="unnest them one by one, with their positions"
        )
    (operand,) = given
    flatten = isinstance(operand, exp.Kwarg)
    value = scalar(operand.expression if flatten else operand, scope)
    kind = "inline" if isinstance(node, exp.Inline) else "posexplode" if isinstance(node, exp.Posexplode) else "explode"
    if isinstance(node, exp.Unnest):
        return _Elements(*shown_of(node, names, value, whole))
    if flatten and value.type == "string":  # JSON, whose elements are texts of JSON
        return _Elements(*generated("inline", call("json_flat", value)))
    array, shown = generated("posexplode" if flatten else kind, value)
    if flatten:
        shown = tuple(({"pos": "index", "col": "value"}.get(name, name), path) for name, path in shown)
    return _Elements(array, shown)


def _unnested(array: Expr, scope: Scope, node: exp.Expression) -> Expr:
    """Returns the column of the elements of an array. The sources of the frame that the array reads are unnested."""
    frame, text = scope.frame, scope.text
    read = {split(name)[0] for name in array.columns} or {source.alias for source in frame.sources[:1]}
    inside = [source for source in frame.sources if source.alias in read]
    if len(inside) < len(read) or not inside:
        raise text.error("an array that is not a column of a table before it is not supported here", node, NO_TABLE)
    if len(inside) > 1 or inside[0].join != "inner" or inside[0].group:
        array, inside = _together(array, scope)
    (source,) = inside
    made = unnested(source, array, text.text)
    frame.sources[:] = [made if one is source else one for one in frame.sources]
    return made.qualified(made.table.columns[-1].name)


def _together(array: Expr, scope: Scope) -> tuple[Expr, list[Source]]:
    """Returns the array as a column of a single source, into which the whole frame is turned."""
    frame = scope.frame
    column = Relation.of("unnested", [("array", array)])
    made = one_source(frame, [*scope.relations, column], scope)
    frame.sources.append(made)
    return column.columns["array"][1], [made]


def lifted(node: exp.Select, scope: Scope) -> exp.Select:
    """Returns a SELECT in which calls that make rows are moved from the SELECT list to LATERAL VIEW. Only the items in
    which they were read the columns of this view."""
    if not any(_calls(item) for item in node.expressions):
        return node
    made = node.copy()
    found = [call for item in made.expressions for call in _calls(item)]
    if len(found) > 1:
        raise scope.text.error(
            "a SELECT can have only one call that returns several rows", found[1], "write LATERAL VIEW for each of them"
        )
    (item,) = (one for one in made.expressions if _calls(one))
    others = [one for one in made.expressions if one is not item]
    whole = _called(item) is found[0]
    others = others if whole else list(made.expressions)
    grouped = made.args.get("group") is not None
    if not _is_grouped(made, item) if grouped else any(next(aggregates(one), None) is not None for one in others):
        hint = "group in a subquery in FROM, and explode in the outer query"
        raise scope.text.error("a call that returns several rows cannot be combined with groups", item, hint)
    named = [one.name for one in item.expressions] if isinstance(item, exp.Aliases) else [item.alias] * bool(item.alias)
    named = named if whole else ["element"]
    table = "generated"
    elements: list[exp.Expression] = [exp.column(name, table=table) for name in named]
    shown: list[exp.Expression] = [
        exp.Alias(this=one, alias=exp.to_identifier(one.name, quoted=True)) for one in elements
    ]
    columns = [exp.to_identifier(name) for name in named]
    alias = exp.TableAlias(this=exp.to_identifier(table), columns=columns)
    view = exp.Lateral(this=found[0].copy(), view=True, outer=False, alias=alias, selected=True)
    place = extent(item)
    if not whole:
        found[0].replace(elements[0])
        shown = [item]
    elif not named:
        shown = [exp.Column(this=exp.Star(), table=exp.to_identifier(table))]
    for one in (view, *shown):
        for part in one.walk():
            if place is not None and extent(part) is None:
                part.meta["span"] = place
    made.set("laterals", [*(made.args.get("laterals") or ()), view])
    made.set("expressions", [new for one in made.expressions for new in (shown if one is item else [one])])
    return made


def _is_grouped(node: exp.Select, item: exp.Expression) -> bool:
    """Returns whether the elements that an item of a SELECT list turns into rows are a grouping key, by alias or
    position. The rows are then made before the groups."""
    group, place = node.args["group"], node.expressions.index(item) + 1
    named = isinstance(item, exp.Alias) and _called(item) in _calls(item) and next(aggregates(item), None) is None
    by_name = any(one == exp.column(item.alias) for one in group.expressions) if item.alias else False
    return named and (by_name or exp.Literal.number(place) in group.expressions)


def _calls(item: exp.Expression) -> list[exp.Expression]:
    """Returns the calls that make rows in an item of a SELECT list, without its subqueries. Inside of an expression,
    only calls that make one value count."""
    found, todo = [], [item]
    while todo:
        part = todo.pop()
        if is_generator(part) and (part is _called(item) or type(part) in (exp.Explode, exp.Unnest)):
            found.append(part)
        elif not isinstance(part, exp.Query):
            todo += part.iter_expressions(reverse=True)
    return found


def _called(item: exp.Expression) -> exp.Expression:
    return value_of(item.this if isinstance(item, exp.Aliases) else item)
