"""Motifs, degrees, triangles, components, paths and reachable vertices of graphs that change, maintained
incrementally.

A graph is two tables, as in GraphFrames: vertices with a column ``id``, edges with the columns ``src`` and ``dst``, and
any other columns. Arrow, pandas and Polars frames or rows give a view of the embedded engine; batch or streaming
DataFrames of Spark, or a ``GraphFrame`` in place of both, give a DataFrame.

>>> import crown
>>> edges = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}]
>>> paths = crown.graph.motif(None, edges, "(a)-[]->(b); (b)-[]->(c); !(a)-[]->(c)")
>>> paths.to_table().to_pylist()
[{'a': {'id': 1}, 'b': {'id': 2}, 'c': {'id': 3}}]
>>> paths.apply({"edges": [{"src": 1, "dst": 3}]}).to_pylist()
[{'a': {'id': 1}, 'b': {'id': 2}, 'c': {'id': 3}, '_weight': -1}]
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

from crown.errors import CrownError, needs
from crown.graph.motifs import DurableMotifView, MotifView, load, motif_view
from crown.graph.motifs import open_motif as open
from crown.graph.tables import (
    component_query,
    degree_query,
    degree_table_query,
    path_query,
    reach_query,
    table_view,
    triangle_query,
)
from crown.views import View

if TYPE_CHECKING:
    from spark_jobs.graphs import Frame

__all__ = [
    "DurableMotifView",
    "MotifView",
    "components",
    "degree_table",
    "degrees",
    "load",
    "motif",
    "open",
    "reachable",
    "shortest_paths",
    "triangles",
]


@overload
def motif(
    vertices: Frame | None, edges: Frame, pattern: str, *, where: str | None = None, schema: Any = None, **options: Any
) -> Frame: ...


@overload
def motif(
    vertices: Any, edges: Any, pattern: str, *, where: str | None = None, schema: Any = None, **options: Any
) -> MotifView: ...


def motif(
    vertices: Any, edges: Any, pattern: str, *, where: str | None = None, schema: Any = None, **options: Any
) -> Any:
    """Returns the maintained result of ``GraphFrame(vertices, edges).find(pattern).where(where)``.

    ``vertices``: the vertices, or None for the endpoints of edges. ``edges``: the edges; None with a ``GraphFrame`` as
    ``vertices``. ``pattern``: a motif, in all forms that ``find`` accepts: paths of a fixed length ``[e*2]`` or of a
    range ``[e*1..3]``, edges without direction ``-[e]-``, negated ones ``!(a)-[]->(b)``. ``where``: a condition in SQL
    over the elements, ``a.id <> c.id AND e.kind = 'friend'``. ``schema``: declared types and keys of ``vertices`` and
    ``edges``, as for ``crown.view``; a key ``id`` of the vertices makes them cheaper.

    The columns are those of ``find``: a struct for each named vertex and edge, none for others, and ``_hop``,
    ``_pattern`` and ``_direction`` of paths and of edges without direction. Copies of rows are kept. Different names
    can match the same vertex. With a negated edge no row occurs twice.

    - Frames or rows, or columns and types for an empty graph: a ``MotifView``; ``view.apply({"edges": ...})`` changes
      it. ``options`` are those of ``crown.view``.
    - Batch DataFrames of Spark: a DataFrame, each row repeated as often as it is found.
    - Streaming ones: the stream of changes, with ``_weight``; ``options`` are those of ``crown.spark.maintain``.

    Raises PlanError for an invalid motif or condition, with its position, and MissingPackageError without PySpark.
    """
    vertices, edges = _graph(vertices, edges)
    if _on_spark(edges):
        return _spark().motif(vertices, edges, pattern, where=where, schema=schema, **options)
    return motif_view(vertices, edges, pattern, where=where, schema=schema, **options)


@overload
def degrees(edges: Frame, direction: str = "all", *, schema: Any = None, **options: Any) -> Frame: ...


@overload
def degrees(edges: Any, direction: str = "all", *, schema: Any = None, **options: Any) -> View: ...


def degrees(edges: Any, direction: str = "all", *, schema: Any = None, **options: Any) -> Any:
    """Returns the maintained degree of each vertex that has an edge. O(1) per changed edge.

    ``direction``: ``"in"``, ``"out"`` or ``"all"``; the columns are ``id`` and, as in GraphFrames, ``inDegree``,
    ``outDegree`` or ``degree``. A self-loop counts for both directions. Frames, ``schema`` and ``options`` as for
    ``motif``. Raises CrownError for another direction.

    >>> degrees([{"src": 1, "dst": 2}, {"src": 1, "dst": 3}], "out").get({"id": 1})
    {'id': 1, 'outDegree': 2}
    """
    _, edges = _graph(None, edges)
    return _table(degree_query(direction), None, edges, schema, options)


@overload
def degree_table(vertices: Frame | None, edges: Frame, *, schema: Any = None, **options: Any) -> Frame: ...


@overload
def degree_table(vertices: Any, edges: Any, *, schema: Any = None, **options: Any) -> View: ...


def degree_table(vertices: Any, edges: Any, *, schema: Any = None, **options: Any) -> Any:
    """Returns ``id``, ``inDegree``, ``outDegree`` and ``degree`` of every vertex, zeros if it has no edge.

    An iteration of PageRank needs these: the degree by which a rank is divided, and the vertices with degree zero.
    ``vertices``: None for the endpoints of edges. Frames, ``schema`` and ``options`` as for ``motif``.

    >>> sorted(row["outDegree"] for row in degree_table(None, [{"src": 1, "dst": 2}, {"src": 1, "dst": 3}]))
    [0, 0, 2]
    """
    vertices, edges = _graph(vertices, edges)
    return _table(degree_table_query(vertices is not None), vertices, edges, schema, options)


@overload
def triangles(
    vertices: Frame | None, edges: Frame, *, per: str = ..., directed: bool = ..., schema: Any = ..., **options: Any
) -> Frame: ...


@overload
def triangles(
    vertices: Any, edges: Any, *, per: str = ..., directed: bool = ..., schema: Any = ..., **options: Any
) -> View: ...


def triangles(
    vertices: Any, edges: Any, *, per: str = "vertex", directed: bool = False, schema: Any = None, **options: Any
) -> Any:
    """Returns the maintained number of triangles: through each vertex or edge, or in the graph.

    Copies and self-loops do not count. An edge counts in either direction, as in GraphFrames; with ``directed`` the
    cycles a → b → c → a are counted. ``per="vertex"``: the columns of ``vertices`` and ``count``, zeros included;
    without ``vertices``, ``id`` and ``count`` of the vertices in a triangle. ``per="edge"``: ``src``, ``dst`` and
    ``count`` of the edges in a triangle; undirected with ``src < dst``. ``per="graph"``: one row, ``count``. Frames,
    ``schema`` and ``options`` as for ``motif``. Raises CrownError for another ``per``.

    Cost of a changed edge of N: O(√N) amortized, plus the changed triangles if they are counted by vertex or edge.
    State: O(N) for the graph's count, O(N^1.5) at worst for the others.

    >>> rows = [{"src": 1, "dst": 2}, {"src": 3, "dst": 2}, {"src": 1, "dst": 3}]
    >>> triangles(None, rows, per="graph").to_table().to_pylist()
    [{'count': 1}]
    """
    vertices, edges = _graph(vertices, edges)
    query = triangle_query(per, vertices is not None, directed)
    return _table(query, vertices if per == "vertex" else None, edges, schema, options)


@overload
def components(vertices: Frame | None, edges: Frame, *, schema: Any = None, **options: Any) -> Frame: ...


@overload
def components(vertices: Any, edges: Any, *, schema: Any = None, **options: Any) -> View: ...


def components(vertices: Any, edges: Any, *, schema: Any = None, **options: Any) -> Any:
    """Returns the maintained connected component of every vertex: the columns of ``vertices`` and ``component``.

    ``component`` is the least id of a vertex in the component; edges count in both directions. ``vertices``: None for
    the endpoints of edges, with the columns ``id`` and ``component``. Frames, ``schema`` and ``options`` as for
    ``motif``; on Spark, one cell runs it.

    Cost of a changed edge: the vertices whose component changes with it, and those whose component was found through
    that edge, times their edges. State: O(edges).

    >>> components(None, [{"src": 1, "dst": 2}, {"src": 3, "dst": 2}, {"src": 7, "dst": 8}]).contains((3, 1))
    True
    """
    vertices, edges = _graph(vertices, edges)
    return _table(component_query(vertices is not None), vertices, edges, schema, options)


@overload
def shortest_paths(
    edges: Frame, landmarks: Collection[Any], *, weight: str | None = ..., schema: Any = ..., **options: Any
) -> Frame: ...


@overload
def shortest_paths(
    edges: Any, landmarks: Collection[Any], *, weight: str | None = ..., schema: Any = ..., **options: Any
) -> View: ...


def shortest_paths(
    edges: Any, landmarks: Collection[Any], *, weight: str | None = None, schema: Any = None, **options: Any
) -> Any:
    """Returns the maintained distance from every vertex to each of the ``landmarks`` that it reaches along edges.

    ``landmarks``: ids of vertices, whole numbers or texts. The columns are ``id``, ``landmark`` and ``distance``: the
    number of edges, BIGINT, or, with ``weight``, the sum of this column of the edges, DOUBLE; edges without a weight do
    not count. A landmark has the distance 0 to itself while it has an edge. Frames, ``schema`` and ``options`` as for
    ``motif``; on Spark, one cell runs it.

    Cost of a changed edge: the vertices whose distances change with it, times their edges. State: O(edges) for each
    landmark. Raises CrownError for other landmarks. A batch is rejected with ChangeError if it makes a circle of
    negative weights that reaches a landmark.

    >>> paths = shortest_paths([{"src": 1, "dst": 2}, {"src": 2, "dst": 3}], [3])
    >>> sorted((row["id"], row["distance"]) for row in paths)
    [(1, 2), (2, 1), (3, 0)]
    """
    _, edges = _graph(None, edges)
    return _table(path_query(landmarks, weight), None, edges, schema, options)


@overload
def reachable(edges: Frame, sources: Collection[Any], *, schema: Any = ..., **options: Any) -> Frame: ...


@overload
def reachable(edges: Any, sources: Collection[Any], *, schema: Any = ..., **options: Any) -> View: ...


def reachable(edges: Any, sources: Collection[Any], *, schema: Any = None, **options: Any) -> Any:
    """Returns the maintained vertices that each of the ``sources`` reaches along edges: ``source`` and ``id``.

    ``sources``: ids of vertices, whole numbers or texts. A source reaches itself while it has an edge. Frames,
    ``schema`` and ``options`` as for ``motif``; on Spark, one cell runs it.

    Cost of a changed edge: the vertices that are reached with it and not without it, and those that were first reached
    through it, times their edges. State: O(edges) for each source. Raises CrownError for other sources.

    >>> reached = reachable([{"src": 1, "dst": 2}, {"src": 2, "dst": 3}, {"src": 7, "dst": 8}], [1])
    >>> sorted(row["id"] for row in reached)
    [1, 2, 3]
    >>> reached.apply({"edges": [{"src": 2, "dst": 3, "_weight": -1}]}).to_pylist()
    [{'source': 1, 'id': 3, '_weight': -1}]
    """
    _, edges = _graph(None, edges)
    return _table(reach_query(sources), None, edges, schema, options)


def _table(query: str, vertices: Any, edges: Any, schema: Any, options: dict[str, Any]) -> Any:
    given = {"edges": edges} if vertices is None else {"vertices": vertices, "edges": edges}
    if _on_spark(edges):
        return _spark().table(query, given, schema=schema, **options)
    return table_view(query, given, schema, **options)


def _graph(vertices: Any, edges: Any) -> tuple[Any, Any]:
    """Returns vertices and edges, taken from a GraphFrame if one is given."""
    for given in (vertices, edges):
        if type(given).__name__ == "GraphFrame":
            if given is vertices and edges is not None:
                raise CrownError("a GraphFrame has its own edges; give None for them")
            return (given.vertices if given is vertices else None), given.edges
    if edges is None:
        raise CrownError("edges are missing; give a frame with the columns src and dst, or a GraphFrame as vertices")
    return vertices, edges


def _on_spark(frame: Any) -> bool:
    return type(frame).__module__.startswith("pyspark.sql")


def _spark() -> Any:
    with needs("crown.graph over DataFrames"):
        return import_module("spark_jobs.graphs")
