"""Where a result is kept, as one text: a folder, or what names a table elsewhere and can say its key, too.

- a folder, or ``s3://``, ``gs://``, ``az://``: a Delta table
- ``postgresql://user@host/database?table=totals&key=shop``
- ``kafka://host:9092,host2:9092/topic?key=shop``
- ``iceberg:CATALOG.NAMESPACE.TABLE?key=shop``

What else a URL asks is a setting of its client: ``&sslmode=require``, ``&security.protocol=SSL``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from spark_jobs.errors import SourceError
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.iceberg import IcebergResult
from spark_jobs.tables.kafka import KafkaResult
from spark_jobs.tables.merge import DeltaResult
from spark_jobs.tables.net import Net
from spark_jobs.tables.postgres import PostgresResult

_KEY = re.compile("[?&]key=")
_POSTGRES, _KAFKA, _ICEBERG = ("postgresql", "postgres"), "kafka", "iceberg:"


class Target(Protocol):
    """A table that holds a result."""

    def apply(self, stream: str, batch: int, net: Net) -> bool:
        """Applies a batch of a stream, which follows the one applied last, in one transaction.

        False if it was applied before: nothing happens then. Raises ``CheckpointError`` and its kin if the table is
        another stream's, lacks batches or cannot be written, and ``SparkJobError`` if the batch does not fit it.
        """
        ...


@dataclass(frozen=True)
class Place:
    """A place: its name, without credentials; the columns of the key, None if it does not say; how it is reached."""

    name: str
    keys: tuple[str, ...] | None
    needs_key: bool
    target: Callable[[], Target]

    @property
    def table(self) -> str:
        """Returns what tells its table from any other: the name without the key."""
        return self.name if self.keys is None else _KEY.split(self.name)[0]


def place_at(given: str, table: str | None = None, storage_options: Mapping[str, str] | None = None) -> Place:
    """Returns the place that a text names. Nothing is asked for until its target is.

    ``table``: of a database, if the URL does not say it; ``storage_options``: obstore's, of an object store. Raises
    SourceError for what is no place, and FolderError for what is no folder.
    """
    if not isinstance(given, str):
        raise SourceError(
            "a result is kept in the folder of a table, postgresql://..., kafka://... or iceberg:..., not "
            f"{given!r:.100}"
        )
    if given.startswith(_ICEBERG):
        return _in_iceberg(given, table)
    scheme = given.partition("://")[0] if "://" in given else ""
    if scheme != _KAFKA and scheme not in _POSTGRES:
        if table is not None:
            raise SourceError(f"table={table!r} is for a database: leave it out for the folder {given}")
        folder = folder_at(given, "target", storage_options)
        return Place(str(folder), None, False, partial(DeltaResult, folder))
    parts = urlsplit(given)
    asked = dict(parse_qsl(parts.query))
    keys = tuple(asked.pop("key").split(",")) if "key" in asked else None
    key = f"&key={','.join(keys)}" if keys else ""
    hosts = parts.netloc.rpartition("@")[2]
    if scheme == _KAFKA:
        topic = unquote(parts.path.strip("/"))
        if not (hosts and topic) or table is not None or hosts != parts.netloc:
            raise SourceError(
                "write kafka://host:9092/topic?key=a,b, and behind it what its client needs besides, such as "
                "&security.protocol=SSL&sasl.username=name"
            )
        name = f"kafka://{hosts}/{topic}" + key.replace("&", "?")
        return Place(name, keys, True, _once(partial(KafkaResult, hosts, topic, asked)))
    table = asked.pop("table", table)
    if table is None:
        raise SourceError("a database needs table=: the table that holds the result")
    conninfo = f"{scheme}://{parts.netloc}{parts.path}" + (f"?{urlencode(asked, quote_via=quote)}" if asked else "")
    name = f"postgresql://{hosts}{parts.path}?table={table}{key}"
    return Place(name, keys, False, partial(PostgresResult, conninfo, table))


def _in_iceberg(given: str, table: str | None) -> Place:
    name, _, asked = given.removeprefix(_ICEBERG).partition("?")
    known = dict(parse_qsl(asked))
    keys = tuple(known.pop("key").split(",")) if "key" in known else None
    if name.count(".") < 2 or known or table is not None:
        raise SourceError(
            f"{given}: write iceberg:CATALOG.NAMESPACE.TABLE, with a catalog of pyiceberg's, or "
            "iceberg:CATALOG.NAMESPACE.TABLE?key=a,b"
        )
    return Place(given, keys, False, partial(IcebergResult, name))


def _once(made: Callable[[], Target]) -> Callable[[], Target]:
    """Returns a function that makes a target at its first call: a connection to brokers is worth keeping."""
    return cache(made)
