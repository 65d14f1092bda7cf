"""SQL text to sqlglot's syntax tree, with the places of its nodes, and errors in the user's own words.

Two dialects, both Spark's: `spark`, in which double quotes write text, and `ansi`, in which they quote names (Spark's
with `spark.sql.ansi.doubleQuotedIdentifiers`). Nodes carry where they begin and end in the text as `meta["span"]`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import TokenType

from plans.errors import PlanError, Position
from plans.expressions.names import NAMES
from plans.frontends.sql.text.place import CLOSE
from plans.stack import MAX_NESTING, with_room

DROPPED = "dropped"
"""What the parser notes of a call: it has not kept all of its arguments."""


class _Fault(ParseError):
    """A syntax error and the token at which it shows."""

    def __init__(self, message: str, token: Any, last: bool) -> None:
        super().__init__(message)
        self.token = token
        self.last = last  # the text ends behind the token


class SparkSQL(Spark):
    """Spark's SQL as Spark 4 reads it: a doubled quote in a string is a quote."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with the doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\", '"']

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        """Spark's parser: it notes places, does not run out of stack, and keeps the plus sign before a value.

        That sign makes a number of a string.
        """

        FUNCTIONS: ClassVar[dict[str, Any]] = {  # those of scalars keep their names and the order of their arguments
            name: build
            for name, build in Spark.Parser.FUNCTIONS.items()
            if name not in NAMES or name in ("DATE", "BOOLEAN")
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {  # Spark has no functions of these names
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name not in ("AND", "OR", "CHAR", "CHR", "DECODE", "INITCAP")
        }
        UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: self._parse_plus(),
        }

        def reset(self) -> None:
            """Begins a new text."""
            super().reset()
            self._levels = 0

        def _inside(self, levels: int, parse: Any, *args: Any, **kwargs: Any) -> Any:
            """Parses so many levels deeper; the result is marked with the text that it was made of."""
            first = self._curr
            self._levels += levels
            if self._levels > MAX_NESTING:
                raise PlanError(
                    f"the query is nested too deeply here: more than {MAX_NESTING} levels",
                    hint="take parentheses out: AND, OR and + need none in a chain",
                    position=Position.of(self.sql, first.start, first.end + 1) if first else None,
                    text=self.sql,
                )
            try:
                node = with_room(lambda: parse(*args, **kwargs))
            finally:
                self._levels -= levels
            if node is not None and first and self._prev and self._prev.end >= first.start:
                node.meta.setdefault("span", (first.start, self._prev.end + 1))
            return node

        def _parse_statement(self) -> Any:
            return self._inside(0, super()._parse_statement)

        def _parse_unary(self) -> Any:
            return self._inside(1, super()._parse_unary)

        def _parse_plus(self) -> Any:
            value = self._parse_unary()
            if value is None:
                self.raise_error("nothing stands behind +", self._prev)
            return self.expression(exp.Anonymous(this="+", expressions=[value]))

        def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
            return self._inside(0, super()._parse_select, *args, **kwargs)

        def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
            return self._inside(1, super()._parse_table, *args, **kwargs)

        def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
            comma = self._curr if self._curr and self._curr.token_type == TokenType.COMMA else None
            node = self._inside(0, super()._parse_join, *args, **kwargs)
            if comma is not None and node is None:
                self.raise_error("no table stands behind this comma", comma)
            return node

        def expression(self, *args: Any, **kwargs: Any) -> Any:
            """Makes a node; note how far the text has been read."""
            node = super().expression(*args, **kwargs)
            if self._prev:
                node.meta["until"] = self._prev.end + 1
            return node

        def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
            """Checks a node; notes of a call that some of its arguments are in no place of it."""
            found = super().validate_expression(expression, args)
            for arg in args or ():
                node = arg
                while node is not None and node is not found:
                    node = node.parent
                if node is None:
                    found.meta[DROPPED] = True
            return found

        def _parse_between(self, this: Any) -> Any:
            low = self._parse_bitwise()
            if not self._match(TokenType.AND):
                self.raise_error("BETWEEN lacks its AND")
            return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

        def _parse_in(self, this: Any, alias: bool = False) -> Any:
            if self._curr is None or self._curr.token_type != TokenType.L_PAREN:
                self.raise_error("IN takes a list or a query in parentheses")
            return super()._parse_in(this, alias)

        def _parse_case(self) -> Any:
            if self._match(TokenType.DOT, advance=False):
                return super()._parse_case()  # a name
            value, ifs = self._parse_disjunction(), []
            while self._match(TokenType.WHEN):
                condition = self._parse_disjunction()
                if not self._match(TokenType.THEN):
                    self.raise_error("WHEN lacks its THEN")
                ifs.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
            default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
            if not self._match(TokenType.END):
                self.raise_error("CASE lacks its END")
            return self.expression(exp.Case(this=value, ifs=ifs, default=default))

        def _parse_position(self, haystack_first: bool = False) -> Any:
            args = self._parse_csv(self._parse_bitwise)
            if len(args) == 1 and self._match(TokenType.IN):
                return self.expression(exp.StrPosition(this=self._parse_bitwise(), substr=args[0]))
            return self.expression(exp.Anonymous(this="POSITION", expressions=args))

        def _warn_unsupported(self) -> None:
            """Does nothing: what is no SELECT is refused."""

        def raise_error(self, message: str, token: Any = None) -> None:
            """Stops at the token."""
            raise _Fault(message, token or self._curr or self._prev, not token and not self._curr)


