"""Several relations in one stream of records. Oracle: the rows written out by hand, or DuckDB."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from pyspark.sql import functions as F

from spark_jobs import maintain
from spark_jobs.errors import SourceError
from spark_jobs.feeds.split import split
from tests.spark.streams import Result, oracle_of, rows_of

SHOP = {
    "customers": {"id": "int64", "name": "string"},
    "orders": {"id": "int64", "customer": "int64", "amount": "int64"},
}
SQL = "SELECT DISTINCT c.name, o.id, o.amount FROM customers c JOIN orders o ON c.id = o.customer"
INTO = {"orders": "shop.orders", "customers": ["shop.customers", "old.customers"]}


def record(table, op, before=None, after=None, payload=True):
    """An envelope of Debezium's as a text."""
    envelope = {"op": op, "before": before, "after": after, "source": {"db": "d", "table": table}}
    return json.dumps({"schema": {}, "payload": envelope} if payload else envelope)


class Shop:
    """Random changes of two tables, each as a record and as a change of the oracle's."""

    def __init__(self, seed):
        self.rng, self.tables = random.Random(seed), {"customers": {}, "orders": {}}

    def change(self):
        """Returns the text of a record, and its changes by relation."""
        rng, name = self.rng, self.rng.choice(("customers", "orders", "orders"))
        rows, columns = self.tables[name], list(SHOP[name])
        key = rng.randrange(12) if name == "customers" else rng.randrange(40)
        new = (key, rng.choice("xyz")) if name == "customers" else (key, rng.randrange(12), rng.randrange(5))
        old = rows.get(key)
        op = "c" if old is None else rng.choice("ud")
        rows.pop(key) if op == "d" else rows.update({key: new})
        images = [dict(zip(columns, row, strict=True)) if row else None for row in (old, None if op == "d" else new)]
        gone, come = [(old, -1)] if old else [], [(new, 1)] if op != "d" else []
        where = f"shop.{name}" if name == "orders" else rng.choice(INTO["customers"])
        return record(where, op, *images, payload=rng.random() < 0.5), {name: [*gone, *come]}


def test_a_topic_of_envelopes_is_one_source_and_every_batch_the_same_records_of_all_relations(spark, tmp_path):
    """A file is a micro-batch; tombstones and empty lines say nothing."""
    shop, oracle, sink, wanted = Shop(1), oracle_of(SHOP, SQL), Result(), []
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = ["", "null", '{"payload": null}']
        for _ in range(40):
            text, changes = shop.change()
            lines.append(text)
            oracle.apply(changes)
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines))
        wanted.append(oracle.result)
    raw = spark.readStream.option("maxFilesPerTrigger", 1).option("latestFirst", "false").text(str(tmp_path / "in"))
    frames = split(raw, INTO, schema=SHOP)
    assert list(frames) == ["orders", "customers"]
    state = str(tmp_path / "state")
    deltas = maintain(spark, SQL, frames, schema=SHOP, checkpoint=state, cells=2)
    stream = deltas.writeStream.foreachBatch(sink.write).option("checkpointLocation", state)
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    assert [len(progress.sources) for progress in query.recentProgress if progress.numInputRows] == [1] * 3
    for number, result in enumerate(wanted):
        assert sink.state(number) == result
    offsets = [line for line in (tmp_path / "state/offsets/2").read_text().splitlines() if "logOffset" in line]
    assert offsets == ['{"logOffset":2}'] * 2  # of the one source, once per relation that reads it


def test_parsed_envelopes_and_plain_rows_are_split_by_a_column(spark):
    row = "struct<id bigint, name string>"
    made = [
        ("c", None, (1, "x"), ("a",), "t1"),
        ("c", None, (2, "y"), ("b",), "t2"),
        ("u", (1, "x"), (1, "z"), ("a",), "t1"),
        (None, None, None, (None,), None),
    ]
    frame = spark.createDataFrame(
        made, f"op string, before {row}, after {row}, source struct<table string>, topic string"
    )
    union = "SELECT id, name, 1 AS n FROM r UNION ALL SELECT id, name, 2 FROM s"
    wanted = Counter({(1, "z", 1): 1, (2, "y", 2): 1})
    assert rows_of(maintain(spark, union, split(frame, {"r": "a", "s": "b"}))) == wanted
    upper = F.upper(F.col("topic"))
    assert rows_of(maintain(spark, union, split(frame, {"r": "T1", "s": "T2"}, by=upper))) == wanted
    plain = spark.createDataFrame(
        [("r", 1, "z", 1), ("s", 2, "y", 1)], "kind string, id long, name string, _weight int"
    )
    found = split(plain, ["r", "s"], by="kind")
    assert found["s"].columns == ["id", "name", "_weight"]
    assert rows_of(maintain(spark, union, found)) == wanted


@pytest.mark.slow
def test_a_record_of_no_relation_is_a_bad_row_unless_it_is_to_be_left_out(spark):
    row = {"id": 1, "name": "x"}
    texts = [record("shop.customers", "c", None, row), record("shop.stock", "c", None, {"id": 7})]
    query = "SELECT id, name FROM customers"
    schema = {"customers": SHOP["customers"]}
    into = {"customers": "shop.customers"}

    def found(lines, **options):
        frame = spark.createDataFrame([(line,) for line in lines], "value string")
        return rows_of(maintain(spark, query, split(frame, into, schema=schema, **options), schema=schema))

    with pytest.raises(Exception, match=r"relation 'customers': the record is of table 'shop\.stock'; the stream is "):
        found(texts)
    assert found([*texts, "null", '{"payload": null}', ""], others="ignore") == {(1, "x"): 1}
    with pytest.raises(Exception, match=r"not a JSON object: \{half"):
        found([*texts[:1], "{half"])
    with pytest.raises(Exception, match="the record is without a table"):
        found([*texts[:1], json.dumps({"op": "c", "before": None, "after": row})])
    plain = spark.createDataFrame([("customers", 1), (None, 2)], "kind string, id long")
    with pytest.raises(Exception, match="the record is without a table; the stream is split into customers"):
        maintain(spark, "SELECT id FROM customers", split(plain, ["customers"], by="kind")).collect()


def test_what_cannot_be_split_is_said(spark):
    frame = spark.createDataFrame([("r", 1)], "kind string, id long")
    for said, given, options in (
        ("no struct source with a field table; name the column with by=", ["r"], {}),
        ("by='kinds' is not a column of the stream: it has kind, id", ["r"], {"by": "kinds"}),
        ("by='id' is of type bigint: give a text", ["r"], {"by": "id"}),
        ("into='r': give the relations as a list", "r", {"by": "kind"}),
        ("into= names no relation", [], {"by": "kind"}),
        ("into= names no table for relation 'r'", {"r": []}, {"by": "kind"}),
        ("table 'a' has two relations, 'r' and 's'", {"r": "a", "s": ["b", "a"]}, {"by": "kind"}),
        ('others=\'drop\': give "raise" or "ignore"', ["r"], {"by": "kind", "others": "drop"}),
        ("no column 'value' with JSON texts", ["r"], {"schema": {"r": {"id": "int64"}}}),
        ("relation 's' is not declared: schema= has r", ["s"], {"schema": {"r": {"id": "int64"}}}),
    ):
        with pytest.raises(SourceError) as error:
            split(frame, given, **options)
        assert said in str(error.value)
