"""Triangle counts on real streams. Oracles: all triples of vertices after every batch, GraphX, and GraphFrames."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from itertools import permutations
from pathlib import Path

import pytest

from spark_jobs.errors import CheckpointError, SourceError, SparkJobError
from spark_jobs.triangles.counts import triangle_counts
from tests.marks import slow
from tests.spark.streams import ChangeFiles

SCHEMA = {"edges": {"src": "int64", "dst": "int64"}}
WAYS = [slow("graph", False), ("graph", True), ("edge", False), slow("vertex", True)]


class Graph:
    """A multigraph, and its triangles by trying all triples."""

    def __init__(self, directed):
        self.directed = directed
        self.copies = Counter()

    def apply(self, changes):
        net = Counter()
        for source, target, weight in changes:
            ends = (source, target) if self.directed else (min(source, target), max(source, target))
            net[ends] += weight
        for ends, weight in net.items():
            self.copies[ends] = max(0, self.copies[ends] + weight)

    def edges(self):
        return {ends for ends, copies in self.copies.items() if copies}

    def triangles(self):
        """The edges of each triangle."""
        edges = self.edges()
        vertices = sorted({v for ends in edges for v in ends})
        for a, b, c in permutations(vertices, 3):
            rest = {(b, c), (c, a)} if self.directed else {(b, c), (a, c)}
            if a == min(a, b, c) and (self.directed or b < c) and {(a, b), *rest} <= edges:
                yield {(a, b), *rest}

    def counts(self, per):
        """Counts by key; the graph's key is empty."""
        found = Counter({(): 0}) if per == "graph" else Counter()
        for edges in self.triangles():
            keys = {"graph": {()}, "edge": edges, "vertex": {(v,) for ends in edges for v in ends}}[per]
            for key in keys:
                found[key] += 1
        return dict(found)


class Table:
    """A sink that replaces the row of the same key, and remembers the table after every batch."""

    def __init__(self):
        self.rows = {}
        self.after = {}
        self.written = {}

    def write(self, frame, number):
        rows = [tuple(row) for row in frame.collect()]
        assert len({row[:-1] for row in rows}) == len(rows)
        self.written[number] = {row[:-1]: row[-1] for row in rows}
        self.rows.update(self.written[number])
        self.after[number] = {key: count for key, count in self.rows.items() if count or key == ()}


