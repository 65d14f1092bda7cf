"""Tables about graphs that change, as SQL: degrees, triangles, components, shortest paths and reachable vertices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Integral
from types import NoneType
from typing import Any

import numpy as np

from crown.errors import CrownError
from crown.guards.arguments import flag_of, one_of
from crown.ingest.tables.frames import is_frame, kept, schemas
from crown.views import View, view
from plans.expressions.sqltext import literal

_ALL_ENDS = "(SELECT src AS id FROM edges UNION ALL SELECT dst FROM edges) AS ends"
_DEGREES = {
    "in": "SELECT dst AS id, COUNT(*) AS inDegree FROM edges GROUP BY dst",
    "out": "SELECT src AS id, COUNT(*) AS outDegree FROM edges GROUP BY src",
    "all": f"SELECT id, COUNT(*) AS degree FROM {_ALL_ENDS} GROUP BY id",
}
_ENDS = "(SELECT src AS id FROM edges UNION SELECT dst AS id FROM edges)"
_TABLE = """SELECT v.id, COALESCE(i.n, 0) AS inDegree, COALESCE(o.n, 0) AS outDegree,
  COALESCE(i.n, 0) + COALESCE(o.n, 0) AS degree
FROM {vertices} AS v
LEFT JOIN (SELECT dst, COUNT(*) AS n FROM edges GROUP BY dst) AS i ON i.dst = v.id
LEFT JOIN (SELECT src, COUNT(*) AS n FROM edges GROUP BY src) AS o ON o.src = v.id"""
_EITHER_WAY = "CASE WHEN src < dst THEN src ELSE dst END AS a, CASE WHEN src < dst THEN dst ELSE src END AS b"
_TRIANGLES = """WITH pairs AS (
  SELECT DISTINCT {ends} FROM edges WHERE src <> dst
), triangles AS (
  SELECT x.a, x.b, y.b AS c FROM pairs AS x JOIN pairs AS y ON x.b = y.a JOIN pairs AS z ON {third}
)
"""
# Each triangle is counted once: undirected pairs go from the smaller end to the larger one, and of the three rotations
# of a directed cycle the one that begins at its smallest vertex is taken.
_UNDIRECTED = _TRIANGLES.format(ends=_EITHER_WAY, third="z.a = x.a AND z.b = y.b")
_DIRECTED = _TRIANGLES.format(ends="src AS a, dst AS b", third="z.a = y.b AND z.b = x.a WHERE x.a < x.b AND z.b < z.a")
_CORNERS = """SELECT id, COUNT(*) AS `count`
FROM (SELECT a AS id FROM triangles UNION ALL SELECT b FROM triangles UNION ALL SELECT c FROM triangles) AS t
GROUP BY id"""
_SIDES = """SELECT a AS src, b AS dst, COUNT(*) AS `count`
FROM (SELECT a, b FROM triangles UNION ALL SELECT b, c FROM triangles UNION ALL SELECT {last} FROM triangles) AS t
GROUP BY a, b"""
_PER = ("vertex", "edge", "graph")
_COMPONENTS = """WITH RECURSIVE labels (id, component) AS (
  SELECT id, MIN(component) FROM (
    {first}
    UNION ALL SELECT e.dst, l.component FROM labels AS l JOIN edges AS e ON e.src = l.id
    UNION ALL SELECT e.src, l.component FROM labels AS l JOIN edges AS e ON e.dst = l.id
  ) AS derived GROUP BY id
)
"""
_PATHS = """WITH RECURSIVE paths (id, landmark, distance) AS (
  SELECT id, landmark, MIN(distance) FROM (
    SELECT id, id AS landmark, CAST(0 AS {type}) AS distance FROM {ends} WHERE id IN ({landmarks})
    UNION ALL SELECT e.src, p.landmark, p.distance + {step} FROM paths AS p JOIN edges AS e ON e.dst = p.id
  ) AS derived GROUP BY id, landmark
)
SELECT id, landmark, distance FROM paths WHERE id IS NOT NULL AND distance IS NOT NULL"""
_REACHED = """WITH RECURSIVE reached (source, id) AS (
  SELECT id AS source, id FROM {ends} WHERE id IN ({sources})
  UNION SELECT r.source, e.dst FROM reached AS r JOIN edges AS e ON e.src = r.id
)
SELECT source, id FROM reached WHERE id IS NOT NULL"""


def degree_query(direction: str) -> str:
    """Returns the query of the degrees: ``"in"``, ``"out"`` or ``"all"``. Raises CrownError for another direction."""
    return _DEGREES[one_of(direction, "direction", tuple(_DEGREES))]


def degree_table_query(vertices: bool) -> str:
    """Returns the query of all degrees of every vertex, of a vertex table or of the endpoints of edges."""
    return _TABLE.format(vertices="vertices" if vertices else _ENDS)


def triangle_query(per: str, vertices: bool, directed: bool = False) -> str:
    """Returns the query of the triangles: per ``"vertex"``, ``"edge"`` or ``"graph"``. Raises CrownError for another
    one.
    """
    one_of(per, "per", _PER)
    found = _DIRECTED if flag_of(directed, "directed") else _UNDIRECTED
    if per == "graph":
        return found + "SELECT COUNT(*) AS `count` FROM triangles"
    if per == "edge":
        return found + _SIDES.format(last="c, a" if directed else "a, c")
    if not vertices:
        return found + _CORNERS
    return (
        found
        + f"SELECT v.*, COALESCE(t.`count`, 0) AS `count` FROM vertices AS v LEFT JOIN ({_CORNERS}) AS t ON t.id = v.id"
    )


def component_query(vertices: bool) -> str:
    """Returns the query of the components, of a vertex table or of the endpoints of edges."""
    if vertices:
        shown = "SELECT v.*, l.component FROM vertices AS v JOIN labels AS l ON l.id = v.id"
        return _COMPONENTS.format(first="SELECT id, id AS component FROM vertices") + shown
    shown = "SELECT id, component FROM labels WHERE id IS NOT NULL"
    return _COMPONENTS.format(first=f"SELECT id, id AS component FROM {_ALL_ENDS}") + shown


def path_query(landmarks: Collection[Any], weight: str | None) -> str:
    """Returns the query of the shortest paths to landmarks. Raises CrownError if there are none, or for other values
    than whole numbers and texts."""
    ids = _ids("landmarks", landmarks)
    if not isinstance(weight, (str, NoneType)):
        raise CrownError(f"weight= is the name of a column of the edges, not {weight!r:.100}")
    step = "1" if weight is None else "CAST(e.`{}` AS DOUBLE)".format(weight.replace("`", "``"))
    type_ = "BIGINT" if weight is None else "DOUBLE"
    return _PATHS.format(type=type_, ends=_ALL_ENDS, landmarks=ids, step=step)


def reach_query(sources: Collection[Any]) -> str:
    """Returns the query of the vertices that sources reach. Raises CrownError as ``path_query`` does."""
    return _REACHED.format(ends=_ALL_ENDS, sources=_ids("sources", sources))


def _ids(argument: str, ids: Collection[Any]) -> str:
    """Returns a list of ids of vertices in SQL."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Collection) or not len(ids):
        raise CrownError(f"{argument}= is a list of ids of vertices, such as [1, 2], not {ids!r:.100}")
    for one in ids:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (Integral, str)):
            raise CrownError(f"{argument}= has {one!r:.100}; an id of a vertex is a whole number or a text")
    return ", ".join(map(literal, ids))


def of_graph(given: Mapping[str, Any], schema: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the schema of a graph that is given as frames or columns, and the frames, which can be read
    repeatedly.
    """
    if schema is not None and not isinstance(schema, Mapping):
        raise CrownError(
            f'schema= is a dict such as {{"edges": {{"src": "int64", "dst": "int64"}}}}, not {schema!r:.100}'
        )
    first = {name: kept(name, frame) for name, frame in given.items() if is_frame(frame)}
    return schemas({**given, **first, **(schema or {})}), first


def table_view(query: str, given: dict[str, Any], schema: Any, **options: Any) -> View:
    """Returns the view of a query over the frames or columns of a graph."""
    declared, first = of_graph(given, schema)
    return view(query, declared, tables=first or None, **options)
