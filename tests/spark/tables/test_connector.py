"""Delta's own connector beside this package: each reads what the other writes, and a stream stands between them.

Oracle: the connector's batch reads, and SQL over them. Each test runs in a process of its own, whose session has the
jars.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from spark_jobs import delta_changes, delta_table, maintain, plain_errors, read_deltas, to_table, write_deltas
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.session import local_session
from tests.spark.tables.connector import how_to, jars, settings

deltalake = pytest.importorskip("deltalake")

ROOT = Path(__file__).parents[3]
HOPS = "SELECT DISTINCT x.a, x.b, y.b AS c FROM k x JOIN k y ON x.b = y.a"
COUNTS = "SELECT a, COUNT(*) AS n FROM k GROUP BY a"
SALES = "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop"
WEIGHTS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scene", ["written", "altered", "followed", "merged", "plain_sink", "hidden"])
def test_beside_the_connector(tmp_path, scene):
    if not jars():
        pytest.skip(how_to())
    told = run(scene, tmp_path)
    assert told.returncode == 0, told.stderr[-5000:]
    assert told.stdout.splitlines()[-1] == "all"


def run(scene, folder, *more):
    """Plays a scene in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from tests.spark.tables.test_connector import main; main()", scene, str(folder), *more],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )


class Site:
    """A session with the connector, and a folder with change files of ``k``."""

    def __init__(self, folder):
        self.folder, self.count = Path(folder), 0
        self.spark = local_session("connector", memory="1g", conf=settings())
        (self.folder / "in").mkdir(exist_ok=True)

    def at(self, name):
        return str(self.folder / name)

    def add(self, *rows):
        """One more change file."""
        self.count += 1
        lines = "".join(json.dumps(dict(zip(("a", "b", "_weight"), row, strict=True))) + "\n" for row in rows)
        (self.folder / f"{self.count}.tmp").write_text(lines)
        (self.folder / f"{self.count}.tmp").rename(self.folder / "in" / f"{self.count:03d}.json")

    def changes(self):
        return {"k": self.spark.readStream.schema("a long, b long, _weight long").json(self.at("in"))}

    def deltas(self, table="deltas"):
        """Has the cells write what is new."""
        more = {"checkpoint": self.at(table + "-state"), "trigger": {"availableNow": True}, "cells": 2}
        with plain_errors():
            write_deltas(self.spark, HOPS, self.changes(), self.at(table), **more).awaitTermination()

    def counts(self, table="counts"):
        """Merges what is new."""
        frame = maintain(self.spark, COUNTS, self.changes(), checkpoint=self.at(table + "-state"))
        ended(frame.writeStream.foreachBatch(to_table(self.at(table), keys=["a"])), self.at(table + "-state"))

    def sql(self, text):
        """Runs a statement about ``{name}`` tables of the folder."""
        names = {path.name: f"delta.`{path}`" for path in self.folder.iterdir()}
        return self.spark.sql(text.format_map(Tables(self.folder, names)))

    def rows(self, table, **options):
        """What the connector reads."""
        return counted(self.spark.read.format("delta").options(**options).load(self.at(table)))

    def plain(self, table, **options):
        """What deltalake reads."""
        found = deltalake.DeltaTable(self.at(table), **options).to_pyarrow_table()
        return Counter(zip(*found.to_pydict().values(), strict=True)) if found.num_rows else Counter()


class Tables(dict):
    """Names of tables, those that are not there yet, too."""

    def __init__(self, folder, known):
        super().__init__(known)
        self.folder = folder

    def __missing__(self, name):
        return f"delta.`{self.folder / name}`"


def counted(frame):
    return Counter(tuple(row) for row in frame.collect())


def ended(writer, checkpoint):
    with plain_errors():
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def net(frame):
    """What deltas add up to: their last column is the weight."""
    total = Counter()
    for *row, weight in frame.collect():
        total[tuple(row)] += weight
    return Counter({row: n for row, n in total.items() if n})


def written(site):
    """Tables that the cells write and that are merged are the connector's: content, history, versions, as a stream."""
    copy = site.spark.readStream.format("delta")
    for number, rows in enumerate(([(1, 2, 1), (2, 3, 1), (3, 4, 1)], [(4, 5, 1), (1, 2, -1)], [(5, 1, 1), (1, 2, 1)])):
        site.add(*rows)
        site.deltas()
        site.counts()
        assert site.rows("deltas") == site.plain("deltas") == counted(read_deltas(site.spark, site.at("deltas")))
        assert (
            site.rows("counts")
            == site.plain("counts")
            == counted(site.spark.sql(COUNTS.replace("k", "{k}"), k=held(site)))
        )
        ended(copy.load(site.at("deltas")).writeStream.format("parquet").option("path", site.at("copy")), site.at("at"))
        assert counted(site.spark.read.parquet(site.at("copy"))) == site.rows("deltas")
        assert {row._batch for row in site.sql("SELECT DISTINCT _batch FROM {deltas}").collect()} == set(
            range(number + 1)
        )
    said = site.sql("DESCRIBE HISTORY {deltas}").select("version", "operation").collect()
    assert sorted(map(tuple, said)) == [(0, "CREATE TABLE"), (1, "WRITE"), (2, "WRITE")]
    assert {row.operation for row in site.sql("DESCRIBE HISTORY {counts}").collect()} == {"CREATE TABLE", "MERGE"}
    for version in range(3):
        for table in ("deltas", "counts"):
            assert site.rows(table, versionAsOf=version) == site.plain(table, version=version)


