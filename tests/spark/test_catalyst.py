"""Queries that Spark reads: each gives what this package's own reader gives, or DuckDB, after every batch.

Own reader, Spark's plan and DuckDB are three readings of one text.
"""

from __future__ import annotations

import datetime
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException

import crown
import plans
from crown.errors import SeveralRowsError
from plans.errors import PlanError
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of, unlogged
from tests.marks import slow
from tests.oracles import duck
from tests.oracles.database import Database
from tests.plans.lowering import program_queries

SCHEMA = Schema.of(program_queries.TABLES)
QUERIES = [text for text in program_queries.QUERIES if "RECURSIVE" not in text]  # Spark has no UNION in recursions
REFUSED = {  # read by the own reader, not by way of Spark's plan
    "a nested subquery cannot read": "subqueries inside of subqueries that read the query around them",
    "cannot be resolved": "Spark's analyzer resolves no name two queries out",
}
UNKNOWN = "a value of IN with a subquery is NULL where only a NULL could be equal, but FALSE in Spark"

ONLY_SPARK = """
SELECT a, b, SUM(b) OVER (PARTITION BY a) AS z FROM r
SELECT a, SUM(a * b) OVER () AS z FROM r
SELECT r.a FROM r WHERE EXISTS (SELECT b FROM s WHERE s.b = r.b GROUP BY b HAVING COUNT(*) > 1)
SELECT a, b, COUNT(*) AS n FROM r GROUP BY ALL
SELECT r.a, l.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b) l
SELECT r.a, l.n FROM r, LATERAL (SELECT COUNT(*) AS n FROM s WHERE s.b = r.b) l
SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM r) q WHERE n <= 2
SELECT a, b, n FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM r) q WHERE n < 3
SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS k FROM r
SELECT a, k FROM (SELECT a, b, DENSE_RANK() OVER (ORDER BY b NULLS FIRST) AS k FROM r) q WHERE k <= 2 AND a > 0
SELECT a, RANK() OVER (ORDER BY b NULLS FIRST) AS k, DENSE_RANK() OVER (ORDER BY b NULLS FIRST) AS d FROM r
SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS k, MAX(b) OVER (PARTITION BY a) AS m FROM r
SELECT a, RANK() OVER (ORDER BY n DESC) AS k FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a)
SELECT a, b, LAG(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS p FROM r
SELECT a, b, LEAD(b, 2, 7) OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS q FROM r
SELECT ROW_NUMBER() OVER w AS n, NTILE(3) OVER w AS t FROM r WINDOW w AS (ORDER BY a NULLS FIRST, b NULLS FIRST)
SELECT a, b, SUM(b) OVER w AS s, COUNT(*) OVER w AS n FROM r WINDOW w AS (PARTITION BY a ORDER BY b NULLS FIRST)
SELECT a, AVG(b + 1) OVER (ORDER BY a DESC, b DESC ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM r
SELECT a, MAX_BY(b, b) AS m, MODE(b) AS o, COUNT(*) AS n FROM r GROUP BY a HAVING MIN_BY(b, -b) > 0
SELECT MAX_BY(k, d) FILTER (WHERE v IS NOT NULL) AS m, MODE() WITHIN GROUP (ORDER BY v) AS o FROM t
SELECT k, SUM(d) OVER (ORDER BY k RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM t
SELECT k, FIRST_VALUE(v) OVER (ORDER BY k) AS f, NTH_VALUE(v, 2) OVER (ORDER BY k) AS n FROM t
SELECT k, LAST_VALUE(k) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS l, MAX(v) OVER () AS m FROM t
SELECT PERCENT_RANK() OVER w AS p, CUME_DIST() OVER w AS c FROM r WINDOW w AS (PARTITION BY a ORDER BY b NULLS FIRST)
SELECT k, COUNT(*) FILTER (WHERE v > 1) OVER (ORDER BY k ROWS 2 PRECEDING) AS n FROM t
SELECT a, s, LAG(s) OVER (ORDER BY a NULLS FIRST) AS p FROM (SELECT a, SUM(b) AS s FROM r GROUP BY a) q
SELECT a, b FROM r ORDER BY b DESC NULLS LAST, a NULLS LAST LIMIT 3
WITH q AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM q x JOIN q y ON x.n = y.n
WITH s AS (SELECT * FROM r WHERE a > 1) SELECT * FROM s
WITH r AS (SELECT * FROM r WHERE a > 1) SELECT x.a, COUNT(*) AS n FROM r x, r y WHERE x.a = y.a GROUP BY x.a
SELECT a, b, COUNT(*) AS n FROM r GROUP BY CUBE(a, b)
SELECT a, NULLIF(a, b) AS x, NULLIF(b, 2) AS y FROM r
SELECT * FROM (SELECT a, b FROM r) PIVOT (SUM(b) AS s, MAX(b) AS m FOR a IN (1 AS one, 2 AS two))
SELECT r.a, v.y FROM r LEFT JOIN (VALUES (1, 'x'), (2, NULL), (2, 'z')) AS v(x, y) ON r.a = v.x
SELECT a FROM r WHERE a IN (SELECT x FROM (VALUES (1), (3)) AS w(x)) UNION ALL SELECT 7
SELECT a FROM r EXCEPT SELECT MAX(q) FROM (VALUES (4), (5)) AS t(q)
SELECT v.*, (SELECT COUNT(*) FROM r WHERE r.a = v.x) AS n FROM (VALUES (1, DATE '2026-01-02'), (9, NULL)) AS v(x, d)
SELECT c, c ILIKE 'P%' AS x, c NOT ILIKE '_' AS y FROM s
""".strip().splitlines()

