"""Topics that hold a result, at a real broker. Oracle: the deltas added up in Python, after every batch."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.errors import BrokenChainError, CheckpointError, ForeignRowsError, SourceError
from spark_jobs.tables.places import place_at
from spark_jobs.tables.results.kafka import KafkaResult, records
from spark_jobs.tables.results.net import net_of
from tests.spark.tables.test_results import STREAM, delta_of, grouped

pytestmark = pytest.mark.slow


class Died(BaseException):
    """The process is gone."""


def read(address: str, topic: str) -> list[tuple[Any, Any, dict[str, str]]]:
    """Key, value and headers of all records that a reader of what is committed sees."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    options = {"group.id": "test", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": address, **options})
    parts = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
    found, open_ = [], len(parts)
    while open_:
        record = consumer.poll(10)
        assert record is not None, "the broker does not answer"
        if record.error() is not None:
            assert record.error().code() == KafkaError._PARTITION_EOF
            open_ -= 1
            continue
        value = None if record.value() is None else json.loads(record.value())
        found.append((json.loads(record.key()), value, {name: said.decode() for name, said in record.headers() or []}))
    consumer.close()
    return found


def rows(address: str, topic: str) -> Counter[tuple[Any, ...]]:
    """What the topic says that there is: the newest record of each key."""
    newest = {json.dumps(key): value for key, value, _ in read(address, topic)}
    return Counter(tuple(value.values()) for value in newest.values() if value is not None)


