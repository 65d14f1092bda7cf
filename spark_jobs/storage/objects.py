"""A folder of an object store (S3, Google Cloud Storage, Azure), through ``obstore``.

An object appears completely or not at all, and ``put(mode="create")`` fails if the object exists: that is the atomic
create-if-absent. obstore repeats failed requests for up to three minutes unless configured otherwise; a request that
still fails raises OSError. A repeated create may find the object that its first request has made, so the caller must
compare the contents (``CellLog.publish`` does).
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from typing_extensions import override

from spark_jobs.errors import FolderError
from spark_jobs.storage.address import in_a_line, masked
from spark_jobs.storage.folder import Folder

_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
_RETRY = {"max_retries", "retry_timeout"}
_ACCOUNTS = {"service_account", "service_account_key", "service_account_path", "application_credentials"}
_PREFIX = re.compile(r"(?:aws|azure|google)_(?=(?:" + "|".join(sorted(_CLIENT)) + r")\Z)")
_SAID = re.compile(r"<Code>(\w+)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_METADATA = re.compile(r"://(169\.254\.169\.254|metadata\.google\.internal)/")
_STORE = re.compile(r"\AGeneric \w+ error: ")
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_DELETES = 10
"""The number of files that are deleted concurrently."""
_stores: dict[tuple[int, str, tuple[tuple[str, str], ...]], Any] = {}
"""Connections of this process, by process, bucket and options."""


@dataclass(frozen=True)
class Bucket:
    """A bucket or container: its URI, and the options of every request. Options are never shown."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spool: str | None = None

    def store(self) -> Any:
        """Returns obstore's client, one per process. Raises :class:`FolderError` if obstore rejects the options."""
        key = (os.getpid(), self.uri, tuple(sorted((k, str(v)) for k, v in self.options.items())))
        if key not in _stores:
            _stores[key] = self._connected()
        return _stores[key]

    def _connected(self) -> Any:
        store = _obstore(self.uri).store
        given = {_PREFIX.sub("", name.lower()): value for name, value in self.options.items()}
        client: dict[str, Any] = {name: value for name, value in given.items() if name in _CLIENT}
        for name in ("allow_http", "allow_invalid_certificates"):
            if name in client:
                client[name] = str(client[name]).lower() in ("true", "1", "yes")
        config = {name: value for name, value in given.items() if name not in _CLIENT | _RETRY}
        try:
            retry: dict[str, Any] = {}
            if "max_retries" in given:
                retry["max_retries"] = int(given["max_retries"])
            if "retry_timeout" in given:
                retry["retry_timeout"] = timedelta(seconds=float(given["retry_timeout"]))
            return store.from_url(
                self.uri,
                **({"config": config} if config else {}),
                **({"client_options": client} if client else {}),
                **({"retry_config": retry} if retry else {}),
            )
        except Exception as error:
            raise FolderError(
                f"{self.uri} cannot be reached with these storage_options: {self.reason(error)}; give those that "
                "obstore knows for this store, max_retries, and retry_timeout in seconds"
            ) from None

    def delta_options(self) -> dict[str, str]:
        """Returns the options in the form of deltalake, which uses the same library for stores."""
        found = {name: str(value) for name, value in self.options.items()}
        if "retry_timeout" in found:
            found["retry_timeout"] += "s"
        if self.uri.startswith("s3:"):  # the commit is an object that may be created only once
            found.setdefault("aws_conditional_put", "etag")
        if self.uri.startswith("gs:"):
            given = {name.lower().removeprefix("google_") for name in found}
            known = {name.lower().removeprefix("google_") for name in os.environ if name.startswith("GOOGLE_")}
            if "bearer_token" in given | known and not _ACCOUNTS & (given | known):
                raise FolderError(
                    f"a Delta table in {self.uri} cannot be reached with a bearer token, which deltalake does not "
                    "take: give a service account (google_service_account, or google_service_account_key)"
                )
        return found

    def reason(self, error: BaseException) -> str:
        """Returns the reason of a failed request, in a line without credentials."""
        text = in_a_line(error)
        if _METADATA.search(text):
            return "no credentials are given, in the environment or as storage_options"
        found = _SAID.search(text)
        message = " ".join(filter(None, found.groups())) if found else _STORE.sub("", text)
        for secret in _secrets(self.options):
            message = message.replace(secret, "***")
        return masked(message)[:300].rstrip(". ")


def _secrets(given: Mapping[str, Any]) -> Iterator[str]:
    """Yields the secrets in options, including those inside a Google key, which is JSON."""
    for name, value in given.items():
        text = str(value)
        if len(text) > 3 and re.search("key|secret|token|password|credential|sas|signature", name, re.I):
            yield text
            if text.lstrip().startswith("{"):
                with suppress(ValueError):
                    yield from _secrets(json.loads(text))


