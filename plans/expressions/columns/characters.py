"""Functions of characters on whole string columns: case, length, parts, patterns.

Arrow does not check the bytes of a string column. A value that is not UTF-8 has no characters, so these functions
return NULL for it. It still equals itself, and can be joined and concatenated byte by byte.

Case is that of Unicode, without a language, as in Spark: 'ß' in upper case is 'SS', and a sigma at the end of a word is
'ς' in lower case. Arrow maps one character to one character, so the other characters are replaced first, if they occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.arrays import on_arrays

_GROW_IN_UPPER = (
    *(0xDF, 0x149, 0x1F0, 0x390, 0x3B0, 0x587),
    *range(0x1E96, 0x1E9B),
    *range(0x1F50, 0x1FFD),
    *range(0xFB00, 0xFB18),
)
_UPPER = {c: c.upper() for c in map(chr, _GROW_IN_UPPER) if len(c.upper()) > 1}
_LOWER = {"İ": "i̇"}
# Σ after a letter and not before a letter; apostrophes, full stops, accents and the like are skipped.
_LETTER = r"\p{Lu}\p{Ll}\p{Lt}ªºⅠ-ⅿⓐ-ⓩⒶ-Ⓩ🄰-🅉🅐-🅩🅰-🆉"
_BETWEEN = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’‘․·՟״‧︓﹒﹕＇．："
_LAST_SIGMA = rf"([{_LETTER}][{_BETWEEN}]*)Σ([{_BETWEEN}]*)(\z|[^{_LETTER}{_BETWEEN}])"
_UTF8 = (
    r"\A(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}"
    r"|\xED[\x80-\x9F][\x80-\xBF]|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*\z"
)


def upper(value: Any) -> Any:
    """Returns strings in upper case."""
    return on_arrays(_upper, value)


def lower(value: Any) -> Any:
    """Returns strings in lower case."""
    return on_arrays(_lower, value)


def length(value: Any) -> Any:
    """Returns the number of characters, as int32."""
    return pc.utf8_length(readable(value))


def substring(value: Any, start: int, count: int | None) -> Any:
    """Returns at most `count` characters from position `start`, which counts from 1, or all following characters if
    `count` is None."""
    return pc.utf8_slice_codeunits(readable(value), start - 1, None if count is None else start - 1 + count)


def like(value: Any, pattern: str, escape: str | None) -> Any:
    """Returns whether strings match a pattern of LIKE."""
    return pc.match_substring_regex(readable(value), like_regex(pattern, escape))


def like_regex(pattern: str, escape: str | None) -> str:
    """Returns the regular expression (RE2) of a LIKE pattern. Raises ValueError if Spark rejects the escape."""
    out, index = [], 0
    while index < len(pattern):
        mark = pattern[index]
        if mark == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                raise ValueError(pattern)
            out.append(re.escape(pattern[index]))
        elif mark != "%":
            out.append("." if mark == "_" else re.escape(mark))
        elif out[-1:] != [".*"]:
            out.append(".*")
        index += 1
    return r"(?s)\A" + "".join(out) + r"\z"


def readable(value: Any) -> Any:
    """Returns the strings, NULL where the bytes are not UTF-8."""
    return value if isinstance(value, pa.Scalar) else _valid(value)[0]


def _valid(value: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Returns the strings, with NULL for those that are not UTF-8, and their bytes; no bytes if all are ASCII."""
    starts, data = bytes_of(value)
    if not len(data) or data.max() < 0x80:
        return value, data[:0]
    whole = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)], 0
    )
    try:
        whole.validate(full=True)
        inside = starts[starts < len(data)]
        if not ((data[inside] & 0xC0) == 0x80).any():
            return value, data
    except pa.ArrowInvalid:
        pass
    good = pc.match_substring_regex(value.view(pa.binary()), _UTF8)
    return pc.if_else(good, value, pa.scalar(None, pa.string())), data


def bytes_of(value: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the start of each string in the concatenated bytes, and these bytes."""
    if not len(value):
        return np.empty(0, np.int32), np.empty(0, np.uint8)
    _, offsets, data = value.buffers()
    bounds = np.frombuffer(offsets, np.int32)[value.offset : value.offset + len(value) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    return bounds[:-1] - first, np.frombuffer(data or b"", np.uint8)[first:last]


def _upper(value: pa.Array) -> pa.Array:
    value, data = _valid(value)
    if not len(data):
        return pc.ascii_upper(value)
    return pc.utf8_upper(_replaced(value, data, _UPPER))


def _lower(value: pa.Array) -> pa.Array:
    value, data = _valid(value)
    if not len(data):
        return pc.ascii_lower(value)
    if _occurring(data, ["Σ"]):
        value = pc.replace_substring_regex(value, _LAST_SIGMA, r"\1ς\2\3")
    return pc.utf8_lower(_replaced(value, data, _LOWER))


def _replaced(value: pa.Array, data: np.ndarray, texts: dict[str, str]) -> pa.Array:
    for character in _occurring(data, texts):
        value = pc.replace_substring(value, character, texts[character])
    return value


def _occurring(data: np.ndarray, characters: Iterable[str]) -> list[str]:
    """Returns those of the non-ASCII characters whose first two bytes occur in the data."""
    pairs = np.zeros(1 << 16, bool)
    pairs[(data[:-1].astype(np.uint16) << 8) | data[1:]] = True
    return [c for c in characters if pairs[int.from_bytes(c.encode()[:2])]]
