"""SQL to the query algebra: the syntax tree of `plans.frontends.sql.text.parse`, flattened where it is conjunctive.

Read: SELECT [DISTINCT] over tables, aliases, CTEs and subqueries; inner, outer, semi and anti joins with commas, ON,
USING or NATURAL; WHERE; subqueries in IN, EXISTS and as values; GROUP BY, HAVING and aggregates; UNION, EXCEPT and
INTERSECT. Conjunctive subqueries are flattened into their parent: a column of a subquery is an expression over the
columns of its tables. All others are relations of their own. Everything else is refused by name, with its place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.expressions.coercion import common
from plans.frontends.branches import balanced, shaped
from plans.frontends.sql.from_clause import joins_of
from plans.frontends.sql.groupings import groupings
from plans.frontends.sql.ordering import Ordering, hoisted, limited
from plans.frontends.sql.refuse import conjuncts
from plans.frontends.sql.scalars.names import Ctes, Frame
from plans.frontends.sql.scope import Scope, output_name
from plans.frontends.sql.text.parse import DROPPED, statements
from plans.frontends.sql.text.place import extent, place_of, spelling
from plans.lowering.matches import Keys, crossing_keys
from plans.program import Function
from plans.queries.algebra import Group, Query, Relation, SetOperation, Top, check_output_name
from plans.schema import Schema
from plans.stack import MAX_NESTING, with_room

_OPERATORS = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}


class _Reader(Ordering):
    """Reads a query: a SELECT, or a nest of set operations."""

    def read(self, node: exp.Expression, ctes: Ctes, outer: Scope | None, unique: bool = True) -> Relation:
        """Returns the relation that a query is, in a frame of its own."""
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if limited(node):
            return self.top(node, ctes, outer)
        if isinstance(node, exp.SetOperation):
            return with_room(self.nest, node, ctes, outer)
        if not isinstance(node, exp.Select):
            raise self.refuse_statement(node)
        around, self.frame, taken = self.frame, Frame(), self.taken
        if outer is None:  # its names meet no others, and the same subquery twice is the same stage
            self.taken = set()
        try:
            several = groupings(node, self)
            if several:
                return self.united(several, bool(node.args.get("distinct")), ctes, outer)
            if node.args.get("group") or node.args.get("having") or self.aggregated(node):
                return self.groups_of(node, ctes, outer)
            outputs = self.flattened(node, ctes, 0, outer, unique)
            frame = self.frame
            return Query(
                self.text,
                tuple(frame.sources),
                tuple(frame.conditions),
                tuple(outputs),
                bool(node.args.get("distinct")),
                tuple(frame.keys),
                tuple(dict.fromkeys(self.notes)),
                warnings=tuple(self.warnings.values()),
            )
        finally:
            self.frame, self.taken = around, taken

    # SELECT ---------------------------------------------------------------------------------------------------------

    def flat(self, node: exp.Expression) -> bool:
        """Returns whether a query can be flattened: it is a SELECT without aggregates and outer joins."""
        if not isinstance(node, exp.Select) or limited(node):
            return not isinstance(node, exp.SetOperation) and not limited(node)
        if node.args.get("group") or node.args.get("having") or self.aggregated(node):
            return False
        return not any(
            (join.kind or "").upper() == "ANTI" or (join.side and (join.kind or "").upper() != "SEMI")
            for join in joins_of(node)
        )

    def flattened(
        self, node: exp.Expression, ctes: Ctes, group: int, outer: Scope | None, unique: bool = True
    ) -> list[tuple[str, Expr]]:
        """Flattens a SELECT into the frame. Returns its output columns, whose names must differ if `unique`."""
        while isinstance(node, (exp.Subquery, exp.Paren)):
            node = node.this
        if not isinstance(node, exp.Select):
            raise self.refuse_statement(node)
        around, self.level = self.level, group
        self.depth += 1
        scope, ctes = self.from_where(node, ctes, group, outer)
        found = self.outputs(node, ctes, scope, unique)
        self.depth -= 1
        self.level = around
        return found

    def from_where(self, node: exp.Select, ctes: Ctes, group: int, outer: Scope | None) -> tuple[Scope, Ctes]:
        """Adds FROM and WHERE to the frame; the scope and the CTEs that the rest of the SELECT sees."""
        if self.depth > MAX_NESTING:
            raise self.error(f"subqueries are nested more than {MAX_NESTING} deep", node, "leave some of them out")
        ctes = self.with_clause(node, ctes)
        self.check_clauses(node)
        scope = Scope(outer)
        start = node.args.get("from_") or node.args.get("from")
        if start is None:
            raise self.error("a SELECT without FROM has nothing to maintain", node)
        where = node.args.get("where")
        around, parts = self.pending, [] if where is None else conjuncts(where.this)
        padded = any((join.side or "").upper() in ("RIGHT", "FULL") for join in joins_of(node))
        self.pending = [] if padded else list(parts)
        with_room(self.relation, start.this, ctes, group, scope)
        for join in node.args.get("joins") or ():
            self.join(join, ctes, group, scope)
        left, self.pending = parts if padded else self.pending, around
        if where is not None:
            self.check_no_aggregate(where.this, "WHERE")
        for part in left:
            with_room(self.conjunct, part, ctes, scope)
        return scope, ctes

    def groups_of(self, node: exp.Select, ctes: Ctes, outer: Scope | None) -> Relation:
        """Returns the relation of a SELECT with GROUP BY, HAVING or aggregates."""
        around, self.level = self.level, 0
        self.depth += 1
        scope, ctes = self.from_where(node, ctes, 0, outer)
        made = self.grouped(node, ctes, scope)
        self.depth -= 1
        self.level = around
        names = [name for name, _ in made.outputs]
        for (name, _), item in zip(made.outputs, node.expressions, strict=True):
            if names.count(name) > 1:
                raise self.error(f"two output columns are called {name}", item, "give one of them an alias: AS ...")
            if self.depth == 0:
                self.guarded(item, partial(check_output_name, name))
        warnings, notes = tuple(self.warnings.values()), tuple(dict.fromkeys(self.notes))
        if isinstance(made, Query):
            return replace(
                made, distinct=made.distinct or bool(node.args.get("distinct")), warnings=warnings, notes=notes
            )
        if node.args.get("distinct"):
            source = self.derived(made, "groups")
            outputs = tuple((name, source.qualified(name)) for name in names)
            return Query(self.text, (source,), (), outputs, True, notes=notes, warnings=warnings)
        return replace(made, warnings=warnings)

    def read_one_row(self, node: exp.Select, ctes: Ctes, scope: Scope) -> tuple[Group, Keys]:
        """Returns the group of a SELECT without GROUP BY, and its equalities with the query around it."""
        around, self.frame, level, self.level = self.frame, Frame(), self.level, 0
        self.depth += 1
        try:
            inner, ctes = self.from_where(node, ctes, 0, scope)
            own, crossing = self.parted(self.frame, self.frame.conditions)
            ties = crossing_keys(crossing, self.frame.aliases)
            if ties is None or len({tie for _, _, tie in ties}) < len(ties):
                raise self.error(
                    "this subquery is not tied to the query around it by equalities alone", node, "use a join"
                )
            self.frame.conditions[:] = own
            made = self.grouped(node, ctes, inner, [tie for _, _, tie in ties])
        finally:
            self.frame, self.level = around, level
            self.depth -= 1
        rows = made.input if isinstance(made, Group) else made
        if not isinstance(made, Group) or not isinstance(rows, Query):
            raise self.error("a subquery beside the aggregate of this one is not supported", node, "use a join")
        read = {name.split(".")[0] for _, expr in rows.outputs for name in expr.columns}
        if not read <= {source.alias for source in rows.sources}:
            raise self.error("this aggregate reads columns of the query around it", node, "use a join")
        return made, ties

    def united(self, several: list[exp.Select], distinct: bool, ctes: Ctes, outer: Scope | None) -> Relation:
        """Returns the union of the groupings of a SELECT."""
        parts = [self.read(one, ctes, outer) for one in several]
        first, types = parts[0].columns, [column.type for column in parts[0].columns]
        made = tuple(shaped(part, [column.name for column in first], types) for part in parts)
        union = balanced("union_all", range(len(made)))
        return SetOperation(made, ("distinct", union) if distinct else union, tuple(self.warnings.values()))

    def with_clause(self, node: exp.Expression, ctes: Ctes) -> Ctes:
        """Returns the CTEs that a query sees."""
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            at = self.words.phrase("WITH RECURSIVE")
            raise self.error(
                "WITH RECURSIVE is not supported",
                clause,
                "join the relation with itself as often as there are levels",
                at,
            )
        if len(clause.expressions) > MAX_NESTING:
            raise self.error(f"WITH names more than {MAX_NESTING} queries", clause, "leave some of them out")
        known = dict(ctes)
        for cte in clause.expressions:
            known[cte.alias.lower()] = (cte.this, tuple(cte.alias_column_names), dict(known))
        return known

    def outputs(self, node: exp.Select, ctes: Ctes, scope: Scope, unique: bool) -> list[tuple[str, Expr]]:
        """Returns the output columns of a SELECT without aggregates."""
        found: list[tuple[str, Expr, exp.Expression]] = []
        for index, item in enumerate(node.expressions):
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star):
                for word in (name.strip("_").upper() for name, value in star.args.items() if value):
                    raise self.error(f"* {word} is not supported", item, "list the columns")
                found += [(name, expr, item) for name, expr in self.star(item, scope)]
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            name = output_name(item, index)
            value = self.scalar(inner, scope, ctes)
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
        """Returns the columns of * or table.*."""
        relations, shown = scope.relations, scope.visible()
        if isinstance(item, exp.Column):
            self.check_qualifier(item)
            named = scope.relation(item.table)
            if named is None:
                raise self.error(f"unknown table or alias {item.table}", item, self.known(scope))
            relations, shown = [named], [(named, *column) for column in named.columns.values()]
        for relation in relations:
            if relation.number:
                raise self.error(
                    f"* stands for {relation.number}, too, which is not maintained", item, "list the other columns"
                )
        count: dict[str, int] = {}
        for _, name, _ in shown:
            count[name.lower()] = count.get(name.lower(), 0) + 1
        if any(n > 1 for n in count.values()):
            self.notes.append("SELECT *: columns that several tables have are called table_column")
        return [(s if count[s.lower()] == 1 else f"{r.alias}_{s}", expr) for r, s, expr in shown]

    # UNION, EXCEPT, INTERSECT -----------------------------------------------------------------------------------------

    def nest(self, node: exp.SetOperation, ctes: Ctes, outer: Scope | None) -> Relation:
        """Returns the relation of a nest of set operations."""
        branches: list[tuple[Relation, exp.Expression]] = []
        function = self.branch(node, ctes, outer, branches)
        first = branches[0][0].columns
        types = [column.type for column in first]
        for relation, place in branches[1:]:
            if len(relation.columns) != len(first):
                raise self.error(
                    f"this SELECT has {len(relation.columns)} columns, the first one has {len(first)}",
                    place,
                    "all branches of a set operation have as many columns",
                )
            for i, column in enumerate(relation.columns):
                both = self.guarded(place, partial(common, types[i], column.type))
                if both is None:
                    raise self.error(
                        f"column {i + 1} has the type {column.type} here and {types[i]} before",
                        place,
                        "cast one of them",
                    )
                types[i] = both
        names = [column.name for column in first]
        inputs = tuple(shaped(relation, names, types) for relation, _ in branches)
        return SetOperation(inputs, function, tuple(self.warnings.values()))

    def branch(
        self,
        node: exp.Expression,
        ctes: Ctes,
        outer: Scope | None,
        branches: list[tuple[Relation, exp.Expression]],
    ) -> Function:
        """Adds the branches of a nest; their function of multiplicities."""
        while isinstance(node, (exp.Subquery, exp.Paren)) and not isinstance(node.this, exp.Table):
            ctes = self.with_clause(node, ctes)
            node = node.this
        if not isinstance(node, exp.SetOperation) or limited(node):
            made = self.read(node, ctes, outer, unique=not branches)
            if isinstance(made, SetOperation) and _is_union(made.function):  # the groupings of a SELECT
                first = len(branches)
                branches += [(part, node) for part in made.inputs]
                return _moved(made.function, first)
            branches.append((self.over(made) if isinstance(made, (SetOperation, Top)) else made, node))
            return len(branches) - 1
        chain: list[tuple[exp.SetOperation, Ctes]] = []
        while isinstance(node, exp.SetOperation):  # A - B - C: they lean to the left
            ctes = self.with_clause(node, ctes)
            self.check_set_operation(node)
            chain.append((node, ctes))
            node = node.this
        found = with_room(self.branch, node, ctes, outer, branches)
        runs: list[tuple[str, list[Function]]] = []
        for operation, visible in reversed(chain):
            operator = _OPERATORS[type(operation)] + ("" if operation.args.get("distinct") else "_all")
            right = with_room(self.branch, operation.expression, visible, outer, branches)
            if not runs or runs[-1][0] != operator:
                runs.append((operator, []))
            runs[-1][1].append(right)
        for operator, rights in runs:
            found = _run(operator, found, rights)
        if chain and _depth(found) > _DEEPEST:
            raise self.error(f"set operations are nested more than {_DEEPEST} deep", chain[0][0], "use views")
        return found


_DEEPEST = 100


def _run(operator: str, first: Function, rights: list[Function]) -> Function:
    """Returns `first` and others with one operator between all, as a tree of little depth: A - B - C is A - (B + C)."""
    if operator.startswith("except"):
        return (operator, first, balanced(operator.replace("except", "union"), rights))
    return balanced(operator, [first, *rights])


def _is_union(function: Function) -> bool:
    """Returns whether there is nothing but UNION ALL in a function of branches."""
    return isinstance(function, int) or (
        function[0] == "union_all" and all(_is_union(part) for part in function[1:] if not isinstance(part, str))
    )


def _moved(function: Function, by: int) -> Function:
    """Returns a function of branches that stand `by` places further on."""
    if isinstance(function, int):
        return function + by
    return (function[0], *(part if isinstance(part, str) else _moved(part, by) for part in function[1:]))


def _depth(function: Function) -> int:
    return 0 if isinstance(function, int) else 1 + max(_depth(p) for p in function[1:] if not isinstance(p, str))


def parse(text: str, schema: Schema, *, dialect: str = "spark") -> Relation:
    """Returns the relation of one query. PlanError, with the place, for everything that is not maintained.

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
    root = hoisted(found[0])
    for node in root.find_all(exp.Query):
        assert isinstance(node, exp.Expression)
        reader.check_sequence(node)
        if isinstance(node, exp.Subquery):
            reader.check_parentheses(node)
    relation = reader.read(root, {}, None)
    for part in root.find_all(exp.Expression):  # afterwards: a function that is not supported is refused as such
        if part.meta.get(DROPPED):
            raise reader.error(f"{spelling(text, part)} does not take so many arguments", part)
    return relation
