"""Files of words: a magic line, a line of JSON, and parts of int64 words under a checksum.

    line 1   magic and format version
    line 2   JSON: words per part ("words"), CRC-32 of all of them ("crc32"), and what the owner adds
    rest     the parts, little-endian int64

Raw words and JSON only: a foreign or damaged file is an error message, never code that runs. Writing goes to a
temporary name first and is published by an atomic rename.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from crown.errors import SnapshotError

_CHUNK = 1 << 20  # words read at a time


def write(path: str | os.PathLike[str], magic: bytes, header: dict[str, Any], parts: Sequence[np.ndarray]) -> int:
    """Write the file and publish it; bytes written. SnapshotError if the system refuses; the old file then stays."""
    crc = 0
    for words in parts:
        crc = zlib.crc32(words.data, crc)
    complete = {**header, "words": [len(words) for words in parts], "crc32": crc}
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(magic)
            file.write(json.dumps(complete).encode() + b"\n")
            for words in parts:
                file.write(words.data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, target)
    except OSError as error:
        raise SnapshotError(f"cannot write the snapshot {target}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return size


def read_header(
    file: BinaryIO, path: str | os.PathLike[str], magic: bytes, owner: str, fields: set[str]
) -> dict[str, Any]:
    """The header of an open file, with at least `fields`. SnapshotError if it is foreign, or of another version."""
    if file.readline(len(magic)) != magic:
        raise SnapshotError(f"{path} is not a snapshot of this version of {owner}")
    try:
        header = json.loads(file.readline())
        complete = isinstance(header, dict) and {"words", "crc32", *fields} <= set(header)
    except ValueError:
        complete = False
    if not complete:
        raise SnapshotError(f"{path} is damaged: its header cannot be read")
    return dict(header)


def fill(file: BinaryIO, parts: Sequence[np.ndarray], expected: int, path: str | os.PathLike[str]) -> None:
    """Read the parts into arrays of their lengths. SnapshotError for a truncated or damaged file."""
    crc = 0
    for words in parts:
        at = 0
        while at < len(words):
            chunk = file.read(8 * min(_CHUNK, len(words) - at))
            if not chunk or len(chunk) % 8:
                raise SnapshotError(f"{path} is truncated")
            crc = zlib.crc32(chunk, crc)
            words[at : at + len(chunk) // 8] = np.frombuffer(chunk, np.int64)
            at += len(chunk) // 8
    if crc != expected or file.read(1):
        raise SnapshotError(f"{path} is damaged: its checksum does not match")