def held(site):
    """The rows of ``k`` that the change files add up to."""
    frame = site.spark.read.schema("a long, b long, _weight long").json(site.at("in"))
    return frame.groupBy("a", "b").sum("_weight").where("`sum(_weight)` > 0").select("a", "b")


def altered(site):
    """What the connector does to the tables between two runs loses nothing, or is refused."""
    site.add((1, 2, 1), (2, 3, 1), (3, 4, 1))
    site.deltas()
    site.counts()
    for statement in ("OPTIMIZE {%s}", "VACUUM {%s} RETAIN 0 HOURS"):
        for table in ("deltas", "counts"):
            site.sql(statement % table)
        site.add((site.count, 9, 1), (9, site.count + 5, 1))
        site.deltas()
        site.counts()
        wanted = counted(site.spark.sql(HOPS.replace("k ", "{k} "), k=held(site)))
        assert net(read_deltas(site.spark, site.at("deltas")).drop("_batch")) == wanted
        assert net(site.sql("SELECT a, b, c, _weight FROM {deltas}")) == wanted
        assert site.rows("counts") == counted(site.spark.sql(COUNTS.replace("k", "{k}"), k=held(site)))
    before = {table: site.rows(table) for table in ("deltas", "counts")}
    site.add((7, 7, 1))
    for table, write in (("deltas", site.deltas), ("counts", site.counts)):
        site.sql(f"ALTER TABLE {{{table}}} ADD COLUMN note STRING")
        with pytest.raises(SparkJobError, match=r"has the columns .*note.*: give another folder"):
            write()
        assert site.rows(table) == Counter({(*row, None): n for row, n in before[table].items()})
    site.sql("ALTER TABLE {deltas} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    site.sql("UPDATE {deltas} SET note = 'seen' WHERE a = 1")
    assert counted(read_deltas(site.spark, site.at("deltas"))) == site.rows("deltas")


def shop(site, name="sales", more=""):
    """A table with inserts, deletes, updates and a MERGE."""
    site.sql(
        f"CREATE TABLE {{{name}}} (id BIGINT, shop STRING, amount BIGINT) USING delta "
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'{more})"
    )
    frame = site.spark.range(60).selectExpr("id", "concat('s', id % 5) AS shop", "id % 7 AS amount").coalesce(1)
    frame.write.format("delta").mode("append").save(site.at(name))
    yield
    for statement in (
        "DELETE FROM {%s} WHERE id %% 10 = 3",
        "UPDATE {%s} SET amount = amount + 100, shop = 's9' WHERE id %% 10 = 4",
        "MERGE INTO {%s} t USING (SELECT id * 5 AS id, 'm' AS shop, 1L AS amount FROM range(20)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id %% 2 = 0 THEN UPDATE SET * WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE {%s}",
    ):
        site.sql(statement % name)
        yield


def feed(site, name):
    """The connector's change data feed of a table, as a stream."""
    reader = site.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    return reader.load(site.at(name))


def followed(site):
    """A stream of the connector's change data feed, and of ours, has what SQL has, whatever was done to the table."""
    sources = {"theirs": partial(feed, site, "sales"), "ours": lambda: delta_changes(site.spark, site.at("sales"))}
    for _ in shop(site):
        wanted = counted(site.sql(SALES.replace("sales", "{sales}")))
        for name, source in sources.items():
            frame = maintain(site.spark, SALES, {"sales": source()}, checkpoint=site.at(name))
            ended(frame.writeStream.format("parquet").option("path", site.at(name + "-out")), site.at(name))
            assert net(site.spark.read.parquet(site.at(name + "-out"))) == wanted, name
    assert counted(delta_table(site.spark, site.at("sales"))) == site.rows("sales")


def merging(site, frame, batch):
    """What a user writes: a MERGE by key, which may be done twice."""
    frame.persist().createOrReplaceTempView("batch")
    frame.sparkSession.sql(
        f"MERGE INTO delta.`{site.at('totals')}` t "
        "USING (SELECT * FROM batch WHERE _change_type <> 'update_preimage') s ON t.shop = s.shop "
        "WHEN MATCHED AND s._change_type = 'delete' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = s.n, total = s.total "
        "WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT (shop, n, total) VALUES (s.shop, s.n, s.total)"
    )
    frame.unpersist()
    print("batch", batch, flush=True)


def merge_stream(site):
    options = {"checkpoint": site.at("state"), "emit": "cdc", "key": ["shop"]}
    return maintain(site.spark, SALES, {"sales": feed(site, "sales")}, **options).writeStream.foreachBatch(
        partial(merging, site)
    )


def sink_stream(site):
    frame = maintain(site.spark, SALES, {"sales": feed(site, "sales")}, checkpoint=site.at("state"))
    return frame.writeStream.format("delta").option("path", site.at("totals"))


def merged(site):
    """A MERGE of the connector in foreachBatch has the result after kills."""
    site.sql("CREATE TABLE {totals} (shop STRING, n BIGINT, total BIGINT) USING delta")
    killed_and_gone_on(site, "merge_stream", lambda: site.rows("totals"))


def plain_sink(site):
    """The connector's own sink has the deltas once after kills."""
    killed_and_gone_on(site, "sink_stream", lambda: net(site.spark.read.format("delta").load(site.at("totals"))))


def killed_and_gone_on(site, stream, result):
    for number, _ in enumerate(shop(site)):
        if number in (1, 3):  # begun in another process, which is killed in the middle
            killed(site, stream, 0.3 * number)
        ended(globals()[stream](site), site.at("state"))
        assert result() == counted(site.sql(SALES.replace("sales", "{sales}"))), number


def killed(site, stream, wait):
    """Runs the stream in a process that is killed some time after it has begun its next batch."""
    code = "from tests.spark.tables.test_connector import forever; forever()"
    offsets = site.folder / "state" / "offsets"
    before = len(list(offsets.glob("[0-9]*")))
    with subprocess.Popen(
        [sys.executable, "-c", code, stream, str(site.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 240
        while len(list(offsets.glob("[0-9]*"))) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(wait)
        assert process.poll() is None, "it was to be killed while it runs"
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    assert len(list(offsets.glob("[0-9]*"))) > before


def forever():
    """The process that is killed."""
    stream, folder = sys.argv[1:]
    site = Site(folder)
    globals()[stream](site).option("checkpointLocation", site.at("state")).start().awaitTermination()


def hidden(site):
    """Deletion vectors and mapped columns of a source are read right, or refused."""
    for name, more in (("vectors", ", 'delta.enableDeletionVectors' = 'true'"),):
        for _ in shop(site, name, more):
            frame = maintain(
                site.spark, SALES, {"sales": delta_changes(site.spark, site.at(name))}, checkpoint=site.at("v")
            )
            ended(frame.writeStream.format("parquet").option("path", site.at("v-out")), site.at("v"))
            wanted = counted(site.sql(SALES.replace("sales", f"{{{name}}}")))
            assert net(site.spark.read.parquet(site.at("v-out"))) == wanted
        site.sql("DELETE FROM {vectors} WHERE id % 10 = 6")
        assert counted(delta_table(site.spark, site.at(name))) == counted(site.sql("SELECT * FROM {vectors}"))
        with pytest.raises(SourceError, match="deletion vectors"):
            read_deltas(site.spark, site.at(name))
        site.sql("INSERT OVERWRITE {vectors} VALUES (1, 'x', 1)")
        frame = maintain(
            site.spark, SALES, {"sales": delta_changes(site.spark, site.at(name))}, checkpoint=site.at("v")
        )
        with pytest.raises(SparkJobError, match="adds or removes files with deletion vectors"):
            ended(frame.writeStream.format("parquet").option("path", site.at("v-out")), site.at("v"))
        theirs = maintain(site.spark, SALES, {"sales": feed(site, name)}, checkpoint=site.at("theirs"))
        ended(theirs.writeStream.format("parquet").option("path", site.at("t-out")), site.at("theirs"))
        assert net(site.spark.read.parquet(site.at("t-out"))) == {("x", 1, 1): 1}
    for mode in ("name", "id"):
        for _ in shop(site, mode, f", 'delta.columnMapping.mode' = '{mode}'"):
            for read in (delta_table, delta_changes, read_deltas):
                with pytest.raises(SourceError, match="maps its columns"):
                    read(site.spark, site.at(mode))
        site.sql(
            f"CREATE TABLE {{deltas-{mode}}} (a BIGINT, b BIGINT, c BIGINT, _weight BIGINT, _batch BIGINT) USING delta "
            f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
        )
        site.add((1, 2, 1), (2, 3, 1))
        with pytest.raises(SparkJobError, match="maps its columns"):
            site.deltas(f"deltas-{mode}")


def main():
    """Plays a scene: its name, and a folder."""
    scene, folder = sys.argv[1:]
    site = Site(folder)
    globals()[scene](site)
    site.spark.stop()
    print("all")
