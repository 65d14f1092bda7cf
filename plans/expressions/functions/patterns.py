"""Functions of regular expressions over whole columns: RLIKE, REGEXP_EXTRACT, REGEXP_REPLACE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.arrays import on_arrays
from plans.expressions.characters import readable
from plans.expressions.functions.function import function
from plans.expressions.functions.regexes import LINE_END, Regex, translated
from plans.nested import array_of

_JAVA = (
    "Also `x RLIKE y`. Java's regular expressions, without look-around, back-references, possessive quantifiers, named "
    "groups and operations on classes. Matched in linear time. `\\b` knows ASCII's letters, as in Java 19 and later."
)
_NOWHERE = r"\z."  # behind the end there is nothing
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|([\\$])|([^\\$]+)", re.DOTALL)


def _matches(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    return pc.match_substring_regex(readable(value), translated(pattern.as_py()).whole)


def _pattern_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        translated(values[1])
    return "bool"


def _exact(name: str, pattern: str) -> Regex:
    """Returns a pattern whose match is told, not only that there is one."""
    regex = translated(pattern)
    if regex.inner:
        raise PlanError(
            f"{name}: the pattern {pattern!r} has a $ inside",
            hint="write it once, at the end, or \\z for the end of the text",
        )
    return regex


def _extract_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        regex = _exact("REGEXP_EXTRACT", values[1])
        groups = len(regex.groups)
        group = values[2] if len(values) > 2 else 1
        if group is not None and not 0 <= group <= groups:
            raise PlanError(
                f"REGEXP_EXTRACT asks for group {group} of a pattern with {groups}",
                hint="put the part that is wanted in parentheses; group 0 is all of the match",
            )
    return "string"


def _extracted(type_: pa.DataType, value: Any, pattern: Any, group: Any = None) -> Any:
    number = 1 if group is None else group.as_py()
    wanted = translated(pattern.as_py()).capturing(number)

    def extract(array: pa.Array) -> pa.Array:
        array = readable(array)
        found = pc.struct_field(pc.extract_regex(array, wanted), "g")
        found = pc.fill_null(found, "")
        return pc.if_else(pc.is_valid(array), found, pa.scalar(None, type_))

    return on_arrays(extract, value)


def _replace_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        regex = _exact("REGEXP_REPLACE", values[1])
        if len(regex.groups) > 8:
            raise PlanError(f"REGEXP_REPLACE takes a pattern of at most 8 groups, not {len(regex.groups)}")
        if regex.empty:
            raise PlanError(
                f"REGEXP_REPLACE: the pattern {values[1]!r} matches the empty text, which is replaced differently "
                "in Spark and here",
                hint="write + instead of *",
            )
        if values[2] is not None:
            _replacement(values[2], len(regex.groups))
    return "string"


def _replacement(text: str, groups: int) -> str:
    """Returns Java's replacement text in RE2's words: $1 is a group, a backslash takes what follows as it is."""
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


def _replaced(type_: pa.DataType, value: Any, pattern: Any, new: Any) -> Any:
    regex = translated(pattern.as_py())
    text, new = regex.text, _replacement(new.as_py(), len(regex.groups))
    if regex.tail:  # the line's end is none of what is replaced
        text, new = f"(?:{text})({LINE_END})\\z", f"{new}\\{len(regex.groups) + 1}"
    return pc.replace_substring_regex(readable(value), text, new)


def _split_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        regex = _exact("SPLIT", values[1])
        if regex.empty or regex.tail:
            raise PlanError(
                f"SPLIT: the pattern {values[1]!r} may match no character, between which texts are not split here",
                hint="write + instead of *, and no $",
            )
    return array_of("string")


def _split(type_: pa.DataType, value: Any, pattern: Any, limit: Any = None) -> Any:
    regex, most = translated(pattern.as_py()).text, -1 if limit is None else limit.as_py()
    if most == 1:
        regex = _NOWHERE
    found = pc.split_pattern_regex(readable(value), regex, max_splits=most - 1 if most > 1 else None)
    return found.cast(type_)


def _count_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None and (_exact("REGEXP_COUNT", values[1]).empty or translated(values[1]).tail):
        raise PlanError(f"REGEXP_COUNT: the pattern {values[1]!r} may match no character", hint="write + instead of *")
    return "int32"


def _counted(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    return pc.count_substring_regex(readable(value), translated(pattern.as_py()).text).cast(type_)


TABLE = (
    function("regexp_count", "string =string", _count_type, _counted, note="No pattern that matches the empty text."),
    function(
        "split",
        "string =string [=int32]",
        _split_type,
        _split,
        note="A pattern as in REGEXP_LIKE that matches no empty text. The third argument is the most parts.",
    ),
    function("regexp_like", "string =string", _pattern_type, _matches, also=("rlike", "regexp"), note=_JAVA),
    function("regexp_extract", "string =string [=int32]", _extract_type, _extracted),
    function(
        "regexp_replace",
        "string =string =string",
        _replace_type,
        _replaced,
        note="No pattern that matches the empty text.",
    ),
)
