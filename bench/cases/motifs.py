"""Motifs of three, four and five edges over a graph that changes: what ``crown.graph.motif`` maintains.

Each is written twice: as a motif, whose plain columns are maintained (putting them together as structs copies
nothing), and as the SQL that DuckDB recomputes. A negated edge makes the result a set.
"""

from __future__ import annotations

from bench.cases.workload import GRAPH, HOP3, Workload

_RING = "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)"
_TRIANGLE = f"{HOP3} AND G3.dst = G1.src"

MOTIFS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "motif-3", "3 edges: a ring",
            f"SELECT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id {_TRIANGLE}",
            GRAPH, "graph", 3, prefix=300_000, motif=_RING,
        ),
        Workload(
            "motif-4", "4 edges: a path that does not turn back",
            f"SELECT DISTINCT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id, G3.dst AS d_id {HOP3} AND G3.dst > {{n}} "
            "AND NOT EXISTS (SELECT * FROM G WHERE G.src = G1.dst AND G.dst = G1.src)",
            GRAPH, "graph", 4, prefix=115_000, checked=12_000,
            motif="(a)-[]->(b); (b)-[]->(c); (c)-[]->(d); !(b)-[]->(a)", where="d.id > {n}",
        ),
        Workload(
            "motif-5", "5 edges: a ring and a way out",
            "SELECT G1.src AS a_id, G2.src AS b_id, G3.src AS c_id, G4.dst AS d_id, G5.dst AS e_id "
            f"{_TRIANGLE.replace('G G3', 'G G3, G G4, G G5')} AND G4.src = G3.src AND G4.dst = G5.src "
            "AND G5.dst > {n}",
            GRAPH, "graph", 5, prefix=115_000, checked=12_000, motif=f"{_RING}; (c)-[]->(d); (d)-[]->(e)",
            where="e.id > {n}",
        ),
    )
}  # fmt: skip
