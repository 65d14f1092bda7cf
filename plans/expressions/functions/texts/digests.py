"""Digests of bytes: MD5, SHA-1, SHA-2 and CRC-32, once per distinct value."""

from __future__ import annotations

import hashlib
import zlib

from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function

_SIZES = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


def _sha2(data: bytes, size: int) -> str | None:
    return _SIZES[size](data).hexdigest() if size in _SIZES else None


TABLE = (
    function("md5", "binary", "string", each(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest())),
    function(
        "sha1",
        "binary",
        "string",
        each(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
        also=("sha",),
    ),
    function(
        "sha2",
        "binary int32",
        "string",
        each(_sha2),
        note="The second argument is 224, 256, 384 or 512 bits; 0 is 256.",
    ),
    function("crc32", "binary", "int64", each(zlib.crc32)),
)
