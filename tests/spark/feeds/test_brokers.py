"""Topics that were made anew, that forget records, or have lost some: said with what to do, and counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.errors import CheckpointError, SourceError, SparkJobError
from spark_jobs.feeds import brokers
from spark_jobs.job.failures import reported
from spark_jobs.job.progress import offsets_without_record
from spark_jobs.storage.local import LocalFolder
from tests.spark.feeds.broker import BROKER, broker, connector, jars

ROOT = Path(__file__).parents[3]
LOSS = "Some data may have been lost because they are not available in Kafka any more;\neither ...\nReason: "


def test_a_checkpoint_knows_its_topics_by_their_identifiers(tmp_path):
    checkpoint = LocalFolder(tmp_path)
    brokers._compare({"a": "A1"}, checkpoint)
    brokers._compare({"a": "A2"}, checkpoint)  # nothing was read yet
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n")
    brokers._compare({"a": "A2", "b": "B1"}, checkpoint)
    with pytest.raises(CheckpointError, match=r"topic 'b' was recreated after the checkpoint .* delete .*topics\.json"):
        brokers._compare({"a": "A2", "b": "B2"}, checkpoint)
    (tmp_path / "crown" / "topics.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"topics\.json is damaged, so .*: restore it"):
        brokers._compare({"a": "A2"}, checkpoint)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            "Partition shop-1 offset was changed from 10 to 4.",
            "shop-1 of the topic ends at offset 4, and the checkpoint is at offset 10: the topic was recreated",
        ),
        (
            "Partitions {shop-0,shop-1} have been deleted.",
            "partitions of the topic that the checkpoint lists are missing",
        ),
        ("Cannot find initial offsets for partitions shop-0. They may have been deleted.", "Restore it, or start"),
        (
            "Could not read records in offset [3, 9) for topic partition shop-0\nwith consumer group g.",
            "the topic has removed records that were not read yet: keep records for longer",
        ),
        ("Starting offset for shop-0 was 3 but consumer reset to 9.", "; continue without these records"),
        ("Added partition shop-2 starts from 7 instead of 0.", "or bulk_load() fills both from the tables"),
    ],
)
def test_what_kafka_has_lost_ends_in_one_sentence(tmp_path, report, said):
    error = reported(RuntimeError(LOSS + report), tmp_path)
    assert said in str(error)
    assert "\n" not in str(error)


def test_offsets_without_a_record_are_counted():
    """Every relation of a topic reads every record."""

    def source(start, end, rows, kind="KafkaV2[Subscribe[t]]"):
        return {"description": kind, "startOffset": start, "endOffset": end, "numInputRows": rows}

    assert offsets_without_record(source({"t": {"0": 5, "1": 2}}, {"t": {"0": 9, "1": 2}}, 8), 2) == 0
    assert offsets_without_record(source({"t": {"0": 5}}, {"t": {"0": 9, "1": 3}}, 10), 2) == 2
    assert offsets_without_record(source({"t": {"0": 9}}, {"t": {"0": 4}}, 0), 2) == 0
    assert offsets_without_record(source(None, {"t": {"0": 4}}, 0), 1) == 0
    assert offsets_without_record(source({"logOffset": 1}, {"logOffset": 2}, 3, "FileStreamSource[x]"), 1) == 0


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_that_is_made_anew_or_forgets_is_noticed(tmp_path):
    """With a broker, in a process whose session has Spark's package for Kafka."""
    server, package = jars(BROKER, tmp_path / "broker"), connector(tmp_path / "connector")
    if not (server and package):
        pytest.skip("needs Maven, and its repository or a cache of it")
    with broker(server, tmp_path / "broker") as address:
        told = subprocess.run(
            [sys.executable, "-c", "from tests.spark.feeds.test_brokers import main; main()", address, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]), "JARS": ",".join(package)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr[-5000:]
    assert told.stdout.splitlines()[-1] == "all"


