"""GROUP BY, HAVING and aggregates: which there are, their types, and the group that a SELECT is.

Part of `plans.frontends.sql`. Aggregates and grouped expressions become columns, named as the keys and aggregates of
`plans.queries.algebra.Group`; what is left over of other columns is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import NULL, TRUE, Expr, cast, col, conjoin
from plans.frontends.aggregates import ONCE, result_type
from plans.frontends.sql.aggregates import aggregates, function_of
from plans.frontends.sql.scalars.names import Ctes, Frame
from plans.frontends.sql.scope import Scope, output_name
from plans.frontends.sql.text.place import spelling
from plans.frontends.sql.where import Where
from plans.program import Aggregate
from plans.queries.algebra import Group, Query, replaced, split, unused

# What the call of an aggregate may carry besides; anything else changes what it means.
_CARRIED = {"this", "expression", "expressions", "zero_on_all_null", "big_int"}
_OF_SEVERAL = {"max": "use GREATEST inside of it", "min": "use LEAST inside of it"}


class Grouping(Where):
    """Reads a SELECT with GROUP BY, HAVING or aggregates, whose FROM and WHERE are in the frame."""

    def aggregated(self, node: exp.Select) -> bool:
        """Returns whether a SELECT has aggregates of its own."""
        having = node.args.get("having")
        parts = [*node.expressions, *([having.this] if having is not None else [])]
        return any(next(aggregates(part), None) is not None for part in parts)

    def grouped(self, node: exp.Select, ctes: Ctes, scope: Scope, ties: list[Expr] | None = None) -> Group | Query:
        """Returns the group of a SELECT; `ties` are further keys, which come first. The frame is used up."""
        rows = _Rows(self, self.frame, scope)
        for tie in ties or ():
            rows.key(tie, "tie")
        group = node.args.get("group")
        for item in self.group_items([] if group is None else group.args.get("every") or [], node, scope):
            self.check_no_aggregate(item, "GROUP BY")
            rows.one_of_several(self.scalar(item.this if isinstance(item, exp.Alias) else item, scope, ctes))
        for item in self.group_items([] if group is None else group.expressions, node, scope):
            if next(aggregates(item), None) is not None:
                raise self.error("GROUP BY an aggregate is not possible", item, "group by columns of the tables")
            wish = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else "key"
            expr = self.scalar(item.this if isinstance(item, exp.Alias) else item, scope, ctes)
            rows.key(expr, wish or "key")
        whole = (group is None or bool(group.args.get("whole"))) and not ties
        around, self.frame = self.frame, Frame()  # subqueries beside aggregates join the groups, not the rows
        outputs = [(name, rows.value(expr, ctes), item) for name, expr, item in self.items(node, scope)]
        having = node.args.get("having")
        condition = rows.value(having.this, ctes, self.aliases(outputs)) if having is not None else None
        if condition is not None and condition.type != "bool":
            raise self.error(f"a condition is expected, not a value of type {condition.type}", having)
        beside, self.frame = self.frame, around
        for name, expr, item in outputs:
            if expr.type == "null":
                raise self.error(f"output column {name} is NULL without a type", item, "write CAST(NULL AS ...)")
        pairs = tuple((name, expr) for name, expr, _ in outputs)
        if not beside.sources:
            return rows.group(pairs, condition, whole)
        return self.beside(rows, pairs, condition, whole, beside)

    def beside(
        self, rows: _Rows, outputs: tuple[tuple[str, Expr], ...], having: Expr | None, whole: bool, frame: Frame
    ) -> Query:
        """Returns a query that joins the groups with what subqueries in SELECT and HAVING need."""
        columns = [(name, col(name, type_)) for name, type_ in rows.names.items()]
        source = self.derived(rows.group(tuple(columns), None, whole), "groups")
        names = {expr: source.qualified(name) for name, expr in columns}
        names |= {expr: names.get(known, known) for expr, known in rows.known().items()}  # as subqueries wrote them
        conditions = [*frame.conditions, *([having] if having is not None else [])]
        sources = [replace(s, on=tuple(replaced(e, names) for e in s.on)) for s in frame.sources]
        known = {s.alias for s in (source, *sources)}
        for expr in (*(replaced(one, names) for one in conditions), *(e for s in sources for e in s.on)):
            for name in expr.columns:
                if split(name)[0] not in known:
                    raise PlanError(
                        f"a subquery in SELECT or HAVING reads {name}, which is not grouped by", hint="group by it"
                    )
        return Query(
            self.text,
            (source, *sources),
            tuple(replaced(one, names) for one in conditions),
            tuple((name, replaced(expr, names)) for name, expr in outputs),
            False,
            tuple((g, tuple(replaced(e, names) for e in es)) for g, es in frame.keys),
        )

    def group_items(self, given: list[exp.Expression], node: exp.Select, scope: Scope) -> list[exp.Expression]:
        """Returns what GROUP BY lists: ordinals and aliases stand for what is selected."""
        group = node.args.get("group")
        for name, value in () if group is None else group.args.items():
            if name not in ("expressions", "every", "whole") and value:
                word = {"all": "GROUP BY ALL"}.get(name, name.upper().replace("_", " "))
                raise self.error(f"{word} is not supported", group, "list the columns", self.words.phrase(word))
        items = []
        for item in given:
            if isinstance(item, exp.Literal) and not item.is_string:
                position = int(item.this) if str(item.this).isdigit() else 0
                if not 1 <= position <= len(node.expressions):
                    raise self.error(f"GROUP BY {item.this}: there is no such output column", item)
                items.append(node.expressions[position - 1])
            else:
                items.append(self.selected(item, node, scope))
        return items

    def selected(self, item: exp.Expression, node: exp.Select, scope: Scope) -> exp.Expression:
        """Returns what an item of GROUP BY stands for: a column of the tables, or else an output column's name."""
        if isinstance(item, exp.Column) and not item.table and not scope.lookup(item.name):
            named = [part for part in node.expressions if part.alias.lower() == item.name.lower()]
            return named[0] if named else item
        return item

    def items(self, node: exp.Select, scope: Scope) -> Iterator[tuple[str, exp.Expression, exp.Expression]]:
        """Yields name, expression and place of what is selected."""
        for index, item in enumerate(node.expressions):
            if item.find(exp.Star) is not None and not isinstance(item.unalias(), (exp.Count, exp.Filter)):
                star = isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
                if star:
                    raise self.error("* beside aggregates or GROUP BY is not supported", item, "list the columns")
            yield output_name(item, index), item.unalias(), item

    def aliases(self, outputs: list[tuple[str, Expr, exp.Expression]]) -> dict[str, Expr]:
        """Returns the names that HAVING may use for what is selected."""
        return {name.lower(): expr for name, expr, item in outputs if isinstance(item, exp.Alias)}


