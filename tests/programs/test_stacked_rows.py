"""STACK, JSON_TUPLE, `struct.*` and `* EXCEPT`: rows and columns that are short for others, maintained as these."""

from __future__ import annotations

from random import Random

import pytest

import crown
import plans
from plans.errors import PlanError
from tests.marks import seeds
from tests.programs.driver import Driver

TABLES = {"t": {"id": "int64", "x": "int64", "y": "int64", "s": "string"}}
PAIRS = [
    (
        "SELECT id, STACK(2, 'x', x, 'y', y) AS (k, v) FROM t",
        "SELECT id, 'x' AS k, x AS v FROM t UNION ALL SELECT id, 'y', y FROM t",
    ),
    (
        "SELECT k, SUM(v) AS n FROM t LATERAL VIEW STACK(2, 'x', x, 'y', y) AS k, v WHERE v > id GROUP BY k",
        "SELECT k, SUM(v) FROM (SELECT id, 'x' AS k, x AS v FROM t UNION ALL SELECT id, 'y', y FROM t) "
        "WHERE v > id GROUP BY k",
    ),
    (
        "SELECT id, STACK(2, x, y, id) FROM t",
        "SELECT id, x AS col0, y AS col1 FROM t UNION ALL SELECT id, id, NULL FROM t",
    ),
    ("SELECT * EXCEPT (s, y) FROM t", "SELECT id, x FROM t"),
    ("SELECT * EXCEPT (s) REPLACE (x + y AS x) FROM t WHERE x > 0", "SELECT id, x + y AS x, y FROM t WHERE x > 0"),
    (
        "SELECT t.* EXCEPT (s) RENAME (y AS z), u.x AS w FROM t JOIN t u ON t.x = u.y",
        "SELECT t.id, t.x, t.y AS z, u.x AS w FROM t JOIN t u ON t.x = u.y",
    ),
]


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize(("query", "same"), PAIRS)
def test_what_is_short_for_a_query_is_that_query(query: str, same: str, seed: int) -> None:
    random = Random(seed)
    driver = Driver(same, plans.program(query, TABLES), TABLES)
    for number in range(4):
        there = list(driver.database.rows["t"].elements())
        come = [(*(random.choice([None, 0, 1, 2]) for _ in "ixy"), "s") for _ in range(3)]
        gone = random.sample(there, min(2, len(there)))
        driver.step({"t": [*((row, -1) for row in gone), *((row, 1) for row in come)]}, again=number == 2)
    driver.remove_everything()


def test_json_tuple_has_a_column_for_each_name() -> None:
    view = crown.view("SELECT id, a, b FROM t LATERAL VIEW JSON_TUPLE(s, 'a', 'b c') j AS a, b", schema=TABLES)
    rows = [{"id": i, "x": 0, "y": 0, "s": s} for i, s in enumerate(['{"a": 1, "b c": {"d": []}}', "no", None])]
    view.apply({"t": rows})
    found = sorted(view.to_table().to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 0, "a": "1", "b": '{"d":[]}'}, *({"id": i, "a": None, "b": None} for i in (1, 2))]
    view.apply({"t": [row | {"_weight": -1} for row in rows]})
    assert view.count() == 0


def test_the_fields_of_a_struct_are_columns() -> None:
    schema = {"t": {"id": "int64", "r": "struct<a:int64,b:string>"}}
    row = {"t": [{"id": 1, "r": {"a": 2, "b": "q"}}, {"id": 2, "r": None}]}
    for query in (
        "SELECT id, r.* FROM t",
        "SELECT id, t.r.* FROM t",
        "SELECT q.id, s.* FROM (SELECT id, r AS s FROM t) q",
    ):
        view = crown.view(query, schema=schema)
        view.apply(row)
        found = sorted(view.to_table().to_pylist(), key=lambda one: one["id"])
        assert found == [{"id": 1, "a": 2, "b": "q"}, {"id": 2, "a": None, "b": None}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT x.* FROM t", "x has no fields: it is of type int64"),
        ("SELECT q.* FROM t", "unknown table or alias q"),
        ("SELECT STACK(x, 1) FROM t", "STACK is not supported"),
        ("SELECT * EXCEPT (z) FROM t", "has no column z"),
        ("SELECT * EXCEPT (id, x, y, s) FROM t", "EXCEPT removes all columns"),
        ("SELECT STACK(3, x, y) FROM t", "STACK is not supported"),
        ("SELECT id, JSON_TUPLE(s, s) FROM t", "JSON_TUPLE is not supported"),
    ],
)
def test_what_says_no_rows_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        plans.program(query, TABLES)
    assert caught.value.position is not None
