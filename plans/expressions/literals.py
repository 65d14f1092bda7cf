"""Literals of queries: their types, and their forms in text and JSON.

Functions that parse text accept a subset of Spark's forms, with the same results.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Any

import pyarrow as pa

from plans.errors import PlanError
from plans.types import INTERVALS, decimal_parts

RESERVED = -(2**63)  # the engine's code of NULL; no BIGINT of a view has this value
EXACT = decimal.Context(prec=100)
_BITS = {"int32": 31, "int64": 63}
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_CLOCK = r"(\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)"
_ZONE = r"(?: ?(Z|UTC|[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00))?"
_MOMENT = re.compile(rf" *(\d{{4}}-\d{{2}}-\d{{2}})(?:[ T]{_CLOCK}{_ZONE})? *", re.ASCII)
_DAY = re.compile(rf" *{_DATE} *", re.ASCII)
_INTEGER = re.compile(r" *[+-]?\d+ *", re.ASCII)
_DECIMAL = re.compile(r" *[+-]?(?:\d+\.?\d*|\.\d+) *", re.ASCII)
_FLOAT = re.compile(r" *[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan) *", re.ASCII | re.IGNORECASE)


def checked(value: Any, type_: str | None) -> tuple[Any, str]:
    """Returns a value and its type, which follows from the value unless given. Raises PlanError if no column can hold
    it."""
    if isinstance(value, decimal.Decimal) and value.is_finite() and int(value.as_tuple().exponent) > 0:
        value = value.quantize(decimal.Decimal(1), context=EXACT)  # 1E+3 is 1000
    found = type_ or ("duration" if isinstance(value, dt.timedelta) else _type_of(value))
    if found == "int64" and value == RESERVED:
        raise PlanError(
            f"the BIGINT {RESERVED} is reserved: the engine uses it for NULL",
            hint="compare with a number above it, or use a DECIMAL",
        )
    if isinstance(value, dt.timedelta):
        value = value // dt.timedelta(microseconds=1)
    if isinstance(value, pa.MonthDayNano):
        value = value.months
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PlanError(f"{value!r} is not a text: it contains half of a surrogate pair") from None
    return value, found


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise PlanError(f"{value} does not fit a 64-bit integer")
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, dt.datetime):
        return "timestamp" if value.tzinfo else "timestamp_ntz"
    if isinstance(value, dt.date):
        return "date"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
        if max(digits, scale) > 38:
            raise PlanError(f"{value:f} has more than 38 digits", hint="write it as a double: 1.5e0")
        return f"decimal({max(digits, scale)},{scale})"
    raise PlanError(f"a literal of type {type(value).__name__} is not supported")


def digits(value: int) -> tuple[int, int]:
    """Returns precision and scale of an integer next to a decimal."""
    return len(str(abs(value))), 0


def converted(value: Any, source: str, target: str) -> Any:
    """Returns the value in another type. Raises ValueError unless it is exactly a value of that type (a double may be
    rounded)."""
    if source == "string":
        return parsed(value, target)
    if target in _BITS and source in _BITS and _fits(value, target):
        return value
    number = source in _BITS or decimal_parts(source) is not None
    if target == "float64" and number:
        return float(value)
    parts = decimal_parts(target)
    if parts is not None and number:
        return _scaled(decimal.Decimal(value), parts)
    if target in ("timestamp", "timestamp_ntz") and source == "date":
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC if target == "timestamp" else None)
    raise ValueError(value)


def _fits(value: int, type_: str) -> bool:
    return -(2 ** _BITS[type_]) <= value < 2 ** _BITS[type_]


def _scaled(value: decimal.Decimal, parts: tuple[int, int]) -> decimal.Decimal:
    exact = value.quantize(decimal.Decimal(1).scaleb(-parts[1]), context=EXACT)
    if exact != value or len(exact.as_tuple().digits) > max(parts):
        raise ValueError(value)
    return exact


def parsed(text: str, type_: str) -> Any:
    """Returns the value of a type in a text. Raises ValueError if the text is not such a value.

    A timestamp without a zone is in UTC. Raises PlanError for a text with a zone if Spark would ignore the zone.
    """
    parts = decimal_parts(type_)
    if type_ == "date" and (day := _DAY.fullmatch(text)):
        return dt.date(int(day[1]), int(day[2]), int(day[3]))
    if type_ in ("timestamp", "timestamp_ntz") and (moment := _MOMENT.fullmatch(text)):
        return _moment(text, moment, type_)
    if type_ in _BITS and _INTEGER.fullmatch(text) and _fits(int(text), type_):
        return int(text)
    if type_ == "float64" and _FLOAT.fullmatch(text):
        return float(text)
    if parts is not None and _DECIMAL.fullmatch(text):
        return _scaled(EXACT.create_decimal(text.strip()), parts)
    if type_ == "bool" and text.strip(" ").lower() in ("true", "false"):
        return text.strip(" ").lower() == "true"
    if type_ == "string":
        return text
    raise ValueError(text)


def _moment(text: str, found: re.Match[str], type_: str) -> dt.datetime:
    day, clock, zone = found[1], found[2] or "00:00:00", found[3]
    if type_ == "timestamp_ntz" and zone is not None:
        raise PlanError(
            f"the timestamp {text!r} names a time zone, but a TIMESTAMP_NTZ has no time zone",
            hint=f"write '{day} {clock}'",
        )
    wall = dt.datetime.fromisoformat(f"{day} {clock}")
    if type_ == "timestamp_ntz":
        return wall
    offset = dt.timedelta()
    if zone not in (None, "Z", "UTC"):
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])) * (-1 if zone[0] == "-" else 1)
    try:
        return (wall - offset).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError(text) from None


def to_json(value: Any) -> Any:
    """Returns a JSON-able form of a value. `from_json` is its inverse."""
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    return value


def from_json(value: Any, type_: str) -> Any:
    """Returns the value of a type from its JSON."""
    if value is None or type_ in ("bool", "int32", "int64", "string", *INTERVALS):
        return value
    if type_ == "float64":
        return float(value)
    if type_ == "binary":
        return bytes.fromhex(value)
    if type_ == "date":
        return dt.date.fromisoformat(value)
    if type_ in ("timestamp", "timestamp_ntz"):
        return dt.datetime.fromisoformat(value)
    return decimal.Decimal(value)