AGGREGATES = """
SELECT a, FIRST(b) AS v, LAST(b) IGNORE NULLS AS w, ANY_VALUE(b) AS x FROM r GROUP BY a
SELECT a, BOOL_AND(b > 1) AS v, EVERY(b > 0) AS w, BOOL_OR(b > 2) AS x FROM r GROUP BY a
SELECT a, COUNT_IF(b > 1) AS v, COUNT(DISTINCT a, b) AS w, COUNT(a, b) AS x FROM r GROUP BY a
SELECT APPROX_COUNT_DISTINCT(b) AS v, COUNT_IF(b > 1) FILTER (WHERE a > 0) AS w FROM r
SELECT a, MEDIAN(b) AS v, PERCENTILE(b, 0.3) AS w, MEDIAN(b) FILTER (WHERE b > 1) AS x FROM r GROUP BY a
SELECT PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY b DESC) AS v, PERCENTILE_APPROX(b, 0.5) AS w FROM r
SELECT PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY b) AS v, MEDIAN(x) AS w FROM r JOIN u USING (a)
SELECT a, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY b DESC) AS v FROM r GROUP BY a
SELECT b, LISTAGG(c, ',') WITHIN GROUP (ORDER BY c DESC) AS v, STRING_AGG(DISTINCT c, '-') AS w FROM s GROUP BY b
SELECT LISTAGG(c, ',') WITHIN GROUP (ORDER BY b DESC NULLS LAST, c) AS v FROM s
SELECT LISTAGG(b) WITHIN GROUP (ORDER BY b) AS v FROM s
SELECT v, AVG(d) AS x, AVG(DISTINCT d) AS y, AVG(d) FILTER (WHERE k > 1) AS z FROM t GROUP BY v
SELECT AVG(d) AS x, SUM(d) / COUNT(d) AS y, AVG(CAST(k AS DECIMAL(20,18))) AS z FROM t WHERE k < 9
SELECT k, AVG(d) OVER (ORDER BY k ROWS 2 PRECEDING) AS v, AVG(d) OVER (PARTITION BY v) AS w FROM t
SELECT LEAD(b, 2, 7) IGNORE NULLS OVER w AS p, LAG(b) IGNORE NULLS OVER w AS q FROM r WINDOW w AS (ORDER BY a DESC, b)
SELECT k, LAST_VALUE(v) IGNORE NULLS OVER (ORDER BY k) AS f, NTH_VALUE(v, 2) IGNORE NULLS OVER (ORDER BY k) AS n FROM t
SELECT a, BIT_AND(b) AS v, BIT_OR(b) AS w, BIT_XOR(b) AS x FROM r GROUP BY a
SELECT a, BIT_XOR(DISTINCT b) AS w, VAR_POP(DISTINCT b) AS x, STD(DISTINCT b) AS y FROM r GROUP BY a
SELECT a, SKEWNESS(b) AS v, KURTOSIS(b) AS w FROM r GROUP BY a
SELECT a, b, BOOL_AND(b > 1) OVER (PARTITION BY a) AS v, MEDIAN(b) OVER (PARTITION BY a) AS w FROM r
SELECT k, ARRAY_JOIN(COLLECT_LIST(CAST(v AS STRING)) OVER (ORDER BY k ROWS 2 PRECEDING), ',') AS l FROM t
WITH RECURSIVE p AS (SELECT k FROM t UNION ALL SELECT t.k FROM p, t WHERE p.k = v AND t.k > p.k) SELECT k FROM p
WITH RECURSIVE p(n, d) AS (SELECT a, 1 FROM r UNION ALL SELECT b, d + 1 FROM p, r WHERE n=a AND d<3) SELECT n FROM p
SELECT k, MAX_BY(v, k) OVER (ORDER BY k) AS m, BIT_XOR(v) OVER (ORDER BY k) AS b, MIN_BY(k, k) OVER () AS w FROM t
""".strip().splitlines()