class Admin:
    """The client of a broker, in the session's JVM."""

    def __init__(self, spark, address):
        self.spark, self.address, self.jvm = spark, address, spark._jvm
        settings = self.jvm.java.util.Properties()
        settings.put("bootstrap.servers", address)
        self.client = self.jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)

    def make(self, name, **settings):
        topic = self.jvm.org.apache.kafka.clients.admin.NewTopic(name, 1, self.jvm.java.lang.Short("1"))
        configs = self.jvm.java.util.HashMap()
        for key, value in settings.items():
            configs.put(key.replace("_", "."), value)
        self.client.createTopics(self._listed(topic.configs(configs))).all().get()

    def delete(self, name):
        self.client.deleteTopics(self._listed(name)).all().get()
        time.sleep(2)

    def remove(self, name, before):
        """Removes the records before an offset. Its static method has the name of another one, so it is looked up."""
        kind = self.client.getClass().getClassLoader().loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        (until,) = (
            each for each in kind.getMethods() if (each.getName(), each.getParameterCount()) == ("beforeOffset", 1)
        )
        given = self.spark.sparkContext._gateway.new_array(self.jvm.Object, 1)
        given[0] = before
        wanted = self.jvm.java.util.HashMap()
        wanted.put(self.jvm.org.apache.kafka.common.TopicPartition(name, 0), until.invoke(None, given))
        self.client.deleteRecords(wanted).all().get()

    def write(self, name, keys):
        rows = [(str(key), json.dumps({"op": "c", "before": None, "after": {"id": key}, "source": {"table": "r"}}))
                for key in keys]  # fmt: skip
        frame = self.spark.createDataFrame(rows, "key string, value string").coalesce(1).write.format("kafka")
        frame.option("kafka.bootstrap.servers", self.address).option("topic", name).save()

    def _listed(self, member):
        made = self.jvm.java.util.ArrayList()
        made.add(member)
        return made


def main() -> None:
    """A topic made anew is longer than the old one, which Spark does not notice; then one that is shorter."""
    from plans.commands.declare import schema_of
    from spark_jobs import local_session, maintain, plain_errors
    from spark_jobs.feeds.topics import Topics
    from tests.spark.streams import Result

    address, folder = sys.argv[1], Path(sys.argv[2])
    spark = local_session("brokers", memory="1g", conf={"spark.master": "local[2]", "spark.jars": os.environ["JARS"]})
    admin, declared = Admin(spark, address), "r(id int64 key, offset int64 sequence) upserts"

    def follow(topic, state, declared=declared, settings=None):
        sink, schema = Result(), schema_of([declared])
        frames = Topics.of(address, [topic], schema, settings=settings).frames(spark, schema, 1000)
        deltas = maintain(spark, "SELECT id FROM r", frames, schema=schema, checkpoint=str(state), cells=1)
        writer = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(state))
        with plain_errors(folder):
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        return sink.state(), [json.loads(progress.json) for progress in query.recentProgress]

    admin.make("longer")
    admin.write("longer", range(4))
    assert follow("longer", folder / "a")[0] == Counter({(n,): 1 for n in range(4)})
    admin.delete("longer")
    admin.make("longer")
    admin.write("longer", range(10, 30))
    with pytest.raises(CheckpointError, match="topic 'longer' was recreated after the checkpoint"):
        follow("longer", folder / "a")
    (folder / "a" / "crown" / "topics.json").unlink()
    assert len(follow("longer", folder / "a")[0]) == 16, "this is what Spark would do"

    admin.make("shorter")
    admin.write("shorter", range(4))
    follow("shorter", folder / "b")
    admin.delete("shorter")
    admin.make("shorter")
    admin.write("shorter", range(2))
    (folder / "b" / "crown" / "topics.json").unlink()  # a checkpoint from before there was one
    with pytest.raises(SparkJobError, match="the checkpoint is at offset 4: the topic was recreated"):
        follow("shorter", folder / "b")

    admin.make("compacted", cleanup_policy="compact")
    admin.write("compacted", [1, 2])
    with pytest.raises(
        SourceError, match="relation 'r': topic 'compacted' is compacted, so it keeps only the last record"
    ):
        follow("compacted", folder / "c", "r(id int64 key) enforced")
    assert len(follow("compacted", folder / "c")[0]) == 2

    admin.make("aged")
    admin.write("aged", range(3))
    state = folder / "d"
    follow("aged", state)
    admin.write("aged", range(3, 9))
    admin.remove("aged", 7)
    with pytest.raises(SparkJobError, match="the topic has removed records that were not read yet"):
        follow("aged", state)
    found, progress = follow("aged", state, settings={"failOnDataLoss": "false"})
    assert sum(offsets_without_record(source, 1) for each in progress for source in each["sources"]) == 4
    assert len(found) == 2
    print("all")
