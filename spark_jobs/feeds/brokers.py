"""Asks Kafka's brokers for facts about topics that a checkpoint stores.

An offset identifies a record of one topic. If a topic is deleted and created again under its old name, the offset
identifies another record: earlier records of the new topic are never read, and Spark notices that only while the new
topic is shorter. So the checkpoint stores the identifiers of its topics, ``crown/topics.json``. A compacted topic drops
records, so the sum of its records depends on when they are read; the last record is enough only for updates by key.

Brokers that do not give an identifier (old ones, or without permission) are accepted. Spark itself reports a broker
that does not answer. A session of Spark Connect has no client here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from plans.schema import Schema
from spark_jobs.errors import ANEW, CheckpointError, SourceError
from spark_jobs.ingest.append_only import nodes_of, plan_of
from spark_jobs.log.history import SparkHistory
from spark_jobs.log.state_location import HANDOVER, HERE
from spark_jobs.storage.folder import Folder

TOPICS = "topics.json"
_CLIENT = "kafka."
_PATIENCE = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}
_UNKNOWN = "AAAAAAAAAAAAAAAAAAAAAA"  # the identifier of a topic that is older than topic identifiers


@dataclass(frozen=True)
class Topic:
    """A topic, as its brokers describe it: its identifier, "" if they do not give one, and whether the topic is
    compacted.
    """

    identifier: str
    compacted: bool


def check_topics(frames: Mapping[str, DataFrame], declared: Schema, checkpoint: Folder) -> None:
    """Stores the identifiers of a stream's topics in a checkpoint. Raises :class:`CheckpointError` if a topic was
    created again, and :class:`SourceError` for a relation without upserts in a compacted topic.

    O(nodes of the plans), and two requests to the brokers of each source.
    """
    found: dict[str, str] = {}
    for relation, frame in frames.items():
        table = declared.get(relation)
        for options in _sources(frame):
            for name, topic in described(frame.sparkSession, options).items():
                if topic.compacted and (table is None or not table.upserts):
                    raise SourceError(
                        f"relation {relation!r}: topic {name!r} is compacted, so it keeps only the last record of "
                        "each key: declare the relation's key, upserts and a sequence (Kafka's offset), or turn "
                        "compaction off and write the topic again"
                    )
                if topic.identifier:
                    found[name] = topic.identifier
    if found:
        _compare(found, checkpoint)


def _sources(frame: DataFrame) -> Iterator[dict[str, str]]:
    """Yields the options of each source of Kafka in a frame's plan."""
    plan = plan_of(frame)
    for node in [] if plan is None else nodes_of(plan):
        if node.nodeName() == "StreamingRelationV2" and node.sourceName() == "kafka":
            options = node.extraOptions().asCaseSensitiveMap()
            yield {str(name): str(options.get(name)) for name in options.keySet()}


def described(spark: Any, options: Mapping[str, str]) -> dict[str, Topic]:
    """Returns the topics that options of Spark's source name, by name; none if their brokers do not describe them."""
    kafka = spark._jvm.org.apache.kafka
    settings = spark._jvm.java.util.Properties()
    own = {name[len(_CLIENT) :]: value for name, value in options.items() if name.lower().startswith(_CLIENT)}
    for name, value in {**_PATIENCE, **own}.items():
        settings.put(name, value)
    found = {}
    try:
        client = kafka.clients.admin.AdminClient.create(settings)
        try:
            for name in _named(client, options):
                names = _listed(spark, name)
                identifier = client.describeTopics(names).allTopicNames().get().get(name).topicId().toString()
                found[name] = Topic("" if identifier == _UNKNOWN else identifier, _compacted(spark, client, name))
        finally:
            client.close()
    except (Py4JError, TypeError):  # TypeError: the session has no classes of Kafka
        return found
    return found


def _named(client: Any, options: Mapping[str, str]) -> list[str]:
    given = {name.lower(): value for name, value in options.items()}
    if "subscribe" in given:
        return [name.strip() for name in given["subscribe"].split(",") if name.strip()]
    if "assign" in given:
        return list(json.loads(given["assign"]))
    names = client.listTopics().names().get()
    return [str(name) for name in names if str(name) and name.matches(given.get("subscribepattern", ""))]


def _compacted(spark: Any, client: Any, name: str) -> bool:
    kafka = spark._jvm.org.apache.kafka
    resource = kafka.common.config.ConfigResource(kafka.common.config.ConfigResource.Type.TOPIC, name)
    try:
        policy = (
            client.describeConfigs(_listed(spark, resource)).all().get().get(resource).get("cleanup.policy").value()
        )
    except Py4JError:  # no permission
        return False
    return "compact" in str(policy)


def _listed(spark: Any, member: Any) -> Any:
    """Returns a Java list of one element."""
    made = spark._jvm.java.util.ArrayList()
    made.add(member)
    return made


def _compare(found: Mapping[str, str], checkpoint: Folder) -> None:
    """Stores the identifiers of topics in a checkpoint; raises :class:`CheckpointError` if it contains other
    identifiers.
    """
    here = checkpoint / HERE
    path = here.at(TOPICS)
    try:
        begun = SparkHistory(checkpoint).begun() >= 0 or here.has(HANDOVER)
        known = dict(json.loads(here.read(TOPICS))) if begun and here.has(TOPICS) else {}
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise CheckpointError(
            f"{path} is damaged, so it is not known whether the offsets are those of these topics: restore it from a "
            f"copy, or {ANEW}"
        ) from None
    recreated = sorted(name for name, identifier in found.items() if known.get(name, identifier) != identifier)
    if recreated:
        raise CheckpointError(
            f"topic {recreated[0]!r} was recreated after the checkpoint {checkpoint} was started: the offsets in the "
            "checkpoint are those of the old topic, whose changes are in the state. If the new "
            f"topic has the old one's records at the same offsets, delete {path}; else {ANEW}"
        )
    if {**known, **found} == known:
        return
    try:
        here.make()
        here.replace(TOPICS, json.dumps({**known, **found}, sort_keys=True).encode())
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
