"""Functions of regular expressions over whole columns: RLIKE, REGEXP_EXTRACT[_ALL], REGEXP_INSTR, REGEXP_REPLACE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns.arrays import on_arrays, validity
from plans.expressions.columns.characters import bytes_of, like_regex, readable
from plans.expressions.columns.packed import elements_of, listed, places_of
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function
from plans.expressions.functions.texts.regexes import LINE_END, Regex, translated
from plans.nested import array_of

_JAVA = (
    "Also `x RLIKE y`. The patterns are Java's regular expressions, without look-around, back-references, possessive "
    "quantifiers, named groups and operations on classes. They are matched in linear time. `\\b` knows only the "
    "letters of ASCII, as in Java 19 and later."
)
_NOWHERE = r"\z."  # matches nowhere
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|([\\$])|([^\\$]+)", re.DOTALL)


def _matches(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    return pc.match_substring_regex(readable(value), translated(pattern.as_py()).whole)


def _pattern_type(type_: str) -> Callable[[Sequence[str], Sequence[Any]], str]:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[1] is not None:
            translated(values[1])
        return type_

    return gives


def _exact(name: str, pattern: str) -> Regex:
    """Returns a pattern whose match is extracted, not only tested."""
    regex = translated(pattern)
    if regex.inner:
        raise PlanError(
            f"{name}: the pattern {pattern!r} has a $ inside",
            hint="write it once, at the end, or \\z for the end of the text",
        )
    return regex


def _matching(name: str, pattern: str) -> Regex:
    """Returns a pattern that never matches the empty text."""
    regex = _exact(name, pattern)
    if regex.empty or regex.tail:
        raise PlanError(
            f"{name}: the pattern {pattern!r} may match no character, which Spark counts in another way",
            hint="write + instead of *, and no $",
        )
    return regex


def _check_group(name: str, regex: Regex, values: Sequence[Any]) -> None:
    groups, group = len(regex.groups), values[2] if len(values) > 2 else 1
    if group is not None and not 0 <= group <= groups:
        raise PlanError(
            f"{name} reads group {group} of a pattern with {groups}",
            hint="put the part to return in parentheses; group 0 is the whole match",
        )


def _extract_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        _check_group("REGEXP_EXTRACT", _exact("REGEXP_EXTRACT", values[1]), values)
    return "string"


def _all_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        _check_group("REGEXP_EXTRACT_ALL", _matching("REGEXP_EXTRACT_ALL", values[1]), values)
    return array_of("string")


def _extracted(type_: pa.DataType, value: Any, pattern: Any, group: Any = None) -> Any:
    number = 1 if group is None else group.as_py()
    wanted = translated(pattern.as_py()).capturing(number)

    def extract(array: pa.Array) -> pa.Array:
        array = readable(array)
        found = pc.struct_field(pc.extract_regex(array, wanted), "g")
        found = pc.fill_null(found, "")
        return pc.if_else(pc.is_valid(array), found, pa.scalar(None, type_))

    return on_arrays(extract, value)


def _all_extracted(type_: pa.DataType, value: Any, pattern: Any, group: Any = None) -> Any:
    """Encloses the wanted part of each match in a character that no text contains, and splits there: the parts at odd
    positions are the result."""
    number = 1 if group is None else group.as_py()
    wanted = translated(pattern.as_py()).capturing(number).replace("?P<g>", "", 1)

    def extract(array: pa.Array) -> pa.Array:
        array = readable(array)
        mark = next(_signs_outside(array))
        pieces = pc.split_pattern(pc.replace_substring_regex(array, wanted, rf"{mark}\1{mark}"), mark)
        sizes, texts = elements_of(pieces)
        odd = places_of(sizes) % 2 == 1
        return listed(sizes // 2, texts.filter(pa.array(odd)), type_, validity(array))

    return on_arrays(extract, value)


def _signs_outside(array: pa.Array) -> Iterator[str]:
    """Yields private-use characters that occur in none of the texts."""
    for sign in map(chr, range(0xF0000, 0xFFFFE)):
        if not pc.any(pc.match_substring(array, sign)).as_py():
            yield sign


def _placed(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    """Returns the position of the character at which the first match begins."""
    text = translated(pattern.as_py()).whole

    def place(array: pa.Array) -> pa.Array:
        array = readable(array)
        found = pc.fill_null(pc.find_substring_regex(array, text), -1).to_numpy().astype(np.int64)
        starts, data = bytes_of(array)
        before = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
        place = np.where(found < 0, 0, before[starts + np.maximum(found, 0)] - before[starts] + 1)
        return pa.array(place.astype(np.int32), mask=~validity(array))

    return on_arrays(place, value)


def _replace_type(name: str, first: bool = False) -> Callable[[Sequence[str], Sequence[Any]], str]:
    """Returns the type function of REGEXP_REPLACE. If only the `first` match is replaced, it may be empty."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[1] is not None:
            regex = _exact(name, values[1])
            if len(regex.groups) > 8:
                raise PlanError(f"{name} supports patterns of at most 8 groups, not {len(regex.groups)}")
            if regex.empty and not first:
                raise PlanError(
                    f"{name}: the pattern {values[1]!r} matches the empty text, which is replaced differently "
                    "in Spark and here",
                    hint="write + instead of *",
                )
            if values[2] is not None:
                _replacement(values[2], len(regex.groups))
        return "string"

    return gives


