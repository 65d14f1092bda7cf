"""Degrees, triangles, components and shortest paths are those of the graph as it is, after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, permutations
from math import inf
from random import Random
from typing import Any

import pytest

import crown

EDGES = {"src": "int64", "dst": "int64"}
VERTICES = {"id": "int64", "name": "string"}
Edge = tuple[int, int]


def rows(view: Any) -> list[dict[str, Any]]:
    return sorted(view.to_table().to_pylist(), key=repr)


def triangles(edges: Counter[Edge]) -> list[tuple[int, int, int]]:
    """The triangles without directions, copies and loops."""
    pairs = {frozenset(edge) for edge in edges if edge[0] != edge[1]}
    ends = sorted({end for edge in edges for end in edge})
    return [c for c in combinations(ends, 3) if all(frozenset(pair) in pairs for pair in combinations(c, 2))]


def rings(edges: Counter[Edge]) -> list[tuple[int, int, int]]:
    """The directed triangles, each from its smallest vertex on, without copies and loops."""
    ends = sorted({end for edge in edges for end in edge})
    return [
        (a, b, c) for a, b, c in permutations(ends, 3) if a < min(b, c) and {(a, b), (b, c), (c, a)} <= edges.keys()
    ]


def expected(edges: Counter[Edge], vertices: dict[int, str]) -> dict[str, list[dict[str, Any]]]:
    into, out = Counter[int](), Counter[int]()
    for (src, dst), copies in edges.items():
        out[src] += copies
        into[dst] += copies
    both = into + out
    corners = Counter(corner for triangle in triangles(edges) for corner in triangle)
    sides = Counter(side for a, b, c in triangles(edges) for side in ((a, b), (b, c), (a, c)))
    arcs = Counter(arc for a, b, c in rings(edges) for arc in ((a, b), (b, c), (c, a)))
    found = {
        "in": [{"id": v, "inDegree": n} for v, n in into.items()],
        "out": [{"id": v, "outDegree": n} for v, n in out.items()],
        "all": [{"id": v, "degree": n} for v, n in both.items()],
        "table": [{"id": v, "inDegree": into[v], "outDegree": out[v], "degree": both[v]} for v in vertices],
        "ends": [{"id": v, "inDegree": into[v], "outDegree": out[v], "degree": both[v]} for v in both],
        "triangles": [{"id": v, "name": name, "count": corners[v]} for v, name in vertices.items()],
        "corners": [{"id": v, "count": n} for v, n in corners.items()],
        "total": [{"count": len(triangles(edges))}],
        "sides": [{"src": a, "dst": b, "count": n} for (a, b), n in sides.items()],
        "rings": [{"count": len(rings(edges))}],
        "arcs": [{"src": a, "dst": b, "count": n} for (a, b), n in arcs.items()],
        "turns": [{"id": v, "count": n} for v, n in Counter(v for ring in rings(edges) for v in ring).items()],
    }
    return {name: sorted(found[name], key=repr) for name in found}


def test_degrees_and_triangles_follow_every_batch() -> None:
    random = Random(5)
    views = {
        **{way: crown.graph.degrees(EDGES, way) for way in ("in", "out", "all")},
        "table": crown.graph.degree_table(VERTICES, EDGES, schema={"vertices": {"columns": VERTICES, "key": ["id"]}}),
        "ends": crown.graph.degree_table(None, EDGES),
        "triangles": crown.graph.triangles(VERTICES, EDGES, schema={"vertices": {"columns": VERTICES, "key": ["id"]}}),
        "corners": crown.graph.triangles(None, EDGES),
        "total": crown.graph.triangles(VERTICES, EDGES, per="graph"),
        "sides": crown.graph.triangles(None, EDGES, per="edge"),
        "rings": crown.graph.triangles(None, EDGES, per="graph", directed=True),
        "arcs": crown.graph.triangles(None, EDGES, per="edge", directed=True),
        "turns": crown.graph.triangles(None, EDGES, directed=True),
    }
    vertices = {i: f"v{i}" for i in range(6)}
    for name in ("table", "triangles"):
        views[name].update({"vertices": [{"id": i, "name": name} for i, name in vertices.items()]})
    edges: Counter[Edge] = Counter()
    for turn in range(8):
        gone = random.sample(sorted(edges), min(len(edges), 2 if turn < 7 else len(edges)))
        batch = [(edge, -random.randint(1, edges[edge]) if turn < 7 else -edges[edge]) for edge in gone]
        if turn < 7:
            batch += [((random.randrange(6), random.randrange(6)), random.choice((1, 1, 2))) for _ in range(6)]
        for edge, weight in batch:
            edges[edge] += weight
        edges = +edges
        change = [{"src": src, "dst": dst, "_weight": weight} for (src, dst), weight in batch]
        wanted = expected(edges, vertices)
        for name, view in views.items():
            view.apply({"edges": change})
            assert rows(view) == wanted[name], (name, turn)


def component_of(vertices: Iterable[int], edges: Counter[Edge]) -> dict[int, int]:
    found = {vertex: vertex for vertex in vertices}
    for _ in found:
        for src, dst in edges:
            found[src] = found[dst] = min(found[src], found[dst])
    return found


def distances(edges: dict[Edge, float], landmarks: Iterable[int]) -> dict[Edge, float]:
    """The least distance from each vertex to each landmark that it reaches."""
    ends = {end for edge in edges for end in edge}
    found = {(mark, mark): 0.0 for mark in landmarks if mark in ends}
    for _ in ends:
        for (src, dst), cost in edges.items():
            for mark in landmarks:
                if (dst, mark) in found:
                    found[src, mark] = min(found.get((src, mark), inf), found[dst, mark] + cost)
    return found


def test_components_paths_and_reachable_vertices_follow_every_batch() -> None:
    random = Random(9)
    keyed = {"vertices": {"columns": VERTICES, "key": ["id"]}}
    weighed = {**EDGES, "km": "float64"}
    named, ends = crown.graph.components(VERTICES, EDGES, schema=keyed), crown.graph.components(None, EDGES)
    hops, ways = crown.graph.shortest_paths(EDGES, [0, 3]), crown.graph.shortest_paths(weighed, [1], weight="km")
    reached = crown.graph.reachable(EDGES, [0, 3])
    named.update({"vertices": [{"id": i, "name": f"v{i}"} for i in range(9)]})
    edges: dict[Edge, float] = {}
    for _ in range(30):
        change = []
        for _ in range(random.randint(1, 4)):
            edge = (random.randrange(9), random.randrange(9))
            edge = random.choice(sorted(edges)) if edges and random.random() < 0.6 else edge
            row = {"src": edge[0], "dst": edge[1], "km": edges.get(edge, random.randrange(8) / 4)}
            change.append({**row, "_weight": -1 if edge in edges else 1})
            if edges.pop(edge, None) is None:
                edges[edge] = row["km"]
        ways.apply({"edges": change})
        for view in (named, ends, hops, reached):
            view.apply({"edges": [{k: v for k, v in row.items() if k != "km"} for row in change]})
        wanted = component_of(range(9), Counter(edges))
        assert {row["id"]: row["component"] for row in named} == wanted
        assert {row["name"] for row in named} == {f"v{i}" for i in range(9)}
        touched = {end for edge in edges for end in edge}
        assert {row["id"]: row["component"] for row in ends} == {v: c for v, c in wanted.items() if v in touched}
        found = {(row["id"], row["landmark"]): row["distance"] for row in hops}
        assert found == distances(dict.fromkeys(edges, 1), [0, 3])
        assert {(row["id"], row["landmark"]): row["distance"] for row in ways} == distances(edges, [1])
        backwards = distances({(dst, src): 1 for src, dst in edges}, [0, 3])
        assert {(row["id"], row["source"]) for row in reached} == set(backwards)


def test_landmarks_and_sources_are_ids() -> None:
    for wrong in ([], "abc", 7, [1.5], [None]):
        with pytest.raises(crown.CrownError, match="sources= "):
            crown.graph.reachable(EDGES, wrong)
        with pytest.raises(crown.CrownError, match="landmarks= "):
            crown.graph.shortest_paths(EDGES, wrong)
    with pytest.raises(crown.CrownError, match="weight= is the name of a column of the edges, not 3"):
        crown.graph.shortest_paths(EDGES, [1], weight=3)
    odd = {"src": "string", "dst": "string", "how `far`": "int64"}
    paths = crown.graph.shortest_paths(odd, ["it's"], weight="how `far`")
    paths.apply({"edges": [("a", "it's", 4), ("b", "a", None)]})
    assert {tuple(row.values()) for row in paths} == {("a", "it's", 4.0), ("it's", "it's", 0.0)}


def test_a_direction_or_count_that_there_is_not_is_refused() -> None:
    with pytest.raises(crown.CrownError, match='direction must be "in", "out" or "all", not \'up\''):
        crown.graph.degrees(EDGES, "up")
    with pytest.raises(crown.CrownError, match='per must be "vertex", "edge" or "graph", not \'corner\''):
        crown.graph.triangles(None, EDGES, per="corner")
    with pytest.raises(crown.CrownError, match="edges are missing"):
        crown.graph.motif(VERTICES, None, "(a)")
    with pytest.raises(crown.PlanError, match="the schema has no edge relation"):
        crown.graph.motif(None, VERTICES, "(a)-[]->(b)")


class GraphFrame:
    """What a GraphFrame shows of itself."""

    def __init__(self, vertices: Any, edges: Any) -> None:
        self.vertices = vertices
        self.edges = edges


def test_a_graphframe_stands_for_its_vertices_and_edges() -> None:
    graph = GraphFrame([{"id": 1}, {"id": 2}], [{"src": 1, "dst": 2}])
    assert rows(crown.graph.motif(graph, None, "(a)-[]->(b)")) == [{"a": {"id": 1}, "b": {"id": 2}}]
    assert rows(crown.graph.degrees(graph, "in")) == [{"id": 2, "inDegree": 1}]
    keyed = {"vertices": {"columns": {"id": "int64"}, "key": ["id"]}}
    assert rows(crown.graph.triangles(graph, None, schema=keyed)) == [{"id": 1, "count": 0}, {"id": 2, "count": 0}]
    with pytest.raises(crown.CrownError, match="has its own edges"):
        crown.graph.motif(graph, graph.edges, "(a)-[]->(b)")
