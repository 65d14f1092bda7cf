"""What people write in Spark's SQL, and random queries, through both readers: one result, and it is Spark's own.

`forms.sql` has a query in a line. The results of both readers are compared after every batch, and with what Spark
itself has of the tables in the end.
"""

from __future__ import annotations

import datetime
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from py4j.protocol import Py4JJavaError
from pyspark.sql import types as T

from crown.errors import SeveralRowsError
from crown.programs.program import ProgramEngine
from plans import PlanError, Program, QueryWarning, program
from spark_jobs.ingest.types import spark_type
from spark_jobs.queries.catalyst import clone, relation_of
from tests.collections import users
from tests.collections.test_users import LINES
from tests.marks import seeds, turns
from tests.models import normalise
from tests.oracles.database import Batch, Database, Row, to_arrow
from tests.plans.lowering.random_queries import Writer
from tests.plans.lowering.random_rows import TABLES, batch
from tests.plans.lowering.test_programs import rounded
from tests.programs.test_programs import apply, result_of

FORMS = (Path(__file__).parent / "forms.sql").read_text().splitlines()
USERS = [text for dialect, text, _ in LINES if dialect == "spark"]
OTHERS = {" = ANY (": " IN (", " <> ALL (": " NOT IN (", "QUANTILE_CONT(": "PERCENTILE("}
"""How Spark says what only DuckDB says so."""

REFUSED = (
    "Spark refuses the query",
    "without a table never changes, so there is nothing to maintain",
    "is not a value of type",
    "a window function (OVER) here",
)
"""What Spark's analyzer does not resolve, what is refused for a reason that docs/limits.md gives, and windows inside of
windows, which the translation makes of QUALIFY."""

OPEN = "collect_set(status) AS s"  # whose order is open in Spark
LIMITED = re.compile(r"LATERAL \([^()]* LIMIT ")
"""LATERAL with LIMIT, of which Spark 4.3 keeps the first rows of all, not those of each row around it."""


class SparkFailsError(Exception):
    """Spark cannot run a query that it has read."""


@pytest.fixture(autouse=True)
def utc(spark):
    """Wall clock readings are instants in UTC."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("share", [pytest.param(50, id="a sample"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_what_people_write_has_one_result_whoever_reads_it(spark, share: int) -> None:
    for text in FORMS[::share]:
        compare(spark, text, Database(TABLES), _batches(text))
    for text in USERS[::share]:
        rng = random.Random(text)
        compare(spark, text, Database(users.SCHEMA), lambda database, n, rng=rng: users.changes(rng, database, 10 * n))


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_a_random_query_has_one_result_whoever_reads_it(spark, seed: int) -> None:
    text = Writer(seed).query()
    for word, other in OTHERS.items():
        text = text.replace(word, other)
    text = sqlglot.transpile(text, read="duckdb", write="spark")[0]
    if LIMITED.search(text):
        pytest.skip("LIMIT in LATERAL means something else in Spark")
    try:
        compare(spark, text, Database(TABLES), _batches(text))
    except SparkFailsError as error:
        pytest.skip(f"both readers agree, and Spark fails: {error}")
    except PlanError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.parametrize(
    "condition",
    [
        "NOT (NOT c IN (SELECT UPPER(box.s) FROM n))",
        "NOT (c NOT IN (SELECT UPPER(q.c) FROM s AS q) AND b > 0)",
        "NOT (b = 1 OR NOT (c NOT IN (SELECT box.s FROM n) OR NOT EXISTS (SELECT * FROM r WHERE r.a = s.b)))",
    ],
)
def test_a_negated_condition_with_not_in_has_one_result(spark, condition: str) -> None:
    text = f"SELECT b, c FROM s WHERE {condition}"
    for seed in turns(1, 3):
        compare(spark, text, Database(TABLES), _batches(f"{seed} {text}"))


def _batches(seed: str) -> Callable[[Database, int], Batch]:
    rng = random.Random(seed)
    return lambda database, _: batch(rng, database)


def compare(spark, text: str, database: Database, more: Callable[[Database, int], Batch]) -> None:
    """Compares the results of both readers after every batch, and in the end with Spark's."""
    made = [_made(query, database) for query in (text, relation_of(spark, text, database.schema))]
    engines = [ProgramEngine.create(one) for one in made]
    reads = [{table.name.lower() for table in one.tables} for one in made]
    types = [[(column.name, column.type) for column in engine.result.columns] for engine in engines]
    assert types[0] == types[1], text
    for number in range(4):
        changes = more(database, number)
        given = [{n: to_arrow(database.schema, n, rows) for n, rows in changes.items() if n in read} for read in reads]
        if [_applied(*both) for both in zip(engines, given, strict=True)] == [True, True]:
            database.apply(changes)
        own, theirs = map(result_of, engines)
        assert rounded(own) == rounded(theirs), text
    if OPEN not in text:
        assert rounded(own) == rounded(_by_spark(spark, text, database)), text


def _made(query: Any, database: Database) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return program(query, database.schema)


def _applied(engine: ProgramEngine, changes: dict[str, Any]) -> bool:
    """Applies a batch, unless a subquery that is a value would have several rows."""
    try:
        apply(engine, changes)
    except SeveralRowsError:
        return False
    return True


def _by_spark(spark, text: str, database: Database) -> Counter[Row]:
    """The rows that Spark has."""
    apart = clone(spark)
    for name, table in database.schema.items():
        fields = [T.StructField(column.name, spark_type(column.type)) for column in table.columns]
        kinds = [column.type for column in table.columns]
        rows = [tuple(map(_given, row, kinds)) for row in database.rows[name].elements()]
        apart.createDataFrame(rows, T.StructType(fields)).createOrReplaceTempView(name)
    found = apart.sql(text)
    instants = [isinstance(field.dataType, T.TimestampType) for field in found.schema]
    try:
        rows = found.collect()
    except Py4JJavaError as error:
        raise SparkFailsError(str(error.java_exception)[:200]) from None
    return Counter(
        tuple(normalise(_plain(value, instant)) for value, instant in zip(row, instants, strict=True)) for row in rows
    )


def _given(value: Any, type_: str) -> Any:
    """A value as PySpark takes it: entries of a map are a dict."""
    return dict(value) if type_.startswith("map<") and value is not None else value


def _plain(value: Any, instant: bool = False) -> Any:
    """A value of PySpark as Arrow has it: instants have a zone, and entries of a map the order of its keys."""
    if instant and value is not None:
        return value.astimezone(datetime.UTC)
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(part)) for key, part in value.items()))
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value
