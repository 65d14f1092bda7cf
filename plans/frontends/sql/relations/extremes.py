"""MIN and MAX of recursive CTEs. Part of `plans.frontends.sql.relations.fixpoints`.

They are written around the CTE's union, as in Materialize, or as its key, as in DuckDB. Both mean that, of the rows
that are derived, the CTE has only the one with the least `d` for each `x`::

    WITH RECURSIVE p (x, d) AS (SELECT x, MIN(d) FROM (SELECT ... UNION ALL SELECT ... FROM p, e ...) GROUP BY x)
    WITH RECURSIVE p (x, d) USING KEY (x, min(d)) AS (SELECT ... UNION SELECT ... FROM p, e ...)
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from plans.frontends.sql.refuse import Text
from plans.frontends.sql.shape import unwrapped

Extreme = tuple[int, str]
"""The position of a column, and `min` or `max`."""
_CLAUSES = {"expressions", "from_", "from", "group", "kind"}
_SOURCE = {"this", "alias"}


def inside(select: exp.Expression) -> tuple[exp.Union, list[str], Extreme] | None:
    """Returns the union inside of a SELECT that groups it and has one MIN or MAX, the names of the columns of the
    SELECT, and its MIN or MAX. The columns of the union are put in their order. Returns None for other queries."""
    if not isinstance(select, exp.Select) or {name for name, value in select.args.items() if value} - _CLAUSES:
        return None
    source = (select.args.get("from_") or select.args["from"]).this
    union = unwrapped(source)
    plain = isinstance(source, exp.Subquery) and not {name for name, value in source.args.items() if value} - _SOURCE
    if not plain or not isinstance(union, exp.Union):
        return None
    branches = _branches(union)
    given = source.alias_column_names or [item.alias_or_name for item in branches[0].expressions]
    known = [name.lower() for name in given]
    items = [item.unalias() for item in select.expressions]
    calls = [(i, item) for i, item in enumerate(items) if _is_extreme(item)]
    columns = [item.this if _is_extreme(item) else item for item in items]
    if len(calls) != 1 or not all(isinstance(one, exp.Column) for one in columns):
        return None
    ((place, call),) = calls
    names = [one.name.lower() for one in columns]
    keys = [name for i, name in enumerate(names) if i != place]
    if sorted(names) != sorted(known) or not keys or _groups(select, names, keys) != set(keys):
        return None
    if names != known:
        order = [known.index(name) for name in names]
        if any(
            not isinstance(part, exp.Select) or len(part.expressions) != len(order) or part.is_star for part in branches
        ):
            return None
        for part in branches:
            part.set("expressions", [part.expressions[i] for i in order])
        if source.alias_column_names:
            alias = source.args["alias"]
            alias.set("columns", [alias.columns[i] for i in order])
    shown = [item.alias_or_name or type(call).__name__.lower() for item in select.expressions]
    return union, shown, (place, type(call).__name__.lower())


def _is_extreme(node: exp.Expression) -> bool:
    """Returns whether a node is MIN or MAX of one value; MAX of several values is GREATEST in some dialects."""
    return isinstance(node, (exp.Min, exp.Max)) and not node.expressions


def _branches(query: exp.Expression) -> list[exp.Expression]:
    """Returns the branches of a nest of unions, from left to right."""
    query = unwrapped(query)
    if not isinstance(query, exp.Union):
        return [query]
    return [*_branches(query.this), *_branches(query.expression)]


def _groups(select: exp.Select, names: Sequence[str], keys: Sequence[str]) -> set[str]:
    """Returns the names of the columns in GROUP BY. `keys`: those of GROUP BY ALL."""
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return set(keys if group is not None else ())
    found = set()
    for one in group.expressions:
        at = int(one.name) if isinstance(one, exp.Literal) and not one.is_string and one.name.isdigit() else 0
        found.add(names[at - 1] if 0 < at <= len(names) else one.name.lower())
    return found


def of_key(cte: exp.CTE, names: Sequence[str], text: Text) -> Extreme | None:
    """Returns the MIN or MAX in the key of a CTE with columns of these names; None if it has no key."""
    given = cte.args.get("key_expressions")
    if not given:
        return None
    known = [name.lower() for name in names]
    called = [one for one in given if _is_extreme(one)]
    listed = [(one.this if one in called else one).name.lower() for one in given]
    if len(called) != 1 or sorted(listed) != sorted(known):
        hint = f"USING KEY lists the columns {', '.join(names)}, each once, and one of them in min(...) or max(...)"
        raise text.error(f"the key of {cte.alias} does not decide which row is the best", cte, hint)
    return known.index(called[0].this.name.lower()), type(called[0]).__name__.lower()
