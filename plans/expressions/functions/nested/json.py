"""FROM_JSON and TO_JSON: parse and write nested values as JSON texts, as Spark does.

A value that does not fit is NULL, as in Spark's mode PERMISSIVE: only the field of a struct, but a map or an array as a
whole. Texts are parsed once per distinct text, and written part by part for whole columns.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.casts.reading import read
from plans.expressions.casts.writing import written
from plans.expressions.columns.arrays import on_arrays, validity
from plans.expressions.columns.packed import elements_of, listed
from plans.expressions.functions.clock import formats
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.function import function
from plans.expressions.functions.nested.collections import where
from plans.expressions.functions.nested.jsonpath import quoted, written_word
from plans.expressions.literals import EXACT
from plans.nested import ARRAY, MAP, STRUCT, Parts, is_nested, parts
from plans.types import MOMENTS, arrow_type, decimal_parts, normal_type, type_of_arrow

_BLANK = " \t\r\n"
_ZONED = re.compile(r"(Z|UTC|[+-]\d{1,2}(:?\d\d)?)\s*$")
_DAYS = re.compile(r"\d{1,6}", re.ASCII)
_DOUBLES = {
    "NaN": float("nan"), "Infinity": float("inf"), "+Infinity": float("inf"), "INF": float("inf"),
    "+INF": float("inf"), "-Infinity": float("-inf"), "-INF": float("-inf"),
}  # fmt: skip
_BITS = {"int32": 31, "int64": 63}


class _Bad(Exception):
    """A JSON value is not a value of the type."""


class _Number(float):
    """A number with a decimal point or an exponent, and its text."""

    text: str

    @staticmethod
    def of(text: str) -> _Number:
        made = _Number(text)
        made.text = text
        return made


def _refused(text: str) -> Any:
    raise ValueError(text)


_READER = json.JSONDecoder(parse_float=_Number.of, parse_constant=_refused, strict=False)


def _check_keys(type_: str, name: str, supported: Sequence[str], hint: str) -> None:
    """Raises PlanError for maps, anywhere in a type, whose keys have a type that is not in `supported`."""
    found = parts(type_) if is_nested(type_) else None
    if found is None:
        return
    if found.kind == MAP and found.types[0] not in supported:
        raise PlanError(f"{name}: the keys of {type_} are not texts", hint=hint)
    for part in found.types:
        _check_keys(part, name, supported, hint)


# -- parsing -----------------------------------------------------------------------------------------------------------


def _schema(types: Sequence[str], values: Sequence[Any]) -> str:
    text = values[1]
    if text is None:
        raise PlanError("FROM_JSON needs a schema", hint="write FROM_JSON(text, 'a INT, b STRING')")
    try:
        whole = parts(text.strip()) is not None
    except ValueError:
        whole = True
    type_ = normal_type(text if whole else f"struct<{text}>")
    _check_keys(type_, "FROM_JSON", ("string",), "make them STRING, and cast them with TRANSFORM_KEYS")
    return type_


def _parsed(text: str, type_: str) -> Any:
    """Returns the value of a text, or a struct of NULLs if the text is not a value of the struct."""
    if not text.strip(_BLANK):
        return None
    made = parts(type_)
    assert made is not None, "a schema has parts"
    try:
        found, _ = _READER.raw_decode(text.lstrip(_BLANK))
        if made.kind == ARRAY and isinstance(found, dict) and made.types[0].startswith(STRUCT):
            found = [found]
        return {} if found is None and made.kind == STRUCT else _value(found, type_)
    except (ValueError, RecursionError, _Bad):
        return {} if made.kind == STRUCT else None


def _value(found: Any, type_: str) -> Any:
    """Converts a value of JSON to a type. Raises _Bad if it does not fit the type."""
    if found is None:
        return None
    made = _parts(type_)
    if made is None:
        return _plain(found, type_)
    if made.kind == ARRAY and isinstance(found, list):
        return [_value(one, made.types[0]) for one in found]
    if made.kind == MAP and isinstance(found, dict):
        return sorted({_plain(key, "string"): _value(one, made.types[1]) for key, one in found.items()}.items())
    if made.kind == STRUCT and isinstance(found, dict):
        return {name: _or_none(found.get(name), part) for name, part in zip(made.names, made.types, strict=True)}
    raise _Bad


@cache
def _parts(type_: str) -> Parts | None:
    return parts(type_) if is_nested(type_) else None


def _or_none(found: Any, type_: str) -> Any:
    try:
        return _value(found, type_)
    except _Bad:
        return None


def _plain(found: Any, type_: str) -> Any:
    """Returns a value without parts."""
    if type_ == "string" and isinstance(found, str):
        return found if found.isascii() else found.encode(errors="replace").decode()
    if type_ == "string":
        return _again(found)
    number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if type_ in _BITS and isinstance(found, int) and number and -(2 ** _BITS[type_]) < found < 2 ** _BITS[type_]:
        return found
    if type_ == "float64" and (number or (isinstance(found, str) and found in _DOUBLES)):
        return float(found) if number else _DOUBLES[found]
    if type_ == "bool" and isinstance(found, bool):
        return found
    digits = decimal_parts(type_)
    if digits is not None and (number or isinstance(found, str)):
        return _decimal(found, digits)
    if type_ == "binary" and isinstance(found, str):
        try:
            return base64.b64decode(found, validate=True)
        except binascii.Error:
            raise _Bad from None
    return _moment(found, type_)


def _decimal(found: Any, digits: tuple[int, int]) -> Decimal:
    try:
        exact = EXACT.create_decimal(found.text if isinstance(found, _Number) else found)
        made = exact.quantize(Decimal(1).scaleb(-digits[1]), ROUND_HALF_UP, EXACT)
    except InvalidOperation:
        raise _Bad from None
    if not made.is_finite() or len(made.as_tuple().digits) > max(digits):
        raise _Bad
    return made


def _moment(found: Any, type_: str) -> Any:
    """Converts a JSON value to a date or a timestamp.

    An integer counts the seconds since 1970; for a date, an integer of few digits counts the days.
    """
    if type_ == "timestamp" and isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**43:
        return pa.scalar(found * 1_000_000, arrow_type(type_))
    if not isinstance(found, str) or type_ not in MOMENTS or (type_ == "timestamp_ntz" and _ZONED.search(found[10:])):
        raise _Bad
    made = read(pa.scalar(found), arrow_type(type_))
    if not made.is_valid and type_ == "date" and _DAYS.fullmatch(found):
        return pa.scalar(int(found), pa.date32())
    if not made.is_valid:
        raise _Bad
    return made


def _again(found: Any) -> str:
    """Returns a JSON value as text without spaces."""
    if isinstance(found, dict):
        return "{" + ",".join(f"{quoted(name)}:{_again(one)}" for name, one in found.items()) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(_again, found)) + "]"
    if isinstance(found, str):
        return quoted(found)
    return written_word(found)


# -- writing -----------------------------------------------------------------------------------------------------------


class Style(NamedTuple):
    """The style of JSON: whether NULL fields are written, and how moments and numbers are formatted."""

    nulls: bool
    moments: Callable[[pa.Array], pa.Array]
    numbers: Callable[[pa.Array], pa.Array]


def _writable(types: Sequence[str], values: Sequence[Any]) -> str:
    if not is_nested(types[0]):
        raise PlanError(
            f"TO_JSON takes a struct, a map or an array, not {types[0]}", hint="write STRUCT(...) around it"
        )
    _check_keys(types[0], "TO_JSON", ("string", "int32", "int64", "bool"), "cast them with TRANSFORM_KEYS")
    return "string"


def any_value(types: Sequence[str], values: Sequence[Any]) -> str:
    """Returns the type of JSON, which is text. Raises PlanError for maps whose keys cannot be written as texts."""
    _check_keys(types[0], "WRITE_JSON", ("string", "int32", "int64", "bool"), "cast them with TRANSFORM_KEYS")
    return "string"


def writer(style: Style) -> Callable[..., Any]:
    """Returns an evaluator that writes a value as JSON."""
    return lambda type_, value: on_arrays(lambda array: _texts(array, style), value)


def _texts(value: pa.Array, style: Style) -> pa.Array:
    """Returns values as JSON texts. NULL stays NULL."""
    kinds, there = pa.types, validity(value)
    if kinds.is_struct(value.type):
        fields = [_texts(one, style) for one in value.flatten()]
        fields = [
            pc.fill_null(between(quoted(field.name) + ":", pc.fill_null(one, "null") if style.nulls else one, ","), "")
            for field, one in zip(value.type, fields, strict=True)
        ]
        made = pc.ascii_rtrim(pc.binary_join_element_wise(*fields, ""), ",")  # no value ends in a comma
        return where(there, between("{", made, "}"))
    if kinds.is_map(value.type):
        sizes, entries = elements_of(value)
        keys, items = entries.flatten()
        pairs = pc.binary_join_element_wise(
            _quoted(pc.cast(keys, pa.string())), pc.fill_null(_texts(items, style), "null"), ":"
        )
        return where(there, between("{", _joined(sizes, pairs), "}"))
    if kinds.is_nested(value.type):
        sizes, elements = elements_of(value)
        return where(there, between("[", _joined(sizes, pc.fill_null(_texts(elements, style), "null")), "]"))
    if kinds.is_integer(value.type) or kinds.is_boolean(value.type):
        return pc.cast(value, pa.string())
    if kinds.is_binary(value.type):
        return by_distinct(lambda data: f'"{base64.b64encode(data).decode()}"', pa.string(), value)
    if kinds.is_timestamp(value.type):
        return style.moments(value)
    if kinds.is_floating(value.type) or kinds.is_decimal(value.type):
        return style.numbers(value)
    return _quoted(written(value))


def _numbers(value: pa.Array) -> pa.Array:
    text = written(value)
    if pa.types.is_decimal(value.type):
        return text
    return pc.if_else(pc.is_finite(value), text, between('"', text, '"'))


def _moments(value: pa.Array) -> pa.Array:
    """Returns moments, with the fraction of a second without trailing zeros."""
    text = pc.replace_substring(written(value.cast(pa.timestamp("us"))), " ", "T", max_replacements=1)
    return between('"', text, 'Z"' if value.type.tz else '"')


def _short_moments(value: pa.Array) -> pa.Array:
    text = formats.formatted(pa.string(), value, pa.scalar("yyyy-MM-dd'T'HH:mm:ss.SSS"))
    return between('"', text, 'Z"' if value.type.tz else '"')


def _quoted(texts: pa.Array) -> pa.Array:
    return by_distinct(quoted, pa.string(), texts)


def between(prefix: str, texts: pa.Array, suffix: str) -> pa.Array:
    """Returns texts with a prefix and a suffix."""
    return pc.binary_join_element_wise(prefix, texts, suffix, "")


def _joined(sizes: np.ndarray, texts: pa.Array) -> pa.Array:
    lists = listed(sizes, texts, pa.list_(pa.string()), np.ones(len(sizes), bool))
    return pc.binary_join(lists, ",")


_STRICT = "Text that is not strict JSON (with single quotes, for example) is NULL, or a struct of NULLs."
TABLE = (
    function(
        "from_json",
        "string =string",
        _schema,
        lambda type_, value, schema: by_distinct(partial(_parsed, type_=type_of_arrow(type_)), type_, value),
        note="The second argument is a type, or columns: `'a INT, b ARRAY<STRING>'`. A value that does not fit is "
        f"NULL, as in Spark's mode PERMISSIVE: a field of a struct, or a whole map or array. {_STRICT}",
    ),
    function("write_json", "any", any_value, writer(Style(True, _moments, _numbers)),
             note="Any value as JSON, as TO_JSON of PostgreSQL, DuckDB and BigQuery writes it: a NULL inside it is "
                  "null.", internal=True),
    function("to_json", "any", _writable, writer(Style(False, _short_moments, _numbers)),
             note="NULL fields are left out. Timestamps have milliseconds."),
)  # fmt: skip
