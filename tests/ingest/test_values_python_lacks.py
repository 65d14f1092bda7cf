"""Values that a column can hold, and Python cannot: they are maintained, and a refusal that names one is a refusal."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.errors import AmplifiedWarning, BadRowError, ChangeError, DuplicateKeyError, LateRowError, MissingDeleteError
from crown.results.html_table import delta
from crown.store.display import all_shown, rows_shown

DAY, NOON = date(2026, 1, 1), datetime(2026, 1, 1, 12)
FAR = 2**62  # microseconds: in the year 148109
VALUES = {
    "timestamp_ntz": pa.array([FAR], pa.timestamp("us")),
    "timestamp": pa.array([FAR], pa.timestamp("us", "UTC")),
    "date": pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
    "string": pa.array([b"\xff!"], pa.binary()).view(pa.string()),
}
SAID = {"timestamp_ntz": str(FAR), "timestamp": str(FAR), "date": str(2**31 - 1), "string": r"\\xff!"}
KINDS = pytest.mark.parametrize("kind", sorted(VALUES))


def schema(kind: str) -> dict[str, dict[str, str]]:
    return {"r": {"t": kind, "a": "int64"}}


def rows(kind: str, **more: list[Any]) -> dict[str, pa.Table]:
    """Rows with that value and ``more`` columns."""
    n = len(next(iter(more.values())))
    return {"r": pa.table({"t": pa.concat_arrays([VALUES[kind]] * n), **more})}


@KINDS
@pytest.mark.parametrize(
    ("query", "options", "first", "second", "error"),
    [
        ("SELECT t, a FROM r", {"on_missing": "raise"}, {"a": [2]}, {"a": [1], "_weight": [-1]}, MissingDeleteError),
        ("SELECT DISTINCT t, a FROM r", {"on_missing": "raise"}, {"a": [2]}, {"a": [1], "_weight": [-1]},
         MissingDeleteError),
        ("SELECT t, SUM(a) AS s FROM r GROUP BY t", {}, {"a": [2**62]}, {"a": [2**62]}, ChangeError),
        ("SELECT t, COUNT(*) AS n FROM r GROUP BY t", {"on_missing": "trust"}, {"a": [1]},
         {"a": [1, 2], "_weight": [-1, -1]}, ChangeError),
        ("SELECT t, a FROM r", {}, {"a": [1]}, {"a": [1.5]}, BadRowError),
    ],
)  # fmt: skip
def test_a_refusal_names_it_and_the_view_is_as_before(
    kind: str, query: str, options: dict[str, Any], first: dict[str, Any], second: dict[str, Any], error: type
) -> None:
    view = crown.view(query, schema(kind), **options)
    view.apply(rows(kind, **first))
    before = view.to_table()
    with pytest.raises(error) as refused:
        view.apply(rows(kind, **second))
    if error is not BadRowError:
        assert SAID[kind] in str(refused.value)
    assert view.to_table().equals(before)
    assert view.apply(rows(kind, a=[3])).num_rows >= 1
    view.check_invariants()


@KINDS
def test_an_enforced_key_of_it_is_enforced(kind: str) -> None:
    view = crown.view("SELECT t, a FROM r", {"r": {"columns": schema(kind)["r"], "key": ["t"], "enforced": True}})
    view.apply(rows(kind, a=[1]))
    with pytest.raises(DuplicateKeyError) as refused:
        view.apply(rows(kind, a=[2]))
    assert SAID[kind] in str(refused.value)
    assert view.count() == 1


@KINDS
def test_one_bad_row_goes_to_the_quarantine_alone(kind: str, tmp_path: Path) -> None:
    view = crown.view("SELECT t, a FROM r", schema(kind), on_bad_row="quarantine", quarantine=tmp_path)
    assert view.apply(rows(kind, a=[1.5, 2.0])).num_rows == 1
    (file,) = (one for one in tmp_path.rglob("*") if one.is_file())
    assert SAID[kind] in str(pq.read_table(file).to_pylist()).replace("\\\\\\\\", "\\\\")


@KINDS
def test_a_batch_that_is_amplified_by_it_is_told_of(kind: str) -> None:
    query = "SELECT x.t, x.a, y.a AS b FROM r x, r y WHERE x.t = y.t"
    view = crown.view(query, schema(kind))
    view.amplified_beyond = 10
    with pytest.warns(AmplifiedWarning, match="t"):
        found = view.apply(rows(kind, a=list(range(50))))
    assert found.num_rows == view.count() == 2500
    assert SAID[kind].replace("\\\\", "\\") in view.explain(analyze=True).replace("\\\\", "\\")
    assert "2,480 more" in str(delta(found))


@pytest.mark.parametrize("kind", ["timestamp_ntz", "timestamp", "date"])
def test_a_watermark_that_far_is_reached_and_said(kind: str) -> None:
    view = crown.view("SELECT t, a FROM r", schema(kind), windows={"r": crown.ttl("t", "2 days", late="raise")})
    view.apply(rows(kind, a=[1]))
    assert SAID[kind] in str(view.stats()["windows"]["r"]["watermark"])
    early: Any = {"date": DAY, "timestamp_ntz": NOON, "timestamp": NOON.replace(tzinfo=UTC)}
    with pytest.raises(LateRowError, match=SAID[kind]):
        view.apply({"r": [{"t": early[kind], "a": 1}]})


def test_seconds_that_are_too_many_microseconds_are_a_bad_row() -> None:
    view = crown.view("SELECT t FROM r", {"r": {"t": "timestamp"}})
    with pytest.raises(BadRowError, match="does not fit timestamp"):
        view.apply({"r": pa.table({"t": pa.array([2**60], pa.timestamp("s", "UTC"))})})


def test_what_is_shown_of_values_within_others() -> None:
    both = pa.StructArray.from_arrays([VALUES["string"], VALUES["date"]], ["s", "d"])
    assert all_shown(both) == [{"s": r"\xff!", "d": "2147483647 (date32[day])"}]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1]), VALUES["string"])
    assert all_shown(lists) == [[r"\xff!"], []]
    assert all_shown(pa.chunked_array([VALUES["string"], pa.array([None, "a"])])) == [r"\xff!", None, "a"]
    assert rows_shown(pa.table({"s": VALUES["string"], "n": [1]})) == [{"s": r"\xff!", "n": 1}]
    assert rows_shown(pa.table({"n": [1]})) == [{"n": 1}]
