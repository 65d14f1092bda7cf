"""Reads the bytes of a file and decompresses them: gzip, zstd, bzip2, or the only file of a zip archive.

A text is also read in pieces of whole rows, so that a stream need not fit into memory.
"""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

import pyarrow as pa

from plans.errors import FileError
from plans.files import formats
from plans.files.formats import ARROW, JSON, PARQUET, TEXT, ZIP, packing_of

_DAMAGED = (OSError, EOFError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_ENCRYPTED = 1  # in the flags of a file of a zip archive
_ENDS = re.compile(rb"\r\n|\r|\n")
_DEEPEST = 3
_START = 8
_LONGEST = 512


def contents(path: Path) -> tuple[str, bytes]:
    """Returns the format of a file and its decompressed bytes. Raises FileError if it cannot be read. The file is kept
    in memory."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    return unpacked(data, path)


def unreadable(path: Path, error: OSError) -> FileError:
    """Returns the error about a file or folder that the system cannot open."""
    missing = isinstance(error, FileNotFoundError)
    why = "there is no such file" if missing else (error.strerror or str(error)).lower()
    return FileError(f"cannot read {path}: {why}")


@dataclass(frozen=True)
class Place:
    """The origin of a text: its name, and the number of its first line."""

    name: object
    first: int = 1

    def line(self, text: bytes, position: int) -> int:
        """Returns the number of the line that contains a position of the text. O(position)."""
        return self.first + len(_ENDS.findall(text, 0, position))

    def after(self, text: bytes, position: int) -> Place:
        """Returns the origin of the rest of the text after a position."""
        return Place(self.name, self.line(text, position))

    def error(self, reason: str) -> FileError:
        """Returns the error with the reason why the text cannot be read."""
        return FileError(f"cannot read {self.name}: {reason}")


def opened(path: Path) -> BinaryIO:
    """Returns the stream of a file's decompressed bytes; a zip archive is not decompressed. Raises OSError if the file
    cannot be opened, or, while reading, if it is damaged. Cost: that of the bytes read."""
    with path.open("rb") as file:
        packing = packing_of(file.read(_START))
    return io.BufferedReader(pa.input_stream(str(path), compression=None if packing == ZIP else packing))


def unpacked(data: bytes, path: PurePath) -> tuple[str, bytes]:
    """Returns the format and the decompressed bytes of a file with this name and content. Text has no byte order
    mark."""
    format_, packing = formats.named(path)
    found = formats.packing_of(data)
    if packing is not None and found != packing:
        why = "it is not compressed" if found is None else f"it is compressed with {found}"
        why = why if data else "it is empty"
        raise FileError(
            f"cannot read {path}: its suffix means {packing}, but {why}; rename the file, or write it again"
        )
    for _ in range(_DEEPEST):
        if found is None:
            break
        data, member = _opened(data, found, path)
        if member is not None:
            format_ = formats.named(member)[0] or format_
        found = formats.packing_of(data)
    return checked_format(data, format_, path), data.removeprefix(BOM_UTF8)


def _opened(data: bytes, packing: str, path: PurePath) -> tuple[bytes, PurePath | None]:
    """Returns the decompressed bytes, and the name of the file inside an archive."""
    try:
        if packing == formats.ZIP:
            return _member(data, path)
        with pa.CompressedInputStream(pa.BufferReader(data), packing) as stream:
            return stream.read(), None
    except _DAMAGED:
        raise FileError(f"cannot read {path}: its {packing} data is damaged or truncated") from None


def _member(data: bytes, path: PurePath) -> tuple[bytes, PurePath]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [file for file in archive.infolist() if not file.is_dir() and not file.filename.startswith("__MACOSX/")]
        if len(files) != 1:
            raise FileError(f"cannot read {path}: it contains {len(files)} files; unpack it and name the one to read")
        if files[0].flag_bits & _ENCRYPTED:
            raise FileError(f"cannot read {path}: it is encrypted; unpack it and name the file in it")
        return archive.read(files[0]), PurePath(files[0].filename)


def checked_format(data: bytes, named: str | None, path: PurePath) -> str:
    """Returns the format of an uncompressed file that begins with these bytes. Raises FileError if it is not supported,
    or contradicts the name."""
    head = data[:_LONGEST]
    other = formats.foreign(head)
    if other is not None:
        raise FileError(f"cannot read {path}: it is {other}")
    found = formats.format_of(head.removeprefix(BOM_UTF8))
    if found in (PARQUET, ARROW) and named in (None, PARQUET, ARROW):
        return found
    if named in (PARQUET, ARROW) or found in (PARQUET, ARROW):
        why = "is empty" if not data else f"is a file of {found}" if found in (PARQUET, ARROW) else "has another format"
        raise FileError(
            f"cannot read {path}: its suffix means {named}, but it {why}; rename the file, or write it again"
        )
    if b"\x00" in head:
        raise FileError(f"cannot read {path}: it is neither Parquet, Arrow nor text")
    return named or (JSON if found == JSON else TEXT)


def checked_text(data: bytes, place: Place) -> bytes:
    """Returns bytes that are UTF-8 text. Raises FileError, with the line, for others. O(bytes)."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = place.line(data, error.start)
            raise place.error(f"line {line} is not UTF-8 text; convert the file to UTF-8") from None
    return data


SIZE = 1 << 26


def pieces(stream: BinaryIO, place: Place, size: int = SIZE) -> Iterator[tuple[Place, bytes]]:
    """Yields the bytes of a stream in pieces of about `size` bytes, with the position of each. A longer row is a piece
    of its own."""
    rest = b""
    while block := stream.read(size):
        rest += block
        end = _end_of_rows(rest)
        if end:
            yield place, rest[:end]
            place, rest = place.after(rest, end), rest[end:]
    if rest:
        yield place, rest


def _end_of_rows(data: bytes) -> int:
    """Returns the end of the last line that does not end inside of quotes, or 0 if there is none."""
    mark = b"\n" if b"\n" in data else b"\r"
    end = data.rfind(mark, 0, len(data) - 1) + 1 if mark == b"\r" else data.rfind(mark) + 1
    while end and data.count(b'"', 0, end) % 2:
        quote = data.rfind(b'"', 0, end)  # opens the value in which the line ends
        end = data.rfind(mark, 0, quote) + 1
    return end
