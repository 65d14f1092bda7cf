"""Groups, bags and outer joins: what the public view maintains as programs of stages, over the same streams.

TPC-H queries are those of its specification (Revision 3, Section 2.4) with the validation parameters, without ORDER BY
and LIMIT; Q18 asks for more than 250 instead of 300, so that small data has rows. Only the columns they name come, and
the keys.
"""

from __future__ import annotations

import re

from bench.cases import cofactors, shop, snb
from bench.cases.workload import GRAPH, HOP3, Workload

# Checked on shuffled edges: in file order a window is a few sources, and DuckDB would build their fourth powers.
_STAR = "FROM G G1, G G2, G G3, G G4 WHERE G1.src = G2.src AND G1.src = G3.src AND G1.src = G4.src"
_TEN = ("src", "dst", "src * dst", "src * src", "dst * dst", "src + dst", "src - dst", "2 * src", "3 * dst", "src * 5")

_KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
_MONEY = "decimal(15,2)"
_TPCH = {
    "region": {"r_regionkey": "int64", "r_name": "string"},
    "nation": {"n_nationkey": "int64", "n_name": "string", "n_regionkey": "int64"},
    "supplier": {"s_suppkey": "int64", "s_name": "string", "s_nationkey": "int64"},
    "part": {"p_partkey": "int64", "p_name": "string", "p_type": "string"},
    "partsupp": {"ps_partkey": "int64", "ps_suppkey": "int64", "ps_supplycost": _MONEY},
    "customer": {
        "c_custkey": "int64", "c_name": "string", "c_address": "string", "c_nationkey": "int64", "c_phone": "string",
        "c_acctbal": _MONEY, "c_mktsegment": "string", "c_comment": "string",
    },
    "orders": {
        "o_orderkey": "int64", "o_custkey": "int64", "o_orderstatus": "string", "o_totalprice": _MONEY,
        "o_orderdate": "date", "o_orderpriority": "string", "o_shippriority": "int64", "o_comment": "string",
    },
    "lineitem": {
        "l_orderkey": "int64", "l_partkey": "int64", "l_suppkey": "int64", "l_linenumber": "int64",
        "l_quantity": _MONEY, "l_extendedprice": _MONEY, "l_discount": _MONEY, "l_tax": _MONEY,
        "l_returnflag": "string", "l_linestatus": "string", "l_shipdate": "date", "l_commitdate": "date",
        "l_receiptdate": "date", "l_shipmode": "string",
    },
}  # fmt: skip
_REVENUE = "SUM(l_extendedprice * (1 - l_discount)) AS revenue"

_TPCH_QUERIES = {
    1: "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price, "
    "SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, "
    "SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, AVG(l_quantity) AS avg_qty, "
    "AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order FROM lineitem "
    "WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    3: f"SELECT l_orderkey, {_REVENUE}, o_orderdate, o_shippriority FROM customer, orders, lineitem "
    "WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15' "
    "GROUP BY l_orderkey, o_orderdate, o_shippriority",
    4: "SELECT o_orderpriority, COUNT(*) AS order_count FROM orders WHERE o_orderdate >= DATE '1993-07-01' "
    "AND o_orderdate < DATE '1993-10-01' AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey "
    "AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority",
    5: f"SELECT n_name, {_REVENUE} FROM customer, orders, lineitem, supplier, nation, region "
    "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey "
    "AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' "
    "AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name",
    6: "SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' "
    "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    7: "SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue FROM (SELECT n1.n_name AS supp_nation, "
    "n2.n_name AS cust_nation, EXTRACT(YEAR FROM l_shipdate) AS l_year, l_extendedprice * (1 - l_discount) AS volume "
    "FROM supplier, lineitem, orders, customer, nation n1, nation n2 WHERE s_suppkey = l_suppkey "
    "AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey "
    "AND c_nationkey = n2.n_nationkey AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') "
    "OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')) "
    "AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping "
    "GROUP BY supp_nation, cust_nation, l_year",
    9: "SELECT nation, o_year, SUM(amount) AS sum_profit FROM (SELECT n_name AS nation, "
    "EXTRACT(YEAR FROM o_orderdate) AS o_year, "
    "l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount "
    "FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey "
    "AND ps_partkey = l_partkey AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey "
    "AND p_name LIKE '%green%') AS profit GROUP BY nation, o_year",
    10: f"SELECT c_custkey, c_name, {_REVENUE}, c_acctbal, n_name, c_address, c_phone, c_comment "
    "FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' "
    "AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment",
    12: "SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 "
    "END) AS high_line_count, SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 "
    "ELSE 0 END) AS low_line_count FROM orders, lineitem WHERE o_orderkey = l_orderkey "
    "AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
    "AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode",
    13: "SELECT c_count, COUNT(*) AS custdist FROM (SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer "
    "LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) "
    "AS c_orders GROUP BY c_count",
    14: "SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) "
    "/ SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue FROM lineitem, part WHERE l_partkey = p_partkey "
    "AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    18: "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity "
    "FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey "
    "HAVING SUM(l_quantity) > 250) AND c_custkey = o_custkey AND o_orderkey = l_orderkey "
    "GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice",
    21: "SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation WHERE s_suppkey = l1.l_suppkey "
    "AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate "
    "AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) "
    "AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey "
    "AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey "
    "AND n_name = 'SAUDI ARABIA' GROUP BY s_name",
}


_SNB4 = (
    "SELECT t_name, COUNT(DISTINCT m_messageid) AS n FROM tag, message, message_tag, knows "
    "WHERE m_messageid = mt_messageid AND mt_tagid = t_tagid AND m_creatorid = k_person2id "
    "AND m_c_replyof IS NULL AND k_person1id < {n} GROUP BY t_name"
)
_SNB_TABLES = ("tag", "message", "message_tag", "knows")


def _tpch(number: int, sql: str) -> Workload:
    """Returns a TPC-H query over the columns that it names."""
    named = set(re.findall(r"\w+", sql))
    schema = {
        table: {c: kind for c, kind in columns.items() if c in named or c in _KEYS[table]}
        for table, columns in _TPCH.items()
        if table in named
    }
    title = f"TPC-H Q{number}" + (", more than 250" if number == 18 else "")
    return Workload(f"agg-tpch-q{number}", title, sql, schema, "tpch", keys=_KEYS)


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
        *(_tpch(number, sql) for number, sql in _TPCH_QUERIES.items()),
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
