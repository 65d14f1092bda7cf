"""Motifs of three to five vertices over a graph that changes, which ``crown.graph.motif`` maintains.

Each is written twice: as a motif, whose plain columns are maintained (grouping them into structs copies nothing), and
as SQL for DuckDB. A negated edge makes the result a set. Small cyclic patterns such as these are the usual benchmark of
continuous subgraph matching: Sun, Sun, Chen, He, "An in-depth study of continuous subgraph matching", PVLDB 15(7),
2022.
"""

from __future__ import annotations

from bench.cases.workload import GRAPH, HOP3, Workload

_RING = "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)"
_TRIANGLE = f"{HOP3} AND G3.dst = G1.src"


def _pattern(name: str, title: str, edges: str) -> Workload:
    """Returns the workload of a pattern whose edges are pairs of letters; the last vertex is filtered."""
    where: dict[str, str] = {}  # of each vertex: the first column that contains it
    conditions = []
    pairs = edges.split()
    for i, pair in enumerate(pairs, 1):
        for vertex, column in zip(pair, (f"G{i}.src", f"G{i}.dst"), strict=True):
            if where.setdefault(vertex, column) != column:
                conditions.append(f"{where[vertex]} = {column}")
    vertices = sorted(where)
    columns = ", ".join(f"{where[vertex]} AS {vertex}_id" for vertex in vertices)
    tables = ", ".join(f"G G{i}" for i in range(1, len(pairs) + 1))
    return Workload(
        f"motif-{name}",
        f"{len(vertices)} vertices, {len(pairs)} edges: {title}",
        f"SELECT {columns} FROM {tables} WHERE {' AND '.join(conditions)} AND {where[vertices[-1]]} > {{n}}",
        GRAPH,
        "graph",
        len(pairs),
        prefix=60_000,
        checked=6_000,
        motif="; ".join(f"({pair[0]})-[]->({pair[1]})" for pair in pairs),
        where=f"{vertices[-1]}.id > {{n}}",
    )


MOTIFS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "motif-3", "3 vertices, 3 edges: a ring",
            f"SELECT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id {_TRIANGLE}",
            GRAPH, "graph", 3, prefix=300_000, motif=_RING,
        ),
        Workload(
            "motif-4", "4 vertices, 4 edges: a path that does not turn back",
            f"SELECT DISTINCT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id, G3.dst AS d_id {HOP3} AND G3.dst > {{n}} "
            "AND NOT EXISTS (SELECT * FROM G WHERE G.src = G1.dst AND G.dst = G1.src)",
            GRAPH, "graph", 4, prefix=115_000, checked=12_000,
            motif="(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); !(b)-[]->(a)", where="d.id > {n}",
        ),
        Workload(
            "motif-5", "5 vertices, 5 edges: a ring and a way out",
            "SELECT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id, G4.dst AS d_id, G5.dst AS e_id "
            f"{_TRIANGLE.replace('G G3', 'G G3, G G4, G G5')} AND G4.src = G3.src AND G4.dst = G5.src "
            "AND G5.dst > {n}",
            GRAPH, "graph", 5, prefix=115_000, checked=12_000, motif=f"{_RING}; (c)-[]->(d); (d)-[]->(e)",
            where="e.id > {n}",
        ),
        _pattern("tail", "a ring with a tail", "ab bc ca cd"),
        _pattern("square", "a ring of four", "ab bc cd da"),
        _pattern("diamond", "two rings on one edge", "ab bc ca bd dc"),
        _pattern("clique", "a clique", "ab ac bc ad bd cd"),
        _pattern("house", "a ring of three on one of four", "ab bc cd da be ec"),
        _pattern("bow", "two rings at one vertex", "ab bc ca cd de ec"),
        _pattern("pentagon", "a ring of five", "ab bc cd de ea"),
    )
}  # fmt: skip
