"""Tables of changes as bytes: a magic word, a header, an Arrow IPC stream per relation, and a checksum over everything.

    magic, length of the header (uint32), header (JSON), a stream per relation, BLAKE2b of all before

The caller defines the header; ``relations`` in it contains the name, rows and bytes of each relation. Nothing is ever
unpickled, so foreign bytes are an error, not code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

DIGEST = 16
_LENGTH = struct.Struct("<I")
_GLANCE = 4096  # bytes that contain most headers
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_MALFORMED = (ValueError, KeyError, TypeError, OverflowError, RecursionError, struct.error)
_NOT_OURS = (*_MALFORMED, OSError, pa.ArrowException)


def pack(magic: bytes, header: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> bytes:
    """Returns the bytes of some tables. O(rows)."""
    streams: list[bytes] = []
    for table in tables.values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
            writer.write_table(table)
        streams.append(sink.getvalue().to_pybytes())
    relations = [
        {"name": name, "rows": table.num_rows, "bytes": len(data)}
        for (name, table), data in zip(tables.items(), streams, strict=True)
    ]
    text = json.dumps({**header, "relations": relations}).encode()
    body = b"".join([magic, _LENGTH.pack(len(text)), text, *streams])
    return body + hashlib.blake2b(body, digest_size=DIGEST).digest()


class NotPackedError(ValueError):
    """The bytes were not made by ``pack``; the text contains the reason. ``torn``: they begin correctly, but have
    changed.
    """

    def __init__(self, reason: str, torn: bool = False) -> None:
        super().__init__(reason)
        self.torn = torn


def unpack(
    magic: bytes, data: bytes, check: Callable[[dict[str, Any]], object] | None = None
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Returns the header and the tables. Raises :class:`NotPackedError` for bytes that ``pack`` did not make.

    ``check`` receives the header before any table is read; its own errors pass.
    """
    start = len(magic) + _LENGTH.size
    if data[: len(magic)] != magic:
        raise NotPackedError("it does not begin as a batch does")
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if len(body) < start or hashlib.blake2b(body, digest_size=DIGEST).digest() != digest:
        raise NotPackedError("its checksum does not match", torn=True)
    try:
        header, offset = _header(magic, body)
        if check is not None:
            check(header)
        sizes = [int(relation["bytes"]) for relation in header["relations"]]
        if min(sizes, default=0) < 0 or offset + sum(sizes) != len(body):
            raise ValueError
        tables = {}
        for relation, size in zip(header["relations"], sizes, strict=True):
            table = pa.ipc.open_stream(pa.py_buffer(body)[offset : offset + size]).read_all()
            name = str(relation["name"])
            if table.num_rows != relation["rows"] or name in tables:  # a second table would hide the rows of the first
                raise ValueError
            tables[name] = table
            offset += size
    except _NOT_OURS:
        raise NotPackedError("it is complete, but its contents are not those of a batch") from None
    return header, tables


def unpack_header(magic: bytes, read: Callable[[int, int], bytes]) -> dict[str, Any]:
    """Returns only the header, of bytes that ``read(start, stop)`` returns. O(header); verifies no checksum.

    Raises :class:`NotPackedError`, and the errors of ``read``.
    """
    data = read(0, _GLANCE)
    try:
        if data[: len(magic)] != magic:
            raise ValueError
        end = len(magic) + _LENGTH.size + _length(magic, data)
        return _header(magic, data if len(data) >= end else read(0, end))[0]
    except _MALFORMED:
        raise NotPackedError("it does not begin as a batch does") from None


def _header(magic: bytes, data: bytes) -> tuple[dict[str, Any], int]:
    """Returns the header and the offset of its end."""
    start = len(magic) + _LENGTH.size
    end = start + _length(magic, data)
    return json.loads(data[start:end]), end


def _length(magic: bytes, data: bytes) -> int:
    return int(_LENGTH.unpack(data[len(magic) : len(magic) + _LENGTH.size])[0])
