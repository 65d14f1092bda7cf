"""Groups, bags and outer joins, which the public view maintains as programs of stages, over the same streams."""

from __future__ import annotations

from bench.cases import cofactors, shop, snb
from bench.cases.tpch.queries import TPCH
from bench.cases.workload import GRAPH, HOP3, Workload

# Checked on shuffled edges: in file order a window has few sources, and DuckDB would build the fourth powers of their
# degrees.
_STAR = "FROM G G1, G G2, G G3, G G4 WHERE G1.src = G2.src AND G1.src = G3.src AND G1.src = G4.src"
_TEN = ("src", "dst", "src * dst", "src * src", "dst * dst", "src + dst", "src - dst", "2 * src", "3 * dst", "src * 5")

_SNB4 = (
    "SELECT t_name, COUNT(DISTINCT m_messageid) AS n FROM tag, message, message_tag, knows "
    "WHERE m_messageid = mt_messageid AND mt_tagid = t_tagid AND m_creatorid = k_person2id "
    "AND m_c_replyof IS NULL AND k_person1id < {n} GROUP BY t_name"
)
_SNB_TABLES = ("tag", "message", "message_tag", "knows")


AGGREGATES: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "agg-star", "Star, COUNT by src", f"SELECT G1.src AS a, COUNT(*) AS n {_STAR} GROUP BY G1.src", GRAPH,
            "graph", 4, checked=3_000, check_options={"shuffled": True},
        ),
        Workload("agg-3-hop", "3-Hop, COUNT(*)", f"SELECT COUNT(*) AS n {HOP3}", GRAPH, "graph", 3, checked=15_000),
        Workload(
            "agg-3-hop-by", "3-Hop, COUNT by first", f"SELECT G1.src AS a, COUNT(*) AS n {HOP3} GROUP BY G1.src",
            GRAPH, "graph", 3, checked=15_000,
        ),
        Workload(
            "agg-triangle", "Triangle, COUNT(*)",  # the compared dataflows have no row for an empty group
            f"SELECT COUNT(*) AS n {HOP3} AND G3.dst = G1.src HAVING COUNT(*) > 0", GRAPH, "graph", 3, prefix=300_000,
        ),
        Workload(
            "agg-2-hop-sum", "2-Hop, SUM by first",
            "SELECT G1.src AS a, SUM(G2.dst) AS s FROM G G1, G G2 WHERE G1.dst = G2.src GROUP BY G1.src", GRAPH,
            "graph", 2,
        ),
        Workload(
            "agg-group", "COUNT, SUM, AVG, MIN, MAX by src",
            "SELECT src, COUNT(*) AS n, SUM(dst) AS s, AVG(dst) AS a, MIN(dst) AS lo, MAX(dst) AS hi FROM G "
            "GROUP BY src", GRAPH, "graph",
        ),
        Workload(
            "agg-sums", "Ten SUMs by src",
            "SELECT src, " + ", ".join(f"SUM({e}) AS s{i}" for i, e in enumerate(_TEN)) + " FROM G GROUP BY src",
            GRAPH, "graph",
        ),
        Workload(
            "agg-inner", "2-Hop, inner join",
            "SELECT G1.src AS a, G1.dst AS b, G2.dst AS c FROM G G1 JOIN G G2 ON G1.dst = G2.src AND G2.dst > {n}",
            GRAPH, "graph", 2,
        ),
        Workload(
            "agg-outer", "2-Hop, left join",
            "SELECT G1.src AS a, G1.dst AS b, G2.dst AS c FROM G G1 LEFT JOIN G G2 ON G1.dst = G2.src "
            "AND G2.dst > {n}", GRAPH, "graph", 2,
        ),
        *TPCH,
        Workload("agg-snb-q4", "SNB Q4", _SNB4, snb.SCHEMA, "snb", tables=_SNB_TABLES),
        Workload(
            "agg-snb-q4-top", "SNB Q4, its ten first", f"{_SNB4} ORDER BY n DESC, t_name LIMIT 10", snb.SCHEMA, "snb",
            tables=_SNB_TABLES,
        ),
        Workload(
            "agg-shop", "Events, orders, stock, prices", shop.SQL, shop.SCHEMA, "shop", keys=shop.KEYS, checked=20_000
        ),
        Workload(
            "agg-cofactors", "27 variables, six relations", cofactors.SQL, cofactors.SCHEMA, "cofactors",
            checked=6_000, check_options={"rows": 500}, regression=(cofactors.JOIN, cofactors.VARIABLES[-1]),
        ),
    )
}  # fmt: skip
