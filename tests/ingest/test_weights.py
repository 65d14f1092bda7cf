"""The column ``_weight``: one rule for every form in which a batch can come, and no look-alike taken for a remark."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, ChangeError
from plans import plan
from plans.files.rows import RowsFile

SCHEMA = {"R": {"a": "int64", "s": "string"}}
QUERY = "SELECT DISTINCT a, s FROM R"
TABLE = plan(QUERY, SCHEMA).table("R")
Rows = list[dict[str, Any]]


def _csv(rows: Rows, folder: Path) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join("" if row.get(name) is None else str(row[name]) for name in names) for row in rows]
    (folder / "r.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    return RowsFile(folder / "r.csv").rows(TABLE)


def _json(rows: Rows, folder: Path) -> pa.Table:
    (folder / "r.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RowsFile(folder / "r.json").rows(TABLE)


def _columns(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


FORMS: dict[str, Callable[[Rows, Path], Any]] = {
    "dicts": lambda rows, _: rows,
    "columns": lambda rows, _: _columns(rows),
    "arrow": lambda rows, _: pa.table(_columns(rows)),
    "pandas": lambda rows, _: pd.DataFrame(_columns(rows)),
    "csv": _csv,
    "json lines": _json,
}
TYPED = [form for form in FORMS if form not in ("csv", "json lines")]


@pytest.fixture
def view() -> crown.View:
    view = crown.view(QUERY, SCHEMA)
    view.apply({"R": [{"a": 1, "s": "x"}]})
    return view


@pytest.mark.parametrize("form", FORMS)
def test_without_the_column_every_row_is_an_insert(form: str, view: crown.View, tmp_path: Path) -> None:
    view.apply({"R": FORMS[form]([{"a": 2, "s": "x"}, {"a": 3, "s": "y"}], tmp_path)})
    assert view.count() == 3


@pytest.mark.parametrize("form", FORMS)
def test_with_the_column_weights_are_signed_copies(form: str, view: crown.View, tmp_path: Path) -> None:
    rows = [{"a": 1, "s": "x", "_weight": -1}, {"a": 2, "s": "x", "_weight": 2}, {"a": 3, "s": "x", "_weight": 0}]
    view.apply({"R": FORMS[form](rows, tmp_path)})
    assert view.to_table().to_pylist() == [{"a": 2, "s": "x"}]
    view.apply({"R": FORMS[form]([{"a": 2, "s": "x", "_weight": -1}], tmp_path)})
    assert view.count() == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rest", [{"_weight": None}, {}], ids=["null", "no key"])
def test_a_row_without_a_weight_is_bad_where_others_have_one(
    form: str, rest: dict[str, Any], view: crown.View, tmp_path: Path
) -> None:
    rows = [{"a": 1, "s": "x", "_weight": -1}, {"a": 2, "s": "x", **rest}]
    with pytest.raises(BadRowError, match="_weight is missing") as caught:
        view.apply({"R": FORMS[form](rows, tmp_path)})
    assert caught.value.row == 1
    assert view.count() == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_column_without_a_single_weight_is_no_column_of_inserts(form: str, view: crown.View, tmp_path: Path) -> None:
    with pytest.raises(BadRowError, match="_weight is missing"):
        view.apply({"R": FORMS[form]([{"a": 2, "s": "x", "_weight": None}], tmp_path)})


@pytest.mark.parametrize(
    ("form", "nothing"),
    [(form, float("nan")) for form in TYPED]
    + [(form, nothing) for form in ("dicts", "columns", "pandas") for nothing in (pd.NA, pd.NaT, Decimal("NaN"))],
    ids=str,
)
def test_nan_is_no_weight_either(form: str, nothing: Any, view: crown.View, tmp_path: Path) -> None:
    rows = [{"a": 1, "s": "x", "_weight": -1}, {"a": 2, "s": "x", "_weight": nothing}]
    with pytest.raises(BadRowError, match="_weight is missing") as caught:
        view.apply({"R": FORMS[form](rows, tmp_path)})
    assert caught.value.row == 1


def test_the_rows_without_a_weight_go_to_quarantine_and_the_others_count(tmp_path: Path) -> None:
    view = crown.view(QUERY, SCHEMA, on_bad_row="quarantine", quarantine=tmp_path)
    view.apply({"R": [{"a": 1, "s": "x", "_weight": 1}, {"a": 2, "s": "x"}, {"a": 3, "s": "x", "_weight": None}]})
    assert view.count() == 1
    assert view.stats()["quarantined"] == 2


@pytest.mark.parametrize("form", TYPED)
@pytest.mark.parametrize("weight", [-1.0, Decimal(-1), "-1", "delete"], ids=repr)
def test_a_whole_number_of_any_type_is_a_weight(form: str, weight: Any, view: crown.View, tmp_path: Path) -> None:
    view.apply({"R": FORMS[form]([{"a": 1, "s": "x", "_weight": weight}], tmp_path)})
    assert view.count() == 0


@pytest.mark.parametrize("form", TYPED)
@pytest.mark.parametrize("weight", [1.5, True, False, "upsert", "1.0", "", 2**31, float("inf")], ids=repr)
def test_nothing_else_is_a_weight(form: str, weight: Any, view: crown.View, tmp_path: Path) -> None:
    with pytest.raises(BadRowError, match="_weight") as caught:
        view.apply({"R": FORMS[form]([{"a": 2, "s": "x", "_weight": weight}], tmp_path)})
    assert caught.value.row == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_row_of_weight_zero_is_checked_all_the_same(form: str, view: crown.View, tmp_path: Path) -> None:
    with pytest.raises(BadRowError, match="'a'"):
        view.apply({"R": FORMS[form]([{"a": "many", "s": "x", "_weight": 0}], tmp_path)})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name",
    [
        "weight", "_Weight", "_WEIGHT", " _weight", "_weight ", "__weight", "_weights", "Weight", "weight_", "_wieght",
        "_weigth", "weigh", "_wegiht", "wweight", "diff", "mz_diff", "multiplicity",
    ],
)  # fmt: skip
def test_what_could_be_meant_for_the_weight_is_an_error(form: str, name: str, view: crown.View, tmp_path: Path) -> None:
    if form == "csv" and name.strip() == "_weight":  # blanks around a name in a header do not count
        view.apply({"R": FORMS[form]([{"a": 1, "s": "x", name: -1}], tmp_path)})
        assert view.count() == 0
        return
    with pytest.raises(ChangeError, match="rename it to '_weight'"):
        view.apply({"R": FORMS[form]([{"a": 1, "s": "x", name: -1}], tmp_path)})
    assert view.count() == 1


@pytest.mark.parametrize("name", ["height", "freight", "eight", "insight", "wait", "w", "different", "weighted"])
def test_a_column_of_another_word_is_left_out_without_a_word(name: str, view: crown.View) -> None:
    view.apply({"R": [{"a": 2, "s": "x", name: -1}]})
    assert view.contains({"a": 2, "s": "x"})


def test_a_declared_column_may_be_called_weight() -> None:
    view = crown.view("SELECT DISTINCT a, weight FROM R", {"R": {"a": "int64", "weight": "int64"}})
    view.apply({"R": [{"a": 1, "Weight": 5, "_weight": 1}, {"a": 2, "Weight": 6, "_weight": 1}]})
    view.apply({"R": [{"a": 1, "WEIGHT": 5, "_weight": -1}]})
    assert view.to_table().to_pylist() == [{"a": 2, "weight": 6}]


@pytest.mark.parametrize("names", [("a", "A", "s"), ("a", "s", "s"), ("a", "s", "other", "other"), ("_weight",) * 2])
def test_a_column_that_is_there_twice_is_an_error(names: tuple[str, ...], view: crown.View, tmp_path: Path) -> None:
    arrow = pa.table([pa.array(["1"])] * len(names), names=list(names))
    (tmp_path / "r.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    frame = pd.DataFrame([[1] * len(names)], columns=list(names))
    batches = [arrow, frame, RowsFile(tmp_path / "r.csv").rows(TABLE)]
    if len(set(names)) == len(names):
        batches += [{name: [1] for name in names}, [dict.fromkeys(names, 1)]]
    for batch in batches:
        with pytest.raises(ChangeError, match="two columns"):
            view.apply({"R": batch})


def test_other_columns_in_two_spellings_are_nobodys_business(view: crown.View) -> None:
    view.apply({"R": [{"a": 2, "s": "x", "note": 1, "Note": 2}]})
    assert view.count() == 2


def test_a_key_that_a_dict_lacks_is_no_null(view: crown.View, tmp_path: Path) -> None:
    view.apply({"R": [{"a": 2, "s": None}]})
    assert view.contains((2, None))
    with pytest.raises(BadRowError, match="column 's' is missing") as caught:
        view.apply({"R": [{"a": 3, "s": "x"}, {"a": 4}]})
    assert caught.value.row == 1
    with pytest.raises(ChangeError, match="column 's' is missing from the batch"):
        view.apply({"R": [{"a": 4}]})
    view.apply({"R": _json([{"a": 3, "s": "x"}, {"a": 4}], tmp_path)})  # JSON lines cannot tell the two apart
    assert view.contains((4, None))
    counted = crown.view("SELECT DISTINCT a FROM R", SCHEMA)
    counted.apply({"R": [{"a": 3, "s": "x"}, {"a": 4}]})
    assert counted.count() == 2, "a column that the query does not read may be missing"
