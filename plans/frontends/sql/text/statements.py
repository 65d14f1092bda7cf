"""Splits a text into statements at semicolons outside of quotes and comments."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import tokenize
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from plans.errors import PlanError


@dataclass(frozen=True)
class Statement:
    """The text of a statement, and the line in which it begins."""

    text: str
    line: int


def statements(text: str) -> list[Statement]:
    """Returns the statements of a text, without those that are only comments. Raises PlanError for an unterminated
    quote.

    >>> [statement.text for statement in statements("SELECT ';'; -- and then; SELECT 2;")]
    ["SELECT ';'"]
    """
    try:
        tokens = tokenize(text, read="spark")
    except TokenError as error:
        raise PlanError(f"the text cannot be taken apart: {' '.join(str(error).split())}") from None
    found: list[Statement] = []
    first, last = None, 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if first is not None:
                found.append(Statement(text[first.start : last], first.line))
            first = None
        else:
            first, last = first or token, token.end + 1
    if first is not None:
        found.append(Statement(text[first.start : last], first.line))
    return found
