"""HASH and XXHASH64: Spark's hashes of several values, of which each begins with the hash of those before it.

Numbers and times are hashed column by column, texts, bytes and wide decimals once per distinct value.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from plans.errors import PlanError
from plans.expressions.arrays import float_words, on_arrays, validity, words
from plans.expressions.functions.distinct import by_distinct, each
from plans.expressions.functions.function import function
from plans.nested import is_nested
from plans.types import ONE_WORD_DIGITS

_SEED = 42
_ALL32, _ALL64 = 2**32 - 1, 2**64 - 1
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _left(value: Any, by: int, width: int) -> Any:
    """Returns words whose bits are moved round to the left."""
    if isinstance(value, int):
        return (value << by | value >> (width - by)) & (2**width - 1)
    return value << value.dtype.type(by) | value >> value.dtype.type(width - by)


class _Murmur:
    """MurmurHash3 of 32 bits, as Spark has it: of the bytes behind the last whole word, each is a word."""

    word, result = np.uint32, np.int32

    @staticmethod
    def _mixed(state: Any, word: Any) -> Any:
        whole = _ALL32
        word = _left(word * _C1 & whole, 15, 32) * _C2 & whole
        return (_left(state ^ word, 13, 32) * 5 + 0xE6546B64) & whole

    @staticmethod
    def _end(state: Any, size: int) -> Any:
        state = state ^ size
        for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            state = (state ^ state >> by) * factor & _ALL32
        return state ^ state >> 16

    @classmethod
    def halves(cls, value: np.ndarray, seed: np.ndarray, width: int) -> np.ndarray:
        """Returns the hashes of numbers of 32 or 64 bits; `value` is uint64[n]."""
        state = seed.astype(np.uint64)
        for part in range(width // 32):
            state = cls._mixed(state, value >> np.uint64(32 * part) & np.uint64(_ALL32))
        return np.asarray(cls._end(state, width // 8))

    @classmethod
    def of_bytes(cls, data: bytes, seed: int) -> int:
        """Returns the hash of bytes."""
        whole = len(data) // 4 * 4
        parts = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
        parts += [byte - 256 * (byte > 127) & _ALL32 for byte in data[whole:]]
        state = seed & _ALL32
        for part in parts:
            state = cls._mixed(state, part)
        return int(cls._end(state, len(data)))


class _XX:
    """XXH64."""

    word, result = np.uint64, np.int64

    @staticmethod
    def _end(state: Any) -> Any:
        for by, factor in ((33, _P2), (29, _P3)):
            state = (state ^ state >> by) * factor & _ALL64
        return state ^ state >> 32

    @classmethod
    def halves(cls, value: np.ndarray, seed: np.ndarray, width: int) -> np.ndarray:
        """Returns the hashes of numbers of 32 or 64 bits; `value` is uint64[n]."""
        p1, p2, p3, p4, p5 = (np.uint64(one) for one in (_P1, _P2, _P3, _P4, _P5))
        state = seed + p5 + np.uint64(width // 8)
        if width == 32:
            state = _left(state ^ value * p1, 23, 64) * p2 + p3
        else:
            state = _left(state ^ _left(value * p2, 31, 64) * p1, 27, 64) * p1 + p4
        for by, factor in ((33, p2), (29, p3)):
            state = (state ^ state >> np.uint64(by)) * factor
        return np.asarray(state ^ state >> np.uint64(32))

    @classmethod
    def of_bytes(cls, data: bytes, seed: int) -> int:
        """Returns the hash of bytes."""
        seed, size, at = seed & _ALL64, len(data), 0
        state = (seed + _P5) & _ALL64
        if size >= 32:
            lanes = [(seed + _P1 + _P2) & _ALL64, (seed + _P2) & _ALL64, seed, (seed - _P1) & _ALL64]
            while at + 32 <= size:
                for i in range(4):
                    word = int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little")
                    lanes[i] = cls._round(lanes[i], word)
                at += 32
            state = sum(_left(lane, by, 64) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL64
            for lane in lanes:
                state = ((state ^ cls._round(0, lane)) * _P1 + _P4) & _ALL64
        state = (state + size) & _ALL64
        while at + 8 <= size:
            word = int.from_bytes(data[at : at + 8], "little")
            state = (_left(state ^ cls._round(0, word), 27, 64) * _P1 + _P4) & _ALL64
            at += 8
        if at + 4 <= size:
            word = int.from_bytes(data[at : at + 4], "little")
            state = (_left(state ^ word * _P1 & _ALL64, 23, 64) * _P2 + _P3) & _ALL64
            at += 4
        for byte in data[at:]:
            state = _left(state ^ byte * _P5 & _ALL64, 11, 64) * _P1 & _ALL64
        return int(cls._end(state))

    @staticmethod
    def _round(lane: int, word: int) -> int:
        return _left((lane + word * _P2) & _ALL64, 31, 64) * _P1 & _ALL64


def _hash(kind: type[_Murmur] | type[_XX]) -> Callable[..., Any]:
    def tell(type_: pa.DataType, *values: pa.Array) -> pa.Array:
        state = np.full(len(values[0]), _SEED, kind.word)
        with np.errstate(over="ignore"):
            for value in values:
                if pa.types.is_null(value.type):
                    continue
                state = np.where(validity(value), _hashed(kind, value, state), state)
        return pa.array(state.view(kind.result), type_)

    return lambda type_, *values: on_arrays(lambda *arrays: tell(type_, *arrays), *values)


def _hashed(kind: type[_Murmur] | type[_XX], value: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Returns the hashes of values, of which each begins with a `seed`; anything where there is NULL."""
    type_ = value.type
    if pa.types.is_decimal(type_):
        if type_.precision <= ONE_WORD_DIGITS:
            return _words(kind, words(value, np.int64, 2).reshape(-1, 2)[:, 0].copy(), seed, 64)
        value = by_distinct(_digits, pa.binary(), value)
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        data = value if pa.types.is_binary(value.type) else value.view(pa.binary())
        begin = pa.array(seed.view(kind.result))
        signed = pa.int32() if kind is _Murmur else pa.int64()
        found = by_distinct(lambda one, first: _signed(kind.of_bytes(one, first), kind), signed, data, begin)
        return words(found, kind.result).view(kind.word)
    if pa.types.is_floating(type_):
        return _words(kind, float_words(words(value, np.float64)), seed, 64)
    if pa.types.is_boolean(type_):
        return _words(kind, words(value.cast(pa.int32()), np.int32), seed, 32)
    width = type_.bit_width
    return _words(kind, words(value, np.int32 if width == 32 else np.int64), seed, width)


