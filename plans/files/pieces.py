"""Reads a text in pieces of whole rows, so that a stream need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from plans.files.unpacked import Place

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
