"""Hands over from a load to a stream without gap or overlap: both use one stored position of the source.

    source ──up to the position──→ tables  → bulk_load ─┐
           ──after the position──→ changes → maintain  ─┴→ one checkpoint

The position is stored in the checkpoint, ``crown/handover.json``, before anything is read. So a repeated load reads the
same rows, and the stream begins where the load ended, even if the source is written meanwhile.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from typing_extensions import override

from spark_jobs import cluster
from spark_jobs.errors import ANEW, CheckpointError, SourceError
from spark_jobs.feeds.delta import delta_changes, delta_table, delta_version
from spark_jobs.log.state_location import HANDOVER, HERE
from spark_jobs.storage.address import masked
from spark_jobs.storage.opening import ensure_writable, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Feed(Protocol):
    """A source with positions: it can be read up to a position, and after it."""

    def named(self) -> str:
        """Returns a text that identifies the source, for the checkpoint."""

    def position(self, spark: SparkSession) -> Any:
        """Returns the newest position of the source, as a value that JSON can represent."""

    def table(self, spark: SparkSession, position: Any) -> DataFrame:
        """Returns the rows up to a position, as a batch DataFrame."""

    def changes(self, spark: SparkSession, position: Any) -> DataFrame:
        """Returns the changes after a position, as a stream."""


@dataclass(frozen=True)
class DeltaFeed(Feed):
    """A Delta table with a change data feed; its positions are versions. ``versions``: maximum per micro-batch."""

    path: str
    versions: int | None = None

    @override
    def named(self) -> str:
        return masked(self.path)

    @override
    def position(self, spark: SparkSession) -> int:
        return delta_version(self.path)

    @override
    def table(self, spark: SparkSession, position: Any) -> DataFrame:
        return delta_table(spark, self.path, int(position))

    @override
    def changes(self, spark: SparkSession, position: Any) -> DataFrame:
        return delta_changes(spark, self.path, after=int(position), versions=self.versions)


@dataclass(frozen=True)
class KafkaFeed(Feed):
    """Kafka topics; a position is the offset of every partition. ``options``: options of Spark's source.

    The frames have Spark's columns (``value``, ``topic``, ...): parse or ``split`` both frames in the same way.
    """

    options: Mapping[str, str] = field(repr=False)

    @override
    def named(self) -> str:
        topics = {name: self.options[name] for name in sorted(self.options) if name.startswith(("subscribe", "assign"))}
        if not topics:
            raise SourceError("a KafkaFeed needs topics: give one of the options subscribe, subscribePattern or assign")
        return f"kafka {json.dumps(topics)}"

    def position(self, spark: SparkSession) -> dict[str, dict[str, int]]:
        """Returns the newest offsets. Spark's own source writes them to a temporary checkpoint; no record is read."""
        if cluster.remote(spark):
            raise SourceError(
                "the offsets of Kafka cannot be read through Spark Connect: call handover() in a classic session first"
            )
        with tempfile.TemporaryDirectory(prefix="crown-offsets-") as folder:
            try:
                frame = self._reader(spark.readStream).option("startingOffsets", "latest").load()
                writer = frame.writeStream.format("noop").option("checkpointLocation", f"file://{folder}")
                writer.trigger(availableNow=True).start().awaitTermination()
            except PySparkException as error:
                reason = str(error).splitlines()[0][:300]
                raise SourceError(
                    f"the topics of {self.named()} cannot be read ({reason}): check that the broker can be reached, "
                    "and that the session has Spark's package for Kafka"
                ) from None
            offsets = (Path(folder) / "sources" / "0" / "0").read_bytes()
            return dict(json.loads(offsets[offsets.index(b"{") :]))

    @override
    def table(self, spark: SparkSession, position: Any) -> DataFrame:
        reader = self._reader(spark.read).option("startingOffsets", "earliest")
        return reader.option("endingOffsets", json.dumps(position)).load()

    @override
    def changes(self, spark: SparkSession, position: Any) -> DataFrame:
        return self._reader(spark.readStream).option("startingOffsets", json.dumps(position)).load()

    def _reader(self, reader: Any) -> Any:
        given = {name: value for name, value in self.options.items() if name.lower() not in _OFFSETS}
        return reader.format("kafka").options(**given)


_OFFSETS = ("startingoffsets", "endingoffsets")


@dataclass(frozen=True)
class Handover:
    """``tables``: batch DataFrames up to the ``positions``; ``changes``: streams of the changes after them. Keyed by
    feed.
    """

    positions: Mapping[str, Any]
    tables: Mapping[str, DataFrame]
    changes: Mapping[str, DataFrame]


def handover(
    spark: SparkSession,
    feeds: Mapping[str, Feed],
    *,
    checkpoint: str,
    storage_options: Mapping[str, str] | None = None,
) -> Handover:
    """Returns the tables to load and the streams that continue after them, for each ``DeltaFeed`` and ``KafkaFeed``.

    The first call stores the newest position of every feed in ``checkpoint``. Later calls, also in another process,
    return frames of the same positions. Pass ``tables`` to ``bulk_load`` and ``changes`` to ``maintain``, with this
    checkpoint: no change is in both or in neither. The names of the feeds are the relations, or names from which you
    make relations.

    Raises :class:`CheckpointError` if the checkpoint was started with other feeds, and :class:`SourceError`. Every feed
    is asked for its position once; nothing is read.
    """
    if not feeds:
        raise SourceError("no feeds are given: pass a DeltaFeed or KafkaFeed by name")
    folder = folder_at(checkpoint, "checkpoint", storage_options)
    here = folder / HERE
    named = {name: feed.named() for name, feed in feeds.items()}
    try:
        ensure_writable(folder, "checkpoint")
        if not here.has(HANDOVER):
            found = {name: {"feed": named[name], "position": feed.position(spark)} for name, feed in feeds.items()}
            here.make()  # if another process was first, its positions count
            here.create(HANDOVER, json.dumps(found, sort_keys=True).encode())
        noted = json.loads(here.read(HANDOVER))
        positions = {name: each["position"] for name, each in noted.items()}
        known = {name: str(each["feed"]) for name, each in noted.items()}
    except OSError as error:
        raise CheckpointError(f"cannot use {here.at(HANDOVER)}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"{here.at(HANDOVER)} is damaged, so the versions that the state has are not known: restore it from a "
            f"copy, or {ANEW}"
        ) from None
    if known != named:
        differs = sorted(name for name in {*known, *named} if known.get(name) != named.get(name))[0]
        raise CheckpointError(
            f"the checkpoint {folder} hands over from {differs} = {known.get(differs, 'nothing')}, and now it is "
            f"{named.get(differs, 'nothing')}: give the same feeds, or {ANEW}"
        )
    return Handover(
        positions,
        {name: feed.table(spark, positions[name]) for name, feed in feeds.items()},
        {name: feed.changes(spark, positions[name]) for name, feed in feeds.items()},
    )
