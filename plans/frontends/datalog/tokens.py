"""The tokens of a Datalog text, and the current position among them. Part of `plans.frontends.datalog`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from plans.errors import PlanError, Position

Made = TypeVar("Made")

_TOKEN = re.compile(
    r"(?P<space>\s+|(?:(?<=\s)|^)[%#][^\n]*)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<string>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>:-|\?-|<=>|<=|>=|!=|<>|==|[(),.<>=+\-*/%!])",
    re.MULTILINE,
)

_SQL = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/|\()*(?:SELECT|WITH|FROM|VALUES|TABLE|PIVOT|UNPIVOT)\b", re.I | re.S)
_HEAD = re.compile(r"\s*\w+\s*\([^\[\]]*?\)\s*:-")


def looks_like(text: str) -> bool:
    """Returns whether a text is meant as Datalog: it contains `:-` or `?-`, and does not begin like SQL, in which
    string literals and `a[1:-1]` may contain them, too."""
    return (":-" in text or "?-" in text) and (_SQL.match(text) is None or _HEAD.match(text) is not None)


@dataclass(frozen=True)
class Token:
    """A token: its kind, its text and its position."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """The tokens of a text, one of which is current."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.index = 0

    def _tokens(self) -> list[Token]:
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
                tokens.append(Token(str(match.lastgroup), match[0], at, match.end()))
            at = match.end()
        return [*tokens, Token("end", "", len(self.text.rstrip()), len(self.text.rstrip()) + 1)]

    @property
    def here(self) -> Token:
        """Returns the current token."""
        return self.tokens[self.index]

    def error(self, message: str, token: Token | None = None, hint: str = "") -> PlanError:
        """Returns an error at a token, by default the current one."""
        token = token or self.here
        return PlanError(message, hint=hint, position=Position.of(self.text, token.start, token.end), text=self.text)

    def take(self, *texts: str) -> Token | None:
        """Consumes the current token and returns it if it is one of these; else returns None."""
        token = self.here
        if token.kind in ("mark", "name") and token.text.lower() in texts:
            self.index += 1
            return token
        return None

    def want(self, *texts: str) -> Token:
        """Consumes and returns the current token, which must be one of these."""
        token = self.take(*texts)
        if token is None:
            raise self.expected(" or ".join(repr(text) for text in texts))
        return token

    def expected(self, what: str) -> PlanError:
        """Returns the error that another token was expected here."""
        found = repr(self.here.text) if self.here.text else "the end"
        return self.error(f"Datalog: expected {what}, found {found}")

    def name(self, what: str) -> Token:
        """Consumes and returns the current token, which must be a name."""
        if self.here.kind != "name":
            raise self.expected(what)
        self.index += 1
        return self.tokens[self.index - 1]

    def is_atom(self, index: int) -> bool:
        """Returns whether `name(` begins at a token."""
        return self.tokens[index].kind == "name" and self.tokens[index + 1].text == "("

    def guard(self, token: Token, build: Callable[[], Made]) -> Made:
        """Returns the result of `build`. A PlanError without a position gets that of `token`."""
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, Position.of(self.text, token.start, token.end)) from None

    def skip(self) -> int:
        """Skips a value or condition up to the next comma, full stop or bracket outside its own parentheses. Returns
        the position at which it begins."""
        start, depth = self.index, 0
        while self.here.kind != "end" and (depth or self.here.text not in (",", ".", ")")):
            depth += (self.here.text == "(") - (self.here.text == ")")
            self.index += 1
        return start
