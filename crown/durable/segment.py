"""One file of the log: the batches of a view since a snapshot, each appended when it was applied.

    a line of JSON: kind, format, the view's id, ``base``, and a CRC-32 of the line without it
    per batch: "CRWB", number (int64), length (int64), CRC-32 of these; then the bytes of ``crown.durable.packing``

Batch ``base + 1`` is first. Every batch contains the view and its number, so a foreign batch is detected. A file may
end in an incomplete batch, if the process died while it wrote the batch. Any other difference is damage. The position
of a fault distinguishes the two cases (``Fault``).
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from crown.durable.files import write_durably
from crown.durable.packing import NotPackedError, pack, unpack, unpack_header
from crown.errors import DamagedStateError

KIND, FORMAT = "crown log", 1
_MAGIC = b"CRWB"
_FRAME = struct.Struct("<4sqqI")
_BATCH = b"CROWNBAT"
_LONGEST = 1 << 16  # maximal length of the first line

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Fault:
    """The reason why a file could not be read to its end, and the first byte that was not read.

    ``torn``: nothing complete can follow, so it may be the end of a batch that was being written; otherwise it is
    damage.
    """

    at: int
    torn: bool
    reason: str


class Segment:
    """A log file, open for appending at ``end``."""

    def __init__(self, path: Path, view: str, end: int) -> None:
        self.path = path
        self._view = view
        self.end = end
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    @classmethod
    def create(cls, path: Path, view: str, base: int) -> Segment:
        """Creates a log file without batches; it is on disk when this returns."""
        head = _head(view, base)
        write_durably(path, head)
        return cls(path, view, len(head))

    def append(self, number: int, tables: Tables, more: Mapping[str, Any]) -> int:
        """Appends batch ``number``; returns its bytes. Raises OSError if that fails; then the file is unchanged.

        ``more``: further fields of its header, as JSON.
        """
        body = pack(_BATCH, {**more, "view": self._view, "batch": number}, tables)
        data = memoryview(_frame(number, len(body)) + body)
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._handle, data[written:], self.end + written)
        except OSError:
            self.cut(self.end)
            raise
        self.end += len(data)
        return len(data)

    def cut(self, end: int) -> None:
        """Truncates the file at byte ``end``."""
        os.ftruncate(self._handle, end)
        self.end = end

    def sync(self) -> None:
        """Syncs all appended batches to disk."""
        (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(self._handle)

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class Reader:
    """Reads a log file. After ``batches`` has ended: ``end`` (the byte after the last complete batch) and ``fault``."""

    def __init__(self, path: Path, view: str, base: int) -> None:
        self.path = path
        self._view = view
        self._base = base
        self.end = 0
        self.fault: Fault | None = None

    def batches(self) -> Iterator[tuple[dict[str, Any], dict[str, pa.Table]]]:
        """Yields header and tables of every complete batch, in order, up to the end or the first fault. O(bytes).

        Raises DamagedStateError if the file is not this log.
        """
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            line = file.readline(_LONGEST)
            if line != _head(self._view, self._base):
                raise DamagedStateError(
                    f"{self.path} is not the log of this view from batch {self._base} on: it is damaged, or was copied "
                    "from elsewhere"
                )
            self.end, number = len(line), self._base
            while self.end < size:
                number += 1
                frame = file.read(_FRAME.size)
                rest = size - self.end - len(frame)
                if len(frame) < _FRAME.size:
                    return self._stop(True, f"batch {number} was not written completely")
                magic, found, length, crc = _FRAME.unpack(frame)
                if magic != _MAGIC or crc != zlib.crc32(frame[:-4]) or length < 0:
                    return self._stop(_all_zero(frame, file), f"the header of batch {number} is damaged")
                if length > rest:
                    return self._stop(True, f"batch {number} was not written completely")
                try:
                    header, tables = unpack(_BATCH, file.read(length))
                    if (found, header["batch"], header["view"]) != (number, number, self._view):
                        raise ValueError("it is another batch, or another view's")
                except (ValueError, KeyError) as error:
                    return self._stop(length == rest, f"batch {number} is damaged: {error}")
                self.end += _FRAME.size + length
                yield header, tables
        return None

    def _stop(self, torn: bool, reason: str) -> None:
        self.fault = Fault(self.end, torn, reason)


class Place:
    """A batch of a log file to which another process appends. Initially there is none: ``number`` is ``base``."""

    def __init__(self, path: Path, base: int) -> None:
        self.base = base
        self.number = base
        self._path = path
        self._start = self._end = -1

    def header(self, number: int) -> dict[str, Any] | None:
        """Advances to an acknowledged batch, and returns its header; None if it does not exist. O(batches)."""
        with open(self._path, "rb") as file:
            if self._end < 0:
                self._end = len(file.readline(_LONGEST))
            while self.number < number:
                file.seek(self._end)
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size or frame[:4] != _MAGIC or _FRAME.unpack(frame)[3] != zlib.crc32(frame[:-4]):
                    return None
                self._start = self._end + _FRAME.size
                self._end = self._start + _FRAME.unpack(frame)[2]
                self.number += 1
            if self._start < 0:
                return None

            def read(start: int, stop: int) -> bytes:
                file.seek(self._start + start)
                return file.read(stop - start)

            try:
                return unpack_header(_BATCH, read)
            except NotPackedError:
                return None


def _all_zero(frame: bytes, file: BinaryIO) -> bool:
    """Returns True iff the file is zeros from ``frame`` on: the machine crashed after the file was extended and before
    it was written.
    """
    return not any(frame) and not any(any(block) for block in iter(lambda: file.read(1 << 20), b""))


def _frame(number: int, length: int) -> bytes:
    start = struct.pack("<4sqq", _MAGIC, number, length)
    return start + struct.pack("<I", zlib.crc32(start))


def _head(view: str, base: int) -> bytes:
    line = json.dumps({"kind": KIND, "format": FORMAT, "view": view, "base": base})
    return b"%s %08x\n" % (line.encode(), zlib.crc32(line.encode()))
