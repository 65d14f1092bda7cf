"""Queries that read the date of a time zone, tick by tick over days on which its clocks change: engine = zoneinfo."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import crown
from plans.errors import PlanError
from tests import campaign
from tests.marks import by_turns

CHANGES = (
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/Havana", date(2026, 3, 8)),  # there is no midnight
    ("America/Havana", date(2026, 11, 1)),  # midnight comes twice
    ("Asia/Beirut", date(2026, 10, 25)),  # the clocks go back at midnight
    ("Pacific/Kiritimati", date(2026, 5, 5)),
    ("+05:30", date(2026, 5, 5)),
)
SCHEMA = {"r": {"id": "int64", "d": "date", "at": "timestamp", "zone": "string"}}
QUERIES = {
    "SELECT id FROM r WHERE d = CURRENT_DATE('{zone}')": lambda row, day, begin: row["d"] == day,
    "SELECT id FROM r WHERE d >= DATE_SUB(CURRENT_DATE('{zone}'), INTERVAL 1 DAY)": lambda row, day, begin: (
        row["d"] >= day - timedelta(days=1)
    ),
    "SELECT id FROM r WHERE NOT d < CURRENT_DATE(zone) OR id < 0": lambda row, day, begin: row["d"] >= day,
    "SELECT id FROM r WHERE at >= TIMESTAMP_TRUNC(CURRENT_TIMESTAMP(), DAY, '{zone}')": lambda row, day, begin: (
        row["at"] >= begin
    ),
    "SELECT id FROM r WHERE at < TIMESTAMP(CURRENT_DATE('{zone}'), zone)": lambda row, day, begin: row["at"] < begin,
    "SELECT id FROM r WHERE DATE(at, zone) = DATE(CURRENT_DATETIME('{zone}'))": lambda row, day, begin: (
        row["day"] == day
    ),
}


def zone_of(name: str) -> Any:
    return (
        ZoneInfo(name)
        if "/" in name
        else UTC
        if name == "UTC"
        else datetime.fromisoformat(f"2026-01-01T00{name}").tzinfo
    )


@pytest.mark.parametrize(("query", "changed"), by_turns(QUERIES, CHANGES, share=2))
def test_rows_enter_and_leave_at_the_midnights_of_a_zone(query: str, changed: tuple[str, date]) -> None:
    name, change = changed
    zone, start = zone_of(name), datetime(change.year, change.month, change.day, tzinfo=UTC) - timedelta(hours=26)
    moments = [start + timedelta(minutes=30 * step) for step in range(2 * 60)]
    rows = [{"id": i, "d": (start + timedelta(days=i - 2)).date(), "at": start, "zone": name} for i in range(7)]
    rows += [{"id": 100 + i, "d": change, "at": at, "zone": name} for i, at in enumerate(moments)]
    view = crown.view(query.replace("{zone}", name), SCHEMA, dialect="bigquery")
    view.update({"r": rows, "now()": start})
    for step, now in enumerate(moments):
        night = (now.astimezone(zone) + timedelta(hours=3)).hour < 6
        if not (night or step % 6 == 0 or campaign.is_running()):
            continue  # between two nights, nothing happens
        view.tick(now)
        day = now.astimezone(zone).date()
        begin = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        wanted = [
            row["id"] for row in rows if QUERIES[query]({**row, "day": row["at"].astimezone(zone).date()}, day, begin)
        ]
        assert sorted(row["id"] for row in view) == wanted, f"at {now}"


def test_the_dates_of_several_zones_change_one_by_one() -> None:
    zones = ("UTC", "Asia/Tokyo", "America/New_York")
    dates = ", ".join(f"CURRENT_DATE('{zone}') AS d{i}" for i, zone in enumerate(zones))
    view = crown.view(f"SELECT id, CURRENT_DATE AS d, {dates} FROM r", SCHEMA, dialect="bigquery")
    start = datetime(2026, 5, 5, 11, tzinfo=UTC)
    view.update({"r": [{"id": 1, "d": None, "at": None, "zone": None}], "now()": start})
    changes = 0
    for hour in range(24):
        now = start + timedelta(hours=hour)
        changes += view.tick(now).num_rows > 0
        (row,) = view
        assert [row["d"], *(row[f"d{i}"] for i in range(3))] == [
            now.date(), *(now.astimezone(zone_of(zone)).date() for zone in zones)
        ]  # fmt: skip
    assert changes == 3


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM r WHERE DATETIME(at) < CURRENT_DATETIME('Europe/Berlin')",
        "SELECT id, CURRENT_DATE(zone) AS d FROM r",
        "SELECT id, CURRENT_DATETIME('Europe/Berlin') AS d FROM r",
    ],
)
def test_a_clock_that_goes_back_is_refused(query: str) -> None:
    with pytest.raises(PlanError, match=r"would change every row(.|\n)*the clock of a zone goes back once a year"):
        crown.view(query, SCHEMA, dialect="bigquery")
