"""What a ``foreachBatch`` function may do with its batch: read it often, also at once; not reading it is noticed."""

from __future__ import annotations

import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark import InheritableThread
from pyspark.sql import functions as F
from pyspark.util import inheritable_thread_target

from spark_jobs import maintain
from spark_jobs.errors import BrokenChainError
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"


@pytest.fixture
def files(tmp_path):
    rng = random.Random(4)
    made = ChangeFiles(tmp_path / "in", GRAPH)
    made.changes = [
        {"g": [(rng.randrange(30), rng.randrange(30), rng.choice((1, 1, 1, -1))) for _ in range(70)]} for _ in range(3)
    ]
    for batch in made.changes:
        made.add(batch)
    return made


def assert_right(sink, files):
    oracle = oracle_of(GRAPH, HOPS)
    for number, batch in enumerate(files.changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_a_batch_that_two_threads_read_at_once_is_the_same_for_both(spark, tmp_path, files, cells):
    sink, seen = Result(), {}

    def both(frame, number):
        threads = [InheritableThread(lambda i=i: seen.update({(number, i): rows_of(frame)})) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen[number, 0] == seen[number, 1]
        with ThreadPoolExecutor(2) as pool:
            again = list(pool.map(inheritable_thread_target(spark)(rows_of), [frame, frame]))
        assert again == [seen[number, 0]] * 2
        sink.deltas[number] = seen[number, 0]

    run(spark, HOPS, files, tmp_path / "state", consume=both, schema=GRAPH, cells=cells)
    assert_right(sink, files)


def test_a_thread_that_does_not_know_its_batch_is_refused_and_not_given_another_result(spark, tmp_path, files):
    errors, sink = [], Result()

    def read(frame):
        try:
            rows_of(frame)
        except Exception as error:
            errors.append(str(error))

    def beside(frame, number):
        thread = threading.Thread(target=read, args=(frame,))
        thread.start()
        thread.join()
        sink.write(frame, number)

    run(spark, HOPS, files, tmp_path / "state", consume=beside, schema=GRAPH, cells=1)
    assert len(errors) == 3
    assert all("pyspark.InheritableThread" in error for error in errors)
    assert_right(sink, files)


@pytest.mark.parametrize("cells", [slow(1), 2])
@pytest.mark.parametrize("own_too", [slow(True), False], ids=["and its own", "alone"])
def test_a_frame_kept_from_an_earlier_batch_is_refused_and_changes_nothing(spark, tmp_path, files, cells, own_too):
    """Read in a later call, it would be executed under the later batch's number, with its own rows."""
    sink, kept = Result(), []

    def late(frame, number):
        if number == 1:
            kept[0].collect()
        if own_too or number != 1:
            sink.write(frame, number)
        kept[:] = [frame]

    said = "rows that were read in batch 1 belong to another batch: .* kept the frame of an earlier batch"
    with pytest.raises(Exception, match=said):
        run(spark, HOPS, files, tmp_path / "state", consume=late, schema=GRAPH, cells=cells)
    run(spark, HOPS, files, tmp_path / "state", sink=sink, schema=GRAPH, cells=cells)
    assert_right(sink, files)


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_limits_after_a_whole_read_change_nothing(spark, tmp_path, files, cells):
    sink = Result()

    def peek(frame, number):
        frame.isEmpty()
        sink.write(frame, number)
        assert len(frame.limit(2).collect()) == 2
        frame.head()

    run(spark, HOPS, files, tmp_path / "state", consume=peek, schema=GRAPH, cells=cells)
    assert_right(sink, files)


@pytest.mark.parametrize(("skipped", "cells"), [slow(0, 1), slow(0, 2), slow(1, 1), (1, 2)])
def test_a_batch_that_is_never_read_is_noticed_at_the_next(spark, tmp_path, files, cells, skipped):
    with pytest.raises(Exception, match=f"no cell has batch {skipped} .*foreachBatch did not read it"):
        run(
            spark,
            HOPS,
            files,
            tmp_path / "state",
            consume=lambda frame, number: None if number == skipped else frame.collect(),
            schema=GRAPH,
            cells=cells,
        )


def test_the_last_batch_that_is_never_read_is_noticed_when_the_stream_is_built_again(spark, tmp_path, files):
    state = tmp_path / "state"
    run(
        spark,
        HOPS,
        files,
        state,
        consume=lambda frame, number: None if number == 2 else frame.collect(),
        schema=GRAPH,
        cells=2,
    )
    with pytest.raises(BrokenChainError, match=r"committed batch 2 .* no cell has batch 2"):
        maintain(spark, HOPS, files.frames(spark), checkpoint=str(state), schema=GRAPH)


@pytest.mark.parametrize("cells", [slow(1), 2])
@pytest.mark.parametrize("lost", [slow("crown"), slow("offsets"), "commits", "the newest deltas"])
def test_a_restart_after_a_loss_is_refused(spark, tmp_path, files, cells, lost):
    state = tmp_path / "state"
    run(spark, HOPS, files, state, schema=GRAPH, cells=cells)
    files.add(files.changes[0])
    if lost == "the newest deltas":
        for delta in state.glob("crown/*/crown/*/2.delta"):
            delta.unlink()
    else:
        shutil.rmtree(state / lost)
    if lost == "offsets":
        shutil.rmtree(state / "commits")
    if lost == "commits":  # Spark executes the last batch of its offsets again, which is no contradiction
        run(spark, HOPS, files, state, schema=GRAPH, cells=cells)
        return
    with pytest.raises(BrokenChainError, match=r"rollback-to|new checkpoint"):
        run(spark, HOPS, files, state, schema=GRAPH, cells=cells)


def test_losing_sparks_whole_checkpoint_stops_the_stream_that_begins_anew(spark, tmp_path, files):
    state = tmp_path / "state"
    run(spark, HOPS, files, state, schema=GRAPH, cells=1)
    for name in ("offsets", "commits", "sources"):
        shutil.rmtree(state / name)
    for name in ("metadata", ".metadata.crc"):
        (state / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"new stream .* up to batch 2: Spark's metadata, offsets and commits"):
        run(spark, HOPS, files, state, schema=GRAPH, cells=1)


@pytest.mark.parametrize(("adaptive", "cells"), [slow("true", 1), slow("true", 2), slow("false", 1), ("false", 2)])
def test_batches_of_which_nothing_is_left_are_applied_by_every_cell(spark, tmp_path, files, adaptive, cells):
    """Spark optimizes away what is empty: a filter that keeps nothing, a join with nothing."""
    frame = files.frames(spark)["g"].filter((F.col("src") > 100) | (F.col("_weight") > 5))
    nothing = spark.createDataFrame([], "src long")
    for name, frames in (("filtered", frame), ("joined", files.frames(spark)["g"].join(nothing, "src"))):
        state = tmp_path / name
        deltas = maintain(spark, HOPS, {"g": frames}, checkpoint=str(state), schema=GRAPH, cells=cells)
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        writer = deltas.writeStream.foreachBatch(lambda frame, number: frame.collect())
        query = writer.option("checkpointLocation", str(state)).trigger(availableNow=True).start()
        query.awaitTermination()
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        found = [len(list(cell.glob("*.delta"))) for cell in state.glob("crown/*/crown/[0-9]")]
        assert found == [3] * cells
        maintain(spark, HOPS, {"g": frames}, checkpoint=str(state), schema=GRAPH)


def test_a_stream_stopped_in_the_middle_of_its_input_has_not_applied_half_of_it(spark, tmp_path):
    """Spark then closes the connection to the worker, which looks like the end of the rows."""
    files = ChangeFiles(tmp_path / "in", GRAPH)
    files.add({"g": [(n, n + 1, 1) for n in range(100_000)]})
    slow = F.expr(
        "if(src % 500 = 0, coalesce(try_cast(java_method('java.lang.Thread', 'sleep', 20L + src % 3) as long), 0), 0)"
    )
    frame = files.frames(spark)["g"].withColumn("dst", F.col("dst") + slow)
    state = tmp_path / "state"
    query = "SELECT DISTINCT src, dst FROM g"

    def start(frame, sink):
        deltas = maintain(spark, query, {"g": frame}, checkpoint=str(state), schema=GRAPH, cells=1)
        return deltas.writeStream.foreachBatch(sink).option("checkpointLocation", str(state)).start()

    stream = start(frame, lambda rows, _: rows.count())
    time.sleep(2.5)
    stream.stop()
    assert not list(state.glob("crown/*/crown/0/0.delta"))
    counted = []
    stream = start(files.frames(spark)["g"], lambda rows, _: counted.append(rows.count()))
    stream.processAllAvailable()
    stream.stop()
    assert counted == [100_000]


@pytest.mark.slow
def test_a_bad_row_at_the_end_of_a_long_batch_leaves_no_trace_of_the_rows_before_it(spark, tmp_path):
    schema = {"g": {"src": "int64", "dst": "int32"}}
    frame = spark.range(300_000).selectExpr("id src", "if(id < 299999, id, 3000000000) dst")
    (tmp_path / "in").mkdir()
    frame.coalesce(1).write.parquet(str(tmp_path / "in" / "g"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in" / "g"))
    state = tmp_path / "state"
    deltas = maintain(
        spark, "SELECT DISTINCT src, dst FROM g", {"g": stream}, checkpoint=str(state), schema=schema, cells=1
    )
    query = deltas.writeStream.foreachBatch(lambda rows, _: rows.count()).option("checkpointLocation", str(state))
    with pytest.raises(Exception, match="bad row in relation 'g'"):
        query.trigger(availableNow=True).start().awaitTermination()
    time.sleep(1)
    assert not list(state.glob("crown/*/crown/0/0.delta"))
