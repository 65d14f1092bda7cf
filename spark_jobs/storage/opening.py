"""Opens the folder at an address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spark_jobs.errors import FolderError
from spark_jobs.storage.address import Address, address
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.objects import Bucket, ObjectFolder

Options = Mapping[str, str]


def folder_at(
    place: str | Path | Folder, option: str = "checkpoint", options: Options | None = None, spool: str | None = None
) -> Folder:
    """Returns the folder at a path or URI; returns a folder unchanged. Creates nothing, and sends no request.

    ``options``: obstore's options for an object store (credentials, endpoint, region, timeouts, max_retries,
    retry_timeout); options that are not given are taken from the environment. ``spool``: a local folder through which
    large objects pass. Raises :class:`FolderError`.
    """
    if isinstance(place, Folder):
        return place
    where = address(place, option)
    if isinstance(where, Address):
        return ObjectFolder(Bucket(where.bucket, dict(options or {}), spool), where.prefix)
    return LocalFolder(where)


def ensure_writable(folder: Folder, option: str) -> None:
    """Creates the folder if it does not exist. Raises :class:`FolderError` if that fails, or if the folder cannot be
    written.
    """
    try:
        folder.trial()
    except (FileExistsError, NotADirectoryError):
        raise FolderError(f"{option} {folder}: it is a file, or below one; give a folder") from None
    except OSError as error:
        raise FolderError(f"{option} {folder} cannot be written ({error.strerror}): give another folder") from None
