"""Tables of changes as bytes: a magic word, a header, an Arrow IPC stream per relation, and a checksum over everything.

    magic, length of the header (uint32), header (JSON), a stream per relation, BLAKE2b of all before

The header is the owner's; ``relations`` in it names each relation with its rows and bytes. Nothing is ever unpickled,
so foreign bytes are an error, not code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

DIGEST = 16
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_NOT_OURS = (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError, pa.ArrowException, struct.error)


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
    body = b"".join([magic, struct.pack("<I", len(text)), text, *streams])
    return body + hashlib.blake2b(body, digest_size=DIGEST).digest()


def unpack(magic: bytes, data: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Returns the header and the tables. Raises ValueError, which says why, for bytes that ``pack`` did not make."""
    start = len(magic) + 4
    if data[: len(magic)] != magic:
        raise ValueError("it does not begin as a batch does")
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if len(body) < start or hashlib.blake2b(body, digest_size=DIGEST).digest() != digest:
        raise ValueError("its checksum does not match")
    try:
        (length,) = struct.unpack("<I", body[len(magic) : start])
        header = json.loads(body[start : start + length])
        sizes = [int(relation["bytes"]) for relation in header["relations"]]
        if min(sizes, default=0) < 0 or start + length + sum(sizes) != len(body):
            raise ValueError
        tables = {}
        offset = start + length
        for relation, size in zip(header["relations"], sizes, strict=True):
            table = pa.ipc.open_stream(pa.py_buffer(body)[offset : offset + size]).read_all()
            if table.num_rows != relation["rows"]:
                raise ValueError
            tables[str(relation["name"])] = table
            offset += size
    except _NOT_OURS:
        raise ValueError("it is whole, but its contents are not those of a batch") from None
    return header, tables
