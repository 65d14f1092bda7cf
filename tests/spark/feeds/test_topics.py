"""Topics as inputs of ``crown submit``: what the options say, and what is refused; without a broker."""

from __future__ import annotations

import argparse
import json

import pytest

from crown.errors import CrownError
from plans.commands.declare import schema_of
from spark_jobs.commands import submit
from spark_jobs.errors import SourceError
from spark_jobs.feeds.topics import Topics
from spark_jobs.job.submit import run
from tests.spark.feeds.test_split import SHOP, SQL, record

DECLARED = "customers(id int64, name string); orders(id int64, customer int64, amount int64)"
TOPIC = ("--kafka", "a:1", "--topic", "t", "--schema", DECLARED)
SECRET = "hunter2"


def job(*words):
    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    return submit.job(parser.parse_args([SQL, "--output", "noop", *map(str, words)]))


def test_the_options_of_the_command_are_those_of_spark_s_source(tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(f"# of the client\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=x password='{SECRET}=';\n")
    words = ["--kafka", "a:9092,b:9092", "--topic", "shop,more", "--topic", "old", "--schema", DECLARED]
    words += ["--table", "Orders=shop.orders", "--table", "customers=shop.customers, old.customers"]
    words += ["--kafka-option", "startingOffsets=latest", "--kafka-config", config, "--batch-rows", 500]
    made = job(*words)
    assert made.topics.into == {"customers": ("shop.customers", "old.customers"), "orders": ("shop.orders",)}
    assert made.topics.options(made.batch_rows) == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "subscribe": "shop,more,old",
        "startingOffsets": "latest",
        "maxOffsetsPerTrigger": "500",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": f"x password='{SECRET}=';",
    }
    assert SECRET not in repr(made)
    plain = job("--kafka", "a:9092", "--topic", "shop", "--schema", DECLARED).topics
    assert plain.into == {"customers": ("customers",), "orders": ("orders",)}
    assert plain.options(7)["startingOffsets"] == "earliest", "what came before the job belongs to the result"


def test_a_relation_that_is_read_from_files_is_none_of_the_topics(tmp_path):
    (tmp_path / "customers.csv").write_text("id,name\n")
    words = ["--kafka", "a:9092", "--topic", "shop", "--schema", DECLARED]
    made = job(*words, "--input", f"customers={tmp_path / 'customers.csv'}")
    assert made.topics.into == {"orders": ("orders",)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the job has nothing to read: give --input NAME=PATH, or --kafka and --topic"),
        (["--topic", "shop"], "--topic, --table, --kafka-option and --kafka-config need --kafka SERVERS"),
        (["--kafka", "a:1"], "--kafka names the brokers: give the topics to read, too, with --topic NAME"),
        (["--kafka", "a:1", "--topic", "t"], "the values of a topic have no types: declare the relations in it"),
        (
            [*TOPIC, "--table", "orders"],
            "--table 'orders': give RELATION=",
        ),
        (
            [*TOPIC, "--table", "x=y"],
            "'x' is not a relation of the topics",
        ),
        (
            [*TOPIC, "--kafka-option", "subscribe=u"],
            "subscribe is set by --kafka and --topic",
        ),
        ([*TOPIC, "--kafka-config", "{none}"], "none cannot be read"),
        (
            [*TOPIC, "--kafka-config", "{bad}"],
            "line 2: write name=value",
        ),
        (
            [*TOPIC, "--verify"],
            "--verify reads the input again",
        ),
        ([*TOPIC, "--change", "w"], "--change names a column of files"),
        (
            [*TOPIC, "--batch-rows", "0"],
            "--batch-rows 0: give 1 or more",
        ),
    ],
)
def test_what_makes_no_sense_is_said_before_spark_starts(tmp_path, words, said):
    (tmp_path / "bad").write_text("a=b\nno equals sign\n")
    places = {"none": tmp_path / "none", "bad": tmp_path / "bad"}
    with pytest.raises(CrownError) as error:
        run(job(*(str(word).format(**places) for word in words)))
    assert said in str(error.value)


@pytest.mark.spark
def test_without_spark_s_package_for_kafka_one_sentence_says_which_is_wanted(spark):
    topics = Topics.of("a:1", ["shop"], SHOP)
    with pytest.raises(
        SourceError, match=r"shop cannot be read: .*spark\.jars\.packages=org\.apache\.spark:spark-sql-kaf"
    ):
        topics.frames(spark, schema_of([DECLARED]), 10)


@pytest.mark.spark
def test_records_of_several_tables_become_the_relations(spark, tmp_path):
    """The frames are those of ``split``: here of a batch of records. A record of another table is a bad row."""
    lines = [
        record("shop.orders", "c", None, {"id": 1, "customer": 2, "amount": 3}),
        record("customers", "c", None, {"id": 2, "name": "x"}, payload=False),
        record("customers", "u", {"id": 2, "name": "x"}, {"id": 2, "name": "y"}),
        record("elsewhere", "c", None, {"id": 1}),
    ]
    raw = spark.createDataFrame([(line.encode(),) for line in lines], "value binary")
    topics = Topics.of("a:1", ["shop"], SHOP, ["orders=shop.orders"])
    frames = topics.relations(raw, schema_of([DECLARED]))
    assert frames["orders"].count() == 1
    rows = [row.asDict(recursive=True) for row in frames["customers"].collect()]
    assert [json.dumps(row["after"]) for row in rows[:2]] == ['{"id": "2", "name": "x"}', '{"id": "2", "name": "y"}']
    assert "elsewhere" in rows[2]["_unreadable"]
