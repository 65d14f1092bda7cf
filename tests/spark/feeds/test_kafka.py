"""A real broker of Kafka: several relations in one topic, and a load that hands over to the stream. Oracle: DuckDB."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.feeds.broker import BROKER, broker, connector, jars
from tests.spark.feeds.test_split import INTO, SHOP, SQL, Shop
from tests.spark.streams import Result, oracle_of

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_of_two_relations_is_followed_and_loaded(tmp_path):
    """In a process of its own, whose session has Spark's package for Kafka."""
    server, package = jars(BROKER, tmp_path / "broker"), connector(tmp_path / "connector")
    if not (server and package):
        pytest.skip("needs Maven, and its repository or a cache of it")
    with broker(server, tmp_path / "broker") as address:
        told = subprocess.run(
            [sys.executable, "-c", "from tests.spark.feeds.test_kafka import main; main()", address, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]), "JARS": ",".join(package)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr[-5000:]
    assert told.stdout.splitlines()[-1] == "all"


class Topic:
    """The topic ``shop``: what was written to it, and what it means."""

    def __init__(self, spark, address):
        self.spark, self.shop = spark, Shop(5)
        self.options = {"kafka.bootstrap.servers": address, "subscribe": "shop"}
        self.changes = {}

    def write(self, count):
        """Writes records; those of a key go to one partition, in order."""
        rows = []
        for _ in range(count):
            text, changes = self.shop.change()
            ((table, given),) = changes.items()
            rows.append((f"{table}{given[0][0][0]}", text))
            self.changes[text] = changes
        frame = self.spark.createDataFrame(rows, "key string, value string").coalesce(1)
        frame.write.format("kafka").options(**self.options).option("topic", "shop").save()

    def oracle(self, end):
        """What the result is over the records before the offsets ``end``, by partition."""
        expected = oracle_of(SHOP, SQL)
        raw = self.spark.read.format("kafka").options(**self.options).load()
        for row in raw.select("partition", "offset", raw.value.cast("string")).collect():
            if row["offset"] < end[str(row["partition"])]:
                expected.apply(self.changes[row["value"]])
        return expected.result


def followed_by_the_command(topic, folder) -> None:
    """``crown submit`` reads the topic from its beginning, in the session that there is; then what has come since."""
    import pyarrow.parquet as pq

    from spark_jobs import delta_files
    from spark_jobs.commands import submit

    words = [SQL, "--kafka", topic.options["kafka.bootstrap.servers"], "--topic", "shop", "--batch-rows", "40"]
    words += [word for name, names in INTO.items() for word in ("--table", f"{name}={_listed(names)}")]
    words += [word for name, columns in SHOP.items() for word in ("--schema", _declared(name, columns))]
    words += ["--sink", "parquet", "--output", f"{folder}/table", "--checkpoint", f"{folder}/submitted", "--cells", "2"]
    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    for _ in range(2):
        assert submit.run(parser.parse_args(words)) == 0
        found = Counter()
        for *row, weight, _ in zip(*pq.read_table(delta_files(f"{folder}/table")).to_pydict().values(), strict=True):
            found[tuple(row)] += weight
        assert {row for row, weight in found.items() if weight} == set(topic.oracle({"0": 1 << 60, "1": 1 << 60}))
        topic.write(20)


def _listed(names) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _declared(name, columns) -> str:
    """The relation with its key; the offset of a record says which of its changes is the last."""
    of_row = ", ".join(f"{column} {kind}{' key' * (column == 'id')}" for column, kind in columns.items())
    return f"{name}({of_row}, offset int64 sequence) upserts"


def main() -> None:
    """Follows the topic, with a sink that fails; then loads it, and follows it from there."""
    from spark_jobs import bulk_load, handover, local_session, maintain, split
    from spark_jobs.feeds.handover import KafkaFeed
    from tests.spark.streams import rows_of

    address, folder = sys.argv[1], Path(sys.argv[2])
    spark = local_session("kafka", memory="1g", conf={"spark.master": "local[2]", "spark.jars": os.environ["JARS"]})
    topic, sink, trips = Topic(spark, address), Result(), {3}

    def ends(query):
        return {p.batchId: json.loads(p.sources[0].endOffset)["shop"] for p in query.recentProgress if p.numInputRows}

    def write(frame, batch):
        if batch in trips:
            trips.discard(batch)
            raise RuntimeError("this sink trips once")
        sink.write(frame, batch)

    def follow(changes, state):
        frames = split(changes, INTO, schema=SHOP)
        deltas = maintain(spark, SQL, frames, schema=SHOP, checkpoint=state, cells=2)
        writer = deltas.writeStream.foreachBatch(write).option("checkpointLocation", state)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as error:
            if "this sink trips once" not in str(error):
                raise
        for batch, end in ends(query).items():
            assert sink.state(batch) == topic.oracle(end), f"after batch {batch}"
        return len(ends(query))

    topic.write(150)
    raw = spark.readStream.format("kafka").options(**topic.options).option("startingOffsets", "earliest")
    raw = raw.option("maxOffsetsPerTrigger", 30).load()
    batches = follow(raw, f"{folder}/state")
    assert batches == 3  # the fourth failed
    assert not trips
    assert follow(raw, f"{folder}/state") >= 2
    topic.write(60)
    follow(raw, f"{folder}/state")
    assert sink.state() == topic.oracle({"0": 1 << 60, "1": 1 << 60})

    state, feeds = f"{folder}/loaded", {"shop": KafkaFeed({**topic.options, "maxOffsetsPerTrigger": "25"})}
    begun, sink.deltas = handover(spark, feeds, checkpoint=state), {}
    topic.write(60)
    loaded = split(handover(spark, feeds, checkpoint=state).tables["shop"], INTO, schema=SHOP)
    sink.deltas[-1] = rows_of(bulk_load(spark, SQL, loaded, checkpoint=state, schema=SHOP, cells=2))
    assert sink.state() == topic.oracle(begun.positions["shop"]["shop"])
    followed_by_the_command(topic, folder)
    topic.write(30)
    assert follow(handover(spark, feeds, checkpoint=state).changes["shop"], state) >= 3
    assert sink.state() == topic.oracle({"0": 1 << 60, "1": 1 << 60})
    print("all")