class _Rows:
    """What is grouped: the rows of FROM and WHERE, with a column per key and per argument of an aggregate."""

    def __init__(self, reader: Grouping, frame: Frame, scope: Scope) -> None:
        self.reader, self.frame, self.scope = reader, frame, scope
        self.columns: dict[str, Expr] = {}
        self.keys: dict[Expr, str] = {}
        self.calls: dict[tuple[object, ...], Aggregate] = {}
        self.absent: dict[Expr, Expr] = {}  # what other groupings of the query group by: it is NULL

    @property
    def names(self) -> dict[str, str]:
        """Returns the columns of a group: name to type."""
        keys = {name: expr.type for expr, name in self.keys.items()}
        return keys | {call.name: call.type for call in self.calls.values()}

    def key(self, expr: Expr, wish: str) -> None:
        """Groups by an expression."""
        if expr.type == "null":
            raise PlanError("GROUP BY NULL is not possible", hint="leave it out")
        if expr not in self.keys:
            self.keys[expr] = self.column(expr, wish)

    def column(self, expr: Expr, wish: str) -> str:
        """Returns the name of a column of the rows."""
        if expr in self.columns.values():
            return next(name for name, known in self.columns.items() if known == expr)
        name = unused(wish, [*self.columns, *(call.name for call in self.calls.values()), "_weight"])
        self.columns[name] = expr
        return name

    def value(self, node: exp.Expression, ctes: Ctes, aliases: dict[str, Expr] | None = None) -> Expr:
        """Returns an expression over keys and aggregates."""
        reader = self.reader
        root = exp.Paren(this=node.copy())
        for part in list(aggregates(root)):
            part.replace(reader.placeholder(self.call(part, ctes), part))
        for name in list(root.find_all(exp.Column)):
            if aliases and not name.table and name.name.lower() in aliases and not self.scope.lookup(name.name):
                name.replace(reader.placeholder(aliases[name.name.lower()], name))
        made = replaced(reader.scalar(root.this, self.scope, ctes), self.known())
        self.check(made, node)
        return replaced(made, self.known())

    def known(self) -> dict[Expr, Expr]:
        """Returns what is grouped by, as columns of a group."""
        return self.absent | {expr: col(name, expr.type) for expr, name in self.keys.items()}

    def one_of_several(self, expr: Expr) -> None:
        """Notes that some grouping of the query groups by an expression: here it is NULL outside of aggregates, unless
        it is a key. The rows have it as a column, so that they are the same for all groupings."""
        self.column(expr, split(expr.value)[1] if expr.op == "col" else "key")
        self.absent[expr] = cast(NULL, expr.type)

    def check(self, expr: Expr, node: exp.Expression) -> None:
        """Checks that every column that is left follows from the keys: then it is one more key."""
        for name in sorted(expr.columns):
            alias, column = split(name)
            source = next((s for s in self.frame.sources if s.alias == alias), None)
            if source is None or name in self.names:
                continue
            whole = source.qualified(column)
            if source.table.key and all(source.qualified(key) in self.keys for key in source.table.key):
                self.key(whole, column)
                continue
            place = next((c for c in node.find_all(exp.Column) if c.name.lower() == column.lower()), node)
            raise self.reader.error(
                f"column {column} is neither grouped by nor inside an aggregate", place, "add it to GROUP BY"
            )

    def call(self, node: exp.Expression, ctes: Ctes) -> Expr:
        """Returns the column that an aggregate is."""
        reader, where = self.reader, None
        inner = node
        if isinstance(node, exp.Filter):
            where, inner = node.expression.this, node.this
        function = function_of(inner)
        if function is None:
            raise reader.error(f"FILTER behind {spelling(reader.text, inner)} is not supported", node)
        given = [p for p in (inner.this, inner.args.get("expression")) if isinstance(p, exp.Expression)]
        if isinstance(inner, exp.Anonymous):
            given = list(inner.expressions)
        else:
            given += [part for part in inner.expressions if function != "count" or part not in given]
            given += [inner.args["zero_on_all_null"]] if inner.args.get("zero_on_all_null") else []  # of COUNT_IF
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            given = list(given[0].expressions)
        word = spelling(reader.text, inner)
        reader.check_arguments(inner, _CARRIED, word)
        takes = 2 if function.startswith(("covar", "corr", "regr")) else 1
        if len(given) < takes:
            raise reader.error(f"{word} lacks an argument", node)
        if len(given) > takes:
            hint = _OF_SEVERAL.get(function, "count one column")
            raise reader.error(f"{word} of {len(given)} columns is not supported", node, hint)
        star = isinstance(given[0], exp.Star)
        if star:
            reader.check_arguments(given[0], set(), f"{word}(*)")
        if star and (distinct or not isinstance(inner, exp.Count)):
            raise reader.error(
                f"{word} of {'DISTINCT ' if distinct else ''}* is not supported", node, "name one column"
            )
        if distinct and (isinstance(inner, exp.CountIf) or function not in ("count", "sum", "avg", "min", "max")):
            raise reader.error(f"{word}(DISTINCT ...) is not supported", node)
        conditions = [where] if where is not None else []
        if isinstance(inner, exp.CountIf):
            conditions, given = [*conditions, *given], []
        if star:
            given = []
        return reader.guarded(node, lambda: self.add(function, given, distinct, conditions, ctes))

    def add(
        self,
        function: str,
        given: list[exp.Expression],
        distinct: bool,
        conditions: list[exp.Expression],
        ctes: Ctes,
    ) -> Expr:
        """Returns the column of an aggregate, which is added unless it is there."""
        values = [self.argument(part, ctes) for part in given]
        if function == "count":
            values = [cast(value, "bool") if value.type == "null" else value for value in values]
        if function == "count" and not distinct and values and self.reader.never_null(values[0], self.frame):
            values = []  # COUNT(1), COUNT of a NOT NULL column
        types = [result_type(function, value.type) for value in values]
        type_ = types[0] if types else "int64"
        wheres = [self.argument(part, ctes) for part in conditions]
        where = None
        if wheres:
            for one in wheres:
                if one.type != "bool":
                    raise PlanError(f"a condition is expected, not a value of type {one.type}")
            where = self.column(conjoin(wheres), "p")
        arguments = tuple(self.column(value, split(value.value)[1] if value.op == "col" else "x") for value in values)
        distinct = distinct and function not in ONCE
        which = (function, arguments, distinct, where)
        if which not in self.calls:
            wish = function if not arguments else f"{function}_{arguments[0]}"
            name = unused(wish, [*self.columns, *(call.name for call in self.calls.values()), "_weight"])
            self.calls[which] = Aggregate(name, type_, function, arguments, distinct, where)
        return col(self.calls[which].name, type_)

    def argument(self, node: exp.Expression, ctes: Ctes) -> Expr:
        """Returns a value of the rows; subqueries in it join the rows."""
        reader = self.reader
        if next(aggregates(node), None) is not None:
            raise reader.error("an aggregate inside an aggregate is not possible", node)
        around, reader.frame = reader.frame, self.frame
        try:
            return reader.scalar(node, self.scope, ctes)
        finally:
            reader.frame = around

    def group(self, outputs: tuple[tuple[str, Expr], ...], having: Expr | None, whole: bool) -> Group | Query:
        """Returns the group; without aggregates and HAVING, the rows once each are all there is to it."""
        calls, frame = tuple(self.calls.values()), self.frame
        shown = {expr.value for _, expr in outputs if expr.op == "col"}
        columns = tuple(self.columns.items()) or (("one", TRUE),)
        rows = Query(self.reader.text, tuple(frame.sources), tuple(frame.conditions), columns, False, tuple(frame.keys))
        if calls or having is not None or whole or not shown.issuperset(self.keys.values()):
            return Group(rows, tuple(self.keys.values()), calls, outputs, having, whole)
        names = {col(name, expr.type): expr for expr, name in self.keys.items()}
        return replace(rows, outputs=tuple((n, replaced(e, names)) for n, e in outputs), distinct=True)
