"""Parses moments by a pattern: TO_TIMESTAMP and UNIX_TIMESTAMP with a format.

A text that Java's strict parser rejects is NULL. Missing fields of a pattern are those of 1970-01-01 00:00:00 UTC.
If each field has a fixed number of digits, NumPy reads whole columns. Other texts are read once per distinct text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.casts.reading import day_number, offset
from plans.expressions.columns import dates
from plans.expressions.columns.arrays import null, validity
from plans.expressions.columns.characters import bytes_of
from plans.expressions.functions.clock.formats import MONTHS, Item, checked, items
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.function import function

_NUMBERS = "yMLdDHhkKms"
_OFFSETS = {
    1: r"[+-]\d{2}(?:\d{2})?", 2: r"[+-]\d{4}", 3: r"[+-]\d{2}:\d{2}", 4: r"[+-]\d{4}(?:\d{2})?",
    5: r"[+-]\d{2}:\d{2}(?::\d{2})?",
}  # fmt: skip
_ZONE = r"(?:UTC|GMT|UT|Z)?(?:[+-]\d{1,2}(?::?\d{2})?)?"


def _field(item: Item, adjacent: bool) -> str:
    """Returns the regular expression of a part. `adjacent`: digits of another part follow."""
    letter, count = item.letter, item.count
    if letter == "y":
        if count in (2, 3) or adjacent:
            return rf"\d{{{count}}}"
        return rf"-?\d{{{count}}}|[+-]\d{{{count + 1},9}}" if count > 3 else r"-?\d{1,9}"
    if letter in "ML" and count > 2:
        return "|".join(MONTHS if count == 4 else [name[:3] for name in MONTHS])
    if letter in _NUMBERS:
        return rf"\d{{{count}}}" if count > 1 else r"\d{1,9}"
    if letter == "S":
        return rf"\d{{1,{count}}}"
    if letter == "a":
        return "AM|PM"
    if letter == "G":
        return "AD|BC"
    if letter == "X":
        return rf"Z|{_OFFSETS[count]}"
    if letter == "x":
        return _OFFSETS[count]
    if letter == "Z" and count < 4:
        return r"[+-]\d{4}"
    return _ZONE if letter in "VzOZ" else "(?!)"


@cache
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Returns the regular expression of a pattern, and the letter of each group."""
    parts, text, letters = items(pattern), "", []
    for place, item in enumerate(parts):
        if not item.letter:
            text += re.escape(item.text)
        elif item.letter in "[]":
            text += "(?:" if item.letter == "[" else ")?"
        else:
            follows = parts[place + 1] if place + 1 < len(parts) else Item("")
            text += f"({_field(item, bool(follows.letter) and follows.letter in _NUMBERS)})"
            letters.append(item.letter + ("2" if item == Item("y", 2) else ""))
    return re.compile(text, re.IGNORECASE | re.ASCII), tuple(letters)


def read(text: str, pattern: str) -> int | None:
    """Returns the microseconds since 1970 of the moment in a text, by a pattern, or None if the text does not match."""
    regex, letters = _reader(pattern)
    match = regex.fullmatch(text)
    if match is None:
        return None
    found = {letter: part for letter, part in zip(letters, match.groups(), strict=True) if part is not None}
    days = _day(found)
    clock = _clock(found)
    if days is None or clock is None:
        return None
    shift = 0
    for letter in "VzOXxZ":
        zone = found.get(letter)
        if zone is not None:
            ahead = offset(zone.upper())
            if ahead is None:
                return None
            shift = ahead
    total = days * dates.DAY + clock - shift * dates.SECOND
    return total if -(2**63) < total < 2**63 else None


def _day(found: dict[str, str]) -> int | None:
    year = 2000 + int(found["y2"]) if "y2" in found else int(found.get("y", "1970"))
    if "G" in found:
        year = 1 - year if found["G"].upper() == "BC" else year
    month = found.get("M") or found.get("L") or "1"
    if not month.isdigit():
        month = str([name[:3].lower() for name in MONTHS].index(month[:3].lower()) + 1)
    sign = "-" if year < 0 else ""
    if "D" in found:
        first = day_number(sign, str(abs(year)), "1", "1")
        last = day_number(sign, str(abs(year)), "12", "31")
        days = None if first is None or last is None else first + int(found["D"]) - 1
        days = days if days is not None and first is not None and last is not None and first <= days <= last else None
    else:
        days = day_number(sign, str(abs(year)), month, found.get("d", "1"))
    return days


