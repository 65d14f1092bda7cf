"""Functions and aggregates of users, against DuckDB's own of the same meaning, after every batch with deletes."""

from __future__ import annotations

import datetime as dt
import functools
import os
import random
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crown
from crown.errors import FunctionError, PlanError
from plans.expressions.functions import user
from tests.marks import every, seeds

SCHEMA = {"t": {"id": "int64", "k": "int64", "x": "int64", "s": "string"}}


@pytest.fixture(autouse=True)
def functions():
    """The functions of these tests."""
    crown.function("twice", lambda x: pc.multiply(x, 2), arguments=["int64"], result="int64")
    crown.function(
        "joint", lambda a, b: pc.binary_join_element_wise(a, b, "-"), arguments=["string", "string"], result=str
    )
    crown.function("strict", _strict, arguments=["int64"], result="int64")
    crown.function("largest", lambda lists: pa.array([max(v, default=None) for v in lists.to_pylist()], pa.int64()),
                   arguments=["array<int64>"], result="int64")  # fmt: skip
    crown.aggregate("weighed", _weighed, lambda sums, by, n: pc.divide(sums, by), arguments=["int64", "int64"],
                    sums={"total": "int64", "weight": "int64"}, result="int64")  # fmt: skip
    crown.aggregate("rows_of", lambda x: pa.StructArray.from_arrays([x], ["a"], mask=pc.is_null(x)), lambda a, n: n,
                    arguments=["int64"], sums={"a": "int64"}, result="int64")  # fmt: skip


