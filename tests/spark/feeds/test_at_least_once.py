"""Envelopes that come more than once count once, or the stream does not start. Oracle: the table at its source."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections import Counter

import pytest

from plans.commands.declare import schema_of
from plans.errors import QueryWarning
from plans.schema import Schema
from spark_jobs import maintain, split
from spark_jobs.errors import SourceError
from spark_jobs.feeds.topics import Topics
from spark_jobs.ingest.sources import Input, changes
from tests.marks import seeds
from tests.spark.feeds.test_split import record
from tests.spark.streams import Result, rows_of

pytestmark = pytest.mark.spark

KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
DECLARED = "orders(id int64 key, shop string, amount int64, offset int64 sequence) upserts"
COUNTED = "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY shop"
COLUMNS = ("id", "shop", "amount")


class Connector:
    """A table whose changes are written to a topic of two partitions; after a fault, from further back once more."""

    def __init__(self, seed):
        self.rng, self.rows, self.said, self.offsets = random.Random(seed), {}, [], [0, 0]

    def change(self):
        """Changes a row of the table; returns the change as a record of the topic."""
        rng, key = self.rng, self.rng.randrange(6)
        old, new = self.rows.get(key), (key, rng.choice("abc"), rng.randrange(9))
        op = "c" if old is None else rng.choice("uud")
        self.rows.pop(key) if op == "d" else self.rows.update({key: new})
        images = [dict(zip(COLUMNS, row, strict=True)) if row else None for row in (old, None if op == "d" else new)]
        self.said.append((key, record("orders", op, *images, payload=rng.random() < 0.5)))
        return self._sent(*self.said[-1])

    def fault(self):
        """Returns the last records once more, in order."""
        return [self._sent(*each) for each in self.said[-self.rng.randrange(1, 12) :]]

    def _sent(self, key, text):
        partition = key % 2
        self.offsets[partition] += 1
        sent = {"value": text, "topic": "t", "partition": partition, "offset": self.offsets[partition]}
        return sent | {"timestamp": "2026-01-01T00:00:00"}

    def result(self):
        """What the query gives over the table."""
        shops = {shop: [row[2] for row in self.rows.values() if row[1] == shop] for _, shop, _ in self.rows.values()}
        return Counter({(shop, len(amounts), sum(amounts)): 1 for shop, amounts in shops.items()})


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_records_that_a_topic_brings_again_count_once(spark, tmp_path, seed):
    """By the options of the command. Repeated in one batch, and in later ones, with what came between."""
    connector, sink, wanted = Connector(seed), Result(), []
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = []
        for _ in range(4):
            lines += [connector.change() for _ in range(connector.rng.randrange(1, 6))] + connector.fault()
        connector.rng.shuffle(lines)  # partitions are read beside each other; the offset says the order
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(file, (1e9 + number, 1e9 + number))
        wanted.append(connector.result())
    raw = spark.readStream.schema(KAFKA.replace("value binary", "value string")).option("maxFilesPerTrigger", 1)
    schema, state = schema_of([DECLARED]), str(tmp_path / "state")
    frames = Topics.of("a:1", ["t"], schema).relations(raw.json(str(tmp_path / "in")), schema)
    deltas = maintain(spark, COUNTED, frames, schema=schema, checkpoint=state, cells=1)
    writer = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", state)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [sink.state(number) for number in range(3)] == wanted


def test_the_sequence_of_a_record_itself_goes_before_the_offset_of_the_topic(spark):
    def sent(position, shop, **more):
        envelope = {"op": "c", "before": None, "after": {"id": 1, "shop": shop, "amount": 1}, **more}
        return (None, json.dumps({**envelope, "source": {"table": "orders"}}).encode(), "t", 0, position, None)

    def found(*rows):
        frames = split(spark.createDataFrame(rows, KAFKA), ["orders"], schema=schema_of([DECLARED]))
        query = "SELECT shop FROM orders"
        return rows_of(maintain(spark, query, frames, schema=schema_of([DECLARED])))

    assert found(sent(1, "first"), sent(2, "last")) == {("last",): 1}
    assert found(sent(1, "last", offset=9), sent(2, "first", offset=8)) == {("last",): 1}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("orders(id int64 key, shop string, amount int64)", "has a key, and .* declare upserts and a sequence"),
        ("orders(id int64, shop string, amount int64) distinct", "is distinct, and .* twice: declare it enforced"),
    ],
)
def test_a_declared_key_without_a_sequence_does_not_start(spark, tmp_path, declared, said):
    """Of topics, of envelopes that are parsed, and of files."""
    schema = schema_of([declared])
    raw = spark.createDataFrame([(None, b"", "t", 0, 1, None)], KAFKA)
    row = "struct<id bigint, shop string, amount bigint>"
    parsed = spark.createDataFrame([("c", None, (1, "a", 2))], f"op string, before {row}, after {row}")
    (tmp_path / "1.json").write_text(json.dumps({"op": "c", "before": None, "after": None}))
    files = changes(spark, Input("orders", tmp_path, "json"), schema["orders"], None, False)
    for frame in (split(raw, ["orders"], schema=schema)["orders"], parsed, files):
        with pytest.raises(SourceError, match=said):
            maintain(spark, COUNTED, {"orders": frame}, schema=schema)


@pytest.mark.slow  # test_enforced_keys has batches in which a key comes again
def test_an_enforced_key_refuses_the_record_that_comes_again(spark):
    schema = schema_of(["orders(id int64 key, shop string, amount int64) enforced"])
    once = record("orders", "c", None, {"id": 1, "shop": "a", "amount": 2})
    for again, wanted in ((1, None), (2, "the key id=1 is enforced, and 2 rows would have it")):
        raw = spark.createDataFrame([(None, once.encode(), "t", 0, n, None) for n in range(again)], KAFKA)
        deltas = maintain(spark, COUNTED, split(raw, ["orders"], schema=schema), schema=schema)
        if wanted is None:
            assert rows_of(deltas) == {("a", 1, 2): 1}
            continue
        with pytest.raises(Exception, match=wanted):
            deltas.collect()


def test_a_topic_without_a_key_is_warned_of_and_offsets_forget_no_tombstones(spark):
    raw = spark.createDataFrame([(None, b"", "t", 0, 1, None)], KAFKA)
    plain = schema_of(["orders(id int64, shop string, amount int64)"])
    with pytest.warns(QueryWarning, match=r"no key, but a topic may deliver a record again") as seen:
        split(raw, ["orders"], schema=plain)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split(raw, ["orders"], schema=schema_of([DECLARED]))
        split(raw.select("value"), ["orders"], schema=plain)
    forgets = Schema.of(
        {"orders": {**_columns(), "key": ["id"], "upserts": True, "sequence": "offset", "tombstones": 9}}
    )
    with pytest.raises(SourceError, match=r"each partition of a topic has its own offsets: .*ts_ns"):
        split(raw, ["orders"], schema=forgets)


def _columns():
    return {"columns": {"id": "int64", "shop": "string", "amount": "int64", "offset": "int64"}}