def _words(kind: type[_Murmur] | type[_XX], value: np.ndarray, seed: np.ndarray, width: int) -> np.ndarray:
    unsigned = value.view(np.uint32 if width == 32 else np.uint64).astype(np.uint64)
    return kind.halves(unsigned, seed, width).astype(kind.word)


def _signed(value: int, kind: type[_Murmur] | type[_XX]) -> int:
    half = 2 ** (31 if kind is _Murmur else 63)
    return value - 2 * half if value >= half else value


def _digits(value: Any) -> bytes:
    """Returns the digits of a decimal as the bytes of Java's BigInteger."""
    sign, figures, _ = value.as_tuple()
    number = int("".join(map(str, figures)))
    number = -number if sign else number
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _plain(name: str, gives: str) -> Callable[..., str]:
    def check(types: Sequence[str], values: Sequence[Any]) -> str:
        nested = next((one for one in types if is_nested(one)), None)
        if nested is not None:
            raise PlanError(f"{name} of a value of type {nested} is not supported", hint="hash its parts, or TO_JSON")
        return gives

    return check


_ALGORITHMS = {
    "SHA-224": "sha224", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512", "SHA-1": "sha1", "MD5": "md5",
}  # fmt: skip


def _authenticated(key: bytes, message: bytes, name: str = "SHA-256") -> bytes | None:
    method = _ALGORITHMS.get(name.upper())
    return None if method is None or not key else hmac.digest(key, message, method)


TABLE = (
    function("hash", "any ...", _plain("HASH", "int32"), _hash(_Murmur), note="Spark's MurmurHash3; skips NULLs."),
    function("xxhash64", "any ...", _plain("XXHASH64", "int64"), _hash(_XX), note="It skips NULLs."),
    function(
        "hmac", "binary binary [=string]", "binary", each(_authenticated), null="an empty key, another algorithm",
        note="By SHA-256; SHA-224, SHA-384, SHA-512, SHA-1 and MD5 are the others.",
    ),
)  # fmt: skip