def _joint(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(a, b, "-")


def _strict(x: pa.Array) -> pa.Array:
    if pc.any(pc.equal(x, 13)).as_py():
        raise ValueError("unlucky")
    return x


def _weighed(x: pa.Array, w: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(
        [pc.multiply(x, w), w], ["total", "weight"], mask=pc.or_(pc.is_null(x), pc.is_null(w))
    )


QUERIES = [
    ("SELECT id, twice(x) AS y, joint(s, 'z') AS j FROM t WHERE twice(x) > 2",
     "SELECT id, x * 2, s || '-z' FROM t WHERE x * 2 > 2"),
    ("SELECT twice(x) AS y, COUNT(*) AS n, SUM(twice(k)) AS m FROM t GROUP BY twice(x) HAVING MAX(twice(k)) < 6",
     "SELECT x * 2, COUNT(*), SUM(k * 2) FROM t GROUP BY x * 2 HAVING MAX(k * 2) < 6"),
    ("SELECT a.id, b.id AS o FROM t a JOIN t b ON twice(a.x) = b.x",
     "SELECT a.id, b.id FROM t a JOIN t b ON a.x * 2 = b.x"),
    ("SELECT a.id, twice(b.x) AS o FROM t a LEFT JOIN t b ON a.k = b.k AND twice(b.x) > a.x",
     "SELECT a.id, b.x * 2 FROM t a LEFT JOIN t b ON a.k = b.k AND b.x * 2 > a.x"),
    ("SELECT k, weighed(x, id) AS w, rows_of(x) FILTER (WHERE s = 'a') AS n FROM t GROUP BY k",
     "SELECT k, SUM(x * id) // SUM(id) FILTER (x IS NOT NULL), COUNT(x) FILTER (s = 'a') FROM t GROUP BY k"),
    ("SELECT id, weighed(x, id) OVER (PARTITION BY k) AS w FROM t",
     "SELECT id, SUM(x * id) OVER g // SUM(id) FILTER (x IS NOT NULL) OVER g FROM t WINDOW g AS (PARTITION BY k)"),
    ("SELECT id, weighed(x, id) OVER (ORDER BY id ROWS 2 PRECEDING) AS w FROM t",
     "SELECT id, SUM(x * id) OVER g // SUM(id) FILTER (x IS NOT NULL) OVER g FROM t WINDOW g AS (ORDER BY id ROWS 2 "
     "PRECEDING)"),
    ("SELECT twice(weighed(x, id)) AS w FROM t", "SELECT SUM(x * id) // SUM(id) FILTER (x IS NOT NULL) * 2 FROM t"),
    ("SELECT k, largest(ARRAY_AGG(x)) AS m FROM t GROUP BY k", "SELECT k, MAX(x) FROM t GROUP BY k"),
    ("SELECT id, SUM(twice(x)) OVER (PARTITION BY k ORDER BY id) AS s FROM t",
     "SELECT id, SUM(x * 2) OVER (PARTITION BY k ORDER BY id) FROM t"),
    ("SELECT DISTINCT twice(x) AS y FROM t UNION SELECT twice(3)", "SELECT DISTINCT x * 2 FROM t UNION SELECT 6"),
    ("SELECT id FROM t WHERE twice(x) IN (SELECT x FROM t) AND CASE WHEN s = 'a' THEN twice(k) ELSE 0 END < 5",
     "SELECT id FROM t WHERE x * 2 IN (SELECT x FROM t) AND CASE WHEN s = 'a' THEN k * 2 ELSE 0 END < 5"),
]  # fmt: skip


def _row(rng: random.Random, number: int) -> tuple[Any, ...]:
    return number, rng.choice([None, 1, 2]), rng.choice([None, 1, 2, 3, 4]), rng.choice([None, "a", "b"])


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_functions_are_as_what_they_stand_for(seed: int) -> None:
    rng = random.Random(seed)
    views = [crown.view(ours, schema=SCHEMA) for ours, _ in QUERIES]
    there: list[tuple[Any, ...]] = []
    for step in range(3):
        gone = [there.pop(rng.randrange(len(there))) for _ in range(len(there) // 2)]
        new = [_row(rng, 10 * step + i + 1) for i in range(6)]
        there += new
        rows = [*((*row, 1) for row in new), *((*row, -1) for row in gone)]
        batch = pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(_TYPES)})
        t = pa.table({name: pa.array([row[i] for row in there], kind) for i, (name, kind) in enumerate(_TYPES[:-1])})
        assert len(t) == len(there)  # DuckDB reads it by its name
        for view, (ours, theirs) in zip(views, QUERIES, strict=True):
            view.update({"t": batch})
            assert Counter(tuple(row.values()) for row in view) == Counter(duckdb.sql(theirs).fetchall()), ours


_TYPES = [("id", pa.int64()), ("k", pa.int64()), ("x", pa.int64()), ("s", pa.string()), ("_weight", pa.int64())]
FAILING = [
    "SELECT strict(x) AS y FROM t",
    "SELECT id FROM t WHERE strict(x) > 0",
    "SELECT strict(x) AS y, COUNT(*) AS n FROM t GROUP BY strict(x)",
    "SELECT k, strict(SUM(x)) AS y FROM t GROUP BY k",
    "SELECT strict(MAX(x) - 2) AS y, SUM(x) AS m FROM t",
    "SELECT k, SUM(strict(x)) AS y, STRING_AGG(s) AS j FROM t GROUP BY k HAVING strict(COUNT(*)) > 0",
    "SELECT a.id FROM t a JOIN t b ON strict(a.x) = b.x",
    "SELECT DISTINCT strict(a.x + b.x - 4) AS y FROM t a JOIN t b ON a.k = b.k",
    "SELECT a.id, strict(b.x) AS y FROM t a LEFT JOIN t b ON a.k = b.id",
    "SELECT id FROM t ORDER BY strict(x) LIMIT 2",
    "SELECT id, SUM(strict(x)) OVER (PARTITION BY k ORDER BY id) AS y FROM t",
    "SELECT id, strict(SUM(x) OVER (PARTITION BY k ORDER BY id)) AS y FROM t",
    "SELECT strict(x) AS y FROM t UNION SELECT k FROM t",
    "SELECT id, (SELECT strict(MAX(x)) FROM t b WHERE b.k = a.k) AS y FROM t a",
    "SELECT id, y FROM t LATERAL VIEW explode(array(strict(x))) AS y",
]


@every(FAILING)
def test_a_batch_that_a_function_stops_is_not_applied(query: str) -> None:
    view, twin = (crown.view(query, schema=SCHEMA) for _ in range(2))
    first = [{"id": 1, "k": 1, "x": 2, "s": "a"}, {"id": 2, "k": 2, "x": 3, "s": "b"}]
    wrong = [
        {"id": 3, "k": 3, "x": 4, "s": "c"},
        {"id": 4, "k": 4, "x": 13, "s": "a"},
        {"id": 5, "k": 1, "x": 15, "s": "a"},
    ]
    later = [{**first[0], "_weight": -1}, {"id": 6, "k": 2, "x": 7, "s": "a", "_weight": 1}]
    for one in (view, twin):
        one.update({"t": first})
    with pytest.raises(FunctionError) as caught:
        view.update({"t": wrong})
    assert "function 'strict', called with 13, failed: ValueError: unlucky" in str(caught.value)
    for one in (view, twin):
        one.update({"t": later})
    assert Counter(map(str, view)) == Counter(map(str, twin))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda x: x.slice(1), "returned 0 values for 1 rows"),
        (lambda x: pa.array(["a"]), "returned string, not int64"),
        (lambda x: x[0], "returned a value of type Int64Scalar, not an array of int64"),
        (lambda x: 7, "returned a value of type int, not an array of int64"),
        (lambda x: [2**70], "returned a value of type list, not an array of int64"),
        (lambda x, y: x, "called with 1, failed: TypeError"),
    ],
)
def test_what_a_function_returns_is_looked_at(call: Any, named: str) -> None:
    crown.function("odd_one", call, arguments=["int64"], result="int64")
    view = crown.view("SELECT odd_one(x) AS y FROM t", schema=SCHEMA)
    view.update({"t": []})
    with pytest.raises(FunctionError) as caught:
        view.update({"t": [{"id": 1, "k": 1, "x": 1, "s": "a"}]})
    assert named in str(caught.value)
    assert view.count() == 0


