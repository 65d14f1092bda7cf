"""Aggregates that read values in order: written in many dialects, kept in snapshots, refused in a sentence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans import PlanError, plan, program
from tests.oracles import duck
from tests.oracles.database import Database, to_arrow
from tests.programs.test_programs import apply, result_of

SCHEMA = {"r": {"k": "int64", "x": "int64", "d": "decimal(30,2)", "s": "string", "f": "bool"}}
ALL = (
    "SELECT k, MEDIAN(x) AS m, MIN(x) AS lo, STRING_AGG(s, ',' ORDER BY x NULLS FIRST, s) AS t, BIT_XOR(x) AS b, "
    "PERCENTILE_DISC(0.4) WITHIN GROUP (ORDER BY s) AS p FROM r GROUP BY k"
)


def _row(random: Random) -> tuple[Any, ...]:
    texts = (None, "", "a", "é", "b,c")
    return (random.choice((0, 1, None)), random.choice((None, -3, 0, 1, 7)), None, random.choice(texts), None)


def _batches(seed: int, many: int) -> list[list[tuple[tuple[Any, ...], int]]]:
    random, rows, made = Random(seed), list[tuple[Any, ...]](), []
    for _ in range(many):
        gone = [rows.pop(random.randrange(len(rows))) for _ in range(random.randint(0, len(rows)))]
        come = [_row(random) for _ in range(random.randint(0, 9))]
        rows += come
        made.append([(row, -1) for row in gone] + [(row, 1) for row in come])
    return made


@pytest.mark.parametrize("seed", range(3))
def test_values_in_order_survive_a_snapshot(tmp_path: Path, seed: int) -> None:
    engine, database = ProgramEngine.create(program(ALL, SCHEMA)), Database(SCHEMA)
    for turn, batch in enumerate(_batches(seed, 8)):
        engine.save(tmp_path / "state", {"turn": turn})
        engine, _ = snapshot.load(tmp_path / "state")
        apply(engine, {"r": to_arrow(database.schema, "r", batch)})
        database.apply({"r": batch})
        assert result_of(engine) == duck.results(ALL, database)
        engine.check_invariants()


def test_what_is_deleted_leaves_nothing_of_its_values() -> None:
    view = crown.view(ALL, SCHEMA)
    rows = [_row(Random(seed)) for seed in range(50)]
    for weight in (1, -1):
        view.apply({"r": [{**dict(zip(SCHEMA["r"], row, strict=True)), "_weight": weight} for row in rows]})
    assert not list(view)


WRITTEN = {
    ("spark", "PERCENTILE(x, 0.3)"): 3.2,
    ("spark", "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY x DESC)"): 6.3999999999999995,
    ("spark", "PERCENTILE_APPROX(x, 0.5, 100)"): 4,
    ("spark", "PERCENTILE(x, ARRAY(0.3, 0.5))"): [3.2, 4.0],
    ("spark", "PERCENTILE_APPROX(x, ARRAY(0.3, 0.5), 100)"): [2, 4],
    ("spark", "PERCENTILE_CONT(ARRAY(0, 0.5)) WITHIN GROUP (ORDER BY x DESC)"): [10.0, 4.0],
    ("spark", "PERCENTILE(x, ARRAY(0.5)) FILTER (WHERE x > 10)"): None,
    ("duckdb", "QUANTILE_CONT(x, [0.3, 0.5])"): [3.2, 4.0],
    ("duckdb", "QUANTILE_CONT(x, 0.3)"): 3.2,
    ("duckdb", "QUANTILE_DISC(x, 0.3)"): 2.0,
    ("postgres", "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY s)"): "a",
    ("snowflake", "MEDIAN(d)"): 0.75,
    ("spark", "STRING_AGG(s)"): "abb",
    ("spark", "LISTAGG(s, ', ') WITHIN GROUP (ORDER BY x DESC)"): "b, a, b",
    ("spark", "LISTAGG(DISTINCT s, ', ') WITHIN GROUP (ORDER BY s DESC)"): "b, a",
    ("mysql", "GROUP_CONCAT(DISTINCT s ORDER BY s SEPARATOR '-')"): "a-b",
    ("duckdb", "GROUP_CONCAT(s)"): "a,b,b",
    ("postgres", "STRING_AGG(s, ',' ORDER BY x) FILTER (WHERE x > 1)"): "b,a,b",
    ("spark", "STRING_AGG(x, ',') WITHIN GROUP (ORDER BY x)"): "2,4,10",
    ("spark", "STRING_AGG(x, ',')"): "10,2,4",
    ("snowflake", "BITOR_AGG(x)"): 14,
}


@pytest.mark.parametrize(("dialect", "call"), WRITTEN)
def test_an_aggregate_is_read_as_its_dialect_writes_it(dialect: str, call: str) -> None:
    view = crown.view(f"SELECT {call} AS v FROM r", SCHEMA, dialect=dialect)
    rows = [(2, "0.50", "b"), (4, "1.00", "a"), (10, "7.00", "b")]
    view.apply({"r": [{"k": 0, "x": x, "d": d, "s": s, "f": True} for x, d, s in [*rows, (None, "0.25", None)]]})
    assert [row["v"] for row in view] == [WRITTEN[dialect, call]]


def test_a_value_that_is_there_often_counts_as_often() -> None:
    view = crown.view("SELECT MEDIAN(x) AS m, STRING_AGG(s, '') AS t, BIT_XOR(x) AS b FROM r", SCHEMA)
    row = {"k": 0, "d": None, "f": None}
    view.apply({"r": [{**row, "x": 1, "s": "a", "_weight": 3}, {**row, "x": 9, "s": "b", "_weight": 2}]})
    assert list(view) == [{"m": 1.0, "t": "aaabb", "b": 1}]
    view.apply({"r": [{**row, "x": 1, "s": "a", "_weight": -2}]})
    assert list(view) == [{"m": 9.0, "t": "abb", "b": 1}]


def test_texts_that_would_be_too_long_refuse_their_batch() -> None:
    view = crown.view("SELECT STRING_AGG(s, '') AS t FROM r", SCHEMA)
    row = {"k": 0, "x": 0, "d": None, "f": None, "s": "abc"}
    view.apply({"r": [row]})
    with pytest.raises(crown.ChangeError, match=r"texts that are joined .* more than 2\^31 bytes"):
        view.apply({"r": [{**row, "_weight": 10**9}]})
    assert list(view) == [{"t": "abc"}]
    view.check_invariants()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("PERCENTILE(x, 1.5)", "PERCENTILE takes one number from 0 to 1"),
        ("PERCENTILE(x, ARRAY(0.1, 2))", "PERCENTILE takes one number from 0 to 1, or an ARRAY of such numbers"),
        ("PERCENTILE(x, ARRAY())", "PERCENTILE needs numbers from 0 to 1"),
        ("PERCENTILE(x, k)", "PERCENTILE takes one number from 0 to 1"),
        ("MEDIAN(s)", r"lengths of time, not string(.|\n)*hint: write PERCENTILE_DISC\(0.5\) WITHIN GROUP"),
        ("MEDIAN(DISTINCT x)", r"MEDIAN\(DISTINCT \.\.\.\) is not supported"),
        ("PERCENTILE_CONT(0.5)", "PERCENTILE_CONT needs the order of its values"),
        ("STRING_AGG(s, s)", "STRING_AGG takes a text between the values"),
        ("LISTAGG(DISTINCT s) WITHIN GROUP (ORDER BY x)", "with DISTINCT, LISTAGG must be ordered by its argument"),
        ("BIT_AND(s)", "BIT_AND needs a whole number, not string"),
        ("MEDIAN(s) OVER (ORDER BY k)", "MEDIAN and percentiles need numbers or lengths of time, not string"),
    ],
)
def test_what_is_no_such_aggregate_is_refused(call: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(f"SELECT {call} AS v FROM r", SCHEMA)


def test_a_median_of_joined_rows_counts_every_pair() -> None:
    tables = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}
    view = crown.view("SELECT MEDIAN(a) AS m, SUM(c) AS s FROM r JOIN s USING (b)", tables)
    view.apply({"r": [{"a": 1, "b": 0}, {"a": 5, "b": 1}], "s": [{"b": 0, "c": 1}] * 3 + [{"b": 1, "c": 10}] * 2})
    assert Counter(map(str, view)) == Counter([str({"m": 1.0, "s": 23})])
    view.apply({"s": [{"b": 0, "c": 1, "_weight": -2}]})
    assert list(view) == [{"m": 5.0, "s": 21}]
