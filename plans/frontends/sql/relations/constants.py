"""Constant rows: VALUES, arrays first in FROM, and SELECT without FROM. Part of `plans.frontends.sql`.

They are joined with the single row of a group without GROUP BY, over a relation that the query reads anyway::

    VALUES (1, 'x'), (2, 'y')   ->   SELECT 1 AS col1, 'x' AS col2 FROM (one row) UNION ALL SELECT 2, 'y' FROM (one row)

    FROM UNNEST(ARRAY(1, 2)) AS u(x)   ->   FROM (SELECT u.* FROM (one row), UNNEST(ARRAY(1, 2)) AS u(x)) AS u

So they exist from the first batch on.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from sqlglot import exp

from plans.frontends.sql.refuse import Text
from plans.frontends.sql.relations.unnest import is_generator
from plans.frontends.sql.shape import unwrapped
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed, replace_relation


def with_constants(root: exp.Expression, tables: Container[str], text: Text) -> exp.Expression:
    """Returns an equivalent query whose VALUES, arrays first in FROM, and SELECTs without FROM read a relation of one
    row.

    A query that reads none of the `tables` is returned unchanged, because there is nothing to maintain.
    """
    ctes = {cte.alias.lower() for cte in nodes(root, exp.CTE)}
    named = (".".join(part.name for part in table.parts) for table in nodes(root, exp.Table))
    read = next((name for name in named if name in tables and name.lower() not in ctes), None)
    if read is None:
        return root
    _unnest_first(root, read)
    for node in nodes(root, exp.Values):
        made = _rows(node, read, text)
        if isinstance(node.parent, (exp.Subquery, exp.CTE)) or node is root:
            node.replace(made)
        else:
            names = node.args.get("alias")
            node.replace(
                placed(exp.Subquery(this=made, alias=names.copy() if names is not None else None), extent(node))
            )
    for select in nodes(root, exp.Select):
        if select.args.get("from_") is None and select.args.get("from") is None:
            select.set("from_", _from(read, select))
    return root


def _unnest_first(root: exp.Expression, read: str) -> None:
    """Moves arrays that come first in FROM behind a relation of one row."""
    for clause in nodes(root, exp.From):
        node = clause.this
        called = node.this if isinstance(node, (exp.Table, exp.Lateral)) else node
        if not isinstance(called, exp.Expression) or not is_generator(called) or called.find(exp.Column):
            continue  # an array of columns is rejected at its position
        alias = node.args.get("alias")
        name = alias.name or alias.columns[0].name if alias is not None else ""
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(name or "generated"))
        rows = exp.Select(expressions=[star], joins=[exp.Join(this=_bare(node, called))])
        rows.set("from_", _from(read, node))
        outer = exp.TableAlias(this=exp.to_identifier(name or "generated"))
        made = exp.Subquery(this=rows, alias=outer)
        replace_relation(node, made)


def _bare(node: exp.Expression, called: exp.Expression) -> exp.Expression:
    """Returns the rows of an array in the form in which they follow a table."""
    if isinstance(node, exp.Table):
        alias = node.args.get("alias")
        return exp.Lateral(this=called.copy(), alias=alias.copy() if alias is not None else None)
    made = node.copy()
    made.set("joins", None)
    return made


def _rows(node: exp.Values, read: str, text: Text) -> exp.Expression:
    """Returns the rows of VALUES as a query."""
    made: exp.Expression | None = None
    rows = [row.expressions if isinstance(row, exp.Tuple) else [unwrapped(row)] for row in node.expressions]
    for row, values in zip(node.expressions, rows, strict=True):
        if len(values) != len(rows[0]):
            raise text.error(f"this row of VALUES has {len(values)} columns, the first one has {len(rows[0])}", row)
    for row, values in zip(node.expressions, rows, strict=True):
        column = row.find(exp.Column)
        if column is not None:
            raise text.error(f"VALUES takes constants, not the column {column.name}", column, "write a SELECT")
        items = [placed(exp.alias_(value.copy(), f"col{i}"), extent(value)) for i, value in enumerate(values, 1)]
        select = placed(exp.Select(expressions=items), extent(row))
        select.set("from_", _from(read, row))
        made = select if made is None else placed(exp.Union(this=made, expression=select, distinct=False), extent(node))
    if made is None:
        raise text.error("VALUES has no rows", node)
    return made


def _from(read: str, node: exp.Expression) -> Any:
    """Returns a FROM clause of one row."""
    count = exp.alias_(exp.Count(this=exp.Star()), "rows")
    none = exp.Where(this=exp.Boolean(this=False))
    table = exp.Table(this=exp.to_identifier(read))
    if "." in read:
        table = exp.to_table(read)
    inner = exp.Select(expressions=[count], from_=exp.From(this=table), where=none)
    alias = exp.TableAlias(this=exp.to_identifier("one"))
    return placed(exp.From(this=exp.Subquery(this=inner, alias=alias)), extent(node))
