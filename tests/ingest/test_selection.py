"""Rows that nobody reads are dropped first: the same rows by words as by Arrow, and counted for every alias."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.ingest.selection import Selection
from crown.ingest.tables.given import Columns
from plans.expressions.build import call, col
from plans.expressions.expr import Expr
from plans.types import _ARROW, arrow_type
from tests.marks import seeds

DAY, NOON = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)
VALUES: dict[str, list[Any]] = {
    "int32": [-(2**31), -1, 0, 1, 2**31 - 1],
    "int64": [-(2**63) + 1, -1, 0, 1, 2**63 - 1],
    "date": [DAY - dt.timedelta(1), DAY, DAY + dt.timedelta(1)],
    "timestamp_ntz": [NOON - dt.timedelta(microseconds=1), NOON, NOON + dt.timedelta(1)],
    "float64": [float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "decimal(6,2)": [Decimal("-0.01"), Decimal("0.00"), Decimal("9.99")],
    "string": ["", "a", "b", "aé", "ab", "b and more", "b and most"],
}


def condition(random: Random, kinds: dict[str, str]) -> Expr:
    """One comparison of a column with a value or with NULL, or two."""
    parts = []
    for name in random.sample(sorted(kinds), random.randint(1, min(2, len(kinds)))):
        kind = kinds[name]
        if random.random() < 0.2:
            null = call("isnull", col(name, kind))
            parts.append(null if random.random() < 0.5 else call("not", null))
            continue
        if kind != "float64" and random.random() < 0.2:
            found = call("in", col(name, kind), literal(random, kind), literal(random, kind))
            parts.append(found if random.random() < 0.5 else call("not", found))
            continue
        parts.append(call(random.choice(["eq", "ne", "lt", "le", "gt", "ge"]), col(name, kind), literal(random, kind)))
    return parts[0] if len(parts) == 1 else call("and", *parts)


def literal(random: Random, kind: str) -> Expr:
    return Expr("literal", kind, value=random.choice(VALUES[kind]))


@pytest.mark.parametrize("seed", seeds(25, 400))
def test_the_rows_are_those_for_which_a_condition_holds(seed: int) -> None:
    random = Random(seed)
    kinds = {f"c{i}": random.choice(sorted(VALUES)) for i in range(3)}
    n, nulls = random.choice([0, 1, 7, 60]), random.random() < 0.3
    before = random.choice([0, 3])  # a slice of a longer array
    arrays: dict[str, Any] = {}
    for name, kind in kinds.items():
        values = [random.choice([*VALUES[kind], *([None] if nulls else [])]) for _ in range(n + before)]
        arrays[name] = pa.array(values, arrow_type(kind)).slice(before)
    columns = Columns(dict(arrays), kinds)
    conditions = [condition(random, kinds) for _ in range(random.randint(1, 2))]
    found = Selection([frozenset(one.conjuncts()) for one in conditions], kinds, True).rows(columns, n, _no_text)
    held = [one.evaluate(arrays, n).fill_null(False).to_pylist() for one in conditions]
    wanted = [i for i in range(n) if any(one[i] for one in held)]
    assert (list(range(n)) if found is None else found.tolist()) == wanted
    taken = columns.taken(np.array(wanted, np.int64))
    for name, array in arrays.items():
        assert repr(taken[name].to_pylist()) == repr([array[i].as_py() for i in wanted])
        if kinds[name] != "string":
            assert taken.codes(name, _no_text).tolist() == columns.codes(name, _no_text)[wanted].tolist()


EVERY: dict[str, list[Any]] = {
    **VALUES,
    "bool": [True, False],
    "timestamp": [NOON.replace(tzinfo=dt.UTC), NOON.replace(year=1, tzinfo=dt.UTC)],
    "duration": [dt.timedelta(1), -dt.timedelta(microseconds=1)],
    "months": [(1, 0, 0), (-14, 0, 0)],
    "decimal(38,2)": [Decimal("9" * 36), Decimal("-0.01")],
    "binary": [b"", b"\xff"],
    "array<int32>": [[], [1, None]],
    "map<string,int32>": [[("a", 1)], []],
    "struct<a:int32>": [{"a": None}, {"a": 1}],
}


def test_picked_rows_of_every_type_are_those_that_arrow_picks() -> None:
    kinds = {kind: kind for kind in EVERY}
    assert {kind.partition("<")[0].partition("(")[0] for kind in kinds} == {
        *_ARROW,
        "decimal",
        "array",
        "map",
        "struct",
    }
    for nulls in ([], [None]):
        arrays: dict[str, Any] = {
            kind: pa.array([values[0], values[1], *nulls, values[1]], arrow_type(kind)).slice(1)
            for kind, values in EVERY.items()
        }
        rows = np.array([1, 0, 1], np.int64)
        taken = Columns(arrays, kinds).taken(rows)
        for kind, array in arrays.items():
            assert repr(taken[kind].to_pylist()) == repr(array.take(pa.array(rows)).to_pylist()), kind


def _no_text(values: pa.Array, add: bool) -> np.ndarray:
    raise AssertionError("no column of text is coded")


def test_rows_that_no_alias_of_a_join_reads_are_counted_by_their_table() -> None:
    query = "SELECT DISTINCT p.a, q.b FROM r p, r q WHERE p.b = q.a AND p.x > 1 AND q.x < 3"
    view = crown.view(query, {"r": {"a": "int64", "b": "int64", "x": "int64"}})
    rows = [{"a": x % 3, "b": x % 2, "x": x} for x in range(-2, 6)] + [{"a": 1, "b": 1, "x": None}]
    view.apply({"r": rows})
    read = {"p": [r for r in rows if r["x"] is not None and r["x"] > 1], "q": [r for r in rows if _below(r["x"], 3)]}
    assert view.stats()["filtered"] == {"r": sum(row not in read["p"] and row not in read["q"] for row in rows)}
    wanted = {(p["a"], q["b"]) for p in read["p"] for q in read["q"] if p["b"] == q["a"]}
    assert {(row["a"], row["b"]) for row in view.to_table().to_pylist()} == wanted
    view.check_invariants()
    one = crown.view("SELECT DISTINCT a FROM r WHERE x > 1", {"r": {"a": "int64", "x": "int64"}})
    one.apply({"r": rows})
    assert sum(one.stats()["filtered"].values()) == len(rows) - len(read["p"])


def _below(value: int | None, than: int) -> bool:
    return value is not None and value < than
