"""Recursive CTEs over tables. Part of `plans.frontends.sql.relations.sources`.

The CTE is a nest of UNION or of UNION ALL. Branches that do not read the CTE have its first rows; each of the others is
a *step*, which derives rows from those that are there::

    WITH RECURSIVE below AS (
        SELECT id FROM staff WHERE boss IS NULL                          -- first rows
        UNION SELECT s.id FROM staff s JOIN below b ON s.boss = b.id     -- a step
    )

With MIN or MAX (`plans.frontends.sql.relations.extremes`), the rows are a set, whatever the union is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp

from plans.expressions.coercion import common
from plans.frontends.monotone import MONOTONE, why_not_monotone
from plans.frontends.recursive import best_by, readings, rows_of
from plans.frontends.recursive import fixpoint as recursion
from plans.frontends.sql.relations.extremes import Extreme, inside, of_key
from plans.frontends.sql.relations.recursion import reads_of
from plans.frontends.sql.scalars.types import type_of
from plans.frontends.sql.scope import Frame, Names, Scope
from plans.frontends.sql.shape import limited, unwrapped
from plans.frontends.sql.text.place import extent, placed
from plans.queries.algebra import Fixpoint, Query, Relation, Source
from plans.schema import Column, Schema, Table


def fixpoint(union: exp.Expression, scope: Scope) -> Fixpoint:
    """Returns the rows of a recursive CTE, whose query is marked. `scope` has the CTEs that are visible to it."""
    cte = union.find_ancestor(exp.CTE)
    assert cte is not None, "the query of a CTE"
    return _RecursiveCte(cte, union, scope).relation()


class _RecursiveCte:
    """A recursive CTE: the relation of its first rows, and the syntax of its steps."""

    def __init__(self, cte: exp.CTE, union: exp.Expression, scope: Scope) -> None:
        text = scope.text
        self._names = list(cte.alias_column_names)
        columns = cte.args["alias"].columns
        # Materialize declares the types.
        self._declared = [one.kind for one in columns if isinstance(one, exp.ColumnDef) and one.kind]
        self._extreme: Extreme | None = None
        found = inside(union)
        if found is not None:
            union, names, self._extreme = found
            self._names = self._names or names
        if limited(union):
            raise text.error(f"{cte.alias} reads itself under a LIMIT", cte, "limit the rows outside of the recursion")
        if not isinstance(union, exp.Union):
            raise text.error(
                f"{cte.alias} reads itself, and is not a UNION",
                cte,
                "write WITH RECURSIVE name AS (first rows UNION ALL SELECT ... FROM name JOIN ...); MIN or MAX of its "
                "rows is SELECT key, MIN(value) FROM (first rows UNION ALL ...) GROUP BY key",
            )
        self._cte, self._scope = cte, scope
        self._best = found is not None or bool(cte.args.get("key_expressions"))
        self._distinct = self._best or bool(union.args.get("distinct"))
        parts = self._branches(union)
        first = [part for part in parts if not reads_of(part, cte.alias)]
        self._steps = [part for part in parts if reads_of(part, cte.alias)]
        if not first:
            raise text.error(f"every branch of {cte.alias} reads {cte.alias}", cte, "begin with rows that do not")
        self._first = self._read(self._joined(first), scope, unique=not self._names)

    def _branches(self, node: exp.Expression) -> list[exp.Expression]:
        part = unwrapped(node)
        same = isinstance(part, exp.Union) and (self._best or bool(part.args.get("distinct")) == self._distinct)
        if not same or limited(part) or part.args.get("with_") or part.args.get("by_name"):
            return [part]
        return [*self._branches(part.this), *self._branches(part.expression)]

    def _joined(self, parts: list[exp.Expression]) -> exp.Expression:
        def union(one: exp.Expression, other: exp.Expression) -> exp.Expression:
            made = exp.Union(this=one, expression=other, distinct=self._distinct)
            return placed(made, extent(one))

        return reduce(union, parts)

    def _read(self, node: exp.Expression, scope: Scope, unique: bool) -> Relation:
        return scope.reading.read(node, replace(scope, frame=Frame(Names())), unique=unique)

    def relation(self) -> Fixpoint:
        """Returns the recursion."""
        schema, old = self._scope.reading.schema, self._first.columns
        names = self._names or [column.name for column in old]
        if len(names) != len(old):
            what = f"{self._cte.alias} has {len(old)} columns, but {len(names)} names are given"
            raise self._scope.text.error(what, self._cte, "give a name to each column")
        types = [self._scope.text.guarded(kind, partial(type_of, kind)) for kind in self._declared]
        types = types or [column.type for column in old]
        columns = [Column(name, kind) for name, kind in zip(names, types, strict=True)]
        if self._extreme is None:
            self._extreme = of_key(self._cte, names, self._scope.text)
        rows = rows_of(self._cte.alias, columns, self._distinct, schema)
        for table in (table for step in self._steps for table in reads_of(step, self._cte.alias)):
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", placed(exp.to_identifier(rows.name, quoted=True), extent(table.this)))
        return self._of(rows)

    def _of(self, rows: Table) -> Fixpoint:
        """Returns the recursion with rows of these columns, or with wider whole numbers if a step has them."""
        schema, columns = self._scope.reading.schema, rows.columns[: len(rows.columns) - self._distinct]
        known = Schema((*schema.values(), rows), schema.derived)
        stamped = rows.name if self._distinct else ""
        within = replace(self._scope, reading=replace(self._scope.reading, schema=known, stamped=stamped))
        steps, wider = [], list(rows.columns)
        for node in self._steps:
            step, mine = self._step(node, columns, rows, within)
            for i, (_, expr) in enumerate(() if self._declared else step.outputs):
                if (columns[i].type, expr.type) == ("int32", "int64"):
                    wider[i] = replace(columns[i], type=expr.type)
                elif within.text.guarded(node, partial(common, columns[i].type, expr.type)) != columns[i].type:
                    name, kind = columns[i].name, columns[i].type
                    what = f"column {name} has the type {expr.type} here, and {kind} in the first rows"
                    raise within.text.error(what, node, f"write CAST(... AS {kind}) here, or another type there")
            steps.append((step, mine))
        if tuple(wider) != rows.columns:
            return self._of(replace(rows, columns=tuple(wider)))
        if self._extreme is None:
            return recursion(self._first, steps, rows)
        place, function = self._extreme
        best = best_by(columns[place].name, function)
        for node, (step, mine) in zip(self._steps, steps, strict=True):
            why = why_not_monotone(step, mine, [column.name for column in columns], best)
            if why:
                raise within.text.error(f"{self._cte.alias} has {function.upper()}, and {why}", node, MONOTONE)
        return recursion(self._first, steps, rows, best)

    def _step(
        self, step: exp.Expression, columns: Sequence[Column], rows: Table, scope: Scope
    ) -> tuple[Query, Sequence[Source]]:
        made = self._read(step, scope, unique=False)
        mine = readings(made, rows, self._cte.alias)
        if isinstance(mine, tuple):
            raise scope.text.error(mine[0], step, mine[1])
        assert isinstance(made, Query)
        if len(made.outputs) != len(columns):
            what = f"this step has {len(made.outputs)} columns, but {self._cte.alias} has {len(columns)}"
            raise scope.text.error(what, step, "select the same number of columns")
        return made, mine
