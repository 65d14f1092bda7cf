"""Time zones: names in a column, and the functions of each dialect. DuckDB's by DuckDB, others by their manuals."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

import pytest

import crown
from plans import PlanError, program
from tests.marks import every
from tests.programs.driver import Driver

TABLES = {"t": {"id": "int64", "at": "timestamp", "wall": "timestamp_ntz", "zone": "string"}}
AT = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)
"""In Berlin, the clock has just been moved from 02:00 to 03:00."""
ROW = (1, AT, dt.datetime(2024, 3, 31, 9), "Europe/Berlin")
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
STREAMED = (
    "SELECT id, t.at AT TIME ZONE zone AS here, (wall AT TIME ZONE zone) AT TIME ZONE 'Asia/Tokyo' AS there FROM t",
    "SELECT (t.at AT TIME ZONE zone)::DATE AS day, zone, COUNT(*) AS n FROM t GROUP BY ALL",
    "SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.wall = b.at AT TIME ZONE b.zone",
    "SELECT id, t.at::VARCHAR AS a, t.at || '!' AS b, CONCAT(t.at, id) AS c, t.at::VARCHAR(13) AS d, "
    "wall::VARCHAR AS e FROM t",
    "SELECT zone, STRING_AGG(t.at, ',' ORDER BY t.at) AS moments FROM t GROUP BY zone",
)
MIDNIGHT = dt.datetime(2024, 3, 30, 23, tzinfo=dt.UTC)
"""The begin of the day in Berlin."""
VALUES: dict[str, dict[str, Any]] = {
    "bigquery": {
        "DATE(at, zone)": dt.date(2024, 3, 31),
        "DATE(at, 'America/New_York')": dt.date(2024, 3, 30),
        "DATETIME(at, zone)": dt.datetime(2024, 3, 31, 3, 30),
        "TIMESTAMP(wall, zone)": dt.datetime(2024, 3, 31, 7, tzinfo=dt.UTC),
        "TIMESTAMP_TRUNC(at, DAY, zone)": MIDNIGHT,
        "TIMESTAMP_TRUNC(at, WEEK)": dt.datetime(2024, 3, 31, tzinfo=dt.UTC),
        "TIMESTAMP_TRUNC(at, WEEK, zone)": MIDNIGHT,
        "TIMESTAMP_TRUNC(at, WEEK(MONDAY), zone)": dt.datetime(2024, 3, 24, 23, tzinfo=dt.UTC),
        "FORMAT_TIMESTAMP('%H:%M', at, zone)": "03:30",
        "PARSE_TIMESTAMP('%Y-%m-%d', '2024-03-31', zone)": MIDNIGHT,
        "EXTRACT(HOUR FROM at AT TIME ZONE zone)": 3,
        "DATETIME(2024, 3, 31, 3, 4, 5)": dt.datetime(2024, 3, 31, 3, 4, 5),
        "STRING(at)": "2024-03-31 01:30:00+00",
        "CAST(wall AS STRING)": "2024-03-31 09:00:00",
    },
    "postgres": {
        "date_trunc('day', at, zone)": MIDNIGHT,
        "at::text": "2024-03-31 01:30:00+00",
        "at::varchar(13)": "2024-03-31 01",
        "at || ''": "2024-03-31 01:30:00+00",
        "concat(at, NULL)": "2024-03-31 01:30:00+00",
        "extract(hour from at at time zone zone)": 3,
    },
    "trino": {
        "hour(at AT TIME ZONE zone)": 3,
        "CAST(at_timezone(at, 'America/New_York') AS date)": dt.date(2024, 3, 30),
        "CAST(at AT TIME ZONE zone AS timestamp)": dt.datetime(2024, 3, 31, 3, 30),
        "date_format(at AT TIME ZONE zone, '%H')": "03",
        "CAST(date_trunc('day', at AT TIME ZONE zone) AS timestamp)": dt.datetime(2024, 3, 31),
    },
    "databricks": {
        "from_utc_timestamp(at, zone)": dt.datetime(2024, 3, 31, 3, 30, tzinfo=dt.UTC),
        "to_utc_timestamp(at, 'Asia/Tokyo')": dt.datetime(2024, 3, 30, 16, 30, tzinfo=dt.UTC),
    },
    "snowflake": {"CONVERT_TIMEZONE('UTC', zone, wall)": dt.datetime(2024, 3, 31, 11)},
    "mysql": {"CONVERT_TZ(wall, 'UTC', zone)": dt.datetime(2024, 3, 31, 11)},
    "spark": {
        "from_utc_timestamp(at, zone)": dt.datetime(2024, 3, 31, 3, 30, tzinfo=dt.UTC),
        "from_utc_timestamp(at, 'nowhere ' || zone)": None,
        "from_utc_timestamp(at, NULLIF(zone, zone))": None,
        "convert_timezone(zone, wall)": dt.datetime(2024, 3, 31, 11),
    },
}
REFUSED = {
    "trino": (
        "at AT TIME ZONE zone",
        "date_trunc('day', at AT TIME ZONE zone)",
        "CAST(at AT TIME ZONE zone AS varchar)",
    ),
    "bigquery": ("STRING(at, zone)", "CURRENT_DATETIME('Europe/Berlin') > DATETIME(at)"),
    "spark": ("from_utc_timestamp(at, 'nowhere')",),
}


def _row(random: Random) -> tuple[Any, ...]:
    at = dt.datetime(2024, random.choice([3, 10]), random.choice([30, 31]), random.randrange(4), 30, tzinfo=dt.UTC)
    wall = dt.datetime(2024, 7, 1, random.randrange(3))
    given = random.choice([None, at, at, at]), random.choice([None, wall, wall])
    return random.randrange(3), *given, random.choice([None, *ZONES])


@pytest.mark.parametrize("query", STREAMED)
def test_zones_in_a_column_are_those_of_duckdb(query: str) -> None:
    random = Random(query)
    driver = Driver(query, program(query, TABLES, dialect="duckdb"), TABLES)
    for step in range(5):
        there = list(driver.database.rows["t"].elements())
        gone = [(row, -1) for row in random.sample(there, len(there) // 2)]
        driver.step({"t": [*gone, *((_row(random), 1) for _ in range(6))]}, again=step == 2)
    driver.remove_everything()


def _value(dialect: str, expression: str) -> Any:
    view = crown.view(f"SELECT {expression} AS v FROM t", TABLES, dialect=dialect)
    view.update({"t": [ROW]})
    return view.to_table().column("v")[0].as_py()


@every((dialect, *case) for dialect, cases in VALUES.items() for case in cases.items())
def test_functions_with_a_time_zone_have_the_meaning_of_the_dialect(dialect: str, expression: str, wanted: Any) -> None:
    assert _value(dialect, expression) == wanted


@every((dialect, expression) for dialect, cases in REFUSED.items() for expression in cases)
def test_a_value_with_a_time_zone_of_its_own_is_rejected(dialect: str, expression: str) -> None:
    with pytest.raises(PlanError) as caught:
        _value(dialect, expression)
    assert caught.value.hint
    assert "zone" in str(caught.value)
