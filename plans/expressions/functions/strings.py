"""Functions of the characters of strings, as Spark's: characters are Unicode code points, only spaces are trimmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions import characters
from plans.expressions.arrays import on_arrays
from plans.expressions.characters import readable
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.function import Function, cast_to, plain

LONGEST = 10_000
"""The most characters that REPEAT, LPAD and RPAD may add to each row."""

_TRIMS = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}


def _trimmed(name: str) -> Callable[..., Any]:
    def trim(type_: pa.DataType, value: Any, signs: Any = None) -> Any:
        wanted = " " if signs is None else signs.as_py()
        return _TRIMS[name](readable(value), characters=wanted) if wanted else readable(value)

    return trim


def _sliced(value: str, start: int, count: int = 2**31 - 1) -> str:
    """Returns SUBSTRING: from 1 on, 0 is 1, a negative start counts from the end and may lie before the beginning."""
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    until = min(first + count, 2**31 - 1)
    return value[max(first, 0) : max(until, 0)] if until > first else ""


def _substring(type_: pa.DataType, value: Any, start: Any, count: Any = None) -> Any:
    constants = isinstance(start, pa.Scalar) and (count is None or isinstance(count, pa.Scalar))
    if constants and start.is_valid and start.as_py() > 0 and (count is None or (count.as_py() or -1) >= 0):
        return characters.substring(value, start.as_py(), None if count is None else count.as_py())
    return by_distinct(_sliced, type_, value, start, *([] if count is None else [count]))


def _left(type_: pa.DataType, value: Any, count: Any) -> Any:
    if isinstance(count, pa.Scalar) and count.is_valid:
        return pc.utf8_slice_codeunits(readable(value), 0, max(count.as_py(), 0))
    return by_distinct(lambda text, n: text[: max(n, 0)], type_, value, count)


def _right(type_: pa.DataType, value: Any, count: Any) -> Any:
    if isinstance(count, pa.Scalar) and count.is_valid and count.as_py() > 0:
        return pc.utf8_slice_codeunits(readable(value), -count.as_py())
    return by_distinct(lambda text, n: text[max(len(text) - n, 0) :] if n > 0 else "", type_, value, count)


def _replaced(type_: pa.DataType, value: Any, old: Any, new: Any = None) -> Any:
    new = pa.scalar("") if new is None else new
    if all(isinstance(part, pa.Scalar) and part.is_valid for part in (old, new)):
        if not old.as_py():
            return readable(value)
        return pc.replace_substring(readable(value), old.as_py(), new.as_py())
    return by_distinct(lambda text, a, b: text.replace(a, b) if a else text, type_, value, old, new)


def _place(wanted: str, text: str, start: int = 1) -> int:
    """Returns the first place from `start` on, which counts from 1; 0 if there is none. The empty text is at the
    first."""
    if start < 1:
        return 0
    return text.find(wanted, start - 1) + 1 if wanted else 1


def _located(type_: pa.DataType, wanted: Any, text: Any, start: Any = None) -> Any:
    """Returns LOCATE; from NULL on there is none, whatever the texts."""
    if start is None:
        return by_distinct(_place, type_, wanted, text)
    return pc.if_else(pc.is_valid(start), by_distinct(_place, type_, wanted, text, start), pa.scalar(0, type_))


def _part(text: str, mark: str, number: int) -> str | None:
    """Returns SPLIT_PART; no part has the number 0, at which Spark stops."""
    parts = text.split(mark) if mark else [text]
    if number == 0:
        return None
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _padding(left: bool) -> Callable[..., str]:
    def padded(text: str, width: int, signs: str = " ") -> str:
        missing = width - len(text)
        if missing <= 0 or not signs:
            return text[: max(width, 0)]
        added = (signs * (missing // len(signs) + 1))[:missing]
        return added + text if left else text + added

    return padded


def _distinct(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda type_, *values: by_distinct(function, type_, *values)


def _limited(name: str, place: int) -> Callable[[Sequence[str], Sequence[Any]], str]:
    """Returns the type of a string whose length a constant limits."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[place] is not None and values[place] > LONGEST:
            raise PlanError(f"{name} makes at most {LONGEST} characters of each row, not {values[place]}")
        return "string"

    return gives


def _translated(text: str, old: str, new: str) -> str:
    table: dict[int, str] = {}
    for place, sign in enumerate(old):
        table.setdefault(ord(sign), new[place : place + 1])
    return text.translate(table)


def _joined(type_: pa.DataType, separator: Any, *values: Any) -> Any:
    def join(mark: pa.Array, *texts: pa.Array) -> pa.Array:
        known = reduce(pc.or_, map(pc.is_valid, texts), pa.repeat(False, len(mark)))
        first = pc.if_else(known, texts[0] if texts else pa.scalar(None, type_), "")  # Arrow drops rows of NULLs alone
        return pc.binary_join_element_wise(first, *texts[1:], mark, null_handling="skip")

    return on_arrays(join, separator, *values)


def _trim_text(name: str) -> Callable[[Sequence[str]], str]:
    side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
    return lambda a: f"TRIM({side} {a[1]} FROM {a[0]})" if len(a) > 1 else f"{name.upper()}({a[0]})"


TABLE = (
    Function("lower", ("string",), "string", plain(characters.lower)),
    Function("upper", ("string",), "string", plain(characters.upper)),
    Function("length", ("string",), "int32", cast_to(characters.length)),
    Function("octet_length", ("bytes",), "int32", cast_to(pc.binary_length)),
    Function(
        "concat",
        ("string",),
        "string",
        plain(lambda *args: pc.binary_join_element_wise(*args, pa.scalar(""))),
        repeated=True,
    ),
    Function("concat_ws", ("string", "string"), "string", _joined, optional=1, repeated=True),
    Function("substring", ("string", "int32", "int32"), "string", _substring, optional=1),
    *(
        Function(name, ("string", "=string"), "string", _trimmed(name), optional=1, sql=_trim_text(name))
        for name in _TRIMS
    ),
    Function("left", ("string", "int32"), "string", _left),
    Function("right", ("string", "int32"), "string", _right),
    Function("replace", ("string", "string", "string"), "string", _replaced, optional=1),
    Function("locate", ("string", "string", "int32"), "int32", _located, optional=1),
    Function("reverse", ("string",), "string", plain(lambda value: pc.utf8_reverse(readable(value)))),
    Function("repeat", ("string", "=int32"), _limited("REPEAT", 1), _distinct(lambda text, n: text * max(n, 0))),
    Function("lpad", ("string", "=int32", "string"), _limited("LPAD", 1), _distinct(_padding(True)), optional=1),
    Function("rpad", ("string", "=int32", "string"), _limited("RPAD", 1), _distinct(_padding(False)), optional=1),
    Function("split_part", ("string", "string", "int32"), "string", _distinct(_part)),
    Function("translate", ("string", "string", "string"), "string", _distinct(_translated)),
    Function("startswith", ("string", "string"), "bool", _distinct(str.startswith)),
    Function("endswith", ("string", "string"), "bool", _distinct(str.endswith)),
    Function("contains", ("string", "string"), "bool", _distinct(lambda text, part: part in text)),
)
