"""MIN and MAX of recursive CTEs. Part of `plans.frontends.sql.relations.fixpoints`.

They are written around the CTE's union, as in Materialize, or as its key, as in DuckDB. Both mean that, of the rows
that are derived, the CTE has only the one with the least `d` for each `x`. Other columns of that row are MIN_BY::

    WITH RECURSIVE p (x, d) AS (SELECT x, MIN(d) FROM (SELECT ... UNION ALL SELECT ... FROM p, e ...) GROUP BY x)
    WITH RECURSIVE p (x, d) USING KEY (x, min(d)) AS (SELECT ... UNION SELECT ... FROM p, e ...)
    WITH RECURSIVE p (x, d, via) AS (SELECT x, MIN(d), MIN_BY(via, d) FROM (...) GROUP BY x)
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from plans.frontends.sql.refuse import Text
from plans.frontends.sql.shape import unwrapped
from plans.frontends.steps import Best

_PICKED: dict[type[exp.Expression], type[exp.Expression]] = {exp.Min: exp.ArgMin, exp.Max: exp.ArgMax}
_CALLS = (*_PICKED, *_PICKED.values())
_CLAUSES = {"expressions", "from_", "from", "group", "kind"}
_SOURCE = {"this", "alias"}


def inside(select: exp.Expression) -> tuple[exp.Union, list[str], Best] | None:
    """Returns the union inside of a SELECT that groups it and has one MIN or MAX, the names of the columns of the
    SELECT, and its best columns. The columns of the union are put in their order. Returns None for other queries."""
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
    best, columns = _best(items), [item.this if isinstance(item, _CALLS) else item for item in items]
    if best is None or not all(isinstance(one, exp.Column) for one in columns):
        return None
    names = [one.name.lower() for one in columns]
    keys = [name for i, name in enumerate(names) if i not in best[0]]
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
    shown = [item.alias_or_name or item.key for item in select.expressions]
    return union, shown, best


def _best(items: Sequence[exp.Expression]) -> Best | None:
    """Returns the positions of MIN or MAX and of the MIN_BY or MAX_BY of its value; None if there are other calls.

    MAX of several values is GREATEST in some dialects.
    """
    values = [item for item in items if isinstance(item, tuple(_PICKED)) and not item.expressions]
    if len(values) != 1:
        return None
    picked = [item for item in items if isinstance(item, _PICKED[type(values[0])])]
    calls = [item for item in items if isinstance(item, _CALLS)]
    if len(calls) != 1 + len(picked) or any(
        item.expression.name.lower() != values[0].this.name.lower() or item.args.get("count") for item in picked
    ):
        return None
    return tuple(index for one in (*values, *picked) for index, item in enumerate(items) if item is one), values[0].key


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


def of_key(cte: exp.CTE, names: Sequence[str], text: Text) -> Best | None:
    """Returns the best columns of a CTE with columns of these names, which its key says; None if it has no key."""
    given = cte.args.get("key_expressions")
    if not given:
        return None
    known = [name.lower() for name in names]
    best = _best(given)
    listed = [(one.this if isinstance(one, _CALLS) else one).name.lower() for one in given]
    if best is None or sorted(listed) != sorted(known):
        hint = (
            f"USING KEY lists the columns {', '.join(names)}, each once, one of them in min(...) or max(...), others "
            "as they are or in min_by(column, value) or max_by(column, value)"
        )
        if any(isinstance(one, exp.Filter) for one in given):
            hint += "; these leave NULLs out in DuckDB, so leave the dialect out"
        raise text.error(f"the key of {cte.alias} does not decide which row is the best", cte, hint)
    return tuple(known.index(listed[place]) for place in best[0]), best[1]
