"""Parses moments by a pattern: TO_TIMESTAMP and UNIX_TIMESTAMP with a format, once per distinct text.

A text that Java's strict parser rejects is NULL. Missing fields of a pattern are those of 1970-01-01 00:00:00 UTC.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import pyarrow as pa

from plans.expressions.casts.reading import day_number, offset
from plans.expressions.columns import dates
from plans.expressions.functions.clock.formats import MONTHS, Item, checked, items
from plans.expressions.functions.distinct import by_distinct, each
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


def _seconds(text: str, pattern: str) -> int | None:
    found = read(text, pattern)
    return None if found is None else int(math.copysign(abs(found) // dates.SECOND, found))


TABLE = (
    function("read_timestamp", "string =string", checked(1, "timestamp", True),
             lambda type_, value, pattern: on_words(by_distinct(read, pa.int64(), value, pattern), type_), hidden=True,
             sql=lambda a: f"TO_TIMESTAMP({a[0]}, {a[1]})"),
    function("read_seconds", "string =string", checked(1, "int64", True), each(_seconds), hidden=True,
             sql=lambda a: f"UNIX_TIMESTAMP({a[0]}, {a[1]})"),
)  # fmt: skip
