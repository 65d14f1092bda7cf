"""The protocol of storage: folders of small and large files, each published atomically.

A folder is identified by its place. It need not be created before its files: object stores have no folders. All methods
raise OSError, whose ``strerror`` is a reason in words, when the storage fails. ``FileNotFoundError``, and no other
error, means that a file does not exist. So a storage that cannot be reached is never taken for an empty one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path


class Folder(ABC):
    """A folder. ``name``: its own name; ``parent``: its parent folder; ``str()``: its place, for messages."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Returns the last part of the folder's place."""

    @property
    @abstractmethod
    def parent(self) -> Folder:
        """Returns the parent folder."""

    @abstractmethod
    def __truediv__(self, name: str) -> Folder:
        """Returns the subfolder ``name``; ``a/b`` is two folders down."""

    @abstractmethod
    def at(self, file: str) -> str:
        """Returns the place of a file in the folder, for messages."""

    # -- reading -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def files(self) -> dict[str, int]:
        """Returns the files of the folder with their sizes; none if there is no such folder. O(files)."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Returns the names of the subfolders. O(entries)."""

    @abstractmethod
    def read(self, file: str, start: int = 0, stop: int | None = None) -> bytes:
        """Returns the bytes of a file from ``start`` up to ``stop``, or its end."""

    @abstractmethod
    def tail(self, file: str, count: int) -> bytes:
        """Returns the last ``count`` bytes of a file."""

    @abstractmethod
    def size(self, file: str) -> int:
        """Returns the size of a file in bytes."""

    @abstractmethod
    def local(self, file: str) -> AbstractContextManager[Path]:
        """Yields a local file with the bytes of ``file``, while the context lasts."""

    def has(self, file: str) -> bool:
        """Returns True if the file exists."""
        try:
            self.size(file)
        except FileNotFoundError:
            return False
        return True

    # -- writing -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def make(self) -> None:
        """Creates the folder, if the storage has folders."""

    @abstractmethod
    def create(self, file: str, data: bytes) -> bool:
        """Writes a file durably and returns True, or returns False if it exists. Atomic: of any number of writers one
        wins.
        """

    @abstractmethod
    def replace(self, file: str, data: bytes, durable: bool = True) -> None:
        """Writes a file atomically, replacing an existing one. If not ``durable``, a crash of the host may undo the
        write.
        """

    @abstractmethod
    def publish(self, file: str, write: Callable[[Path], object]) -> None:
        """Writes a large file durably and atomically. ``write`` receives a local path, and writes the file there."""

    @abstractmethod
    def spooled(self, file: str) -> AbstractContextManager[Path]:
        """Yields a local path; the data written there becomes the file, durably, when the context ends.

        If the context ends with an exception, there is no file. The file need not appear atomically: no other writer
        may know its name.
        """

    @abstractmethod
    def adopt(self, files: Iterable[str], source: Folder) -> None:
        """Links or copies files of another folder of the same storage into this one, durably, each atomically.

        The files stay in the other folder, too. A file that exists here is left unchanged. Raises FileNotFoundError,
        whose ``filename`` names the file, if a file is in neither folder.
        """

    @abstractmethod
    def delete(self, files: Iterable[str]) -> None:
        """Deletes files; ignores files that do not exist."""

    @abstractmethod
    def trial(self) -> None:
        """Writes and deletes a file that is not needed. Raises OSError unless the folder can be written, and a file can
        be created only once.
        """
