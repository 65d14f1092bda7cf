"""Translates datetime patterns to Java's: those of PostgreSQL, Oracle and Snowflake, and those with `%` of DuckDB and
others.

TO_CHAR with a number pattern becomes a function of its own, NUMBER_TO_CHAR.

A pattern is split into its words. Words that Java's patterns support form one call of DATE_FORMAT, all others a call of
their own, and the texts are joined: `TO_CHAR(at, 'MON YYYY')` is `UPPER(DATE_FORMAT(at, 'MMM')) || DATE_FORMAT(at, '
yyyy')`. Texts are parsed by a single pattern of Java's. In patterns with `%`, the text between the letters is literal,
and is quoted in Java's patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.dialects import Spark

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import call, rewritten

FUNCTIONS = ("TO_CHAR", "TO_VARCHAR", "TO_DATE", "TRY_TO_DATE", *(
    f"{before}TO_TIMESTAMP{behind}" for before in ("", "TRY_") for behind in ("", "_NTZ", "_LTZ", "_TZ")
))  # fmt: skip
"""The functions whose second argument is a pattern."""
_JAVA = {
    "YYYY": "yyyy", "RRRR": "yyyy", "YY": "yy", "RR": "yy", "MMMM": "MMMM", "MONTH": "MMMM", "MON": "MMM", "MM": "MM",
    "DAY": "EEEE", "DY": "EEE", "DDD": "DDD", "DD": "dd", "HH24": "HH", "HH12": "hh", "HH": "hh", "MI": "mm",
    "SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "Q": "Q", "FF": "SSSSSS",
    **{f"FF{n}": "S" * n for n in range(1, 10)},
}  # fmt: skip
_NAMES = ("MONTH", "MON", "DAY", "DY", "AM", "PM")
"""Words whose case determines the case of the output."""
_PARTS = {"IYYY": ("yearofweek", 4), "IW": ("week", 2), "D": ("dayofweek", 1), "ID": ("dayofweek_iso", 1)}
"""Words that are parts of a moment, with the number of their digits."""
_WORDS = sorted((*_JAVA, *_PARTS, "FM"), key=len, reverse=True)
_PART = re.compile(rf'"([^"]*)"|({"|".join(_WORDS)})|([^A-Za-z0-9"])', re.IGNORECASE)
_OF_NUMBERS = re.compile(r"(?:FM)?[\sS$L]*\.?[09][09.,DGVSMIPRLETH$%\s]*", re.IGNORECASE)
_PADDED = 9


class _Word(NamedTuple):
    """A part of a pattern: a word, or literal text. `bare`: without leading zeros and spaces."""

    word: str
    text: str
    bare: bool


def with_patterns(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement with Java's datetime patterns."""
    if dialect not in DIALECTS:
        return tree
    return rewritten(tree, (exp.Anonymous,), lambda node: _replacement(node, dialect), text)


DIALECTS = ("postgres", "redshift", "materialize", "risingwave", "snowflake", "oracle")


