"""Datalog: `Q(a, b) :- R(a, c), S(c, b), c > 3.`

One rule, set semantics. Body: atoms over the tables of the schema, arguments by position (a variable, a constant, or
`_`), and comparisons over variables with `=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, arithmetic, parentheses, `and`, `or`,
`not`, `is [not] null`. Head: a name and variables or constants. `%` and `#` start a comment at a line's beginning or
after a space. Refused by name: several rules (union), recursion, negated atoms, aggregates, unsafe variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from plans.algebra import Query, Source, check_output_name
from plans.errors import PlanError, Position
from plans.expressions.build import NULL, Expr, call, lit
from plans.schema import Schema
from plans.stack import MAX_NESTING, with_room
from plans.variables import join_type

_TOKEN = re.compile(
    r"(?P<space>\s+|(?:(?<=\s)|^)[%#][^\n]*)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<string>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>:-|<=>|<=|>=|!=|<>|==|[(),.<>=+\-*/%!])",
    re.MULTILINE,
)
_COMPARE = {
    "=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "nseq",
}  # fmt: skip
_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_WORDS = {"true": lit(True), "false": lit(False), "null": NULL}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Parser:
    """A recursive-descent parser; columns of atoms are bound before comparisons are read."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text = text
        self.schema = schema
        self.tokens = self._tokens()
        self.index = 0
        self.level = 0
        self.sources: list[Source] = []
        self.conditions: list[Expr] = []
        self.variables: dict[str, Expr] = {}

    def _tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise PlanError(
                    f"Datalog: unexpected character {self.text[at]!r}",
                    position=Position.of(self.text, at, at + 1),
                    text=self.text,
                )
            if match.lastgroup != "space":
                tokens.append(_Token(str(match.lastgroup), match[0], at, match.end()))
            at = match.end()
        return [*tokens, _Token("end", "", len(self.text.rstrip()), len(self.text.rstrip()) + 1)]

    @property
    def here(self) -> _Token:
        return self.tokens[self.index]

    def error(self, message: str, token: _Token | None = None, hint: str = "") -> PlanError:
        token = token or self.here
        return PlanError(message, hint=hint, position=Position.of(self.text, token.start, token.end), text=self.text)

    def take(self, *texts: str) -> _Token | None:
        token = self.here
        if token.kind in ("mark", "name") and token.text.lower() in texts:
            self.index += 1
            return token
        return None

    def want(self, text: str) -> _Token:
        token = self.take(text)
        if token is None:
            found = repr(self.here.text) if self.here.text else "the end"
            raise self.error(f"Datalog: expected {text!r}, found {found}")
        return token

    def name(self, what: str) -> _Token:
        if self.here.kind != "name":
            found = repr(self.here.text) if self.here.text else "the end"
            raise self.error(f"Datalog: expected {what}, found {found}")
        self.index += 1
        return self.tokens[self.index - 1]

    def is_atom(self, index: int) -> bool:
        """Returns whether `name(` stands there."""
        return self.tokens[index].kind == "name" and self.tokens[index + 1].text == "("

    def rule(self) -> Query:
        head = self.name("the head's name")
        arguments = self.head_arguments()
        self.want(":-")
        later: list[int] = []
        while True:
            if self.take("!") or (self.here.text.lower() == "not" and self.is_atom(self.index + 1)):
                raise self.error("Datalog: negated atoms are not supported", hint="maintain the difference downstream")
            negation = self.here.text.lower() == "not" and "not" not in self.schema
            if not negation and self.is_atom(self.index):
                self.atom(head)
            else:
                later.append(self.index)
                self.skip()
            if not self.take(","):
                break
        self.take(".")
        if self.here.kind != "end":
            raise self.error(
                "Datalog: one rule is expected; several rules are a union, which is not supported",
                hint="maintain one view per rule",
            )
        for index in later:
            self.index = index
            start = self.here
            condition = self.guard(start, self.disjunction)
            if condition.type != "bool":
                raise self.error("Datalog: a condition is expected here", start)
            self.conditions.append(condition)
        outputs: list[tuple[str, Expr]] = []
        for token in arguments:
            name = self.output_name(token, [name for name, _ in outputs])
            self.guard(token, partial(check_output_name, name))
            outputs.append((name, self.head_value(token)))
        names = tuple((column.value, name) for name, column in self.variables.items())
        if not self.sources:
            raise self.error("Datalog: the body has no atom", head)
        return Query(self.text, tuple(self.sources), tuple(self.conditions), tuple(outputs), True, names=names)

    def head_arguments(self) -> list[_Token]:
        self.want("(")
        arguments: list[_Token] = []
        while not self.take(")"):
            if arguments:
                self.want(",")
            token = self.here
            self.index += 1
            if token.kind == "name" and self.here.text == "(":
                what = "aggregates are" if token.text.lower() in _AGGREGATES else "functions in the head are"
                raise self.error(f"Datalog: {what} not supported", token, hint="output the variables themselves")
            if token.kind not in ("name", "number", "string"):
                raise self.error("Datalog: the head takes variables and constants", token)
            arguments.append(token)
        return arguments

    def output_name(self, token: _Token, taken: list[str]) -> str:
        name = token.text if token.kind == "name" else f"c{len(taken)}"
        while name.lower() in (other.lower() for other in taken):
            name += "_"
        return name

    def head_value(self, token: _Token) -> Expr:
        if token.kind != "name" or token.text.lower() in _WORDS:
            return self.literal(token)
        if token.text not in self.variables:
            raise self.error(
                f"Datalog: variable {token.text} of the head is in no atom of the body", token,
                hint="every variable must occur in an atom",
            )  # fmt: skip
        return self.variables[token.text]

    def atom(self, head: _Token) -> None:
        token = self.name("a relation")
        if token.text not in self.schema:
            if token.text == head.text:
                raise self.error("Datalog: recursion is not supported", token)
            known = ", ".join(self.schema) or "none"
            raise self.error(f"unknown relation {token.text}", token, hint=f"the schema has: {known}")
        table = self.schema[token.text]
        alias, taken = token.text, {source.alias.lower() for source in self.sources}
        uses = 1
        while alias.lower() in taken:
            uses += 1
            alias = f"{token.text}_{uses}"
        source = Source(alias, table)
        self.sources.append(source)
        self.want("(")
        position = 0
        while not self.take(")"):
            if position:
                self.want(",")
            if position >= len(table.columns):
                raise self.error(f"{table.name} has {len(table.columns)} columns, more are given here", token)
            column = source.qualified(table.columns[position].name)
            self.argument(column)
            position += 1
        if position != len(table.columns):
            raise self.error(f"{table.name} has {len(table.columns)} columns, {position} are given here", token)

    def argument(self, column: Expr) -> None:
        token = self.here
        if token.kind == "name" and token.text.lower() not in _WORDS:
            self.index += 1
            if token.text == "_":
                return
            if token.text in self.variables:
                self.conditions.append(self.guard(token, lambda: self.equal(self.variables[token.text], column)))
            else:
                self.variables[token.text] = column
            return
        self.conditions.append(self.guard(token, lambda: call("eq", column, self.unary())))

    def equal(self, left: Expr, right: Expr) -> Expr:
        join_type(left, right, left.type, right.type)
        return call("eq", left, right)

    def guard(self, token: _Token, build):  # type: ignore[no-untyped-def]
        """Runs `build`; a PlanError without a place gets that of `token`."""
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, Position.of(self.text, token.start, token.end)) from None

    def skip(self) -> None:
        """Passes over a condition: to the next comma or full stop outside parentheses."""
        depth = 0
        while self.here.kind != "end" and (depth or self.here.text not in (",", ".")):
            depth += (self.here.text == "(") - (self.here.text == ")")
            self.index += 1

    def disjunction(self) -> Expr:
        left = self.conjunction()
        while self.take("or"):
            left = call("or", left, self.conjunction())
        return left

    def conjunction(self) -> Expr:
        left = self.negation()
        while self.take("and"):
            left = call("and", left, self.negation())
        return left

    def inside(self, token: _Token, build: Callable[[], Expr]) -> Expr:
        """Returns one level deeper in parentheses and signs."""
        self.level += 1
        if self.level > MAX_NESTING:
            raise self.error(
                f"Datalog: the rule is nested too deeply here: more than {MAX_NESTING} levels",
                token,
                hint="take parentheses out",
            )
        value = with_room(build)
        self.level -= 1
        return value

    def negation(self) -> Expr:
        if token := self.take("not"):
            return call("not", self.inside(token, self.negation))
        left = self.sum()
        token = self.here
        if token.text in _COMPARE:
            self.index += 1
            right = self.sum()
            return self.guard(token, lambda: call(_COMPARE[token.text], left, right))
        if self.take("is"):
            negated = self.take("not")
            self.want("null")
            test = call("isnull", left)
            return call("not", test) if negated else test
        return left

    def sum(self) -> Expr:
        left = self.product()
        while token := self.take("+", "-"):
            left = call("add" if token.text == "+" else "sub", left, self.product())
        return left

    def product(self) -> Expr:
        left = self.unary()
        while token := self.take("*", "/", "%"):
            left = call({"*": "mul", "/": "div", "%": "mod"}[token.text], left, self.unary())
        return left

    def unary(self) -> Expr:
        if sign := self.take("-"):
            value = self.inside(sign, self.unary)
            return lit(-value.value) if value.op == "literal" and value.value is not None else call("neg", value)
        if bracket := self.take("("):
            inner = self.inside(bracket, self.disjunction)
            self.want(")")
            return inner
        token = self.here
        self.index += 1
        if token.kind == "name" and token.text.lower() not in _WORDS:
            if token.text not in self.variables:
                raise self.error(
                    f"Datalog: variable {token.text} is in no atom of the body", token,
                    hint="every variable must occur in an atom",
                )  # fmt: skip
            return self.variables[token.text]
        return self.literal(token)

    def literal(self, token: _Token) -> Expr:
        if token.kind == "number":
            return lit(float(token.text) if any(c in token.text for c in ".eE") else int(token.text))
        if token.kind == "string":
            quote = token.text[0]
            return lit(token.text[1:-1].replace(quote * 2, quote))
        if token.kind == "name" and token.text.lower() in _WORDS:
            return _WORDS[token.text.lower()]
        raise self.error("Datalog: a value is expected here", token)


def parse(text: str, schema: Schema) -> Query:
    """Returns the query of one Datalog rule. PlanError, with the place, for everything else."""
    return _Parser(text, schema).rule()
