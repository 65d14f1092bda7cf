"""A Kafka topic that holds a result: a record per changed row, by its key, without a value if the row was deleted.

A batch is one transaction together with the note that it was applied: a record in the topic ``TOPIC-crown-batches``,
which only this writer uses. A reader with ``isolation.level=read_committed`` sees every batch once. A writer that died
in a transaction is fenced off before the next writer reads the newest batch.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crown.errors import needs
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.storage.address import in_a_line
from spark_jobs.tables.deltas.commits import follows
from spark_jobs.tables.results.net import DELETE, OP, Net, another_s

if TYPE_CHECKING:
    from confluent_kafka import Producer

_MARKS = "-crown-batches"
_WAIT_S = 30.0
_STREAM, _BATCH, _OFFSET = "crown.stream", "crown.batch", "crown.offset"
Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes, bytes | None, Headers]
"""Key, value and headers."""


class KafkaResult:
    """The topic ``topic`` of the brokers ``servers``. See ``spark_jobs.tables.places.Target``.

    ``settings``: other settings of the client, with librdkafka's names.
    """

    def __init__(self, servers: str, topic: str, settings: Mapping[str, str]) -> None:
        with needs("a result in Kafka"):
            import confluent_kafka  # noqa: F401
        self._client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "log_level": "2",
            **settings,
        }  # errors are exceptions, too
        self._topic = topic
        self._name = f"the topic {topic} of {servers}"
        self._producer: Producer | None = None
        self._stream, self._newest = "", -1

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the topic; −1 if there is none. Fences off an earlier writer."""
        with self._client_errors("the newest batch cannot be read of"):
            self._open(stream)
        return self._newest

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Sends a batch, once. Returns False if it was sent before."""
        if not net.keyed:
            raise SourceError(f"{self._name} needs keys: name columns that no two rows of the result share")
        with self._client_errors(f"batch {batch} cannot be written to"):
            if self._producer is None or self._stream != stream:
                self._open(stream)
            if not follows(self._name, self._newest, batch, after):
                return False
            self._send(stream, batch, net)
        return True

    @contextmanager
    def _client_errors(self, what: str) -> Iterator[None]:
        """Turns an error of the client into one sentence, which begins with ``what``."""
        from confluent_kafka import KafkaException

        try:
            yield
        except BaseException as error:
            self._producer = None  # the next call reads again which batch was committed
            if not isinstance(error, KafkaException):
                raise
            raise CheckpointError(f"{what} {self._name} ({in_a_line(error)}): fix that, and run again") from None

    def _open(self, stream: str) -> None:
        """Creates the topics and the producer, and reads the newest batch."""
        from confluent_kafka import Producer

        self._make_topics()
        own = {
            "transactional.id": f"crown/{self._topic}",
            "transaction.timeout.ms": "300000",
            "partitioner": "murmur2_random",  # the default of Java clients
        }
        producer = Producer({**self._client, **own})
        producer.init_transactions(_WAIT_S)  # aborts an open transaction of an earlier producer
        noted = self._noted()
        if noted is None and self._has_records():
            raise another_s(self._name, "records that this stream has not written")
        if noted is not None and noted["stream"] != stream:
            raise another_s(self._name, f"the result of the stream {noted['stream']}")
        self._producer, self._stream = producer, stream
        self._newest = -1 if noted is None else int(noted["batch"])

    def _make_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self._client)
        there = admin.list_topics(timeout=_WAIT_S).topics
        compacted = {"cleanup.policy": "compact"}
        wanted = {
            self._topic: NewTopic(self._topic, config=compacted),
            self._marks: NewTopic(self._marks, 1, config=compacted),
        }
        lacking = [topic for name, topic in wanted.items() if name not in there]
        if lacking:
            for made in admin.create_topics(lacking, operation_timeout=_WAIT_S).values():
                made.result(_WAIT_S)

    @property
    def _marks(self) -> str:
        return self._topic + _MARKS

    def _noted(self) -> dict[str, Any] | None:
        """Returns the newest note: its stream and batch. O(notes in the topic, which is compacted)."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

        consumer = Consumer({**self._client, **_READING})
        try:
            consumer.assign([TopicPartition(self._marks, 0, OFFSET_BEGINNING)])
            found = None
            while True:
                record = consumer.poll(_WAIT_S)
                error = None if record is None else record.error()
                if record is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):
                    raise KafkaException(error or KafkaError(KafkaError._TIMED_OUT))
                if error is not None:
                    return found
                found = json.loads(record.value() or b"")
        finally:
            consumer.close()

    def _has_records(self) -> bool:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self._client, **_READING})
        try:
            parts = consumer.list_topics(self._topic, _WAIT_S).topics[self._topic].partitions
            ends = [consumer.get_watermark_offsets(TopicPartition(self._topic, part), _WAIT_S) for part in parts]
            return any(high > 0 for _, high in ends)
        finally:
            consumer.close()

    def _send(self, stream: str, batch: int, net: Net) -> None:
        assert self._producer is not None, "it is open"
        producer = self._producer
        producer.begin_transaction()
        for key, value, headers in records(stream, batch, net):
            self._produce(self._topic, key, value, headers)
        self._produce(self._marks, self._topic.encode(), json.dumps({"stream": stream, "batch": batch}).encode(), [])
        producer.commit_transaction(_WAIT_S * 10)
        self._newest = batch

    def _produce(self, topic: str, key: bytes, value: bytes | None, headers: Headers) -> None:
        assert self._producer is not None, "it is open"
        while True:
            try:
                return self._producer.produce(topic, key=key, value=value, headers=headers)
            except BufferError:  # earlier messages must be acknowledged first
                self._producer.poll(1.0)


def records(stream: str, batch: int, net: Net) -> Iterator[Record]:
    """Yields the records of a batch: key and value are JSON objects."""
    for number, row in enumerate(net.rows.to_pylist()):
        key = _json({name: row[name] for name in net.match})
        value = None if row[OP] == DELETE else _json({name: row[name] for name in net.columns})
        yield key, value, [(_STREAM, stream), (_BATCH, str(batch)), (_OFFSET, str(number))]


def _json(row: Mapping[str, Any]) -> bytes:
    shown = {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}
    return json.dumps(shown, ensure_ascii=False, default=_text, separators=(",", ":")).encode()


def _text(value: Any) -> str:
    """Returns the text of a value that JSON cannot represent: digits of a decimal, a time in ISO 8601, bytes as
    base64.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, (dt.date, dt.datetime)) else str(value)


_READING = {
    "group.id": "crown",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
}
