"""Spark's functions of the characters of strings: characters are Unicode code points, and only spaces are trimmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns import characters
from plans.expressions.columns.arrays import null
from plans.expressions.columns.characters import readable
from plans.expressions.columns.packed import elements_of
from plans.expressions.functions.distinct import by_distinct, each
from plans.expressions.functions.function import arrays, cast_to, function, plain

LONGEST = 10_000
"""The most characters that REPEAT, LPAD and RPAD may add to each row."""

_LENGTHS = ("char_length", "character_length", "len")
_MAPPINGS = (
    "Unicode's full case mappings: 'ß' becomes 'SS'. 40 letters that are newer than Spark's tables have Arrow's "
    "mappings."
)
_SPACES = "Removes only spaces, or the given characters. Also `TRIM(BOTH x FROM y)`, with LEADING and TRAILING."
_AT_MOST = f"more than {LONGEST:,} characters"
_TRIMS = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}


def _trimmed(name: str) -> Callable[..., Any]:
    def trim(type_: pa.DataType, value: Any, characters: Any = None) -> Any:
        wanted = " " if characters is None else characters.as_py()
        return _TRIMS[name](readable(value), characters=wanted) if wanted else readable(value)

    return trim


def sliced(value: str, start: int, count: int = 2**31 - 1) -> str:
    """Returns SUBSTRING: positions count from 1, and 0 is 1. A negative start counts from the end, and may lie before
    the beginning."""
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    until = min(first + count, 2**31 - 1)
    return value[max(first, 0) : max(until, 0)] if until > first else ""


def _substring(type_: pa.DataType, value: Any, start: Any, count: Any = None) -> Any:
    constants = isinstance(start, pa.Scalar) and (count is None or isinstance(count, pa.Scalar))
    if constants and start.is_valid and start.as_py() > 0 and (count is None or (count.as_py() or -1) >= 0):
        return characters.substring(value, start.as_py(), None if count is None else count.as_py())
    return by_distinct(sliced, type_, value, start, *([] if count is None else [count]))


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


def _index(substring: str, text: str, start: int = 1) -> int:
    """Returns the first position, from `start` on and counted from 1, or 0 if there is none. The empty text is at
    position 1."""
    if start < 1:
        return 0
    return text.find(substring, start - 1) + 1 if substring else 1


def _located(type_: pa.DataType, substring: Any, text: Any, start: Any = None) -> Any:
    """Returns LOCATE. If the start is NULL, the result is 0 for all texts."""
    if start is None:
        return by_distinct(_index, type_, substring, text)
    return pc.if_else(pc.is_valid(start), by_distinct(_index, type_, substring, text, start), pa.scalar(0, type_))


def _split_part(text: str, delimiter: str, number: int) -> str | None:
    """Returns SPLIT_PART. Number 0 gives None, where Spark fails."""
    parts = text.split(delimiter) if delimiter else [text]
    if number == 0:
        return None
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _split_parts(type_: pa.DataType, value: Any, delimiter: Any, number: Any) -> Any:
    if not splits_alike(value, delimiter, number) or not number.as_py():
        return by_distinct(_split_part, type_, value, delimiter, number)
    place = number.as_py()
    found = pc.fill_null(part_at(value, delimiter.as_py(), place - (place > 0)), "")
    return pc.if_else(pc.is_valid(readable(value)), found, null(type_))


def splits_alike(value: Any, delimiter: Any, number: Any) -> bool:
    """Returns whether `part_at` splits all texts: they are a column, and the rest is constant."""
    constants = isinstance(delimiter, pa.Scalar) and isinstance(number, pa.Scalar) and number.is_valid
    return isinstance(value, pa.Array) and constants and bool(delimiter.as_py())


def part_at(value: pa.Array, delimiter: str, place: int) -> pa.Array:
    """Returns the part of each text at a place, which counts from 0, or from the end if it is negative; NULL if there
    is none."""
    found = pc.split_pattern(readable(value), delimiter, max_splits=place + 1 if place >= 0 else None)
    sizes, parts = elements_of(found)
    places = np.full(len(sizes), place) + (sizes if place < 0 else 0)
    outside = (places < 0) | (places >= sizes)
    return parts.take(pa.array(np.cumsum(sizes) - sizes + places, mask=outside))


def _repeated(text: str, count: int) -> str | None:
    return text * max(count, 0) if count * len(text) <= LONGEST else None


def _padding(left: bool) -> Callable[..., str | None]:
    def padded(text: str, width: int, characters: str = " ") -> str | None:
        if width > LONGEST:
            return None
        missing = width - len(text)
        if missing <= 0 or not characters:
            return text[: max(width, 0)]
        added = (characters * (missing // len(characters) + 1))[:missing]
        return added + text if left else text + added

    return padded


def _limited(name: str) -> Callable[[Sequence[str], Sequence[Any]], str]:
    """Returns the type function of a string whose length is limited by a constant."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[1] is not None and values[1] > LONGEST:
            raise PlanError(f"{name} makes at most {LONGEST} characters of each row, not {values[1]}")
        return "string"

    return gives


