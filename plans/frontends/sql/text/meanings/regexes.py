"""Translates regular expressions of other dialects to Spark's: options, groups in replacements, occurrences.

Part of `plans.frontends.sql`. Options become `(?i)` and `(?s)` before the pattern, `\\1` in a replacement becomes `$1`,
and a `$` that means the end of the text becomes `\\z`. Unsupported arguments are rejected, because sqlglot ignores
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.calls import AS_SPARK
from plans.frontends.sql.text.meanings.moments import POSTGRES
from plans.frontends.sql.text.nodes import call, rewritten

_BACKSLASHES = ("duckdb", "postgres", "bigquery", "snowflake", "oracle", "clickhouse")
"""Dialects in which `\\1` in a replacement is a group."""
_REAL_ENDS = ("duckdb", "postgres", "bigquery")
"""Dialects in which `$` is only the end of the text, not also the position before its last line end."""
_NULL_IF_NONE = ("trino", "presto", "athena")
_REPLACES_ALL = ("redshift",)
_READ = ("i", "s", "c")
"""Options: `i` and `s` are flags, and `c` cancels an `i` before it."""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|[^\\\[$]+|.", re.DOTALL)
_FLAGS = re.compile(r"\(\?([is]+)\)")
_GROUP = re.compile(r"\\(?:([0-9&])|(\\))|([$])|([^\\$]+)", re.DOTALL)


def with_regexes(tree: Any, dialect: str, text: str) -> Any:
    """Rewrites the regular expressions of another dialect into Spark's."""
    if dialect in AS_SPARK:
        return tree
    return rewritten(tree, tuple(_BUILDERS), lambda node: _BUILDERS[type(node)](node, dialect), text)


def _text(node: Any) -> str | None:
    """Returns the value of a string literal. Returns None for other expressions."""
    if isinstance(node, exp.RawString):
        return str(node.this)
    return str(node.name) if isinstance(node, exp.Literal) and node.is_string else None


def _pattern(node: Any, dialect: str, options: Iterable[str] = "", full: bool = False) -> Any:
    """Returns the pattern of a call with its options. `full`: the pattern matches the whole text."""
    given = node.expression
    found = _text(given)
    if found is None:
        return given.copy()
    unknown = [one for one in options if one not in _READ]
    if unknown:
        hint = "use 'i' (ignores case) or 's' (a point matches line ends, too)"
        raise PlanError(f"the option {unknown[0]!r} of a regular expression is not supported", hint=hint)
    head = _FLAGS.match(found)
    flags: set[str] = set()
    for one in options:
        flags = flags - {"i"} if one == "c" else flags | {one}
    flags |= set(head[1] if head else "")
    rest = found[head.end() :] if head else found
    flags |= {"s"} if dialect == "postgres" and "." in rest else set()
    if full or dialect in _REAL_ENDS:
        rest = "".join(r"\z" if part[0] == "$" else part[0] for part in _TOKEN.finditer(rest))
    rest = rf"\A(?:{rest})\z" if full else rest
    return exp.Literal.string((f"(?{''.join(sorted(flags))})" if flags else "") + rest)


def _options(node: Any, name: str, left_out: str = "") -> str:
    """Returns the options of a call, without those in `left_out`."""
    given = node.args.get(name)
    if given is None:
        return ""
    found = _text(given)
    if found is None:
        raise PlanError("the options of a regular expression must be constant", hint="write the text itself")
    return "".join(one for one in found if one not in left_out)


def _constant_integer(node: Any, name: str, default: int) -> int:
    given = node.args.get(name)
    if given is None:
        return default
    if not isinstance(given, exp.Literal) or given.is_string or not given.name.isdigit():
        raise PlanError(f"the {name} of a regular expression must be a constant number")
    return int(given.name)


def _check_start_position(node: Any) -> None:
    """Raises PlanError if the search does not begin at the first character."""
    if _constant_integer(node, "position", 1) != 1:
        raise PlanError("a regular expression always starts at the first character", hint="use SUBSTRING")