def with_percents(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which patterns with `%` have only letters that Java supports, and quoted literal text."""
    if dialect not in _PERCENTS:
        return tree
    return rewritten(tree, _PATTERNED, lambda node: _with_quotes(node, dialect), text)


_PERCENTS = ("duckdb", "bigquery", "mysql", "trino", "presto", "athena", "clickhouse", "sqlite", "starrocks", "doris")
_PATTERNED = (exp.TimeToStr, exp.StrToTime, exp.StrToDate)
_LETTER = re.compile(r"%-?.|%$", re.DOTALL)
_OFFSETS = "".join(f"[{'X' * size}]" for size in (3, 2, 1))  # with a colon, without, and hours alone


def _with_quotes(node: Any, dialect: str) -> Any:
    """Returns the concatenation for a pattern with parts that Java's patterns do not have, or None if the pattern
    stays."""
    format_ = node.args.get("format")
    if not isinstance(format_, exp.Literal) or not format_.is_string:
        return None
    names, written = _RENAMED.get(dialect, {}), isinstance(node, exp.TimeToStr)
    pattern = _LETTER.sub(lambda letter: names.get(letter[0], letter[0]), format_.name)
    counted = _COUNTED.get(dialect, {}) if written else {}
    made: list[Any] = []
    plain = ""
    for piece in (*_PIECE.findall(pattern), ""):
        if piece and piece not in counted:
            plain += piece
            continue
        if plain:
            made.append(node.copy())
            made[-1].set("format", exp.Literal.string(_quoted(plain, written)))
            plain = ""
        if piece:
            made.append(_count(node.this, *counted[piece]))
    if len(made) > 1 or pattern in counted:
        return call("CONCAT", *made)
    node.set("format", exp.Literal.string(_quoted(pattern, written)))
    return None


_RENAMED = {
    "clickhouse": {
        "%i": "%M", "%M": "%B", "%F": "%Y-%m-%d", "%R": "%H:%M", "%T": "%H:%M:%S", "%D": "%m/%d/%y", "%h": "%I",
        "%s": "%S", "%c": "%m", "%W": "%A", "%e": "%-d",
    },
    "bigquery": {"%R": "%H:%M", "%h": "%b"},
}  # fmt: skip
"""Letters of a dialect, and the letters of other dialects with the same meaning."""
_ISO = {"%V": ("week", 2, "0"), "%u": ("dayofweek_iso", 1, ""), "%w": ("dayofweek_iso", 1, "7")}
_WEEKS = {"%G": ("yearofweek", 4, "0"), "%W": ("MONDAY", 2, "0"), "%U": ("SUNDAY", 2, "0"), **_ISO}
_OF_MYSQL = {"%v": _ISO["%V"], "%w": _ISO["%w"], "%G": _WEEKS["%G"]}  # %x, as sqlglot writes it
_SPACED = {"%-d": ("day", 2, " ")}
_COUNTED: dict[str, dict[str, tuple[str, int, str]]] = {
    "duckdb": _WEEKS, "bigquery": {**_WEEKS, **_SPACED, "%Q": ("quarter", 1, "")}, "clickhouse": {**_ISO, **_SPACED},
    **dict.fromkeys(("mysql", "trino", "presto", "athena", "starrocks", "doris"), _OF_MYSQL),
}  # fmt: skip
"""Letters that are parts of a moment, or weeks counted from a day: the number of their digits, and the padding of a
single digit; 7 if the letter is the number of the day and Sunday is 0."""
_PIECE = re.compile(r"%-?.|[^%]+|%$", re.DOTALL)


def _count(value: Any, part: str, width: int, fill: str) -> Any:
    if part.isupper():
        number = call("WEEK_FROM", exp.Literal.string(part), value)
    else:
        number = call("DATE_PART", exp.Literal.string(part), value)
    if fill == "7":
        number = exp.paren(exp.Mod(this=number, expression=exp.Literal.number(7)))
    return _padded(exp.cast(number, "string"), width, fill)


def _padded(text: Any, width: int, fill: str = "0") -> Any:
    return text if width == 1 else call("LPAD", text, exp.Literal.number(width), exp.Literal.string(fill))


def _quoted(pattern: str, written: bool) -> str:
    """Returns a pattern with only the letters that sqlglot translates to Java's."""
    made, at = "", 0
    for letter in _LETTER.finditer(pattern):
        made += _java(_Word("", pattern[at : letter.start()], False)) if letter.start() > at else ""
        at = letter.end()
        if letter[0] not in ("%%", *Spark.INVERSE_TIME_MAPPING):
            hint = "write a pattern of Spark's parts, and add the others with DATE_PART and ||"
            raise PlanError(f"the pattern {pattern!r} has {letter[0]!r}, which Spark does not have", hint=hint)
        own = {"%%": "%"}
        own |= {"%j": "DDD"} if written else {"%z": _OFFSETS}  # sqlglot has two digits of the day of a year
        made += own.get(letter[0], letter[0])
    return made + (_java(_Word("", pattern[at:], False)) if at < len(pattern) else "")


def _replacement(node: Any, dialect: str) -> Any:
    name = str(node.this).upper()
    if name not in FUNCTIONS or not 1 <= len(node.expressions) <= 2:
        return None
    value, *given = node.expressions
    if not given:
        return exp.cast(value.copy(), "string") if name in ("TO_CHAR", "TO_VARCHAR") else None
    (pattern,) = given
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise PlanError(f"{name} takes a constant pattern", hint="write the pattern itself, as in 'YYYY-MM-DD'")
    if name in ("TO_CHAR", "TO_VARCHAR") and _OF_NUMBERS.fullmatch(pattern.name):
        return call("NUMBER_TO_CHAR", value.copy(), pattern.copy())
    words = list(_words(pattern.name, dialect))
    if name in ("TO_CHAR", "TO_VARCHAR"):
        return _written(value, words, dialect)
    java = exp.Literal.string("".join(_read(word, pattern.name) for word in words))
    if name.endswith("TO_DATE") and not (dialect == "oracle" and any(one.word in _OF_DAY for one in words)):
        return call("TO_DATE", value.copy(), java)
    made = call("TO_TIMESTAMP", value.copy(), java)
    wall = name.endswith("_NTZ") or dialect == "oracle" or (dialect == "snowflake" and name.endswith("TIMESTAMP"))
    return exp.cast(made, exp.DataType.build("TIMESTAMPNTZ")) if wall else made


_OF_DAY = ("HH24", "HH12", "HH", "MI", "SS")


def _words(pattern: str, dialect: str) -> Iterator[_Word]:
    """Yields the words of a pattern, and the literal text between them."""
    at, bare, rest, text = 0, False, False, ""
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            hint = 'write text in double quotes: "T"'
            raise PlanError(f"the pattern {pattern!r} has {pattern[at]!r}, which is not supported", hint=hint)
        at = part.end()
        if part[2] is None:
            text += part[1] if part[1] is not None else part[3]
        elif part[2].upper() == "FM":
            bare = rest = True
        else:
            if text:
                yield _Word("", text, False)
            yield _Word(part[2], "", bare)
            bare, text = rest and dialect == "oracle", ""  # there it holds for all that follows
    if text:
        yield _Word("", text, False)


def _java(word: _Word) -> str:
    """Returns a word, or literal text, in the syntax of Java's patterns."""
    if not word.word:
        text = word.text.replace("'", "''")
        return f"'{text}'" if re.search(r"[A-Za-z\[\]{}#]", text) else text
    found = _JAVA[word.word.upper()]
    return found[0] if word.bare and word.word.upper() in ("MM", "DD", "HH24", "HH12", "HH", "MI", "SS") else found


def _read(word: _Word, pattern: str) -> str:
    if word.word.upper() in _PARTS or word.word.upper() in ("DAY", "DY", "Q"):
        raise PlanError(f"the pattern {pattern!r} has {word.word!r}, which is supported for output only")
    return _java(word)


def _written(value: Any, words: list[_Word], dialect: str) -> Any:
    """Returns the text of a moment."""
    parts: list[Any] = []
    plain = ""
    for word in [*words, None]:
        special = (
            word is None or word.word.upper() in _PARTS or (word.word.upper() in _NAMES and dialect != "snowflake")
        )
        if not special and word is not None:
            plain += _java(word)
            continue
        if plain:
            parts.append(call("DATE_FORMAT", value.copy(), exp.Literal.string(plain)))
            plain = ""
        if word is not None:
            parts.append(_part(value, word) if word.word.upper() in _PARTS else _named(value, word))
    return parts[0] if len(parts) == 1 else call("CONCAT", *parts) if parts else exp.Literal.string("")


def _part(value: Any, word: _Word) -> Any:
    part, width = _PARTS[word.word.upper()]
    made = exp.cast(call("DATE_PART", exp.Literal.string(part), value.copy()), "string")
    return made if word.bare else _padded(made, width)


def _named(value: Any, word: _Word) -> Any:
    """Returns the name of a month or day in the case of the pattern's word. Full names are padded to the longest."""
    upper = word.word.upper()
    made = call("DATE_FORMAT", value.copy(), exp.Literal.string(_JAVA[upper]))
    if word.word == upper or upper in ("AM", "PM"):
        made = call("UPPER" if word.word == upper else "LOWER", made)
    elif word.word.islower():
        made = call("LOWER", made)
    full = upper in ("MONTH", "DAY") and not word.bare
    return call("RPAD", made, exp.Literal.number(_PADDED), exp.Literal.string(" ")) if full else made
