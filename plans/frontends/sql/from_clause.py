"""FROM: tables, CTEs and subqueries, and the joins between them. Part of `plans.frontends.sql`."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.expressions.build import NULL, Expr, call, cast
from plans.frontends.sql.refuse import conjuncts
from plans.frontends.sql.scalars.names import Ctes, Frame, Names
from plans.frontends.sql.scope import Relation, Scope
from plans.frontends.sql.text.place import extent, spelling
from plans.frontends.sql.windows import is_windows, query_of
from plans.queries.algebra import Query, SetOperation, Source, replaced
from plans.schema import tables_hint


class From(Names):
    """Adds what FROM names to the frame and to the scope."""

    @abstractmethod
    def flattened(
        self, node: exp.Expression, ctes: Ctes, group: int, outer: Scope | None, unique: bool = True
    ) -> list[tuple[str, Expr]]:
        """Flattens a SELECT into the frame. Returns its output columns, whose names must differ if `unique`."""

    @abstractmethod
    def flat(self, node: exp.Expression) -> bool:
        """Returns whether a query can be flattened: it is a SELECT without aggregates and outer joins."""

    @abstractmethod
    def condition(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> None:
        """Adds a condition to the frame."""

    def relation(self, node: exp.Expression, ctes: Ctes, group: int, scope: Scope) -> None:
        """Adds a table, a CTE or a subquery to the scope."""
        if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins"):
            self.joined(node, ctes, group, scope)
            return
        if isinstance(node, exp.Paren):
            self.relation(node.this, ctes, group, scope)
            return
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self.check_table(node)
            name = ".".join(part.name for part in node.parts)
            alias = node.alias or node.name
            if name.lower() in ctes:
                body, columns, visible = ctes[name.lower()]
                self.subquery(body, alias, tuple(node.alias_column_names) or columns, visible, group, scope, node)
            else:
                self.table(name, alias, group, scope, node)
            return
        if isinstance(node, exp.Subquery):
            inner = tables_in(node)
            if inner is not None:
                if node.args.get("alias"):
                    hint = f"write (SELECT * FROM ...) AS {node.alias}"
                    raise self.error("a name for tables in parentheses is not supported", node, hint)
                self.relation(inner, ctes, group, scope)
                return
            columns = tuple(node.alias_column_names)
            alias = node.alias or f"subquery{len(self.frame.sources)}"
            self.subquery(node.this, alias, columns, ctes, group, scope, node)
            return
        if isinstance(node, exp.Table) and is_windows(node):
            body = self.guarded(node, partial(query_of, node))
            alias = node.alias or f"subquery{len(self.frame.sources)}"
            self.subquery(body, alias, tuple(node.alias_column_names), ctes, group, scope, node)
            return
        called = (node.this if isinstance(node, exp.Table) else None) or node
        raise self.error(f"{spelling(self.text, called)} in FROM is not supported", node, "use tables and subqueries")

    def table(self, name: str, alias: str, group: int, scope: Scope, node: exp.Table) -> None:
        """Adds a base table."""
        if name not in self.schema:
            close = difflib.get_close_matches(name, list(self.schema), 1)
            hint = f"did you mean {close[0]}?" if close else tables_hint(self.schema, name)
            places = [place for part in node.parts if (place := extent(part)) is not None]
            raise self.error(f"unknown table {name}", node, hint, (places[0][0], places[-1][1]) if places else None)
        names = tuple(node.alias_column_names)
        self.check_names(alias, names, len(self.schema[name].columns), node)
        self.source(Source(self.alias(alias), self.schema[name], group), alias, names, scope, node)

    def check_names(self, alias: str, names: tuple[str, ...], count: int, node: exp.Expression) -> None:
        """Raises PlanError if a relation of so many columns cannot have these names for them; none is right, too."""
        if names and len(names) != count:
            raise self.error(f"{alias} has {count} columns, and names for {len(names)}", node, "name all of them")
        twice = [name for i, name in enumerate(names) if name.lower() in {other.lower() for other in names[:i]}]
        if twice:
            raise self.error(f"two columns of {alias} are called {twice[0]}", node)

    def source(self, source: Source, alias: str, names: tuple[str, ...], scope: Scope, node: exp.Expression) -> None:
        """Adds a source under a name, with its columns under `names` if there are any."""
        self.frame.sources.append(source)
        spelled = names or tuple(column.name for column in source.table.columns)
        pairs = zip(spelled, source.table.columns, strict=True)
        self.add(scope, Relation(alias, {n.lower(): (n, source.qualified(c.name)) for n, c in pairs}), node)

    def subquery(
        self,
        body: exp.Expression,
        alias: str,
        names: tuple[str, ...],
        ctes: Ctes,
        group: int,
        scope: Scope,
        node: exp.Expression,
    ) -> None:
        """Adds a subquery or a CTE: flattened if it can be, else as a relation of its own."""
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if not self.flat(body):
            relation = self.read(body, ctes, None, unique=not names)
            self.check_names(alias, names, len(relation.columns), node)
            self.source(self.derived(relation, alias, group), alias, names, scope, node)
            return
        inner = group
        distinct = bool(body.args.get("distinct")) and group == 0  # inside a group nothing is counted anyway
        if distinct:
            self.groups += 1
            inner = self.groups
        outputs = self.flattened(body, ctes, inner, None, unique=not names)
        if distinct:
            self.frame.keys.append((inner, tuple(expr for _, expr in outputs)))
        self.check_names(alias, names, len(outputs), node)
        named = zip(names or [name for name, _ in outputs], [expr for _, expr in outputs], strict=True)
        self.add(scope, Relation(alias, {name.lower(): (name, expr) for name, expr in named}), node)

    # JOIN -----------------------------------------------------------------------------------------------------------

    def join(self, join: exp.Join, ctes: Ctes, group: int, scope: Scope) -> None:
        """Adds what JOIN names, and its conditions."""
        kind, method = self.check_join(join)
        if kind in ("LEFT", "RIGHT", "FULL", "ANTI"):
            self.outer(join, kind, method, ctes, scope)
            return
        if kind == "SEMI":
            self.groups += 1
            group = self.groups
        other = Scope(scope.outer)
        on = self.named_by_join(join, ctes, group, other, kind == "SEMI")
        self.merge(join, kind, method, scope, other)
        for part in on:
            self.condition(part, ctes, scope)
        if kind == "SEMI":
            scope.remove(other)

    def joined(self, node: exp.Expression, ctes: Ctes, group: int, scope: Scope) -> None:
        """Adds a join in parentheses. What an outer join in them joins is in a frame of its own: the sources that are
        there already stand outside of the parentheses.
        """
        first, joins = node.copy(), node.args["joins"]
        first.set("joins", None)
        words = {(join.side or join.kind or "").upper() for join in joins_of(node)}
        padded, frame, pending = bool(words & {"RIGHT", "FULL"}), self.frame, self.pending
        apart = (padded and bool(frame.sources)) or (group != 0 and bool(words - {"", "INNER", "CROSS"}))
        if padded:
            self.pending = []  # what is said of rows behind the join is not said of those before it
        if apart:
            self.frame = Frame()
        inside = 0 if apart else group
        self.relation(first, ctes, inside, scope)
        for join in joins:
            self.join(join, ctes, inside, scope)
        if padded:
            self.pending = pending
        if apart:
            made = self.one_source(self.frame, scope.relations, scope)
            self.frame = frame
            frame.sources.append(replace(made, group=group))

    def named_by_join(
        self, join: exp.Join, ctes: Ctes, group: int, scope: Scope, apart: bool = False
    ) -> list[exp.Expression]:
        """Adds what JOIN names; returns the conditions of ON but those that bound a ROW_NUMBER() of it.

        `apart`: WHERE says nothing of its rows.
        """
        on = join.args.get("on")
        if on is not None:
            self.check_no_aggregate(on, "ON")
        parts = [] if on is None else conjuncts(on)
        side, around = (join.side or "").upper(), self.pending
        self.pending = ([] if apart else around) + ([] if side in ("RIGHT", "FULL") else parts)
        usable = list(self.pending)
        self.relation(join.this, ctes, group, scope)
        used = [one for one in usable if not any(one is other for other in self.pending)]
        self.pending = [one for one in around if not any(one is other for other in used)]
        return [one for one in parts if not any(one is other for other in used)]

    def merge(self, join: exp.Join, kind: str, method: str, left: Scope, right: Scope) -> None:
        """Adds the right side of a join to the scope of the left one; USING and NATURAL merge columns."""
        if method == "NATURAL":
            names = [name for name in dict.fromkeys(s for _, s, _ in left.visible()) if right.having(name)]
        else:
            names = [identifier.name for identifier in join.args.get("using") or ()]
        merged = []
        for name in names:
            (relation, one), (_, two) = self.using(name, left, right, join)
            self.frame.conditions.append(self.guarded(join, partial(call, "eq", one, two)))
            if kind in ("RIGHT", "FULL"):
                relation.shown[name.lower()] = two if kind == "RIGHT" else call("coalesce", one, two)
            merged.append((relation.alias.lower(), name.lower()))
        for relation in right.relations:
            self.check_alias(left, relation, join)
        left.join(right, merged)

    def using(
        self, name: str, left: Scope, right: Scope, join: exp.Join
    ) -> tuple[tuple[Relation, Expr], tuple[Relation, Expr]]:
        """Returns the two columns of a USING name, with what shows them; only that of the left is shown from now on."""
        ours, theirs = left.having(name), right.having(name)
        if not ours or not theirs:
            raise self.error(f"USING({name}): both sides of the join must have this column", join)
        if len(ours) > 1 or len(theirs) > 1:
            raise self.error(f"USING({name}) is ambiguous: several tables have it", join, "join with ON")
        theirs[0][0].hidden.add(name.lower())
        return ours[0], theirs[0]

    def outer(self, join: exp.Join, kind: str, method: str, ctes: Ctes, scope: Scope) -> None:
        """Adds an outer or anti join: both sides become one source each where they are more."""
        frame, before = self.frame, list(scope.relations)
        if kind in ("RIGHT", "FULL"):
            before_source = self.one_source(frame, before, scope)
        self.frame = Frame()
        inner = Scope(scope.outer)
        conditions = self.named_by_join(join, ctes, 0, inner, True)
        right = self.one_source(self.frame, inner.relations, inner)
        self.frame = frame
        on = self.outer_condition(join, kind, method, ctes, scope, inner, conditions)
        if kind in ("LEFT", "ANTI"):
            frame.sources.append(replace(right, join=kind.lower(), on=on))
        elif kind == "RIGHT":
            frame.sources[:] = [right, replace(before_source, join="left", on=on)]
        else:
            frame.sources[:] = [self.full(before_source, right, on, scope)]
        if kind == "ANTI":
            scope.remove(inner)

    def outer_condition(
        self,
        join: exp.Join,
        kind: str,
        method: str,
        ctes: Ctes,
        scope: Scope,
        right: Scope,
        written: list[exp.Expression],
    ) -> tuple[Expr, ...]:
        """Returns the conditions of an outer join, which stay with it; its right side comes into the scope, and USING
        merges columns.
        """
        conditions, count = self.frame.conditions, len(self.frame.sources)
        self.frame.conditions = []
        self.merge(join, kind, method, scope, right)
        for part in written:
            self.condition(part, ctes, scope)
        on, self.frame.conditions = tuple(self.frame.conditions), conditions
        if len(self.frame.sources) > count:
            raise self.error(
                f"a subquery in ON of a {kind} JOIN is not supported", join, "put it into a subquery in FROM"
            )
        return on

    def one_source(self, frame: Frame, relations: list[Relation], scope: Scope) -> Source:
        """Returns the one source of a frame; if it has several, or conditions, a relation of its own, and `relations`
        are columns of that.
        """
        first = frame.sources[0]
        plain = all(expr.op == "col" for relation in relations for _, expr in relation.columns.values())
        if plain and len(frame.sources) == 1 and not frame.conditions and first.group == 0 and first.join == "inner":
            frame.sources.clear()
            return first
        outputs: list[tuple[str, Expr]] = []
        for relation in relations:
            for spelled, expr in relation.columns.values():
                if expr not in [known for _, known in outputs]:
                    name = f"{relation.alias}_{spelled}"
                    outputs.append((f"{name}_{len(outputs)}" if name in dict(outputs) else name, expr))
        query = Query(
            self.text, tuple(frame.sources), tuple(frame.conditions), tuple(outputs), False, tuple(frame.keys)
        )
        made = self.derived(query, "_".join(relation.alias for relation in relations))
        self.rename(relations, scope, {expr: made.qualified(name) for name, expr in outputs})
        frame.sources.clear()
        frame.conditions.clear()
        frame.keys.clear()
        return made

    def rename(self, relations: list[Relation], scope: Scope, names: dict[Expr, Expr]) -> None:
        """Lets columns of relations in a scope stand for other expressions."""
        for relation in relations:
            relation.columns = {key: (s, replaced(expr, names)) for key, (s, expr) in relation.columns.items()}
            relation.shown = {key: replaced(expr, names) for key, expr in relation.shown.items()}

    def full(self, left: Source, right: Source, on: tuple[Expr, ...], scope: Scope) -> Source:
        """Returns FULL JOIN: the left join, and the right rows without a partner padded with NULLs."""
        ours = [(f"l_{c.name}", left.qualified(c.name)) for c in left.table.columns]
        theirs = [(f"r_{c.name}", right.qualified(c.name)) for c in right.table.columns]
        padded = [(name, cast(NULL, expr.type)) for name, expr in ours]
        matched = Query(self.text, (left, replace(right, join="left", on=on)), (), (*ours, *theirs), False)
        alone = Query(self.text, (right, replace(left, join="anti", on=on)), (), (*padded, *theirs), False)
        made = self.derived(SetOperation((matched, alone), ("union_all", 0, 1)), f"{left.alias}_{right.alias}")
        self.rename(scope.relations, scope, {expr: made.qualified(name) for name, expr in (*ours, *theirs)})
        return made


def tables_in(node: exp.Expression) -> exp.Expression | None:
    """Returns the table, or the join, that parentheses in FROM stand around; None if it is a query, or there are no
    parentheses."""
    inner = node
    while isinstance(inner, (exp.Subquery, exp.Paren)):
        inner = inner.this
        named = isinstance(inner, exp.Subquery) and (inner.alias or inner.args.get("joins"))
        if named or isinstance(inner, exp.Table):
            return inner
    return None


def joins_of(node: exp.Expression) -> list[exp.Join]:
    """Returns the joins of a FROM clause, or of one in parentheses: those in further parentheses, too."""
    found: list[exp.Join] = []
    todo = [node]
    while todo:
        part = todo.pop()
        joins = part.args.get("joins") or () if isinstance(part, (exp.Select, exp.Table, exp.Subquery)) else ()
        found += joins
        start = part.args.get("from_") or part.args.get("from") if isinstance(part, exp.Select) else None
        inside = start.this if start is not None else tables_in(part)
        todo += [inner for inner in (inside, *(join.this for join in joins)) if inner is not None]
    return found