class ObjectFolder(Folder):
    """The objects under ``prefix`` in a bucket; ``""`` is the whole bucket."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix

    def __str__(self) -> str:
        return f"{self.bucket.uri}/{self.prefix}" if self.prefix else self.bucket.uri

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFolder) and (other.bucket, other.prefix) == (self.bucket, self.prefix)

    def __hash__(self) -> int:
        return hash((self.bucket.uri, self.prefix))

    @override
    @property
    def name(self) -> str:
        return self.prefix.rpartition("/")[2]

    @override
    @property
    def parent(self) -> ObjectFolder:
        return ObjectFolder(self.bucket, self.prefix.rpartition("/")[0])

    def __truediv__(self, name: str) -> ObjectFolder:
        return ObjectFolder(self.bucket, self._key(name))

    @override
    def at(self, file: str) -> str:
        return f"{self}/{file}"

    def _key(self, file: str) -> str:
        return f"{self.prefix}/{file}" if self.prefix else file

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """Yields the client; turns obstore's errors into OSError with a reason in words."""
        obstore = _obstore(self.bucket.uri)
        store, known = self.bucket.store(), obstore.exceptions
        try:
            yield store
        except (FileNotFoundError, known.NotFoundError) as error:
            if _NO_BUCKET.search(str(error)):
                raise OSError(errno.EIO, f"there is no bucket {self.bucket.uri}") from None
            raise FileNotFoundError(errno.ENOENT, "No such object") from None
        except known.AlreadyExistsError:
            raise FileExistsError(errno.EEXIST, "The object exists") from None
        except (known.PermissionDeniedError, known.UnauthenticatedError, PermissionError) as error:
            raise PermissionError(errno.EACCES, f"not permitted: {self.bucket.reason(error)}") from None
        except (known.BaseError, OSError) as error:
            raise OSError(errno.EIO, self.bucket.reason(error)) from None

    # -- reading -------------------------------------------------------------------------------------------------------

    @override
    def files(self) -> dict[str, int]:
        return {str(meta["path"]).rpartition("/")[2]: int(meta["size"]) for meta in self._listed()["objects"]}

    @override
    def folders(self) -> list[str]:
        return [str(prefix).rstrip("/").rpartition("/")[2] for prefix in self._listed()["common_prefixes"]]

    def _listed(self) -> Any:
        with self._asking() as store:
            return _obstore(self.bucket.uri).list_with_delimiter(store, self.prefix or None)

    @override
    def read(self, file: str, start: int = 0, stop: int | None = None) -> bytes:
        obstore = _obstore(self.bucket.uri)
        with self._asking() as store:
            if stop is not None:
                return bytes(obstore.get_range(store, self._key(file), start=start, end=stop))
            options = {"range": {"offset": start}} if start else None
            return bytes(obstore.get(store, self._key(file), options=options).bytes())

    @override
    def tail(self, file: str, count: int) -> bytes:
        obstore = _obstore(self.bucket.uri)
        with self._asking() as store:
            try:
                found = obstore.get(store, self._key(file), options={"range": {"suffix": count}})
                return bytes(found.bytes())
            except (NotImplementedError, obstore.exceptions.NotSupportedError):  # Azure
                size = int(obstore.head(store, self._key(file))["size"])
                return bytes(obstore.get_range(store, self._key(file), start=max(size - count, 0), end=size))

    @override
    def size(self, file: str) -> int:
        with self._asking() as store:
            return int(_obstore(self.bucket.uri).head(store, self._key(file))["size"])

    @override
    @contextmanager
    def local(self, file: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="crown-", dir=self.bucket.spool, ignore_cleanup_errors=True) as folder:
            path = Path(folder) / file
            with self._asking() as store, path.open("wb") as opened:
                for chunk in _obstore(self.bucket.uri).get(store, self._key(file)).stream():
                    opened.write(chunk)
            yield path

    # -- writing -------------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Does nothing: an object store has no folders."""

    @override
    def create(self, file: str, data: bytes) -> bool:
        try:
            with self._asking() as store:
                _obstore(self.bucket.uri).put(store, self._key(file), data, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    @override
    def replace(self, file: str, data: bytes, durable: bool = True) -> None:
        with self._asking() as store:
            _obstore(self.bucket.uri).put(store, self._key(file), data, use_multipart=False)

    @override
    def publish(self, file: str, write: Callable[[Path], object]) -> None:
        with self.spooled(file) as path:
            write(path)

    @override
    @contextmanager
    def spooled(self, file: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="crown-", dir=self.bucket.spool, ignore_cleanup_errors=True) as folder:
            path = Path(folder) / file
            yield path
            with self._asking() as store:
                _obstore(self.bucket.uri).put(store, self._key(file), path)

    def adopt(self, files: Iterable[str], source: Folder) -> None:
        """Has the store copy the files; their bytes are not read here."""
        assert isinstance(source, ObjectFolder), "folders of one storage"
        for file in files:
            try:
                with self._asking() as store:
                    _obstore(self.bucket.uri).copy(store, source._key(file), self._key(file))
            except FileNotFoundError as error:
                if not self.has(file):
                    raise FileNotFoundError(error.errno, error.strerror, file) from None

    def delete(self, files: Iterable[str]) -> None:
        """Deletes files. Each file has a request of its own, and all requests have ended when this method returns.

        On some stores, one request for several files stops at the first file that does not exist while the other
        deletions are still running. These would delete files that are written under the same names afterwards.
        """
        with ThreadPoolExecutor(_DELETES) as pool:
            for _ in pool.map(self._delete, files):
                pass

    def _delete(self, file: str) -> None:
        with suppress(FileNotFoundError), self._asking() as store:
            _obstore(self.bucket.uri).delete(store, self._key(file))

    @override
    def trial(self) -> None:
        name = f".trial-{uuid.uuid4().hex}"
        try:
            created = self.create(name, b"crown")
            if self.create(name, b"crown again"):
                raise OSError(errno.ENOTSUP, "this store overwrites an object that must be created only once")
        finally:
            self.delete([name])
        if not created:
            raise OSError(errno.EIO, "the store reported that a new object already existed")


def _obstore(uri: str) -> Any:
    """Returns the module ``obstore``. Raises :class:`FolderError` if it is not installed."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise FolderError(
            f"{uri} is on an object store, and the package obstore is not installed: pip install 'crown-ivm[spark]'"
        ) from None
    return obstore