OPEN = ("FIRST", "STRING_AGG(DISTINCT")  # whose result depends on the order of rows in Spark
INEXACT = "SKEWNESS"  # which Spark rounds after each row
HALVES = pytest.mark.parametrize("first", [0, slow(1)], ids=["a half", "the other half"])
KINDS = {"int64": "long", "int32": "int", "float64": "double"}


def _value(rng: random.Random, type_: str) -> object:
    if rng.random() < 0.15:
        return None
    if type_.startswith("int"):
        return rng.randrange(4)
    if type_ == "string":
        return rng.choice("pqr")
    return Decimal(rng.randrange(400)) / 100 if type_.startswith("decimal") else rng.choice([0.5, 1.0, -2.0])


def _rows(rng: random.Random, name: str, n: int) -> list[dict[str, object]]:
    table = SCHEMA[name]
    rows = [{c.name: _value(rng, c.type) for c in table.columns} for _ in range(n)]
    for i, row in enumerate(rows):
        row.update(dict.fromkeys(table.key, i))
    return rows


def _batches(seed: int) -> list[dict[str, list[dict[str, object]]]]:
    rng = random.Random(seed)
    first = {name: _rows(rng, name, 8) for name in SCHEMA}
    gone = {name: [{**row, "_weight": -1} for row in rows[:4]] for name, rows in first.items()}
    return [first, gone, {name: _rows(rng, name, 4) for name in SCHEMA if not SCHEMA[name].key}]


def _bag(view: crown.View) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for row in view.to_table().to_pylist():
        copies = row.pop("_weight", 1)
        found[tuple(row.values())] += copies
    return found


def _view(relation: object) -> crown.View:
    return crown.view(plans.program(relation, SCHEMA))


