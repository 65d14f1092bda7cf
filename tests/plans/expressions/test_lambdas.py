"""Functions of elements: what they give under inserts and deletes, how they are kept and written, and what is refused.

Their values are compared with Spark's among all expressions (`expression_cases`), and here with those of DuckDB.
"""

from __future__ import annotations

import json
import pickle
import random

import pyarrow as pa
import pytest

import crown
from plans import Expr, PlanError, arrow_type
from plans.planner import parse
from plans.schema import Schema
from tests.marks import every
from tests.oracles import duck

SCHEMA = {"t": {"id": "int64", "a": "array<int64>", "words": "array<string>", "m": "map<string,int64>", "k": "int64"}}
DUCKDB = (
    "list_transform(a, lambda x: x + k)", "list_transform(a, lambda x, i: x * i)", "list_filter(a, lambda x: x > k)",
    "[x + k for x in a if x > 1]", "[x for x in a]", "list_transform(words, lambda w: upper(w) || k)",
    "list_transform(a, lambda x: len(list_filter(a, lambda y: y < x)))", "list_filter(words, lambda w: w LIKE 'a%')",
    "list_transform(list_filter(a, lambda x: x IS NOT NULL), lambda x: x IN (1, 2, k))",
    "list_reduce(list_concat([k], a), lambda s, x: coalesce(s, 0) * 2 + coalesce(x, 1))",
    "list_reduce(a, lambda s, x: s + coalesce(x, k), 5)", "a[2:3]", "a[:-2]", "list_slice(a, -2, -1)",
    "list_slice(a, 0, 9)", "list_slice(a, k, 2)", "list_slice(words, 3, 1)", "words[1][1:1]", "list_sum(a)",
    "list_product(a)", "list_avg(a)", "list_min(words)", "list_max(a)", "list_count(a)", "list_median(a)",
    "list_first(a)", "list_last(words)", "list_any_value(a)", "list_string_agg(words)",
    "list_aggregate(words, 'string_agg', '-')",
    "list_aggr(a, 'sum')", "list_bool_and(list_transform(a, lambda x: x > k))",
    "list_bool_or(list_transform(a, lambda x: x > k))", "list_sum(list_transform(a, lambda x: x * 0.5))",
    "list_sum(list_transform(a, lambda x: x::DECIMAL(10, 2)))", "list_transform(list_zip(a, words), lambda p: k)",
)  # fmt: skip


_ARROW = pa.schema({name: arrow_type(type_) for name, type_ in SCHEMA["t"].items()})


