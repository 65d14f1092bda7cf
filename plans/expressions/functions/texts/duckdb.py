"""Texts in DuckDB's format: doubles as in C, JSON with plain moments and numbers, and the types of JSON."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pyarrow as pa

from plans.expressions.casts.writing import written
from plans.expressions.functions.distinct import by_distinct, each
from plans.expressions.functions.function import function
from plans.expressions.functions.nested.json import Style, any_value, between, writer
from plans.expressions.functions.nested.jsonpath import members

_SHORT = 18  # digits of the decimals that JSON stores as doubles
_EXPONENT = re.compile(r"e([+-])0*")
_LEAST, _MOST = 1e-6, 1e21  # JavaScript writes doubles between these without an exponent
_UNSIGNED = 2**64
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _number(value: float) -> str:
    """Returns a double as JavaScript writes it, with `.0` for integers."""
    text = repr(value)
    if text in _SPECIAL:
        return _SPECIAL[text]
    if value and not _LEAST <= abs(value) < _MOST:
        digits, _, power = text.partition("e")
        return _EXPONENT.sub(lambda sign: "e" + sign[1].strip("+"), f"{digits.removesuffix('.0')}e{power}")
    plain = f"{Decimal(text):f}"
    return plain if "." in plain else f"{plain}.0"


def _numbers(value: pa.Array) -> pa.Array:
    if pa.types.is_floating(value.type):
        return by_distinct(_number, pa.string(), value)
    if value.type.precision > _SHORT:
        return written(value)
    return by_distinct(lambda number: _number(float(number)), pa.string(), value)


def _moments(value: pa.Array) -> pa.Array:
    return between('"', written(value.cast(pa.timestamp("us"))), '+00"' if value.type.tz else '"')


def _kind(text: str) -> str | None:
    """Returns the type of a JSON value, or None if the text is invalid."""
    try:
        value = members(text)
    except ValueError:
        return None
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "UBIGINT" if 0 <= value < _UNSIGNED else "BIGINT" if -_UNSIGNED // 2 <= value < 0 else "DOUBLE"
    return {float: "DOUBLE", str: "VARCHAR", list: "ARRAY"}.get(type(value), "OBJECT")


def _valid(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


TABLE = (
    function("short_text", "float64", "string", lambda type_, value: by_distinct(repr, type_, value), hidden=True),
    function("plain_json", "any", any_value, writer(Style(True, _moments, _numbers)),
             note="TO_JSON of DuckDB: timestamps have no T, doubles are written as in JavaScript, DECIMALs as doubles.",
             internal=True),
    function("json_valid", "string", "bool", each(_valid), note="Whether a text is JSON."),
    function("json_kind", "string", "string", each(_kind),
          note="DuckDB's JSON_TYPE: NULL for text that is not JSON.", internal=True),
)  # fmt: skip
