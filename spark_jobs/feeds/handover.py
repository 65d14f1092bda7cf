"""Hands over from a load to a stream without gap or overlap: both use one noted position of the source.

    source ──up to the position──→ tables  → bulk_load ─┐
           ──after the position──→ changes → maintain  ─┴→ one checkpoint

The position is in the checkpoint, ``crown/handover.json``, made before anything is read. So a load that is repeated
reads the same rows, and the stream begins where the load ended, however much was written meanwhile.
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
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.feeds.delta import delta_changes, delta_table, delta_version
from spark_jobs.log.state_location import HANDOVER, HERE
from spark_jobs.storage.address import masked
from spark_jobs.storage.opening import folder_at, ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Feed(Protocol):
    """A source that has positions: what there is up to one, and what comes after it."""

    def named(self) -> str:
        """Returns which source it is, for the checkpoint."""

    def position(self, spark: SparkSession) -> Any:
        """Returns the position of the newest that there is now, as JSON can hold it."""

    def table(self, spark: SparkSession, position: Any) -> DataFrame:
        """Returns what there is up to a position, as a batch DataFrame."""

    def changes(self, spark: SparkSession, position: Any) -> DataFrame:
        """Returns what comes after a position, as a stream."""


@dataclass(frozen=True)
class DeltaFeed(Feed):
    """A Delta table with a change data feed; its positions are versions. ``versions``: at most, per micro-batch."""

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
    """Topics of Kafka; a position is the offset of every partition. ``options``: those of Spark's source.

    The frames have Spark's columns (``value``, ``topic``, ...): parse them, or ``split`` them, the same way twice.
    """

    options: Mapping[str, str] = field(repr=False)

    @override
    def named(self) -> str:
        said = {name: self.options[name] for name in sorted(self.options) if name.startswith(("subscribe", "assign"))}
        if not said:
            raise SourceError("options of a KafkaFeed: say which topics, with subscribe, subscribePattern or assign")
        return f"kafka {json.dumps(said)}"

    def position(self, spark: SparkSession) -> dict[str, dict[str, int]]:
        """Asks Spark's own source, which notes where it would begin; reads no record."""
        if cluster.remote(spark):
            raise SourceError(
                "the offsets of Kafka cannot be asked through Spark Connect: call handover() in a classic session first"
            )
        with tempfile.TemporaryDirectory(prefix="crown-offsets-") as folder:
            try:
                frame = self._reader(spark.readStream).option("startingOffsets", "latest").load()
                writer = frame.writeStream.format("noop").option("checkpointLocation", f"file://{folder}")
                writer.trigger(availableNow=True).start().awaitTermination()
            except PySparkException as error:
                said = str(error).splitlines()[0][:300]
                raise SourceError(
                    f"the topics of {self.named()} cannot be read ({said}): see that the broker can be reached, and "
                    "that the session has Spark's package for Kafka"
                ) from None
            told = (Path(folder) / "sources" / "0" / "0").read_bytes()
            return dict(json.loads(told[told.index(b"{") :]))

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
    """``tables``: batch DataFrames up to the ``positions``; ``changes``: streams of what comes after. By feed."""

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
    """Returns what to load and the stream that goes on after it, of ``DeltaFeed`` and ``KafkaFeed``.

    The first call notes in ``checkpoint`` where every feed is now; later ones, also of another process, give frames of
    the same positions. So give ``tables`` to ``bulk_load`` and ``changes`` to ``maintain``, with this checkpoint: no
    change is in both or in neither. The names are the relations, or what you make relations of.

    Raises :class:`CheckpointError` if the checkpoint has been begun with other feeds, and :class:`SourceError`. Every
    feed is asked for its position once; nothing is read.
    """
    if not feeds:
        raise SourceError("no feeds are given: pass a DeltaFeed or KafkaFeed by name")
    folder = folder_at(checkpoint, "checkpoint", storage_options)
    here = folder / HERE
    named = {name: feed.named() for name, feed in feeds.items()}
    try:
        ready(folder, "checkpoint")
        if not here.has(HANDOVER):
            found = {name: {"feed": named[name], "position": feed.position(spark)} for name, feed in feeds.items()}
            here.make()  # if another was first, its positions count
            here.create(HANDOVER, json.dumps(found, sort_keys=True).encode())
        noted = json.loads(here.read(HANDOVER))
        positions = {name: each["position"] for name, each in noted.items()}
        known = {name: str(each["feed"]) for name, each in noted.items()}
    except OSError as error:
        raise CheckpointError(f"cannot use {here.at(HANDOVER)}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{here.at(HANDOVER)} is damaged: put it back, or begin with a new checkpoint") from None
    if known != named:
        differs = sorted(name for name in {*known, *named} if known.get(name) != named.get(name))[0]
        raise CheckpointError(
            f"the checkpoint {folder} hands over from {differs} = {known.get(differs, 'nothing')}, and now it is "
            f"{named.get(differs, 'nothing')}: give the same feeds, or a new checkpoint"
        )
    return Handover(
        positions,
        {name: feed.table(spark, positions[name]) for name, feed in feeds.items()},
        {name: feed.changes(spark, positions[name]) for name, feed in feeds.items()},
    )