def _read_by(view: crown.View, batch: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    read = {table.name.lower() for table in view.plan.tables}
    return {name: rows for name, rows in batch.items() if name in read}


@pytest.mark.filterwarnings("ignore::plans.errors.QueryWarning")
@pytest.mark.parametrize("share", [pytest.param(24, id="a sample"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_every_query_that_both_readers_accept_has_one_result(spark, share: int) -> None:
    refused = 0
    for text in QUERIES[::share]:
        own, theirs = plans.parse(text, program_queries.TABLES), _read(spark, text)
        if theirs is None:
            refused += 1
        elif "IN (SELECT" not in text or " AS found" not in text:  # UNKNOWN
            one, two = _view(own), _view(theirs)
            for batch in _batches(len(text)):
                one.update(_read_by(one, batch))
                two.update(_read_by(two, batch))
                assert _rounded(one) == _rounded(two), text
    assert refused <= len(QUERIES[::share]) // 6  # recursions that Spark does not have, among others
    assert len(QUERIES) > 300


@pytest.mark.filterwarnings("ignore::plans.errors.QueryWarning")
@HALVES
def test_aggregates_that_are_rewritten_are_the_same_by_way_of_spark(spark, first: int) -> None:
    for text in AGGREGATES[first::2]:
        view = _view(relation_of(spark, text, SCHEMA))
        own = None if " OVER " in text else _view(plans.parse(text, program_queries.TABLES))
        rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in SCHEMA}
        for batch in _batches(len(text)):
            view.update(_read_by(view, batch))
            for name, changes in batch.items():
                for row, weight in (_change(name, change) for change in changes):
                    if weight == -1:
                        rows[name].remove(row)
                    else:
                        rows[name].append(row)
            if own is not None:
                own.update(_read_by(own, batch))
                assert _rounded(view) == _rounded(own), text
        if not any(word in text for word in OPEN):
            same = _digits if INEXACT in text else Counter
            assert same(_bag(view)) == same(_by_spark(spark, text, rows)), text


def _by_spark(spark, text: str, rows: dict[str, list[tuple[object, ...]]]) -> Counter[tuple[object, ...]]:
    """What Spark itself returns."""
    read = {name: given for name, given in rows.items() if re.search(rf"\b{name}\b", text)}
    for name, given in read.items():
        fields = ", ".join(f"{column.name} {KINDS.get(column.type, column.type)}" for column in SCHEMA[name].columns)
        spark.createDataFrame(given, fields).createOrReplaceTempView(name)
    try:
        return Counter(tuple(row) for row in spark.sql(text).collect())
    finally:
        for name in read:
            spark.catalog.dropTempView(name)


def _read(spark, text: str) -> object:
    """What Spark makes of a query; None where Spark refuses it, or where it is known that its plan is refused."""
    try:
        return relation_of(spark, text, SCHEMA)
    except PlanError as error:
        if not str(error).startswith("Spark refuses") and not any(reason in str(error) for reason in REFUSED):
            raise
        return None


def _rounded(view: crown.View) -> Counter[tuple[object, ...]]:
    """The rows; quotients of equal sums may be put together in other ways."""
    return _digits(_bag(view))


def _digits(rows: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Rows with doubles to twelve digits."""
    found: Counter[tuple[object, ...]] = Counter()
    for row, copies in rows.items():
        found[tuple(float(f"{v:.12g}") if isinstance(v, float) else v for v in row)] += copies
    return found


@pytest.mark.filterwarnings("ignore::plans.errors.QueryWarning")
@HALVES
def test_what_spark_reads_gives_what_duckdb_gives(spark, first: int) -> None:
    for text in ONLY_SPARK[first::2]:
        view, tables = _view(relation_of(spark, text, SCHEMA)), Database(program_queries.TABLES)
        for batch in _batches(len(text)):
            view.update(_read_by(view, batch))
            tables.apply({name: [_change(name, row) for row in rows] for name, rows in batch.items()})
            assert _bag(view) == duck.results(text, tables), text


def _change(name: str, row: dict[str, object]) -> tuple[tuple[object, ...], int]:
    weight = row.get("_weight", 1)
    assert isinstance(weight, int)
    return tuple(row[column.name] for column in SCHEMA[name].columns), weight


@pytest.mark.parametrize("value", ["SELECT b FROM s", "SELECT b FROM s WHERE s.b = r.b"])
def test_a_value_that_would_have_two_rows_is_refused(spark, value: str) -> None:
    view = _view(relation_of(spark, f"SELECT a, ({value}) AS x FROM r", SCHEMA))
    view.update({"r": [(1, 2)], "s": [(2, "p")]})
    with pytest.raises(SeveralRowsError, match=r"would have 2 rows: {'b': 2.*}, {'b': 2.*}|2 times {'b': 2"):
        view.update({"s": [(2, "q")]})
    assert view.to_table().to_pylist() == [{"a": 1, "x": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM c WHERE at > current_timestamp() - INTERVAL '1' HOUR",
        "SELECT id FROM c WHERE now() BETWEEN at AND at + INTERVAL '90' MINUTE AND id > 1",
        "SELECT COUNT(*) FILTER (WHERE at > now()) AS n, COUNT(*) AS m FROM c",
        "SELECT id, at > now() OR id = 2 AS later FROM c",
        "SELECT id FROM c WHERE CAST(at AS DATE) = current_date()",
        "SELECT id, MAX(at) AS m FROM c GROUP BY id HAVING MAX(at) < now()",
    ],
)
def test_the_clock_is_the_same_by_way_of_spark(spark, text: str) -> None:
    schema = Schema.of({"c": {"id": "int64", "at": "timestamp"}})
    own, theirs = (crown.view(plans.program(one, schema)) for one in (text, relation_of(spark, text, schema)))
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    rows = [{"id": n % 4, "at": noon + datetime.timedelta(minutes=60 * n - 20 * (n % 3))} for n in range(12)]
    seen = Counter[tuple[object, ...]]()
    for number, row in enumerate(rows):
        batch = {"c": [row], "now()": noon + datetime.timedelta(hours=number)}
        own.update(batch)
        theirs.update(batch)
        assert _bag(own) == _bag(theirs), number
        seen += _bag(own)
    assert seen


def test_a_dataframe_over_temporary_views_is_a_query(spark) -> None:
    spark.createDataFrame(spark.sparkContext.emptyRDD(), "a long, b long").createOrReplaceTempView("r")
    frame = spark.table("r").where("b > 1").groupBy("a").count()
    view = _view(relation_of(spark, frame, SCHEMA))
    view.update({"r": [(1, 2), (1, 3), (2, 0)]})
    assert view.to_table().to_pylist() == [{"a": 1, "count": 2}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT nothing FROM r", "Spark refuses the query: .*nothing"),
        (
            "SELECT a, HISTOGRAM_NUMERIC(b, 3) OVER (ORDER BY b) AS k FROM r",
            "the aggregate HistogramNumeric is not supported",
        ),
        ("SELECT a, rand() AS x FROM r", "RAND is not deterministic"),
        (
            "SELECT MAX(session_window.end) AS e FROM r GROUP BY session_window(timestamp_seconds(a), '1 day')",
            "an aggregate of session_window is not supported",
        ),
        (
            "SELECT COUNT(*) AS n FROM r GROUP BY session_window(timestamp_seconds(a), CAST(a || ' days' AS INTERVAL))",
            "session_window takes a constant gap above 0",
        ),
        (
            "SELECT COUNT(*) AS n FROM r GROUP BY session_window(timestamp_seconds(a), '1 month')",
            "session_window takes a constant gap above 0",
        ),
        (
            "SELECT a FROM r WHERE current_time() > TIME '12:00:00'",
            "CURRENT_TIME changes over time, without a change of a table",
        ),
        ("SELECT 7 AS x", "a query without a table never changes, so there is nothing to maintain"),
        ("SELECT a FROM r, (VALUES (ARRAY(1))) AS v(x)", "a constant of type array cannot be read from Spark's plan"),
        ("SELECT a FROM r, (VALUES " + "(1), " * 1000 + "(2)) AS v(x)", "1001 rows of constants are too many"),
        ("SELECT CAST(a AS SMALLINT) AS x FROM r", "a cast to short is not supported: INT is the smallest type"),
        ("SELECT CAST(300 AS TINYINT) + a AS x FROM r", "a cast to byte is not supported: INT is the smallest type"),
        ("SELECT a FROM r WHERE CAST(a & 255 AS TINYINT) < 0", "a cast to byte is not supported"),
        ("SELECT CAST(a AS FLOAT) AS x FROM r", "a cast to float is not supported: DOUBLE is the smallest type"),
        ("SELECT a, now() AS n FROM r", "would change every row whenever the clock moves"),
    ],
)
def test_what_is_not_maintained_is_refused_with_a_reason(spark, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plans.program(relation_of(spark, text, SCHEMA))


def test_a_node_list_that_is_no_tree_is_refused() -> None:
    from plans.frontends.catalyst.tree import read

    with pytest.raises(PlanError, match="too few children"):
        read([{"class": "a.b.Filter", "num-children": 1}])
    with pytest.raises(PlanError, match="several roots"):
        read([{"class": "a.b.Leaf", "num-children": 0}, {"class": "a.b.Leaf", "num-children": 0}])


def test_a_refused_query_is_logged_by_pyspark_only_in_other_threads(spark, capsys) -> None:
    def refused() -> None:
        with pytest.raises(AnalysisException):
            spark.sql("SELECT * FROM no_such_table_here")

    with unlogged():
        refused()
        assert "no_such_table_here" not in capsys.readouterr().err
        with ThreadPoolExecutor(1) as other:
            other.submit(refused).result()
    refused()