def _replacement(text: str, groups: int) -> str:
    """Translates Java's replacement text for RE2: $1 is a group, and a backslash escapes the next character."""
    out, at = [], 0
    while at < len(text):
        part = _REPLACEMENT.match(text, at)
        assert part is not None
        at = part.end()
        if part[3] or (part[2] and (int(part[2]) > groups or text[at : at + 1].isdigit())):
            raise PlanError(
                f"REGEXP_REPLACE: the replacement {text!r} names no group of the pattern, at its character "
                f"{part.start() + 1}",
                hint="$1 to $9 are the groups; write \\\\$ for a dollar sign",
            )
        out.append(f"\\{part[2]}" if part[2] else (part[1] or part[4]).replace("\\", "\\\\"))
    return "".join(out)


def _replaced(limit: int | None) -> Callable[..., Any]:
    """Returns an evaluator that replaces at most `limit` matches in each text."""

    def replace(type_: pa.DataType, value: Any, pattern: Any, new: Any) -> Any:
        regex = translated(pattern.as_py())
        text, new = regex.text, _replacement(new.as_py(), len(regex.groups))
        if regex.tail:  # the line's end is not replaced
            text, new = f"(?:{text})({LINE_END})\\z", f"{new}\\{len(regex.groups) + 1}"
        return pc.replace_substring_regex(readable(value), text, new, max_replacements=limit)

    return replace


def _like(text: str, pattern: str, escape: str) -> bool | None:
    """Returns whether a text matches a LIKE pattern, or None if the pattern ends with its escape character."""
    regex = _of_like(pattern, escape or None)
    return None if regex is None else regex.match(text) is not None


@lru_cache(10_000)
def _of_like(pattern: str, escape: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(like_regex(pattern, escape).removesuffix(r"\z") + r"\Z")
    except ValueError:
        return None


def _split_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        _matching("SPLIT", values[1])
    return array_of("string")


def _split(type_: pa.DataType, value: Any, pattern: Any, limit: Any = None) -> Any:
    regex, most = translated(pattern.as_py()).text, -1 if limit is None else limit.as_py()
    if most == 1:
        regex = _NOWHERE
    found = pc.split_pattern_regex(readable(value), regex, max_splits=most - 1 if most > 1 else None)
    return found.cast(type_)


def _count_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        _matching("REGEXP_COUNT", values[1])
    return "int32"


def _counted(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    return pc.count_substring_regex(readable(value), translated(pattern.as_py()).text).cast(type_)


TABLE = (
    function("regexp_count", "string =string", _count_type, _counted,
             note="The pattern must not match the empty text."),
    function("split", "string =string [=int32]", _split_type, _split,
             note="The pattern is that of REGEXP_LIKE and must not match the empty text. The third argument limits the "
                  "number of parts."),
    function("like_of", "string string =string", "bool", each(_like), hidden=True),
    function("regexp_like", "string =string", _pattern_type("bool"), _matches, also=("rlike", "regexp"), note=_JAVA),
    function("regexp_extract", "string =string [=int32]", _extract_type, _extracted),
    function("regexp_extract_all", "string =string [=int32]", _all_type, _all_extracted,
             note="The pattern must not match the empty text."),
    function("regexp_instr", "string =string", _pattern_type("int32"), _placed, note="0 if nothing matches."),
    function("regexp_replace", "string =string =string", _replace_type("REGEXP_REPLACE"), _replaced(None),
             note="The pattern must not match the empty text."),
    function(
        "regexp_replace_first", "string =string =string", _replace_type("REGEXP_REPLACE_FIRST", True), _replaced(1),
        note="Replaces only the first match, like REGEXP_REPLACE without 'g' in DuckDB and PostgreSQL.", internal=True,
    ),
)  # fmt: skip
