"""Encodings of texts and bytes: character numbers, number bases, charsets, URLs, digests."""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.parse
import zlib
from collections.abc import Sequence
from typing import Any

from plans.errors import PlanError
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function

_SIZES = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALL = 2**64 - 1
_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16": "utf-16", "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le", "UTF-32": "utf-32-be",
}  # fmt: skip
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_URL = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(//([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_ILLEGAL = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"((?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


def _of_number(number: int) -> str:
    """Returns the character of a number modulo 256, or an empty text for a negative number."""
    return "" if number < 0 else chr(number & 0xFF)


def _hex(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex().upper()
    return f"{value & _ALL:X}" if isinstance(value, int) else value.encode().hex().upper()


def _unhex(text: str) -> bytes | None:
    digits = text if len(text) % 2 == 0 else f"0{text}"
    try:
        return bytes.fromhex(digits) if digits.isalnum() or not digits else None
    except ValueError:
        return None


def _unbase64(text: str) -> bytes | None:
    """Returns the bytes of a Base64 text. Like Java's MIME decoder, it skips characters outside of the alphabet."""
    data, mark, rest = text.encode().partition(b"=")
    plain = _NOT_BASE64.sub(b"", data)
    last = len(plain) % 4
    if last == 1 or (mark and (last == 0 or (last == 2 and rest[:1] != b"="))) or _NOT_BASE64.sub(b"", rest):
        return None
    return base64.b64decode(plain + b"=" * (-len(plain) % 4))


def _charset_type(name: str, type_: str) -> Any:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[1] is not None and values[1].upper() not in _CHARSETS:
            raise PlanError(
                f"{name} does not know the charset {values[1]!r}", hint="use one of " + ", ".join(_CHARSETS)
            )
        return type_

    return gives


def _encoded(text: str, charset: str) -> bytes | None:
    try:
        wanted = charset.upper()
        found = text.encode("utf-16-be" if wanted == "UTF-16" else _CHARSETS[wanted])
        return b"\xfe\xff" + found if wanted == "UTF-16" and found else found
    except UnicodeEncodeError:
        return None


def _decoded(data: bytes, charset: str) -> str | None:
    try:
        wanted = charset.upper()
        if wanted == "UTF-16" and data[:2] not in (b"\xfe\xff", b"\xff\xfe"):
            return data.decode("utf-16-be")
        return data.decode(_CHARSETS[wanted])
    except UnicodeDecodeError:
        return None


def _based(number: int, base: int) -> str:
    found = ""
    while True:
        number, digit = divmod(number, base)
        found = _DIGITS[digit] + found
        if not number:
            return found


def _conv(text: str, source: int, target: int) -> str | None:
    """Returns CONV: the digits up to the first invalid character, as an unsigned 64-bit number; signed for a negative
    base."""
    text = text.strip(" ")
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36 or not text:
        return None
    negative = text[0] == "-"
    number = 0
    for sign in text[negative:].upper():
        digit = _DIGITS.find(sign)
        if not 0 <= digit < source:
            break
        number = number * source + digit
    if number > _ALL:
        return None
    if negative and target > 0:
        number = number if number >= 2**63 else -number & _ALL
    if target < 0:
        signed = -number if negative and number < 2**63 else number - 2**64 if number >= 2**63 else number
        return ("-" if signed < 0 or (negative and not number) else "") + _based(abs(signed), -target)
    return _based(number, target)


def _quoted(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*-._").replace("~", "%7E")


def _unquoted(text: str) -> str | None:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    return urllib.parse.unquote_plus(text, errors="replace")


def _url_part(url: str, part: str, key: str | None = None) -> str | None:
    if _ILLEGAL.search(url):
        return None
    found = _URL.fullmatch(url)
    if found is None or (key is not None and part != "QUERY"):
        return None
    protocol, _, authority, path, query, ref = found.groups()
    authority = authority or None
    user, host = None, authority
    if authority is not None:
        user, at, host = authority.rpartition("@")
        user = user if at else None
        named = _HOST.fullmatch(host)
        host = named[1] if named else None
    if key is not None:
        pair = re.search(rf"(?:\A|&){re.escape(key)}=([^&]*)", query or "")
        return pair[1] if pair and query is not None else None
    if protocol is not None and authority is None and not path.startswith("/"):  # opaque
        path = query = None
    whole = path if query is None else f"{path}?{query}"
    parts = (host, path, query, ref, protocol, whole, authority, user)
    return dict(zip(_URL_PARTS, parts, strict=True)).get(part)


TABLE = (
    function("ascii", "string", "int32", each(lambda text: ord(text[0]) if text else 0),
             note="The code of the first character."),
    function("chr", "int64", "string", each(_of_number), also=("char",),
             note="The number is taken modulo 256. A negative number gives the empty text."),
    function("hex", "bits", "string", each(_hex), note="The argument is a whole number, text or bytes."),
    function("unhex", "string", "binary", each(_unhex), note="NULL for text that is not a hexadecimal number."),
    function("base64", "binary", "string", each(lambda data: base64.b64encode(data).decode())),
    function("unbase64", "string", "binary", each(_unbase64), null="text that is not in base 64"),
    function("encode", "string =string", _charset_type("ENCODE", "binary"), each(_encoded),
             null="a character that is not in the charset"),
    function("decode", "binary =string", _charset_type("DECODE", "string"), each(_decoded),
             null="bytes that are not text in the charset"),
    function("conv", "string int32 int32", "string", each(_conv), null="a number of more than 64 bits"),
    function("bin", "int64", "string", each(lambda number: f"{number & _ALL:b}")),
    function("url_encode", "string", "string", each(_quoted)),
    function("url_decode", "string", "string", each(_unquoted), null="a % without two digits"),
    function("parse_url", "string string [string]", "string", each(_url_part), null="text that is not a URL",
             note="The part is one of " + ", ".join(_URL_PARTS) + "; a third argument names a key of the query."),
    function("md5", "binary", "string", each(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest())),
    function("sha1", "binary", "string", each(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
             also=("sha",)),
    function("sha2", "binary int32", "string",
             each(lambda data, size: _SIZES[size](data).hexdigest() if size in _SIZES else None),
             note="The second argument is 224, 256, 384 or 512 bits; 0 is 256."),
    function("crc32", "binary", "int64", each(zlib.crc32)),
)  # fmt: skip