def test_lists_chunks_and_narrow_types_are_taken() -> None:
    row = {"id": 1, "k": 1, "x": 5, "s": "a"}
    for call in (
        lambda x: x.to_pylist(),
        lambda x: pa.chunked_array([x]),
        lambda x: x.cast(pa.int8()),
        lambda x: x.to_numpy(),
    ):
        crown.function("odd_one", call, arguments=["int64"], result="int64")
        view = crown.view("SELECT odd_one(x) AS y, odd_one(k) AS z FROM t WHERE x > 0", schema=SCHEMA)
        found = view.apply({"t": [row]})["y"].to_pylist()
        assert found == [5]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": "sum"}, "SUM is a function or a word of SQL already"),
        ({"name": "Upper"}, "UPPER is a function or a word of SQL already"),
        ({"name": "tumble"}, "TUMBLE is a function or a word of SQL already"),
        ({"name": "now"}, "NOW is a function or a word of SQL already"),
        ({"name": "select"}, "SELECT is a function or a word of SQL already"),
        ({"name": "a b"}, "'a b' is not a name of a function"),
        ({"call": 3}, "function 'mine' is given as int"),
        ({"arguments": []}, "arguments= takes a list of types, at least one"),
        ({"arguments": "int64"}, "arguments= takes a list of types, at least one"),
        ({"arguments": ["int4"]}, "arguments: type 'int4' is not supported"),
        ({"result": "interval"}, "result: an INTERVAL has months, or a fixed length"),
        ({"version": 3}, "version= takes a text, not int"),
    ],
)
def test_what_is_no_function_is_refused(given: dict[str, Any], named: str) -> None:
    good = {"name": "mine", "call": len, "arguments": ["int64"], "result": "int64"} | given
    with pytest.raises(PlanError) as caught:
        crown.function(good.pop("name"), good.pop("call"), **good)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT twice(s) FROM t", "twice takes a value of type int64, not string"),
        ("SELECT twice(x, x) FROM t", "twice takes 1 argument, not 2"),
        ("SELECT twice() FROM t", "twice takes 1 argument, not 0"),
        ("SELECT weighed(x) FROM t", "WEIGHED needs another argument"),
        ("SELECT weighed(DISTINCT x, id) FROM t", "WEIGHED(DISTINCT ...) is not supported"),
        ("SELECT weighed(x) OVER (ORDER BY id) FROM t", "WEIGHED needs another argument"),
        ("SELECT at_random(x) FROM t", "function 'at_random' is not deterministic"),
    ],
)
def test_calls_that_do_not_fit_are_refused(query: str, named: str) -> None:
    crown.function("at_random", lambda x: x, arguments=["int64"], result="int64", deterministic=False)
    with pytest.raises(PlanError) as caught:
        crown.view(query, schema=SCHEMA)
    assert named in str(caught.value)


