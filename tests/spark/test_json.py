"""FROM_JSON and TO_JSON have the values that Spark gives them, by their own reader and by way of Spark's plan."""

from __future__ import annotations

import pyarrow as pa
import pytest

from plans.expressions.build import col, substitute
from plans.planner import parse
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of

SCHEMA = Schema.of({"t": {"j": "string"}})
TEXTS = [
    '{"a":1,"b":"x"}', '{"a":"1","b":2}', '{"a":1.5,"b":{"c":1}}', '{"a":1', "x", "", "  ", "null", '[{"a":1},{"a":2}]',
    '{"A":3}', '{"a":null,"b":null}', '{"a":99999999999,"b":[1, 2]}', '{"a":true}', '{"a":1,"a":2}', '{"a":1} more',
    '{"a":1e2}', "[]", "5", '"s"', '{"a":-0}', '{"b":1.50}', '{"b":true}', '{"b":1e3}', "{}",
    '{"a": 1, "b": "\\u00e9\\n"}', '{"a":[1]}',
    '{"b":12345678901234567890}', '{"a":1,}', '{"a":[1,"x"],"b":1}', '{"a":{"c":1,"d":"x"},"b":5}',
    '{"a":{"c":"1"},"b":5}', '{"a":[{"c":1},{"c":"y"}],"b":1}', '{"a":{"k":1,"l":"z"},"b":2}', '[{"a":1},{"a":"q"}]',
    '[1,2]', '[1,"x"]', '[1,null]', '{"x":1,"y":null}', '{"a":"2020-01-02"}', '{"a":"2020-01-02T03:04:05Z"}',
    '{"a":"2020-01-02 03:04:05.25"}', '{"a":5}', '{"a":"NaN"}', '{"a":"-INF"}', '{"a":"12.345"}', '{"a":123456.7}',
    '{"a":"YWI="}', '{"a":"?"}', '{"a":2147483648}', '{"a":0.1,"b":[1.50,{"z":null}]}',
    '{"a":""}', '{"a":[[1],[2,3]]}', '{"a":[null,{"c":1}]}', ' {"a":1}', None,
]  # fmt: skip
SCHEMAS = [
    "a INT, b STRING", "a BIGINT", "a DOUBLE", "a DECIMAL(5,2)", "a BOOLEAN", "a STRING", "a DATE", "a TIMESTAMP",
    "a TIMESTAMP_NTZ", "ARRAY<STRUCT<a: INT>>", "ARRAY<INT>", "MAP<STRING, INT>", "MAP<STRING, STRING>", "a BINARY",
    "a ARRAY<INT>, b INT", "a STRUCT<c: INT, d: INT>, b INT", "a ARRAY<STRUCT<c: INT>>, b INT",
    "a MAP<STRING, INT>, b INT", "a ARRAY<ARRAY<INT>>", "STRUCT<a: INT>",
]  # fmt: skip
WRITTEN = [
    "TO_JSON(FROM_JSON(j, 'a STRING, b STRING'))", "TO_JSON(FROM_JSON(j, 'ARRAY<INT>'))",
    "TO_JSON(FROM_JSON(j, 'a DOUBLE, b ARRAY<DOUBLE>'))", "TO_JSON(FROM_JSON(j, 'a DECIMAL(5,2), b BOOLEAN'))",
    "TO_JSON(FROM_JSON(j, 'a TIMESTAMP'))", "TO_JSON(FROM_JSON(j, 'a TIMESTAMP_NTZ'))",
    "TO_JSON(FROM_JSON(j, 'a DATE'))",
    "TO_JSON(FROM_JSON(j, 'MAP<STRING, STRING>'))", "TO_JSON(FROM_JSON(j, 'a BINARY'))", "TO_JSON(ARRAY(j))",
    "TO_JSON(STRUCT(j, STRUCT(j AS `a b`, 1 AS c) AS `d\"e`))", "TO_JSON(MAP(1, j))",
]  # fmt: skip


@pytest.fixture
def utc(spark):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def test_values_are_those_of_spark(utc) -> None:
    utc.createDataFrame([(text,) for text in TEXTS], "j string").coalesce(1).createOrReplaceTempView("t")
    calls = [*(f"FROM_JSON(j, '{schema}')" for schema in SCHEMAS), *WRITTEN]
    query = f"SELECT j, {', '.join(f'{call} AS c{number}' for number, call in enumerate(calls))} FROM t"
    theirs = utc.sql(query).toArrow()
    columns = {"j": pa.array(theirs["j"].to_pylist(), pa.string())}
    read = [dict(relation.outputs) for relation in (parse(query, SCHEMA), relation_of(utc, query, SCHEMA))]
    wrong = []
    for number, call in enumerate(calls):
        wanted = theirs[f"c{number}"].to_pylist()
        for outputs in read:
            expr = substitute(outputs[f"c{number}"], lambda name: col(name.rpartition(".")[2], "string"))
            found = expr.evaluate(columns)
            found.validate(full=True)
            pairs = zip(columns["j"].to_pylist(), found.to_pylist(), wanted, strict=True)
            wrong += [
                (call, *three) for three in pairs if repr(three[1]) != repr(three[2]) and not _twice(call, three[0])
            ]
    assert not wrong, "\n".join(map(repr, wrong))


def _twice(call: str, text: str | None) -> bool:
    """A map that has a key twice: Spark keeps both, here the last one counts."""
    return "MAP" in call and text == '{"a":1,"a":2}'
