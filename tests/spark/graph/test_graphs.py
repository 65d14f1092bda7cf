"""``crown.graph`` over DataFrames of Spark, batch and streaming; and GraphFrames itself, where its jar is found."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row

import crown
from tests.graph.test_graph_tables import expected
from tests.marks import slow
from tests.oracles import motifs
from tests.spark.streams import ChangeFiles, Result

VERTICES = [(0, "a"), (1, "b"), (2, "b"), (3, "c"), (3, "c")]
EDGES = [(0, 1, "x"), (1, 2, "x"), (1, 2, "x"), (2, 0, "y"), (2, 3, "y"), (3, 3, "x"), (4, 0, "y")]
BATCH = ("(a)-[e]->(b); (b)-[]->(c)", "(a)-[]->(b); !(b)-[]->(c)", "(u)-[e*1..2]-(v)")


def copies(rows: list[Any]) -> Counter[Any]:
    """Rows of Spark, with how often each is there: the sum of ``_weight``, where there is one."""
    found: Counter[Any] = Counter()
    for row in rows:
        columns = row.asDict()
        weight = columns.pop("_weight", 1)
        found[tuple((n, tuple(v) if isinstance(v, tuple) else v) for n, v in columns.items())] += weight
    return Counter({key: weight for key, weight in found.items() if weight})


def graph(edges: list[Any] = EDGES) -> motifs.Graph:
    return motifs.Graph(("id", "kind"), ("src", "dst", "kind"), list(VERTICES), list(edges))


def frames(spark: Any) -> tuple[Any, Any]:
    return (
        spark.createDataFrame(VERTICES, "id long, kind string"),
        spark.createDataFrame(EDGES, "src long, dst long, kind string"),
    )


def test_batch_frames_give_the_rows_of_find(spark: Any) -> None:
    vertices, edges = frames(spark)
    for motif in BATCH:
        found = crown.graph.motif(vertices, edges, motif)
        assert copies(found.collect()) == motifs.find(graph(), motif)
        assert "_weight" not in found.columns
    assert found.schema["u"].dataType.simpleString() == "struct<id:bigint,kind:string>"
    degrees = crown.graph.degrees(edges, "in").collect()
    assert {row.id: row.inDegree for row in degrees} == {0: 2, 1: 1, 2: 2, 3: 2}
    paths = crown.graph.shortest_paths(edges, [0]).collect()
    assert {(row.id, row.distance) for row in paths} == {(0, 0), (1, 2), (2, 1), (4, 1)}
    reached = crown.graph.reachable(edges, [3, 4]).collect()
    assert {(row.source, row.id) for row in reached} == {(3, 3), *((4, i) for i in range(5))}
    found = crown.graph.components(vertices, edges.where("kind = 'x'"))
    assert copies(found.collect()) == copies([Row(id=i, kind=kind, component=i // 3 * 3) for i, kind in VERTICES])


def test_a_stream_of_edges_gives_the_changes_of_find(spark: Any, tmp_path: Any) -> None:
    vertices, folder = tmp_path / "vertices", tmp_path / "edges"
    types = ("id long, kind string, _weight long", "src long, dst long, kind string, _weight long")
    streams = []
    for path, columns in zip((vertices, folder), types, strict=True):
        path.mkdir()
        streams.append(spark.readStream.schema(columns).json(str(path)))
    motif = "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)"
    changes = crown.graph.motif(*streams, motif, where="e.kind = 'x'", checkpoint=str(tmp_path / "state"))
    query = changes.writeStream.format("memory").queryName("motif").outputMode("append").start()
    number = count()

    def batch(path: Any, columns: str, rows: list[Any]) -> None:
        names = [column.split()[0] for column in columns.split(", ")]
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (path / f"{next(number)}.json").write_text("\n".join(lines))

    try:
        batch(vertices, types[0], [(*row, 1) for row in VERTICES])
        batch(folder, types[1], [(*row, 1) for row in EDGES])
        query.processAllAvailable()
        batch(folder, types[1], [(0, 1, "x", -1), (3, 0, "x", 1)])
        query.processAllAvailable()
        after = [edge for edge in EDGES if edge != (0, 1, "x")] + [(3, 0, "x")]
        wanted = {row: n for row, n in motifs.find(graph(after), motif).items() if dict(row)["e"][2] == "x"}
        assert wanted
        assert copies(spark.table("motif").collect()) == wanted
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("per", "directed"), [("graph", False), slow("edge", False), ("edge", True), slow("graph", True)]
)
def test_a_stream_of_edges_gives_the_changes_of_the_triangles(
    spark: Any, tmp_path: Any, per: str, directed: bool
) -> None:
    """Copies in both directions, loops and deletes; the live engine is lost once. Oracle: all triples of vertices."""
    random, files, sink = Random(7), ChangeFiles(tmp_path / "in", {"edges": {"src": "int64", "dst": "int64"}}), Result()
    present: Counter[Any] = Counter()
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    for turn in range(3):
        gone = random.sample(sorted(present), len(present) // 3)
        batch = [(*edge, -random.randint(1, present[edge])) for edge in gone]
        batch += [(random.randrange(7), random.randrange(7), random.choice((1, 1, 2))) for _ in range(14)]
        for *edge, weight in batch:
            present[tuple(edge)] += weight
        present = +present
        files.add({"edges": batch})
        changes = crown.graph.triangles(
            None,
            files.frames(spark)["edges"],
            per=per,
            directed=directed,
            checkpoint=str(state),
            scratch=str(scratch),
            cells=2 if directed else 1,
        )
        writer = changes.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(state))
        writer.trigger(availableNow=True).start().awaitTermination()
        wanted = expected(present, {})[{"graph": ("total", "rings"), "edge": ("sides", "arcs")}[per][directed]]
        assert sink.state() == Counter({tuple(row.values()): 1 for row in wanted}), turn
        if turn == 1:
            shutil.rmtree(scratch)


def test_graphframes_itself_finds_the_same(spark: Any) -> None:
    graphframes = pytest.importorskip("graphframes")
    vertices, edges = frames(spark)
    try:
        whole = graphframes.GraphFrame(vertices, edges)
        whole.find("(a)").count()
    except Exception as error:
        pytest.skip(f"the jar of GraphFrames is not on the class path: {type(error).__name__}")
    for motif in (*BATCH, "(a)-[e]-(b); (b)-[]->(c)", "(a)-[*2]->(b)", "!(u)-[]->(v)"):
        found = whole.find(motif)
        assert copies(found.collect()) == motifs.find(graph(), motif)
        assert crown.graph.motif(whole, None, motif).columns == found.columns