def batches(count, seed, size=60, vertices=9):
    """Batches with loops, duplicates, both directions and absent deletes; the last one takes nearly everything away."""
    rng, alive, made = random.Random(seed), [], []
    for _ in range(count - 1):
        gone = [alive.pop(rng.randrange(len(alive))) for _ in range(len(alive) // 2)]
        new = [(rng.randrange(vertices), rng.randrange(vertices)) for _ in range(size)]
        alive += new
        absent = [(rng.randrange(vertices), rng.randrange(vertices))] * 2
        made.append([(*e, -1) for e in gone + absent] + [(*e, 1) for e in new])
    made.append([(*e, -1) for e in alive[2:]])
    return made


def run(spark, files, folder, table, consume=None, **options):
    edges = files.frames(spark)["edges"]
    counts = triangle_counts(spark, edges, checkpoint=str(folder), scratch=str(folder / "scratch"), **options)
    writer = counts.writeStream.outputMode("update").foreachBatch(consume or table.write)
    stream = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    try:
        stream.awaitTermination()
    finally:
        stream.stop()


@pytest.mark.parametrize(("per", "directed"), WAYS)
def test_counts_are_right_after_every_batch_and_across_a_restart(spark, tmp_path, per, directed):
    changes = batches(4, seed=len(per) + directed)
    files, graph, table = ChangeFiles(tmp_path / "in", SCHEMA), Graph(directed), Table()
    for batch in changes[:2]:
        files.add({"edges": batch})
    cells = 1 if per == "graph" else 2
    run(spark, files, tmp_path / "state", table, per=per, directed=directed, cells=cells)
    for batch in changes[2:]:
        files.add({"edges": batch})
    run(spark, files, tmp_path / "state", table, per=per, directed=directed)
    most = 0
    for number, batch in enumerate(changes):
        before = graph.counts(per)
        graph.apply(batch)
        now = graph.counts(per)
        assert table.after[number] == now
        changed = {key for key in {**before, **now} if before.get(key, 0) != now.get(key, 0)}
        assert changed <= set(table.written[number])
        most = max(most, *now.values(), 0)
    assert most > 3
    assert 0 in table.written[len(changes) - 1].values()


def test_a_batch_that_fails_in_the_sink_counts_once(spark, tmp_path):
    files, graph, table = ChangeFiles(tmp_path / "in", SCHEMA), Graph(True), Table()
    changes = batches(3, seed=8)
    for batch in changes:
        files.add({"edges": batch})

    def fails(frame, number):
        frame.count()
        if number == 1:
            raise RuntimeError("the sink is down")
        table.write(frame, number)

    with pytest.raises(Exception, match="the sink is down"):
        run(spark, files, tmp_path / "state", table, consume=fails, per="edge", directed=True, cells=2)
    run(spark, files, tmp_path / "state", table, per="edge", directed=True)
    for number, batch in enumerate(changes):
        graph.apply(batch)
        assert table.after[number] == graph.counts("edge")


@pytest.mark.parametrize("directed", [False, True])
def test_a_table_is_counted_once(spark, directed):
    graph, rows = Graph(directed), [(*ends, 1) for *ends, weight in batches(4, seed=9)[0] if weight > 0]
    graph.apply(rows)
    edges = spark.createDataFrame(rows, "src long, dst long, _weight long")
    for per in ("graph", "edge", "vertex"):
        counts = triangle_counts(spark, edges, per=per, directed=directed, cells=1 if per == "graph" else 2)
        assert {tuple(row[:-1]): row[-1] for row in counts.collect()} == graph.counts(per)


def test_directions_copies_and_loops_of_a_table(spark):
    rows = [
        ("a", "b"),
        ("b", "a"),
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("c", "c"),
        ("c", "d"),
        (None, "a"),
        ("b", None),
    ]
    edges = spark.createDataFrame([(*row, 0.5) for row in rows], "SRC string, dst string, `how much` double")
    for directed in (False, True):
        for per, types, keys in (
            ("graph", [], [()]),
            ("vertex", [("vertex", "string")], [("a",), ("b",), ("c",)]),
            (
                "edge",
                [("src", "string"), ("dst", "string")],
                [("a", "b"), ("b", "c"), ("c", "a") if directed else ("a", "c")],
            ),
        ):
            counts = triangle_counts(spark, edges, per=per, directed=directed, cells=1)
            assert counts.dtypes == [*types, ("count", "bigint")]
            assert {tuple(row) for row in counts.collect()} == {(*key, 1) for key in keys}
    backwards = spark.createDataFrame([(1, 2), (2, 3), (1, 3)], "src int, dst int")
    assert triangle_counts(spark, backwards, directed=True, cells=1).collect()[0][0] == 0
    assert triangle_counts(spark, backwards.filter("src > 5"), cells=1).collect()[0][0] == 0
    assert triangle_counts(spark, backwards, per="vertex").dtypes == [("vertex", "int"), ("count", "bigint")]


@pytest.mark.parametrize(
    ("columns", "options", "error", "said"),
    [
        ("src long, dst long", {"per": "node"}, SparkJobError, "per='node': give one of 'graph', 'edge', 'vertex'"),
        ("source long, dst long", {}, SourceError, "no column 'src', only source, dst: rename"),
        ("src long, target long", {}, SourceError, "no column 'dst'"),
        ("src long, dst int", {}, SourceError, "src is bigint, dst is int: cast"),
        ("src double, dst double", {}, SourceError, "cast them to bigint"),
        ("src long, dst long", {"cells": 2}, SparkJobError, "cells=2: the count of the graph is kept in one cell"),
        ("src long, dst long", {"change": "op"}, SourceError, "change column 'op'"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(spark, columns, options, error, said):
    with pytest.raises(error, match=said):
        triangle_counts(spark, spark.createDataFrame([], columns), **options)


def test_streams_need_a_checkpoint_and_bad_rows_are_put_aside_even_if_they_are_loops(spark, tmp_path):
    files, table = ChangeFiles(tmp_path / "in", SCHEMA), Table()
    files.add({"edges": [(1, 2, 1), (2, 3, 1), (3, 1, 1), (4, 4, None)]})
    with pytest.raises(CheckpointError, match="checkpoint="):
        triangle_counts(spark, files.frames(spark)["edges"])
    run(spark, files, tmp_path / "state", table, on_bad_row="quarantine", quarantine=str(tmp_path / "bad"), cells=1)
    assert table.rows == {(): 1}
    (bad,) = [line for file in (tmp_path / "bad").rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert "unknown change code NULL" in bad


def inserts_and_deletes(seed):
    """A stream that never deletes what is not there, so every engine means the same graph by it."""
    rng, alive, made = random.Random(seed), [], []
    for _ in range(3):
        gone = [alive.pop(rng.randrange(len(alive))) for _ in range(len(alive) // 2)]
        new = [(rng.randrange(30), rng.randrange(30)) for _ in range(250)]
        alive += new
        made.append([(*e, -1) for e in gone] + [(*e, 1) for e in new])
    return made, alive


def final_vertex_counts(spark, folder, changes):
    files, table = ChangeFiles(folder / "in", SCHEMA), Table()
    for batch in changes:
        files.add({"edges": batch})
    run(spark, files, folder / "state", table, per="vertex", cells=2)
    return {vertex: count for (vertex,), count in table.rows.items() if count}


def test_the_final_counts_are_those_of_graphx(spark, tmp_path):
    """GraphX comes with Spark. Its ``TriangleCount`` ignores directions, copies and loops as well."""
    changes, left = inserts_and_deletes(5)
    (tmp_path / "left.txt").write_text("".join(f"{source} {target}\n" for source, target in left))
    jvm = spark._jvm
    level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
    graph = jvm.org.apache.spark.graphx.GraphLoader.edgeListFile(
        spark._jsc.sc(), str(tmp_path / "left.txt"), False, 2, level, level
    )
    tag = jvm.scala.reflect.ClassTag.Int()
    counted = jvm.org.apache.spark.graphx.lib.TriangleCount.run(graph, tag, tag).vertices().collect()
    theirs = {int(pair._1()): int(pair._2()) for pair in counted}
    ours = final_vertex_counts(spark, tmp_path, changes)
    assert len(ours) > 20
    assert ours == {vertex: count for vertex, count in theirs.items() if count}


GRAPHFRAMES = """
import json, sys
from pyspark import StorageLevel
from spark_jobs import local_session

edges, jars = json.loads(sys.stdin.read())
spark = local_session("graphframes", cores=2, memory="1g", conf={"spark.jars": ",".join(jars)})
from graphframes import GraphFrame

frame = spark.createDataFrame(edges, "src long, dst long")
vertices = frame.selectExpr("src id").union(frame.selectExpr("dst id")).distinct()
counted = GraphFrame(vertices, frame).triangleCount(StorageLevel.MEMORY_ONLY)
print(json.dumps([[row["id"], row["count"]] for row in counted.collect()]))
spark.stop()
"""


def graphframes_jars():
    """The jars of the installed GraphFrames version in the local Maven repository; skips without them."""
    if importlib.util.find_spec("graphframes") is None:
        pytest.skip("GraphFrames is not installed: pip install graphframes-py")
    wanted = version("graphframes-py")
    folder = Path.home() / ".m2" / "repository" / "io" / "graphframes"
    jars = [str(jar) for jar in folder.glob(f"graphframes-*spark4_2.13/{wanted}/*-{wanted}.jar")]
    if not any(Path(jar).name.startswith("graphframes-spark4") for jar in jars):
        pytest.skip(
            f"the jar of GraphFrames {wanted} is not in the local Maven repository: mvn dependency:get "
            f"-Dartifact=io.graphframes:graphframes-spark4_2.13:{wanted}"
        )
    return jars


def test_the_final_counts_are_those_of_graphframes(spark, tmp_path):
    jars = graphframes_jars()
    changes, left = inserts_and_deletes(6)
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", GRAPHFRAMES],
        input=json.dumps([left, jars]),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    theirs = {vertex: count for vertex, count in json.loads(told.stdout.splitlines()[-1]) if count}
    assert final_vertex_counts(spark, tmp_path, changes) == theirs
