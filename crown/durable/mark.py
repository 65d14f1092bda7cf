"""Two numbers beside the log: how many batches were acknowledged, and how many of them are synced to disk.

They are overwritten after the log was written, and not synced. So they are never too large, and after a crash of the
process they are exact. They distinguish the end of a batch that was never acknowledged from an acknowledged batch that
is lost.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from crown.durable.files import open_beside

NAME = "acknowledged"
_NUMBERS = struct.Struct("<qq")


class Mark:
    """The file ``acknowledged`` of a folder, open for writing."""

    def __init__(self, folder: Path) -> None:
        self._handle = open_beside(folder / NAME)

    def read(self) -> tuple[int, int] | None:
        """Returns the numbers of batches acknowledged and synced; None if they cannot be read."""
        return _read(os.pread(self._handle, _NUMBERS.size + 5, 0))

    def write(self, acknowledged: int, synced: int) -> None:
        """Writes both numbers. O(1); not synced."""
        numbers = _NUMBERS.pack(acknowledged, synced)
        os.pwrite(self._handle, numbers + _crc(numbers), 0)

    def close(self, sync: bool = True) -> None:
        """Closes the file, after a sync if ``sync``; does nothing the second time."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            try:
                if sync:
                    os.fsync(handle)
            finally:
                os.close(handle)


def noted(folder: Path) -> tuple[int, int] | None:
    """Returns the mark of a folder, which another process may be writing; None if it cannot be read."""
    for _ in range(3):  # the file may be overwritten meanwhile
        try:
            found = _read((folder / NAME).read_bytes())
        except OSError:
            return None
        if found is not None:
            return found
    return None


def _read(data: bytes) -> tuple[int, int] | None:
    if len(data) != _NUMBERS.size + 4:
        return None
    numbers = data[: _NUMBERS.size]
    if data[_NUMBERS.size :] != _crc(numbers):
        return None
    acknowledged, synced = _NUMBERS.unpack(numbers)
    return acknowledged, synced


def _crc(numbers: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(numbers))