def _clock(found: dict[str, str]) -> int | None:
    """Returns the microseconds since midnight."""
    half = {"AM": 0, "PM": 12}.get(found.get("a", "").upper())
    if "H" in found or "k" in found:
        hour = int(found["H"]) if "H" in found else int(found["k"]) % 24
        good = hour < 24 and (("k" not in found) or 1 <= int(found["k"]) <= 24)
        good = good and (half is None or (hour >= 12) == (half == 12))
    else:
        given = int(found.get("h", found.get("K", "0")))
        good = 1 <= given <= 12 if "h" in found else given < 12
        hour = given % 12 + (half or 0)
    minute, second = int(found.get("m", "0")), int(found.get("s", "0"))
    if not good or minute > 59 or second > 59:
        return None
    micros = int((found.get("S", "") + "000000")[:6])
    return (hour * 3_600 + minute * 60 + second) * dates.SECOND + micros


def on_words(value: Any, type_: pa.DataType) -> Any:
    """Returns integers as moments."""
    return value.cast(type_) if isinstance(value, pa.Scalar) else value.view(type_)


class _Layout(NamedTuple):
    """The letters of the fields of a pattern, in order; a text of that pattern; and the positions of its digits."""

    fields: list[str]
    sample: np.ndarray
    digits: np.ndarray


@cache
def _layout(pattern: str) -> _Layout | None:
    """Returns the layout of a pattern, or None if a field has no fixed number of digits."""
    fields, text, digits = list[str](), b"", list[int]()
    for item in items(pattern):
        if item.letter:
            if _DIGITS.get(item.letter) != item.count or item.letter in fields:
                return None
            fields.append(item.letter)
            digits += range(len(text), len(text) + item.count)
        text += item.text.encode() or b"0" * item.count
    return _Layout(fields, np.frombuffer(text, np.uint8), np.array(digits, np.int64))


_DIGITS = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 3}
_EARLIEST = {"y": 1970, "M": 1, "d": 1}  # the fields that a pattern lacks


def _at_places(value: pa.Array, layout: _Layout) -> pa.Array:
    """Returns the microseconds since 1970 of texts whose fields are where a layout has them, and NULL for others."""
    starts, data = bytes_of(value)
    sizes = np.diff(starts, append=len(data))
    rows = np.flatnonzero((sizes == len(layout.sample)) & validity(value))
    texts = data[starts[rows][:, None] + np.arange(len(layout.sample))]
    figures = texts[:, layout.digits] - ord("0")
    texts[:, layout.digits] = layout.sample[layout.digits]
    good = (figures < 10).all(axis=1) & (texts == layout.sample).all(axis=1)
    found = {letter: np.full(len(rows), _EARLIEST.get(letter, 0), np.int64) for letter in _DIGITS}
    at = 0
    for letter in layout.fields:
        behind = at + _DIGITS[letter]
        found[letter] = figures[:, at:behind] @ 10 ** np.arange(_DIGITS[letter])[::-1]
        at = behind
    month = (found["y"] - 1970) * 12 + found["M"] - 1
    first = dates.first_day(month)
    day = first + found["d"] - 1
    good &= (found["M"] >= 1) & (found["M"] <= 12) & (day >= first) & (day < dates.first_day(month + 1))
    good &= (found["H"] < 24) & (found["m"] < 60) & (found["s"] < 60)
    clock = (found["H"] * 3_600 + found["m"] * 60 + found["s"]) * dates.SECOND + found["S"] * (dates.SECOND // 1_000)
    micros, there = np.zeros(len(value), np.int64), np.zeros(len(value), bool)
    micros[rows], there[rows] = day * dates.DAY + clock, good
    return pa.array(micros, mask=~there)


def _moments(value: Any, pattern: Any) -> Any:
    """Returns the microseconds since 1970 of the moments in texts."""
    layout = _layout(pattern.as_py())
    if layout is None or isinstance(value, pa.Scalar):
        return by_distinct(read, pa.int64(), value, pattern)
    found = _at_places(value, layout)
    rest = pc.if_else(pc.is_valid(found), null(value.type), value)
    if rest.null_count == len(rest):
        return found
    return pc.coalesce(found, by_distinct(read, pa.int64(), rest, pattern))


TABLE = (
    function("read_timestamp", "string =string", checked(1, "timestamp", True),
             lambda type_, value, pattern: on_words(_moments(value, pattern), type_), hidden=True,
             sql=lambda a: f"TO_TIMESTAMP({a[0]}, {a[1]})"),
    function("read_seconds", "string =string", checked(1, "int64", True),
             lambda type_, value, pattern: pc.divide(_moments(value, pattern), dates.SECOND), hidden=True,
             sql=lambda a: f"UNIX_TIMESTAMP({a[0]}, {a[1]})"),
)  # fmt: skip
