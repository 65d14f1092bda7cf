"""HASH and XXHASH64: Spark's hashes of several values, in which the hash of a value is the seed of the next one.

Columns are hashed as a whole; only texts of more than `_SHORT` bytes are hashed once per distinct value.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns.arrays import float_words, null, validity, words
from plans.expressions.columns.characters import bytes_of
from plans.expressions.functions.distinct import by_distinct, each
from plans.expressions.functions.function import arrays, function
from plans.nested import is_nested
from plans.types import ONE_WORD_DIGITS

_SEED = 42
_SHORT = 128  # bytes
_ALL32, _ALL64 = 2**32 - 1, 2**64 - 1
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _rotated_left(value: Any, count: int, width: int) -> Any:
    """Returns words whose bits are rotated to the left."""
    if isinstance(value, int):
        return (value << count | value >> (width - count)) & (2**width - 1)
    return value << value.dtype.type(count) | value >> value.dtype.type(width - count)


class _Rows:
    """The bytes of short texts: `sizes` int64[n], and a row of `width` bytes for each, of which the others are any."""

    def __init__(self, texts: pa.Array) -> None:
        starts, data = bytes_of(texts)
        self.sizes = np.diff(starts, append=len(data)).astype(np.int64)
        self.width = int(self.sizes.max(initial=1) + 31) // 32 * 32
        places = starts[:, None] + np.arange(self.width)
        self._bytes = data[np.minimum(places, len(data) - 1)] if len(data) else np.zeros(places.shape, np.uint8)
        self._rows = np.arange(len(texts))

    def words(self, place: Any, count: int) -> np.ndarray:
        """Returns the words of `count` bytes of all rows at a place, or at one place per row."""
        found = self._bytes.view(f"<u{count}")
        return found[self._rows, np.minimum(place, found.shape[1] - 1)].astype(np.uint64)


class _Murmur:
    """MurmurHash3 of 32 bits, with Spark's variant: each byte after the last whole word is hashed as a word."""

    word, result = np.uint32, np.int32

    @staticmethod
    def _mixed(state: Any, word: Any) -> Any:
        whole = _ALL32
        word = _rotated_left(word * _C1 & whole, 15, 32) * _C2 & whole
        return (_rotated_left(state ^ word, 13, 32) * 5 + 0xE6546B64) & whole

    @staticmethod
    def _end(state: Any, size: Any) -> Any:
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
    def of_rows(cls, rows: _Rows, seed: np.ndarray) -> np.ndarray:
        """Returns the hashes of the bytes of each row."""
        state, whole = seed.astype(np.uint64), rows.sizes // 4
        for i in range(rows.width // 4):
            state = np.where(i < whole, cls._mixed(state, rows.words(i, 4)), state)
        for i in range(3):
            at = 4 * whole + i
            byte = rows.words(at, 1)
            byte = np.where(byte > 127, byte + np.uint64(_ALL32 - 255), byte)
            state = np.where(at < rows.sizes, cls._mixed(state, byte), state)
        return np.asarray(cls._end(state, rows.sizes.astype(np.uint64)))

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
            state = _rotated_left(state ^ value * p1, 23, 64) * p2 + p3
        else:
            state = _rotated_left(state ^ _rotated_left(value * p2, 31, 64) * p1, 27, 64) * p1 + p4
        for by, factor in ((33, p2), (29, p3)):
            state = (state ^ state >> np.uint64(by)) * factor
        return np.asarray(state ^ state >> np.uint64(32))

    @classmethod
    def of_rows(cls, rows: _Rows, seed: np.ndarray) -> np.ndarray:
        """Returns the hashes of the bytes of each row."""
        p1, p2, p3, p4, p5 = (np.uint64(one) for one in (_P1, _P2, _P3, _P4, _P5))
        lanes = [seed + p1 + p2, seed + p2, seed, seed - p1]
        for i in range(rows.width // 32):
            there = 32 * i + 32 <= rows.sizes
            for k in range(4):
                lanes[k] = np.where(there, cls._round(lanes[k], rows.words(4 * i + k, 8)), lanes[k])
        state = sum(_rotated_left(lane, by, 64) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            state = (state ^ cls._round(np.uint64(0), lane)) * p1 + p4
        state = np.where(rows.sizes < 32, seed + p5, state) + rows.sizes.astype(np.uint64)
        at = rows.sizes // 32 * 32
        for _ in range(3):
            found = _rotated_left(state ^ cls._round(np.uint64(0), rows.words(at // 8, 8)), 27, 64) * p1 + p4
            state, at = np.where(at + 8 <= rows.sizes, found, state), np.where(at + 8 <= rows.sizes, at + 8, at)
        found = _rotated_left(state ^ rows.words(at // 4, 4) * p1, 23, 64) * p2 + p3
        state, at = np.where(at + 4 <= rows.sizes, found, state), np.where(at + 4 <= rows.sizes, at + 4, at)
        for i in range(3):
            found = _rotated_left(state ^ rows.words(at + i, 1) * p5, 11, 64) * p1
            state = np.where(at + i < rows.sizes, found, state)
        return np.asarray(cls._end(state))

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
            state = sum(_rotated_left(lane, by, 64) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL64
            for lane in lanes:
                state = ((state ^ cls._round(0, lane)) * _P1 + _P4) & _ALL64
        state = (state + size) & _ALL64
        while at + 8 <= size:
            word = int.from_bytes(data[at : at + 8], "little")
            state = (_rotated_left(state ^ cls._round(0, word), 27, 64) * _P1 + _P4) & _ALL64
            at += 8
        if at + 4 <= size:
            word = int.from_bytes(data[at : at + 4], "little")
            state = (_rotated_left(state ^ word * _P1 & _ALL64, 23, 64) * _P2 + _P3) & _ALL64
            at += 4
        for byte in data[at:]:
            state = _rotated_left(state ^ byte * _P5 & _ALL64, 11, 64) * _P1 & _ALL64
        return int(cls._end(state))

    @staticmethod
    def _round(lane: Any, word: Any) -> Any:
        return _rotated_left((lane + word * _P2) & _ALL64, 31, 64) * _P1 & _ALL64


class _Farm:
    """Fingerprint64 of FarmHash."""

    @staticmethod
    def of_bytes(data: bytes) -> int:
        """Returns the hash of bytes."""
        size = len(data)
        if size <= 16:
            return _Farm._short(data)
        if size <= 64:
            return _Farm._middle(data)
        return _Farm._long(data)

    @staticmethod
    def _word(data: bytes, offset: int, width: int = 8) -> int:
        return int.from_bytes(data[offset : offset + width], "little")

    @staticmethod
    def _right(value: int, count: int) -> int:
        return _rotated_left(value & _ALL64, 64 - count, 64)

    @staticmethod
    def _folded(left: int, right: int, factor: int) -> int:
        one = ((left ^ right) & _ALL64) * factor & _ALL64
        two = ((right & _ALL64) ^ one ^ one >> 47) * factor & _ALL64
        return (two ^ two >> 47) * factor & _ALL64

    @classmethod
    def _short(cls, data: bytes) -> int:
        size = len(data)
        factor = (_F2 + size * 2) & _ALL64
        if size >= 8:
            first, last = (cls._word(data, 0) + _F2) & _ALL64, cls._word(data, size - 8)
            one, two = cls._right(last, 37) * factor + first, (cls._right(first, 25) + last) * factor
            return cls._folded(one & _ALL64, two & _ALL64, factor)
        if size >= 4:
            return cls._folded(size + (cls._word(data, 0, 4) << 3), cls._word(data, size - 4, 4), factor)
        if not size:
            return _F2
        one, two = data[0] + (data[size // 2] << 8), size + (data[-1] << 2)
        found = (one * _F2 ^ two * _F0) & _ALL64
        return (found ^ found >> 47) * _F2 & _ALL64

    @classmethod
    def _middle(cls, data: bytes) -> int:
        size, right, word = len(data), cls._right, cls._word
        factor = (_F2 + size * 2) & _ALL64
        a, b = word(data, 0) * (_F1 if size <= 32 else _F2) & _ALL64, word(data, 8)
        c, d = word(data, size - 8) * factor & _ALL64, word(data, size - 16) * _F2 & _ALL64
        y, z = (right(a + b, 43) + right(c, 30) + d) & _ALL64, (a + right(b + _F2, 18) + c) & _ALL64
        if size <= 32:
            return cls._folded(y, z, factor)
        z = cls._folded(y, z, factor)
        e, f = word(data, 16) * factor & _ALL64, word(data, 24)
        g, h = (y + word(data, size - 32)) * factor & _ALL64, (z + word(data, size - 24)) * factor & _ALL64
        return cls._folded(right(e + f, 43) + right(g, 30) + h & _ALL64, e + right(f + a, 18) + g & _ALL64, factor)

    @classmethod
    def _weak(cls, data: bytes, offset: int, a: int, b: int) -> tuple[int, int]:
        w, x, y, z = (cls._word(data, offset + 8 * i) for i in range(4))
        a = (a + w) & _ALL64
        b = cls._right(b + a + z, 21)
        c, a = a, (a + x + y) & _ALL64
        b = (b + cls._right(a, 44)) & _ALL64
        return (a + z) & _ALL64, (b + c) & _ALL64

    @classmethod
    def _long(cls, data: bytes) -> int:
        size, right, word = len(data), cls._right, cls._word
        x, y = 81, (81 * _F1 + 113) & _ALL64
        z = (y * _F2 + 113) & _ALL64
        z = (z ^ z >> 47) * _F2 & _ALL64
        v, w = (0, 0), (0, 0)
        x = (x * _F2 + word(data, 0)) & _ALL64
        last = size - 64
        for at in (*range(0, (size - 1) // 64 * 64, 64), last):
            final = at == last
            factor = (_F1 + ((z & 0xFF) << 1)) & _ALL64 if final else _F1
            if final:
                first = (w[0] + (size - 1 & 63)) & _ALL64
                v = (v[0] + first) & _ALL64, v[1]
                w = (first + v[0]) & _ALL64, w[1]
            x = right(x + y + v[0] + word(data, at + 8), 37) * factor & _ALL64
            y = right(y + v[1] + word(data, at + 48), 42) * factor & _ALL64
            x ^= w[1] * 9 & _ALL64 if final else w[1]
            y = (y + v[0] * (9 if final else 1) + word(data, at + 40)) & _ALL64
            z = right(z + w[0], 33) * factor & _ALL64
            v = cls._weak(data, at, v[1] * factor & _ALL64, (x + w[0]) & _ALL64)
            w = cls._weak(data, at + 32, (z + w[1]) & _ALL64, (y + word(data, at + 16)) & _ALL64)
            z, x = x, z
        one = (cls._folded(v[0], w[0], factor) + (y ^ y >> 47) * _F0 + z) & _ALL64
        return cls._folded(one, (cls._folded(v[1], w[1], factor) + x) & _ALL64, factor)


_F0, _F1, _F2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _fingerprint(data: str | bytes) -> int:
    return _signed(_Farm.of_bytes(data.encode() if isinstance(data, str) else data), _XX)


def _hash(kind: type[_Murmur] | type[_XX]) -> Callable[..., Any]:
    def compute(type_: pa.DataType, *values: pa.Array) -> pa.Array:
        state = np.full(len(values[0]), _SEED, kind.word)
        with np.errstate(over="ignore"):
            for value in values:
                if pa.types.is_null(value.type):
                    continue
                state = np.where(validity(value), _hashed(kind, value, state), state)
        return pa.array(state.view(kind.result), type_)

    return arrays(compute)


def _hashed(kind: type[_Murmur] | type[_XX], value: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Returns the hashes of values, each with a `seed`. The result for NULL is arbitrary."""
    type_ = value.type
    if pa.types.is_decimal(type_):
        if type_.precision <= ONE_WORD_DIGITS:
            return _words(kind, words(value, np.int64, 2).reshape(-1, 2)[:, 0].copy(), seed, 64)
        value = by_distinct(_digits, pa.binary(), value)
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        return _of_texts(kind, value.view(pa.binary()), seed)
    if pa.types.is_floating(type_):
        return _words(kind, float_words(words(value, np.float64)), seed, 64)
    if pa.types.is_boolean(type_):
        return _words(kind, words(value.cast(pa.int32()), np.int32), seed, 32)
    width = type_.bit_width
    return _words(kind, words(value, np.int32 if width == 32 else np.int64), seed, width)


def _of_texts(kind: type[_Murmur] | type[_XX], value: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Returns the hashes of bytes."""
    short = pc.fill_null(pc.less_equal(pc.binary_length(value), _SHORT), True)
    quick = kind.of_rows(_Rows(pc.if_else(short, value, b"")), seed).astype(kind.word)
    if pc.all(short).as_py() or not len(value):
        return quick
    begin = pa.array(seed.view(kind.result))
    signed = pa.int32() if kind is _Murmur else pa.int64()
    long = pc.if_else(short, null(value.type), value)
    found = by_distinct(lambda one, first: _signed(kind.of_bytes(one, first), kind), signed, long, begin)
    return np.where(validity(long), words(found, kind.result).view(kind.word), quick)


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
    function("hash", "any ...", _plain("HASH", "int32"), _hash(_Murmur),
             note="Spark's MurmurHash3. NULLs are skipped."),
    function("xxhash64", "any ...", _plain("XXHASH64", "int64"), _hash(_XX), note="NULLs are skipped."),
    function("farm_fingerprint", "bytes", "int64", each(_fingerprint),
             note="BigQuery's function: Fingerprint64 of FarmHash."),
    function("hmac", "binary binary [=string]", "binary", each(_authenticated), null="an empty key; another algorithm",
             note="The algorithm is SHA-256 by default, or SHA-224, SHA-384, SHA-512, SHA-1 or MD5."),
)  # fmt: skip
