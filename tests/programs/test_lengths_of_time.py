"""Lengths of time as values, against DuckDB over the numbers of their units, after every batch with deletes."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import crown
from crown.commands.main import main
from plans import PlanError
from tests.marks import seeds

SCHEMA = {
    "r": {
        "id": "int64",
        "k": "int64",
        "d": "interval day to second",
        "m": "interval year to month",
        "ts": "timestamp_ntz",
    }
}
QUERIES = [
    ("SELECT id, d, m FROM r", "SELECT id, d, m FROM r"),
    ("SELECT k, SUM(d) AS s, MIN(d) AS low, MAX(m) AS high, SUM(m) AS t, COUNT(DISTINCT d) AS n FROM r GROUP BY k",
     "SELECT k, SUM(d), MIN(d), MAX(m), SUM(m), COUNT(DISTINCT d) FROM r GROUP BY k"),
    ("SELECT m, AVG(d) AS a, COUNT(*) AS n FROM r GROUP BY m HAVING SUM(d) > INTERVAL '0' SECOND",
     "SELECT m, CAST(ROUND(SUM(d)::DECIMAL(38,6) / COUNT(d)) AS BIGINT), COUNT(*) FROM r GROUP BY m HAVING SUM(d) > 0"),
    ("SELECT a.id, b.id AS other FROM r a JOIN r b ON a.d = b.d AND a.m < b.m",
     "SELECT a.id, b.id FROM r a JOIN r b ON a.d = b.d AND a.m < b.m"),
    ("SELECT a.id, SUM(b.d) AS s FROM r a LEFT JOIN r b ON a.k = b.k AND b.d > INTERVAL '1' SECOND GROUP BY a.id",
     "SELECT a.id, SUM(b.d) FROM r a LEFT JOIN r b ON a.k = b.k AND b.d > 1000000 GROUP BY a.id"),
    ("SELECT DISTINCT d * 2 - INTERVAL '1' SECOND AS x, m + INTERVAL '1-1' YEAR TO MONTH AS y FROM r",
     "SELECT DISTINCT d * 2 - 1000000, m + 13 FROM r"),
    ("SELECT k, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY d DESC, id) AS n FROM r) WHERE n <= 2",
     "SELECT k, d FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY d DESC NULLS LAST, id) <= 2"),
    ("SELECT id, ts - LAG(ts) OVER (PARTITION BY k ORDER BY id) AS gap FROM r",
     "SELECT id, EPOCH_US(ts) - EPOCH_US(LAG(ts) OVER (PARTITION BY k ORDER BY id)) FROM r"),
    ("SELECT id, SUM(d) OVER (PARTITION BY k ORDER BY id) AS s, MAX(m) OVER (PARTITION BY k) AS t FROM r",
     "SELECT id, SUM(d) OVER (PARTITION BY k ORDER BY id), MAX(m) OVER (PARTITION BY k) FROM r"),
    ("SELECT k, MAX(ts) - MIN(ts) AS span FROM r GROUP BY k",
     "SELECT k, EPOCH_US(MAX(ts)) - EPOCH_US(MIN(ts)) FROM r GROUP BY k"),
    ("SELECT id FROM r WHERE d IN (SELECT d FROM r WHERE k = 1) OR ts - TIMESTAMP_NTZ '2026-01-01 00:00:00' > d",
     "SELECT id FROM r WHERE d IN (SELECT d FROM r WHERE k = 1) OR EPOCH_US(ts) - 1767225600000000 > d"),
    ("SELECT k, MEDIAN(d) AS a, PERCENTILE(m, 0.3) AS b, PERCENTILE_APPROX(d, 0.5) AS c FROM r GROUP BY k",
     "SELECT k, TRUNC(MEDIAN(d))::INT64, TRUNC(QUANTILE_CONT(m, 0.3))::INT64, QUANTILE_DISC(d, 0.5) FROM r GROUP BY k"),
    ("SELECT PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY m DESC) AS a FROM r",
     "SELECT PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY m DESC) FROM r"),
    ("SELECT id, m, d FROM r WHERE k > 0", "SELECT id, m, d FROM r WHERE k > 0"),
    ("SELECT d FROM r EXCEPT SELECT INTERVAL '1' SECOND", "SELECT d FROM r EXCEPT SELECT 1000000"),
]  # fmt: skip
"""Queries over lengths of time, and over the numbers of their units."""


def _units(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return value.months if isinstance(value, pa.MonthDayNano) else value


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    seconds, months = rng.choice([None, 0, 1, 2, -3]), rng.choice([None, 0, 1, -13, 14])
    return {
        "id": number, "k": rng.choice([None, 1, 2]), "d": None if seconds is None else dt.timedelta(seconds=seconds),
        "m": None if months is None else pa.MonthDayNano((months, 0, 0)),
        "ts": rng.choice([None, dt.datetime(2026, 1, 1, 0, 0, rng.randint(0, 5))]),
    }  # fmt: skip


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_lengths_of_time_are_as_numbers_of_their_units(seed: int) -> None:
    rng = random.Random(seed)
    views = [crown.view(ours, schema=SCHEMA) for ours, _ in QUERIES]
    there: list[dict[str, Any]] = []
    for step in range(3):
        gone = [there.pop(rng.randrange(len(there))) for _ in range(len(there) // 2)]
        new = [_row(rng, 10 * step + i) for i in range(6)]
        there += new
        for view in views:
            view.update({"r": [*({**row, "_weight": 1} for row in new), *({**row, "_weight": -1} for row in gone)]})
        columns = {name: [_units(row[name]) for row in there] for name in SCHEMA["r"]}
        types = {"id": pa.int64(), "k": pa.int64(), "d": pa.int64(), "m": pa.int64(), "ts": pa.timestamp("us")}
        r = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        assert len(r) == len(there)  # DuckDB reads it by its name
        for view, (ours, theirs) in zip(views, QUERIES, strict=True):
            found = Counter(tuple(map(_units, row.values())) for row in view)
            assert found == Counter(duckdb.sql(theirs).fetchall()), ours


def test_lengths_of_time_come_from_all_libraries_and_go_to_them(tmp_path) -> None:
    view = crown.view("SELECT id, d, m FROM r", schema=SCHEMA)
    months = pa.array([(1, 0, 0), None], pa.month_day_nano_interval())
    view.update({"r": pa.table({"id": [1, 2], "k": [1, 1], "d": pa.array([1, None], pa.duration("s")), "m": months,
                                "ts": pa.nulls(2, pa.timestamp("us"))})})  # fmt: skip
    frame = {"id": [3], "k": [1], "d": [pd.Timedelta("1 day")], "m": [pd.DateOffset(months=-3)], "ts": [pd.NaT]}
    view.update({"r": pd.DataFrame(frame)})
    view.update({"r": [{"id": 4, "k": 1, "d": "1 02:03:04.5", "m": "-1-2", "ts": None}]})
    view.save(tmp_path / "view")
    view = crown.load(tmp_path / "view")
    assert view.schema.types == [pa.int64(), pa.duration("us"), pa.month_day_nano_interval()]
    rows = {row["id"]: (_units(row["d"]), _units(row["m"])) for row in view}
    assert rows == {1: (10**6, 1), 2: (None, None), 3: (86_400 * 10**6, -3), 4: (93_784_500_000, -14)}
    assert view.to_pandas()["d"].max() == pd.Timedelta("1 day 02:03:04.5")
    assert {"id": 3, "d": dt.timedelta(days=1), "m": pa.MonthDayNano((-3, 0, 0))} in view
    with pytest.raises(crown.errors.ChangeError, match="which Polars does not have; select 12"):
        view.to_polars()
    columns = "id, d, 12 * EXTRACT(YEAR FROM m) + EXTRACT(MONTH FROM m) AS m"
    polars = crown.view(f"SELECT {columns} FROM r", schema=SCHEMA)
    polars.update({"r": [{"id": 4, "k": 1, "d": "-1 00:00:00", "m": "-1-2", "ts": None}]})
    assert polars.to_polars().rows() == [(4, dt.timedelta(days=-1), -14)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"m": pa.MonthDayNano((1, 2, 0))}, "'m': MonthDayNano(months=1, days=2, nanoseconds=0) does not fit months"),
        ({"d": "1 day"}, "column 'd': '1 day' does not fit duration"),
        ({"d": 5}, "column 'd': 5 does not fit duration"),
        ({"m": 5}, "column 'm': 5 does not fit months"),
    ],
)
def test_what_is_no_length_of_time_is_a_bad_row(wrong: dict[str, Any], named: str) -> None:
    view = crown.view("SELECT d, m FROM r", schema=SCHEMA)
    with pytest.raises(crown.errors.BadRowError) as caught:
        view.update({"r": [{"id": 1, "k": 1, "d": None, "m": None, "ts": None, **wrong}]})
    assert named in str(caught.value)
    mixed = pa.array([(1, 2, 0)], pa.month_day_nano_interval())
    columns = {name: pa.nulls(1) for name in SCHEMA["r"]}
    with pytest.raises(crown.errors.BadRowError, match="does not fit months"):
        view.update({"r": pa.table({**columns, "m": mixed})})


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("d + m", "duration + months is not possible"),
        ("d = m", "duration and months cannot be compared with ="),
        ("d + 1", "duration + int32 is not possible"),
        ("EXTRACT(YEAR FROM d)", "EXTRACT does not support YEAR of a value of type duration"),
        ("TRANSFORM(ARRAY(1), x -> x * d)", "a part of another type cannot be an INTERVAL"),
        ("ARRAY(d)", "a part of another type cannot be an INTERVAL"),
        ("CAST(k AS INTERVAL DAY TO SECOND)", "a cast from int64 to duration is not supported"),
        ("CAST('1' AS INTERVAL DAY)", "a cast of another type to INTERVAL DAY is not supported"),
        ("CAST(d AS INTERVAL YEAR)", "a cast from duration to months is not supported"),
        ("CAST(k AS INTERVAL)", "type INTERVAL is not supported in a cast"),
        ("INTERVAL '1 month 2 days'", "an INTERVAL with months and days cannot be a value"),
        ("INTERVAL '1' DAY - ts", "a value of type timestamp_ntz cannot be subtracted from an INTERVAL"),
        ("(SELECT PERCENTILE(d, ARRAY(0.5)) FROM r)", "a part of another type cannot be an INTERVAL"),
        ("(SELECT ARRAY_AGG(d) FROM r)", "a part of another type cannot be an INTERVAL"),
    ],
)
def test_what_has_no_meaning_for_lengths_of_time_is_refused(expression: str, named: str) -> None:
    with pytest.raises(PlanError) as caught:
        crown.view(f"SELECT id, {expression} AS x FROM r", schema=SCHEMA)
    assert named in str(caught.value)


def test_functions_of_elements_reckon_with_lengths_of_time() -> None:
    query = (
        "SELECT REDUCE(ARRAY(1, 2), d, (s, x) -> s + x * d) AS s, EXISTS(ARRAY(1, 3), x -> x * d > d * 2) AS e FROM r"
    )
    view = crown.view(query, schema=SCHEMA)
    view.update({"r": [{"id": 1, "k": 1, "d": dt.timedelta(hours=1), "m": None, "ts": None}]})
    assert list(view) == [{"s": dt.timedelta(hours=4), "e": True}]


def test_the_difference_of_dates_is_what_the_dialect_says() -> None:
    schema = {"r": {"a": "date", "b": "date"}}
    row = {"a": dt.date(2026, 1, 3), "b": dt.date(2026, 1, 1)}
    for dialect, wanted in (("spark", dt.timedelta(days=2)), ("duckdb", 2), ("postgres", 2)):
        view = crown.view("SELECT a - b AS x FROM r", schema=schema, dialect=dialect)
        assert view.apply({"r": [row]})["x"].to_pylist() == [wanted]


def test_a_length_from_the_clock_says_when_a_row_comes_and_goes() -> None:
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    schema = {"r": {"id": "int64", "ts": "timestamp", "d": "duration"}}
    conditions = ["NOW() - ts >= d", "ts + d <= NOW()", "ts <= NOW() - d", "ts - NOW() <= - d", "NOT (NOW() - ts < d)"]
    for condition in conditions:
        view = crown.view(f"SELECT id FROM r WHERE {condition}", schema=schema)
        rows = [{"id": 1, "ts": noon, "d": dt.timedelta(hours=1)}, {"id": 2, "ts": noon, "d": dt.timedelta()}]
        view.update({"r": rows, "now()": noon})
        assert [row["id"] for row in view] == [2], condition
        view.tick(noon + dt.timedelta(minutes=59, seconds=59))
        assert [row["id"] for row in view] == [2], condition
        view.tick(noon + dt.timedelta(hours=1))
        assert sorted(row["id"] for row in view) == [1, 2], condition


def test_files_without_lengths_of_time_say_so(tmp_path, capsys) -> None:
    (tmp_path / "t.csv").write_text("id,a,b\n1,2026-01-01 10:00:00,2026-01-01 12:30:00\n")
    query = "SELECT b - a AS d, id * INTERVAL '1' MONTH AS m FROM t"
    for name, column in (("out.csv", "d"), ("out.parquet", "m")):
        given = ["run", query, "--input", f"t={tmp_path / 't.csv'}", "--output", str(tmp_path / name)]
        assert main(given) != 0
        assert f"column {column!r} is an INTERVAL, which" in capsys.readouterr().err


def test_a_quotient_by_a_decimal_of_any_length_is_rounded_once() -> None:
    view = crown.view(
        "SELECT INTERVAL '0.000001' SECOND / n AS x, -INTERVAL '0.000001' SECOND / n AS y FROM q",
        schema={"q": {"n": "decimal(38,37)"}},
    )
    view.update({"q": [("2.0000000000000000000000000000000000001",)]})
    assert list(view) == [{"x": dt.timedelta(0), "y": dt.timedelta(0)}]
    view.update({"q": [("2",)]})
    assert {(row["x"], row["y"]) for row in view} == {
        (dt.timedelta(0), dt.timedelta(0)),
        (dt.timedelta(microseconds=1), dt.timedelta(microseconds=-1)),
    }
