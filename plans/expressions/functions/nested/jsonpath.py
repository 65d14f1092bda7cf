"""GET_JSON_OBJECT: the value at a path of a JSON text, as in Spark.

Values are written again without spaces, and strings without their quotes. A missing value, null or an invalid text
gives NULL. Repeated names of an object stay. Evaluated once per distinct text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from plans.errors import PlanError
from plans.expressions.casts.writing import double_text
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function

_STEP = re.compile(r"\.([^.\[\]*'$ ]+)|\[(\d+)\]|\['([^'*?]+)'\]")
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_PLAIN = re.compile(r"[ !#-\[\]-~]*")  # texts that JSON writes as they are
_HALF = re.compile("[\ud800-\udfff]")  # half of a UTF-16 surrogate pair, which no text contains


def _refused(text: str) -> Any:
    raise ValueError(text)


_READER = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refused, strict=False)
_WORDS = {None: "null", True: "true", False: "false"}


@cache
def steps(path: str) -> tuple[str | int, ...] | None:
    """Returns the names and indexes of a path like `$.a[0].b`, or None if it has anything else."""
    if path[:1] != "$":
        return None
    found: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        found.append(int(step[2]) if step[2] is not None else step[1] or step[3])
        at = step.end()
    return tuple(found)


_ALL = "for all elements of an array, write TRANSFORM(JSON_PARTS(js), x -> GET_JSON_OBJECT(x, '$.a'))"


def _gives(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None and steps(values[1]) is None:
        raise PlanError(
            f"GET_JSON_OBJECT: {values[1]!r} is not a path that is supported",
            hint=_ALL
            if "*" in values[1]
            else "a path is $, followed by names and positions: '$.a.b', '$.a[0]', \"$['a b']\"",
        )
    return "string"


def members(text: str) -> Any:
    """Returns the value of a JSON text. The members of an object are a tuple of names and values. Raises ValueError if
    the text is invalid."""
    try:
        return _READER.raw_decode(text.lstrip(" \t\r\n"))[0]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _found(text: str, path: str) -> str | None:
    try:
        return _whole(_at(members(text), steps(path) or ()))
    except ValueError:
        return None


def _at(value: Any, path: tuple[str | int, ...], plain: bool = True) -> str | None:
    """Returns the text of the value at a path. `plain`: a string without its quotes, and null as None."""
    for place, step in enumerate(path):
        if isinstance(value, tuple) and isinstance(step, str):
            given = [one for name, one in value if name == step]
            if plain and None in given:
                given = [one for one in given if one is not None]
            if not given:
                return None
            if len(given) > 1:
                tried = (_at(one, path[place + 1 :], plain) for one in given)
                return next((answer for answer in tried if answer is not None), None)
            value = given[0]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value if plain and isinstance(value, str) else _written(value)


def _part(text: str, path: str) -> str | None:
    """Returns the value at a path as JSON."""
    try:
        return _whole(_at(members(text), steps(path) or (), False))
    except ValueError:
        return None


def _whole(text: str | None) -> str | None:
    """Returns a text, or None for one with half of a surrogate pair."""
    return None if text is None or (not text.isascii() and _HALF.search(text)) else text


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return "{" + ",".join([f"{quoted(name)}:{_written(one)}" for name, one in value]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return written_word(value)


def written_word(value: Any) -> str:
    """Returns a number, a boolean or null as JSON."""
    if isinstance(value, float):
        return double_text(value)
    return str(value) if type(value) is int else _WORDS[value]


def rewritten(value: Any, plain: bool) -> str | None:
    """Returns a JSON value as a text. `plain`: a string without its quotes, and null as None. Returns None for halves
    of surrogate pairs, which no text can contain."""
    return _whole(None if plain and value is None else _at(value, (), plain))


def quoted(text: str) -> str:
    """Returns a text as a JSON string, as Spark writes it."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    plain = _HALF.sub(lambda one: f"\\u{ord(one[0]):x}", json.dumps(text, ensure_ascii=False))
    return _ESCAPED.sub(lambda one: "\\u" + one[1][1:].upper() if one[1][0] == "u" else one[0], plain)


TABLE = (
    function("json_query", "string =string", _gives, each(_part),
             note="The value at the path as JSON: a string with its quotes, null as `null`. `->` in other dialects.",
             internal=True),
    function("get_json_object", "string =string", _gives, each(_found), also=("json_value",),
             note="A path of names and positions: `$.a[0].b`. Numbers with a point are written as DOUBLE, objects and "
                  "arrays without spaces, as in Spark. Text that is not strict JSON (quotes that are not double) is "
                  "NULL."),
)  # fmt: skip
