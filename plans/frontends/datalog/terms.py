"""Expressions of Datalog: values and conditions over the variables of a rule. Part of `plans.frontends.datalog`."""

from __future__ import annotations

from collections.abc import Callable

from plans.expressions.build import NULL, Expr, call, lit
from plans.frontends.datalog.tokens import Token, Tokens
from plans.stack import MAX_NESTING, with_room

_COMPARE = {
    "=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "nseq",
}  # fmt: skip
WORDS = {"true": lit(True), "false": lit(False), "null": NULL}


class Terms(Tokens):
    """Reads values and conditions over the variables that the atoms have bound."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.level = 0
        self.variables: dict[str, Expr] = {}
        self.existential: set[str] = set()  # variables that only negated atoms have

    def disjunction(self) -> Expr:
        """Reads the condition or value at the current token."""
        left = self.conjunction()
        while self.take("or"):
            left = call("or", left, self.conjunction())
        return left

    def conjunction(self) -> Expr:
        """Reads a condition without OR."""
        left = self.negation()
        while self.take("and"):
            left = call("and", left, self.negation())
        return left

    def inside(self, token: Token, build: Callable[[], Expr]) -> Expr:
        """Calls `build` one level deeper in parentheses and signs. Raises PlanError if the nesting is too deep."""
        self.level += 1
        if self.level > MAX_NESTING:
            raise self.error(
                f"Datalog: the rule is nested too deeply here: more than {MAX_NESTING} levels",
                token,
                hint="remove parentheses",
            )
        value = with_room(build)
        self.level -= 1
        return value

    def negation(self) -> Expr:
        """Reads a comparison, possibly negated, or a value."""
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
        """Reads a value."""
        left = self.product()
        while token := self.take("+", "-"):
            left = call("add" if token.text == "+" else "sub", left, self.product())
        return left

    def product(self) -> Expr:
        """Reads a value without + and -."""
        left = self.unary()
        while token := self.take("*", "/", "%"):
            left = call({"*": "mul", "/": "div", "%": "mod"}[token.text], left, self.unary())
        return left

    def unary(self) -> Expr:
        """Reads a variable, a constant or an expression in parentheses."""
        if sign := self.take("-"):
            value = self.inside(sign, self.unary)
            return lit(-value.value) if value.op == "literal" and value.value is not None else call("neg", value)
        if bracket := self.take("("):
            inner = self.inside(bracket, self.disjunction)
            self.want(")")
            return inner
        token = self.here
        self.index += 1
        if token.kind == "name" and token.text.lower() not in WORDS:
            return self.variable(token)
        return self.literal(token)

    def variable(self, token: Token, where: str = "") -> Expr:
        """Returns the value of a variable. Raises PlanError if no atom binds it, or only a negated one."""
        if token.text in self.existential:
            raise self.error(
                f"Datalog: variable {token.text}{where} is only in a negated atom", token,
                hint="use every variable in an atom that is not negated",
            )  # fmt: skip
        if token.text not in self.variables:
            raise self.error(
                f"Datalog: variable {token.text}{where} is in no atom of the body", token,
                hint="use every variable in an atom",
            )  # fmt: skip
        return self.variables[token.text]

    def literal(self, token: Token) -> Expr:
        """Returns the constant of a token."""
        if token.kind == "number":
            return lit(float(token.text) if any(c in token.text for c in ".eE") else int(token.text))
        if token.kind == "string":
            quote = token.text[0]
            return lit(token.text[1:-1].replace(quote * 2, quote))
        if token.kind == "name" and token.text.lower() in WORDS:
            return WORDS[token.text.lower()]
        raise self.error("Datalog: a value is expected here", token)