class AnsiSQL(SparkSQL):
    """Spark's SQL with names in double quotes."""

    class Tokenizer(SparkSQL.Tokenizer):
        """Spark's tokens; only single quotes write text."""

        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]


DIALECTS = {"spark": SparkSQL, "ansi": AnsiSQL}


@dataclass(frozen=True)
class Words:
    """The words of a text, to find what a construct was called there."""

    text: str
    tokens: tuple[tuple[int, int], ...]

    def run_before(self, end: int, words: frozenset[str]) -> tuple[int, int] | None:
        """Returns the extent of the last unbroken run of these words that ends at or before `end`."""
        stop = None
        for start, after in reversed(self.tokens):
            if after > end:
                continue
            if self.text[start:after].upper() in words:
                stop, begin = stop or after, start
            elif stop is not None:
                break
        return (begin, stop) if stop is not None else None

    def phrase(self, phrase: str, before: int | None = None) -> tuple[int, int] | None:
        """Returns the extent of these words in a row: the first one, or the last one before an offset."""
        wanted = phrase.upper().split()
        found = None
        for i in range(len(self.tokens) - len(wanted) + 1):
            run = self.tokens[i : i + len(wanted)]
            if before is not None and run[-1][1] > before:
                break
            if [self.text[start:end].upper() for start, end in run] == wanted:
                found = run[0][0], run[-1][1]
                if before is None:
                    break
        return found


def statements(text: str, dialect: str) -> tuple[list[Any], Words]:
    """Returns the statements of a text, and its words. PlanError, with the place, where it is not SQL."""
    if dialect not in DIALECTS:
        raise PlanError(
            f"SQL dialect {dialect!r} is not known",
            hint="use 'spark' (double quotes write text) or 'ansi' (double quotes write names)",
        )
    reader = DIALECTS[dialect]()
    try:
        tokens = reader.tokenize(text)
        _check_order(tokens, text)
        found = [s for s in reader.parser().parse(tokens, text) if s is not None]
    except _Fault as fault:
        raise _readable(fault, text) from None
    except TokenError:
        raise _unended(text, dialect) from None
    except RecursionError:
        raise PlanError("SQL: the query is nested too deeply", hint="take parentheses out", text=text) from None
    except (SqlglotError, ValueError) as error:
        raise PlanError(f"SQL: {str(error).splitlines()[0]}", text=text) from None
    except (LookupError, AttributeError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PlanError(f"SQL: the parser stumbles over this text ({what})", text=text) from error
    return found, Words(text, tuple(_words(tokens, text)))


def _words(tokens: list[Any], text: str) -> Iterator[tuple[int, int]]:
    """Yields the extents of the words; sqlglot takes some keywords of two words for one token."""
    for token in tokens:
        if text[token.start] in "'\"`":
            yield token.start, token.end + 1
        else:
            yield from (word.span() for word in re.compile(r"\S+").finditer(text, token.start, token.end + 1))


_EXPECTED = re.compile(r"(?:Expect(?:ed|ing)) (?P<what>.+?)(?: but got.*| after.*)?", re.DOTALL)


def _readable(fault: _Fault, text: str) -> PlanError:
    """Returns the error in words that do not name the parser's objects."""
    message, token = str(fault).rstrip("."), fault.token
    start, end = (token.start, token.end + 1) if token else (0, 1)
    word = text[start:end]
    expected = _EXPECTED.fullmatch(message)
    many = re.match(r"The number of provided arguments \((\d+)\).*\((\d+)\)", message)
    if message.startswith("Required keyword"):
        if re.fullmatch(r"[A-Za-z ]+|[^\w()\[\]'\"`]+", word):
            message = f"{word.upper()} is not complete"
        else:
            message = f"something is missing near {word!r}"
    elif many is not None:
        message = f"{many[1]} arguments are given, at most {many[2]} are taken"
    elif expected is not None:
        found = "the text ends" if fault.last else f"found {word!r}"
        message = f"expected {_token_name(expected['what'])}" + (f", {found}" if " after " not in message else "")
    elif "following CTE" in message:
        message = "a SELECT is expected behind the WITH clause"
    elif "Unexpected token" in message:
        message = f"{word!r} is not expected here"
    elif message[:1].isupper() and not message[:2].isupper():
        message = message[0].lower() + message[1:]
    close = None if fault.last else _meant(text, end)
    if close is not None:
        (start, end), keyword = close
        return PlanError(
            f"SQL: {text[start:end]!r} is not expected here", hint=f"did you mean {keyword}?",
            position=Position.of(text, start, end), text=text,
        )  # fmt: skip
    return PlanError(f"SQL: {message}", position=Position.of(text, start, end), text=text)


_KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "ORDER", "PARTITION", "HAVING", "QUALIFY", "LIMIT", "OFFSET",
    "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "USING", "UNION", "EXCEPT", "INTERSECT",
    "WITH", "WHEN", "THEN", "ELSE", "CASE", "BETWEEN", "LIKE", "EXISTS", "OVER", "NULL", "TRUE", "FALSE",
)  # fmt: skip