@pytest.mark.parametrize("keys", [["a"], ["a", "n", "s"]])
def test_a_topic_has_the_result_after_every_batch(kafka: str, keys: list[str]) -> None:
    topic = f"random-{len(keys)}"
    result = KafkaResult(kafka, topic, {})
    for batch, (delta, expected) in enumerate(grouped(6)):
        net = net_of(delta, keys, batch)
        assert result.apply(STREAM, batch, net)
        assert not result.apply(STREAM, batch, net)
        result = KafkaResult(kafka, topic, {})  # as another process has it
        assert not result.apply(STREAM, batch, net)
        assert rows(kafka, topic) == expected
    seen = Counter((headers["crown.batch"], headers["crown.offset"]) for *_, headers in read(kafka, topic))
    assert set(seen.values()) == {1}, "every record once"
    with pytest.raises(BrokenChainError, match="the batches in between are missing"):
        result.apply(STREAM, 9, net)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_writer_that_dies_has_written_nothing(kafka: str, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    topic = f"died-{after}"
    (first, _), (second, expected) = grouped(2)
    KafkaResult(kafka, topic, {}).apply(STREAM, 0, net_of(first, ["a"], 0))
    before = read(kafka, topic)
    dying, sent = KafkaResult(kafka, topic, {}), []
    original = KafkaResult._produce

    def dies(self: KafkaResult, *given: Any) -> None:
        if len(sent) == after:
            raise Died
        sent.append(given)
        original(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(KafkaResult, "_produce", dies)
        with pytest.raises(Died):
            dying.apply(STREAM, 1, net_of(second, ["a"], 1))
    assert dying._producer is None
    assert KafkaResult(kafka, topic, {}).apply(STREAM, 1, net_of(second, ["a"], 1))
    assert len(read(kafka, topic)) > len(before)
    assert rows(kafka, topic) == expected
    seen = Counter((headers["crown.batch"], headers["crown.offset"]) for *_, headers in read(kafka, topic))
    assert set(seen.values()) == {1}


def test_a_writer_that_another_one_has_followed_is_fenced_off(kafka: str) -> None:
    (first, _), (second, expected), (third, _) = grouped(3)
    old = KafkaResult(kafka, "fenced", {})
    old.apply(STREAM, 0, net_of(first, ["a"], 0))
    assert KafkaResult(kafka, "fenced", {}).apply(STREAM, 1, net_of(second, ["a"], 1))
    with pytest.raises(CheckpointError, match="batch 1 cannot be written to the topic fenced"):
        old.apply(STREAM, 1, net_of(third, ["a"], 1))
    assert not old.apply(STREAM, 1, net_of(second, ["a"], 1)), "it looks again"
    assert rows(kafka, "fenced") == expected


def test_a_topic_of_others_is_refused(kafka: str) -> None:
    from confluent_kafka import Producer

    KafkaResult(kafka, "mine", {}).apply(STREAM, 0, net_of(delta_of((1, 1, 1)), ["a"], 0))
    with pytest.raises(ForeignRowsError, match=f"holds the result of the stream {STREAM}"):
        KafkaResult(kafka, "mine", {}).apply("another", 0, net_of(delta_of((1, 1, 1)), ["a"], 0))
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("yours", b"x")
    producer.flush(10)
    with pytest.raises(ForeignRowsError, match="records that this stream has not written"):
        KafkaResult(kafka, "yours", {}).apply(STREAM, 0, net_of(delta_of((1, 1, 1)), ["a"], 0))


def test_what_a_topic_cannot_take_is_refused() -> None:
    nowhere = KafkaResult("127.0.0.1:1", "t", {"socket.timeout.ms": "300"})
    with pytest.raises(SourceError, match="needs keys"):
        nowhere.apply(STREAM, 0, net_of(delta_of((1, 1, 1)), None, 0))
    for given in ("kafka://host:1", "kafka:///topic", "kafka://me:secret@host:1/topic"):
        with pytest.raises(SourceError, match="write kafka://host:9092/topic"):
            place_at(given)
    for setting in ("format=avro", "schema.registry.url=http://host"):
        with pytest.raises(SourceError, match=f"the records are JSON: leave out {setting.partition('=')[0]}="):
            place_at(f"kafka://host:1/topic?{setting}")
    place = place_at("kafka://a:1,b:2/t?key=x,y&security.protocol=SSL&ssl.key.password=secret")
    assert (place.name, place.keys) == ("kafka://a:1,b:2/t?key=x,y", ("x", "y"))


def test_values_are_json() -> None:
    row = {
        "k": [1],
        "d": [decimal.Decimal("1.50")],
        "t": [dt.datetime(2020, 1, 2, 3, 4, 5, 6)],
        "b": [b"\x00\xff"],
        "f": [float("inf")],
        "n": pa.array([None], pa.int64()),
        "_weight": [1],
    }
    ((key, value, headers),) = records("s", 4, net_of(pa.table(row), ["k"], 4))
    assert key == b'{"k":1}'
    assert value is not None
    expected = {"k": 1, "d": "1.50", "t": "2020-01-02T03:04:05.000006", "b": "AP8=", "f": "inf", "n": None}
    assert json.loads(value) == expected
    assert headers == [("crown.stream", "s"), ("crown.batch", "4"), ("crown.offset", "0")]


def test_a_topic_goes_back_to_an_earlier_batch_with_what_takes_its_rows_back(kafka: str) -> None:
    deltas, results = zip(*grouped(4), strict=True)
    first = KafkaResult(kafka, "back", {})
    assert first.newest(STREAM) == -1
    for batch, delta in enumerate(deltas):
        first.apply(STREAM, batch, net_of(delta, ["a"], batch))
    gone = pa.concat_tables(deltas[2:])
    weights = gone.column_names.index("_weight")
    taken = gone.set_column(weights, "_weight", pc.negate(gone["_weight"]))
    again = KafkaResult(kafka, "back", {})
    assert again.newest(STREAM) == 3
    assert again.apply(STREAM, 1, net_of(taken, ["a"], 1), after=3)
    assert rows(kafka, "back") == results[1]
    assert KafkaResult(kafka, "back", {}).newest(STREAM) == 1
    assert KafkaResult(kafka, "back", {}).apply(STREAM, 2, net_of(deltas[2], ["a"], 2))
    assert rows(kafka, "back") == results[2]
    with pytest.raises(ForeignRowsError, match="result of the stream"):
        KafkaResult(kafka, "back", {}).newest("another")
