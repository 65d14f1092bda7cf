"""Parses every address that a user writes: a local path, or the URI of an object store.

URIs must not carry credentials: a user name with a password, or a query, is refused, and never shown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from crown.guards.arguments import path_of
from spark_jobs.errors import FolderError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_USER = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s]*@")
_QUERY = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]+://[^\s?]*)\?[^\s'\")]*")
_KEY = re.compile(r"\{[^{}]*private_key.*|-----BEGIN.*", re.S)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STORES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Schemes of object stores that have an atomic create, with obstore's names for them."""


@dataclass(frozen=True)
class Address:
    """A place on an object store: ``bucket`` with its scheme, and the ``prefix`` of the place in it."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket


def masked(text: str) -> str:
    """Returns a text in which no URI has a password or a query, and without the private key of a service account."""
    return _KEY.sub("***", _QUERY.sub(r"\1?...", _USER.sub("...@", text)))


def in_a_line(error: BaseException) -> str:
    """Returns the error of a library for object stores, whose causes are on lines of their own, as one line without
    credentials.
    """
    message = _COLOUR.sub("", str(error)).partition("\n\nDebug source")[0]
    lines = (line.strip().removeprefix("↳").strip() for line in masked(message).splitlines())
    return ": ".join(filter(None, lines)) or repr(error)


def scheme_of(path: str) -> str | None:
    """Returns the scheme of a URI of another file system than this host's; None for a path or a ``file:`` URI."""
    found = _SCHEME.match(path)
    return None if found is None or found[1].lower() == "file" else found[1]


def address(place: str | Path, option: str) -> Path | Address:
    """Returns the place as a local path, or as an address on an object store. ``option``: the user's name for the
    place.

    Raises :class:`FolderError` for anything else, with the reason. A text such as ``s3a:`` is never taken for a
    folder's name.
    """
    if not isinstance(place, (str, os.PathLike)):
        raise FolderError(f"{option} is the path or the URI of a folder, not {place!r:.100}")
    text = str(place)
    scheme = scheme_of(text)
    if scheme is None:
        return _local(text, option)
    if scheme.lower() not in _STORES:
        raise FolderError(
            f"{option} {masked(text)}: {scheme}: is not supported, because state needs files that only one of several "
            "writers can create, which pyarrow's file systems, such as HDFS, do not offer; give a local or "
            f"network-mounted folder, or s3://, gs:// or az:// ({masked('./' + text)} if a folder is called so)"
        )
    parts = urlparse(text)
    if ":" in parts.netloc.rpartition("@")[0] or parts.query or parts.fragment:
        raise FolderError(
            f"{option} {masked(text)}: credentials and settings do not belong in a URI, which others can see; set "
            "them in the environment, or as storage_options="
        )
    if not parts.netloc or not text.lower().startswith(f"{scheme.lower()}://"):
        raise FolderError(f"{option} {masked(text)}: this URI names no bucket; write {scheme}://bucket/folder")
    prefix = "/".join(part for part in unquote(parts.path).split("/") if part)
    if any(part in (".", "..") for part in prefix.split("/")):
        raise FolderError(f"{option} {masked(text)}: . and .. are not folders of a bucket; leave them out")
    return Address(f"{_STORES[scheme.lower()]}://{parts.netloc}", prefix)


def _local(text: str, option: str) -> Path:
    if _SCHEME.match(text) is None:
        return path_of(text, option).resolve()
    parts = urlparse(text)
    if parts.netloc not in ("", "localhost"):
        raise FolderError(
            f"{option} {text}: a file: URI names a folder of this host, but this one names the host {parts.netloc}; "
            "write file:///folder"
        )
    return Path(unquote(parts.path)).resolve()
