"""Values that DuckDB computes otherwise than Spark: a view in its dialect has DuckDB's, after inserts and deletes."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

import crown
from plans import plan, program
from tests.programs.driver import Driver

COLUMNS = {
    "id": ("int64", "BIGINT"), "i": ("int64", "BIGINT"), "n": ("int32", "INTEGER"), "x": ("float64", "DOUBLE"),
    "c": ("decimal(10,2)", "DECIMAL(10, 2)"), "s": ("string", "VARCHAR"), "num": ("string", "VARCHAR"),
    "d": ("date", "DATE"), "t": ("timestamp_ntz", "TIMESTAMP"), "js": ("string", "VARCHAR"),
    "l": ("list<float64>", "DOUBLE[]"),
}  # fmt: skip
ROWS: list[tuple[Any, ...]] = [
    (1, 5, 3, 0.145, Decimal("1.25"), "abc-def", "1.5", dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 10, 20, 30, 12),
     '{"a": 1.50, "b": [1, {"c": null}], "t": "x"}', [0.5, 1e20]),
    (2, -5, -3, -2.5, Decimal("-1.25"), "Ünï code", "2.5", dt.date(1999, 12, 31), dt.datetime(1999, 12, 31, 23, 59),
     '[1, "x"]', []),
    (3, 0, 0, 1e20, Decimal("0.00"), "", "-2.5", dt.date(2000, 2, 29), dt.datetime(1969, 7, 20, 20, 17, 40, 500_000),
     '"txt"', [1e-7]),
    (4, *[None] * 10),
    (5, 7, 7, math.nan, Decimal("99.99"), "a,b,c", "abc", dt.date(1965, 3, 1), dt.datetime(2024, 2, 29), "{}", None),
    (6, 100, 100, math.inf, Decimal("0.05"), "  pad ", "1e3", dt.date(2024, 12, 30), dt.datetime(2024, 12, 30),
     "[true, -1]", [-math.inf]),
    (7, 1_234_567, 12, 1.005, Decimal("12345678.90"), "x%y", "12", dt.date(2021, 1, 3), dt.datetime(2021, 1, 3, 12),
     '{"a": "x", "b": {"c": "d"}}', [1.0]),
    (8, -1, 1, 1e-7, Decimal("-0.05"), "x-y-z", " 7 ", dt.date(2100, 6, 15), dt.datetime(2100, 6, 15, 1, 2, 3),
     "null", [2.5]),
]  # fmt: skip
SAME = (
    "ROUND(x, 2)", "ROUND(x)", "ROUND(x, -1)", "ROUND(c, 1)", "ROUND(i / 3, 2)",
    "TRY_CAST(x AS DECIMAL(38, 2))", "x::VARCHAR",
    "(x * 2)::VARCHAR || '!'", "x || '-' || i", "CONCAT(x, 'a', t)", "CONCAT_WS('-', x, d, i)", "c::VARCHAR",
    "to_json(t)", "to_json(x)", "to_json(c)", "to_json(l)", "to_json({'a': x, 'b': t, 'c': c})", "l::JSON",
    "json_object('a', t, 'b', x)", "json_array(t, x, c)", "TRY_CAST(num AS INTEGER)", "TRY_CAST(num AS BIGINT)",
    "TRY_CAST(num AS DECIMAL(10, 1))", "LN(x)", "LOG(x)", "LOG10(i)", "LOG2(i)", "LOG(2, i)", "LOG(n, i)",
    "x / i", "i / n", "c / c", "i / 0", "x / NULLIF(i, 0)", "SPLIT_PART(s, '-', 0)", "SPLIT_PART(s, '-', -1)",
    "SPLIT_PART(s, '', 2)", "json_valid(num)", "json_type(js, '$.a')", "json_type(js, '$.b[1]')",
    "json_value(js, '$.a')", "json_value(js, '$.b')", "js->'b'", "js->>'a'",
    "date_sub('month', d, DATE '2025-01-30')", "date_sub('day', t, TIMESTAMP '2025-01-30 10:00:00')",
    "date_trunc('decade', d)", "date_trunc('decade', t)", "date_trunc('quarter', d)", "date_part('millisecond', t)",
    "EXTRACT(MICROSECOND FROM t)", "d + INTERVAL 1 MONTH", "d - INTERVAL 1 DAY", "d + n * INTERVAL 1 DAY", "d + n",
    "d - to_days(n)", "date_add(d, INTERVAL 1 MONTH)", "d + INTERVAL 1 DAY > DATE '2024-01-31'",
    "d + INTERVAL 1 DAY = d + 1", "strptime('2024-01-02', '%Y-%m-%d')", "try_strptime(s, '%Y-%m-%d')",
)  # fmt: skip


def _plain(value: Any) -> Any:
    """Returns a value of either side in one form; NaN is equal to itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.13g}")
    return value


