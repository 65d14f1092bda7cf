"""Running triangle counts over a stream of edge changes: of the graph, of every edge, or of every vertex.

    per graph   edge changes → IVM^ε (Δ0) in the cell → the count
    per edge, per vertex
                edge changes → ``maintain`` (triangle bag, IVM^ε) → triangles that come and go → Spark's aggregation

The count of the graph is one number, however much an edge changes it: it is kept in linear space, without a look at
single triangles (``spark_jobs.triangles.engine``). Not so a count per edge or vertex. An edge that comes or goes
changes as many of those as it has triangles, and each is to be told. IVM^ε keeps them in O(√N) per change (Δ1, Δ2),
but in parts that are put together when they are read, √N steps or more per key, and does not say which keys have
changed. So there the engine finds the triangles that come and go, and Spark's state store has the counts. In both
cases all goes on from the checkpoint of the stream: the counts are exactly once through retries, crashes and restarts.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs.dispatch.envelope import WEIGHT
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.types import type_of_spark
from spark_jobs.operator import maintain
from spark_jobs.triangles.engine import QUERY, TriangleEngines

# Every triangle comes out once: undirected edges lead from the smaller end to the larger one before they get here, and
# of the three rotations of a directed cycle only the one is taken that begins at its smallest vertex. The comparisons
# are over one edge each, so they also keep self-loops out of the state.
_UNDIRECTED = "triangle(a, b, c) :- edges(a, b), edges(b, c), edges(a, c), a != b, b != c, a != c."
_DIRECTED = "triangle(a, b, c) :- edges(a, b), edges(b, c), edges(c, a), a < b, b != c, a < c."
_PER = ("graph", "edge", "vertex")


def triangle_counts(
    spark: SparkSession,
    edges: DataFrame,
    *,
    per: str = "graph",
    directed: bool = False,
    checkpoint: str | None = None,
    **options: Any,
) -> DataFrame:
    """Returns triangle counts, kept up to date while edges come and go.

    ``edges``: changes of an edge table: columns ``src`` and ``dst`` of one type (any the engine knows but floating
    point), and ``_weight`` as for ``maintain``: +n adds n copies of the edge, −n removes n, no such column adds. Other
    columns are not looked at. Self-loops and edges with a NULL end are in no triangle.

    - ``directed=False``: what GraphFrames' ``triangleCount`` counts: three vertices with an edge, in whatever
      direction, between any two. An edge is there while copies of it are, the copies of both directions added up: a
      delete of (2, 1) takes away a copy of (1, 2).
    - ``directed=True``: cycles a → b → c → a of three vertices, each once; copies count once.

    The result, by ``per``:

    - ``"graph"``: ``count`` (bigint); one row, the count after the micro-batch (none where Spark leaves out a batch
      without changes). Write it with any output mode but ``"complete"``.
    - ``"edge"``: ``src``, ``dst``, ``count``: the triangles the edge is part of; undirected with ``src < dst``.
    - ``"vertex"``: ``vertex``, ``count``.

    Write the last two with ``outputMode("update")``: a micro-batch gives the new count of every edge or vertex with a
    triangle that came or went, 0 if that was the last; what never was in a triangle does not appear. A sink should
    replace the row of the same key. (``"complete"`` gives all counts ever begun, zeros included.) A batch DataFrame
    gives the counts of that graph, once.

    ``checkpoint``: the stream's own ``checkpointLocation``: the operator's state and Spark's must stay together.
    ``options``: those of :func:`spark_jobs.maintain`, such as ``cells``, ``change``, ``on_bad_row``, ``operator``.

    Cost: O(√N) amortized per changed edge of N; per edge and per vertex also O(1) per triangle that comes or goes. A
    micro-batch never reads all the edges again. State of ``"graph"``: O(N), however many triangles there are, in one
    cell. Of the others: the edges, the present triangles, and wedges between heavy vertices, O(N^1.5) at worst; Spark's
    state store has a row for every edge or vertex that ever was in a triangle, and keeps it when the count is 0.

    Raises :class:`SparkJobError` for an unknown ``per``, or if the graph's count is to be cut into cells;
    :class:`SourceError` if ``src`` or ``dst`` is missing, or their types do not do; and whatever ``maintain`` raises.
    """
    if per not in _PER:
        raise SparkJobError(f"per={per!r}: give one of {', '.join(map(repr, _PER))}")
    if options.get("emit", "weights") != "weights":
        raise SparkJobError("counts come as new values, not as deltas: leave out emit=")
    source, target = (_end(edges, name) for name in ("src", "dst"))
    if source.dataType != target.dataType:
        raise SourceError(
            f"src is {source.dataType.simpleString()}, dst is {target.dataType.simpleString()}: cast them to one type"
        )
    vertex = type_of_spark(source.dataType)
    if vertex == "float64":
        raise SourceError("src and dst are floating point numbers, which make no good names: cast them to bigint")
    if not directed:
        ends = (F.col(quoted(source.name)), F.col(quoted(target.name)))
        edges = edges.withColumns({source.name: F.least(*ends), target.name: F.greatest(*ends)})
    schema = {"edges": {"src": vertex, "dst": vertex}}
    if per == "graph":
        if (cells := options.pop("cells", None)) not in (None, 1):
            raise SparkJobError(f"cells={cells}: the count of the graph is kept in one cell; leave out cells=")
        options |= {"cells": 1, "engines": TriangleEngines(both=not directed)}
        return maintain(spark, QUERY, {"edges": edges}, checkpoint=checkpoint, schema=schema, **options)
    query = _DIRECTED if directed else _UNDIRECTED
    triangles = maintain(spark, query, {"edges": edges}, checkpoint=checkpoint, schema=schema, **options)
    return _counted(triangles, per, directed)


def _end(edges: DataFrame, name: str) -> T.StructField:
    """Returns the column called ``name``, in whatever case."""
    for field in edges.schema.fields:
        if field.name.lower() == name:
            return field
    raise SourceError(f"the edges have no column {name!r}, only {', '.join(edges.columns)}: rename one to {name!r}")


def _counted(triangles: DataFrame, per: str, directed: bool) -> DataFrame:
    """Returns the sums of the weights of the triangles, by what they are counted for."""
    count = F.sum(WEIGHT).cast("bigint").alias("count")
    a, b, c = F.col("a"), F.col("b"), F.col("c")
    if per == "vertex":
        return triangles.select(F.explode(F.array(a, b, c)).alias("vertex"), WEIGHT).groupBy("vertex").agg(count)
    third = _edge(c, a) if directed else _edge(a, c)
    each = triangles.select(F.explode(F.array(_edge(a, b), _edge(b, c), third)).alias("edge"), WEIGHT)
    return each.groupBy(F.col("edge.src").alias("src"), F.col("edge.dst").alias("dst")).agg(count)


def _edge(source: Column, target: Column) -> Column:
    return F.struct(source.alias("src"), target.alias("dst"))
