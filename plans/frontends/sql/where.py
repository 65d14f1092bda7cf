"""WHERE, and subqueries in it: IN and EXISTS as semi-joins, their negations as anti joins, under OR or in SELECT as
values. Part of `plans.frontends.sql`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, factored, lit, substitute
from plans.frontends.sql.from_clause import From
from plans.frontends.sql.refuse import conjuncts
from plans.frontends.sql.scalars.names import Ctes, Frame
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.text.place import check_quantifier, negation
from plans.lowering.matches import Keys
from plans.program import Aggregate
from plans.queries.algebra import FOUND, Group, Query, Source, replaced, split
from plans.stack import with_room


class Where(From):
    """Adds conditions to the frame, and the sources that their subqueries are."""

    def condition(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> None:
        """Adds a condition: conjuncts apart, IN and EXISTS as semi-joins."""
        for part in conjuncts(node):
            with_room(self.conjunct, part, ctes, scope)

    def conjunct(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> None:
        """Adds a condition that is no conjunction."""
        negated = isinstance(node, exp.Not) or bool(node.args.get("negate"))
        inner = node.this.unnest() if isinstance(node, exp.Not) else node
        if isinstance(inner, exp.Exists):
            body = inner.this
            if negated:
                self.frame.sources.append(self.attached("anti", body, ctes, scope, None, node))
            else:
                self.groups += 1
                self.exists(body, ctes, self.groups, scope)
            return
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            mine = self.compared(inner, scope, ctes)
            if negated:
                self.not_in(inner, mine, ctes, scope, node)
            else:
                self.contained(inner, mine, ctes, scope)
            return
        condition = self.scalar(node, scope, ctes)
        if condition.type != "bool":
            raise self.error(f"a condition is expected, not a value of type {condition.type}", node)
        self.frame.conditions.append(factored(condition))

    def compared(self, node: exp.In, scope: Scope, ctes: Ctes) -> list[Expr]:
        """Returns the values on the left of IN."""
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]
        return [self.scalar(part, scope, ctes) for part in left]

    def exists(self, body: exp.Expression, ctes: Ctes, group: int, scope: Scope) -> None:
        """Adds a subquery of which only existence matters."""
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if self.flat(body):
            self.flattened(_of_one(body), ctes, group, scope, unique=False)
        else:
            self.frame.sources.append(self.closed(body, ctes, group, scope))

    def contained(self, node: exp.In, mine: list[Expr], ctes: Ctes, scope: Scope) -> None:
        """Adds `mine IN (...)`."""
        self.groups += 1
        body = node.args["query"]
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if self.flat(body):
            theirs = [expr for _, expr in self.flattened(body, ctes, self.groups, scope, unique=False)]
        else:
            source = self.closed(body, ctes, self.groups, scope)
            self.frame.sources.append(source)
            theirs = [source.qualified(column.name) for column in source.table.columns]
        self.check_width(node, mine, theirs)
        for one, two in zip(mine, theirs, strict=True):
            self.frame.conditions.append(self.guarded(node, partial(call, "eq", one, two)))

    def check_width(self, node: exp.Expression, mine: list[Expr], theirs: list[Expr]) -> None:
        """Raises PlanError if IN compares different numbers of columns."""
        if len(mine) != len(theirs):
            raise self.error(f"IN compares {len(mine)} with {len(theirs)} columns", node)

    def closed(self, body: exp.Expression, ctes: Ctes, group: int, scope: Scope) -> Source:
        """Returns a subquery that is a relation of its own; it may not read the query around it."""
        try:
            relation = self.read(body, ctes, None, unique=False)
        except PlanError:
            self.read(body, ctes, scope, unique=False)  # is it only that it reads the query around it?
            raise self.error(
                "a subquery with aggregates, set operations or outer joins cannot read the query around it",
                body,
                "join with it in FROM, grouped by what ties it to the query around it",
            ) from None
        return self.derived(relation, "subquery", group)

    # subqueries whose rows do not multiply, as sources with conditions of their own -----------------------------------

    def attached(
        self, join: str, body: exp.Expression, ctes: Ctes, scope: Scope, mine: list[Expr] | None, node: exp.Expression
    ) -> Source:
        """Returns the source of an anti join or a mark: the subquery's rows, and as `on` what they have to fulfil.

        `mine` are the values that its columns must equal, None for EXISTS.
        """
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if not self.flat(body):
            source = self.closed(body, ctes, self.level, scope)
            theirs = [source.qualified(column.name) for column in source.table.columns]
            return replace(source, join=join, on=self.equalities(mine, theirs, node))
        frame, theirs = self.detached(body, ctes, scope, exists=mine is None)
        conditions = [*frame.conditions, *self.equalities(mine, theirs, node)]
        first = frame.sources[0]
        if len(frame.sources) == 1 and first.join == "inner" and first.input is None:
            return replace(first, group=self.level, join=join, on=tuple(p for c in conditions for p in c.conjuncts()))
        return self.exposed(join, frame, conditions)

    def equalities(self, mine: list[Expr] | None, theirs: list[Expr], node: exp.Expression) -> tuple[Expr, ...]:
        """Returns the equalities that IN stands for."""
        if mine is None:
            return ()
        self.check_width(node, mine, theirs)
        pairs = zip(mine, theirs, strict=True)
        return tuple(self.guarded(node, partial(call, "eq", one, two)) for one, two in pairs)

    def detached(
        self, body: exp.Expression, ctes: Ctes, scope: Scope, exists: bool = False
    ) -> tuple[Frame, list[Expr]]:
        """Returns the frame of a subquery by itself, whose conditions may read the query around it, and its outputs."""
        if exists:
            body = _of_one(body)
        around, self.frame = self.frame, Frame()
        try:
            outputs = self.flattened(body, ctes, 0, scope, unique=False)
            frame = self.frame
        finally:
            self.frame = around
        for source in frame.sources:
            foreign = {alias for expr in source.on for alias in map(_alias, expr.columns)} - frame.aliases
            if foreign:
                raise self.error(
                    "this subquery holds another one that reads the query around both", body, "join them step by step"
                )
        return frame, [expr for _, expr in outputs]

    def exposed(self, join: str, frame: Frame, conditions: list[Expr]) -> Source:
        """Returns the rows of a frame as a relation, with the columns that conditions with the query around it read."""
        own, crossing = self.parted(frame, conditions)
        names: dict[Expr, str] = {}
        for one in crossing:
            for side in _sides(one, frame.aliases):
                names.setdefault(side, f"k{len(names)}")
        outputs = tuple((name, expr) for expr, name in names.items()) or (("k0", lit(True)),)
        query = Query(self.text, tuple(frame.sources), tuple(own), outputs, len(frame.sources) > 1, tuple(frame.keys))
        source = self.derived(query, frame.sources[0].alias, self.level)
        theirs = {expr: source.qualified(name) for expr, name in names.items()}
        return replace(source, join=join, on=tuple(replaced(one, theirs) for one in crossing))

    def parted(self, frame: Frame, conditions: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        """Returns the conditions over the frame's sources alone, and those that read the query around it."""
        own: list[Expr] = []
        crossing: list[Expr] = []
        for one in (part for given in conditions for part in given.conjuncts()):
            (own if {_alias(name) for name in one.columns} <= frame.aliases else crossing).append(one)
        return own, crossing

    def not_in(self, node: exp.In, mine: list[Expr], ctes: Ctes, scope: Scope, written: exp.Expression) -> None:
        """Adds `mine NOT IN (...)`: no equal value, and what SQL's NULLs ask for besides."""
        if len(mine) != 1:
            raise self.error(
                "NOT IN with several columns is not supported", node, "write NOT EXISTS", self.not_at(written)
            )
        body = node.args["query"]
        tied = self.tied(body, mine, ctes, scope, node)
        if tied is not None:  # no row may be equal or unknown
            frame, equal, unknown = tied
            self.frame.sources.append(self.exposed("anti", frame, [*frame.conditions, call("or", equal, unknown)]))
            return
        self.frame.sources.append(self.attached("anti", body, ctes, scope, mine, node))
        if self.certain(body, mine[0], ctes, scope):
            return
        empty, clean = self.flags(body, ctes, scope, node)
        known = call("and", call("not", call("isnull", mine[0])), clean)
        self.frame.conditions.append(call("or", empty, known))

    def tied(
        self, body: exp.Expression, mine: list[Expr], ctes: Ctes, scope: Scope, node: exp.Expression
    ) -> tuple[Frame, Expr, Expr] | None:
        """Returns the frame of a subquery of IN that reads the query around it, and when a row of it equals the value,
        and when one of the two is NULL. None if the subquery stands by itself.
        """
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if not self.flat(body):
            return None
        frame, theirs = self.detached(body, ctes, scope)
        inside = all(_alias(name) in frame.aliases for expr in theirs for name in expr.columns)
        if inside and not self.parted(frame, frame.conditions)[1]:
            return None
        self.check_width(node, mine, theirs)
        equal = self.guarded(node, partial(call, "eq", mine[0], theirs[0]))
        return frame, equal, call("or", call("isnull", mine[0]), call("isnull", theirs[0]))

    def not_at(self, node: exp.Expression) -> tuple[int, int] | None:
        """Returns where NOT stands."""
        place = negation(self.text, node)
        if place is None:
            return None
        start = len("\n".join(self.text.split("\n")[: place.line - 1])) + (place.line > 1) + place.column - 1
        return start, start + place.length

    def certain(self, body: exp.Expression, mine: Expr, ctes: Ctes, scope: Scope) -> bool:
        """Returns True if neither a value nor any value of a subquery can be NULL: nothing is unknown then."""
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if not self.never_null(mine, self.frame) or not self.flat(body):
            return False
        with self.looking():
            frame, theirs = self.detached(body, ctes, scope)
        return self.never_null(theirs[0], frame)

    def flags(self, body: exp.Expression, ctes: Ctes, scope: Scope, node: exp.Expression) -> tuple[Expr, Expr]:
        """Returns two values of one row: whether a subquery is empty, and whether none of its values is NULL."""
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        if self.flat(body):
            frame, theirs = self.detached(body, ctes, scope)
            query = Query(
                self.text, tuple(frame.sources), tuple(frame.conditions), (("y", theirs[0]),), False, tuple(frame.keys)
            )
        else:
            source = self.closed(body, ctes, 0, scope)
            query = Query(self.text, (source,), (), (("y", source.qualified(source.table.columns[0].name)),), False)
        rows, values = col("rows", "int64"), col("values", "int64")
        outputs = (("empty", call("eq", rows, lit(0))), ("clean", call("eq", rows, values)))
        counts = (Aggregate("rows", "int64", "count"), Aggregate("values", "int64", "count", ("y",)))
        one = self.derived(Group(query, (), counts, outputs, None, True), "flags", self.level)
        self.frame.sources.append(one)
        return one.qualified("empty"), one.qualified("clean")

    # subqueries as values -------------------------------------------------------------------------------------------

    def with_values(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> exp.Expression:
        """Returns a scalar expression whose subqueries are placeholders."""
        if node.find(exp.Query, exp.Exists) is None:
            return node
        for part in node.walk():
            if isinstance(part, exp.Expression):
                self.guarded(part, partial(check_quantifier, self.text, part))
        root = exp.Paren(this=node.copy())
        root.meta.update(node.meta)
        for inner in list(_outermost(root)):
            inner.replace(self.placeholder(self.value(inner, ctes, scope), inner))
        found: exp.Expression = root.this
        return found

    def value(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> Expr:
        """Returns the value of EXISTS, of IN with a subquery, or of a scalar subquery."""
        if isinstance(node, exp.Exists):
            return self.mark(self.attached("mark", node.this, ctes, scope, None, node))
        if isinstance(node, exp.In):
            mine = self.compared(node, scope, ctes)
            if len(mine) != 1:
                raise self.error("IN with several columns is supported only as a condition of its own", node)
            made = self.contained_value(node, mine, ctes, scope)
            return call("not", made) if node.args.get("negate") else made
        return self.scalar_subquery(node, ctes, scope)

    def contained_value(self, node: exp.In, mine: list[Expr], ctes: Ctes, scope: Scope) -> Expr:
        """Returns the value of `mine IN (...)`: TRUE, FALSE, or NULL where only a NULL could be equal."""
        body = node.args["query"]
        tied = self.tied(body, mine, ctes, scope, node)
        if tied is not None:
            frame, equal, unknown = tied
            found = self.mark(self.exposed("mark", frame, [*frame.conditions, equal]))
            again = self.exposed("mark", frame, [*frame.conditions, unknown])
            return call("case", found, lit(True), self.mark(again), NULL, lit(False))
        found = self.mark(self.attached("mark", body, ctes, scope, mine, node))
        if self.certain(body, mine[0], ctes, scope):
            return found
        empty, clean = self.flags(body, ctes, scope, node)
        doubtful = call("or", call("isnull", mine[0]), call("not", clean))
        return call("case", found, lit(True), empty, lit(False), doubtful, NULL, lit(False))

    def mark(self, source: Source) -> Expr:
        """Returns the column of a mark, which joins the frame."""
        self.frame.sources.append(source)
        return col(f"{source.alias}.{FOUND}", "bool")

    def scalar_subquery(self, node: exp.Expression, ctes: Ctes, scope: Scope) -> Expr:
        """Returns the value of a subquery of one row: aggregates without GROUP BY, which may be correlated by
        equality."""
        body = node
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        hint = "it must return one row for certain: SELECT MAX(...), SUM(...), COUNT(*), without GROUP BY"
        if not isinstance(body, exp.Select) or len(body.expressions) != 1 or body.args.get("group"):
            raise self.error("this subquery is not one value", node, hint)
        if not self.aggregated(body) or body.args.get("having") or body.args.get("distinct"):
            raise self.error("this subquery is not one value", node, hint)
        group, ties = self.read_one_row(body, ctes, scope)
        name, value = group.outputs[0]
        if not ties:
            source = self.derived(group, "value", self.level)
            self.frame.sources.append(source)
            return source.qualified(name)
        empty = {a.name: lit(0) if a.function == "count" else cast(NULL, a.type) for a in group.aggregates}
        nothing = substitute(value, lambda found: empty[found])
        extra = (*((key, col(key, inner.type)) for key, (_, _, inner) in zip(group.keys, ties, strict=True)),)
        group = replace(group, outputs=((name, value), *extra, ("there", lit(True))))
        source = self.derived(group, "value", self.level)
        on = tuple(call(op, outer, source.qualified(k)) for k, (op, outer, _) in zip(group.keys, ties, strict=True))
        self.frame.sources.append(replace(source, join="left", on=on))
        there = source.qualified("there")
        return call("case", call("isnull", there), nothing, source.qualified(name))

    @abstractmethod
    def aggregated(self, node: exp.Select) -> bool:
        """Returns whether a SELECT has aggregates of its own."""

    @abstractmethod
    def read_one_row(self, node: exp.Select, ctes: Ctes, scope: Scope) -> tuple[Group, Keys]:
        """Returns the group of a SELECT without GROUP BY, and its equalities with the query around it."""


def _of_one(body: exp.Expression) -> exp.Expression:
    """Returns a subquery of which only existence matters, with a constant for its outputs."""
    if not isinstance(body, exp.Select) or body.args.get("distinct"):
        return body
    made: exp.Expression = body.copy().select(exp.Literal.number(1), append=False)
    return made


def _alias(name: str) -> str:
    return split(name)[0]


def _sides(condition: Expr, aliases: set[str]) -> Iterator[Expr]:
    """Yields what a condition reads of these sources: one side of an equality, or else every column."""
    if condition.op in ("eq", "nseq"):
        for side, other in (condition.args, condition.args[::-1]):
            inside = {_alias(name) for name in side.columns}
            if inside and inside <= aliases and not {_alias(name) for name in other.columns} & aliases:
                yield side
                return
    for node in condition.postorder():
        if node.op == "col" and _alias(node.value) in aliases:
            yield node


def _outermost(root: exp.Expression) -> Iterator[exp.Expression]:
    """Yields the subqueries of an expression that are in no other: EXISTS, IN with a query, queries in parentheses."""
    todo = [root.this]
    while todo:
        node = todo.pop()
        if isinstance(node, (exp.Exists, exp.Subquery)) or (isinstance(node, exp.In) and node.args.get("query")):
            yield node
        else:
            todo += node.iter_expressions()
