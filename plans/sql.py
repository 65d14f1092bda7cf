"""SQL to a conjunctive query, by sqlglot. The only module that knows sqlglot.

Read: SELECT [DISTINCT] over tables, aliases, CTEs and subqueries that are themselves conjunctive; inner joins written
with commas, ON, USING or NATURAL; WHERE; IN, EXISTS and LEFT SEMI JOIN as semi-joins. Subqueries are flattened into
their parent: a column of a subquery is an expression over the columns of its tables. Everything else is refused by
name, with its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import TokenType

from plans.conjunction import join_type
from plans.errors import PlanError, Position
from plans.expressions import Expr, call
from plans.query import Query, Source
from plans.schema import Schema
from plans.sqlscalar import place_of, scalar

_CLAUSES = {
    "group": ("GROUP BY", "aggregates are not supported: maintain the join and aggregate its deltas downstream"),
    "having": ("HAVING", "aggregates are not supported: filter downstream"),
    "order": ("ORDER BY", "a maintained result has no order: sort where it is read"),
    "sort": ("SORT BY", "a maintained result has no order: sort where it is read"),
    "limit": ("LIMIT", "a maintained result is the whole result: limit where it is read"),
    "offset": ("OFFSET", "a maintained result is the whole result: limit where it is read"),
    "qualify": ("QUALIFY", "window functions are not supported"),
    "windows": ("WINDOW", "window functions are not supported"),
    "laterals": ("LATERAL VIEW", "explode the column before it enters the stream"),
    "pivots": ("PIVOT", "pivot where the result is read"),
    "sample": ("TABLESAMPLE", "sample the input stream instead"),
    "connect": ("CONNECT BY", "recursion is not supported"),
    "into": ("INTO", "write the deltas with a sink"),
}

# What a node may carry besides; anything else changes what it means and is refused by its name.
_SELECT = {"with_", "with", "expressions", "hint", "distinct", "into", "from_", "from", "joins", "where", "kind"}
_JOIN = {"this", "on", "using", "kind", "side", "method"}
_TABLE = {"this", "alias", "db", "catalog", "joins"}


class SparkSQL(Spark):
    """Spark's SQL as Spark 4 reads it: a doubled quote in a string is a quote."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with the doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\", '"']

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]
        """Spark's grammar, with the plus sign before a value, which makes a number of a string there."""

        UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: self.expression(exp.Anonymous(this="+", expressions=[self._parse_unary()])),
        }


@dataclass
class _Relation:
    """A name in FROM and its columns: name in lower case to (spelling, expression over qualified columns)."""

    alias: str
    columns: dict[str, tuple[str, Expr]]
    hidden: set[str] = field(default_factory=set)  # USING columns that a star shows only once


@dataclass
class _Scope:
    """The names that a SELECT sees; `merged` are its USING columns; `outer` the scope around a correlated subquery."""

    outer: _Scope | None
    relations: list[_Relation] = field(default_factory=list)
    merged: dict[str, Expr] = field(default_factory=dict)

    def relation(self, alias: str) -> _Relation | None:
        wanted = alias.lower()
        found = next((r for r in self.relations if r.alias.lower() == wanted), None)
        return found or (self.outer.relation(alias) if self.outer else None)

    def lookup(self, name: str) -> list[Expr]:
        """The columns of that name, of the nearest scope that has one."""
        if name.lower() in self.merged:
            return [self.merged[name.lower()]]
        found = [r.columns[name.lower()][1] for r in self.relations if name.lower() in r.columns]
        return found or (self.outer.lookup(name) if self.outer else [])

    def names(self) -> Iterator[str]:
        for relation in self.relations:
            for spelling, _ in relation.columns.values():
                yield from (spelling, f"{relation.alias}.{spelling}")


_Ctes = Mapping[str, tuple[exp.Expression, tuple[str, ...], "_Ctes"]]


