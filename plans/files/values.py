"""Parses values in text form, and infers the type of a column of texts.

`parsed` parses a text as a value of a type, `kind_of` infers the type of a column of texts. They are consistent: a
column has a type only if `parsed` parses all of its values. Inference keeps texts distinct that differ in more than the
notation of a number: `007` is a text, and `12345678901234567890` is a decimal, not the nearest double.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.intervals import is_interval, read
from plans.nested import is_nested
from plans.types import arrow_type, why_untyped

SMALL = "int53"
"""int64 whose values fit a double exactly: such a column is float64 if combined with one of float64."""
_BIG = "decimal(38,0)"
_EXACT = 2**53
_DIGITS = 38

_BOOL = r"(?i)^(true|false)$"
_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"(?i)^-?((0|[1-9][0-9]*)(\.[0-9]*)?(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|nan|inf|infinity)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_TIME = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_CLOCK})?$"
_INSTANT = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$"
_NO_ZONE = r"^[0-9-]+([ T][0-9:.]*)?$"
_TIMES = ((_DATE, "date"), (_TIME, "timestamp_ntz"), (_INSTANT, "timestamp"))
_FEW = 100


def parsed(texts: Any, target: pa.DataType) -> Any:
    """Returns the values of texts, an array or a chunked one. Raises pa.ArrowInvalid if one is not a value of the type.

    Blanks around a number are ignored. A number is decimal and exact: neither `0x1F` nor an infinity for `1e400` is
    accepted. A time without a zone is read as UTC if the type is an instant. O(n).
    """
    if pa.types.is_string_view(texts.type):
        texts = texts.cast(pa.string())
    if is_interval(target):
        return _lengths(texts, target)
    if pa.types.is_integer(target) and pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("a number in another base")
    cast = _instants if pa.types.is_timestamp(target) and target.tz else _cast
    try:
        out = cast(texts, target)
    except pa.ArrowInvalid:
        if pa.types.is_binary(target) or pa.types.is_string(target):
            raise
        out = cast(pc.utf8_trim_whitespace(texts), target)
    if pa.types.is_floating(target):
        infinite = pc.fill_null(pc.is_inf(out), False)
        if (
            pc.any(infinite).as_py()
            and not pc.all(pc.match_substring(texts.filter(infinite), "inf", ignore_case=True)).as_py()
        ):
            raise pa.ArrowInvalid("a number beyond the range of doubles")
    return out


def _cast(texts: Any, target: pa.DataType) -> Any:
    return texts.cast(target, safe=True)


def _instants(texts: Any, target: pa.DataType) -> Any:
    plain = pc.fill_null(pc.match_substring_regex(texts, _NO_ZONE), False)
    if not pc.any(plain).as_py():
        return _cast(texts, target)
    nothing = pa.scalar(None, texts.type)
    wall = _cast(pc.if_else(plain, texts, nothing), pa.timestamp(target.unit)).cast(target)
    return pc.coalesce(wall, _cast(pc.if_else(plain, nothing, texts), target))


def _lengths(texts: Any, target: pa.DataType) -> Any:
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([_lengths(chunk, target) for chunk in texts.chunks], target)
    found = read(texts.cast(pa.string()), target)
    if found.null_count > texts.null_count:
        raise pa.ArrowInvalid(f"a text is not a value of type {target}")
    return found


def kind_of(texts: Any, times_only: bool = False) -> str | None:
    """Returns the type of a column of texts, an array or a chunked one; None if it has no values, ``SMALL`` for
    integers of at most 53 bits. `times_only`: only texts, dates and times are inferred. O(n)."""
    values = pc.utf8_trim_whitespace(texts.drop_null())
    if not len(values):
        return None
    few = values.slice(0, _FEW)
    candidates = [*(() if times_only else _NUMBERS), *((look, kind) for look, kind in _TIMES)]
    for look, kind in candidates:
        if _all(few, look) and _all(values, look):
            found = _numbers(values) if kind == "number" else kind
            return found if found in (SMALL, "int64") or fits(values, found) else "string"
    return "string"


_NUMBERS = ((_BOOL, "bool"), (_WHOLE, "number"), (_NUMBER, "number"))


def _all(values: Any, look: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, look)).as_py())


def fits(texts: Any, kind: str) -> bool:
    """Returns True if ``parsed`` parses all of these texts as values of a type, or if the type is nested or missing.
    O(n)."""
    if why_untyped(kind) is not None or is_nested(kind):
        return True
    try:
        parsed(texts, arrow_type(planned(kind)))
    except pa.ArrowInvalid:
        return False
    return True


def _numbers(values: Any) -> str:
    """Returns the type of texts that are all numbers."""
    is_whole = pc.match_substring_regex(values, _WHOLE)
    whole, others = values.filter(is_whole), values.filter(pc.invert(is_whole))
    kinds = [] if not len(whole) else [_whole_numbers(whole)]
    if len(others):
        counts = len(whole) or pc.any(pc.match_substring_regex(others, "[0-9]")).as_py()
        kinds.append("float64" if counts else "string")  # a column of nothing but `nan` is one of words
    return wider(*kinds) or "string"


def _whole_numbers(values: Any) -> str:
    try:
        extent = pc.min_max(values.cast(pa.int64()))
    except pa.ArrowInvalid:
        digits = pc.max(pc.utf8_length(pc.utf8_ltrim(values, "-"))).as_py()
        return _BIG if digits <= _DIGITS else "string"
    return whole_kind(extent["min"].as_py(), extent["max"].as_py())


def whole_kind(low: int, high: int) -> str:
    """Returns the type of integers between two bounds: int64, or ``SMALL`` if it holds them, else a decimal, or a text
    for larger numbers."""
    if low >= -_EXACT and high <= _EXACT:
        return SMALL
    if low > -(2**63) and high < 2**63:  # the least int64 is the code of NULL
        return "int64"
    return _BIG if low > -(10**_DIGITS) and high < 10**_DIGITS else "string"


_WIDER = {
    frozenset({SMALL, "int64"}): "int64",
    frozenset({SMALL, _BIG}): _BIG,
    frozenset({"int64", _BIG}): _BIG,
    frozenset({SMALL, "float64"}): "float64",
    frozenset({"date", "timestamp_ntz"}): "timestamp_ntz",
}


def wider(*kinds: str | None) -> str | None:
    """Returns the type of a column whose parts have these types, or None if no part has values."""
    return reduce(_wider, kinds, None)


def _wider(one: str | None, other: str | None) -> str | None:
    if one is None or other is None or one == other:
        return one if other is None else other
    return _WIDER.get(frozenset({one, other}), "string")


def planned(kind: str) -> str:
    """Returns the planner's type of a type that ``kind_of`` inferred."""
    return "int64" if kind == SMALL else kind
