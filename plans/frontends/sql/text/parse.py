"""Parses SQL text into sqlglot's syntax tree, with the positions of its nodes, and reports errors in the user's words.

`plans.frontends.sql.text.reader` has the dialects. The extent of a node in the text is in its `meta["span"]`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError, TokenError

from plans.errors import PlanError, Position
from plans.frontends.sql.text.flink import of_flink
from plans.frontends.sql.text.meanings.calls import with_meanings
from plans.frontends.sql.text.meanings.json_calls import with_json
from plans.frontends.sql.text.meanings.json_paths import with_arrows, with_paths
from plans.frontends.sql.text.meanings.json_rows import with_json_rows
from plans.frontends.sql.text.meanings.patterns import with_patterns, with_percents
from plans.frontends.sql.text.meanings.regexes import with_regexes
from plans.frontends.sql.text.meanings.zones import with_zones
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import CLOSE
from plans.frontends.sql.text.reader import DIALECTS, SPARK, Fault, first_index, plain, reader
from plans.frontends.sql.text.rewrites.best import with_best
from plans.frontends.sql.text.rewrites.clickhouse import from_clickhouse
from plans.frontends.sql.text.rewrites.commas import with_tight_joins
from plans.frontends.sql.text.rewrites.conversions import (
    with_conversions,
    with_empty_texts,
    with_limits,
    without_empty_orders,
)
from plans.frontends.sql.text.rewrites.events import with_events
from plans.frontends.sql.text.rewrites.generators import (
    with_applied,
    with_arrays,
    with_flattened,
    with_series,
    with_values,
)
from plans.frontends.sql.text.rewrites.marks import with_marked_joins
from plans.frontends.sql.text.rewrites.names import with_names, with_nulls
from plans.frontends.sql.text.rewrites.pivot_statements import with_pivots
from plans.frontends.sql.text.rewrites.quantifiers import without_quantifiers
from plans.frontends.sql.text.rewrites.rows import with_rows
from plans.frontends.sql.text.translate import (
    in_spark,
    with_aliases,
    with_differences,
    with_groupings,
    with_indexes,
    with_lengths,
    with_moments,
    with_own_names,
    with_samples,
    with_shorthands,
    with_wall_clocks,
)


@dataclass(frozen=True)
class Words:
    """The words of a text, in which the wording of a construct can be found."""

    text: str
    tokens: tuple[tuple[int, int], ...]

    def phrase(self, phrase: str, before: int | None = None) -> tuple[int, int] | None:
        """Returns the extent of these consecutive words: the first occurrence, or the last one before an offset."""
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


_MEANT = {"dune": "trino", "fabric": "tsql"}
"""Dialects whose functions and casts have the meaning of another dialect."""


def statements(text: str, dialect: str) -> tuple[list[Any], Words]:
    """Returns the statements of a text, and its words. Raises PlanError, with the position, if it is not SQL."""
    if dialect not in DIALECTS:
        raise PlanError(
            f"SQL dialect {dialect!r} is not known",
            hint="use 'spark' (double quotes write text), 'ansi' (double quotes write names), or one of "
            + ", ".join(DIALECTS[2:]),
        )
    known, dialect = reader(dialect), _MEANT.get(dialect, dialect)
    try:
        tokens = known.tokenize(text)
        _check_order(tokens, text, dialect)
        found = [s for s in known.parser().parse(plain(tokens, dialect), text) if s is not None]
        found = [with_nulls(with_names(statement, dialect, text), dialect) for statement in found]
        found = [with_indexes(statement, dialect, first_index(dialect)) for statement in found]
        found = [with_tight_joins(with_marked_joins(statement, text), dialect, text) for statement in found]
        found = [with_rows(statement, dialect, text) for statement in found]
        found = [without_quantifiers(with_differences(statement, dialect), dialect, text) for statement in found]
        for limit in [limit for statement in found for limit in nodes(statement, exp.Limit)]:
            if isinstance(limit.expression, exp.Var) and limit.expression.name.upper() == "ALL":
                limit.pop()  # LIMIT ALL is no limit
        found = [with_aliases(with_groupings(statement, dialect), dialect) for statement in found]
        found = [with_events(with_samples(statement, dialect), dialect) for statement in found]
        found = [with_values(with_applied(with_shorthands(statement, dialect, text)), dialect) for statement in found]
        if dialect not in SPARK:
            found = [with_zones(with_arrows(statement, dialect, text), dialect, text) for statement in found]
            found = [with_json_rows(statement, dialect, text) for statement in found]
        found = [with_series(with_arrays(with_own_names(statement, dialect)), dialect) for statement in found]
        found = [with_flattened(statement, dialect, text) for statement in found]
        found = [without_empty_orders(statement) for statement in found]
        found = [with_pivots(with_limits(statement, dialect, text), dialect, text) for statement in found]
        found = [with_best(from_clickhouse(statement, dialect, text), dialect, text) for statement in found]
        if dialect == "flink":
            found = [of_flink(statement, text) for statement in found]
        if dialect not in SPARK:
            found = [with_meanings(statement, dialect, text) for statement in found]
            found = [with_lengths(with_paths(with_wall_clocks(statement), text)) for statement in found]
            found = [with_json(statement, dialect, text) for statement in found]
            found = [with_conversions(with_empty_texts(statement, dialect), dialect, text) for statement in found]
            found = [with_regexes(statement, dialect, text) for statement in found]
            found = [with_percents(statement, dialect, text) for statement in found]
            found = [in_spark(with_moments(statement, dialect), dialect, text) for statement in found]
            found = [with_patterns(statement, dialect, text) for statement in found]
    except Fault as fault:
        raise _readable(fault, text) from None
    except TokenError:
        raise _unended(text, dialect) from None
    except RecursionError:
        raise PlanError("SQL: the query is nested too deeply", hint="remove parentheses", text=text) from None
    except (SqlglotError, ValueError) as error:
        raise PlanError(f"SQL: {str(error).splitlines()[0]}", text=text) from None
    except (LookupError, AttributeError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PlanError(f"SQL: the parser fails on this text ({what})", text=text) from error
    return found, Words(text, tuple(_words(tokens, text)))


def _words(tokens: list[Any], text: str) -> Iterator[tuple[int, int]]:
    """Yields the extents of the words. A keyword of two words is one token of sqlglot."""
    for token in tokens:
        if text[token.start] in "'\"`":
            yield token.start, token.end + 1
        else:
            yield from (word.span() for word in re.compile(r"\S+").finditer(text, token.start, token.end + 1))


_LACKS_BY = re.compile(r"\b(GROUP|ORDER|PARTITION)(?:\s+(?!(?:BY|FROM|AS|AND|OR|IN|IS)\b)\w+)?\Z", re.IGNORECASE)
_EXPECTED = re.compile(r"(?:Expect(?:ed|ing)) (?P<what>.+?)(?: but got.*| after.*)?", re.DOTALL)


def _readable(fault: Fault, text: str) -> PlanError:
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
        message = f"{many[1]} arguments are given, but at most {many[2]} are supported"
    elif expected is not None:
        found = "the text ends" if fault.last else f"found {word!r}"
        message = f"expected {_token_name(expected['what'])}" + (f", {found}" if " after " not in message else "")
    elif "following CTE" in message:
        message = "a SELECT is expected after the WITH clause"
    elif "Unexpected token" in message:
        message = f"{word!r} is not expected here"
    elif message[:1].isupper() and not message[:2].isupper():
        message = message[0].lower() + message[1:]
    lacking = _LACKS_BY.search(text, 0, end)
    if lacking is not None:
        return PlanError(
            f"SQL: {lacking[1].upper()} needs BY", hint=f"write {lacking[1].upper()} BY",
            position=Position.of(text, *lacking.span(1)), text=text,
        )  # fmt: skip
    close = None if fault.last else _misspelled_keyword(text, end)
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


def misspelled(word: str) -> list[str]:
    """Returns the keyword closest to a word, as a list. The list is empty for a keyword, and if none is close."""
    if word.upper() in _KEYWORDS or not word.isalpha():
        return []
    return difflib.get_close_matches(word.upper(), _KEYWORDS, 1, CLOSE)


def _misspelled_keyword(text: str, end: int) -> tuple[tuple[int, int], str] | None:
    """Returns the last of the few words before a position that is close to a keyword, and that keyword. The word after
    FROM or JOIN is the name of a table, such as `orders`, and is skipped."""
    words = [word.span() for word in re.compile(r"\w+").finditer(text, 0, end)]
    for before, (begin, stop) in reversed(list(zip([(0, 0), *words], words, strict=False))[-_BACK:]):
        named = text[slice(*before)].upper() in ("FROM", "JOIN")
        found = misspelled(text[begin:stop]) if stop - begin >= _SHORTEST and not named else []
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


_TRAILING = ("bigquery", "clickhouse", "duckdb", "snowflake")
"""The dialects in which a comma may end a SELECT list."""


def _continues(token: Any, following: list[Any]) -> bool:
    """Returns whether a name begins where a token ends: the parser reads 0x1F and 1_000 as 0 and 1 with an alias."""
    return any(one.token_type == TokenType.VAR and one.start == token.end + 1 for one in following)


def _check_order(tokens: list[Any], text: str, dialect: str) -> None:
    """Raises PlanError for errors that the parser accepts: commas without an item; ON, USING and AS without an
    operand."""
    words = ["", *(" ".join(text[token.start : token.end + 1].upper().split()) for token in tokens), ""]
    closes = _CLOSES - {"FROM"} if dialect in _TRAILING else _CLOSES
    for i, token in enumerate(tokens):
        before, word, after = words[i : i + 3]
        follows = after in _CLOSES
        if word == "," and (after in closes or before in _OPENS):
            problem = f"there is nothing {'after' if follows else 'before'} this comma"
        elif word in ("ON", "USING", "AS") and follows:
            problem = f"{word} is not complete"
        elif after == "FROM" and (
            (word == "SELECT" and words[max(i - 1, 0) : i + 1] != ["EXISTS", "("])
            or (before == "SELECT" and word in ("DISTINCT", "ALL"))
        ):
            problem = "there is no column after this word"
        elif token.token_type == TokenType.NUMBER and _continues(token, tokens[i + 1 : i + 2]):
            start, end = token.start, tokens[i + 1].end + 1
            hint = "write the decimal digits of the number, or a space before a name"
            message = f"SQL: {text[start:end]} is not a number that is supported"
            raise PlanError(message, hint=hint, position=Position.of(text, start, end), text=text)
        elif word == "(" and after == ")" and before in ("IN", "USING"):
            problem = f"the list of {before} is empty"
        elif word == "MATCH_RECOGNIZE" and after == "(":
            place = Position.of(text, token.start, token.end + 1)
            hint = "compare rows with LAG and LEAD, or join the table with itself"
            raise PlanError("MATCH_RECOGNIZE is not supported", hint=hint, position=place, text=text)
        else:
            continue
        place = Position.of(text, token.start, token.end + 1)
        raise PlanError(f"SQL: {problem}", position=place, text=text)


_LEXEMES = r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|`[^`]*`|" + r'"(?:[^"\\]|\\.)*"' + r"|[^'\"`/-]+|[/-]"


def _unended(text: str, dialect: str) -> PlanError:
    """Returns the error of an unterminated string, name or comment."""
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
        f"SQL: the {what} that begins here is not closed",
        hint=f"write the closing {close}" + (f"; write a {close} inside it twice" if what != "comment" else ""),
        position=Position.of(text, at, at + len(opened)),
        text=text,
    )


def double_quoted(node: Any, text: str) -> list[Any]:
    """Returns the string literals of a tree that are written in double quotes."""
    found = []
    for literal in nodes(node, exp.Literal):
        start = literal.meta.get("start")
        if literal.args.get("is_string") and start is not None and text[start : start + 1] == '"':
            found.append(literal)
    return found