class _Reader:
    """Flattens a SELECT and everything in it into one list of sources and one of conditions."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text = text
        self.schema = schema
        self.sources: list[Source] = []
        self.conditions: list[Expr] = []
        self.keys: list[tuple[Expr, ...]] = []
        self.notes: list[str] = []
        self.groups = 0

    def error(self, message: str, node: exp.Expression | None = None, hint: str = "", word: str = "") -> PlanError:
        return PlanError(message, hint=hint, position=place_of(self.text, node, word), text=self.text)

    def guarded(self, node: exp.Expression, build: Callable[[], Expr]) -> Expr:
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, place_of(self.text, node)) from None

    # SELECT ---------------------------------------------------------------------------------------------------------

    def query(
        self, node: exp.Expression, ctes: _Ctes, group: int, outer: _Scope | None, unique: bool = True
    ) -> list[tuple[str, Expr]]:
        """Flatten a query; its output columns, whose names must differ if `unique`."""
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if not isinstance(node, exp.Select):
            raise self.refuse_statement(node)
        ctes = self.with_clause(node, ctes)
        for name, (words, hint) in _CLAUSES.items():
            if node.args.get(name):
                raise self.error(f"{words} is not supported", hint=hint, word=words)
        self.check_arguments(node, _SELECT, "SELECT")
        if node.args.get("distinct") and node.args["distinct"].args.get("on"):
            raise self.error("DISTINCT ON is not supported", hint="it picks rows by order", word="DISTINCT ON")
        scope = _Scope(outer)
        start = node.args.get("from_") or node.args.get("from")
        if start is None:
            raise self.error("a SELECT without FROM has nothing to maintain", node)
        self.relation(start.this, ctes, group, scope)
        for join in node.args.get("joins") or ():
            self.join(join, ctes, group, scope)
        where = node.args.get("where")
        if where is not None:
            self.condition(where.this, ctes, scope)
        return self.outputs(node, scope, unique)

    def check_arguments(self, node: exp.Expression, known: set[str], what: str) -> None:
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                raise self.error(f"{what} with {name.strip('_').upper()} is not supported", node, word=name)

    def refuse_statement(self, node: exp.Expression) -> PlanError:
        if isinstance(node, exp.SetOperation):
            word = node.key.upper()
            hint = "maintain each branch as a view of its own and combine them downstream"
            return self.error(f"{word} is not supported", hint=hint, word=word)
        word = node.key.upper()
        return self.error(f"{word} is not a query that can be maintained", node, "write a SELECT", word)

    def with_clause(self, node: exp.Expression, ctes: _Ctes) -> _Ctes:
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise self.error("WITH RECURSIVE is not supported", hint="a plan is one join", word="WITH RECURSIVE")
        known = dict(ctes)
        for cte in clause.expressions:
            known[cte.alias.lower()] = (cte.this, tuple(cte.alias_column_names), dict(known))
        return known

    def outputs(self, node: exp.Select, scope: _Scope, unique: bool) -> list[tuple[str, Expr]]:
        found: list[tuple[str, Expr, exp.Expression]] = []
        for index, item in enumerate(node.expressions):
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star):
                if any(star.args.get(name) for name in ("except_", "except", "replace", "rename")):
                    raise self.error("* EXCEPT is not supported", item, "list the columns", word="EXCEPT")
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
        return [(name, expr) for name, expr, _ in found]

    def star(self, item: exp.Expression, scope: _Scope) -> list[tuple[str, Expr]]:
        relations = scope.relations
        if isinstance(item, exp.Column):
            named = scope.relation(item.table)
            if named is None:
                raise self.error(f"unknown table or alias {item.table}", item)
            relations = [named]
        shown = [
            (relation, spelling, expr)
            for relation in relations
            for key, (spelling, expr) in relation.columns.items()
            if isinstance(item, exp.Column) or key not in relation.hidden
        ]
        count: dict[str, int] = {}
        for _, spelling, _ in shown:
            count[spelling.lower()] = count.get(spelling.lower(), 0) + 1
        if any(n > 1 for n in count.values()):
            self.notes.append("SELECT *: columns that several tables have are called table_column")
        return [(s if count[s.lower()] == 1 else f"{r.alias}_{s}", expr) for r, s, expr in shown]

    # FROM -----------------------------------------------------------------------------------------------------------

    def relation(self, node: exp.Expression, ctes: _Ctes, group: int, scope: _Scope) -> None:
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
            self.check_arguments(node, _TABLE, "a table")
            name = ".".join(part.name for part in node.parts)
            alias = node.alias or node.name
            if name.lower() in ctes:
                body, columns, visible = ctes[name.lower()]
                self.subquery(body, alias, columns or tuple(node.alias_column_names), visible, group, scope, node)
            else:
                self.table(name, alias, group, scope, node)
            return
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):
                self.relation(node.this, ctes, group, scope)
                return
            columns = tuple(node.alias_column_names)
            self.subquery(node.this, node.alias or f"subquery{len(self.sources)}", columns, ctes, group, scope, node)
            return
        raise self.error(f"{node.key.upper()} in FROM is not supported", node, "use tables and subqueries")

    def table(self, name: str, alias: str, group: int, scope: _Scope, node: exp.Expression) -> None:
        if name not in self.schema:
            close = difflib.get_close_matches(name, list(self.schema), 1)
            hint = f"did you mean {close[0]}?" if close else f"the schema has: {', '.join(self.schema) or 'no table'}"
            raise self.error(f"unknown table {name}", node, hint)
        table = self.schema[name]
        taken = {source.alias.lower() for source in self.sources}
        unique, number = alias.replace(".", "_"), 1
        while unique.lower() in taken:
            number += 1
            unique = f"{alias}_{number}"
        source = Source(unique, table, group)
        self.sources.append(source)
        columns = {c.name.lower(): (c.name, source.qualified(c.name)) for c in table.columns}
        self.add(scope, _Relation(alias, columns), node)

    def subquery(
        self,
        body: exp.Expression,
        alias: str,
        names: tuple[str, ...],
        ctes: _Ctes,
        group: int,
        scope: _Scope,
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
        self.add(scope, _Relation(alias, {name.lower(): (name, expr) for name, expr in named}), node)

    def add(self, scope: _Scope, relation: _Relation, node: exp.Expression) -> None:
        if any(other.alias.lower() == relation.alias.lower() for other in scope.relations):
            raise self.error(f"two tables are called {relation.alias}", node, "give one of them an alias")
        scope.relations.append(relation)

    def join(self, join: exp.Join, ctes: _Ctes, group: int, scope: _Scope) -> None:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        method = (join.args.get("method") or "").upper()
        self.check_arguments(join, _JOIN, "JOIN")
        if kind == "ANTI":
            raise self.error("ANTI JOIN is not supported", join, "negation is not supported", word="ANTI")
        if (side and not (side == "LEFT" and kind == "SEMI")) or kind == "OUTER" or method not in ("", "NATURAL"):
            word = side or kind or method
            raise self.error(
                f"{word} JOIN is not supported", join, "only inner joins are maintained: use JOIN", word=f"{word} JOIN"
            )
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

    def using(self, name: str, left: list[_Relation], right: _Relation, scope: _Scope, join: exp.Join) -> None:
        key = name.lower()
        merged = [scope.merged[key]] if key in scope.merged else [r.columns[key][1] for r in left if key in r.columns]
        if not merged or key not in right.columns:
            raise self.error(f"USING({name}): both sides of the join must have this column", join, word=name)
        if len(merged) > 1:
            raise self.error(f"USING({name}) is ambiguous: several tables have it", join, "join with ON", word=name)
        other = right.columns[key][1]
        self.conditions.append(self.guarded(join, lambda: self.equal("eq", merged[0], other)))
        scope.merged[key] = merged[0]
        right.hidden.add(key)

    def equal(self, op: str, left: Expr, right: Expr) -> Expr:
        if left.op == "col" and right.op == "col" and left.value.split(".")[0] != right.value.split(".")[0]:
            join_type(left, right, left.type, right.type)
        return call(op, left, right)

    # WHERE ----------------------------------------------------------------------------------------------------------

    def condition(self, node: exp.Expression, ctes: _Ctes, scope: _Scope) -> None:
        """Add a condition: conjuncts apart, IN and EXISTS as semi-joins."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.And):
            self.condition(node.this, ctes, scope)
            self.condition(node.expression, ctes, scope)
            return
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

    def scalar(self, node: exp.Expression, scope: _Scope) -> Expr:
        return scalar(node, lambda column: self.column(column, scope), self.text)

    def column(self, node: exp.Column, scope: _Scope) -> Expr:
        name = node.name
        if node.table:
            relation = scope.relation(node.table)
            if relation is None:
                raise self.error(f"unknown table or alias {node.table}", node)
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

    `dialect` is sqlglot's name of the SQL that is read (`spark`: backticks quote names; `duckdb`, `postgres`: double
    quotes).
    """
    try:
        statements: list[Any] = [
            s for s in sqlglot.parse(text, read=SparkSQL if dialect == "spark" else dialect) if s is not None
        ]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        word = first.get("highlight") or ""
        position = Position(first.get("line") or 1, max(1, (first.get("col") or 1) - len(word) + 1), max(1, len(word)))
        message = str(first.get("description") or error).split("\n")[0].rstrip(".")
        raise PlanError(f"SQL: {_plain(message)}", position=position, text=text) from None
    except TokenError as error:
        raise PlanError(f"SQL: {str(error).splitlines()[0]}", text=text) from None
    except (SqlglotError, ValueError) as error:
        raise PlanError(f"SQL: {error}") from None
    if len(statements) != 1:
        raise PlanError(f"one SELECT is expected, not {len(statements)} statements", text=text)
    reader = _Reader(text, schema)
    parameter = statements[0].find(exp.Placeholder, exp.Parameter)
    if parameter is not None:
        raise reader.error("a parameter is not supported", parameter, "write its value into the query")
    outputs = reader.query(statements[0], {}, 0, None)
    body = statements[0]
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
    )


def _plain(message: str) -> str:
    """Without sqlglot's own object descriptions."""
    missing = re.search(r"Required keyword: .* missing for <class '.*\.(\w+)'>", message)
    return f"{missing[1].upper()} is not complete" if missing else message.split(" but got <Token")[0]