def misspelled(word: str, names: Iterable[str] = _KEYWORDS) -> list[str]:
    """Returns the keyword that a word is close to, if there is one that it is not."""
    known = set(names)
    return (
        [] if word.upper() in known or not word.isalpha() else difflib.get_close_matches(word.upper(), known, 1, CLOSE)
    )


def _meant(text: str, end: int) -> tuple[tuple[int, int], str] | None:
    """Returns the last of the few words before a place that is close to a keyword, and that keyword."""
    words = [word.span() for word in re.compile(r"\w+").finditer(text, 0, end)]
    for begin, stop in reversed(words[-_BACK:]):
        found = misspelled(text[begin:stop]) if stop - begin >= _SHORTEST else []
        if found:
            return (begin, stop), found[0]
    return None


_BACK, _SHORTEST = 3, 4


def _token_name(what: str) -> str:
    if what.upper() == "TYPE":
        return "the name of a type"
    return repr(what) if re.fullmatch(r"\W+|[A-Z_ ]+", what) else what


_OPENS = frozenset({"(", "SELECT", "DISTINCT", "ALL", "FROM", "GROUP BY", "ORDER BY", "PARTITION BY"})
_CLOSES = frozenset({"", ")", ",", ";", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING"})


def _check_order(tokens: list[Any], text: str) -> None:
    """Refuses what the parser lets pass: commas without an item, ON, USING and AS with nothing behind them."""
    words = ["", *(" ".join(text[token.start : token.end + 1].upper().split()) for token in tokens), ""]
    for i, token in enumerate(tokens):
        before, word, after = words[i : i + 3]
        follows = after in _CLOSES
        if word == "," and (follows or before in _OPENS):
            problem = f"nothing stands {'behind' if follows else 'before'} this comma"
        elif word in ("ON", "USING", "AS") and follows:
            problem = f"{word} is not complete"
        elif after == "FROM" and (word == "SELECT" or (before == "SELECT" and word in ("DISTINCT", "ALL"))):
            problem = "no column stands behind this word"
        elif word == "(" and after == ")" and before in ("IN", "USING"):
            problem = f"{before} is given an empty list"
        else:
            continue
        place = Position.of(text, token.start, token.end + 1)
        raise PlanError(f"SQL: {problem}", position=place, text=text)


_LEXEMES = r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|`[^`]*`|" + r'"(?:[^"\\]|\\.)*"' + r"|[^'\"`/-]+|[/-]"


def _unended(text: str, dialect: str) -> PlanError:
    """Returns the error of a string, name or comment that the text ends in."""
    at = 0
    while match := re.compile(_LEXEMES, re.DOTALL).match(text, at):
        if text.startswith("/*", at) and match[0] == "/":
            break
        at = match.end()
    opened = text[at : at + 2] if text.startswith("/*", at) else text[at : at + 1]
    what, close = {
        "'": ("text", "'"),
        '"': ("text" if dialect == "spark" else "name", '"'),
        "`": ("name", "`"),
        "/*": ("comment", "*/"),
    }.get(opened, ("text", "'"))
    return PlanError(
        f"SQL: the {what} that begins here does not end",
        hint=f"write the closing {close}" + (f"; a {close} inside it is written twice" if what != "comment" else ""),
        position=Position.of(text, at, at + len(opened)),
        text=text,
    )


def double_quoted(node: Any, text: str) -> list[Any]:
    """Returns the string literals of a tree that are written in double quotes."""
    found = []
    for literal in node.find_all(exp.Literal):
        start = literal.meta.get("start")
        if literal.args.get("is_string") and start is not None and text[start : start + 1] == '"':
            found.append(literal)
    return found
