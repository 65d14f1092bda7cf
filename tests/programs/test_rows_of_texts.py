"""Rows and nested values that dialects make of texts and JSON, after inserts and deletes: engine = DuckDB."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import crown
from plans import PlanError, program
from tests.marks import every
from tests.programs.driver import Driver

TABLES = {"t": {"id": "int64", "js": "string", "s": "string"}}
JSON = (
    '{"a":1,"l":[1,2,3],"items":[{"sku":"x","qty":2,"tags":["p","q"]},{"sku":null,"qty":1.5},{"qty":"7"}],"m":{"k":3}}',
    '{"a":"7","l":["1","x",null,2.5],"items":[],"m":{}}',
    '{"l":[[1],{"k":2}],"m":{"x":1,"y":null},"items":null}',
    '{"a":true,"l":[],"items":[{"sku":"a b","qty":3,"tags":[]}]}',
    "{}",
    "[1, 2]",
    "null",
    '"text"',
)
TEXTS = ("a,b", "a,,b", "", "x", ",y", "1;2,3")
ITEMS = "(SELECT id, UNNEST(json_extract(js, '$.items[*]')) AS e FROM t)"
PARTS = "(SELECT UNNEST(string_split(t.s, ',')) AS value, generate_subscripts(string_split(t.s, ','), 1) AS place)"
DUCKDB = (
    "SELECT id, json_extract(js, '$.l[*]') AS a, js->>'$.l[*]' AS b, js->'$.items[*].sku' AS c, "
    "json_extract_string(js, '$.items[*].sku') AS d, len(js->'$.items[*]') AS n FROM t",
    "SELECT id, e.value->>'sku' AS sku FROM t, UNNEST(json_extract(js, '$.items[*]')) AS e(value)",
    "SELECT id, TRY_CAST(js->'l' AS VARCHAR[]) AS t, TRY_CAST(js->'l' AS JSON[]) AS j FROM t WHERE js LIKE '%\"l\":[%'",
    "SELECT id, TRY_CAST(js->'m' AS MAP(VARCHAR, INT)) AS m FROM t WHERE js LIKE '%\"m\"%'",
    "SELECT id, TRY_CAST(js->'items' AS STRUCT(sku VARCHAR, tags VARCHAR[])[]) AS i FROM t WHERE js "
    "LIKE '%\"items\":[%'",
    'SELECT id, from_json(js, \'{"a":"VARCHAR","m":{"k":"INT"}}\') AS i FROM t WHERE js LIKE \'{%\'',
    "SELECT p, COUNT(*) AS n FROM (SELECT regexp_split_to_table(s, ',') AS p FROM t) GROUP BY p",
)
OTHERS = (
    ("postgres", "SELECT id, p FROM t CROSS JOIN LATERAL regexp_split_to_table(s, ',') AS p",
     "SELECT id, UNNEST(regexp_split_to_array(s, ',')) AS p FROM t"),
    ("postgres", "SELECT id, p.v FROM t, string_to_table(s, ',') AS p(v)",
     "SELECT id, UNNEST(CASE WHEN s = '' THEN [] ELSE string_split(s, ',') END) AS v FROM t"),
    ("postgres", "SELECT id, x.sku, x.qty FROM t, jsonb_to_recordset(js::jsonb->'items') AS x(sku text, qty text)",
     f"SELECT id, e->>'sku' AS sku, e->>'qty' AS qty FROM {ITEMS}"),
    ("postgres", "SELECT key, COUNT(*) AS n FROM t, jsonb_object_keys(js::jsonb) AS key WHERE js LIKE '{%' "
     "GROUP BY key",
     "SELECT key, COUNT(*) AS n FROM (SELECT UNNEST(json_keys(js)) AS key FROM t WHERE js LIKE '{%') GROUP BY key"),
    ("tsql", "SELECT t.id, p.value FROM t CROSS APPLY STRING_SPLIT(t.s, ',') AS p",
     "SELECT id, UNNEST(string_split(s, ',')) AS value FROM t"),
    ("tsql", "SELECT t.id, p.value, p.ordinal FROM t OUTER APPLY STRING_SPLIT(t.s, ',', 1) AS p",
     f"SELECT t.id, p.value, p.place FROM t LEFT JOIN LATERAL {PARTS} AS p ON TRUE"),
    ("tsql", "SELECT t.id, j.sku, j.qty, j.tags FROM t CROSS APPLY OPENJSON(t.js, '$.items') WITH (sku VARCHAR(10) "
     "'$.sku', qty VARCHAR(9), tags NVARCHAR(MAX) '$.tags' AS JSON) AS j",
     f"SELECT id, e->>'sku' AS sku, e->>'qty' AS qty, e->'tags' AS tags FROM {ITEMS}"),
    ("mysql", "SELECT t.id, j.n, j.sku, j.tags FROM t, JSON_TABLE(t.js, '$.items[*]' COLUMNS (n FOR ORDINALITY, sku "
     "VARCHAR(10) PATH '$.sku', tags JSON PATH '$.tags')) AS j",
     "SELECT t.id, p.place, p.e->>'sku' AS sku, p.e->'tags' AS tags FROM t, LATERAL (SELECT UNNEST(js->'$.items[*]') "
     "AS e, generate_subscripts(js->'$.items[*]', 1) AS place) AS p"),
    ("snowflake", "SELECT t.id, p.index, p.value FROM t, LATERAL SPLIT_TO_TABLE(t.s, ',') AS p",
     f"SELECT t.id, p.place, p.value FROM t, LATERAL {PARTS} AS p"),
    ("snowflake", "SELECT t.id, p.value FROM t, TABLE(SPLIT_TO_TABLE(t.s, ',')) AS p",
     "SELECT id, UNNEST(string_split(s, ',')) AS value FROM t"),
    ("bigquery", "SELECT t.id, JSON_VALUE(i, '$.sku') AS sku FROM t, UNNEST(JSON_QUERY_ARRAY(t.js, '$.items')) AS i",
     f"SELECT id, e->>'sku' AS sku FROM {ITEMS}"),
    ("bigquery", "SELECT t.id, i FROM t, UNNEST(JSON_VALUE_ARRAY(t.js, '$.l')) AS i",
     "SELECT id, UNNEST(js->>'$.l[*]') AS i FROM t WHERE js NOT LIKE '%[[%'"),
    ("trino", "SELECT t.id, x FROM t CROSS JOIN UNNEST(CAST(json_extract(js, '$.l') AS ARRAY(VARCHAR))) AS u(x)",
     "SELECT id, UNNEST(js->>'$.l[*]') AS x FROM t"),
    ("trino", "SELECT t.id, json_extract_scalar(j, '$.sku') AS sku FROM t CROSS JOIN UNNEST(CAST(json_extract(js, "
     "'$.items') AS ARRAY(JSON))) AS u(j)", f"SELECT id, e->>'sku' AS sku FROM {ITEMS}"),
    ("trino", "SELECT t.id, k, v FROM t CROSS JOIN UNNEST(CAST(json_extract(js, '$.m') AS MAP(VARCHAR, INTEGER))) AS "
     "u(k, v)", "SELECT id, u.k, (js->'m'->>u.k)::INT AS v FROM t, LATERAL (SELECT UNNEST(json_keys(js, '$.m')) AS k) "
     "AS u"),
    ("trino", "SELECT t.id, u.sku FROM t CROSS JOIN UNNEST(CAST(json_extract(js, '$.items') AS ARRAY(ROW(sku VARCHAR, "
     "qty VARCHAR)))) AS u(sku, qty)", f"SELECT id, e->>'sku' AS sku FROM {ITEMS}"),
)  # fmt: skip
REFUSED = (
    ("duckdb", "SELECT js::INT[] AS a FROM t", "FROM_JSON"),
    ("duckdb", "SELECT CAST(js->'a' AS STRUCT(x NOPE)[]) AS a FROM t", "type NOPE is not supported in a cast"),
    ("duckdb", "SELECT regexp_split_to_table(s) AS a FROM t", "2 or 3 arguments"),
    ("postgres", "SELECT x FROM t, string_to_table(s) AS x", "2 or 3 arguments"),
    ("duckdb", "SELECT from_json(js, '[1]') AS a FROM t", "structure"),
    ("trino", "SELECT CAST(json_parse(js) AS ROW) AS a FROM t", "types"),
    ("tsql", "SELECT j.value FROM t CROSS APPLY OPENJSON(t.js) AS j", "OPENJSON"),
    ("mysql", "SELECT j.n FROM t, JSON_TABLE(js, '$[*]' COLUMNS (NESTED PATH '$.a' COLUMNS (n INT PATH '$.n'))) AS j",
     "JSON_TABLE"),
)  # fmt: skip


def _streamed(query: str, oracle: str, dialect: str) -> None:
    random = Random(query)
    driver = Driver(oracle, program(query, TABLES, dialect=dialect), TABLES)
    for step in range(4):
        there = list(driver.database.rows["t"].elements())
        gone = [(row, -1) for row in random.sample(there, len(there) // 2)]
        new = [(random.randrange(3), random.choice([None, *JSON]), random.choice([None, *TEXTS])) for _ in range(8)]
        driver.step({"t": [*gone, *((row, 1) for row in new)]}, again=step == 2)
    driver.remove_everything()


@pytest.mark.parametrize("query", DUCKDB)
def test_rows_of_texts_are_those_of_duckdb(query: str) -> None:
    _streamed(query, query, "duckdb")


@every(OTHERS)
def test_rows_of_texts_of_other_dialects_are_those_of_duckdb(dialect: str, query: str, oracle: str) -> None:
    _streamed(query, oracle, dialect)


@every(REFUSED)
def test_other_forms_are_rejected_with_a_hint(dialect: str, query: str, word: str) -> None:
    with pytest.raises(PlanError) as caught:
        crown.view(query, TABLES, dialect=dialect)
    assert caught.value.hint
    assert word in str(caught.value)


def test_parts_that_do_not_fit_their_type_are_null() -> None:
    one = "CAST(js AS JSON)::STRUCT(a INT, items STRUCT(qty INT)[])"
    view: Any = crown.view(f"SELECT {one} AS v FROM t", TABLES, dialect="duckdb")
    view.update({"t": [{"id": 1, "js": JSON[0], "s": None}]})
    assert list(view) == [{"v": {"a": 1, "items": [{"qty": 2}, {"qty": 2}, {"qty": 7}]}}]
