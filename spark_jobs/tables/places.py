"""Parses the address of a result's table: a folder, or the URI of a table elsewhere, optionally with its key.

- a folder, or ``s3://``, ``gs://``, ``az://``: a Delta table; ``folder?key=shop``
- ``postgresql://user@host/database?table=totals&key=shop``
- ``kafka://host:9092,host2:9092/topic?key=shop``
- ``iceberg:CATALOG.NAMESPACE.TABLE?key=shop``

Other parameters of a URL are settings of its client: ``&sslmode=require``, ``&security.protocol=SSL``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from spark_jobs.errors import SourceError
from spark_jobs.ingest.names import key_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.results.iceberg import IcebergResult
from spark_jobs.tables.results.kafka import KafkaResult
from spark_jobs.tables.results.merge import DeltaResult
from spark_jobs.tables.results.net import Net
from spark_jobs.tables.results.postgres import PostgresResult

_KEY = re.compile("[?&]key=")
_OF_AVRO = {"format", "schema.registry.url"}
"""What no setting of a client of Kafka is called: other programs take it for Avro."""
_POSTGRES, _KAFKA, _ICEBERG = ("postgresql", "postgres"), "kafka", "iceberg:"


class Target(Protocol):
    """A table that holds a result."""

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the table; −1 if there is none. Raises ``CheckpointError`` or a
        subclass if the table belongs to another stream or cannot be read.
        """
        ...

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Applies a batch of a stream, which follows the batch applied last, in one transaction.

        ``after``: the batch that was applied last, if it is not the preceding number: ``net`` rolls the table back.
        Returns False, and does nothing, if the batch was applied before. Raises ``CheckpointError`` or a subclass if
        the table belongs to another stream, lacks batches or cannot be written, and ``SparkJobError`` if the batch does
        not fit the table.
        """
        ...


@dataclass(frozen=True)
class Place:
    """The place of a table: its name, without credentials; the columns of the key, None if the name does not contain
    them; whether a key is needed; a function that opens the table; its folder, None for a table elsewhere.
    """

    name: str
    keys: tuple[str, ...] | None
    needs_key: bool
    target: Callable[[], Target]
    folder: Folder | None = None

    @property
    def table(self) -> str:
        """Returns the identity of the table: the name without the key."""
        return self.name if self.keys is None else _KEY.split(self.name)[0]


def place_at(given: str, table: str | None = None, storage_options: Mapping[str, str] | None = None) -> Place:
    """Returns the place that a text names. No request is sent until its target is opened.

    ``table``: of a database, if the URL does not contain it; ``storage_options``: options of obstore. Raises
    SourceError for an invalid place, and FolderError for an invalid folder.
    """
    if not isinstance(given, str):
        raise SourceError(
            "a result is written to the folder of a table, postgresql://..., kafka://... or iceberg:..., not "
            f"{given!r:.100}"
        )
    if given.startswith(_ICEBERG):
        return _in_iceberg(given, table)
    scheme = given.partition("://")[0] if "://" in given else ""
    if scheme != _KAFKA and scheme not in _POSTGRES:
        if table is not None:
            raise SourceError(f"table={table!r} is for a database: leave it out for the folder {given}")
        path, said, key = given.partition("?key=")
        folder = folder_at(path, "target", storage_options)
        columns = key_of(key, path) if said else None
        return Place(f"{folder}{said}{key}", columns, False, partial(DeltaResult, folder), folder)
    parts = urlsplit(given)
    hosts = parts.netloc.rpartition("@")[2]
    asked = _asked(parts.query, f"{scheme}://{hosts}{parts.path}")
    keys = key_of(asked.pop("key"), f"{scheme}://{hosts}{parts.path}") if "key" in asked else None
    key = f"&key={','.join(keys)}" if keys else ""
    if scheme == _KAFKA:
        topic = unquote(parts.path.strip("/"))
        if not (hosts and topic) or table is not None or hosts != parts.netloc:
            raise SourceError(
                "write kafka://host:9092/topic?key=a,b, followed by settings of its client, such as "
                "&security.protocol=SSL&sasl.username=name"
            )
        avro = _OF_AVRO.intersection(asked)
        if avro:
            raise SourceError(
                f"kafka://{hosts}/{topic}: the records are JSON: leave out {min(avro)}=, and have Kafka Connect "
                "or a reader convert them"
            )
        name = f"kafka://{hosts}/{topic}" + key.replace("&", "?")
        return Place(name, keys, True, _once(partial(KafkaResult, hosts, topic, asked)))
    table = asked.pop("table", table)
    if not table:
        raise SourceError("a database needs table=: the table that holds the result")
    conninfo = f"{scheme}://{parts.netloc}{parts.path}" + (f"?{urlencode(asked, quote_via=quote)}" if asked else "")
    name = f"postgresql://{hosts}{parts.path}?table={table}{key}"
    return Place(name, keys, False, partial(PostgresResult, conninfo, table))


def _in_iceberg(given: str, table: str | None) -> Place:
    name, _, asked = given.removeprefix(_ICEBERG).partition("?")
    known = _asked(asked, _ICEBERG + name)
    keys = key_of(known.pop("key"), _ICEBERG + name) if "key" in known else None
    if name.count(".") < 2 or known or table is not None:
        raise SourceError(
            f"{given}: write iceberg:CATALOG.NAMESPACE.TABLE, with a catalog of pyiceberg's, or "
            "iceberg:CATALOG.NAMESPACE.TABLE?key=a,b"
        )
    return Place(given, keys, False, partial(IcebergResult, name))


def _asked(query: str, where: str) -> dict[str, str]:
    """Returns the parameters of a URL. Raises SourceError for a parameter that occurs twice, because one of them would
    be dropped.
    """
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise SourceError(f"{where}: it has {name}= twice; give it once, the columns of a key as key=a,b")
        found[name] = value
    return found


def _once(made: Callable[[], Target]) -> Callable[[], Target]:
    """Returns a function that creates a target at its first call and caches it, to keep a connection to brokers."""
    return cache(made)
