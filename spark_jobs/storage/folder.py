"""The protocol of storage: folders of small and large files, each published atomically.

A folder is known by where it is. It need not be made before a file is: object stores have no folders. All methods raise
OSError, whose ``strerror`` is a reason in words, when the storage cannot do what it should; ``FileNotFoundError`` means
that a file is surely not there, and nothing else does. So a storage that cannot be reached is never taken for an empty
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path


class Folder(ABC):
    """A folder: ``name`` is its own, ``parent`` the folder it is in, ``str()`` where it is, for people."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Returns the last part of where it is."""

    @property
    @abstractmethod
    def parent(self) -> Folder:
        """Returns the folder that this one is in."""

    @abstractmethod
    def __truediv__(self, name: str) -> Folder:
        """Returns the folder of that name in this one; ``a/b`` is two folders down."""

    @abstractmethod
    def at(self, file: str) -> str:
        """Returns where a file of the folder is, for people."""

    # -- reading -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def files(self) -> dict[str, int]:
        """Returns the files of the folder with their sizes; none if there is no such folder. O(files)."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Returns the names of the folders in it. O(entries)."""

    @abstractmethod
    def read(self, file: str, start: int = 0, stop: int | None = None) -> bytes:
        """Returns the bytes of a file from ``start`` up to ``stop``, or its end."""

    @abstractmethod
    def tail(self, file: str, count: int) -> bytes:
        """Returns the last ``count`` bytes of a file."""

    @abstractmethod
    def size(self, file: str) -> int:
        """Returns the bytes of a file."""

    @abstractmethod
    def local(self, file: str) -> AbstractContextManager[Path]:
        """Yields a file of this host with the bytes of ``file``, for as long as the context lasts."""

    def has(self, file: str) -> bool:
        """Returns True if the file is there."""
        try:
            self.size(file)
        except FileNotFoundError:
            return False
        return True

    # -- writing -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def make(self) -> None:
        """Makes the folder, if that is anything to make."""

    @abstractmethod
    def create(self, file: str, data: bytes) -> bool:
        """Writes a file durably, unless it is there: then returns False. Atomic: of any number of writers one wins."""

    @abstractmethod
    def replace(self, file: str, data: bytes, durable: bool = True) -> None:
        """Writes a file in one step, whether it is there or not; not ``durable``: a crash of the host may undo that."""

    @abstractmethod
    def publish(self, file: str, write: Callable[[Path], object]) -> None:
        """Writes a large file durably, in one step. ``write`` is given a path of this host, and writes the file
        there."""

    @abstractmethod
    def spooled(self, file: str) -> AbstractContextManager[Path]:
        """Yields a path of this host; what is written there is the file, durably, when the context ends.

        If the context is left by an exception there is no file. The file need not appear in one step: its name must be
        one that no other writer knows.
        """

    @abstractmethod
    def adopt(self, files: Iterable[str], source: Folder) -> None:
        """Gives files of another folder of the same storage their places in this one, durably, each in one step.

        They stay in the other folder, too. A file that is here already stays what it is. Raises FileNotFoundError,
        whose ``filename`` says which, for one that is in neither folder.
        """

    @abstractmethod
    def delete(self, files: Iterable[str]) -> None:
        """Deletes files; one that is not there is none to delete."""

    @abstractmethod
    def trial(self) -> None:
        """Writes a file that is not needed, and deletes it: raises OSError unless the folder can be written, and a file
        created once only."""
