"""Functions and aggregates of users on Spark: their code travels to the workers; Spark's own are refused by name."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import crown
import plans
from plans import PlanError
from plans.expressions.functions.user import NAMED
from plans.schema import Schema
from spark_jobs import maintain, read_view
from spark_jobs.queries.catalyst import clone, relation_of
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, run

pytestmark = pytest.mark.spark

SCHEMA = {"t": {"id": "int64", "k": "int64", "x": "int64"}}
SQL = "SELECT k, geo(added(x)) AS g, SUM(added(x)) AS s FROM t WHERE added(id) > 100 GROUP BY k"
STEP = 100


@pytest.fixture(autouse=True)
def functions():
    """The functions of these tests, which workers have not registered."""
    crown.function("added", lambda x: pc.add(x, STEP), arguments=["int64"], result="int64")
    crown.aggregate("geo", lambda x: pa.StructArray.from_arrays([pc.ln(pc.cast(x, pa.float64()))], ["logs"]),
                    lambda logs, n: pc.exp(pc.divide(logs, n)), arguments=["int64"], sums={"logs": "double"},
                    result="double")  # fmt: skip


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_functions_travel_to_workers(spark, tmp_path, cells: int) -> None:
    files, sink, view = ChangeFiles(tmp_path / "in", SCHEMA), Result(), crown.view(SQL, schema=SCHEMA)
    wanted = []
    for batch in ([(1, 1, 5, 1), (2, 2, 6, 1), (3, 1, 7, 1)], [(1, 1, 5, -1), (4, 2, 9, 1)], [(2, 2, 6, -1)]):
        files.add({"t": batch})
        view.update({"t": [dict(zip((*SCHEMA["t"], "_weight"), row, strict=True)) for row in batch]})
        wanted.append(Counter(tuple(row.values()) for row in view))
    run(spark, SQL, files, tmp_path / "state", sink=sink, schema=SCHEMA, cells=cells)
    assert [sink.state(number) for number in range(3)] == wanted
    shown = read_view(spark, str(tmp_path / "state"))
    assert Counter(tuple(row) for row in shown.collect()) == wanted[-1]


def test_a_function_that_fails_on_a_worker_says_so(spark) -> None:
    def wrong(x: pa.Array) -> pa.Array:
        raise ValueError("not today")

    crown.function("wrong_one", wrong, arguments=["int64"], result="int64")
    frame = spark.createDataFrame([(1, 1, 5)], "id BIGINT, k BIGINT, x BIGINT")
    with pytest.raises(Exception, match="function 'wrong_one', called with 5, failed: ValueError: not today"):
        maintain(spark, "SELECT wrong_one(x) AS y FROM t", {"t": frame}).collect()


def test_functions_of_spark_are_refused_by_their_names(spark) -> None:
    plus = F.udf(lambda x: x + 1, "bigint")
    apart = clone(spark)
    apart.udf.register("plus_one", lambda x: x + 1, "bigint")
    apart.createDataFrame([(1, 1, 5)], "id BIGINT, k BIGINT, x BIGINT").createOrReplaceTempView("t")
    for query in (apart.table("t").select(plus("x").alias("y")), "SELECT plus_one(x) AS y FROM t"):
        with pytest.raises(PlanError, match="user-defined function") as refused:
            relation_of(apart, query, Schema.of(SCHEMA))
        assert "crown.function" in str(refused.value)


def test_a_query_of_spark_that_calls_a_function_which_returns_months_is_refused_and_no_other(spark) -> None:
    crown.function("kept", lambda m: m, arguments=["months"], result="months")
    try:
        schema = Schema.of({"t": {"m": "months", "x": "int64"}})
        assert [column.name for column in relation_of(spark, "SELECT x FROM t", schema).columns] == ["x"]
        with pytest.raises(PlanError, match="function 'kept' returns months, which PySpark does not support"):
            relation_of(spark, "SELECT x FROM t WHERE kept(m) = m", schema)
    finally:
        NAMED.pop("KEPT")


READ = (
    "SELECT k, geo(x) AS g, SUM(added(x)) AS s FROM t WHERE added(id) > 100 GROUP BY k HAVING geo(x) > 0",
    "SELECT added(CAST(id AS INT)) AS a, CASE WHEN added(x) > 104 THEN added(k) END AS b FROM t",
    "SELECT id, RANK() OVER (ORDER BY added(x)) AS r FROM t",
)


@pytest.mark.parametrize("text", READ)
def test_spark_and_the_own_reader_call_the_same_functions(spark, text: str) -> None:
    rows = [(1, 1, 5), (2, 2, 6), (3, 1, 7), (4, 2, None)]
    views = [crown.view(text, SCHEMA), crown.view(plans.program(relation_of(spark, text, Schema.of(SCHEMA))))]
    for view in views:
        view.update({"t": rows})
        view.update({"t": [{"id": 1, "k": 1, "x": 5, "_weight": -1}]})
    found, wanted = (Counter(tuple(row.values()) for row in view) for view in views)
    assert found == wanted


def test_what_spark_computes_with_a_function_is_what_is_maintained(spark) -> None:
    apart = clone(spark)
    rows = [(1, 1, 5), (2, 2, 6), (3, 1, 7), (4, 2, None)]
    apart.createDataFrame(rows, "id BIGINT, k BIGINT, x BIGINT").createOrReplaceTempView("t")
    query = "SELECT k, geo(CAST(added(CAST(x AS INT)) AS INT)) AS g FROM t WHERE added(id) > 100 GROUP BY k"
    view = crown.view(query, SCHEMA)
    view.update({"t": rows})
    assert Counter(map(tuple, apart.sql(query).collect())) == Counter(tuple(row.values()) for row in view)


def test_sums_of_doubles_that_spark_computes_are_exact_as_in_views(spark) -> None:
    crown.aggregate("total", lambda x: pa.StructArray.from_arrays([x], ["s"]), lambda s, n: s,
                    arguments=["double"], sums={"s": "double"}, result="double")  # fmt: skip
    apart = clone(spark)
    rows = [
        (1, 1e308),
        (1, 1e308),
        (1, -1e308),
        (2, 1e16),
        (2, 1.0),
        (2, -1e16),
        (3, float("inf")),
        (3, 1.0),
        (4, None),
    ]
    apart.createDataFrame(rows, "k BIGINT, x DOUBLE").createOrReplaceTempView("t")
    query = "SELECT k, total(x) AS s FROM t GROUP BY k"
    view = crown.view(query, {"t": {"k": "int64", "x": "double"}})
    view.update({"t": rows})
    assert Counter(map(tuple, apart.sql(query).collect())) == Counter(tuple(row.values()) for row in view)
