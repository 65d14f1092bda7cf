"""Reads and writes files of words: a kind, a line of JSON, and parts of int64 words, all with checksums.

    line 1   the kind, a blank, the version of this format
    line 2   CRC-32 of line 1 and the JSON, as 8 hexadecimal digits; a blank; the JSON: words per part ("words"), CRC-32
             of all that follows ("crc32"), and the fields of the owner; blanks up to the end of a page
    rest     the parts, little-endian int64, each with zeros up to the end of a page, and nothing after them

``fill`` detects every changed bit of a file: each bit is compared, or covered by one of the two checksums. A file that
is mapped instead (``map_over``) costs only the touched pages, and its second checksum is not verified.

The format has raw words and JSON only, so a foreign or damaged file raises an error and never runs code. A file is
written under a temporary name and published by an atomic rename. It is written to the disk piece by piece. It stays in
the page cache, from which the next process reads it, only if plenty of memory is free: otherwise, finding pages for all
of it can take longer than copying it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import uuid
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from crown.errors import SnapshotError
from crown.store.pieces import can_map, map_copy

VERSION = 1
_CHUNK = 1 << 17  # words read or written at a time: they stay in the processor's cache for the checksum
_PIECE = 1 << 22  # words after which written data is flushed to the disk
_PAGE = 1 << 9  # words of the pages at which parts begin
_FREE = 2  # a file stays in the page cache if this multiple of its bytes is free
_LARGEST = 2**32 - 1  # largest checksum
_LONGEST = 1 << 24  # bytes of a line: without a limit, a foreign file without line breaks would be read whole


def write(path: str | os.PathLike[str], kind: bytes, header: dict[str, Any], parts: Sequence[np.ndarray]) -> int:
    """Writes and publishes the file. Returns the bytes written. Raises SnapshotError if the system refuses; the old
    file then stays."""
    target = Path(path)
    if os.path.isdir(target):
        raise SnapshotError(f"cannot write the snapshot {target}: this is a folder; name a file in it")
    if not os.path.isdir(target.parent):
        raise SnapshotError(f"cannot write the snapshot {target}: there is no folder {target.parent}; create it first")
    if os.path.exists(target) and not os.path.isfile(target):
        raise SnapshotError(
            f"cannot write the snapshot {target}: this is not a regular file, and would be replaced; name another"
        )
    try:
        with temporary(target) as partial:
            with partial.open("wb") as file:
                begin = 8 * _whole_pages(-(-len(_lines(kind, header, parts, _LARGEST)) // 8))
                file.seek(begin)
                crc = _written(file, parts)
                size = file.tell()
                file.seek(0)
                file.write(_lines(kind, header, parts, crc, begin))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
    except OSError as error:
        raise SnapshotError(f"cannot write the snapshot {target}: {error.strerror}") from error
    return size


@contextlib.contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """Yields an unused hidden name beside ``path``; deletes a file that remains there afterwards."""
    partial = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex}.tmp")
    try:
        yield partial
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BufferedReader]:
    """Yields the file, open for reading.

    Raises SnapshotError if it is not a regular file, or the system refuses to read it.
    """
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise SnapshotError(f"cannot read the snapshot {path}: this is a folder; name the file that save wrote")
        if not stat.S_ISREG(status.st_mode):
            raise SnapshotError(f"cannot read the snapshot {path}: this is not a regular file")
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot {path}: {error.strerror}") from error


def read_header(
    file: BinaryIO, path: str | os.PathLike[str], kind: bytes, owner: str, fields: set[str]
) -> dict[str, Any]:
    """Returns the header of an open file, with at least ``fields``; ``words`` and ``crc32`` fit the file's length.

    Raises SnapshotError if the file is foreign, of another version, damaged or truncated. The owner checks the fields
    that it added. O(header).
    """
    first = file.readline(len(kind) + 16)
    if first != _first(kind):
        raise SnapshotError(f"{path} is not a snapshot of this version of {owner}: {_seen(first)}")
    header = _parsed(first, file.readline(_LONGEST))
    if not isinstance(header, dict) or not {"words", "crc32", *fields} <= set(header):
        raise SnapshotError(f"{path} is damaged: its header cannot be read")
    words = header["words"]
    if not isinstance(words, list) or not all(is_whole(n) for n in words) or not is_whole(header["crc32"]):
        raise SnapshotError(f"{path} is damaged: its header does not say how long its parts are")
    begin = file.tell()
    there, wanted = file.seek(0, os.SEEK_END) - begin, 8 * sum(map(_whole_pages, words))
    file.seek(begin)
    if there < wanted:
        raise SnapshotError(f"{path} is truncated: it has {there} bytes of {wanted} after its header")
    if there > wanted:
        raise SnapshotError(f"{path} is damaged: it is longer than its header says")
    return header


def fill(file: BufferedReader, parts: Sequence[np.ndarray], expected: int, path: str | os.PathLike[str]) -> None:
    """Reads the parts into arrays of their lengths. Raises SnapshotError for a truncated or damaged file."""
    crc = 0
    for words in _padded(parts):
        data, at = words.view(np.uint8).data, 0
        while at < len(data):
            count = file.readinto(data[at : at + 8 * _CHUNK])
            if not count:
                raise SnapshotError(f"{path} is truncated: it became shorter while it was read")
            crc = zlib.crc32(data[at : at + count], crc)
            at += count
    _demand_sum(crc, expected, path)


def verify(file: BufferedReader, expected: int, path: str | os.PathLike[str]) -> None:
    """Reads the parts and verifies their checksum. Raises SnapshotError for a damaged file."""
    crc, data = 0, memoryview(bytearray(8 * _CHUNK))
    while count := file.readinto(data):
        crc = zlib.crc32(data[:count], crc)
    _demand_sum(crc, expected, path)


def _demand_sum(crc: int, expected: int, path: str | os.PathLike[str]) -> None:
    if crc != expected:
        raise SnapshotError(f"{path} is damaged: its checksum does not match")


def can_be_mapped() -> bool:
    """Returns True if this system can map files of words (``map_over``)."""
    return can_map(8 * _PAGE)


def map_over(file: BufferedReader, parts: Sequence[np.ndarray], path: str | os.PathLike[str]) -> None:
    """Maps the parts of a file, whose header has been read, over arrays of their lengths, which begin at page
    boundaries of private memory of this process. O(parts).

    Writes to the arrays do not change the file. While they are used, no program may write to the file or truncate it;
    it may be deleted. Raises SnapshotError if the system refuses.
    """
    begin = file.tell()
    try:
        for words in parts:
            map_copy(words, file.fileno(), begin)
            begin += 8 * _whole_pages(len(words))
    except OSError as error:
        raise SnapshotError(f"cannot map the snapshot {path}: {error.strerror}") from error


def _lines(kind: bytes, header: dict[str, Any], parts: Sequence[np.ndarray], crc: int, length: int = 0) -> bytes:
    """Returns the first two lines, padded with blanks to ``length`` bytes."""
    first = _first(kind)
    text = json.dumps({**header, "words": [len(words) for words in parts], "crc32": crc}).encode()
    text = text.ljust(length - len(first) - 10)
    return first + _checksum(first, text) + b" " + text + b"\n"


def _written(file: BinaryIO, parts: Sequence[np.ndarray]) -> int:
    """Writes the parts. Returns their CRC-32. All but the last pieces are then on the disk, and in the page cache only
    if there is room.

    While one piece is flushed to the disk, the checksum of the next one is computed and it is written.
    """
    crc = done = 0
    stays = _FREE * sum(words.nbytes for words in parts) < _free_memory()
    with ThreadPoolExecutor(1) as disk:
        going: Future[None] | None = None
        for words in _padded(parts):
            for start in range(0, len(words), _CHUNK):
                chunk = words[start : start + _CHUNK].data
                crc = zlib.crc32(chunk, crc)
                file.write(chunk)
                done += len(chunk)
                if done >= _PIECE:
                    done = 0
                    file.flush()
                    if going is not None:
                        going.result()
                    going = disk.submit(_to_disk, file.fileno(), stays)
        if going is not None:
            going.result()
    return crc


def _to_disk(file: int, stays: bool) -> None:
    """Flushes written data to the disk. Removes it from the page cache unless it ``stays``, if the system supports
    that."""
    if hasattr(os, "posix_fadvise"):
        os.fdatasync(file)
        if not stays:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _free_memory() -> int:
    """Returns the bytes of memory that are free, the page cache not included; 0 if the system does not report them."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


def _whole_pages(words: int) -> int:
    return -(-words // _PAGE) * _PAGE


def _padded(parts: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields each part, then the zeros that pad it."""
    for words in parts:
        yield words
        yield np.zeros(-len(words) % _PAGE, np.int64)


def is_whole(value: object) -> bool:
    """Returns True iff a value of a header is an integer from 0 (JSON's true and 1.0 are not)."""
    return type(value) is int and value >= 0


def _first(kind: bytes) -> bytes:
    return b"%s %d\n" % (kind, VERSION)


def _checksum(first: bytes, text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text, zlib.crc32(first))


def _parsed(first: bytes, line: bytes) -> Any:
    """Returns the JSON of line 2, or None if the line is not as written."""
    if not line.endswith(b"\n"):
        return None
    checksum, text = line[:9], line[9:-1]
    if checksum != _checksum(first, text) + b" ":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _seen(first: bytes) -> str:
    return f"it begins with {first[:40]!r}" if first else "it is empty"
