"""Parses text as numbers, booleans, dates and timestamps, in all forms that Spark reads.

A text that is not a value of the type is NULL, where Spark in ANSI mode fails. Plain forms are parsed by Arrow, others
once per distinct text. Two of Spark's forms are NULL here: a time without a day, which means today, and a zone by its
name.
"""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns import dates, intervals
from plans.expressions.columns.arrays import on_arrays
from plans.expressions.columns.characters import readable
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.literals import EXACT

_BLANK = "".join(map(chr, range(33))) + "\x7f"
_JAVA_BLANK = _BLANK[:-1]
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DOUBLE = re.compile(r"([+-]?)((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEX = re.compile(r"([+-]?)(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?")
_SPECIAL = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_NAMED = {"NaN": float("nan"), "+NaN": float("nan"), "-NaN": float("nan")}
_DAY = r"([+-]?)([0-9]{4,%d})(?:-([0-9]{1,2})(?:-([0-9]{1,2})%s)?)?"
_DATE = re.compile(_DAY % (7, r"(?:[ T].*)?"), re.DOTALL)
_MOMENT = re.compile(
    _DAY % (6, r"(?:[ T](?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?"),
    re.DOTALL,
)
_ZONE = re.compile(r"(Z|UTC|GMT|UT)?(?:([+-])([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2})?)?)?")
_QUICK = r"\A[+-]?[0-9]{1,18}\z"
_QUICK_DOUBLE = r"\A-?[0-9]{1,15}(?:\.[0-9]{1,15})?\z"
_QUICK_DAY = (
    r"[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_QUICK_DATE = rf"(?s)\A{_QUICK_DAY}(?:[ T].*)?\z"
_QUICK_MOMENT = rf"\A{_QUICK_DAY}(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?)?\z"


_DAY_SIZE = len("2020-02-29")
_NOWHERE = r"\z."  # matches nowhere
_WORDS = {pa.timestamp("us"): pa.int64(), pa.date32(): pa.int32()}


def _unsigned(texts: pa.Array) -> pa.Array:
    return pc.utf8_ltrim(texts, characters="+")


def read(value: Any, type_: pa.DataType) -> Any:
    """Returns strings as values of `type_`; NULL where they are not values of it. O(n)."""
    return on_arrays(lambda array: _read(readable(array), type_), value)


def _read(value: pa.Array, type_: pa.DataType) -> pa.Array:
    kinds = pa.types
    if kinds.is_boolean(type_):
        return _truth(value)
    if kinds.is_integer(type_):
        found = _quickly(value, _QUICK, pa.int64(), _whole)
        bound = 2 ** (type_.bit_width - 1)
        fits = pc.and_(pc.less_equal(found, bound - 1), pc.greater_equal(found, -bound))
        return pc.cast(pc.if_else(fits, found, pa.scalar(None, pa.int64())), type_)
    if kinds.is_floating(type_):
        return _quickly(value, _QUICK_DOUBLE, type_, _double)
    if kinds.is_decimal(type_):
        return _quickly(value, _quick_decimal(type_), type_, lambda text: _decimal(text, type_.precision, type_.scale))
    if kinds.is_date(type_):
        return _quickly(value, _QUICK_DATE, type_, _date, lambda text: pc.utf8_slice_codeunits(text, 0, _DAY_SIZE))
    if intervals.is_interval(type_):
        return intervals.read(value, type_)
    zoned, wall = type_.tz is not None, pa.timestamp("us")
    return _quickly(value, _QUICK_MOMENT, wall, lambda text: _moment(text, zoned)).view(type_)


def _quickly(value: pa.Array, plain: str, type_: pa.DataType, slow: Any, part: Any = _unsigned) -> pa.Array:
    """Parses texts of a plain form by Arrow, which reads a `part` of them, and the others by `slow`, once per distinct
    text."""
    quick = pc.fill_null(pc.match_substring_regex(value, plain), False)
    nothing = pa.scalar(None, pa.string())
    found = pc.cast(part(pc.if_else(quick, value, nothing)), type_)
    rest = pc.if_else(quick, nothing, value)
    if rest.null_count == len(rest):
        return found
    target = _WORDS.get(type_, type_)
    return pc.coalesce(found, by_distinct(slow, target, rest).view(type_))


def _quick_decimal(type_: pa.DataType) -> str:
    """Returns the pattern of texts with no more digits than a decimal type has."""
    whole, scale = type_.precision - type_.scale, type_.scale
    if not whole:
        return _NOWHERE
    return rf"\A[+-]?[0-9]{{1,{whole}}}" + (rf"(?:\.[0-9]{{1,{scale}}})?\z" if scale else r"\z")


def _truth(value: pa.Array) -> pa.Array:
    plain = pc.ascii_lower(pc.utf8_trim(value, characters=_BLANK))
    yes, no = (pc.is_in(plain, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(yes, True, pc.if_else(no, False, pa.scalar(None, pa.bool_())))


def _whole(text: str) -> int | None:
    text = text.strip(_BLANK)
    number = int(text) if len(text) < 4000 and _INTEGER.fullmatch(text) else 2**63
    return number if -(2**63) < number < 2**63 else None


def _double(text: str) -> float | None:
    text = text.strip(_JAVA_BLANK)
    plain = _DOUBLE.fullmatch(text)
    if plain is not None:
        return float(plain[1] + plain[2])
    exact = _HEX.fullmatch(text)
    if exact is not None:
        try:
            return float.fromhex(exact[1] + exact[2])
        except OverflowError:
            return float(exact[1] + "inf")
    return _NAMED.get(text, _SPECIAL.get(text.lower()))


def _decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    text = text.strip(_JAVA_BLANK)
    if not _DECIMAL.fullmatch(text):
        return None
    number = EXACT.copy().create_decimal(text)
    if number and number.adjusted() >= precision - scale:
        return None
    if number.adjusted() < -scale - 1:
        return decimal.Decimal(0).scaleb(-scale)
    exact = number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, EXACT)
    return exact if exact == 0 or exact.adjusted() < precision - scale else None


def day_number(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    """Returns the days since 1970 of a day of the calendar, or None if there is no such day."""
    y, m, d = int(sign + year), int(month or 1), int(day or 1)
    cycle, place = divmod(y - 2000, 400)  # the calendar repeats
    if not 1 <= m <= 12 or not 1 <= d <= calendar.monthrange(2000 + place, m)[1]:
        return None
    return (dt.date(2000 + place, m, d) - dt.date(1970, 1, 1)).days + 146_097 * cycle


def _date(text: str) -> int | None:
    found = _DATE.fullmatch(text.strip(_BLANK))
    days = day_number(*found.groups()) if found else None
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _moment(text: str, zoned: bool) -> int | None:
    found = _MOMENT.fullmatch(text.strip(_BLANK))
    days = day_number(*found.groups()[:4]) if found else None
    if found is None or days is None:
        return None
    hour, minute, second = (int(found[i] or 0) for i in (5, 6, 7))
    shift = offset(found[9].strip(_BLANK)) if found[9] else 0
    if hour > 23 or minute > 59 or second > 59 or shift is None:
        return None
    micros = int(((found[8] or "") + "000000")[:6])
    clock = (hour * 3_600 + minute * 60 + second) * dates.SECOND + micros
    total = days * dates.DAY + clock - (shift * dates.SECOND if zoned else 0)
    return total if -(2**63) < total < 2**63 else None


def offset(zone: str) -> int | None:
    """Returns the seconds by which a zone is ahead of UTC, or None if it is not written as an offset."""
    found = _ZONE.fullmatch(zone)
    if found is None or not zone:
        return None
    hours, minutes, seconds = (int(part or 0) for part in (found[3], found[4] or found[6], found[5] or found[7]))
    shift = hours * 3_600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or shift > 18 * 3_600:
        return None
    return -shift if found[2] == "-" else shift
