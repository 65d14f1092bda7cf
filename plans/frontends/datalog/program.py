"""Datalog: `Q(a, b) :- R(a, c), S(c, b), not T(b, _), c > 3.`

A program is one rule, or several rules with the same head predicate, which form a union. Body: atoms over the tables of
the schema, arguments by position (a variable, a constant, or `_`), negated atoms (`not` or `!`), and comparisons over
variables with `=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, arithmetic, parentheses, `and`, `or`, `not`, `is [not] null`.
Head: a name, and variables, constants or aggregates (`count()`, and `count`, `sum`, `min`, `max`, `avg` of a value or
of `distinct` values), each with an optional name: `sum(x) as total`. `%` and `#` start a comment at the beginning of a
line or after a space.

The result is a set. Aggregates range over the distinct *valuations* of the named variables of the positive atoms,
grouped by the variables of the head: a tuple that occurs twice in a table counts once, and the values of a `_` do not
count. As in SQL, NULLs are not aggregated, and a head without variables has one row even if there is no valuation. A
negated atom holds if no tuple matches; its variables that no other atom has match any value.

Rules whose body reads their own head are a recursion: the result is the least set that satisfies all rules. The head
is then read by positive atoms only, and its rules have no aggregates, except that an argument may be `min` or `max` in
all of them: the result then has, for the values of the other arguments, only the least or the greatest derived value.

Rules with different head predicates, and unsafe variables, are rejected with a specific message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from plans.expressions.build import Expr, call
from plans.expressions.coercion import common
from plans.frontends.branches import balanced, shaped
from plans.frontends.datalog.head import Head
from plans.frontends.datalog.terms import WORDS
from plans.frontends.datalog.tokens import Token
from plans.frontends.monotone import MONOTONE, why_not_monotone
from plans.frontends.recursive import best_by, fixpoint, readings, rows_of
from plans.programs.frames import Order
from plans.queries.algebra import Group, Query, Relation, SetOperation, Source
from plans.queries.variables import join_type
from plans.schema import Column, Schema, Table, tables_hint
from plans.types import why_untyped


class _Reader(Head):
    """A recursive-descent parser. The columns of atoms are bound before the rest of a rule is read."""

    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(text)
        self.schema = schema
        self.derived: Table | None = None  # the rows of the head, for the rules that read it

    def rules(self) -> Relation:
        """Returns the union of all rules, or the recursion that they are."""
        starts = [0, *(place for place, token in enumerate(self.tokens, 1) if token.text == ".")]
        starts = [start for start in starts if start == 0 or self.tokens[start].kind != "end"]
        first = self.tokens[0]
        steps = [start for start in starts if self.reads(start, first)]
        if len(steps) == len(starts):
            what = f"Datalog: every rule of {first.text} reads {first.text}"
            raise self.error(what, first, hint="begin with a rule that does not")
        if steps:
            self.best = self.best_at(starts, first)
        found = [self.rule_at(start, first) for start in starts if start not in steps]
        relations = [relation for relation, _ in found]
        types = [column.type for column in relations[0].columns]
        for relation, head in found[1:]:
            self.fit(relation, head, types)
        names = [column.name for column in relations[0].columns]
        inputs = tuple(shaped(relation, names, types) for relation in relations)
        union = SetOperation(inputs, balanced("union", range(len(inputs)))) if len(inputs) > 1 else inputs[0]
        return self.recursion(union, steps, first) if steps else union

    def best_at(self, starts: list[int], first: Token) -> tuple[int, str] | None:
        """Returns the argument that is MIN or MAX in the heads of all rules that begin at some tokens, with the
        function; None if there are no aggregates, or others."""
        found = set()
        for self.index in starts:
            self.name("the head's name")
            called = [(i, one.function) for i, one in enumerate(self.arguments()) if one.function]
            found.add(called[0] if len(called) == 1 and called[0][1] in ("min", "max") else None)
        return found.pop() if len(found) == 1 else None

    def rule_at(self, start: int, first: Token) -> tuple[Query | Group, Token]:
        """Returns the relation of the rule that begins at a token, and its head."""
        self.index = start
        return self.rule(first), self.tokens[start]

    def reads(self, start: int, head: Token) -> bool:
        """Returns whether the body of the rule that begins at a token reads a predicate that is no table."""
        for place in range(start + 1, len(self.tokens)):
            before, token = self.tokens[place - 1 : place + 1]
            if token.text == "." or token.kind == "end" or head.text in self.schema:
                return False
            if token.text == head.text and self.is_atom(place) and before.text.lower() in (":-", ",", "not", "!"):
                return True
        return False

    def recursion(self, union: Relation, steps: list[int], first: Token) -> Relation:
        """Returns the recursion with the first rows `union`. `steps`: where the rules begin that read their head."""
        best = None if self.best is None else best_by(union.columns[self.best[0]].name, self.best[1])
        schema, columns = self.schema, union.columns
        while True:
            rows = self.derived = rows_of(first.text, columns, distinct=True)
            self.schema = Schema((*schema.values(), rows), schema.derived)
            made, wider = [], [column.type for column in columns]
            for relation, head in (self.rule_at(start, first) for start in steps):
                types = [column.type for column in columns]
                self.fit(relation, head, types)
                for i, column in enumerate(columns):
                    if (column.type, types[i]) == ("int32", "int64"):
                        wider[i] = "int64"
                    elif types[i] != column.type:
                        raise self.error(
                            f"Datalog: argument {i + 1} has the type {relation.columns[i].type} here and "
                            f"{column.type} in rules that do not read {first.text}", head,
                            hint="give all rules of a predicate the same types",
                        )  # fmt: skip
                made.append(self.step(relation, rows, head, best))
            if wider == [column.type for column in columns]:
                return fixpoint(union, made, rows, best)
            columns = tuple(Column(column.name, kind) for column, kind in zip(columns, wider, strict=True))

    def step(self, relation: Relation, rows: Table, head: Token, best: Order | None) -> tuple[Query, list[Source]]:
        """Returns the relation of a rule that reads its head, with its sources that do. Raises PlanError if it is more
        than a join, or derives worse rows from better ones."""
        mine = readings(relation, rows, head.text)
        if isinstance(mine, tuple) or not isinstance(relation, Query):
            raise self.error(
                f"Datalog: a rule that reads its own head, {head.text}, negates it or has an aggregate", head,
                hint="negate and aggregate in another view, over this one; or give all rules of the head the same one "
                "min(...) or max(...)",
            )  # fmt: skip
        if best is not None:
            why = why_not_monotone(relation, mine, [column.name for column in rows.columns[:-1]], best)
            if why:
                raise self.error(f"Datalog: {why}", head, hint=MONOTONE)
        return relation, mine

    def fit(self, relation: Query | Group, head: Token, types: list[str]) -> None:
        """Widens the types of the union to those of one more rule. Raises PlanError if the rule has other columns."""
        if len(relation.columns) != len(types):
            raise self.error(
                f"Datalog: this head has {len(relation.columns)} arguments, the first one has {len(types)}", head,
                hint="give all rules of a predicate the same number of arguments",
            )  # fmt: skip
        for i, column in enumerate(relation.columns):
            both = self.guard(head, partial(common, types[i], column.type))
            if both is None:
                raise self.error(
                    f"Datalog: argument {i + 1} has the type {column.type} here and {types[i]} before", head,
                    hint="give all rules of a predicate the same types",
                )  # fmt: skip
            types[i] = both

    def rule(self, first: Token) -> Query | Group:
        """Returns the relation of one rule. `first` is the head of the first rule."""
        self.sources, self.conditions, self.variables, self.existential = [], [], {}, set()
        head = self.name("the head's name")
        if head.text != first.text:
            raise self.error(
                f"Datalog: the rules define {first.text} and {head.text}; one predicate is expected", head,
                hint="create a view for each predicate",
            )  # fmt: skip
        arguments = self.arguments()
        self.want(":-")
        negated, conditions = self.body(head)
        if self.here.kind != "end":
            self.want(",", ".")
        after = self.index
        if not self.sources:
            what = "only negated atoms" if negated else "no atom"
            raise self.error(f"Datalog: the body has {what}", head)
        for self.index in negated:
            self.negated(head)
        for self.index in conditions:
            self.condition()
        made = self.relation(arguments)
        self.index = after
        return made

    def body(self, head: Token) -> tuple[list[int], list[int]]:
        """Reads the atoms of a body, and returns the positions of its negated atoms and its conditions."""
        negated: list[int] = []
        conditions: list[int] = []
        while True:
            word = self.here.text.lower()
            if self.take("!") or (word == "not" and self.is_atom(self.index + 1) and self.take("not")):
                negated.append(self.skip())
            elif self.is_atom(self.index) and not (word == "not" and "not" not in self.schema):
                source = self.atom(head)
                self.sources.append(source)
                self.columns(source, self.bind)
            else:
                conditions.append(self.skip())
            if not self.take(","):
                return negated, conditions

    def condition(self) -> None:
        """Reads a condition."""
        start = self.here
        condition = self.guard(start, self.disjunction)
        if condition.type != "bool":
            raise self.error("Datalog: a condition is expected here", start)
        if self.here.kind != "end" and self.here.text not in (",", "."):
            raise self.expected("',' or '.'")
        self.conditions.append(condition)

    def negated(self, head: Token) -> None:
        """Reads a negated atom: an anti join on the variables that other atoms have."""
        source = self.atom(head)
        on: list[Expr] = []
        own: dict[str, Expr] = {}

        def argument(column: Expr) -> None:
            token = self.here
            if token.kind != "name" or token.text.lower() in WORDS:
                on.append(self.guard(token, lambda: call("eq", column, self.unary())))
                return
            self.index += 1
            known = self.variables | own
            if token.text in known:
                on.append(self.guard(token, lambda: _equal(known[token.text], column)))
            elif token.text in self.existential:
                raise self.error(
                    f"Datalog: variable {token.text} is in two negated atoms and in no other", token,
                    hint="use every variable in an atom that is not negated; write _ for any value",
                )  # fmt: skip
            elif token.text != "_":
                own[token.text] = column

        self.columns(source, argument)
        self.existential |= set(own)
        self.sources.append(Source(source.alias, source.table, join="anti", on=tuple(on)))

    def atom(self, head: Token) -> Source:
        """Returns the relation of the atom at the current token."""
        token = self.name("a relation")
        if token.text not in self.schema:
            raise self.error(f"unknown relation {token.text}", token, hint=tables_hint(self.schema, token.text))
        alias, taken = token.text, {source.alias.lower() for source in self.sources}
        uses = 1
        while alias.lower() in taken:
            uses += 1
            alias = f"{token.text}_{uses}"
        return Source(alias, self.schema[token.text])

    def columns(self, source: Source, argument: Callable[[Expr], None]) -> None:
        """Reads the arguments of an atom with the function `argument`."""
        table, token = source.table, self.tokens[self.index - 1]
        columns = table.columns if table != self.derived else table.columns[:-1]  # without the stamp
        self.want("(")
        position = 0
        while not self.take(")"):
            if position:
                self.want(",")
            if position >= len(columns):
                raise self.error(f"{table.name} has {len(columns)} columns, but this atom has more arguments", token)
            column = source.qualified(columns[position].name)
            why = why_untyped(column.type)
            if why is not None and self.here.text != "_":
                raise self.error(f"column {table.name}.{columns[position].name} has no type", self.here, why)
            argument(column)
            position += 1
        if position != len(columns):
            raise self.error(f"{table.name} has {len(columns)} columns, but this atom has {position} arguments", token)

    def bind(self, column: Expr) -> None:
        """Reads an argument of a positive atom."""
        token = self.here
        if token.kind == "name" and token.text.lower() not in WORDS:
            self.index += 1
            if token.text == "_":
                return
            if token.text in self.variables:
                self.conditions.append(self.guard(token, lambda: _equal(self.variables[token.text], column)))
            else:
                self.variables[token.text] = column
            return
        self.conditions.append(self.guard(token, lambda: call("eq", column, self.unary())))


def _equal(left: Expr, right: Expr) -> Expr:
    join_type(left, right, left.type, right.type)
    return call("eq", left, right)


def parse(text: str, schema: Schema) -> Relation:
    """Returns the relation of Datalog rules: a query, a group or a union. Raises PlanError, with the position, for
    other texts."""
    return _Reader(text, schema).rules()