def _replaced(node: Any, dialect: str) -> Any:
    _check_start_position(node)
    options = _options(node, "modifiers", "g")
    first = bool(node.args.get("single_replace")) and dialect not in _REPLACES_ALL
    first &= "g" not in node.text("modifiers")
    which = _constant_integer(node, "occurrence", 1 if first else 0)
    if which > 1:
        raise PlanError("REGEXP_REPLACE replaces either all matches or the first one", hint=f"not number {which}")
    new = node.args.get("replacement") or exp.Literal.string("")
    text = _text(new)
    if text is not None:
        new = exp.Literal.string(_in_java(text) if dialect in _BACKSLASHES else text)
    name = "REGEXP_REPLACE_FIRST" if which else "REGEXP_REPLACE"
    return call(name, node.this, _pattern(node, dialect, options), new)


def _in_java(text: str) -> str:
    """Rewrites a replacement for Java: `$1` for `\\1`, and `\\$` for a dollar sign."""
    made, at, group = "", 0, False
    while at < len(text):
        part = _GROUP.match(text, at)
        if part is None:
            message = f"REGEXP_REPLACE: the replacement {text!r} has a backslash that is not followed by a group"
            raise PlanError(message, hint="\\1 to \\9 are the groups; a backslash is written twice")
        at = part.end()
        plain = part[4] or ""
        if group and plain[:1].isdigit():  # which would be a part of the number of the group
            plain = "\\" + plain
        group = part[1] is not None
        made += f"${part[1].replace('&', '0')}" if part[1] else "\\\\" if part[2] else "\\$" if part[3] else plain
    return made


def _like(node: Any, dialect: str) -> Any:
    full = bool(node.args.get("full_match")) or isinstance(node, exp.RegexpFullMatch)
    options = _options(node, "options" if isinstance(node, exp.RegexpFullMatch) else "flag")
    options += "i" * isinstance(node, exp.RegexpILike)
    return exp.RegexpLike(this=node.this.copy(), expression=_pattern(node, dialect, options, full))


def _similar(node: Any, dialect: str) -> Any:
    """Returns SIMILAR TO: a regular expression of the whole text.

    `%` and `_` mean the same as in LIKE, except in DuckDB.
    """
    found = _text(node.expression)
    if found is None:
        raise PlanError("SIMILAR TO takes a constant pattern", hint="write the pattern itself")
    options = ""
    if dialect != "duckdb":
        found, options = "".join(_OF_LIKE.get(part[0], part[0]) for part in _SIMILAR.finditer(found)), "s"
    given = {"expression": exp.Literal.string(found), "options": exp.Literal.string(options)}
    return _like(exp.RegexpFullMatch(this=node.this.copy(), **given), dialect)


_SIMILAR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_OF_LIKE = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}


def _extracted(node: Any, dialect: str) -> Any:
    if isinstance(node.args.get("group"), exp.Array):
        hint = "write a struct of calls, one for each group"
        raise PlanError("REGEXP_EXTRACT with names of groups is not supported", hint=hint)
    _check_start_position(node)
    inner = "e" in node.text("parameters")
    pattern = _pattern(node, dialect, _options(node, "parameters", "e"))
    group = exp.Literal.number(_constant_integer(node, "group", 0) or int(inner))
    which = _constant_integer(node, "occurrence", 1)
    if isinstance(node, exp.RegexpExtractAll):
        return call("REGEXP_EXTRACT_ALL", node.this, pattern, group)
    if which != 1:
        found = call("REGEXP_EXTRACT_ALL", node.this, pattern, group)
        return call("GET", found, exp.Literal.number(which - 1))
    missing = node.args.get("null_if_no_match") or isinstance(node, exp.RegexpSubstr) or dialect in _NULL_IF_NONE
    return call("REGEXP_SUBSTR" if missing else "REGEXP_EXTRACT", node.this, pattern, group)