def _row(random_: random.Random, number: int) -> dict[str, object]:
    def array(values: list[object]) -> object:
        return random_.choice([None, [], random_.choices(values, k=random_.randint(1, 4))])

    k = random_.choice([None, 0, 1, 2])
    return {"id": number, "a": array([None, 0, 1, 2, 3]), "words": array([None, "", "a", "ab", "b"]), "m": None, "k": k}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_values_are_those_of_duckdb_after_every_batch(seed: int) -> None:
    random_, rows = random.Random(seed), dict[int, dict[str, object]]()
    queries = [
        f"SELECT id, {', '.join(f'{call} AS v{i}' for i, call in enumerate(DUCKDB))} FROM t",
        f"SELECT {DUCKDB[0]} AS v, {DUCKDB[2]} AS w, COUNT(*) AS n FROM t GROUP BY ALL",
    ]
    views = [crown.view(query, SCHEMA, dialect="duckdb") for query in queries]
    for batch in range(4):
        gone = random_.sample(sorted(rows), len(rows) // 2)
        new = [_row(random_, 10 * batch + i) for i in range(10)]
        added = [{**row, "_weight": 1} for row in new]
        changes = {"t": [*added, *({**rows.pop(number), "_weight": -1} for number in gone)]}
        rows |= {int(str(row["id"])): row for row in new}
        with duck.holding({"t": pa.Table.from_pylist([*rows.values()], _ARROW)}) as cursor:
            for view, query in zip(views, queries, strict=True):
                view.apply(changes)
                view.check_invariants()
                wanted = cursor.sql(query).fetchall()
                assert sorted(map(repr, wanted)) == sorted(repr(tuple(row.values())) for row in view)


def _value(text: str) -> Expr:
    return dict(parse(f"SELECT id, {text} AS v FROM t", Schema.of(SCHEMA)).outputs)["v"]


WRITTEN = {
    "TRANSFORM(a, x -> x + k * 2)": "TRANSFORM(t.a, x -> x + (t.k * 2))",
    "filter(a, (e, place) -> e > place)": "FILTER(t.a, (x, i) -> x > CAST(i AS BIGINT))",
    "TRANSFORM(a, x -> REDUCE(a, k, (s, y) -> s + x))": "TRANSFORM(t.a, x1 -> REDUCE(t.a, t.k, (x, y) -> x + x1))",
    "REDUCE(a, 0L, (s, x) -> s + x, s -> s + 1)": "(REDUCE(t.a, 0, (x, y) -> x + y)) + 1",
}


@every(WRITTEN.items())
def test_an_expression_is_written_and_kept(text: str, written: str) -> None:
    found = _value(text)
    assert str(found) == written
    assert found == pickle.loads(pickle.dumps(found)) == Expr.from_json(json.loads(json.dumps(found.to_json())))
    assert found.columns <= {"t.a", "t.k"}
    assert found != _value(text.replace(" + ", " - ").replace("e > place", "e < place").replace("(a, k", "(a, id"))


def test_what_no_parameter_is_in_is_evaluated_once_per_row() -> None:
    found = _value("TRANSFORM(a, x -> x + k % 7)")
    assert [str(arg) for arg in found.args] == ["t.a", "t.k % 7"]


REFUSED = {
    "TRANSFORM(a, k)": "TRANSFORM takes a function as its last argument",
    "TRANSFORM(k, x -> x)": "TRANSFORM needs a value of type array<...>, not int64",
    "TRANSFORM(a, (x, y, z) -> x)": "TRANSFORM takes a function of 1 to 2 parameters, not 3",
    "TRANSFORM(a, (x, x) -> x)": "TRANSFORM: two parameters of the function have the same name",
    "TRANSFORM(a, x -> y)": "unknown column y",
    "TRANSFORM(a, x -> x.f)": "a value of type int64 has no field f",
    "FILTER(a, x -> x + 1)": "FILTER needs a condition, not a value of type int64",
    "ZIP_WITH(a, x -> x)": "ZIP_WITH takes 3 arguments, not 2",
    "REDUCE(a, 0, (s, x) -> s + x)": "REDUCE starts with a value of type int32, and its function returns a value of",
    "REDUCE(a, 0L, (s, x) -> s + x, 5)": "REDUCE takes a function as its last argument",
    "REDUCE(a, 0L, (s, x) -> s + x, (s, x) -> s)": "REDUCE takes a function of one parameter as its last argument",
    "TRANSFORM_KEYS(m, (k, v) -> ARRAY(v))": "a key of a map cannot be a nested value",
    "UPPER(x -> x)": "UPPER does not take a function",
    "TRANSFORM(a, x -> SUM(x) OVER ())": "an aggregate or subquery cannot read the parameter x of a function",
    "TRANSFORM(a, k -> (SELECT MAX(t.id) FROM t WHERE id < k))": "an aggregate or subquery cannot read the parameter k",
}


@every(REFUSED.items())
def test_what_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        _value(text)
    assert message in str(error.value)


def test_an_index_behind_a_call_that_makes_an_array_finds_an_element() -> None:
    view = crown.view("SELECT id, ARRAY(id, 7, k)[1] AS v, ARRAY(ARRAY(k))[0][0] AS w, CAST(a AS ARRAY<INT>)[1] AS x "
                      "FROM t", SCHEMA)  # fmt: skip
    view.apply({"t": [{"id": 1, "a": [5, 6], "words": None, "m": None, "k": 3}]})
    assert list(view) == [{"id": 1, "v": 7, "w": 3, "x": 6}]
