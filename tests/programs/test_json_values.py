"""JSON that queries make and take apart, after every batch with deletes: engine = DuckDB."""

from __future__ import annotations

import pytest

from plans import PlanError, program
from tests.marks import every
from tests.programs.streamed import SCHEMA, check

J = "WHERE s LIKE '{%'"
DISTINCT = "(SELECT DISTINCT a, id, b FROM r) AS q"
CASES = (
    ("duckdb", "SELECT JSON_OBJECT('a', a, 's', s, 'l', JSON_ARRAY(id, b, s), 'd', d, 't', tags) AS j FROM r", ""),
    ("duckdb", "SELECT TO_JSON({'x': a, 'y': [s, 'z']}) AS j, TO_JSON(s) AS k, TO_JSON(b) AS l FROM r", ""),
    ("duckdb", "SELECT JSON_OBJECT('a', x) AS j FROM (SELECT JSON_ARRAY(a, nums) AS x FROM r) AS q", ""),
    ("duckdb", "WITH q AS (SELECT *, s AS z, JSON_OBJECT() AS o FROM r) SELECT JSON_ARRAY(q.o, z, JSON_ARRAY()) AS j "
     "FROM q",
     ""),
    ("duckdb", "SELECT a, JSON_GROUP_ARRAY(id * 2) AS l FROM (SELECT DISTINCT a, id FROM r) AS q "
     "GROUP BY a",
     "SELECT a, TO_JSON(LIST(id * 2 ORDER BY id)) FROM (SELECT DISTINCT a, id FROM r) GROUP BY a"),
    ("postgres", "SELECT JSON_BUILD_OBJECT('a', a, 's', s) AS j, ROW_TO_JSON(u) AS x, TO_JSONB(u) AS y FROM r JOIN u "
     "USING (a)", "SELECT JSON_OBJECT('a', a, 's', s), TO_JSON({'a': u.a, 'v': v}), TO_JSON({'a': u.a, 'v': v}) FROM r "
     "JOIN u USING (a)"),
    ("postgres", "SELECT a, JSON_AGG(s ORDER BY id, s) AS l, JSONB_AGG(id ORDER BY id) FILTER (WHERE id > 1) AS m "
     "FROM r GROUP BY a",
     "SELECT a, TO_JSON(LIST(s ORDER BY id, s)), TO_JSON(LIST(id ORDER BY id) FILTER (WHERE id > 1)) FROM r "
     "GROUP BY a"),
    ("postgres", "SELECT a, JSON_AGG(JSON_BUILD_OBJECT('i', id, 'u', x) ORDER BY id, x) AS l FROM (SELECT a, id, "
     "JSON_BUILD_ARRAY(s) AS x FROM r) AS q GROUP BY a",
     "SELECT a, TO_JSON(LIST({'i': id, 'u': [s]} ORDER BY id, JSON_ARRAY(s))) FROM r GROUP BY a"),
    ("postgres", "SELECT id, JSON_AGG(id) OVER (PARTITION BY a) AS l FROM r",
     "SELECT id, l FROM r JOIN (SELECT a, TO_JSON(LIST(id ORDER BY id)) AS l FROM r GROUP BY a) AS q "
     "ON r.a IS NOT DISTINCT FROM q.a"),
    ("postgres", f"SELECT a, JSON_OBJECT_AGG(id, b ORDER BY id, b) AS o FROM {DISTINCT} GROUP BY a",
     "SELECT a, '{' || STRING_AGG('\"' || id || '\":' || COALESCE(b::TEXT, 'null'), ',' ORDER BY id, b) || '}' FROM "
     f"{DISTINCT} GROUP BY a"),
    ("snowflake", f"SELECT a, OBJECT_AGG(id::string, b) AS o FROM {DISTINCT} GROUP BY a",
     "SELECT a, '{' || COALESCE(STRING_AGG('\"' || id || '\":' || b, ',' ORDER BY id, b::TEXT), '') || '}' FROM "
     f"{DISTINCT} GROUP BY a"),
    ("postgres", f"SELECT id, JSONB_ARRAY_ELEMENTS_TEXT(s::jsonb->'a'->'b') AS t FROM r {J}",
     f"SELECT id, UNNEST(['1', 'x']) FROM r {J}"),
    ("postgres", f"SELECT id, item, JSON_BUILD_ARRAY(item) AS l FROM r, JSONB_ARRAY_ELEMENTS(s::jsonb #> '{{a,b}}') "
     f"AS item {J}", f"SELECT id, x, '[' || x || ']' FROM (SELECT id, UNNEST(['1', '\"x\"']) AS x FROM r {J})"),
    ("postgres", "SELECT id, value, n FROM r CROSS JOIN LATERAL JSON_ARRAY_ELEMENTS(s::json->'a'->'b') WITH ORDINALITY "
     f"AS e(value, n) {J}", f"SELECT id, UNNEST(['1', '\"x\"']), UNNEST([1, 2]) FROM r {J}"),
    ("postgres", f"SELECT id, e.key, e.value FROM r CROSS JOIN LATERAL JSONB_EACH(s::jsonb) AS e {J}",
     f"SELECT id, 'a', '{{\"b\":[1,\"x\"]}}' FROM r {J}"),
    ("postgres", f"SELECT id, JSONB_OBJECT_KEYS(s::jsonb) AS k FROM r {J}", f"SELECT id, 'a' FROM r {J}"),
    ("postgres", "SELECT id FROM r WHERE s::jsonb ? 'a' AND s::jsonb @> '{\"a\": {\"b\": [\"x\"]}}' AND NOT s::jsonb "
     "?| ARRAY['z', 'y'] AND '{}' <@ s::jsonb AND s::jsonb ?& ARRAY['a']", f"SELECT id FROM r {J}"),
    ("duckdb", f"SELECT id, COALESCE(s->'z', s->'a') AS x, UPPER(s->'a'->>'b') AS y, JSON_ARRAY(s->'a') AS z, "
     f"LIST_TRANSFORM(tags, lambda t: 'a') AS l FROM r {J}", ""),
    ("postgres", f"SELECT id, COALESCE(s->'z', s->'a') AS x, ROW_TO_JSON(r)->>'id' AS y FROM r {J}",
     f"SELECT id, s->'a', id::TEXT FROM r {J}"),
    ("bigquery", "SELECT TO_JSON_STRING(STRUCT(a, s)) AS j FROM r", "SELECT TO_JSON({'a': a, 's': s}) FROM r"),
    ("mysql", "SELECT JSON_OBJECT('a', a, 's', JSON_ARRAY(s, NULL)) AS j FROM r",
     "SELECT JSON_OBJECT('a', a, 's', JSON_ARRAY(s, NULL)) FROM r"),
    ("duckdb", f"SELECT r.id, e.key, e.value, e.type FROM r, JSON_EACH(s) AS e {J}", ""),
    ("duckdb", "SELECT r.id, k, e.value FROM r, JSON_EACH(JSON_ARRAY(a, r.id, s), '$') AS e(k)", ""),
    ("duckdb", "SELECT r.id, e.key FROM r LEFT JOIN JSON_EACH(JSON_OBJECT('x', r.nums), '$.x') AS e ON TRUE", ""),
    ("duckdb", "SELECT r.id, e.key, e.value FROM r, JSON_EACH(CAST(r.a AS VARCHAR)) AS e", ""),
    ("duckdb", "SELECT a, (SELECT LIST(e.key) FROM JSON_EACH(JSON_OBJECT('p', b, 'q', s)) AS e) AS l FROM r", ""),
    ("postgres", f"SELECT id, key, value, ordinality FROM r, JSON_EACH(s::json) WITH ORDINALITY {J}",
     f"SELECT id, 'a', '{{\"b\":[1,\"x\"]}}', 1 FROM r {J}"),
    ("postgres", f"SELECT id, e.k, e.value FROM r, JSONB_EACH(s::jsonb) AS e(k) {J}",
     f"SELECT id, 'a', '{{\"b\":[1,\"x\"]}}' FROM r {J}"),
    ("tsql", "SELECT JSON_ARRAY(a, b, 1) AS j FROM r",
     "SELECT '[' || CONCAT_WS(',', a, b, 1) || ']' FROM r"),
)  # fmt: skip


@pytest.mark.parametrize(("dialect", "query", "oracle"), CASES)
def test_json_is_that_of_duckdb_after_every_batch(dialect: str, query: str, oracle: str) -> None:
    check(dialect, query, oracle, 1)


@every(
    [
        ("SELECT JSON_BUILD_OBJECT('a') FROM r", "JSON_BUILD_OBJECT takes names and values in turn"),
        ("SELECT s::jsonb ?| tags FROM r", "the names to look for in JSON must be a constant list"),
    ]
)
def test_json_of_other_forms_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(query, SCHEMA, dialect="postgres")
    assert caught.value.message == message
    assert caught.value.position is not None
