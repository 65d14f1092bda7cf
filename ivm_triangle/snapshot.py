"""Snapshots of a `Triangle`: one file of words (see `crown.words_file`).

The header has the options the query was made with; the parts are the arena up to its high-water mark and one table per
domain (the dictionary and the types of the key), in Arrow's stream format, padded to words.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown import words_file
from crown.errors import SnapshotError
from crown.kernels.arena import H_TOP
from crown.memory import ADDRESSABLE, reserve
from ivm_triangle.encode import Domain
from ivm_triangle.errors import TriangleError
from ivm_triangle.kernels import inspect

MAGIC = b"ivm_triangle snapshot 1\n"
FIELDS = {"options", "null_rows", "domain_bytes"}


def save(triangle: Any, path: str | os.PathLike[str]) -> int:
    """Write a `Triangle`; bytes written. O(state). SnapshotError if it cannot be written; an old file then stays."""
    triangle._state.check_usable()
    tables = [_to_bytes(domain) for domain in triangle._distinct_domains()]
    header = {
        "options": triangle._options,
        "null_rows": triangle._null_rows,
        "domain_bytes": [len(table) for table in tables],
    }
    padded = [np.frombuffer(table + bytes(-len(table) % 8), dtype=np.int64) for table in tables]
    return words_file.write(path, MAGIC, header, [triangle._state.words, *padded])


def load(make: Callable[..., Any], path: str | os.PathLike[str], memory: int) -> Any:
    """The `Triangle` of a snapshot, by its class `make`, with `memory` bytes at most. O(state).

    Raises SnapshotError for a foreign, damaged or truncated file, one of another version, or a larger state.
    """
    try:
        with Path(path).open("rb") as file:
            header = words_file.read_header(file, path, MAGIC, "ivm_triangle", FIELDS)
            words = [int(n) for n in header["words"]]
            limit = min(memory // 8, ADDRESSABLE)
            if not words or words[0] > limit:
                raise SnapshotError(f"{path} holds more state ({8 * sum(words)} bytes) than `memory` allows; raise it")
            arena = reserve(limit)
            parts = [arena[: words[0]], *(np.empty(n, dtype=np.int64) for n in words[1:])]
            words_file.fill(file, parts, int(header["crc32"]), path)
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot {path}: {error.strerror}") from error
    if arena[H_TOP] != words[0]:
        raise SnapshotError(f"{path} is damaged: its state is not complete")
    try:
        triangle = make(**_options(header["options"]), arena=arena)
        domains = triangle._distinct_domains()
        for domain, part, size in zip(domains, parts[1:], header["domain_bytes"], strict=True):
            _fill_domain(domain, part.tobytes()[:size])
    except (TriangleError, TypeError, KeyError, ValueError, pa.ArrowInvalid) as error:
        raise SnapshotError(f"{path} was written by another version of ivm_triangle: {error}") from error
    triangle._null_rows = int(header["null_rows"])
    squares = np.zeros(3)
    inspect.squares(arena, squares)
    triangle._norms = np.sqrt(squares)
    return triangle


def _options(saved: dict[str, Any]) -> dict[str, Any]:
    columns = {name: tuple(tuple(key) for key in pair) for name, pair in saved["columns"].items()}
    return {**saved, "columns": columns}


def _to_bytes(domain: Domain) -> bytes:
    """A table of codes and values; no bytes for a domain without types."""
    if domain.types is None:
        return b""
    codes = np.fromiter(domain.values, dtype=np.int64, count=len(domain.values))
    names = [f"key{i}" for i in range(len(domain.types))]
    columns = [pa.array([], kind) for kind in domain.types] if domain.plain else domain.decode(codes)
    table = pa.table([pa.array(codes), *columns], names=["code", *names])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _fill_domain(domain: Domain, table_bytes: bytes) -> None:
    if not table_bytes:
        return
    table = pa.ipc.open_stream(table_bytes).read_all()
    domain.types = tuple(table.schema.types[1:])
    codes = table.column(0).to_pylist()
    rows = zip(*(column.to_pylist() for column in table.columns[1:]), strict=True)
    domain.values = dict(zip(codes, rows, strict=True))
    domain.codes = {value: code for code, value in domain.values.items()}
    domain.fresh = max(codes, default=0) + 1
