"""Saves and loads snapshots of a `Triangle`: one file of words (see `crown.store.words_file`).

The header has the options of the query. The parts are the arena up to its high-water mark and one table per domain (the
dictionary and the types of the key), in Arrow's stream format, padded to words.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import CrownError, SnapshotError
from crown.guards.arguments import Size, path_of, size_of
from crown.kernels.memory.arena import H_MAGIC, H_TOP, MAGIC
from crown.store import words_file
from crown.store.memory import ADDRESSABLE, reserve
from ivm_triangle.encode import Domain
from ivm_triangle.kernels.state import inspect

KIND = b"ivm_triangle snapshot"
FIELDS = {"options", "null_rows", "domain_bytes"}
OPTIONS = {"outputs", "epsilon", "partition", "strategy", "columns", "edges"}
_DAMAGED = (CrownError, pa.ArrowException, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""Errors that options, or a domain's table, of foreign origin can cause."""


def save(triangle: Any, path: str | os.PathLike[str]) -> int:
    """Writes a `Triangle`. Returns the bytes written. Raises SnapshotError if it cannot be written; an old file then
    stays."""
    target = path_of(path, "path")
    triangle._state.check_usable()
    tables = [_to_bytes(domain) for domain in triangle._distinct_domains()]
    header = {
        "options": triangle._options,
        "null_rows": triangle._null_rows,
        "domain_bytes": [len(table) for table in tables],
    }
    padded = [np.frombuffer(table + bytes(-len(table) % 8), dtype=np.int64) for table in tables]
    return words_file.write(target, KIND, header, [triangle._state.words, *padded])


def load(make: Callable[..., Any], path: str | os.PathLike[str], memory: Size) -> Any:
    """Returns the `Triangle` of a snapshot, an instance of the class `make`, with `memory` bytes at most. O(state).

    Raises SnapshotError for a foreign, damaged or truncated file, one of another version, or a larger state.
    """
    source, most = path_of(path, "path"), size_of(memory, "memory")
    with words_file.opened(source) as file:
        return read(make, file, source, most)


def read(make: Callable[..., Any], file: BufferedReader, path: Path, memory: int) -> Any:
    """Returns the result of `load` for an open file. `path`: its name in messages."""
    header = words_file.read_header(file, path, KIND, "ivm_triangle", FIELDS)
    words: list[int] = header["words"]
    sizes, null_rows = header["domain_bytes"], header["null_rows"]
    sound = isinstance(sizes, list) and all(map(words_file.is_whole, [*sizes, null_rows]))
    if not sound or words[1:] != [-(-size // 8) for size in sizes] or not words or not words[0]:
        raise SnapshotError(f"{path} is damaged: its header does not fit its parts")
    limit = min(memory // 8, ADDRESSABLE)
    if words[0] > limit:
        raise SnapshotError(f"{path} holds more state ({8 * sum(words)} bytes) than `memory` allows; raise it")
    arena = reserve(limit, "memory")
    parts = [arena[: words[0]], *(np.empty(n, dtype=np.int64) for n in words[1:])]
    words_file.fill(file, parts, header["crc32"], path)
    if words[0] <= H_TOP or arena[H_MAGIC] != MAGIC or arena[H_TOP] != words[0]:
        raise SnapshotError(f"{path} is damaged: its state is not complete")
    try:
        triangle = make(**_options(header["options"]), arena=arena)
        for domain, part, size in zip(triangle._distinct_domains(), parts[1:], sizes, strict=True):
            _fill_domain(domain, part.tobytes()[:size])
    except _DAMAGED as error:
        raise SnapshotError(f"{path} was written by another version of ivm_triangle: {error}") from error
    triangle._null_rows = null_rows
    squares = np.zeros(3)
    inspect.squares(arena, squares)
    triangle._norms = np.sqrt(squares)
    return triangle


def _options(saved: dict[str, Any]) -> dict[str, Any]:
    if set(saved) != OPTIONS:
        raise ValueError(f"its options are {', '.join(map(str, saved))}")
    columns = {name: tuple(tuple(key) for key in pair) for name, pair in saved["columns"].items()}
    names = [name for pair in columns.values() for key in pair for name in key]
    if not all(isinstance(name, str) for name in [*names, saved["edges"] or ""]):
        raise ValueError("its columns are not named by text")
    return {**saved, "columns": columns}


def _to_bytes(domain: Domain) -> bytes:
    """Returns a table of codes and values, or no bytes for a domain without types."""
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
    table.validate(full=True)
    codes = table.column(0).to_pylist()
    rows = list(zip(*(column.to_pylist() for column in table.columns[1:]), strict=True))
    domain.types = tuple(table.schema.types[1:])
    domain.values = dict(zip(codes, rows, strict=True))
    domain.codes = {value: code for code, value in domain.values.items()}
    if table.schema.types[0] != pa.int64() or min(codes, default=1) < 1 or len(domain.codes) != len(codes):
        raise ValueError("its keys do not have one code each")
    domain.fresh = max(codes, default=0) + 1
