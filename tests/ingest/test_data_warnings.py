"""What is said once: times without a zone that are taken as UTC, and deletes that find no row."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown

NAIVE, AWARE = dt.datetime(2024, 5, 1, 12, 30), dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
EAST = AWARE.astimezone(dt.timezone(dt.timedelta(hours=2)))
TIMES = {"r": {"a": "int64", "at": "timestamp"}}
EVERY = "SELECT a, at FROM r"


@pytest.mark.parametrize(
    "form",
    [
        [(1, NAIVE), (2, EAST), (3, None)],
        [(1, EAST), (2, NAIVE), (3, None)],
        {"a": [1, 2, 3], "at": [NAIVE, NAIVE, None]},
        pa.table({"a": [1, 2, 3], "at": pa.array([NAIVE, NAIVE, None], pa.timestamp("ms"))}),
        pd.DataFrame({"a": [1, 2, 3], "at": [NAIVE, NAIVE, None]}),
        pl.DataFrame({"a": [1, 2, 3], "at": [NAIVE, NAIVE, None]}),
    ],
)
def test_times_without_a_zone_are_utc_where_a_column_holds_instants_and_that_is_said_once(form: Any) -> None:
    view = crown.view(EVERY, TIMES)
    with warnings.catch_warnings(record=True, action="always") as said:
        view.insert("r", form)
        view.insert("r", form)
    assert [warning.category for warning in said] == [crown.DataWarning]
    assert "column 'at' of r is a timestamp, and is given times without a zone" in str(said[0].message)
    assert said[0].filename == __file__, "it points at the line that gave the times"
    found = sorted((row["a"], row["at"]) for row in view if row["at"] is not None)
    assert set(found) == {(1, AWARE), (2, AWARE)}
    assert len(found) == 4
    assert view.contains({"a": 1, "at": NAIVE})
    view.delete("r", [(1, EAST)])
    assert view.count() == 5


def test_times_with_a_zone_and_missing_ones_are_taken_without_a_word() -> None:
    view = crown.view(EVERY, TIMES)
    view.insert("r", [(1, AWARE), (2, None), (3, pd.NaT), (4, pd.Timestamp(EAST)), (5, "2024-05-01 12:30:00Z")])
    assert {row["at"] for row in view} == {AWARE, None}


@pytest.mark.parametrize("text", ["2024-05-01 12:30:00", "2024-05-01T12:30", " 2024-05-01 12:30:00.000 "])
def test_a_text_without_a_zone_is_read_as_utc_as_on_spark(text: str) -> None:
    view = crown.view(EVERY, TIMES)
    view.insert("r", [(1, text)])
    view.insert("r", {"a": [2, 3, 4], "at": [text, "2024-05-01 14:30:00+02:00", None]})
    found = sorted(view, key=lambda row: row["a"])
    assert [row["at"] for row in found] == [dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)] * 3 + [None]


def test_where_warnings_are_errors_the_batch_is_refused() -> None:
    view = crown.view(EVERY, TIMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(crown.DataWarning):
                view.insert("r", [(1, NAIVE)])
    assert view.count() == 0


@pytest.mark.parametrize("bad", [dt.date(2024, 5, 1), 5, "no time", 1.5])
def test_what_is_no_time_stays_a_bad_row(bad: Any) -> None:
    with pytest.raises(crown.BadRowError, match="does not fit timestamp"):
        crown.view(EVERY, TIMES).insert("r", [(1, bad)])


ROWS: dict[str, Any] = {
    "r": {"a": "int64", "b": "int64"},
    "Upserted": {"columns": {"k": "int64", "x": "int64"}, "key": ["k"], "upserts": True},
}
QUERY = "SELECT r.a, u.x FROM r JOIN Upserted u ON r.a = u.k"


def view(folder: Path, **options: Any) -> Any:
    return crown.view(QUERY, ROWS, **options)


def grouped(folder: Path, **options: Any) -> Any:
    return crown.view("SELECT r.a, SUM(u.x) AS n FROM r JOIN Upserted u ON r.a = u.k GROUP BY r.a", ROWS, **options)


def durable(folder: Path, **options: Any) -> Any:
    return crown.open(QUERY, folder / "view", ROWS, **options)


def database(folder: Path, **options: Any) -> Any:
    made = crown.database(ROWS, **options)
    made.view("v", QUERY)
    return made


def durable_database(folder: Path, **options: Any) -> Any:
    made = crown.open_database(folder / "database", ROWS, **options)
    made.view("v", QUERY)
    return made


@pytest.mark.parametrize("make", [view, grouped, durable, database, durable_database])
def test_deletes_that_find_no_row_are_said_once_unless_that_was_chosen(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    with make(_made(tmp_path / "said")) as owner:
        owner.insert("R", [(1, 2), (3, 4)])
        owner.delete("r", [(1, 2)])
        with warnings.catch_warnings(record=True, action="always") as said:
            owner.delete("R", [(1, 2)])
            owner.delete("r", [(1, 2)])
            owner.delete("Upserted", [(1, 2)])
        assert [warning.category for warning in said] == [crown.DataWarning]
        assert str(said[0].message).startswith("a delete found no row of r: ")
        assert "A delete must have all values of the inserted row; " in str(said[0].message)
        assert said[0].filename == __file__
        assert owner.stats()["missing_deletes"]["r"] == 2
    with make(_made(tmp_path / "chosen"), on_missing="ignore") as owner, warnings.catch_warnings():
        warnings.simplefilter("error")
        owner.delete("r", [(1, 2)])
        assert owner.stats()["missing_deletes"]["r"] == 1


def test_a_batch_whose_warning_is_an_error_is_rolled_back() -> None:
    made = crown.view(QUERY, ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(crown.DataWarning, match=r"found no row of Upserted: .* the key of a row that is there"):
            made.apply({"r": [(1, 2)], "upserted": [{"k": 1, "x": 2, "_weight": -1}]})
    assert made.stats()["missing_deletes"] == {"r": 0, "Upserted": 0}
    assert made.stats()["batches"] == 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