def test_a_state_knows_its_function(tmp_path) -> None:
    def registered(step: int, version: str | None = None) -> None:
        crown.function("add_to", lambda x: pc.add(x, step), arguments=["int64"], result="int64", version=version)

    registered(1)
    view = crown.view("SELECT add_to(x) AS y FROM t", schema=SCHEMA)
    view.update({"t": [{"id": 1, "k": 1, "x": 5, "s": "a"}]})
    view.save(tmp_path / "state")
    assert list(crown.load(tmp_path / "state")) == [{"y": 6}]
    registered(2)
    other = crown.view("SELECT add_to(x) AS y FROM t", schema=SCHEMA)
    assert other.plan.fingerprint != view.plan.fingerprint
    assert list(crown.load(tmp_path / "state")) == [{"y": 6}]  # its function is known still
    kept = dict(user._KNOWN)
    try:
        user._KNOWN.clear()
        with pytest.raises(FunctionError, match="'add_to' is not known here"):
            crown.load(tmp_path / "state")
        registered(2)
        with pytest.raises(FunctionError, match=r"'add_to' differs from the one with .+, or another version of Python"):
            crown.load(tmp_path / "state")
        registered(1)
        assert list(crown.load(tmp_path / "state")) == [{"y": 6}]
    finally:
        user._KNOWN.update(kept)
    registered(1, "one")
    first = crown.view("SELECT add_to(x) AS y FROM t", schema=SCHEMA).plan.fingerprint
    registered(2, "one")
    assert crown.view("SELECT add_to(x) AS y FROM t", schema=SCHEMA).plan.fingerprint == first
    registered(2, "two")
    assert crown.view("SELECT add_to(x) AS y FROM t", schema=SCHEMA).plan.fingerprint != first


class Times:
    """A function that is an object."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, x: pa.Array) -> pa.Array:
        return pc.multiply(x, self.by)


def _with_default(by: int) -> Any:
    def call(x: pa.Array, *, by: int = by) -> pa.Array:
        return pc.multiply(x, by)

    return call


def _reading(value: Any) -> Any:
    return lambda x: [value for _ in range(len(x))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: [v in {1, 2} for v in x.to_pylist()], lambda x: [v in {1, 3} for v in x.to_pylist()]),
        (Times(2), Times(3)),
        (_with_default(2), _with_default(3)),
        *(
            (_reading(one), _reading(other))
            for one, other in [
                ({1, 2}, {1, 3}),
                (Decimal(1), Decimal(2)),
                (dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
                (np.array([1]), np.array([2])),
                (pa.array([1]), pa.array([2])),
                (Times(2), Times(3)),
                (functools.lru_cache(_with_default(2)), functools.lru_cache(_with_default(3))),
            ]
        ),
    ],
)
def test_a_fingerprint_knows_all_that_a_function_reads(one: Any, other: Any) -> None:
    marks = [
        crown.function("read", call, arguments=["int64"], result="int64").fingerprint for call in (one, other, one)
    ]
    assert marks[0] == marks[2] != marks[1]


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    text = (
        "import crown, decimal, logging\n"
        "A, B, C = {'a', 'b', 'c', 'd'}, decimal.Decimal(1), logging.getLogger('a')\n"
        "call = lambda x: (x in {'p', 'q', 'r'}, A, B, C)\n"
        "print(crown.function('read', call, arguments=['int64'], result='int64').fingerprint)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", text],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("inside", [False, True])
def test_a_struct_with_other_fields_is_refused(inside: bool) -> None:
    def made(x: pa.Array) -> pa.Array:
        found = pa.StructArray.from_arrays([x.cast(pa.int32())], ["b"])
        return pa.ListArray.from_arrays(list(range(len(x) + 1)), found) if inside else found

    kind = "array<struct<a:int64>>" if inside else "struct<a:int64>"
    crown.function("made", made, arguments=["int64"], result=kind)
    view = crown.view("SELECT made(x) AS y FROM t", schema=SCHEMA)
    with pytest.raises(FunctionError, match=r"'made' returned .*b: int32.*give the fields these names"):
        view.update({"t": [{"id": 1, "k": 1, "x": 5, "s": "a"}]})
    kind = kind.replace("a:int64", "b:int64")
    crown.function("made", made, arguments=["int64"], result=kind)
    view = crown.view("SELECT made(x) AS y FROM t", schema=SCHEMA)
    view.update({"t": [{"id": 1, "k": 1, "x": 5, "s": "a"}]})
    assert list(view) == [{"y": [{"b": 5}] if inside else {"b": 5}}]
