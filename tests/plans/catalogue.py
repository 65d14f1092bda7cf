"""The queries that the planner is judged by: published ones, and one for every way a query can be shaped.

`published` is the height of the tree that the publication uses, where there is one (SNB: the reference implementation's
trees). TPC-H and SNB Q4 are the joins under the benchmark's aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass

from plans import Column, Plan, Schema, Table, plan


def _table(name: str, columns: str, key: str = "", distinct: bool = False) -> Table:
    parts = [part.split(":") for part in columns.split()]
    typed = tuple(Column(part[0], part[1] if len(part) > 1 else "int64") for part in parts)
    return Table(name, typed, tuple(key.split()), distinct)


SCHEMA = Schema(
    (
        _table("G", "src dst", distinct=True),
        _table("V", "v", distinct=True),
        _table("W", "v", distinct=True),
        _table("R", "a b c"),
        _table("E", "a b c d"),
        _table("person", "p_personid p_firstname:string p_lastname:string", key="p_personid"),
        _table("message", "m_messageid m_creatorid m_c_replyof m_content:string", key="m_messageid"),
        _table("knows", "k_person1id k_person2id", distinct=True),
        _table("message_tag", "mt_messageid mt_tagid", distinct=True),
        _table("tag", "t_tagid t_name:string", key="t_tagid"),
        _table("customer", "c_custkey c_name:string c_mktsegment:string c_nationkey", key="c_custkey"),
        _table("orders", "o_orderkey o_custkey o_orderdate:date o_shippriority:int32", key="o_orderkey"),
        _table(
            "lineitem",
            "l_orderkey l_linenumber:int32 l_partkey l_suppkey l_quantity:decimal(15,2) "
            "l_extendedprice:decimal(15,2) l_discount:decimal(15,2) l_shipdate:date l_returnflag:string",
            key="l_orderkey l_linenumber",
        ),
        _table("supplier", "s_suppkey s_nationkey", key="s_suppkey"),
        _table("nation", "n_nationkey n_name:string n_regionkey", key="n_nationkey"),
        _table("region", "r_regionkey r_name:string", key="r_regionkey"),
        _table("part", "p_partkey p_name:string", key="p_partkey"),
        _table("partsupp", "ps_partkey ps_suppkey ps_supplycost:decimal(15,2)", key="ps_partkey ps_suppkey"),
    )
)


@dataclass(frozen=True)
class Case:
    """A query, where it is from, and the published height of its tree (0: none is published)."""

    name: str
    source: str
    query: str
    published: int = 0

    def plan(self) -> Plan:
        """Its plan."""
        return plan(self.query, SCHEMA)


_PATHS = "G1.dst = G2.src AND G2.dst = G3.src"
_SNB = "m_messageid = mt_messageid AND mt_tagid = t_tagid"
_TRIANGLES = (
    "G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G1.src AND G5.dst = G6.src AND G6.dst = G7.src "
    "AND G7.dst = G5.src AND G4.src = G3.dst AND G4.dst = G5.src"
)
_SEVEN = "G G1, G G2, G G3, G G4, G G5, G G6, G G7"

CASES = (
    Case(
        "three_hop",
        "CROWN, 3-Hop",
        "SELECT G1.src AS A, G2.src AS B, G3.src AS C, G3.dst AS D FROM G G1, G G2, G G3 "
        f"WHERE {_PATHS} AND G3.dst > 32684",
        2,
    ),
    Case(
        "three_hop_project",
        "CROWN, 3-Hop join-project",
        f"SELECT DISTINCT G2.src AS B, G3.src AS C FROM G G1, G G2, G G3 WHERE {_PATHS}",
        2,
    ),
    Case(
        "four_hop",
        "CROWN, 4-Hop",
        "SELECT G1.src AS A, G2.src AS B, G3.src AS C, G4.src AS D, G4.dst AS E FROM G G1, G G2, G G3, G G4 "
        f"WHERE {_PATHS} AND G3.dst = G4.src AND G4.dst > 32684",
        2,
    ),
    Case(
        "four_hop_project",
        "CROWN, 4-Hop join-project",
        "SELECT DISTINCT G2.src AS B, G3.src AS C, G3.dst AS D FROM G G1, G G2, G G3, G G4 "
        f"WHERE {_PATHS} AND G3.dst = G4.src",
        2,
    ),
    Case("four_hop_figure_1", "CROWN, Figure 1", "Q(x1,x2,x3,x4) :- G(x1,x2), G(x2,x3), G(x3,x4), G(x4,x5).", 2),
    Case(
        "two_comb",
        "CROWN, 2-Comb (Theorem 6.2)",
        "SELECT G1.src AS A, G2.src AS B, G3.src AS C, G3.dst AS D FROM G G1, G G2, G G3, V V1, W V2 "
        f"WHERE {_PATHS} AND V1.v = G1.src AND V2.v = G3.dst",
        3,
    ),
    Case("star", "CROWN, Star (join)", "Q(A,B,C,D,E) :- G(A,B), G(A,C), G(A,D), G(A,E).", 1),
    Case("dumbbell", "CROWN, Dumbbell", f"SELECT * FROM {_SEVEN} WHERE {_TRIANGLES}", 2),
    Case(
        "dumbbell_project",
        "CROWN, Dumbbell join-project",
        f"SELECT DISTINCT G4.src, G4.dst FROM {_SEVEN} WHERE {_TRIANGLES}",
        2,
    ),
    Case(
        "snb_q1",
        "CROWN, SNB Q1",
        "SELECT p_personid, p_firstname, p_lastname, m_messageid, k_person1id FROM person, message, knows "
        "WHERE p_personid = m_creatorid AND k_person2id = p_personid",
        2,
    ),
    Case(
        "snb_q2",
        "CROWN, SNB Q2 (tags)",
        "SELECT k1.k_person1id, k1.k_person2id, k2.k_person2id AS friend, t_tagid, m_messageid "
        f"FROM tag, message, message_tag, knows k1, knows k2 WHERE {_SNB} AND k1.k_person2id = k2.k_person1id "
        "AND m_creatorid = k2.k_person2id AND m_c_replyof IS NULL AND k1.k_person1id < 100000",
        3,
    ),
    Case(
        "snb_q3",
        "CROWN, SNB Q3 (persons)",
        "SELECT p_personid, p_firstname, p_lastname, m_messageid, k1.k_person1id, k1.k_person2id "
        "FROM person, message, knows k1, knows k2 WHERE k1.k_person1id < 100000 AND k1.k_person2id = k2.k_person1id "
        "AND k2.k_person2id <> k1.k_person1id AND p_personid = m_creatorid AND p_personid = k2.k_person2id",
        2,
    ),
    Case(
        "snb_q4",
        "CROWN, SNB Q4 (without COUNT)",
        f"SELECT DISTINCT t_name, t_tagid FROM tag, message, message_tag, knows WHERE {_SNB} "
        "AND m_creatorid = k_person2id AND m_c_replyof IS NULL AND k_person1id < 100000",
        4,
    ),
    Case(
        "snb_q4_messages",
        "CROWN, SNB Q4 (counted messages)",
        f"SELECT DISTINCT t_name, t_tagid, m_messageid FROM tag, message, message_tag, knows WHERE {_SNB} "
        "AND m_creatorid = k_person2id AND m_c_replyof IS NULL AND k_person1id < 100000",
        4,
    ),
    Case(
        "tpch_q3",
        "TPC-H Q3, join",
        "SELECT l_orderkey, l_linenumber, l_extendedprice, l_discount, o_orderdate, o_shippriority "
        "FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey "
        "AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
    ),
    Case(
        "tpch_q5",
        "TPC-H Q5, join",
        "SELECT n_name, l_orderkey, l_linenumber, l_extendedprice, l_discount "
        "FROM customer, orders, lineitem, supplier, nation, region WHERE c_custkey = o_custkey "
        "AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey "
        "AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' "
        "AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR",
    ),
    Case(
        "tpch_q9",
        "TPC-H Q9, join",
        "SELECT n_name, o_orderdate, l_orderkey, l_linenumber, "
        "l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount "
        "FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey "
        "AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey "
        "AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%'",
    ),
    Case(
        "tpch_q10",
        "TPC-H Q10, join",
        "SELECT c_custkey, c_name, n_name, l_orderkey, l_linenumber, l_extendedprice, l_discount "
        "FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
        "AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH "
        "AND l_returnflag = 'R' AND c_nationkey = n_nationkey",
    ),
    Case(
        "tpch_q18",
        "TPC-H Q18, join",
        "SELECT c_name, c_custkey, o_orderkey, o_orderdate, l_linenumber, l_quantity FROM customer, orders, lineitem "
        "WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey",
    ),
    Case("triangle", "IVM^ε, ternary triangle", "Q(a,b,c) :- G(a,b), G(b,c), G(c,a)."),
    Case("triangle_unary", "IVM^ε, unary triangle", "Q(a) :- G(a,b), G(b,c), G(c,a)."),
    Case("triangle_composite", "triangle on pairs of columns", "Q(a,p,c) :- E(a,p,b,q), E(b,q,c,r), E(c,r,a,p), V(a)."),
    Case("triangle_common", "triangle with a common column", "Q(a,b,c,x) :- R(a,x,b), R(b,x,c), R(c,x,a), V(a)."),
    Case("four_cycle", "4-cycle", "Q(a,b,c,d) :- G(a,b), G(b,c), G(c,d), G(d,a)."),
    Case("four_cycle_chord", "4-cycle with a chord", "Q(a,b,c,d) :- G(a,b), G(b,c), G(c,d), G(d,a), G(a,c)."),
    Case("five_cycle", "5-cycle", "Q(a,c) :- G(a,b), G(b,c), G(c,d), G(d,e), G(e,a)."),
    Case("four_clique", "4-clique", "Q(a,b,c,d) :- G(a,b), G(b,c), G(c,d), G(d,a), G(a,c), G(b,d)."),
    Case("bow_tie", "bow-tie", "Q(a,b,c,d,e) :- G(a,b), G(b,c), G(c,a), G(a,d), G(d,e), G(e,a)."),
    Case("lollipop", "lollipop", "Q(a,b,c,d,e) :- G(a,b), G(b,c), G(c,a), G(c,d), G(d,e)."),
    Case("loomis_whitney", "Loomis–Whitney 4", "Q(a,b,c,d) :- R(a,b,c), R(b,c,d), R(c,d,a), R(d,a,b)."),
    Case("path_ends", "acyclic, not free-connex", "Q(a,c) :- G(a,b), G(b,c)."),
    Case("long_path_ends", "acyclic, not free-connex", "Q(a,e) :- G(a,b), G(b,c), G(c,d), G(d,e)."),
    Case("boolean", "no output", "Q() :- G(a,b), G(b,c), V(c)."),
    Case("product", "Cartesian product", "Q(a,v) :- G(a,b), V(b), W(v)."),
    Case("mixed_nodes", "mixed nodes", "Q(a,b,c,d) :- R(a,b,x), V(x), R(a,c,y), V(y), R(b,d,z), V(z)."),
    Case(
        "residual",
        "a predicate across relations",
        "SELECT DISTINCT x.dst FROM G x JOIN G y ON x.dst = y.src WHERE x.src < y.dst",
    ),
    Case("computed", "computed output", "SELECT DISTINCT x.src + y.dst AS s FROM G x JOIN G y ON x.dst = y.src"),
    Case(
        "semi_joins",
        "IN and EXISTS",
        "SELECT x.src, x.dst FROM G x WHERE x.dst IN (SELECT v FROM V) "
        "AND EXISTS (SELECT * FROM G y WHERE y.src = x.dst AND y.dst > 7)",
    ),
    Case(
        "nested",
        "CTE and subquery",
        "WITH paths(a, b, c) AS (SELECT x.src, x.dst, y.dst FROM G x JOIN G y ON x.dst = y.src) "
        "SELECT DISTINCT a, c, n FROM paths JOIN (SELECT v AS n FROM V WHERE v BETWEEN 1 AND 9) t ON t.n = paths.c",
    ),
    Case("null_safe", "<=>", "SELECT DISTINCT x.src, y.dst FROM G x JOIN G y ON x.dst <=> y.src"),
    Case("constant", "a constant cuts the cycle", "Q(b,c) :- G(a,b), G(b,c), G(c,a), a = 5."),
    Case("motif", "GraphFrames motif", "(a)-[e]->(b); (b)-[]->(c); (c)-[]->()"),
)
