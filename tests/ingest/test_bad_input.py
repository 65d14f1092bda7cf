"""Input that cannot be taken: an error that names relation, row and reason, and a view that is as it was before."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.errors import BadRowError, ChangeError, ConcurrentChangeError, CrownError, MemoryBudgetError, SnapshotError
from tests.engine.made import join_stats

TABLES = {
    "R": {"a": "int64", "s": "string"},
    "S": {"s": "string", "n": "int32", "d": "date", "x": "float64"},
}
QUERY = "SELECT DISTINCT a, R.s AS s, n, d, x FROM R, S WHERE R.s = S.s"
GOOD = {"R": [{"a": 1, "s": "u"}, {"a": 2, "s": "v"}]}


def part(**values: object) -> dict[str, object]:
    return {"s": "u", "n": 1, "d": None, "x": 0.5, "_weight": 1} | values


@pytest.fixture
def view() -> crown.View:
    view = crown.view(QUERY, TABLES)
    view.apply({**GOOD, "S": [part()]})
    return view


def contents(view: crown.View) -> list[str]:
    return sorted(map(repr, view.to_table().to_pylist()))


def state(view: crown.View) -> tuple[object, ...]:
    stats = {**join_stats(view), **view.stats()}
    counted = [stats[name] for name in ("rows", "groups", "r_updates", "s_updates", "p_updates", "missing_deletes")]
    return (*counted, contents(view))


BAD_ROWS: dict[str, tuple[list[dict[str, object]], int, str]] = {
    "a text for a number": ([part(), part(n="many")], 1, "'n'.*'many'"),
    "a number too large": ([part(n=2**31)], 0, "'n'.*2147483648"),
    "a fraction for an integer": ([part(), part(), part(n=1.5)], 2, "'n'.*1.5"),
    "a number for a text": ([part(s=5)], 0, "'s'"),
    "a text that is no date": ([part(d="yesterday")], 0, "'d'.*yesterday"),
    "a column missing from one row": ([part(), {"s": "u", "n": 1, "x": 0.0, "_weight": 1}], 1, "'d' is missing"),
    "a weight that is no integer": ([part(), part(_weight="two")], 1, "_weight"),
    "a weight of NULL": ([part(_weight=None)], 0, "_weight"),
    "a weight beyond 32 bits": ([part(_weight=2**40)], 0, "_weight"),
    "the smallest weight there is": ([part(), part(_weight=-(2**63))], 1, "_weight"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_stops_its_batch(case: str, view: crown.View) -> None:
    rows, position, reason = BAD_ROWS[case]
    before = state(view)
    with pytest.raises(BadRowError, match=reason) as caught:
        view.apply({"R": [{"a": 3, "s": "u", "_weight": 1}, {"a": 1, "s": "u", "_weight": -1}], "S": rows})
    assert (caught.value.relation, caught.value.row) == ("S", position)
    assert state(view) == before
    view.check_invariants()
    assert view.apply({"S": [part(n=2)]}).num_rows == 1


@pytest.mark.parametrize("case", BAD_ROWS)
def test_quarantine_takes_the_bad_row_and_nothing_else(case: str, tmp_path: Path) -> None:
    rows, position, reason = BAD_ROWS[case]
    view = crown.view(QUERY, TABLES, on_bad_row="quarantine", quarantine=tmp_path)
    view.apply({**GOOD, "S": rows})
    clean = crown.view(QUERY, TABLES)
    clean.apply({**GOOD, "S": [row for i, row in enumerate(rows) if i != position]})
    assert state(view) == state(clean)
    assert view.stats()["quarantined"] == 1
    (written,) = pq.read_table(tmp_path).to_pylist()
    assert (written["relation"], written["row"]) == ("S", position)
    assert re.search(reason, written["reason"])


def test_a_second_view_adds_to_the_quarantine_of_the_first(tmp_path: Path) -> None:
    for name in ("first", "second"):
        view = crown.view(QUERY, TABLES, on_bad_row="quarantine", quarantine=tmp_path)
        view.apply({"R": [{"a": name, "s": "u"}]})
    assert sorted(re.findall("first|second", " ".join(pq.read_table(tmp_path)["data"].to_pylist()))) == [
        "first",
        "second",
    ]


UNFIT: list[tuple[str, object]] = [
    ("int64", 1.5),
    ("int64", Decimal("3.5")),
    ("int64", 1e20),
    ("int64", True),
    ("int64", dt.date(2020, 1, 1)),
    ("int32", 2**31),
    ("bool", 1),
    ("float64", 10**400),
    ("string", 5),
    ("date", dt.datetime(2020, 1, 1, 5)),
    ("date", 18_000),
    ("timestamp", dt.date(2020, 1, 1)),
    ("timestamp", 5),
    ("timestamp_ntz", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("timestamp_ntz", pd.Timestamp("2020-01-01 00:00:00.000000001")),
    ("decimal(10,2)", 1.555),
    ("decimal(10,2)", Decimal("1.555")),
    ("decimal(10,2)", Decimal("123456789.00")),
]


@pytest.mark.parametrize("form", ["dicts", "arrow"])
@pytest.mark.parametrize(("value", "fits"), [("3", 3), ("3.00", 3), ("-7E+2", -700), ("9.3E+18", None), ("3.01", None)])
def test_a_decimal_that_is_whole_is_an_integer(value: str, fits: int | None, form: str) -> None:
    view = crown.view("SELECT DISTINCT a FROM R", {"R": {"a": "int64"}})
    rows = [{"a": Decimal(value)}]
    try:
        view.apply({"R": rows if form == "dicts" else pa.Table.from_pylist(rows)})
    except BadRowError:
        assert fits is None
    else:
        assert view.contains((fits,))


ARROW_ALTERS = {10**400, pd.Timestamp("2020-01-01 00:00:00.000000001")}  # a table made of these holds something else


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        pytest.param(kind, value, form, id=f"{kind}-{value!r:.30}-{form}")
        for kind, value in UNFIT
        for form in ("dicts", "columns", "pandas", "arrow")
        if form != "arrow" or value not in ARROW_ALTERS
    ],
)
def test_nothing_is_changed_silently(kind: str, value: object, form: str) -> None:
    view = crown.view("SELECT DISTINCT a FROM R", {"R": {"a": kind}})
    batch = {
        "dicts": lambda: [{"a": value}],
        "columns": lambda: {"a": [value]},
        "pandas": lambda: pd.DataFrame({"a": [value]}, dtype=object if value == 10**400 else None),  # pandas 2.2 raises
        "arrow": lambda: pa.table({"a": [value]}),
    }[form]()
    with pytest.raises(BadRowError, match="'a'") as caught:
        view.apply({"R": batch})
    assert caught.value.row == 0
    assert view.count() == 0


BAD_BATCHES: dict[str, tuple[Callable[[], object], str]] = {
    "an unknown relation": (lambda: {**GOOD, "T": [{"a": 1}]}, "'T'.*R, S"),
    "a column missing from all rows": (lambda: {"R": [{"a": 1}, {"a": 2}]}, "'s' is missing"),
    "no table": (lambda: {"R": 5}, "int"),
    "columns of different lengths": (lambda: {"R": {"a": [1, 2], "s": ["u"]}}, "equally long.*a has 2, s has 1"),
    "a list of tuples": (lambda: {"R": [(1, "u", 2, 3)]}, r"a row is .* or a tuple of \(a, s\) or \(a, s, _weight\)"),
    "a relation twice, in two spellings": (lambda: {"R": GOOD["R"], "r": GOOD["R"]}, "twice"),
    "a column without a conversion": (
        lambda: {"R": pa.table({"a": [[1, 2]], "s": ["u"]})},
        "'a'",
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_batch_that_is_no_batch_is_refused(case: str, view: crown.View) -> None:
    make, reason = BAD_BATCHES[case]
    before = state(view)
    with pytest.raises(ChangeError, match=reason):
        view.apply(make())
    assert state(view) == before


def test_the_smallest_integer_is_refused_and_not_taken_for_null(view: crown.View) -> None:
    before = state(view)
    with pytest.raises(BadRowError, match="reserved for NULL") as caught:
        view.apply({"R": [{"a": 1, "s": "u"}, {"a": -(2**63), "s": "u"}]})
    assert caught.value.row == 1
    assert state(view) == before


def test_an_empty_batch_is_no_change(view: crown.View) -> None:
    for nothing in ({}, {"R": []}, {"R": pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())})}):
        assert view.apply(nothing).num_rows == 0
    assert view.apply({"R": [{"a": 1, "s": "u", "_weight": 0}]}).num_rows == 0


def test_an_iterator_of_results_notices_a_change(view: crown.View) -> None:
    view.apply({"R": [{"a": a, "s": "u"} for a in range(100_000)]})
    rows = view.results()
    next(rows)
    view.apply({"R": [{"a": -5, "s": "u"}]})
    with pytest.raises(ConcurrentChangeError, match="results"):
        list(rows)


def test_nothing_else_is_done_while_deltas_are_read(view: crown.View) -> None:
    deltas = view.apply_batches({"R": [{"a": 5, "s": "u"}]}, consolidate=False)
    next(deltas)
    with pytest.raises(ConcurrentChangeError):
        view.count()
    deltas.close()
    assert view.count() == 2


@pytest.mark.parametrize("read", [0, 1])
def test_deltas_not_read_are_applied_all_the_same(view: crown.View, read: int) -> None:
    deltas = view.apply_batches({"R": [{"a": a, "s": "u"} for a in range(10, 20)]}, consolidate=False)
    for _ in range(read):
        next(deltas)
    deltas.close()
    assert view.count() == 11
    view.check_invariants()


def test_more_copies_than_can_be_counted_are_refused(view: crown.View) -> None:
    most = {"a": 7, "s": "u", "_weight": 2**31 - 1}
    assert view.apply({"R": [most]}).num_rows == 1
    before = contents(view), view.stats()["rows"]
    with pytest.raises(ChangeError, match="copies"):
        view.apply({"R": [{"a": 8, "s": "u", "_weight": 1}, {"a": 1, "s": "u", "_weight": -1}, most]})
    assert (contents(view), view.stats()["rows"]) == before
    view.check_invariants()
    assert view.apply({"R": [{**most, "_weight": -(2**31) + 1}]}).num_rows == 1


@pytest.mark.parametrize(
    "query", [QUERY, "SELECT DISTINCT a, x FROM R, S WHERE R.s = S.s", "Q(a) :- R(a, s), S(s, n, d, x)."]
)
def test_a_batch_beyond_the_memory_budget_is_undone(query: str) -> None:
    view = crown.view(query, TABLES, memory_budget=256 << 10)
    view.apply({**GOOD, "S": [part()]})
    before = contents(view), view.stats()["rows"]
    with pytest.raises(MemoryBudgetError, match="memory_budget"):
        view.apply({"R": [{"a": a, "s": "u", "_weight": 1 if a > 1 else -1} for a in range(1, 30_000)]})
    assert (contents(view), view.stats()["rows"]) == before
    view.check_invariants()
    assert view.apply({"R": [{"a": 3, "s": "u"}]}).num_rows == 1


@pytest.mark.parametrize("damage", ["foreign", "truncated", "flipped", "absent", "longer"])
def test_a_damaged_snapshot_is_refused(view: crown.View, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "view"
    view.save(path)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[-9] ^= 1
    damaged = {
        "foreign": b"PK\x03\x04" * 100,
        "truncated": data[:-64],
        "flipped": bytes(flipped),
        "longer": data + b"\0",
    }
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    with pytest.raises(SnapshotError, match="view"):
        crown.load(path)


@pytest.mark.parametrize("row", [(1,), {"a": 1}, (1, "u", "no number", None, 0.5)])
def test_contains_wants_a_row_of_the_result(view: crown.View, row: object) -> None:
    with pytest.raises(CrownError):
        view.contains(row)


BARE = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))


@pytest.mark.parametrize(
    "rows", [BARE, pa.Table.from_batches([BARE]), pd.DataFrame(index=range(3)), [{}, {}, {}]], ids=type
)
def test_rows_that_have_no_columns_are_no_empty_batch(rows: object) -> None:
    view = crown.view("SELECT a, b FROM r", {"r": {"a": "int64", "b": "string"}})
    with pytest.raises(ChangeError, match="column 'a' is missing from the batch"):
        view.apply({"r": rows})
    counted = crown.view("SELECT COUNT(*) AS n FROM r", {"r": {"a": "int64", "b": "string"}})
    counted.apply({"r": rows})
    assert counted.to_table().to_pylist() == [{"n": 3}]
