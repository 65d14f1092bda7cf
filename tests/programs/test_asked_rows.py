"""What a view is asked of a row: values fit as those of batches must, and one that it has never seen is in no row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import ChangeError

TYPES = {
    "id": "int64",
    "name": "string",
    "code": "binary",
    "sum": "decimal(30,2)",
    "born": "date",
    "at": "timestamp_ntz",
}
THERE: dict[str, Any] = {
    "id": 1, "name": "abc", "code": b"abc", "sum": Decimal("1.00"), "born": dt.date(2020, 1, 1),
    "at": dt.datetime(2020, 1, 1),
}  # fmt: skip
OTHER = {**THERE, "id": 2, "name": "other", "code": b"other", "sum": Decimal("2.00")}
FORMS = {
    "a bag": "SELECT {c} FROM r",
    "a set": "SELECT DISTINCT {c} FROM r",
    "a join": "SELECT x.{c} FROM r x, r y WHERE x.id = y.id",
    "a projection": "SELECT DISTINCT x.{c} FROM r x, r y WHERE x.id = y.id",
    "groups": "SELECT {c} FROM r GROUP BY {c}",
    "an outer join": "SELECT x.{c} FROM r x LEFT JOIN r y ON x.id = y.id AND x.born < y.born",
    "a difference": "SELECT {c} FROM r EXCEPT SELECT {c} FROM r WHERE id > 7",
    "the first rows": "SELECT {c} FROM r ORDER BY {c} LIMIT 3",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", TYPES)
def test_a_value_that_no_row_has_is_in_none(form: str, column: str) -> None:
    view = crown.view(FORMS[form].replace("{c}", column), {"r": TYPES})
    assert {column: THERE[column]} not in view
    view.apply({"r": [THERE]})
    assert view.multiplicity({column: THERE[column]}) == 1
    assert {column: THERE[column]} in view
    assert {column: None} not in view
    if OTHER[column] != THERE[column]:
        assert view.multiplicity({column: OTHER[column]}) == 0
        assert {column: OTHER[column]} not in view
    view.apply({"r": [{**THERE, "_weight": -1}]})
    assert {column: THERE[column]} not in view


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", 1.5), ("id", True), ("id", 2**63), ("id", -(2**63)), ("id", "x"), ("born", dt.datetime(2020, 1, 1, 1)),
        ("sum", 1.005), ("sum", Decimal("1.005")), ("name", 1), ("at", dt.date(2020, 1, 1).isoformat() + "x"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(form: str, column: str, value: Any) -> None:
    view = crown.view(FORMS[form].replace("{c}", column), {"r": TYPES})
    view.apply({"r": [THERE]})
    for ask in (view.multiplicity, view.contains):
        with pytest.raises(ChangeError, match=r"does not fit|is reserved for NULL"):
            ask({column: value})


def test_the_row_of_a_group_is_asked_for_likewise() -> None:
    view = crown.view("SELECT name, id, COUNT(*) AS n FROM r GROUP BY name, id", {"r": TYPES})
    view.apply({"r": [THERE]})
    assert view.get({"name": "abc", "id": 1}) == {"name": "abc", "id": 1, "n": 1}
    assert view.get({"name": "other", "id": 1}) is None
    with pytest.raises(ChangeError, match=r"output column 'id': 1\.5 does not fit int64"):
        view.get({"name": "abc", "id": 1.5})
    with pytest.raises(ChangeError, match="reserved for NULL"):
        view.get({"name": "abc", "id": -(2**63)})


def test_rows_are_found_by_values_that_python_has_not() -> None:
    far = pa.array([2**62], pa.timestamp("us"))
    view = crown.view(
        "SELECT x.at, x.id FROM r x, r y WHERE x.id = y.id", {"r": {"id": "int64", "at": "timestamp_ntz"}}
    )
    view.apply({"r": pa.table({"id": [1], "at": far})})
    assert view.count() == 1
    assert {"id": 1, "at": dt.datetime(2020, 1, 1)} not in view


def test_a_watermark_cannot_be_the_number_that_stands_for_null() -> None:
    view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}}, windows={"r": crown.ttl("a", 5)})
    with pytest.raises(ChangeError, match=r"relation 'r': the int64 value .* is reserved for NULL"):
        view.advance("r", -(2**63))
