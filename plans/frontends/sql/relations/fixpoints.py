"""Recursive CTEs over tables. Part of `plans.frontends.sql.relations.sources`.

The CTE is a nest of UNION or of UNION ALL. Branches that do not read the CTE have its first rows; each of the others is
a *step*, which derives rows from those that are there::

    WITH RECURSIVE below AS (
        SELECT id FROM staff WHERE boss IS NULL                          -- first rows
        UNION SELECT s.id FROM staff s JOIN below b ON s.boss = b.id     -- a step
    )
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp

from plans.expressions.build import Expr, call, cast, lit
from plans.expressions.coercion import common
from plans.frontends.branches import balanced
from plans.frontends.sql.relations.recursion import RECURSIVE, reads_of
from plans.frontends.sql.scope import Frame, Names, Scope
from plans.frontends.sql.shape import limited, unwrapped
from plans.frontends.sql.text.place import extent, placed
from plans.queries.algebra import Fixpoint, Query, Relation, SetOperation, Source, bases, unused
from plans.schema import Column, Schema, Table

_SIMPLE = "select rows of joins, with conditions; aggregate, order or number the rows outside of the recursion"


def fixpoint(union: exp.Expression, scope: Scope) -> Fixpoint:
    """Returns the rows of a recursive CTE, whose query is marked. `scope` has the CTEs that are visible to it."""
    cte: exp.CTE = union.meta[RECURSIVE]
    return _Recursion(cte, union, scope).relation()


class _Recursion:
    def __init__(self, cte: exp.CTE, union: exp.Expression, scope: Scope) -> None:
        text = scope.text
        if not isinstance(union, exp.Union) or limited(union):
            raise text.error(
                f"{cte.alias} reads itself, and is not a UNION",
                cte,
                "write WITH RECURSIVE name AS (first rows UNION ALL SELECT ... FROM name JOIN ...)",
            )
        self._cte, self._scope = cte, scope
        self._distinct = bool(union.args.get("distinct"))
        parts = self._branches(union)
        first = [part for part in parts if not reads_of(part, cte.alias)]
        self._steps = [part for part in parts if reads_of(part, cte.alias)]
        if not first:
            raise text.error(f"every branch of {cte.alias} reads {cte.alias}", cte, "begin with rows that do not")
        self._first = self._read(self._joined(first), scope)

    def _branches(self, node: exp.Expression) -> list[exp.Expression]:
        part = unwrapped(node)
        if isinstance(part, exp.Union) and bool(part.args.get("distinct")) == self._distinct and not limited(part):
            if not part.args.get("with_") and not part.args.get("by_name"):
                return [*self._branches(part.this), *self._branches(part.expression)]
        return [part]

    def _joined(self, parts: list[exp.Expression]) -> exp.Expression:
        def union(one: exp.Expression, other: exp.Expression) -> exp.Expression:
            made = exp.Union(this=one, expression=other, distinct=self._distinct)
            return placed(made, extent(one))

        return reduce(union, parts)

    def _read(self, node: exp.Expression, scope: Scope) -> Relation:
        names = bool(self._cte.alias_column_names)
        return scope.reading.read(node, replace(scope, frame=Frame(Names())), unique=not names)

    def relation(self) -> Fixpoint:
        """Returns the recursion."""
        names = self._names()
        types = [column.type for column in self._first.columns]
        stamp = [Column(unused("stamp", names), "int64")] if self._distinct else []
        columns = (*map(Column, names, types), *stamp)
        schema = self._scope.reading.schema
        rows = Table(unused(self._cte.alias, schema), columns, distinct=self._distinct)
        known = Schema((*schema.values(), rows), schema.derived)
        inside = replace(self._scope, reading=replace(self._scope.reading, schema=known))
        source = Frame(Names()).derived(self._first, "first_rows")
        outputs = [(name, source.qualified(old.name)) for name, old in zip(names, self._first.columns, strict=True)]
        outputs += [(column.name, cast(lit(0), column.type)) for column in stamp]
        first = Query(self._scope.text.text, (source,), (), tuple(outputs), False)
        steps = [self._step(step, rows, inside) for step in self._steps]
        body = SetOperation((first, *steps), balanced("union_all", range(1 + len(steps))))
        return Fixpoint(rows, body, self._distinct)

    def _names(self) -> list[str]:
        names = list(self._cte.alias_column_names) or [column.name for column in self._first.columns]
        if len(names) != len(self._first.columns):
            count = len(self._first.columns)
            raise self._scope.text.error(
                f"{self._cte.alias} has {count} columns, but {len(names)} names are given", self._cte
            )
        return names

    def _step(self, step: exp.Expression, rows: Table, scope: Scope) -> Query:
        name, text = self._cte.alias, scope.text
        for table in reads_of(step, name):
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", placed(exp.to_identifier(rows.name, quoted=True), extent(table.this)))
        made = self._read(step, scope)
        if not isinstance(made, Query) or (made.distinct and not self._distinct):
            raise text.error(f"this step of {name} is more than a SELECT of joined rows", step, _SIMPLE)
        mine = [source for source in made.sources if source.table == rows]
        if len(mine) < sum(source.table == rows for source in bases(made)):
            raise text.error(f"{name} is read in a subquery that cannot be joined", step, _SIMPLE)
        if any(source.group or source.join != "inner" for source in mine):
            hint = f"read {name} in FROM, by an inner join or on the side of an outer join whose rows all stay"
            raise text.error(f"a step of {name} tests whether {name} has a row, or pads it", step, hint)
        if len(mine) > 1 and not self._distinct:
            raise text.error(f"this step of {name} reads {name} {len(mine)} times", step, "write UNION, or read it once")
        return replace(made, outputs=self._outputs(made, mine, rows, step, scope))

    def _outputs(
        self, made: Query, mine: list[Source], rows: Table, step: exp.Expression, scope: Scope
    ) -> tuple[tuple[str, Expr], ...]:
        columns = rows.columns[: len(rows.columns) - self._distinct]
        if len(made.outputs) != len(columns):
            what = f"this step has {len(made.outputs)} columns, but {self._cte.alias} has {len(columns)}"
            raise scope.text.error(what, step)
        outputs = []
        for column, (_, expr) in zip(columns, made.outputs, strict=True):
            both = scope.text.guarded(step, partial(common, column.type, expr.type))
            if both != column.type:
                what = f"column {column.name} of {self._cte.alias} has the type {column.type}, but {expr.type} in this step"
                hint = f"write CAST(... AS {column.type}) here, or CAST(... AS {expr.type}) in its first rows"
                raise scope.text.error(what, step, hint)
            outputs.append((column.name, cast(expr, column.type)))
        if self._distinct:
            stamps = [source.qualified(rows.columns[-1].name) for source in mine]
            outputs.append((rows.columns[-1].name, stamps[0] if len(stamps) == 1 else call("greatest", *stamps)))
        return tuple(outputs)
