"""Texts in other formats: numbers with commas, PRINTF, masks, quotes, base 32, and the top level of JSON."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns.characters import readable
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function
from plans.expressions.functions.nested.jsonpath import members

_EXACT = Context(prec=1_200)
_MOST_PLACES = 340  # a DOUBLE has no more


def _with_commas(value: Any, places: int) -> str | None:
    """Returns a number with thousands separators, rounded half even to a number of decimal places."""
    if places < 0:
        return None
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return "NaN" if value != value else "∞" if value > 0 else "-∞"
        short = Decimal(repr(value))
        exponent = short.as_tuple().exponent
        value = short if isinstance(exponent, int) and -exponent <= places else Decimal(value)
    unit = Decimal(1).scaleb(-min(places, _MOST_PLACES), _EXACT)
    found = Decimal(value).quantize(unit, ROUND_HALF_EVEN, _EXACT)
    return f"{found:,f}"


def _places(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None and values[1] > _MOST_PLACES:
        raise PlanError(f"FORMAT_NUMBER writes at most {_MOST_PLACES} places, not {values[1]}")
    return "string"


SPEC = re.compile(r"%([-0+,]*)(\d{0,4})(?:\.(\d{1,3}))?([sdfxXo])")
"""The format specifiers that FORMAT_STRING supports, besides plain text, `%%` and `%n`."""


def _piece(types: Sequence[str], values: Sequence[Any]) -> str:
    spec = SPEC.fullmatch(values[0] or "")
    if spec is None:
        raise PlanError(f"FORMAT_STRING does not know {values[0]!r}", hint="use %s, %d, %f, %x or %o")
    kind, type_ = spec[4], types[1]
    fits = {
        "s": type_ in ("string", "int32", "int64"),
        "f": type_ == "float64",
    }.get(kind, type_ in ("int32", "int64"))
    if not fits:
        raise PlanError(f"FORMAT_STRING: {values[0]} does not take a value of type {type_}", hint="use CAST")
    bad = (kind == "d" and spec[3]) or (kind in "xXos" and set(spec[1]) & set(",+")) or (kind == "s" and "0" in spec[1])
    if bad or (kind in "xXos" and spec[3]) or ({"-", "0"} & set(spec[1]) and not spec[2]) or {"-", "0"} <= set(spec[1]):
        raise PlanError(f"FORMAT_STRING does not take {values[0]!r}", hint="places are of %f alone")
    return "string"


def _formatted(spec: str, value: Any, type_: str = "") -> str:
    found = SPEC.fullmatch(spec)
    assert found is not None, "it is checked when the query is planned"
    flags, width, places, kind = found[1], int(found[2] or 0), found[3], found[4]
    if kind == "s":
        text = str(value)
    elif kind in "xXo":
        text = f"{value % 2 ** (32 if type_ == 'int32' else 64):{kind}}"
    elif isinstance(value, float) and (value != value or abs(value) == float("inf")):
        text, flags = ("NaN" if value != value else "Infinity" if value > 0 else "-Infinity"), flags.replace("0", "")
        text = "+" + text if "+" in flags and value > 0 else text
    else:
        if kind == "f":
            exact = Decimal(repr(value))
            unit = Decimal(1).scaleb(-int(places or 6), _EXACT) if places != "0" else Decimal(1)
            value = exact.quantize(unit, ROUND_HALF_UP, _EXACT)
        text = f"{value:{'+' if '+' in flags else ''}{',' if ',' in flags else ''}{'f' if kind == 'f' else 'd'}}"
    if "0" in flags and len(text) < width:
        sign = text[:1] if text[:1] in "+-" else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    missing = " " * (width - len(text.encode("utf-16-le")) // 2)  # as Java counts
    return text + missing if "-" in flags else missing + text


def _piece_of(type_: pa.DataType, spec: Any, value: Any) -> Any:
    kind = "int32" if value.type == pa.int32() else ""
    return each(lambda one, given: _formatted(one, given, kind))(type_, spec, value)


_KINDS = {"Lu": 0, "Ll": 1, "Nd": 2}


def _signs(types: Sequence[str], values: Sequence[Any]) -> str:
    for sign in values[1:]:
        if sign is not None and len(sign) > 1:
            raise PlanError(f"MASK takes single characters, not {sign!r}")
    return "string"


def _masked(type_: pa.DataType, text: Any, *signs: Any) -> Any:
    given = [one.as_py() for one in signs]
    wanted = [*given, *("X", "x", "n", None)[len(given) :]]
    return each(lambda value: "".join(wanted[_KINDS.get(unicodedata.category(c), 3)] or c for c in value))(type_, text)


_NONE = "''"
"""Represents no character."""


def _of_base32(text: str) -> bytes | None:
    try:
        return base64.b32decode(text)
    except (binascii.Error, ValueError):
        return None


def _length(text: str) -> int | None:
    found = _said(text)
    return len(found) if isinstance(found, list) else None


def _keys(text: str) -> list[str] | None:
    found = _said(text)
    return [name for name, _ in found] if isinstance(found, tuple) else None


def _said(text: str) -> Any:
    try:
        return members(text)
    except ValueError:
        return None


def _well_formed(type_: pa.DataType, value: Any) -> Any:
    return pc.if_else(pc.is_valid(value), pc.is_valid(readable(value)), pa.scalar(None, type_))


TABLE = (
    function("format_number", "number =int32", _places, each(_with_commas), null="a negative number of digits",
             note="`12,332.1235`; ties are rounded to the even digit."),
    function("format_piece", "=string any", _piece, _piece_of, hidden=True,
             sql=lambda a: f"FORMAT_STRING({a[0]}, {a[1]})"),
    function("masked", "string [=string] [=string] [=string] [=string]", _signs, _masked, hidden=True,
             sql=lambda a: f"MASK({', '.join(one if one != _NONE else 'NULL' for one in a)})"),
    function("quote", "string", "string", each(lambda text: "'" + text.replace("'", "\\'") + "'")),
    function("to_base32", "binary", "string", each(lambda data: base64.b32encode(data).decode())),
    function("from_base32", "string", "binary", each(_of_base32), null="text that is not in base 32"),
    function("json_array_length", "string", "int32", each(_length), also=("jsonb_array_length",),
             note="NULL for JSON that is not an array."),
    function("json_object_keys", "string", lambda types, values: "array<string>", each(_keys),
             note="NULL for JSON that is not an object."),
    function("is_valid_utf8", "string", "bool", _well_formed),
    function("make_valid_utf8", "binary", "string", each(lambda data: data.decode("utf-8", "replace"))),
)  # fmt: skip
