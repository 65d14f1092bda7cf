"""DuckDB's statements PIVOT and UNPIVOT: rewrites them as queries with PIVOT in FROM. Reads the names in a PIVOT of SQL
Server as values.

`PIVOT cities ON year IN (2000, 2010) USING SUM(population) GROUP BY country` is `SELECT * FROM (SELECT country, year,
population FROM cities) PIVOT (SUM(population) FOR year IN (2000, 2010))`.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.nodes import nodes, rewritten
from plans.frontends.sql.text.place import extent, placed


def with_pivots(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement with PIVOT and UNPIVOT in FROM, marked with whether aggregates of values without rows are
    NULL.

    Statements of another form stay, and are rejected later.
    """
    tree = rewritten(tree, (exp.Pivot,), _replacement, text)
    for node in nodes(tree, exp.Pivot):
        node.set("filtered", dialect not in _WITHOUT_ROWS)
        for name in _named(node) if dialect == "tsql" else ():
            name.replace(placed(exp.Literal.string(name.name), extent(name)))
    return tree


def _named(node: Any) -> list[Any]:
    """Returns the names in the list of a PIVOT, `FOR year IN ([2000], [2010])`, which are values."""
    lists = [] if node.args.get("unpivot") else node.args.get("fields") or []
    return [one for field in lists for one in field.expressions if isinstance(one, exp.Column)]


_WITHOUT_ROWS = ("spark", "ansi", "flink", "databricks")
"""Dialects in which even COUNT is NULL for a value without rows in a group."""


def _replacement(node: Any) -> Any:
    """Returns the query of a PIVOT statement, or None for a PIVOT in FROM."""
    if node.this is None:
        return None
    return _unpivoted(node) if node.args.get("unpivot") else _pivoted(node)


def _pivoted(node: Any) -> Any:
    fields, using, group = node.expressions, node.args.get("using") or [], node.args.get("group")
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        return None
    using = using or [exp.Count(this=exp.Star())]
    rows = node.this.copy()
    if group is not None:
        read = [*group.expressions, *(column for one in (fields[0], *using) for column in nodes(one, exp.Column))]
        named = {column.name.lower(): column for column in read}
        source = exp.Select(expressions=[column.copy() for column in named.values()], from_=exp.From(this=rows))
        rows = exp.Subquery(this=source, alias=exp.TableAlias(this=exp.to_identifier("pivoted")))
    alone = len(using) == 1 and not isinstance(using[0], exp.Alias)
    names = [
        value.alias_or_name + ("" if alone else f"_{one.alias or one.sql('duckdb').lower()}")
        for value in fields[0].expressions
        for one in using
    ]
    pivot = exp.Pivot(
        expressions=[one.copy() for one in using],
        fields=[fields[0].copy()],
        columns=[exp.to_identifier(name, quoted=True) for name in names],
    )
    return _select_pivoted(node, rows, pivot)


def _unpivoted(node: Any) -> Any:
    into = node.args.get("into")
    name = into.this.name if into is not None else "name"
    values = list(into.expressions) if into is not None else [exp.column("value")]
    field = exp.In(this=exp.to_identifier(name), expressions=[one.copy() for one in node.expressions])
    values = [exp.to_identifier(one.name) for one in values]
    nulls = node.args.get("include_nulls")
    pivot = exp.Pivot(unpivot=True, expressions=values, fields=[field], include_nulls=nulls)
    return _select_pivoted(node, node.this.copy(), pivot)


def _select_pivoted(node: Any, rows: Any, pivot: Any) -> Any:
    """Returns the query over pivoted rows."""
    rows.set("pivots", [pivot])
    made = exp.Select(expressions=[exp.Star()], from_=exp.From(this=rows))
    for name in ("with_", "with"):
        if node.args.get(name) is not None:
            made.set(name, node.args[name].copy())
    return made
