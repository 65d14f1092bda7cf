"""Formats dates and moments by a pattern: DATE_FORMAT, FROM_UNIXTIME. Whole columns, part by part; the zone is UTC.

Patterns are those of Java's DateTimeFormatter, as far as Spark supports them: `yyyy-MM-dd`.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns import dates
from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.functions.function import arrays, function

_LETTERS = {
    "G": 5, "y": 9, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "F": 1, "Q": 4, "q": 4, "a": 1, "h": 2, "H": 2, "k": 2,
    "K": 2, "m": 2, "s": 2, "S": 9, "V": 2, "z": 4, "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip
_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'])", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """A part of a pattern: a letter and its count; `text` for literal text; `[` and `]` enclose an optional section."""

    letter: str
    count: int = 0
    text: str = ""


@cache
def items(pattern: str) -> tuple[Item, ...]:
    """Returns the parts of a pattern. Raises PlanError for patterns that Spark rejects, or that are not supported
    here."""
    found, at = [], 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise PlanError(f"the pattern {pattern!r} has an opening quote without a closing quote")
        at = part.end()
        if part[1] is not None:
            letter, count = part[1], len(part[0])
            fits = count <= _LETTERS.get(letter, 0) and (letter, count) not in (("V", 1), ("O", 2), ("O", 3))
            if not fits or (letter == "G" and count > 3):
                raise PlanError(
                    f"the pattern {pattern!r} has {part[0]!r}, which is not supported",
                    hint="letters are " + " ".join(_LETTERS) + "; write text in single quotes",
                )
            found.append(Item(letter, count))
        elif part[2] is not None:
            found.append(Item("", 0, part[2].replace("''", "'") or "'"))
        elif part[3] in "[]":
            found.append(Item(part[3]))
        elif part[3] in "{}#":
            raise PlanError(f"the pattern {pattern!r} has {part[3]!r}, which is reserved", hint="write it in quotes")
        else:
            found.append(Item("", 0, part[3]))
    depth = 0
    for item in found:
        depth += (item.letter == "[") - (item.letter == "]")
        if depth < 0:
            break
    if depth:
        raise PlanError(f"the pattern {pattern!r} has brackets that do not match")
    return tuple(found)


MONTHS = list(calendar.month_name)[1:]
DAYS = list(calendar.day_name)
_QUARTERS = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"]
_UTC = {
    ("V", 2): "UTC", **{("z", n): "UTC" for n in (1, 2, 3)}, ("z", 4): "Coordinated Universal Time",
    ("O", 1): "GMT", ("O", 4): "GMT", **{("X", n): "Z" for n in range(1, 6)},
    **dict(zip([("x", n) for n in range(1, 6)], ("+00", "+0000", "+00:00", "+0000", "+00:00"), strict=True)),
    **{("Z", n): "+0000" for n in (1, 2, 3)}, ("Z", 4): "GMT", ("Z", 5): "Z",
}  # fmt: skip
SECONDS = "yyyy-MM-dd HH:mm:ss"
"""The default pattern."""


class _Moments:
    """Days and microseconds of a column, from which parts are formatted."""

    def __init__(self, value: pa.Array, era: bool) -> None:
        self.era = era
        self.days = dates.days_of(value)
        self.clock = dates.clock_of(value) if pa.types.is_timestamp(value.type) else np.zeros(len(value), np.int64)

    def part(self, name: str) -> np.ndarray:
        return dates.PART[name](self.days)

    def written(self, item: Item) -> Any:
        """Returns the text of a part of a pattern, for each row or one for all rows."""
        if not item.letter:
            return pa.scalar(item.text)
        if (item.letter, item.count) in _UTC:
            return pa.scalar(_UTC[item.letter, item.count])
        return _WRITERS[item.letter](self, item.count)


def _number(values: np.ndarray, width: int) -> pa.Array:
    text = pc.cast(pa.array(values), pa.string())
    return pc.utf8_lpad(text, width, "0") if width > 1 else text


def _named(values: np.ndarray, names: Sequence[str]) -> pa.Array:
    return pa.array(names).take(pa.array(values))


def _year(moments: _Moments, count: int) -> pa.Array:
    """Returns the year, or the year of the era if the pattern has an era."""
    year = moments.part("year")
    year = np.where(moments.era & (year <= 0), 1 - year, year)
    if count == 2:
        return _number(np.abs(year) % 100, 2)
    far = (year >= 10**count) & (count >= 4)
    sign = _named((year < 0) + 2 * far, ["", "-", "+"])
    return pc.binary_join_element_wise(sign, _number(np.abs(year), count), "")


def _month(moments: _Moments, count: int) -> pa.Array:
    month = moments.part("month")
    if count > 2:
        return _named(month - 1, MONTHS if count == 4 else [name[:3] for name in MONTHS])
    return _number(month, count)


def _quarter(moments: _Moments, count: int) -> pa.Array:
    quarter = moments.part("quarter")
    if count > 2:
        return _named(quarter - 1, _QUARTERS if count == 4 else ["Q1", "Q2", "Q3", "Q4"])
    return _number(quarter, count)


def _weekday(moments: _Moments, count: int) -> pa.Array:
    return _named(moments.part("weekday"), DAYS if count == 4 else [name[:3] for name in DAYS])


def _clock(size: int, modulus: int, zero: int | None = None) -> Callable[[_Moments, int], pa.Array]:
    """Returns the formatter of a part of the time. `zero` replaces 0."""

    def write(moments: _Moments, count: int) -> pa.Array:
        found = moments.clock // (size * dates.SECOND) % modulus
        return _number(found if zero is None else np.where(found == 0, zero, found), count)

    return write


def _fraction(moments: _Moments, count: int) -> pa.Array:
    nanos = moments.clock % dates.SECOND * 1000
    return _number(nanos // 10 ** (9 - count), count)


_WRITERS: dict[str, Callable[[_Moments, int], pa.Array]] = {
    "G": lambda of, count: _named((of.part("year") > 0).astype(np.int64), ["BC", "AD"]),
    "y": _year, "M": _month, "L": _month, "Q": _quarter, "q": _quarter, "E": _weekday,
    "d": lambda of, count: _number(of.part("day"), count),
    "D": lambda of, count: _number(of.part("dayofyear"), count),
    "F": lambda of, count: _number((of.part("day") - 1) % 7 + 1, count),
    "a": lambda of, count: _named(of.clock // (12 * 3600 * dates.SECOND), ["AM", "PM"]),
    "H": _clock(3600, 24), "k": _clock(3600, 24, 24), "K": _clock(3600, 12), "h": _clock(3600, 12, 12),
    "m": _clock(60, 60), "s": _clock(1, 60), "S": _fraction,
}  # fmt: skip


def formatted(type_: pa.DataType, value: Any, pattern: Any) -> Any:
    """Returns DATE_FORMAT: moments as texts in a pattern."""
    parts = [item for item in items(pattern.as_py()) if item.letter not in ("[", "]")]

    def write(array: pa.Array) -> pa.Array:
        of = _Moments(array, any(item.letter == "G" for item in parts))
        texts = [of.written(item) for item in parts]
        empty = pa.scalar("")
        found = pc.binary_join_element_wise(*texts, empty) if texts else empty
        found = pa.repeat(found, len(array)) if isinstance(found, pa.Scalar) else found
        return pc.if_else(pc.is_valid(array), found, pa.scalar(None, type_))

    return on_arrays(write, value)


def _of_seconds(type_: pa.DataType, value: Any, pattern: Any = None) -> Any:
    def write(array: pa.Array) -> pa.Array:
        seconds = words(array, np.int64)
        fits = np.abs(seconds) < 2**63 // dates.SECOND
        moments = array_of(np.where(fits, seconds, 0) * dates.SECOND, pa.timestamp("us", "UTC"), array)
        found = formatted(type_, moments, pa.scalar(SECONDS) if pattern is None else pattern)
        return found if fits.all() else pc.if_else(pa.array(fits), found, pa.scalar(None, type_))

    return on_arrays(write, value)


def checked(position: int, type_: str, read: bool = False) -> Callable[[Sequence[str], Sequence[Any]], str]:
    """Returns the function for the type of a result whose pattern is the argument at a position. It raises PlanError
    for an unknown pattern. `read`: the pattern is for parsing."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if len(values) > position and values[position] is not None:
            for item in items(values[position]):
                if read and item.letter in tuple("EFQq"):
                    raise PlanError(
                        f"the pattern {values[position]!r} has {item.letter!r}, which is supported for output only"
                    )
        return type_

    return gives


def _name(part: str, names: Sequence[str]) -> Callable[..., Any]:
    def write(type_: pa.DataType, array: pa.Array) -> pa.Array:
        number = dates.PART[part](dates.days_of(array)) - (part == "month")
        return pc.if_else(pc.is_valid(array), _named(number, [name[:3] for name in names]), pa.scalar(None, type_))

    return arrays(write)


TABLE = (
    function("date_format", "timestamp =string", checked(1, "string"), formatted,
             note="The pattern is Java's, such as `'yyyy-MM-dd'`."),
    function("from_unixtime", "int64 [=string]", checked(1, "string"), _of_seconds,
             null="seconds outside the calendar"),
    function("dayname", "calendar", "string", _name("weekday", DAYS), note="Three letters."),
    function("monthname", "calendar", "string", _name("month", MONTHS), note="Three letters."),
)  # fmt: skip
