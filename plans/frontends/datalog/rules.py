"""The rules of a Datalog text: where they are, and the relation of each. Part of `plans.frontends.datalog`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plans.expressions.build import Expr, call
from plans.frontends.datalog.head import Argument, Head
from plans.frontends.datalog.terms import WORDS
from plans.frontends.datalog.tokens import Token
from plans.queries.algebra import Group, Query, Relation, Source
from plans.queries.variables import join_type
from plans.schema import Schema, Table, tables_hint
from plans.types import why_untyped

GOAL = "?-"


@dataclass(frozen=True)
class Rule:
    """A rule that has not been read yet: the position of its first token, which is its head or the mark of a goal, and
    the names in its body, each with whether it is negated."""

    start: int
    head: Token
    atoms: tuple[tuple[Token, bool], ...]

    @property
    def reads(self) -> set[str]:
        """Returns the names in the body, in lower case."""
        return {token.text.lower() for token, _ in self.atoms}


class Rules(Head):
    """A recursive-descent parser. The columns of atoms are bound before the rest of a rule is read.

    `schema` has the tables and predicates that rules can read; `inputs` the relations of predicates, by name in lower
    case; `stamped` the tables whose last column is a stamp, which no rule names: rows of a recursion in its own rules.
    """

    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(text)
        self.schema = schema
        self.inputs: dict[str, Relation] = {}
        self.stamped: list[Table] = []

    def rules(self) -> list[Rule]:
        """Returns the rules of the text."""
        starts = [0, *(place for place, token in enumerate(self.tokens, 1) if token.text == ".")]
        return [self.rule_at(start) for start in starts if start == 0 or self.tokens[start].kind != "end"]

    def rule_at(self, start: int) -> Rule:
        """Returns the rule that begins at a token."""
        self.index = start
        head = self.take(GOAL) or self.name("the head's name")
        body, atoms = head.text == GOAL, list[tuple[Token, bool]]()
        while self.here.kind != "end" and self.here.text != ".":
            before = self.tokens[self.index - 1].text.lower()
            word = self.here.text.lower() in ("not", "and", "or")
            if body and self.is_atom(self.index) and before in (":-", GOAL, ",", "not", "!") and not word:
                atoms.append((self.here, before in ("not", "!")))
            body = body or self.here.text == ":-"
            self.index += 1
        return Rule(start, head, tuple(atoms))

    def read(self, rule: Rule, valued: bool = False) -> Query | Group:
        """Returns the relation of a rule. `valued`: MIN and MAX in the head stand for their values."""
        self.index, self.valued = rule.start + 1, valued
        self.sources, self.conditions, self.variables, self.existential = [], [], {}, set()
        goal = rule.head.text == GOAL
        arguments = [] if goal else self.arguments()
        if not goal:
            self.want(":-")
        negated, conditions = self.body()
        if self.here.kind != "end":
            self.want(",", ".")
        if not self.sources:
            what = "only negated atoms" if negated else "no atom"
            raise self.error(f"Datalog: the body has {what}", rule.head)
        for self.index in negated:
            self.negated()
        for self.index in conditions:
            self.condition()
        if goal:
            texts = {token.text: token for token in reversed(self.tokens[rule.start :])}
            arguments = [Argument(texts[name], name) for name in self.variables]
        return self.relation(arguments)

    def body(self) -> tuple[list[int], list[int]]:
        """Reads the atoms of a body, and returns the positions of its negated atoms and its conditions."""
        negated: list[int] = []
        conditions: list[int] = []
        while True:
            word = self.here.text.lower()
            if self.take("!") or (word == "not" and self.is_atom(self.index + 1) and self.take("not")):
                negated.append(self.skip())
            elif self.is_atom(self.index) and not (word == "not" and "not" not in self.schema):
                source = self.atom()
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

    def negated(self) -> None:
        """Reads a negated atom: an anti join on the variables that other atoms have."""
        source = self.atom()
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
        self.sources.append(replace(source, join="anti", on=tuple(on)))

    def atom(self) -> Source:
        """Returns the relation of the atom at the current token."""
        token = self.name("a relation")
        if token.text not in self.schema:
            raise self.error(f"unknown relation {token.text}", token, hint=tables_hint(self.schema, token.text))
        alias, taken = token.text, {source.alias.lower() for source in self.sources}
        uses = 1
        while alias.lower() in taken:
            uses += 1
            alias = f"{token.text}_{uses}"
        return Source(alias, self.schema[token.text], input=self.inputs.get(token.text.lower()))

    def columns(self, source: Source, argument: Callable[[Expr], None]) -> None:
        """Reads the arguments of an atom with the function `argument`."""
        table, token = source.table, self.tokens[self.index - 1]
        columns = table.columns[:-1] if table in self.stamped else table.columns  # without the stamp
        by_position = f"write a variable, a value or _ for each of: {', '.join(column.name for column in columns)}"
        self.want("(")
        position = 0
        while not self.take(")"):
            if position:
                self.want(",")
            if self.here.kind == "name" and self.tokens[self.index + 1].text == "=":
                raise self.error("Datalog: arguments are given by position, without names", self.here, by_position)
            if position >= len(columns):
                message = f"{table.name} has {len(columns)} columns, but this atom has more arguments"
                raise self.error(message, token, by_position)
            column = source.qualified(columns[position].name)
            why = why_untyped(column.type)
            if why is not None and self.here.text != "_":
                raise self.error(f"column {table.name}.{columns[position].name} has no type", self.here, why)
            argument(column)
            position += 1
        if position != len(columns):
            message = f"{table.name} has {len(columns)} columns, but this atom has {position} arguments"
            raise self.error(message, token, by_position)

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
