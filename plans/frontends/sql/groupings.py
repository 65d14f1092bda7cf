"""GROUPING SETS, ROLLUP and CUBE: one SELECT per grouping, whose union all is the result.

Part of `plans.frontends.sql`. In the SELECT of a grouping, what others group by is NULL, outside of aggregates, and
GROUPING() is a number. The grouping by nothing has a row only where there are rows, as in Spark, unless it is the only
one: that is an aggregate without GROUP BY.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from sqlglot import exp

from plans.frontends.sql.refuse import Refuser

_MOST = 64
_BEHIND = ("grouping_sets", "rollup", "cube")
_Set = list[exp.Expression]


def groupings(node: exp.Select, refuser: Refuser) -> list[exp.Select]:
    """Returns a SELECT for each grouping of a SELECT with several; none for all others. PlanError for too many."""
    group = node.args.get("group")
    found = None if group is None else _sets(group, refuser)
    if group is None or found is None:
        return []
    if len(found) > _MOST:
        raise refuser.error(f"{len(found)} groupings in one query are too many", group, f"{_MOST} are maintained")
    every = _once(item for one in found for item in one)
    whole = found == [[]] and not group.args.get("grouping_sets")  # behind a list, there is one of columns, too
    return [_select(node, _once(one), every, whole, refuser) for one in found]


def _sets(group: exp.Group, refuser: Refuser) -> list[_Set] | None:
    """Returns the expressions of every grouping; None if there is only one."""
    if group.args.get("all") is False:
        raise refuser.error("GROUP BY DISTINCT is not supported", group, "leave the groupings out that stand twice")
    behind = [item for name in _BEHIND for item in group.args.get(name) or ()]
    if len(behind) > 1 or (behind and not group.expressions):
        raise refuser.error("GROUP BY takes one WITH ROLLUP, WITH CUBE or GROUPING SETS behind its columns", group)
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
    """Returns the groupings that an item of GROUP BY stands for."""
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


def _select(node: exp.Select, chosen: _Set, every: _Set, whole: bool, refuser: Refuser) -> exp.Select:
    """Returns the SELECT of one grouping; `whole`: it has one row, also where there are no rows."""
    made: exp.Select = node.copy()
    group = exp.Group(expressions=[one.copy() for one in chosen])
    group.set("every", [one.copy() for one in every])
    group.set("whole", whole)
    group.meta.update(node.args["group"].meta)
    made.set("group", group)
    made.set("distinct", None)
    for call in list(made.find_all(exp.Grouping, exp.GroupingId)):
        if call.find_ancestor(exp.Select) is not made:
            continue
        asked = list(call.expressions) or every
        for one in asked:
            if one not in every:
                raise refuser.error("GROUPING asks for what is not grouped by", one)
        bits = sum((one not in chosen) << (len(asked) - 1 - i) for i, one in enumerate(asked))
        type_ = "INT" if isinstance(call, exp.Grouping) else "BIGINT"
        call.replace(exp.cast(exp.Literal.number(bits), type_))
    return made


def _once(items: Any) -> _Set:
    found: _Set = []
    for item in items:
        if item not in found:
            found.append(item)
    return found
