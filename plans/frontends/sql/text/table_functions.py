"""Rewrites tokens of FROM clauses of other dialects, for all parsers.

Flink's call of a table function, `TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' MINUTES))`, is read as
`TUMBLE(orders, at, INTERVAL '10' MINUTES)`: some words are dropped, the others keep their positions.
`TABLE(SESSION(TABLE orders PARTITION BY shop, ...))` is `SESSION(orders, shop, ...)`. Snowflake's MATCH_CONDITION is a
keyword before a parenthesis, and otherwise a name. SESSION is a name, and so is WINDOW unless it begins a clause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot.tokens import TokenType

from plans.frontends.sql.relations.windows import CALLS
from plans.frontends.sql.scalars.interval import SESSION

_PARTITION = "PARTITION BY"
_QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER)
"""Tokens of string literals and quoted names, which are not keywords."""


def plain(tokens: Sequence[Any]) -> list[Any]:
    """Returns the tokens of a text without the words that only Flink writes around arguments.

    Snowflake's keywords get tokens of their own.
    """
    words = ["" if token.token_type in _QUOTED else " ".join(token.text.upper().split()) for token in tokens]
    dropped: set[int] = set()
    for i in range(len(words)):
        if words[i] == "MATCH_CONDITION":
            tokens[i].token_type = TokenType.MATCH_CONDITION if words[i + 1 : i + 2] == ["("] else TokenType.VAR
        elif words[i] == "SESSION" or (words[i] == "WINDOW" and words[i + 2 : i + 3] != ["AS"]):
            tokens[i].token_type = TokenType.VAR
    for i in range(len(words) - 3):
        if words[i : i + 2] == ["TABLE", "("] and words[i + 2] in (*CALLS, SESSION) and words[i + 3] == "(":
            dropped |= {i, i + 1, *_closing(words, i + 1), *_inside(words, i + 3)}
            for at in _partitions(words, i + 3):
                tokens[at].token_type = TokenType.COMMA
    return [token for i, token in enumerate(tokens) if i not in dropped]


def _closing(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the position of the parenthesis that closes the one at `start`, if there is one."""
    depth = 0
    for i in range(start, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            yield i
            return


def _inside(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the positions of the words to drop between the parentheses at `start`."""
    end = next(_closing(words, start), len(words))
    for i in range(start, end - 1):
        if words[i] == "TABLE" and words[i + 1] not in ("(", ","):
            yield i
        elif words[i : i + 2] == ["DESCRIPTOR", "("]:
            yield from (i, i + 1, *_closing(words, i + 1))
        elif words[i] == _PARTITION and words[i + 1] == "(":
            yield from (i + 1, *_closing(words, i + 1))


def _partitions(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the positions of PARTITION BY between the parentheses at `start`. Each one begins another argument."""
    end = next(_closing(words, start), len(words))
    return (i for i in range(start, end) if words[i] == _PARTITION)
