"""Deltas and results larger than the output buffer, groups that grow and shrink by thousands: resumption and growth."""

from __future__ import annotations

import random
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import crown
from tests.engine.made import join_stats
from tests.marks import slow

TABLES = {
    "R": {"a": "int64", "h": "int64"},
    "M": {"h": "int64", "g": "int64"},
    "S": {"g": "int64", "b": "int64"},
    "T": {"g": "int64", "c": "string"},
}
QUERY = "SELECT DISTINCT a, M.h AS h, M.g AS g, b, c FROM R, M, S, T WHERE R.h = M.h AND M.g = S.g AND M.g = T.g"


def _load(view: crown.View, n: int, m: int) -> None:
    view.apply(
        {
            "R": pa.table({"a": np.arange(n), "h": np.zeros(n, np.int64)}),
            "S": pa.table({"g": np.zeros(m, np.int64), "b": np.arange(m)}),
            "T": [{"g": 0, "c": c} for c in "xyz"],
        }
    )


def _in_order(table: pa.Table) -> pa.Table:
    """The rows, sorted by all columns: Python's tuples of as many take five times as long."""
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


@pytest.mark.filterwarnings("ignore::crown.errors.AmplifiedWarning")
@pytest.mark.parametrize(
    ("n", "m", "consolidate"),
    [
        *((300, 100, consolidate) for consolidate in (None, False, True)),
        *((1, 22_000, None), slow(1, 22_000, False), slow(1, 22_000, True)),
        *((21_846, 1, True), slow(21_846, 1, None), slow(21_846, 1, False)),
    ],
)
def test_one_update_with_more_deltas_than_the_buffer_holds(n: int, m: int, consolidate: bool | None) -> None:
    view = crown.view(QUERY, TABLES)
    _load(view, n, m)
    a, b, c = (part.ravel() for part in np.meshgrid(np.arange(n), np.arange(m), np.array([*"xyz"], object)))
    zeros = np.zeros(len(a), np.int64)
    expected = _in_order(pa.table({"a": a, "h": zeros, "g": zeros, "b": b, "c": pa.array(c, pa.string())}))
    for weight in (1, -1, 1):
        delta = view.apply({"M": [{"h": 0, "g": 0, "_weight": weight}]}, consolidate=consolidate)
        assert delta["_weight"].unique().to_pylist() == [weight]
        assert _in_order(delta.drop_columns("_weight")).equals(expected)
    assert view.count() == len(expected)
    assert _in_order(view.to_table()).equals(expected)
    assert view.to_table(limit=70_001).num_rows == min(70_001, len(expected))
    view.check_invariants()


NOON = datetime(2026, 1, 2, 12)
WORDS = {
    "R": {"a": "int64", "h": "int64"},
    "S": {"h": "int64", "at": "timestamp_ntz"},
    "T": {"h": "int64", "x": "float64"},
}


@pytest.mark.filterwarnings("ignore::crown.errors.AmplifiedWarning")
@pytest.mark.parametrize("null", [None, slow(0), 69_999])
def test_deltas_in_words_stay_as_they_are_however_long_a_reader_keeps_them(null: int | None) -> None:
    view = crown.view("SELECT DISTINCT x, R.h, at, a FROM R, S, T WHERE R.h = S.h AND R.h = T.h", WORDS)
    xs = pa.array(np.arange(70_000.0), mask=np.arange(70_000) == null)
    view.update({"R": [{"a": 4, "h": 1}], "T": pa.table({"h": np.ones(len(xs), np.int64), "x": xs})})
    for weight in (1, -1, 1):
        kept = list(view.apply_batches({"S": [{"h": 1, "at": NOON, "_weight": weight}]}))  # many buffers at a time
        assert len(kept) > 3
        table = pa.Table.from_batches(kept)
        table.validate(full=True)
        for name, value in (("_weight", weight), ("a", 4), ("at", NOON)):
            assert table[name].unique().to_pylist() == [value]
        assert table["x"].combine_chunks().sort().equals(xs.sort())
    view.check_invariants()


def test_each_row_of_a_large_group_is_a_witness_in_turn() -> None:
    view = crown.view(QUERY, TABLES)
    _load(view, 50, 40)
    view.apply({"M": [{"h": 0, "g": 0}]})
    gone = view.apply({"R": pa.table({"a": np.arange(50), "h": np.zeros(50, np.int64), "_weight": np.full(50, -1)})})
    assert gone.num_rows == 50 * 40 * 3
    assert view.count() == 0
    view.check_invariants()


def test_residual_predicates_and_support_over_many_blocks() -> None:
    tables = {"R": {"a": "int64", "k": "int64"}, "S": {"k": "int64", "b": "int64"}}
    view = crown.view("SELECT DISTINCT a FROM R, S WHERE R.k = S.k AND a < b AND a + b <> 5", tables)
    n = 500
    view.apply({"R": pa.table({"a": np.arange(n), "k": np.zeros(n, np.int64)})})
    delta = view.apply({"S": pa.table({"k": np.zeros(n, np.int64), "b": np.arange(n)})})
    assert sorted(delta["a"].to_pylist()) == list(range(n - 1))
    assert view.count() == n - 1
    gone = view.apply({"S": [{"k": 0, "b": n - 1, "_weight": -1}]})
    assert gone.to_pylist() == [{"a": n - 2, "_weight": -1}]


def test_tables_grow_by_thousands_and_shrink_to_nothing() -> None:
    source = random.Random(5)
    view = crown.view(QUERY, TABLES)
    initial = view.stats()["live_bytes"]
    rows = {
        "R": [(a, source.randrange(300)) for a in range(20_000)],
        "M": [(h, source.randrange(200)) for h in range(300)],
        "S": [(source.randrange(200), b) for b in range(200)],
        "T": [(g, f"name {g}") for g in range(200)],
    }
    order = [(name, row) for name in rows for row in rows[name]]
    for weight in (1, -1):
        source.shuffle(order)
        for start in range(0, len(order), 4_000):
            batch: dict[str, list[dict[str, object]]] = {}
            for name, row in order[start : start + 4_000]:
                batch.setdefault(name, []).append({**dict(zip(TABLES[name], row, strict=True)), "_weight": weight})
            view.apply(batch)
        if weight > 0:
            view.check_invariants()
            assert view.count() > 0
    view.compact()
    stats = view.stats()
    assert not any([*stats["rows"].values(), *join_stats(view)["groups"].values(), stats["dictionary"]])
    assert stats["live_bytes"] == initial
    view.check_invariants()
