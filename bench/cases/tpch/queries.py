"""The 22 queries of TPC-H as workloads of the public view.

The queries are from its specification (Revision 3, Section 2.4) with the validation parameters, without ORDER BY and
LIMIT. Q18 tests for more than 250 instead of 300, and Q11 for more than 0.04 % of the whole, so that small data has
rows on both sides. Streams contain only the columns that the queries name, and the keys.
"""

from __future__ import annotations

import re

from bench.cases.workload import Workload

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
_TABLES = {
    "region": {"r_regionkey": "int64", "r_name": "string"},
    "nation": {"n_nationkey": "int64", "n_name": "string", "n_regionkey": "int64"},
    "supplier": {
        "s_suppkey": "int64", "s_name": "string", "s_address": "string", "s_nationkey": "int64", "s_phone": "string",
        "s_acctbal": _MONEY, "s_comment": "string",
    },
    "part": {
        "p_partkey": "int64", "p_name": "string", "p_mfgr": "string", "p_brand": "string", "p_type": "string",
        "p_size": "int64", "p_container": "string",
    },
    "partsupp": {"ps_partkey": "int64", "ps_suppkey": "int64", "ps_availqty": "int64", "ps_supplycost": _MONEY},
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
        "l_receiptdate": "date", "l_shipinstruct": "string", "l_shipmode": "string",
    },
}  # fmt: skip
_REVENUE = "SUM(l_extendedprice * (1 - l_discount)) AS revenue"
_VALUE = "SUM(ps_supplycost * ps_availqty)"
_GERMAN = (
    "FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'"
)
_CODES = "SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')"

_QUERIES = {
    1: "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price, "
    "SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, "
    "SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, AVG(l_quantity) AS avg_qty, "
    "AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order FROM lineitem "
    "WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    2: "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment "
    "FROM part, supplier, partsupp, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey "
    "AND p_size = 15 AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey "
    "AND r_name = 'EUROPE' AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region "
    "WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey "
    "AND n_regionkey = r_regionkey AND r_name = 'EUROPE')",
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
    8: "SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share FROM (SELECT "
    "EXTRACT(YEAR FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation "
    "FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region WHERE p_partkey = l_partkey "
    "AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey "
    "AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey "
    "AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL') "
    "AS all_nations GROUP BY o_year",
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
    11: f"SELECT ps_partkey, {_VALUE} AS value {_GERMAN} GROUP BY ps_partkey "
    f"HAVING {_VALUE} > (SELECT {_VALUE} * 0.0004 {_GERMAN})",
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
    15: "WITH revenue (supplier_no, total_revenue) AS (SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) "
    "FROM lineitem WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey) "
    "SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue "
    "WHERE s_suppkey = supplier_no AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)",
    16: "SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part "
    "WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' "
    "AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier "
    "WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type, p_size",
    17: "SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part WHERE p_partkey = l_partkey "
    "AND p_brand = 'Brand#23' AND p_container = 'MED BOX' "
    "AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)",
    18: "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity "
    "FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey "
    "HAVING SUM(l_quantity) > 250) AND c_custkey = o_custkey AND o_orderkey = l_orderkey "
    "GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice",
    19: f"SELECT {_REVENUE} FROM lineitem, part WHERE "
    + " OR ".join(
        f"(p_partkey = l_partkey AND p_brand = '{brand}' AND p_container IN {boxes} AND l_quantity >= {least} "
        f"AND l_quantity <= {least + 10} AND p_size BETWEEN 1 AND {size} AND l_shipmode IN ('AIR', 'AIR REG') "
        "AND l_shipinstruct = 'DELIVER IN PERSON')"
        for brand, boxes, least, size in (
            ("Brand#12", ("SM CASE", "SM BOX", "SM PACK", "SM PKG"), 1, 5),
            ("Brand#23", ("MED BAG", "MED BOX", "MED PKG", "MED PACK"), 10, 10),
            ("Brand#34", ("LG CASE", "LG BOX", "LG PACK", "LG PKG"), 20, 15),
        )
    ),
    20: "SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp "
    "WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%') AND ps_availqty > "
    "(SELECT 0.5 * SUM(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey "
    "AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01')) AND s_nationkey = n_nationkey "
    "AND n_name = 'CANADA'",
    21: "SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation WHERE s_suppkey = l1.l_suppkey "
    "AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate "
    "AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) "
    "AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey "
    "AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey "
    "AND n_name = 'SAUDI ARABIA' GROUP BY s_name",
    22: "SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM ("
    f"SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer WHERE {_CODES} "
    f"AND c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND {_CODES}) "
    "AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode",
}
_ELSE = {11: "more than 0.04 %", 18: "more than 250"}


def _tpch(number: int, sql: str) -> Workload:
    """Returns a TPC-H query over the columns that it names."""
    named = set(re.findall(r"\w+", sql))
    schema = {
        table: {c: kind for c, kind in columns.items() if c in named or c in _KEYS[table]}
        for table, columns in _TABLES.items()
        if table in named
    }
    title = ", ".join(filter(None, (f"TPC-H Q{number}", _ELSE.get(number))))
    return Workload(f"agg-tpch-q{number}", title, sql, schema, "tpch", keys=_KEYS)


TPCH = tuple(_tpch(number, sql) for number, sql in _QUERIES.items())
"""All queries, in their order."""