def test_values_are_those_of_duckdb() -> None:
    query = f"SELECT id, {', '.join(f'{one} AS v{place}' for place, one in enumerate(SAME))} FROM t"
    view = crown.view(query, {"t": {name: type_ for name, (type_, _) in COLUMNS.items()}}, dialect="duckdb")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    oracle = duckdb.connect()
    oracle.execute("SET TimeZone = 'UTC'")
    oracle.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, (_, type_) in COLUMNS.items())})")
    oracle.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", ROWS)
    wanted = oracle.execute(query).fetchall()
    view.apply({"t": rows})
    view.apply({"t": [{**row, "_weight": -1} for row in rows[::2]]})
    assert view.to_table().num_rows == len(rows) // 2
    view.apply({"t": rows[::2]})
    found = {row[0]: row[1:] for row in (tuple(one.values()) for one in view.to_table().to_pylist())}
    wrong = {
        (expression, row[0]): (here, there)
        for row in wanted
        for expression, there, here in zip(SAME, row[1:], found[row[0]], strict=True)
        if _plain(here) != _plain(there)
    }
    assert wrong == {}


AGGREGATES = (
    "SELECT k, avg(c) AS a, median(c) AS m, quantile_cont(c, 0.3) AS q, quantile_cont(c, [0.1, 0.7]) AS r, quantile(n, "
    "0.3) AS d, avg(DISTINCT c) AS e, mean(c) AS f, avg(c) FILTER (WHERE n > 2) AS g, quantile_disc(c, 0.6) AS h, "
    "percentile_cont(0.4) WITHIN GROUP (ORDER BY c) AS i, sum(n > 2) AS j, string_agg(c::DOUBLE * 1e16, '|' "
    "ORDER BY c) AS l FROM t GROUP BY k HAVING avg(c) > 0.5",
    "SELECT k, c, avg(c) OVER (PARTITION BY k ORDER BY n, c ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, avg(c) "
    "OVER (PARTITION BY k) AS b, median(c) OVER (PARTITION BY k) AS m FROM t",
)


@pytest.mark.parametrize("query", AGGREGATES)
def test_aggregates_of_decimals_are_those_of_duckdb(query: str) -> None:
    tables, random = {"t": {"k": "int64", "c": "decimal(10,2)", "n": "int64"}}, Random(1)
    driver = Driver(query, program(query, tables, dialect="duckdb"), tables, exact=False)
    for step in range(4):
        there = list(driver.database.rows["t"].elements())
        gone = [(row, -1) for row in random.sample(there, len(there) // 3)]
        new = [(random.randint(1, 3), Decimal(random.randint(-300, 900)) / 100, random.randint(0, 5)) for _ in range(9)]
        driver.step({"t": [*gone, *((row, 1) for row in new)]}, again=step == 1)
    driver.remove_everything()


@pytest.mark.parametrize("digits", [4, 9, 15])
def test_percentiles_of_decimals_have_the_last_digit_of_duckdb(digits: int) -> None:
    """Also those that end near a whole number of the last digit, for negative values, and over frames."""
    shares = "[0.1, 0.2, 0.25, 0.3, 0.333, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]"
    query = f"SELECT k, quantile_cont(c, {shares}) AS q, median(c) AS m FROM t GROUP BY k"
    frames = f"SELECT k, c, quantile_cont(c, {shares}) OVER (PARTITION BY k) AS q FROM t"
    running = f"SELECT k, c, quantile_cont(c, {shares}) OVER (PARTITION BY k ORDER BY c) AS q FROM t"
    tables, random = {"t": {"k": "int64", "c": f"decimal({digits},2)"}}, Random(digits)
    drivers = [Driver(one, program(one, tables, dialect="duckdb"), tables) for one in (query, frames, running)]
    for _ in range(4):
        there = list(drivers[0].database.rows["t"].elements())
        gone = [(row, -1) for row in random.sample(there, len(there) // 3)]
        most = [10**n for n in (1, 2, 3, digits)]
        units = [(random.randint(1, 30), random.randint(1 - (most[k % 4]), most[k % 4] - 1)) for k in range(150)]
        new = [((k, Decimal(unit).scaleb(-2)), 1) for k, unit in units]
        for driver in drivers:
            driver.step({"t": [*gone, *new]})
    for driver in drivers:
        driver.remove_everything()


def test_a_day_is_compared_with_a_moment_as_it_is_with_the_day() -> None:
    """So that conditions on days stay ranges of days."""
    text = "SELECT DISTINCT d FROM t WHERE d >= DATE '2024-01-01' + INTERVAL 1 DAY"
    assert "where d >= DATE '2024-01-02'" in str(plan(text, {"t": {"d": "date"}}, dialect="duckdb"))
