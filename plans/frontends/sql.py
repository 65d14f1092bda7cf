"""SQL to a conjunctive query: the syntax tree of `plans.frontends.sqlparse`, flattened.

Read: SELECT [DISTINCT] over tables, aliases, CTEs and subqueries that are themselves conjunctive; inner joins written
with commas, ON, USING or NATURAL; WHERE; IN, EXISTS and LEFT SEMI JOIN as semi-joins. Subqueries are flattened into
their parent: a column of a subquery is an expression over the columns of its tables. Everything else is refused by
name, with its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from sqlglot import exp

from plans.algebra import Query, Source, check_output_name
from plans.conjunction import join_type
from plans.errors import PlanError, Position, pointed
from plans.expressions.build import Expr, call
from plans.frontends.sqlparse import Words, double_quoted, statements
from plans.frontends.sqlplace import extent, place_of, spelling
from plans.frontends.sqlrefuse import Refuser
from plans.frontends.sqlscalar import scalar
from plans.frontends.sqlscope import Relation, Scope
from plans.schema import Schema
from plans.stack import MAX_NESTING, with_room

_T = TypeVar("_T")
_Ctes = Mapping[str, tuple[exp.Expression, tuple[str, ...], "_Ctes"]]


class _Reader(Refuser):
    """Flattens a SELECT and everything in it into one list of sources and one of conditions."""

    def __init__(self, text: str, schema: Schema, words: Words) -> None:
        super().__init__(text, words)
        self.schema = schema
        self.sources: list[Source] = []
        self.conditions: list[Expr] = []
        self.keys: list[tuple[Expr, ...]] = []
        self.notes: list[str] = []
        self.warnings: dict[int, str] = {}  # by place
        self.groups = 0
        self.depth = 0

    def guarded(self, node: exp.Expression, build: Callable[[], _T]) -> _T:
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, place_of(self.text, node)) from None

    # SELECT ---------------------------------------------------------------------------------------------------------

    def query(
        self, node: exp.Expression, ctes: _Ctes, group: int, outer: Scope | None, unique: bool = True
    ) -> list[tuple[str, Expr]]:
        """Flatten a query; its output columns, whose names must differ if `unique`."""
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if not isinstance(node, exp.Select):
            raise self.refuse_statement(node)
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"subqueries are nested more than {MAX_NESTING} deep", node, "leave some of them out")
        ctes = self.with_clause(node, ctes)
        self.check_clauses(node)
        scope = Scope(outer)
        start = node.args.get("from_") or node.args.get("from")
        if start is None:
            raise self.error("a SELECT without FROM has nothing to maintain", node)
        with_room(self.relation, start.this, ctes, group, scope)
        for join in node.args.get("joins") or ():
            self.join(join, ctes, group, scope)
        where = node.args.get("where")
        if where is not None:
            self.condition(where.this, ctes, scope)
        found = self.outputs(node, scope, unique)
        self.depth -= 1
        return found

    def with_clause(self, node: exp.Expression, ctes: _Ctes) -> _Ctes:
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            at = self.words.phrase("WITH RECURSIVE")
            raise self.error("WITH RECURSIVE is not supported", clause, "a plan is one join", at)
        if len(clause.expressions) > MAX_NESTING:
            raise self.error(f"WITH names more than {MAX_NESTING} queries", clause, "leave some of them out")
        known = dict(ctes)
        for cte in clause.expressions:
            known[cte.alias.lower()] = (cte.this, tuple(cte.alias_column_names), dict(known))
        return known

    def outputs(self, node: exp.Select, scope: Scope, unique: bool) -> list[tuple[str, Expr]]:
        found: list[tuple[str, Expr, exp.Expression]] = []
        for index, item in enumerate(node.expressions):
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star):
                if any(star.args.get(name) for name in ("except_", "except", "replace", "rename")):
                    raise self.error("* EXCEPT is not supported", item, "list the columns")
                found += [(name, expr, item) for name, expr in self.star(item, scope)]
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            name = item.alias_or_name or f"c{index}"
            value = self.scalar(inner, scope)
            if value.type == "null":
                raise self.error(f"output column {name} is NULL without a type", item, "write CAST(NULL AS ...)")
            found.append((name, value, item))
        seen: set[str] = set()
        for name, _, item in found:
            if unique and name.lower() in seen:
                raise self.error(f"two output columns are called {name}", item, "give one of them an alias: AS ...")
            seen.add(name.lower())
            if self.depth == 1:
                self.guarded(item, partial(check_output_name, name))
        return [(name, expr) for name, expr, _ in found]

    def star(self, item: exp.Expression, scope: Scope) -> list[tuple[str, Expr]]:
        relations = scope.relations
        if isinstance(item, exp.Column):
            named = scope.relation(item.table)
            if named is None:
                raise self.error(f"unknown table or alias {item.table}", item, self.known(scope))
            relations = [named]
        shown = [
            (relation, spelling, expr)
            for relation in relations
            for key, (spelling, expr) in relation.columns.items()
            if isinstance(item, exp.Column) or key not in relation.hidden
        ]
        count: dict[str, int] = {}
        for _, name, _ in shown:
            count[name.lower()] = count.get(name.lower(), 0) + 1
        if any(n > 1 for n in count.values()):
            self.notes.append("SELECT *: columns that several tables have are called table_column")
        return [(s if count[s.lower()] == 1 else f"{r.alias}_{s}", expr) for r, s, expr in shown]

    # FROM -----------------------------------------------------------------------------------------------------------

    def relation(self, node: exp.Expression, ctes: _Ctes, group: int, scope: Scope) -> None:
        """Add a table, a CTE or a subquery to the scope."""
        if isinstance(node, exp.Table) and node.args.get("joins"):
            joins = node.args["joins"]
            node = node.copy()
            node.set("joins", None)
            self.relation(node, ctes, group, scope)
            for join in joins:
                self.join(join, ctes, group, scope)
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
                self.subquery(body, alias, columns or tuple(node.alias_column_names), visible, group, scope, node)
            else:
                self.table(name, alias, group, scope, node)
            return
        if isinstance(node, exp.Subquery):
            inner = node.this
            while isinstance(inner, exp.Subquery) and not inner.alias:
                inner = inner.this
            if isinstance(inner, exp.Table):
                self.relation(inner, ctes, group, scope)
                return
            columns = tuple(node.alias_column_names)
            self.subquery(node.this, node.alias or f"subquery{len(self.sources)}", columns, ctes, group, scope, node)
            return
        called = node.this if isinstance(node, exp.Table) else node
        raise self.error(f"{spelling(self.text, called)} in FROM is not supported", node, "use tables and subqueries")

    def table(self, name: str, alias: str, group: int, scope: Scope, node: exp.Table) -> None:
        if name not in self.schema:
            close = difflib.get_close_matches(name, list(self.schema), 1)
            hint = f"did you mean {close[0]}?" if close else f"the schema has: {', '.join(self.schema) or 'no table'}"
            places = [place for part in node.parts if (place := extent(part)) is not None]
            raise self.error(f"unknown table {name}", node, hint, (places[0][0], places[-1][1]) if places else None)
        table = self.schema[name]
        taken = {source.alias.lower() for source in self.sources}
        unique, number = alias.replace(".", "_"), 1
        while unique.lower() in taken:
            number += 1
            unique = f"{alias}_{number}"
        source = Source(unique, table, group)
        self.sources.append(source)
        columns = {c.name.lower(): (c.name, source.qualified(c.name)) for c in table.columns}
        self.add(scope, Relation(alias, columns), node)

    def subquery(
        self,
        body: exp.Expression,
        alias: str,
        names: tuple[str, ...],
        ctes: _Ctes,
        group: int,
        scope: Scope,
        node: exp.Expression,
    ) -> None:
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        inner = group
        distinct = bool(body.args.get("distinct"))
        if distinct:
            self.groups += 1
            inner = self.groups
        outputs = self.query(body, ctes, inner, None, unique=not names)
        if distinct and group == 0:
            self.keys.append(tuple(expr for _, expr in outputs))
        if names and len(names) != len(outputs):
            raise self.error(f"{alias} names {len(names)} columns, its query has {len(outputs)}", node)
        named = zip(names or [name for name, _ in outputs], [expr for _, expr in outputs], strict=True)
        self.add(scope, Relation(alias, {name.lower(): (name, expr) for name, expr in named}), node)

    def add(self, scope: Scope, relation: Relation, node: exp.Expression) -> None:
        if any(other.alias.lower() == relation.alias.lower() for other in scope.relations):
            raise self.error(f"two tables are called {relation.alias}", node, "give one of them an alias")
        scope.relations.append(relation)

    def join(self, join: exp.Join, ctes: _Ctes, group: int, scope: Scope) -> None:
        kind, method = self.check_join(join)
        if kind == "SEMI":
            self.groups += 1
            group = self.groups
        left = list(scope.relations)
        self.relation(join.this, ctes, group, scope)
        right = scope.relations[-1]
        using = [identifier.name for identifier in join.args.get("using") or ()]
        if method == "NATURAL":
            using = [s for key, (s, _) in right.columns.items() if any(key in r.columns for r in left)]
        for name in using:
            self.using(name, left, right, scope, join)
        if join.args.get("on") is not None:
            self.condition(join.args["on"], ctes, scope)
        if kind == "SEMI":
            scope.relations.remove(right)

    def using(self, name: str, left: list[Relation], right: Relation, scope: Scope, join: exp.Join) -> None:
        key = name.lower()
        merged = [scope.merged[key]] if key in scope.merged else [r.columns[key][1] for r in left if key in r.columns]
        if not merged or key not in right.columns:
            raise self.error(f"USING({name}): both sides of the join must have this column", join)
        if len(merged) > 1:
            raise self.error(f"USING({name}) is ambiguous: several tables have it", join, "join with ON")
        other = right.columns[key][1]
        self.conditions.append(self.guarded(join, lambda: self.equal("eq", merged[0], other)))
        scope.merged[key] = merged[0]
        right.hidden.add(key)

    def equal(self, op: str, left: Expr, right: Expr) -> Expr:
        if left.op == "col" and right.op == "col" and left.value.split(".")[0] != right.value.split(".")[0]:
            join_type(left, right, left.type, right.type)
        return call(op, left, right)

    # WHERE ----------------------------------------------------------------------------------------------------------

    def condition(self, node: exp.Expression, ctes: _Ctes, scope: Scope) -> None:
        """Add a condition: conjuncts apart, IN and EXISTS as semi-joins."""
        todo = [node]
        while todo:
            part = todo.pop().unnest()
            if isinstance(part, exp.And):
                todo += [part.expression, part.this]
            else:
                with_room(self.conjunct, part, ctes, scope)

    def conjunct(self, node: exp.Expression, ctes: _Ctes, scope: Scope) -> None:
        if isinstance(node, exp.Exists) and not node.args.get("negate"):
            self.groups += 1
            body = node.this
            if isinstance(body, exp.Select) and not body.args.get("distinct"):
                body = body.copy().select(exp.Literal.number(1), append=False)
            self.query(body, ctes, self.groups, scope, unique=False)
            return
        if isinstance(node, exp.In) and node.args.get("query") is not None and not node.args.get("negate"):
            self.groups += 1
            this = node.this
            left = this.expressions if isinstance(this, exp.Tuple) else [this.unnest()]
            mine = [self.scalar(part, scope) for part in left]
            theirs = self.query(node.args["query"], ctes, self.groups, scope, unique=False)
            if len(mine) != len(theirs):
                raise self.error(f"IN compares {len(mine)} with {len(theirs)} columns", node)
            for one, (_, two) in zip(mine, theirs, strict=True):
                self.conditions.append(self.guarded(node, partial(self.equal, "eq", one, two)))
            return
        condition = self.scalar(node, scope)
        if condition.type != "bool":
            raise self.error(f"a condition is expected, not a value of type {condition.type}", node)
        self.conditions.append(condition)

    def scalar(self, node: exp.Expression, scope: Scope) -> Expr:
        for literal in double_quoted(node, self.text):
            self.warn(literal, scope)
        return scalar(node, lambda column: self.column(column, scope), self.text)

    def warn(self, literal: exp.Expression, scope: Scope) -> None:
        """Say so if text in double quotes, which is a constant, is called as something that the query could mean."""
        what = scope.meaning(str(literal.this))
        if what:
            start, end = literal.meta["start"], literal.meta["end"] + 1
            self.warnings[start] = pointed(
                f"{self.text[start:end]} is the text '{literal.this}' here, not {what}",
                self.text,
                Position.of(self.text, start, end),
                hint=f"write `{literal.this}` for the name, '{literal.this}' for the text; "
                "in the dialect 'ansi', double quotes write names",
            )

    def known(self, scope: Scope) -> str:
        """The tables of a scope, as a hint."""
        return "the query has: " + ", ".join(relation.alias for relation in scope.relations)

    def column(self, node: exp.Column, scope: Scope) -> Expr:
        name = node.name
        if node.args.get("db") is not None:
            raise self.error("a column has at most one qualifier here", node, "write table.column")
        if node.table:
            relation = scope.relation(node.table)
            if relation is None:
                raise self.error(f"unknown table or alias {node.table}", node, self.known(scope))
            if name.lower() not in relation.columns:
                own = ", ".join(spelling for spelling, _ in relation.columns.values())
                raise self.error(f"{relation.alias} has no column {name}", node, f"it has: {own}")
            return relation.columns[name.lower()][1]
        found = scope.lookup(name)
        if len(found) > 1:
            tables = [r.alias for r in scope.relations if name.lower() in r.columns]
            raise self.error(f"column {name} is ambiguous", node, "write " + " or ".join(f"{t}.{name}" for t in tables))
        if not found:
            close = difflib.get_close_matches(name, list(scope.names()), 1)
            raise self.error(f"unknown column {name}", node, f"did you mean {close[0]}?" if close else "")
        return found[0]


def parse(text: str, schema: Schema, *, dialect: str = "spark") -> Query:
    """The conjunctive query of one SELECT. PlanError, with the place, for everything else.

    `dialect`: `spark`, in which backticks quote names and double quotes write text, or `ansi`, in which double quotes
    write names.
    """
    found, words = statements(text, dialect)
    if len(found) != 1:
        what = f"not {len(found)} statements" if found else "the text has none"
        place = place_of(text, found[1]) if found else None
        raise PlanError(f"one SELECT is expected, {what}", position=place, text=text)
    reader = _Reader(text, schema, words)
    parameter = found[0].find(exp.Placeholder, exp.Parameter)
    if parameter is not None:
        place = parameter if extent(parameter) is not None else parameter.parent
        raise reader.error("a parameter is not supported", place, "write its value into the query")
    outputs = reader.query(found[0], {}, 0, None)
    body = found[0]
    while isinstance(body, (exp.Subquery, exp.Paren)):
        body = body.this
    return Query(
        text,
        tuple(reader.sources),
        tuple(reader.conditions),
        tuple(outputs),
        bool(body.args.get("distinct")),
        tuple(reader.keys),
        tuple(dict.fromkeys(reader.notes)),
        warnings=tuple(reader.warnings.values()),
    )
