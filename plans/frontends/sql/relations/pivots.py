"""Rewrites PIVOT and UNPIVOT as plain queries. Part of `plans.frontends.sql`.

`t PIVOT (SUM(b) FOR s IN ('x', 'y'))` groups the rows of `t` by all its other columns. Each value gets a column, which
is NULL in a group without rows of the value; in other dialects than Spark's, COUNT is then 0. `t UNPIVOT (v FOR name IN
(a, c))` has each row once per listed column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.groups.aggregates import aggregates
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.text.nodes import is_known, nodes
from plans.frontends.sql.text.place import extent, placed


def pivoted(pivot: exp.Pivot, rows: exp.Expression, columns: Sequence[str], text: Text) -> exp.Expression:
    """Returns PIVOT or UNPIVOT over `rows`, a table or subquery with these columns, as a plain query."""
    fields = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or not fields[0].expressions:
        raise text.error("this PIVOT is not supported", pivot, "write PIVOT (SUM(x) FOR y IN (1, 2))")
    if pivot.args.get("unpivot"):
        many = [len(_parts(item.this if isinstance(item, exp.PivotAlias) else item)) for item in fields[0].expressions]
        if set(many) != {sum(len(_parts(one)) for one in pivot.expressions)}:
            raise text.error("UNPIVOT needs as many columns for each name as it has values", pivot)
    build = _unpivot if pivot.args.get("unpivot") else _pivot
    made: exp.Expression = placed(build(pivot, fields[0], rows, columns), extent(pivot))
    return made


def _pivot(pivot: exp.Pivot, field: exp.In, rows: exp.Expression, columns: Sequence[str]) -> exp.Expression:
    """Returns the groups, with the aggregates of the rows of each value."""
    read = {column.name.lower() for part in (*pivot.expressions, field.this) for column in nodes(part, exp.Column)}
    keys = [exp.column(exp.to_identifier(name, quoted=True)) for name in columns if name.lower() not in read]
    items: list[Any] = list(keys)
    names = iter(pivot.args.get("columns") or ())
    for value in field.expressions:
        for written in pivot.expressions:
            found = _of(written, field.this, value)
            if not pivot.args.get("filtered"):
                found = exp.Case(ifs=[exp.If(this=_there(field.this, value), true=found)])
            name = next(names, None)
            items.append(exp.alias_(found, name.copy() if name is not None else _name(value), quoted=True))
    made = exp.Select(expressions=items, from_=exp.From(this=rows))
    if keys:
        made.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return made


def _name(value: exp.Expression) -> str:
    """Returns the name of the column of a value."""
    return value.alias or (value.name if isinstance(value, exp.Literal) else value.sql("spark"))


def _is(column: exp.Expression, value: exp.Expression) -> Any:
    """Returns the condition that rows have a value, which is a tuple for several columns."""
    value = value.this if isinstance(value, exp.PivotAlias) else value
    if len(_parts(column)) != len(_parts(value)):
        raise PlanError(f"PIVOT compares {len(_parts(column))} columns with {len(_parts(value))} values")
    pairs = zip(_parts(column), _parts(value), strict=True)
    return exp.and_(*(exp.NullSafeEQ(this=one.copy(), expression=other.copy()) for one, other in pairs))


def _parts(node: exp.Expression) -> list[exp.Expression]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _there(column: exp.Expression, value: exp.Expression) -> exp.Expression:
    """Returns the condition that a group has rows of a value."""
    count = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=_is(column, value)))
    return exp.GT(this=count, expression=exp.Literal.number(0))


def _of(written: exp.Expression, column: exp.Expression, value: exp.Expression) -> exp.Expression:
    """Returns an expression over aggregates restricted to the rows of a value."""
    found = exp.Paren(this=(written.this if isinstance(written, exp.Alias) else written).copy())
    for one in list(aggregates(found)):
        inner: Any = one
        condition: Any = _is(column, value)
        if isinstance(one, exp.Filter):
            condition, inner = exp.and_(condition, one.expression.this.copy()), one.this
        one.replace(exp.Filter(this=inner.copy(), expression=exp.Where(this=condition)))
    return found


def _unpivot(pivot: exp.Pivot, field: exp.In, rows: exp.Expression, columns: Sequence[str]) -> exp.Expression:
    """Returns the union of the rows, with one listed column each."""
    listed = {column.name.lower() for part in field.expressions for column in nodes(part, exp.Column)}
    kept = [name for name in columns if name.lower() not in listed]
    made: exp.Expression | None = None
    for item in field.expressions:
        values = _parts(item.this if isinstance(item, exp.PivotAlias) else item)
        label = item.alias or "_".join(value.name for value in values)
        items: list[Any] = [exp.column(exp.to_identifier(name, quoted=True)) for name in kept]
        items.append(exp.alias_(exp.Literal.string(label), field.this.name, quoted=True))
        names = [name for one in pivot.expressions for name in _parts(one)]
        items += [exp.alias_(v.copy(), name.name, quoted=True) for v, name in zip(values, names, strict=True)]
        select = exp.Select(expressions=items, from_=exp.From(this=rows.copy()))
        if not pivot.args.get("include_nulls"):
            there = [is_known(value) for value in values]
            select.set("where", exp.Where(this=exp.or_(*there)))
        made = select if made is None else exp.Union(this=made, expression=select, distinct=False)
    assert made is not None, "a column is listed"
    return made
