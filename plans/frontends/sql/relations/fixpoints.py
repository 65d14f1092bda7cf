"""Recursive CTEs over tables. Part of `plans.frontends.sql.relations.sources`.

The CTE is a nest of UNION or of UNION ALL. Branches that do not read the CTE have its first rows; each of the others is
a *step*, which derives rows from those that are there::

    WITH RECURSIVE below AS (
        SELECT id FROM staff WHERE boss IS NULL                          -- first rows
        UNION SELECT s.id FROM staff s JOIN below b ON s.boss = b.id     -- a step
    )

With MIN or MAX (`plans.frontends.sql.relations.extremes`), the rows are a set, whatever the union is.

CTEs that read each other are one recursion. A plain SELECT among them is a part of each step that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp
from typing_extensions import override

from plans.errors import PlanError
from plans.expressions.coercion import common
from plans.frontends.recursive import rows_of
from plans.frontends.sql.relations.extremes import inside, of_key
from plans.frontends.sql.relations.recursion import RECURSIVE, reads_of
from plans.frontends.sql.scalars.types import type_of
from plans.frontends.sql.scope import Cte, Frame, Names, Scope, output_name
from plans.frontends.sql.shape import limited, unwrapped
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed
from plans.frontends.steps import Best, Steps
from plans.queries.algebra import Query, Relation
from plans.schema import Column, Table


def fixpoints(query: exp.Expression, scope: Scope) -> list[tuple[exp.Expression, Relation]]:
    """Returns the queries of recursive CTEs that read each other, among them a marked one, each with its rows. `scope`
    has the CTEs that are visible to them."""
    cte = query.find_ancestor(exp.CTE)
    clause = cte.parent if cte is not None else None
    assert clause is not None, "the query of a CTE"
    named = {one.alias.lower(): one for one in clause.expressions}
    unions, parts = ([named[name] for name in names] for names in query.meta[RECURSIVE])
    recursion = _Recursion(unions, parts, scope)
    made = recursion.relations()
    recursion.forget()
    return [(unwrapped(named[name].this), relation) for name, relation in made.items()]


class _Union:
    """A recursive CTE: its branches, as they are written. `alone`: it reads only itself."""

    def __init__(self, cte: exp.CTE, scope: Scope, alone: bool) -> None:
        self.cte, self._text = cte, scope.text
        self.names = list(cte.alias_column_names)
        columns = cte.args["alias"].columns
        # Materialize declares the types.
        self.declared = [one.kind for one in columns if isinstance(one, exp.ColumnDef) and one.kind]
        union = unwrapped(cte.this)
        found = inside(union)
        if found is not None:
            union, names, _ = found
            self.names = self.names or names
        self.extreme = found[2] if found is not None else None
        what = "itself" if alone else "queries that read it"
        if limited(union):
            raise self.error(f"{cte.alias} reads {what} under a LIMIT", "limit the rows outside of the recursion")
        single = not alone and isinstance(union, exp.Select) and bool(union.args.get("distinct"))
        if not isinstance(union, exp.Union) and not single:
            raise self.error(
                f"{cte.alias} reads {what}, and is not a UNION",
                "write WITH RECURSIVE name AS (first rows UNION ALL SELECT ... FROM name JOIN ...); MIN or MAX of its "
                "rows is SELECT key, MIN(value), MIN_BY(other, value) FROM (first rows UNION ALL ...) GROUP BY key",
            )
        self._best = found is not None or bool(cte.args.get("key_expressions"))
        self.distinct = self._best or bool(union.args.get("distinct"))
        self.branches = self._branches(union)

    def error(self, what: str, hint: str) -> PlanError:
        """Returns the error about the CTE."""
        return self._text.error(what, self.cte, hint)

    def _branches(self, node: exp.Expression) -> list[exp.Expression]:
        part = unwrapped(node)
        same = isinstance(part, exp.Union) and (self._best or bool(part.args.get("distinct")) == self.distinct)
        if not same or limited(part) or part.args.get("with_") or part.args.get("by_name"):
            return [part]
        return [*self._branches(part.this), *self._branches(part.expression)]

    def joined(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """Returns the union of some branches."""

        def union(one: exp.Expression, other: exp.Expression) -> exp.Expression:
            made = exp.Union(this=one, expression=other, distinct=self.distinct)
            return placed(made, extent(one))

        return reduce(union, parts)

    def columns(self, first: Relation | None) -> list[Column]:
        """Returns the columns, of which the first rows have the types unless they are declared; none if nothing has
        them."""
        old = [] if first is None else first.columns
        names = self.names or [column.name for column in old]
        if first is not None and len(names) != len(old):
            what = f"{self.cte.alias} has {len(old)} columns, but {len(names)} names are given"
            raise self.error(what, "give a name to each column")
        types = [self._text.guarded(kind, partial(type_of, kind)) for kind in self.declared]
        types = types or [column.type for column in old]
        return [Column(name, kind) for name, kind in zip(names, types, strict=bool(types))] if types else []


class _Recursion(Steps[exp.Expression]):
    """Recursive CTEs, by name in lower case. `parts`: plain queries that read them, and that they read."""

    PART = "branch"

    def __init__(self, ctes: Sequence[exp.CTE], parts: Sequence[exp.CTE], scope: Scope) -> None:
        self._scope = self._within = scope
        self._ctes = {cte.alias.lower(): _Union(cte, scope, len(ctes) + len(parts) == 1) for cte in ctes}
        self._parts = {cte.alias.lower(): cte for cte in parts}
        distinct = [cte for cte in self._ctes.values() if cte.distinct]
        counted = [cte for cte in self._ctes.values() if not cte.distinct]
        if distinct and counted:
            one, other = distinct[0].cte.alias, counted[0].cte.alias
            what = f"{other} has UNION ALL and {one} has not, and they read each other"
            raise counted[0].error(what, "write UNION in both")
        steps, first = dict[str, list[exp.Expression]](), dict[str, Relation]()
        columns, best = dict[str, list[Column]](), dict[str, Best]()
        for name, cte in self._ctes.items():
            names = cte.branches[0]
            if not cte.names and self._read_in(names) and isinstance(names, exp.Select) and not names.is_star:
                cte.names = [output_name(item, i) for i, item in enumerate(names.expressions)]
            begins = [part for part in cte.branches if not self._read_in(part)]
            steps[name] = [part for part in cte.branches if self._read_in(part)]
            if begins:
                first[name] = self._query(cte.joined(begins), scope, unique=not cte.names)
            if found := cte.columns(first.get(name)):
                columns[name] = found
            extreme = cte.extreme or of_key(cte.cte, cte.names or [column.name for column in found], scope.text)
            if extreme is not None:
                best[name] = extreme
        super().__init__(first, columns, steps, best)
        self.widens = not any(cte.declared for cte in self._ctes.values())

    def _read_in(self, node: exp.Expression) -> set[str]:
        """Returns the names of the CTEs, and of their parts, that a query reads."""
        return {name for name in (*self._ctes, *self._parts) if reads_of(node, name)}

    def _query(self, node: exp.Expression, scope: Scope, unique: bool) -> Relation:
        return scope.reading.read(node, replace(scope, frame=Frame(Names())), unique=unique)

    @override
    def spelled(self, name: str) -> str:
        return self._ctes[name].cte.alias

    @override
    def needs(self, step: exp.Expression) -> set[str]:
        found, todo = set[str](), [step]
        while todo:
            new = self._read_in(todo.pop()) - found
            found |= new
            todo += [self._parts[name].this for name in new & set(self._parts)]
        return found & set(self._ctes)

    @override
    def shown(self, columns: Mapping[str, Sequence[Column]]) -> dict[str, Table]:
        reading, rows = self._scope.reading, dict[str, Table]()
        for name, known in columns.items():
            taken = [*reading.schema, *(table.name for table in rows.values())]
            cte = self._ctes[name]
            make = partial(rows_of, cte.cte.alias, known, cte.distinct, taken)
            rows[name] = self._scope.text.guarded(cte.cte, make)
        visible: dict[str, Cte | Table] = {**self._scope.ctes, **rows}
        for name, part in self._parts.items():
            visible[name] = (part.this, tuple(part.alias_column_names), visible)
        self._within = replace(self._scope, ctes=visible)
        self.forget()
        return rows

    def forget(self) -> None:
        """Forgets the translations of the parts, and of CTEs inside of steps: they read rows with certain columns."""
        steps = [*self._parts.values(), *(step for steps in self.steps.values() for step in steps)]
        inner = {id(unwrapped(cte.this)) for step in steps for cte in nodes(step, exp.CTE)}
        ctes = self._scope.reading.ctes
        for key in [key for key in ctes if key[0] in inner]:
            del ctes[key]

    @override
    def read(self, name: str, step: exp.Expression) -> Relation:
        names, known = self._ctes[name].names, self.columns.get(name)
        made = self._query(step, self._within, unique=known is None and not names)
        wanted = len(names if known is None else known)
        if len(made.columns) != (wanted or len(made.columns)):
            what = f"this step has {len(made.columns)} columns, but {self.spelled(name)} has {wanted}"
            raise self.error(name, step, what, "select the same number of columns")
        if isinstance(made, Query) and names:
            made = replace(made, outputs=tuple(zip(names, (expr for _, expr in made.outputs), strict=True)))
        return made

    @override
    def error(self, name: str, step: exp.Expression | None, what: str, hint: str) -> PlanError:
        return self._scope.text.error(what, step or self._ctes[name].cte, hint)

    @override
    def no_step(self, name: str, step: exp.Expression, why: str, hint: str) -> PlanError:
        parts = [self._parts[part].alias for part in self._read_in(step) if part in self._parts]
        return self.error(name, step, f"{why}; it reads {' and '.join(parts)}" if parts else why, hint)

    @override
    def check_type(self, name: str, step: exp.Expression, place: int, type_: str) -> None:
        column = self.columns[name][place]
        if self._ctes[name].declared:
            return
        if self._scope.text.guarded(step, partial(common, column.type, type_)) != column.type:
            before = "in the first rows" if name in self.first else "in another branch"
            what = f"column {column.name} has the type {type_} here, and {column.type} {before}"
            raise self.error(name, step, what, f"write CAST(... AS {column.type}) here, or another type there")