def _translated(text: str, old: str, new: str) -> str:
    return text.translate(_translations(old, new))


@lru_cache
def _translations(old: str, new: str) -> dict[int, str]:
    table: dict[int, str] = {}
    for place, sign in enumerate(old):
        table.setdefault(ord(sign), new[place : place + 1])
    return table


def _joined(type_: pa.DataType, delimiter: pa.Array, *texts: pa.Array) -> pa.Array:
    known = reduce(pc.or_, map(pc.is_valid, texts), pa.repeat(False, len(delimiter)))
    first = pc.if_else(known, texts[0] if texts else pa.scalar(None, type_), "")  # Arrow drops rows with only NULLs
    return pc.binary_join_element_wise(first, *texts[1:], delimiter, null_handling="skip")


def _trim_text(name: str) -> Callable[[Sequence[str]], str]:
    side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
    return lambda a: f"TRIM({side} {a[1]} FROM {a[0]})" if len(a) > 1 else f"{name.upper()}({a[0]})"


TABLE = (
    function("lower", "string", "string", plain(characters.lower), also=("lcase",), note=_MAPPINGS),
    function("upper", "string", "string", plain(characters.upper), also=("ucase",), note=_MAPPINGS),
    function(
        "length",
        "bytes",
        "int32",
        cast_to(lambda value: pc.binary_length(value) if pa.types.is_binary(value.type) else characters.length(value)),
        also=_LENGTHS,
        note="The characters of text, or the bytes of BINARY.",
    ),
    function("octet_length", "bytes", "int32", cast_to(pc.binary_length), note="Bytes."),
    function("concat", "string ...", "string", plain(lambda *args: pc.binary_join_element_wise(*args, pa.scalar(""))),
             note="Also `||`. NULL if an argument is NULL."),
    function("concat_ws", "string [string] ...", "string", arrays(_joined), note="NULLs are skipped."),
    function("substring", "string int32 [int32]", "string", _substring, also=("substr",),
             note="Counts from 1; a negative start counts from the end. Also `SUBSTRING(x FROM 2 FOR 3)`."),
    *(
        function(name, "string [=string]", "string", _trimmed(name), also=also, sql=_trim_text(name), note=_SPACES)
        for name, also in (("trim", ("btrim",)), ("ltrim", ()), ("rtrim", ()))
    ),
    function("left", "string int32", "string", _left),
    function("right", "string int32", "string", _right),
    function("replace", "string string [string]", "string", _replaced),
    function("locate", "string string [int32]", "int32", _located, also=("position", "charindex"),
             note="Positions count from 1; 0 means not found. Also `POSITION(x IN y)`."),
    function("reverse", "string", "string", plain(lambda value: pc.utf8_reverse(readable(value)))),
    function("repeat", "string int32", _limited("REPEAT"), each(_repeated), null=_AT_MOST),
    function("lpad", "string int32 [string]", _limited("LPAD"), each(_padding(True)), null=_AT_MOST),
    function("rpad", "string int32 [string]", _limited("RPAD"), each(_padding(False)), null=_AT_MOST),
    function("split_part", "string string int32", "string", _split_parts, null="part 0",
             note="A part that does not exist is the empty text."),
    function("translate", "string string string", "string", each(_translated)),
    function("startswith", "string string", "bool", each(str.startswith)),
    function("endswith", "string string", "bool", each(str.endswith)),
    function("contains", "string string", "bool", each(lambda text, part: part in text)),
)  # fmt: skip
