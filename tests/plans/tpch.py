"""TPC-H's schema, its 22 queries without ORDER BY and LIMIT, and small random tables on which they have answers."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

from tests.oracles.database import Database, Row

TABLES: dict[str, object] = {
    "region": {"columns": {"r_regionkey": "int64", "r_name": "string"}, "key": ["r_regionkey"]},
    "nation": {"columns": {"n_nationkey": "int64", "n_name": "string", "n_regionkey": "int64"}, "key": ["n_nationkey"]},
    "supplier": {
        "columns": {
            "s_suppkey": "int64", "s_name": "string", "s_address": "string", "s_nationkey": "int64",
            "s_phone": "string", "s_acctbal": "decimal(15,2)", "s_comment": "string",
        },
        "key": ["s_suppkey"],
    },
    "customer": {
        "columns": {
            "c_custkey": "int64", "c_name": "string", "c_address": "string", "c_nationkey": "int64",
            "c_phone": "string", "c_acctbal": "decimal(15,2)", "c_mktsegment": "string", "c_comment": "string",
        },
        "key": ["c_custkey"],
    },
    "part": {
        "columns": {
            "p_partkey": "int64", "p_name": "string", "p_mfgr": "string", "p_brand": "string", "p_type": "string",
            "p_size": "int32", "p_container": "string", "p_retailprice": "decimal(15,2)",
        },
        "key": ["p_partkey"],
    },
    "partsupp": {
        "columns": {
            "ps_partkey": "int64", "ps_suppkey": "int64", "ps_availqty": "int32", "ps_supplycost": "decimal(15,2)",
        },
        "key": ["ps_partkey", "ps_suppkey"],
    },
    "orders": {
        "columns": {
            "o_orderkey": "int64", "o_custkey": "int64", "o_orderstatus": "string", "o_totalprice": "decimal(15,2)",
            "o_orderdate": "date", "o_orderpriority": "string", "o_shippriority": "int32", "o_comment": "string",
        },
        "key": ["o_orderkey"],
    },
    "lineitem": {
        "columns": {
            "l_orderkey": "int64", "l_partkey": "int64", "l_suppkey": "int64", "l_linenumber": "int32",
            "l_quantity": "decimal(15,2)", "l_extendedprice": "decimal(15,2)", "l_discount": "decimal(15,2)",
            "l_tax": "decimal(15,2)", "l_returnflag": "string", "l_linestatus": "string", "l_shipdate": "date",
            "l_commitdate": "date", "l_receiptdate": "date", "l_shipinstruct": "string", "l_shipmode": "string",
        },
        "key": ["l_orderkey", "l_linenumber"],
    },
}  # fmt: skip

QUERIES = {
    1: """SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY l_returnflag, l_linestatus""",
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
AND n_regionkey = r_regionkey AND r_name = 'EUROPE')""",
    3: """SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    4: """SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority""",
    5: """SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR GROUP BY n_name""",
    6: """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    7: """SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue FROM (
SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, EXTRACT(YEAR FROM l_shipdate) AS l_year,
l_extendedprice * (1 - l_discount) AS volume FROM supplier, lineitem, orders, customer, nation n1, nation n2
WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
AND c_nationkey = n2.n_nationkey AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year""",
    8: """SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share FROM (
SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations GROUP BY o_year""",
    9: """SELECT nation, o_year, SUM(amount) AS sum_profit FROM (
SELECT n_name AS nation, EXTRACT(YEAR FROM o_orderdate) AS o_year,
l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
FROM part, supplier, lineitem, partsupp, orders, nation
WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year""",
    10: """SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
c_phone, c_comment FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment""",
    11: """SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
GROUP BY ps_partkey HAVING SUM(ps_supplycost * ps_availqty) > (
SELECT SUM(ps_supplycost * ps_availqty) * 0.0001 FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')""",
    12: """SELECT l_shipmode,
SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01'
AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR GROUP BY l_shipmode""",
    13: """SELECT c_count, COUNT(*) AS custdist FROM (
SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey
AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders GROUP BY c_count""",
    14: """SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
/ SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH""",
    15: """WITH revenue (supplier_no, total_revenue) AS (
SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) FROM lineitem WHERE l_shipdate >= DATE '1996-01-01'
AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)""",
    16: """SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN (
SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type, p_size""",
    17: """SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < (
SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 30)
AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice""",
    19: """SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'MED BOX')
AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5 AND l_shipmode IN ('AIR', 'AIR REG'))
OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX')
AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10 AND l_shipmode IN ('AIR', 'AIR REG'))""",
    20: """SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (
SELECT ps_suppkey FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey
AND l_suppkey = ps_suppkey AND l_shipdate >= DATE '1994-01-01'
AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR)) AND s_nationkey = n_nationkey AND n_name = 'CANADA'""",
    21: """SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
AND l1.l_receiptdate > l1.l_commitdate
AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA' GROUP BY s_name""",
    22: """SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM (
SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
WHERE SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
AND c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00
AND SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode""",
}

_VALUES: dict[str, tuple[object, ...]] = {
    "r_name": ("EUROPE", "ASIA", "AMERICA"),
    "r_regionkey": (0, 1, 2),
    "n_regionkey": (0, 1, 2),
    "n_name": ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA"),
    "s_comment": ("fine", "Customer says Complaints"),
    "c_mktsegment": ("BUILDING", "AUTOMOBILE"),
    "c_phone": ("13-1", "31-2", "77-3"),
    "p_name": ("forest green", "green", "red"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#45"),
    "p_type": ("PROMO BRASS", "ECONOMY ANODIZED STEEL"),
    "p_size": (3, 9, 15),
    "p_container": ("MED BOX", "SM CASE"),
    "o_orderstatus": ("F", "O"),
    "o_orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM"),
    "o_comment": ("special requests", "none"),
    "l_returnflag": ("R", "N"),
    "l_shipmode": ("MAIL", "SHIP", "AIR"),
    "l_discount": (Decimal("0.05"), Decimal("0.06"), Decimal("0.10")),
    "o_orderdate": (dt.date(1993, 8, 1), dt.date(1993, 11, 5), dt.date(1994, 2, 3), dt.date(1995, 2, 1)),
    "l_shipdate": (dt.date(1994, 1, 1), dt.date(1995, 6, 1), dt.date(1995, 9, 9), dt.date(1996, 2, 2)),
    "date": (dt.date(1994, 1, 10), dt.date(1994, 3, 2), dt.date(1994, 6, 1)),
    "string": ("a", "b and more"),
    "int32": (1, 2, 3),
    "decimal(15,2)": (Decimal("3.00"), Decimal("10.50"), Decimal("17.25"), Decimal("-2.10")),
}


def database(seed: int, rows: int = 6) -> Database:
    """Returns small tables with keys that meet."""
    rng = random.Random(seed)
    made = Database(TABLES)
    changes: dict[str, list[tuple[Row, int]]] = {}
    for name, table in made.schema.items():
        found: dict[Row, Row] = {}
        for number in range(rows * 4 if name == "lineitem" else rows * 2 if name in ("orders", "partsupp") else rows):
            row = tuple(
                number if table.key == (column.name,) else _value(rng, column.name, column.type)
                for column in table.columns
            )
            names = [column.name for column in table.columns]
            found.setdefault(tuple(row[names.index(key)] for key in table.key), row)
        changes[name] = [(row, 1) for row in found.values()]
    made.apply(changes)
    return made


def _value(rng: random.Random, column: str, type_: str) -> object:
    if column in _VALUES:
        return rng.choice(_VALUES[column])
    return rng.randrange(6) if type_ == "int64" else rng.choice(_VALUES[type_])
