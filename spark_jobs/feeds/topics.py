"""Kafka topics as inputs of a job: their options on the command line, and their change frames.

The records are Debezium's envelopes as JSON texts, of one table or of several (``spark_jobs.feeds.split``). Spark's own
source reads them; the session needs Spark's package for Kafka. Offsets are in Spark's checkpoint, like those of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from plans.schema import Schema
from spark_jobs.errors import SourceError
from spark_jobs.feeds.split import RAISE, split

_OURS = ("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class Topics:
    """Topics of the brokers ``servers``, split ``into`` relations: by relation, its tables.

    ``settings``: options of Spark's source, and, with names that begin with ``kafka.``, of its client. They may contain
    passwords, so they are never shown.
    """

    servers: str
    topics: tuple[str, ...]
    into: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        servers: str,
        topics: Iterable[str],
        relations: Iterable[str],
        tables: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        config: str | None = None,
    ) -> Topics:
        """Returns the topics that the command's options describe: brokers, topics, declared relations that are not read
        from other inputs, ``NAME=TABLE,TABLE`` for relations whose tables have other names, settings, and a properties
        file of the client.

        Raises :class:`SourceError`.
        """
        names = tuple(name for given in topics for name in given.split(",") if name.strip())
        if not names:
            raise SourceError("--kafka names the brokers: give the topics to read, too, with --topic NAME")
        into: dict[str, tuple[str, ...]] = {name: (name,) for name in relations}
        own = {name.lower(): name for name in into}
        for text in tables:
            name, equals, listed = text.partition("=")
            found = tuple(table.strip() for table in listed.split(",") if table.strip())
            if not equals or not found:
                raise SourceError(f"--table {text!r}: give RELATION=TABLE, or several tables with commas")
            if name.lower() not in own:
                known = ", ".join(into) or "none"
                raise SourceError(
                    f"--table {text!r}: {name!r} is not a relation of the topics; --schema declares {known}"
                )
            into[own[name.lower()]] = found
        if not into:
            raise SourceError("the values of a topic have no types: declare the relations in it, --schema 'r(...)'")
        every = {**(_properties(config) if config is not None else {}), **(settings or {})}
        if clash := [name for name in every if name in _OURS]:
            raise SourceError(f"{clash[0]} is set by --kafka and --topic: leave it out of the settings")
        return Topics(servers, names, into, every)

    def options(self, most: int) -> dict[str, str]:
        """Returns the options of Spark's source. ``most``: records per micro-batch, unless the settings contain another
        number.

        A new job reads from the beginning, because its result would lack the earlier changes otherwise.
        """
        own = {"kafka.bootstrap.servers": self.servers, "subscribe": ",".join(self.topics)}
        return {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most), **self.settings, **own}

    def frames(self, spark: SparkSession, schema: Schema, most: int) -> dict[str, DataFrame]:
        """Returns the changes of each relation. Raises :class:`SourceError` if Spark cannot read topics."""
        try:
            raw = spark.readStream.format("kafka").options(**self.options(most)).load()
        except PySparkException as error:
            if "kafka" not in str(error).lower():
                raise
            raise SourceError(
                f"the topics {', '.join(self.topics)} cannot be read: {_reason(str(error))}; the session needs Spark's "
                "package for Kafka, of Spark's own version and Scala's: --conf "
                f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            ) from None
        return self.relations(raw, schema)

    def relations(self, raw: DataFrame, schema: Schema) -> dict[str, DataFrame]:
        """Returns the changes of each relation in records whose column ``value`` has envelopes."""
        return split(raw, self.into, schema=schema, others=RAISE)


def _reason(report: str) -> str:
    """Returns the first sentence of Spark's message, without its class."""
    return report.strip().splitlines()[0].partition("] ")[2].partition(". ")[0] or "Spark does not know the source"


def _properties(path: str) -> dict[str, str]:
    """Returns the lines of a client's properties file as settings of Spark's source."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise SourceError(f"--kafka-config {path} cannot be read: {why}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SourceError(f"--kafka-config {path}, line {number}: write name=value, as in a client's properties")
        found[f"kafka.{name.strip()}"] = value.strip()
    return found
