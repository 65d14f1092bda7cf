"""Aggregates that are rewritten to others, after every batch with deletes: what DuckDB says in words of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

import crown
from plans import PlanError, plan
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database

SCHEMA = {"r": {"k": "int64", "f": "bool", "x": "int64", "y": "int64", "z": "float64", "s": "string"}}
PAIRS = {
    "SELECT k, BOOL_AND(f) AS a, EVERY(f) AS b, BOOL_OR(f) AS c, SOME(x > 0) AS d FROM r GROUP BY k": (
        "SELECT k, BOOL_AND(f), BOOL_AND(f), BOOL_OR(f), BOOL_OR(x > 0) FROM r GROUP BY k"
    ),
    "SELECT k, COUNT(x, y) AS a, COUNT(DISTINCT x, s) AS b, COUNT(DISTINCT z, f, x) AS c, "
    "COUNT(DISTINCT x, y) FILTER (WHERE f) AS d FROM r GROUP BY k": (
        "SELECT k, COUNT(*) FILTER (x IS NOT NULL AND y IS NOT NULL), "
        "COUNT(DISTINCT (x, s)) FILTER (x IS NOT NULL AND s IS NOT NULL), "
        "COUNT(DISTINCT (z, f, x)) FILTER (z IS NOT NULL AND f IS NOT NULL AND x IS NOT NULL), "
        "COUNT(DISTINCT (x, y)) FILTER (x IS NOT NULL AND y IS NOT NULL AND f) FROM r GROUP BY k"
    ),
    "SELECT APPROX_COUNT_DISTINCT(x) AS a, APPROX_COUNT_DISTINCT(s) FILTER (WHERE f) AS b FROM r": (
        "SELECT COUNT(DISTINCT x), COUNT(DISTINCT s) FILTER (f) FROM r"
    ),
    "SELECT k, ANY_VALUE(s) AS a, FIRST(x) AS b, LAST(z) AS c, FIRST(y) IGNORE NULLS AS d FROM r GROUP BY k": (
        "SELECT k, MIN(s), MIN(x), MAX(z), MIN(y) FROM r GROUP BY k"
    ),
    "SELECT k, FIRST_VALUE(s) AS a, FIRST(x, true) AS b, LAST_VALUE(z, true) AS c, TRY_SUM(y) AS d FROM r GROUP BY k": (
        "SELECT k, MIN(s), MIN(x), MAX(z), SUM(y)::BIGINT FROM r GROUP BY k"
    ),
    "SELECT k, MAX(STRUCT(x, s)).s AS a, MIN(STRUCT(x, s)).s AS b, MAX(STRUCT(y, x, s)).x AS c FROM r GROUP BY k": (
        "SELECT k, list(s ORDER BY x DESC NULLS LAST, s DESC NULLS LAST)[1], list(s ORDER BY x NULLS FIRST, s NULLS "
        "FIRST)[1], list(x ORDER BY y DESC NULLS LAST, x DESC NULLS LAST)[1] FROM r GROUP BY k"
    ),
    "SELECT MODE() WITHIN GROUP (ORDER BY x) AS a FROM r": (
        "SELECT (SELECT x FROM r WHERE x IS NOT NULL GROUP BY x ORDER BY COUNT(*) DESC, x LIMIT 1)"
    ),
    "SELECT k, MAX_BY(s, y) AS a, MIN_BY(x, y) FILTER (WHERE f) AS b, COUNT(*) AS n FROM r GROUP BY k": (
        "SELECT k, (LIST(s ORDER BY y DESC, s NULLS FIRST) FILTER (y IS NOT NULL))[1], "
        "(LIST(x ORDER BY y, x NULLS FIRST) FILTER (y IS NOT NULL AND f))[1], COUNT(*) FROM r GROUP BY k"
    ),
    "SELECT MAX_BY(k, y) AS a, MODE(x) AS b FROM r": (
        "SELECT (LIST(k ORDER BY y DESC, k NULLS FIRST) FILTER (y IS NOT NULL))[1], (SELECT x FROM r "
        "WHERE x IS NOT NULL GROUP BY x ORDER BY COUNT(*) DESC, x LIMIT 1) FROM r"
    ),
    "SELECT k, MODE(s) AS a, SUM(x) AS t FROM r GROUP BY k HAVING MAX_BY(x, y) > 0": (
        "SELECT k, (SELECT s FROM r AS q WHERE q.k IS NOT DISTINCT FROM r.k AND s IS NOT NULL GROUP BY s "
        "ORDER BY COUNT(*) DESC, s LIMIT 1), SUM(x)::BIGINT FROM r GROUP BY k "
        "HAVING (LIST(x ORDER BY y DESC, x NULLS FIRST) FILTER (y IS NOT NULL))[1] > 0"
    ),
}


def _row(rng: Random) -> tuple[object, ...]:
    return (
        rng.choice((0, 1, None)),
        rng.choice((True, False, None)),
        rng.choice((-1, 0, 1, 2, None)),
        rng.choice((*range(6), None)),
        rng.choice((0.0, -0.0, 1.5, float("nan"), None)),
        rng.choice(("", "a", "1:a", "ab", None)),
    )


def _batches(view: crown.View, rng: Random) -> Iterator[tuple[Counter[tuple[object, ...]], Database]]:
    """Applies six random batches to a view. Yields its rows, and the tables, after each."""
    tables = Database(SCHEMA)
    rows: list[tuple[object, ...]] = []
    for _ in range(6):
        gone = [rows.pop(rng.randrange(len(rows))) for _ in range(rng.randint(0, len(rows)))]
        come = [_row(rng) for _ in range(rng.randint(0, 8))]
        rows += come
        changes = [(row, -1) for row in gone] + [(row, 1) for row in come]
        tables.apply({"r": changes})
        view.apply({"r": [{**dict(zip(SCHEMA["r"], row, strict=True)), "_weight": n} for row, n in changes]})
        yield Counter(tuple(row.values()) for row in view.to_table().to_pylist()), tables


@pytest.mark.parametrize("query", PAIRS)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_rewritten_aggregate_is_what_duckdb_says_of_it_after_every_batch(query: str, seed: int) -> None:
    for found, tables in _batches(crown.view(query, SCHEMA), Random(seed)):
        assert _plain(found) == _plain(duck.results(PAIRS[query], tables)), tables.rows


SHAPES = (
    "SELECT k, SKEWNESS(x) AS a, KURTOSIS(y) AS b, KURTOSIS_POP(x) FILTER (WHERE f) AS c FROM r GROUP BY k",
    "SELECT SKEWNESS(a.x + b.y) AS a, KURTOSIS(a.x * b.y) AS b FROM r AS a JOIN r AS b ON a.k = b.k",
    "SELECT k, SKEWNESS(x) OVER (PARTITION BY k ORDER BY y, x, s, f ROWS 3 PRECEDING) AS a, COUNT(*) AS n FROM r "
    "WHERE y IS NOT NULL GROUP BY k, x, y, s, f",
)


@pytest.mark.parametrize("query", SHAPES)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_skewness_and_kurtosis_are_those_of_the_dialect_after_every_batch(query: str, seed: int) -> None:
    for found, tables in _batches(crown.view(query, SCHEMA, dialect="duckdb"), Random(seed)):
        assert _near(found) == _near(duck.results(query, tables)), tables.rows


def _near(rows: Counter[tuple[object, ...]]) -> list[str]:
    """Rows with doubles to nine digits: those of DuckDB are rounded after each row."""
    return sorted(
        repr([round(value, 9) + 0.0 if isinstance(value, float) else value for value in row]) for row in rows.elements()
    )


def _plain(rows: Counter[tuple[object, ...]]) -> list[str]:
    return sorted(repr(row) for row in rows.elements())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("BOOL_AND(x)", "BOOL_AND needs conditions, not int64"),
        ("MAX_BY(x)", "MAX_BY needs another argument"),
        ("BOOL_OR(DISTINCT f, f)", "BOOL_OR of 2 columns is not supported"),
        ("MODE(DISTINCT x)", "MODE(DISTINCT ...) is not supported"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT {call} AS v FROM r", SCHEMA)
    assert message in str(caught.value)