def _match_position(node: Any, dialect: str) -> Any:
    _check_start_position(node)
    if (
        _constant_integer(node, "occurrence", 1) != 1
        or _constant_integer(node, "option", 0)
        or _constant_integer(node, "group", 0)
    ):
        raise PlanError(
            "REGEXP_INSTR supports only the position of the first match", hint="leave the other arguments out"
        )
    return call("REGEXP_INSTR", node.this, _pattern(node, dialect, _options(node, "parameters")))


def _counted(node: Any, dialect: str) -> Any:
    _check_start_position(node)
    return call("REGEXP_COUNT", node.this, _pattern(node, dialect, _options(node, "parameters")))


def _split(node: Any, dialect: str) -> Any:
    return call("SPLIT", node.this, _pattern(node, dialect), *([node.args["limit"]] if node.args.get("limit") else []))


def _named(node: Any, dialect: str) -> Any:
    """Returns the replacement of REGEXP_SPLIT_TO_ARRAY or REGEXP_MATCH, or None for other functions."""
    given, name = node.expressions, str(node.this).upper()
    if name == "REGEXP_MATCH" and dialect in POSTGRES and 2 <= len(given) <= 3:
        return _matched(*given, dialect=dialect)
    if name != "REGEXP_SPLIT_TO_ARRAY" or len(given) != 2:
        return None
    return _split(exp.RegexpSplit(this=given[0].copy(), expression=given[1].copy()), dialect)


def _matched(text: Any, pattern: Any, flags: Any = None, *, dialect: str) -> Any:
    """Returns REGEXP_MATCH of PostgreSQL: an array of the groups of the first match, or of the match itself."""
    found = _text(pattern)
    if found is None:
        raise PlanError("REGEXP_MATCH takes a constant pattern", hint="write the pattern itself")
    node = exp.RegexpLike(this=text.copy(), expression=pattern.copy(), flag=flags and flags.copy())
    matches = _like(node, dialect)
    count, optional = _groups(found)
    if optional:
        hint = "write REGEXP_EXTRACT(text, pattern, 1), which is '' for a group without a match"
        raise PlanError("REGEXP_MATCH of a pattern with an optional group is not supported", hint=hint)
    numbers = range(1, count + 1) if count else (0,)
    parts = [call("REGEXP_SUBSTR", text, matches.expression, exp.Literal.number(one)) for one in numbers]
    return exp.If(this=matches, true=exp.Array(expressions=parts), false=exp.Null())


def _groups(pattern: str) -> tuple[int, bool]:
    """Returns the number of groups of a pattern, and whether a match may leave one out: a group in an alternative, or
    one that may occur zero times.

    `around` has, for each open parenthesis, the number of groups before it and before its content, and whether its
    content has alternatives.
    """
    count, optional = 0, False
    around: list[tuple[int, int, bool]] = [(0, 0, False)]
    for sign in (part[0] for part in _SIGNS.finditer(pattern)):
        if sign[0] == "(":
            around.append((count, count + (sign == "("), False))
            count = around[-1][1]
        elif sign == "|":
            around[-1] = (*around[-1][:2], True)
        elif sign[0] == ")" and len(around) > 1:
            before, content, branches = around.pop()
            optional = optional or (branches and count > content) or (sign != ")" and count > before)
    return count, optional or (around[0][2] and count > 0)


_SIGNS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|\)[?*{]|.", re.DOTALL)
"""The parts of a pattern, of which `(` begins a group."""


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.RegexpReplace: _replaced,
    exp.RegexpLike: _like,
    exp.RegexpILike: _like,
    exp.RegexpFullMatch: _like,
    exp.SimilarTo: _similar,
    exp.RegexpExtract: _extracted,
    exp.RegexpSubstr: _extracted,
    exp.RegexpExtractAll: _extracted,
    exp.RegexpInstr: _match_position,
    exp.RegexpCount: _counted,
    exp.RegexpSplit: _split,
    exp.Anonymous: _named,
}
