"""The words of a Datalog text, and a place among them. Part of `plans.frontends.datalog`."""

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
    r"|(?P<mark>:-|<=>|<=|>=|!=|<>|==|[(),.<>=+\-*/%!])",
    re.MULTILINE,
)

_SQL = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/|\()*(?:SELECT|WITH|FROM|VALUES|TABLE|PIVOT|UNPIVOT)\b", re.I | re.S)
_HEAD = re.compile(r"\s*\w+\s*\([^\[\]]*?\)\s*:-")


def looks_like(text: str) -> bool:
    """Returns whether a text is meant as rules: `:-` is in it, and it does not begin as SQL does, in which texts and
    `a[1:-1]` may have the sign, too."""
    return ":-" in text and (_SQL.match(text) is None or _HEAD.match(text) is not None)


@dataclass(frozen=True)
class Token:
    """A word: its kind, its text and where it stands."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """The words of a text, of which one is next."""

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
        """Returns the next word."""
        return self.tokens[self.index]

    def error(self, message: str, token: Token | None = None, hint: str = "") -> PlanError:
        """Returns an error at a word, the next one if none is given."""
        token = token or self.here
        return PlanError(message, hint=hint, position=Position.of(self.text, token.start, token.end), text=self.text)

    def take(self, *texts: str) -> Token | None:
        """Returns the next word and passes it, if it is one of these; None if not."""
        token = self.here
        if token.kind in ("mark", "name") and token.text.lower() in texts:
            self.index += 1
            return token
        return None

    def want(self, *texts: str) -> Token:
        """Returns the next word, which has to be one of these, and passes it."""
        token = self.take(*texts)
        if token is None:
            raise self.expected(" or ".join(repr(text) for text in texts))
        return token

    def expected(self, what: str) -> PlanError:
        """Returns the error that something else stands here."""
        found = repr(self.here.text) if self.here.text else "the end"
        return self.error(f"Datalog: expected {what}, found {found}")

    def name(self, what: str) -> Token:
        """Returns the next word, which has to be a name, and passes it."""
        if self.here.kind != "name":
            raise self.expected(what)
        self.index += 1
        return self.tokens[self.index - 1]

    def is_atom(self, index: int) -> bool:
        """Returns whether `name(` stands there."""
        return self.tokens[index].kind == "name" and self.tokens[index + 1].text == "("

    def guard(self, token: Token, build: Callable[[], Made]) -> Made:
        """Returns what `build` makes; a PlanError without a place gets that of `token`."""
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, Position.of(self.text, token.start, token.end)) from None

    def skip(self) -> int:
        """Passes over a value or condition, to the next comma, full stop or bracket outside its own parentheses; where
        it began.
        """
        start, depth = self.index, 0
        while self.here.kind != "end" and (depth or self.here.text not in (",", ".", ")")):
            depth += (self.here.text == "(") - (self.here.text == ")")
            self.index += 1
        return start
