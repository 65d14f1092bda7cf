"""The groupings of a SELECT: one list of expressions, or several with GROUPING SETS, ROLLUP and CUBE.

Part of `plans.frontends.sql`. With several groupings, the result is their UNION ALL. Keys of other groupings are NULL
in a grouping, outside of aggregates, and GROUPING() is a number. In Spark, the grouping without keys has a row only if
there are rows, unless it is the only grouping: an aggregate without GROUP BY. In other dialects it always has a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from sqlglot import exp

from plans.frontends.sql.groups.aggregates import aggregates
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.text.nodes import nodes

_MOST = 64
_BEHIND = ("grouping_sets", "rollup", "cube")
_Set = list[exp.Expression]


@dataclass(frozen=True)
class Grouping:
    """One grouping: its keys, and the keys of `every` grouping of the query, if there are several.

    `whole`: there is one row even if there are no input rows.
    """

    items: tuple[exp.Expression, ...]
    every: tuple[exp.Expression, ...] = ()
    whole: bool = False
    several: bool = False


def groupings(node: exp.Select, scope: Scope) -> list[Grouping]:
    """Returns the groupings of a SELECT with groups. Raises PlanError if there are too many."""
    group, text = node.args.get("group"), scope.text
    if group is None:
        return [Grouping((), whole=True)]
    several = _sets(group, text)
    if several is None:
        if group.args.get("all"):
            plain = tuple(item for item in node.expressions if next(aggregates(item), None) is None)
            constant = bool(group.args.get("always")) and not any(nodes(item, exp.Column, exp.Query) for item in plain)
            if constant and len(plain) < len(node.expressions):  # in DuckDB, constants are no keys
                return [Grouping((), whole=True)]
            return [Grouping(plain, whole=not plain)]
        for name, value in group.args.items():
            if name not in ("expressions", "always") and value:
                word = name.upper().replace("_", " ")
                raise text.error(f"{word} is not supported", group, "list the columns", text.words.phrase(word))
        return [Grouping(tuple(grouping_expression(item, node, scope) for item in group.expressions))]
    if len(several) > _MOST:
        raise text.error(f"{len(several)} groupings in one query are too many", group, f"{_MOST} are maintained")
    every = tuple(grouping_expression(item, node, scope) for item in _once(item for one in several for item in one))
    whole = several == [[]] and not group.args.get("grouping_sets")  # after a list, there is one of columns, too
    found = []
    for one in several:
        items = tuple(grouping_expression(item, node, scope) for item in _once(one))
        always = not items and bool(group.args.get("always"))
        found.append(Grouping(items, every, whole or always, True))
    return found


def grouping_expression(item: exp.Expression, node: exp.Select, scope: Scope) -> exp.Expression:
    """Returns the expression of an item of GROUP BY: an ordinal or an alias stands for an item of the SELECT list,
    unless a table has a column with that name."""
    if isinstance(item, exp.Literal) and not item.is_string:
        position = int(item.this) if str(item.this).isdigit() else 0
        if not 1 <= position <= len(node.expressions):
            raise scope.text.error(f"GROUP BY {item.this}: there is no such output column", item)
        return node.expressions[position - 1]
    if isinstance(item, exp.Column) and not item.table and not scope.lookup(item.name):
        named = [part for part in node.expressions if part.alias.lower() == item.name.lower()]
        return named[0] if named else item
    return item


def _sets(group: exp.Group, text: Text) -> list[_Set] | None:
    """Returns the expressions of every grouping, or None if there is only one."""
    if group.args.get("all") is False:
        raise text.error("GROUP BY DISTINCT is not supported", group, "leave duplicate groupings out")
    modifiers = [item for name in _BEHIND for item in group.args.get(name) or ()]
    if len(modifiers) > 1 or (modifiers and not group.expressions):
        raise text.error("GROUP BY takes one WITH ROLLUP, WITH CUBE or GROUPING SETS after its columns", group)
    plain: list[Any] = list(group.expressions)
    if group.args.get("grouping_sets"):  # Spark: GROUP BY a, b GROUPING SETS ((a, b), (a))
        return [found for part in group.args["grouping_sets"] for found in _of(part)]
    for name, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):  # GROUP BY a, b WITH ROLLUP
        if group.args.get(name):
            return _of(kind(expressions=plain))
    if not any(isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)) for item in plain):
        return None
    return [[item for part in parts for item in part] for parts in product(*map(_of, plain))]


def _of(item: Any) -> list[_Set]:
    """Returns the groupings of an item of GROUP BY."""
    if isinstance(item, exp.GroupingSets):
        return [found for part in item.expressions for found in _of(part)]
    if isinstance(item, (exp.Rollup, exp.Cube)):
        parts = [_of(part)[0] for part in item.expressions]
        if isinstance(item, exp.Rollup):
            chosen = [tuple(parts[:n]) for n in range(len(parts), -1, -1)]
        else:
            chosen = [some for n in range(len(parts), -1, -1) for some in combinations(parts, n)]
        return [[one for part in some for one in part] for some in chosen]
    if isinstance(item, exp.Tuple):
        return [list(item.expressions)]
    return [[item.this if isinstance(item, exp.Paren) else item]]


def _once(items: Iterable[exp.Expression]) -> _Set:
    found: _Set = []
    for item in items:
        if item not in found:
            found.append(item)
    return found
