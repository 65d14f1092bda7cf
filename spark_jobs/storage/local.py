"""A folder on a local file system: local disks, and mounted ones with hard links (NFS)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from typing_extensions import override

from crown.durable.files import PRIVATE, create_durably, sync, write_durably
from crown.store.words_file import temporary
from spark_jobs.storage.folder import Folder


class LocalFolder(Folder):
    """The folder ``path``. Data is on disk when a method returns, and readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFolder) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    @override
    @property
    def name(self) -> str:
        return self.path.name

    @override
    @property
    def parent(self) -> LocalFolder:
        return LocalFolder(self.path.parent)

    def __truediv__(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    @override
    def at(self, file: str) -> str:
        return str(self.path / file)

    # -- reading -------------------------------------------------------------------------------------------------------

    @override
    def files(self) -> dict[str, int]:
        return {entry.name: entry.stat().st_size for entry in self._entries() if entry.is_file()}

    @override
    def folders(self) -> list[str]:
        return [entry.name for entry in self._entries() if entry.is_dir()]

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    @override
    def read(self, file: str, start: int = 0, stop: int | None = None) -> bytes:
        with open(self.path / file, "rb") as opened:
            opened.seek(start)
            return opened.read() if stop is None else opened.read(stop - start)

    @override
    def tail(self, file: str, count: int) -> bytes:
        with open(self.path / file, "rb") as opened:
            opened.seek(max(opened.seek(0, os.SEEK_END) - count, 0))
            return opened.read(count)

    @override
    def size(self, file: str) -> int:
        try:
            return (self.path / file).stat().st_size
        except NotADirectoryError as error:
            raise FileNotFoundError(error.errno, error.strerror, str(self.path / file)) from None

    @override
    @contextmanager
    def local(self, file: str) -> Iterator[Path]:
        yield self.path / file

    # -- writing -------------------------------------------------------------------------------------------------------

    @override
    def make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @override
    def create(self, file: str, data: bytes) -> bool:
        return create_durably(self.path / file, data)

    @override
    def replace(self, file: str, data: bytes, durable: bool = True) -> None:
        if durable:
            write_durably(self.path / file, data)
            return
        with temporary(self.path / file) as partial:
            with open(partial, "xb") as opened:
                os.fchmod(opened.fileno(), PRIVATE)
                opened.write(data)
            os.replace(partial, self.path / file)

    @override
    def publish(self, file: str, write: Callable[[Path], object]) -> None:
        with temporary(self.path / file) as partial:
            write(partial)
            os.chmod(partial, PRIVATE)
            os.replace(partial, self.path / file)
        sync(self.path)

    @override
    @contextmanager
    def spooled(self, file: str) -> Iterator[Path]:
        path = self.path / file
        self.path.mkdir(exist_ok=True)
        try:
            yield path
            sync(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def adopt(self, files: Iterable[str], source: Folder) -> None:
        """Creates hard links to the files."""
        assert isinstance(source, LocalFolder), "folders of one storage"
        for file in files:
            try:
                with suppress(FileExistsError):
                    os.link(source.path / file, self.path / file)
            except FileNotFoundError as error:
                if not (self.path / file).exists():
                    raise FileNotFoundError(error.errno, error.strerror, file) from None
        sync(self.path)

    @override
    def delete(self, files: Iterable[str]) -> None:
        for file in files:
            (self.path / file).unlink(missing_ok=True)

    @override
    def trial(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.path):
            pass
